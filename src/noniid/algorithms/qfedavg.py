"""q-FedAvg: clients with a higher loss count for more, so that accuracies come out more equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Paper, State, Update, Wave
from noniid.errors import BadInput
from noniid.rows import column, squared_norm

_STABLE = 1e-10


@dataclass(frozen=True)
class QFedAvg(Algorithm):
    """w <- w - sum_k D_k / sum_k h_k, with D = F^q g, h = q F^(q-1) |g|^2 + L F^q, g = L (w - w_k), L = 1 / lr.

    F is a client's loss on all its training data at w.
    """

    q: float = 1.0
    # The code of rFedAvg takes L = 1 and puts D in place of g into h: `rfedavg-code`. (Its F leaves out short batches.)
    variant: Literal["original", "rfedavg-code"] = "original"

    paper: ClassVar[Paper] = Paper(
        "Fair Resource Allocation in Federated Learning",
        "Li, Sanjabi, Beirami, Smith",
        2020,
        "https://arxiv.org/abs/1905.10497",
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not self.q >= 0:
            raise BadInput(f"qfedavg's q is {self.q:g}: give 0 (all clients count the same) or more.")
        return State(w)

    def update(self, state: State, wave: Wave) -> Update:
        original = self.variant == "original"
        lipschitz = 1 / (wave.optim.lr or 1.0) if original else 1.0  # at rate 0 nothing moves
        loss = wave.ask.loss(wave.start).to(wave.end) + _STABLE
        g = lipschitz * (wave.start - wave.end)
        d = column(loss**self.q, g) * g
        size = squared_norm((g if original else d)[:, : wave.num_trainable])
        h = self.q * loss ** (self.q - 1) * size + lipschitz * loss**self.q
        return Update(wave.with_mean_statistics(state.w - d.sum(0) / h.sum()))
