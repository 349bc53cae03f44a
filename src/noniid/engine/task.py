"""What is trained: data held by clients, a model, an optimiser, and the order of every batch.

Shapes: B batch, C clients of a wave, P values of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from noniid import seeds
from noniid.algorithms import Batch
from noniid.algorithms.wrappers import Stack
from noniid.data import Dataset
from noniid.engine.augment import crop_flip
from noniid.engine.precision import Precision
from noniid.optim import Optimiser
from noniid.split import Reading, Split

LARGE = 512  # samples of a pass that trains nothing
GATHERED = 64  # samples gathered at once, if batches are smaller
ALIGNED = 64  # bytes, of a tensor's own memory

Augment = Literal["none", "crop-flip"]
# Of BatchNorm's values: all are averaged, or its statistics, or all of them, stay with their client.
BatchNorm = Literal["average", "keep-statistics-local", "local"]


@dataclass(frozen=True)
class Work:
    """The local work of a round."""

    epochs: int
    batch_size: int
    optim: Optimiser
    augment: Augment = "none"
    steps: int | None = None  # instead of epochs: every client takes as many steps, however much it holds
    drop_last: bool = False  # leave out an epoch's short last batch; a client with less than a batch trains on it
    keep_optim: bool = False  # an optimiser's state survives from visit to visit
    lr_decay: float = 1.0  # a round's learning rate over that of the round before

    def optim_in(self, round: int) -> Optimiser:
        """Round 1 is the first, and has the full rate."""
        return (
            self.optim if self.lr_decay == 1 else replace(self.optim, lr=self.optim.lr * self.lr_decay ** (round - 1))
        )


@dataclass(frozen=True, eq=False)
class Task:
    """All that an engine needs to train clients; holds nothing that changes."""

    dataset: Dataset
    split: Split
    model: nn.Module
    work: Work
    seed: int
    device: str = "cpu"
    bn: BatchNorm = "average"
    wrap: Stack = Stack()  # noqa: RUF009 - frozen
    precision: Precision = "float32"

    @property
    def num_clients(self) -> int:
        return self.split.num_clients

    def sizes(self, ids: Tensor) -> Tensor:
        return torch.from_numpy(self.split.sizes)[ids]

    def steps(self, ids: Tensor) -> Tensor:
        """Local steps of these clients in a round: E * ceil(n_i / B), unless a number of steps was asked for."""
        if self.work.steps is not None:
            return torch.full_like(ids, self.work.steps)
        return self.work.epochs * self._batches_in_epoch(self.sizes(ids))

    def samples(self, ids: Tensor) -> Tensor:
        """Samples that these clients train on in a round, repeated ones as often as they are read."""
        sizes, batch = self.sizes(ids), self.work.batch_size
        per_epoch = self._batches_in_epoch(sizes)
        whole = torch.minimum(per_epoch * batch, sizes)
        epochs, rest = torch.div(self.steps(ids), per_epoch, rounding_mode="floor"), self.steps(ids) % per_epoch
        return epochs * whole + rest * batch

    def _num_steps(self, size: int) -> int:
        """`steps` for one client, without tensors."""
        if self.work.steps is not None:
            return self.work.steps
        batch = self.work.batch_size
        return self.work.epochs * (max(size // batch, 1) if self.work.drop_last else -(-size // batch))

    def _batches_in_epoch(self, sizes: Tensor) -> Tensor:
        batch = self.work.batch_size
        return (sizes // batch).clamp(min=1) if self.work.drop_last else (sizes + batch - 1) // batch

    def batches(self, client: int, clock: int) -> Iterator[Batch]:
        """A client's batches of one visit: fresh order each epoch, the last batch of an epoch may be short."""
        if self.plain:
            yield from self._gathered(client, clock)
            return
        noise = seeds.torch_stream(self.seed, "inputs", clock, client)
        for epoch in self.epochs(client, clock):
            for index in epoch.split(self.work.batch_size):
                yield self._batch(index, client, noise)

    def _gathered(self, client: int, clock: int) -> Iterator[Batch]:
        """The same for samples that nothing changes: what small batches need is gathered for several at once."""
        train, batch = self.dataset.train, self.work.batch_size
        for epoch in self.epochs(client, clock):
            for some in epoch.split(max(1, GATHERED // batch) * batch):
                x, y = train.batch(some).to(self.device), train.y[some].to(self.device)
                if len(y) <= batch:
                    yield Batch(x, y)
                    continue
                # Each begins where memory is aligned as a tensor's own: products may depend on it, in their last bits.
                aligned = x.stride(0) * x.element_size() * batch % ALIGNED == 0
                for part, labels in zip(x.split(batch), y.split(batch), strict=True):
                    yield Batch(part if aligned else part.clone(), labels)

    def epochs(self, client: int, clock: int) -> Iterator[Tensor]:
        """The samples of one visit in the order of its batches, epoch by epoch."""
        order = seeds.stream(self.seed, "batches", clock, client)
        own, batch = self.split.indices[client], self.work.batch_size
        left = self._num_steps(len(own))
        kept = len(own) // batch * batch if self.work.drop_last and len(own) > batch else len(own)
        while left > 0:
            epoch = torch.from_numpy(own[order.permutation(len(own))])[: min(kept, left * batch)]
            yield epoch
            left -= -(-len(epoch) // batch)

    @property
    def plain(self) -> bool:
        """Whether a sample is the same whenever it is read: nothing augments or shifts it."""
        return self.work.augment == "none" and not self.split.shifts

    def one_batch(self, client: int, clock: int) -> Batch:
        """A batch of the client's, drawn beside those it trains on."""
        noise = seeds.torch_stream(self.seed, "asked inputs", client, clock)
        return self._batch(torch.from_numpy(self.drawn(client, clock)), client, noise, augment=False)

    def drawn(self, client: int, clock: int) -> np.ndarray:
        """The samples of `one_batch`."""
        own = self.split.indices[client]
        return own[seeds.stream(self.seed, "asked batch", clock, client).permutation(len(own))[: self.work.batch_size]]

    def in_order(self, client: int, chunk: int | None = None) -> Iterator[Batch]:
        """A client's training data once, in order and without augmentation, in large batches if no size is given."""
        noise = seeds.torch_stream(self.seed, "asked inputs", client)
        for index in torch.from_numpy(np.asarray(self.split.indices[client])).split(chunk or LARGE):
            yield self._batch(index, client, noise, augment=False)

    def _batch(self, index: Tensor, client: int, noise: torch.Generator, augment: bool = True) -> Batch:
        train = self.dataset.train
        x = train.batch(index)
        if augment and self.work.augment == "crop-flip":
            x = crop_flip(x, noise)
        x = self.split.shifted(x, Reading(index, client, self.split.views, noise))
        return Batch(x.to(self.device), self.split.relabelled(train.y[index], index).to(self.device))
