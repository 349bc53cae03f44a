"""FedNova: clients that took more steps do not count for more than their share of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from noniid.algorithms.base import Algorithm, Paper, State, Update, Wave


@dataclass(frozen=True)
class FedNova(Algorithm):
    """w <- w - (sum_i p_i a_i) sum_i p_i (w - w_i) / a_i."""

    # a_i: momentum weighs the gradients of one client unequally, and ||a_i||_1 counts that; `count` is a_i = tau_i,
    # as in NIID-Bench's first version.
    steps: Literal["effective", "count"] = "effective"
    # p_i: `batches` is what NIID-Bench's published numbers were weighted by.
    weights: Literal["samples", "batches"] = "samples"

    paper: ClassVar[Paper] = Paper(
        "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
        "Wang, Liu, Liang, Joshi, Poor",
        2020,
        "https://arxiv.org/abs/2007.07481",
    )

    def update(self, state: State, wave: Wave) -> Update:
        a = self._a(wave)
        p = wave.weights if self.weights == "samples" else (wave.steps / wave.steps.sum()).to(a)
        return Update(wave.with_mean_statistics(state.w - (p @ a) * ((p / a) @ (wave.start - wave.end))))

    def _a(self, wave: Wave) -> Tensor:
        steps = wave.effective_steps() if self.steps == "effective" else wave.steps
        return steps.to(wave.end)
