"""Client optimisers as elementwise steps on rows.

Shapes: `...` is nothing for one client or C for a stacked wave; T trainable parameters. The same code steps one flat
buffer `[T]` and a whole wave `[C, T]`. SGD knows its own effective number of steps (FedNova's ||a||_1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from noniid.errors import BadInput
from noniid.spec import Registry


@dataclass(frozen=True)
class Optimiser(ABC):
    """What a client steps with. Subclasses are frozen dataclasses whose first field is `lr`."""

    lr: float = 0.01

    def check(self) -> None:
        """Raise BadInput for values that make no sense."""
        if not self.lr >= 0:
            raise BadInput(f"lr is {self.lr:g}: give a learning rate of 0 or more.")

    @abstractmethod
    def init(self, w: Tensor) -> dict[str, Tensor]:
        """The state of a client that has not stepped yet."""

    @abstractmethod
    def step_(self, w: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        """One step in place on `w` and `state`; `g` is left as it is, for it may be shared."""

    @property
    def as_sgd(self) -> tuple[float, float, float, bool] | None:
        """Learning rate, momentum, weight decay, Nesterov's or not; None for what is not SGD."""
        return None

    def effective_steps(self, steps: Tensor) -> Tensor:
        """||a||_1 of FedNova: the sum of the weights with which `steps` gradients enter the final movement."""
        name = OPTIMISERS.name_of(self)
        raise BadInput(
            f"with {name} nobody knows how much a gradient counts in the end, and this algorithm divides by it: "
            "use sgd, or its variant that counts steps."
        )


def _step(w: Tensor, direction: Tensor, lr: float | Tensor) -> None:
    """w -= lr * direction. An engine may put a tensor in place of a rate: another rate is then the same program."""
    w.addcmul_(direction, lr, value=-1) if isinstance(lr, Tensor) else w.add_(direction, alpha=-lr)


def _step_over(w: Tensor, direction: Tensor, root: Tensor, lr: float | Tensor) -> None:
    """w -= lr * direction / root."""
    if isinstance(lr, Tensor):
        w.addcdiv_(direction * lr, root, value=-1)
    else:
        w.addcdiv_(direction, root, value=-lr)


def _share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise BadInput(f"{name} is {value:g}: give a value from 0 up to, not including, 1.")


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise BadInput(f"{name} is {value:g}: give a number above 0.")


def _decay(value: float) -> None:
    if not value >= 0:
        raise BadInput(f"weight decay is {value:g}: give 0 or more.")


@dataclass(frozen=True)
class SGD(Optimiser):
    """Stochastic gradient descent with momentum, as torch.optim.SGD without dampening."""

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def check(self) -> None:
        super().check()
        _share("momentum", self.momentum)
        _decay(self.weight_decay)
        if self.nesterov and not self.momentum:
            raise BadInput("nesterov looks ahead along the momentum, and momentum is 0: give one above 0.")

    def init(self, w: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(w)} if self.momentum else {}

    def step_(self, w: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        if self.weight_decay:
            g = torch.add(g, w, alpha=self.weight_decay)
        if self.momentum:
            buffer = state["momentum"].mul_(self.momentum).add_(g)
            g = torch.add(g, buffer, alpha=self.momentum) if self.nesterov else buffer
        _step(w, g, self.lr)

    @property
    def as_sgd(self) -> tuple[float, float, float, bool] | None:
        return float(self.lr), float(self.momentum), float(self.weight_decay), self.nesterov

    def effective_steps(self, steps: Tensor) -> Tensor:
        """||a||_1 of FedNova.

        With momentum rho a gradient seen k steps before the end counts 1 + rho + ... + rho^(k-1), so
        a = sum_k (1 - rho^k) / (1 - rho). Nesterov's look ahead is one more term of that sum for each.

        >>> SGD(momentum=0.5).effective_steps(torch.tensor([1, 2, 3])).tolist()   # 1; 1+1.5; 1+1.5+1.75
        [1.0, 2.5, 4.25]
        >>> SGD(momentum=0.5, nesterov=True).effective_steps(torch.tensor([1, 2])).tolist()   # 1.5; 1.5+1.75
        [1.5, 3.25]
        """
        tau = steps.to(torch.float64)
        rho = self.momentum
        ahead = 1 if self.nesterov else 0  # (1 - rho^(k + ahead)) / (1 - rho), summed over k = 1..tau
        a = (tau - rho ** (1 + ahead) * (1 - rho**tau) / (1 - rho)) / (1 - rho)
        return a.to(torch.float32)


@dataclass(frozen=True)
class RMSProp(Optimiser):
    """Steps divided by the root of a running mean of squares, as torch.optim.RMSprop."""

    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0

    def check(self) -> None:
        super().check()
        _share("rmsprop's alpha", self.alpha)
        _positive("rmsprop's eps", self.eps)
        _decay(self.weight_decay)

    def init(self, w: Tensor) -> dict[str, Tensor]:
        return {"square": torch.zeros_like(w)}

    def step_(self, w: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        if self.weight_decay:
            g = torch.add(g, w, alpha=self.weight_decay)
        square = state["square"].mul_(self.alpha).addcmul_(g, g, value=1 - self.alpha)
        _step_over(w, g, square.sqrt().add_(self.eps), self.lr)


@dataclass(frozen=True)
class Adam(Optimiser):
    """Kingma and Ba's, with bias correction, as torch.optim.Adam."""

    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def check(self) -> None:
        super().check()
        _share("adam's beta1", self.beta1)
        _share("adam's beta2", self.beta2)
        _positive("adam's eps", self.eps)
        _decay(self.weight_decay)

    def init(self, w: Tensor) -> dict[str, Tensor]:
        return {"mean": torch.zeros_like(w), "square": torch.zeros_like(w), "count": w.new_zeros(*w.shape[:-1], 1)}

    def step_(self, w: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        if self.weight_decay:
            g = torch.add(g, w, alpha=self.weight_decay)
        count = state["count"].add_(1)
        mean = state["mean"].mul_(self.beta1).add_(g, alpha=1 - self.beta1)
        square = state["square"].mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
        root = (square / (1 - self.beta2**count)).sqrt_().add_(self.eps)
        _step_over(w, mean / (1 - self.beta1**count), root, self.lr)


OPTIMISERS: Registry[Optimiser] = Registry("optimiser", {"sgd": SGD, "rmsprop": RMSProp, "adam": Adam})
