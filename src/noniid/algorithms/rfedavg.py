"""rFedAvg and rFedAvg+: clients' features are drawn to the other clients' mean features.

Shapes: N clients, C of them in the wave, F features. delta_k is client k's mean feature vector, [F].

The papers' r_k = 1/(N-1) sum_j |delta_k - delta_j|^2 has, in delta_k, the gradient of |delta_k - mean_j delta_j|^2:
one distance does for N - 1. In a step delta_k is the batch's mean, and the others' are constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.algorithms.base import Algorithm, Batch, Federation, Local, Output, Paper, State, Update, Wave
from noniid.errors import BadInput
from noniid.rows import squared_norm


@dataclass(frozen=True)
class Regularised(Algorithm):
    """Abstract: cross-entropy + lam |mean features of the batch - the others' mean|^2.

    As published in code: `delta=batch, others=cohort`, and for rfedavg_plus `itself=included`. (That code also lets
    clients that were never visited speak for the initial model; here nobody speaks before a first visit.)
    """

    lam: float = 1e-4
    # delta_k from all of a client's data, or from one random batch, as the code has it
    delta: Literal["full", "batch"] = "full"
    # the others: every client known so far, or those that take part in this round
    others: Literal["all", "cohort"] = "all"
    itself: Literal["excluded", "included"] = "excluded"
    # Gaussian noise on what is sent: delta, no longer than clip, + N(0, (sigma clip)^2) / batch size
    privacy_sigma: float = 0.0
    clip: float = 1.0

    paper: ClassVar[Paper] = Paper(
        "Distribution-Regularized Federated Learning on Non-IID Data",
        "Wang, Tong, Zhou, Zhang, Pan, Fan, Yang",
        2023,
        "https://github.com/BUAA-BDA/rfedavg",
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not (self.lam >= 0 and self.privacy_sigma >= 0 and self.clip > 0):
            raise BadInput(
                "rfedavg takes lam >= 0 (0 is FedAvg), privacy_sigma >= 0 and clip > 0, not "
                f"{self.lam:g}, {self.privacy_sigma:g} and {self.clip:g}."
            )
        nothing = w.new_zeros(federation.num_clients, federation.need_features("rfedavg"))
        return State(w, memory={"delta": nothing, "known": nothing[:, :1].clone()})

    def loss(self, out: Output, batch: Batch, local: Local) -> Tensor:
        assert out.features is not None
        distance = (out.features.mean(-2) - local.memory["target"]).square().sum(-1)
        return F.cross_entropy(out.logits, batch.y) + self.lam * local.memory["pull"].squeeze(-1) * distance

    def _drawn_to(self, wave: Wave, delta: Tensor, known: Tensor, own: Tensor, seen: Tensor) -> Wave:
        """The wave with each client's target: the mean of all `delta` that are `known`, mostly without its `own`."""
        if self.itself == "included":
            own, seen = torch.zeros_like(own), torch.zeros_like(seen)
        num_others = known.sum() - seen
        target = ((known * delta).sum(0) - seen * own) / num_others.clamp(min=1)
        pull = (num_others > 0).to(target)  # the first clients of all have nobody to be drawn to
        return wave._replace(memory={**wave.memory, "target": target, "pull": pull})

    def _sent(self, wave: Wave, w: Tensor) -> Tensor:
        """delta of the wave's clients under the model(s) `w`, as the server receives it."""
        delta = wave.ask.features(w) if self.delta == "full" else wave.ask.batch_features(w)
        if not self.privacy_sigma:
            return delta
        length = squared_norm(delta).sqrt().unsqueeze(1)
        noise = torch.as_tensor(wave.rng.standard_normal(tuple(delta.shape))).to(delta)
        delta = delta * (self.clip / length.clamp(min=self.clip))
        return delta + self.privacy_sigma * self.clip / wave.batch_size * noise


@dataclass(frozen=True)
class RFedAvg(Regularised):
    """delta_k comes from the client's own local model, at the end of its last visit; all are sent to everyone."""

    def start(self, state: State, wave: Wave) -> Wave:
        mine = wave.memory["delta"], wave.memory["known"]
        theirs = mine if self.others == "cohort" else (state.memory["delta"], state.memory["known"])
        return self._drawn_to(super().start(state, wave), *theirs, *mine)

    def update(self, state: State, wave: Wave) -> Update:
        known = torch.ones_like(wave.memory["known"])
        return Update(wave.mean(), memory={"delta": self._sent(wave, wave.end), "known": known})

    def traffic(self, state: State) -> tuple[int, int]:
        values, delta = state.w.numel(), state.memory["delta"]
        return values + delta.numel(), values + delta.shape[1]


@dataclass(frozen=True)
class RFedAvgPlus(Regularised):
    """Once the new global model is known, clients send delta_k under it; the server sends each the others' mean.

    With `others=cohort` this second exchange comes at the beginning of the next round, with its clients.
    """

    def start(self, state: State, wave: Wave) -> Wave:
        wave = super().start(state, wave)
        if self.others == "all":
            mine = wave.memory["delta"], wave.memory["known"]
            return self._drawn_to(wave, state.memory["delta"], state.memory["known"], *mine)
        fresh = self._sent(wave, state.w)
        known = torch.ones_like(wave.memory["known"])
        return self._drawn_to(wave, fresh, known, fresh, known)

    def update(self, state: State, wave: Wave) -> Update:
        w = wave.mean()
        if self.others == "cohort":
            return Update(w)
        known = torch.ones_like(wave.memory["known"])
        return Update(w, memory={"delta": self._sent(wave, w), "known": known})

    def traffic(self, state: State) -> tuple[int, int]:
        values, features = state.w.numel(), state.memory["delta"].shape[1]
        return 2 * values + features, values + features
