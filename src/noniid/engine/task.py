"""What is trained: data held by clients, a model, an optimiser, and the order of every batch.

Shapes: B batch, C clients of a wave, P values of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from noniid import seeds
from noniid.algorithms import Batch
from noniid.data import Dataset
from noniid.engine.augment import crop_flip
from noniid.optim import SGD
from noniid.split import Split

Augment = Literal["none", "crop-flip"]


@dataclass(frozen=True)
class Work:
    """The local work of a round."""

    epochs: int
    batch_size: int
    optim: SGD
    augment: Augment = "none"


@dataclass(frozen=True, eq=False)
class Task:
    """All that an engine needs to train clients; holds nothing that changes."""

    dataset: Dataset
    split: Split
    model: nn.Module
    work: Work
    seed: int
    device: str = "cpu"

    @property
    def num_clients(self) -> int:
        return self.split.num_clients

    def sizes(self, ids: Tensor) -> Tensor:
        return torch.from_numpy(self.split.sizes)[ids]

    def steps(self, ids: Tensor) -> Tensor:
        """Local steps of these clients: E * ceil(n_i / B)."""
        batch = self.work.batch_size
        return self.work.epochs * ((self.sizes(ids) + batch - 1) // batch)

    def batches(self, client: int, round: int) -> Iterator[Batch]:
        """A client's batches of one round: fresh order each epoch, the last batch of an epoch may be short."""
        order = seeds.stream(self.seed, "batches", round, client)
        noise = seeds.torch_stream(self.seed, "inputs", round, client)
        own = self.split.indices[client]
        for _ in range(self.work.epochs):
            shuffled = torch.from_numpy(own[order.permutation(len(own))])
            for index in shuffled.split(self.work.batch_size):
                yield self._batch(index, client, noise)

    def in_order(self, client: int, chunk: int = 512) -> Iterator[Batch]:
        """A client's training data once, in order and without augmentation, in large batches."""
        noise = seeds.torch_stream(self.seed, "asked inputs", client)
        for index in torch.from_numpy(np.asarray(self.split.indices[client])).split(chunk):
            yield self._batch(index, client, noise, augment=False)

    def _batch(self, index: Tensor, client: int, noise: torch.Generator, augment: bool = True) -> Batch:
        train = self.dataset.train
        x = train.batch(index)
        if augment and self.work.augment == "crop-flip":
            x = crop_flip(x, noise)
        for shift in self.split.shifts:
            x = shift.apply(x, client, self.num_clients, noise)
        return Batch(x.to(self.device), train.y[index].to(self.device))
