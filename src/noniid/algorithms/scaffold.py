"""SCAFFOLD: each client's drift is estimated by control variates and taken out of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Local, Paper, State, Update, Wave
from noniid.rows import column


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Steps along g - c_i + c; afterwards c_i is the client's mean gradient, c the mean of all c_i.

    The defaults are the paper's Algorithm 1. The other values are what NIID-Bench's published numbers came from:
    `variates=random-net, share=cohort, correct=after-step`.
    """

    # (i): the full local gradient at w^t, one more pass; (ii): from the movement, free.
    option: Literal["i", "ii"] = "ii"
    # NIID-Bench starts every variate at one random network. It cancels when all clients take part; when few do,
    # each newcomer is pushed along that network.
    variates: Literal["zero", "random-net"] = "zero"
    # c moves by the mean over all N clients; the published code divided by the cohort.
    share: Literal["all", "cohort"] = "all"
    # The published code corrects after the optimiser's step, outside its momentum.
    correct: Literal["gradient", "after-step"] = "gradient"

    down: ClassVar[tuple[str, ...]] = ("c",)
    up: ClassVar[tuple[str, ...]] = ("c",)
    paper: ClassVar[Paper] = Paper(
        "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
        "Karimireddy, Kale, Mohri, Reddi, Stich, Suresh",
        2020,
        "https://arxiv.org/abs/1910.06378",
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        c = w.new_zeros(w.shape) if self.variates == "zero" else federation.random_model()
        return State(w, server={"c": c}, memory={"c": c.expand(federation.num_clients, -1)})

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g + (local.shared["c"] - local.memory["c"]) if self.correct == "gradient" else g

    def after(self, w: Tensor, local: Local) -> Tensor:
        if self.correct == "gradient":
            return w
        return w - local.optim.lr * (local.shared["c"] - local.memory["c"])

    def update(self, state: State, wave: Wave) -> Update:
        c, c_i = state.server["c"], wave.memory["c"]
        c_i_new = wave.ask.grad(wave.start) if self.option == "i" else c_i - c + self._mean_step(wave)
        clients = state.memory["c"].shape[0] if self.share == "all" else len(wave.ids)
        c_new = c + (c_i_new - c_i).sum(0) / clients
        return Update(wave.mean(), server={"c": c_new}, memory={"c": c_i_new})

    def _mean_step(self, wave: Wave) -> Tensor:
        """(w^t - w_i) / (K lr): the mean of the gradients stepped along.

        With momentum a gradient counts more than once in the movement, so K is the optimiser's effective number of
        steps; without it K is the paper's. A correction made outside the momentum buffer must be divided by the
        plain count, because it is applied once per step.
        """
        steps = wave.effective_steps() if self.correct == "gradient" else wave.steps
        rate = wave.optim.lr or 1.0  # at rate 0 nothing moved, and 0 / 1 says so
        return (wave.start - wave.end) / column(steps * rate, wave.end)
