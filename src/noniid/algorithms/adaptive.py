"""Adaptive Federated Optimization: the server takes the clients' mean movement for a gradient.

m <- b1 m + (1 - b1) delta;  w <- w + lr m / (sqrt(v) + tau), without bias correction. The three differ in v.
delta is weighted by size, as in the paper's experiments; its box has the plain mean (`--wrap uniform`).
(RADFed's Algorithm 2 prints v without its root; that is a slip.)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Paper, State, Update, Wave
from noniid.errors import BadInput


@dataclass(frozen=True)
class Adaptive(Algorithm):
    """Abstract: `squares` says what v becomes."""

    lr: float = 0.01
    beta1: float = 0.9
    tau: float = 1e-3  # how adaptive: the smaller, the more the values' own scales count
    v_init: float = 0.0

    only_mean: ClassVar[bool] = True
    paper: ClassVar[Paper] = Paper(
        "Adaptive Federated Optimization",
        "Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan",
        2021,
        "https://arxiv.org/abs/2003.00295",
    )

    @abstractmethod
    def squares(self, v: Tensor, delta: Tensor) -> Tensor:
        """The new v."""

    def init(self, w: Tensor, federation: Federation) -> State:
        self.check()
        return State(w, server={"m": w.new_zeros(w.shape), "v": w.new_full(w.shape, self.v_init)})

    def check(self) -> None:
        if not (self.lr >= 0 and 0 <= self.beta1 < 1 and self.tau > 0 and self.v_init >= 0):
            raise BadInput(
                "an adaptive server takes lr >= 0, beta1 from 0 to below 1, tau > 0 and v_init >= 0, not "
                f"lr={self.lr:g}, beta1={self.beta1:g}, tau={self.tau:g}, v_init={self.v_init:g}."
            )

    def update(self, state: State, wave: Wave) -> Update:
        delta = wave.mean() - state.w
        m = self.beta1 * state.server["m"] + (1 - self.beta1) * delta
        v = self.squares(state.server["v"], delta)
        w = state.w + self.lr * m / (v.sqrt() + self.tau)
        return Update(wave.with_mean_statistics(w), server={"m": m, "v": v})


@dataclass(frozen=True)
class FedAdagrad(Adaptive):
    """v <- v + delta^2."""

    beta1: float = 0.0

    def squares(self, v: Tensor, delta: Tensor) -> Tensor:
        return v + delta.square()


@dataclass(frozen=True)
class FedAdam(Adaptive):
    """v <- b2 v + (1 - b2) delta^2."""

    beta2: float = 0.99

    def check(self) -> None:
        super().check()
        _check_beta2(self.beta2)

    def squares(self, v: Tensor, delta: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * delta.square()


@dataclass(frozen=True)
class FedYogi(Adaptive):
    """v <- v - (1 - b2) delta^2 sign(v - delta^2)."""

    beta2: float = 0.99

    def check(self) -> None:
        super().check()
        _check_beta2(self.beta2)

    def squares(self, v: Tensor, delta: Tensor) -> Tensor:
        square = delta.square()
        return v - (1 - self.beta2) * square * (v - square).sign()


def _check_beta2(beta2: float) -> None:
    if not 0 <= beta2 < 1:
        raise BadInput(f"beta2 is {beta2:g}: give a value from 0 up to, not including, 1.")
