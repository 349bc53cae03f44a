"""FedProx: clients are held near the model they started from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Local, Paper, State
from noniid.errors import BadInput
from noniid.rows import plus


@dataclass(frozen=True)
class FedProx(Algorithm):
    """F_i(w) + mu/2 |w - w^t|^2, the term differentiated with the loss."""

    mu: float = 0.01

    only_mean: ClassVar[bool] = True
    paper: ClassVar[Paper] = Paper(
        "Federated Optimization in Heterogeneous Networks",
        "Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith",
        2020,
        "https://arxiv.org/abs/1812.06127",
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not self.mu >= 0:
            raise BadInput(f"fedprox's mu is {self.mu:g}: give 0 (FedAvg) or more.")
        return State(w)

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return plus(g, self.mu, local.w - local.start)
