"""RADFed: models travel from client to client for S rounds before they are averaged.

Shapes: m models in flight, as many as clients in a cohort.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from noniid.algorithms.adaptive import Adaptive, FedAdagrad, FedAdam, FedYogi
from noniid.algorithms.base import Algorithm, Federation, Local, Paper, Pick, State, Update, Wave
from noniid.algorithms.fedprox import FedProx
from noniid.errors import BadInput


@dataclass(frozen=True)
class Delayed(Algorithm):
    """Abstract: in every round each of m models is trained by another client, at random; every S-th round they are
    aggregated and all m begin anew. In between, the model that is tested is their mean."""

    redistributions: int = 15  # S

    paper: ClassVar[Paper] = Paper(
        "Aggregation Delayed Federated Learning", "Xue, Klabjan, Luo", 2021, "https://github.com/yxsub/RADFed"
    )

    def aggregated(self, state: State, wave: Wave) -> Update:
        """The global model from the m models, `wave.end`. All count the same, so no size is ever told."""
        return Update(wave.mean())

    def init(self, w: Tensor, federation: Federation) -> State:
        if self.redistributions < 1:
            raise BadInput(f"redistributions is {self.redistributions}: give 1 (aggregate every round) or more.")
        return State(w, server={"models": w.repeat(federation.cohort, 1)})

    def start(self, state: State, wave: Wave) -> Wave:
        models = state.server["models"]
        if len(models) != len(wave.ids):
            raise BadInput(
                f"{len(models)} models are in flight and {len(wave.ids)} clients take part: "
                "radfed needs a cohort of the same size in every round."
            )
        return wave._replace(start=models[torch.as_tensor(wave.rng.permutation(len(models)))])

    def update(self, state: State, wave: Wave) -> Update:
        if (state.round + 1) % self.redistributions:
            return Update(state.w, server={"models": wave.end})
        same = torch.full_like(wave.weights, 1 / len(wave.ids))
        update = self.aggregated(state, wave._replace(weights=same, start=state.w.expand_as(wave.end)))
        models = update.w.repeat(len(wave.ids), 1)
        return replace_server(update, models=models)

    def evaluated(self, state: State) -> Tensor:
        return state.server["models"].mean(0)


def replace_server(update: Update, **entries: Tensor) -> Update:
    """The update with these entries of the server, too."""
    return update._replace(server={**update.server, **entries})


@dataclass(frozen=True)
class RADFed(Delayed):
    """w <- the mean of m models, each trained by S clients one after the other."""


@dataclass(frozen=True)
class RADFedP(Delayed):
    """With FedProx's term at the clients; they are held near the model received, not the last aggregate."""

    mu: float = 0.01

    def init(self, w: Tensor, federation: Federation) -> State:
        FedProx(self.mu).init(w, federation)
        return super().init(w, federation)

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return FedProx(self.mu).grad(g, local)


@dataclass(frozen=True)
class RADFedM(Delayed):
    """w <- alpha times the mean + (1 - alpha) w."""

    alpha: float = 0.9

    def init(self, w: Tensor, federation: Federation) -> State:
        if not 0 < self.alpha <= 1:
            raise BadInput(f"radfed_m's alpha is {self.alpha:g}: give a share above 0, up to 1 (RADFed).")
        return super().init(w, federation)

    def aggregated(self, state: State, wave: Wave) -> Update:
        return Update(self.alpha * wave.mean() + (1 - self.alpha) * state.w)


@dataclass(frozen=True)
class RADFedA(Delayed):
    """The server steps adaptively along the mean movement since the last aggregate."""

    server: Literal["adam", "adagrad", "yogi"] = "adam"
    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    v_init: float = 0.0

    def init(self, w: Tensor, federation: Federation) -> State:
        begun, adaptive = super().init(w, federation), self._adaptive().init(w, federation)
        return replace(begun, server={**begun.server, **adaptive.server})

    def aggregated(self, state: State, wave: Wave) -> Update:
        return self._adaptive().update(state, wave)

    def _adaptive(self) -> Adaptive:
        shared = {"lr": self.lr, "beta1": self.beta1, "tau": self.tau, "v_init": self.v_init}
        if self.server == "adagrad":
            return FedAdagrad(**shared)
        return (FedAdam if self.server == "adam" else FedYogi)(beta2=self.beta2, **shared)


@dataclass(frozen=True)
class RADFedIS(Delayed):
    """Clients are drawn in proportion to a running score: how large their gradients still are after training.

    After each visit p_k <- (1 - gamma) p_k + gamma p_new, p_new the mean squared norm of the gradients of the
    client's batches at the model it trained. Without gamma the score is the mean over all visits.
    """

    gamma: float | None = 0.9

    up: ClassVar[tuple[str, ...]] = ("score",)

    def init(self, w: Tensor, federation: Federation) -> State:
        if self.gamma is not None and not 0 <= self.gamma <= 1:
            raise BadInput(f"radfed_is' gamma is {self.gamma:g}: give a share from 0 to 1, or none.")
        everyone = torch.arange(federation.num_clients)
        score = federation.ask(everyone).squared_grad_norm(w).unsqueeze(1)
        begun = super().init(w, federation)
        return replace(begun, memory={"score": score, "visits": torch.ones_like(score)})

    def pick(self, state: State, federation: Federation, rng: np.random.Generator) -> Pick:
        score = state.memory["score"].squeeze(1).double().cpu().numpy()
        chance = score + 1e-12 * (score.sum() or 1.0)  # a client without any gradient can still be drawn
        chosen = rng.choice(federation.num_clients, federation.cohort, replace=False, p=chance / chance.sum())
        ids = torch.as_tensor(np.sort(chosen))
        return Pick(ids, torch.zeros_like(ids))

    def update(self, state: State, wave: Wave) -> Update:
        old, visits = wave.memory["score"], wave.memory["visits"] + 1
        new = wave.ask.squared_grad_norm(wave.end).unsqueeze(1)
        mix = 1 / visits if self.gamma is None else torch.full_like(visits, self.gamma)
        memory = {"score": (1 - mix) * old + mix * new, "visits": visits}
        return super().update(state, wave)._replace(memory=memory)
