"""FedAvgM: the server moves with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Paper, State, Update, Wave
from noniid.errors import BadInput


@dataclass(frozen=True)
class FedAvgM(Algorithm):
    """v <- beta v + delta;  w <- w + delta + beta v, where delta is the clients' mean movement."""

    beta: float = 0.9
    # The paper prints the plain rule, w + v; its experiments ran Nesterov's.
    nesterov: bool = True

    only_mean: ClassVar[bool] = True
    paper: ClassVar[Paper] = Paper(
        "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
        "Hsu, Qi, Brown",
        2019,
        "https://arxiv.org/abs/1909.06335",
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not 0 <= self.beta < 1:
            raise BadInput(f"fedavgm's beta is {self.beta:g}: give a value from 0 (FedAvg) up to, not including, 1.")
        return State(w, server={"v": w.new_zeros(w.shape)})

    def update(self, state: State, wave: Wave) -> Update:
        delta = wave.mean() - state.w
        v = self.beta * state.server["v"] + delta
        step = delta + self.beta * v if self.nesterov else v
        return Update(wave.with_mean_statistics(state.w + step), server={"v": v})
