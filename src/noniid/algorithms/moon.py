"""MOON: a client's features are drawn to the global model's and pushed from its own last ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.algorithms.base import Algorithm, Batch, Federation, Local, Output, Paper, State, Update, Wave
from noniid.errors import BadInput


@dataclass(frozen=True)
class Moon(Algorithm):
    """Cross-entropy + mu * -log(e^(s/T) / (e^(s/T) + e^(p/T))), s and p the cosine similarities to the features of
    the model received and of the client's own last model."""

    mu: float = 1.0
    temperature: float = 0.5

    paper: ClassVar[Paper] = Paper(
        "Model-Contrastive Federated Learning", "Li, He, Song", 2021, "https://arxiv.org/abs/2103.16257"
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not (self.mu >= 0 and self.temperature > 0):
            raise BadInput(
                f"moon takes mu >= 0 (0 is FedAvg) and a temperature above 0, not {self.mu:g} and {self.temperature:g}."
            )
        federation.need_features("moon")
        return State(w, memory={"last": w.expand(federation.num_clients, -1)})

    def loss(self, out: Output, batch: Batch, local: Local) -> Tensor:
        assert out.features is not None
        near, far = (local.forward(row, batch.x).features for row in (local.start, local.memory["last"]))
        assert near is not None and far is not None
        similar = [F.cosine_similarity(out.features, other) / self.temperature for other in (near, far)]
        contrast = -torch.stack(similar, -1).log_softmax(-1)[..., 0].mean()
        return F.cross_entropy(out.logits, batch.y) + self.mu * contrast

    def update(self, state: State, wave: Wave) -> Update:
        return Update(wave.mean(), memory={"last": wave.end})
