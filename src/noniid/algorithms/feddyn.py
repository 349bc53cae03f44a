"""FedDyn: each client's objective is bent so that, in the end, all clients' optima are the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Local, Paper, State, Update, Wave
from noniid.errors import BadInput


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """Clients minimise F_k(w) - <l_k, w> + alpha/2 |w - w^t|^2, then l_k <- l_k - alpha (w_k - w^t).

    The server: h <- h - alpha/N sum_k (w_k - w^t);  w <- mean of w_k - h / alpha, all of a wave counting the same.
    """

    alpha: float = 0.01

    up: ClassVar[tuple[str, ...]] = ()  # l_k stays with its client: its change is known from the model
    paper: ClassVar[Paper] = Paper(
        "Federated Learning Based on Dynamic Regularization",
        "Acar, Zhao, Navarro, Mattina, Whatmough, Saligrama",
        2021,
        "https://arxiv.org/abs/2111.04263",
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not self.alpha > 0:
            raise BadInput(f"feddyn's alpha is {self.alpha:g}: give a number above 0.")
        zero = w.new_zeros(w.shape)
        return State(w, server={"h": zero}, memory={"l": zero.expand(federation.num_clients, -1)})

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g - local.memory["l"] + self.alpha * (local.w - local.start)

    def update(self, state: State, wave: Wave) -> Update:
        moved = wave.end - wave.start
        h = state.server["h"] - self.alpha * moved.sum(0) / len(state.memory["l"])
        w = wave.end.mean(0) - h / self.alpha
        return Update(
            wave.with_mean_statistics(w), server={"h": h}, memory={"l": wave.memory["l"] - self.alpha * moved}
        )
