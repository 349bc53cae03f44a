"""Batches of several clients side by side, step by step.

Shapes: C clients, those with most steps first; K steps, B batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from noniid.data import Samples
from noniid.data.dataset import SparseRows
from noniid.engine.bundle import Step
from noniid.engine.task import Task

PLANNED = 64  # steps whose indices are laid out at once


class Visit(NamedTuple):
    """A client of a wave, and what tells this visit from its others."""

    client: int
    clock: int
    steps: int
    task: Task | None = None  # of several: whose client it is


class Plan(NamedTuple):
    """Some steps of several visits: which samples, and how many of these count."""

    index: Tensor  # [K, C, B]
    lengths: Tensor  # [K, C]; 0 where a visit is over

    def weights(self) -> Tensor:
        """As a `Step` has them: [K, C, B]."""
        return weights_of(self.lengths, self.index.shape[2])


def resident(samples: Samples, device: str) -> Samples:
    """The same samples, where they are trained on."""
    x = samples.x
    if isinstance(x, SparseRows):
        moved = SparseRows(x.indptr.to(device), x.columns.to(device), x.values.to(device), x.width)
        return Samples(moved, samples.y.to(device), samples.scale)
    return Samples(x.to(device), samples.y.to(device), samples.scale)


def steps(task: Task, samples: Samples, visits: Sequence[Visit]) -> Iterator[Step]:
    """All steps of these visits, those with most first. `samples` are the task's, resident on its device."""
    return _gathered(task, samples, visits) if task.plain else _drawn(task, visits)


def planned(task: Task, visits: Sequence[Visit]) -> Iterator[Plan]:
    """All steps of these visits, a few dozen at a time, as long as somebody has steps left."""
    orders = [_Order(visit.task or task, visit) for visit in visits]
    for done in range(0, visits[0].steps, PLANNED):
        active = sum(visit.steps > done for visit in visits)
        index = torch.zeros(min(PLANNED, visits[0].steps - done), active, task.work.batch_size, dtype=torch.int64)
        lengths = index.new_zeros(index.shape[:2])
        for c, order in enumerate(orders[:active]):
            taken, sizes = order.take(len(index))
            index[: len(taken), c], lengths[: len(taken), c] = taken, sizes
        yield Plan(index, lengths)


def _gathered(task: Task, samples: Samples, visits: Sequence[Visit]) -> Iterator[Step]:
    """Samples that are the same whenever they are read: one gather for all clients of a step."""
    shape = samples.x.shape[1:]
    for plan in planned(task, visits):
        index, weights = plan.index.to(task.device), plan.weights().to(task.device)
        y = samples.y[index]
        for k, known in enumerate(plan.lengths.tolist()):
            c = len(known) - known.count(0)
            x = samples.batch(index[k, :c].flatten()).view(c, -1, *shape)
            yield Step(x, y[k, :c], known[:c], weights[k, :c])


class _Order:
    """A visit's samples as rows of a batch each, the last of an epoch filled up with one of its own samples."""

    def __init__(self, task: Task, visit: Visit):
        self._batch = task.work.batch_size
        self._epochs = task.epochs(visit.client, visit.clock)
        self._left = torch.empty(0, self._batch, dtype=torch.int64), torch.empty(0, dtype=torch.int64)

    def take(self, steps: int) -> tuple[Tensor, Tensor]:
        """The next batches [K, B] and their lengths [K]; fewer than asked for at the end of the visit."""
        index, lengths = self._left
        while len(index) < steps and (epoch := next(self._epochs, None)) is not None:
            padding = -len(epoch) % self._batch
            rows = torch.cat([epoch, epoch[-1:].expand(padding)]).view(-1, self._batch)
            sizes = torch.full((len(rows),), self._batch)
            sizes[-1] -= padding
            index, lengths = torch.cat([index, rows]), torch.cat([lengths, sizes])
        self._left = index[steps:], lengths[steps:]
        return index[:steps], lengths[:steps]


def _drawn(task: Task, visits: Sequence[Visit]) -> Iterator[Step]:
    """Samples that are drawn anew whenever they are read: every client makes its own batches."""
    sources = [task.batches(visit.client, visit.clock) for visit in visits]
    for done in range(visits[0].steps):
        batches = [next(source) for source, visit in zip(sources, visits, strict=True) if visit.steps > done]
        lengths = torch.tensor([len(batch.y) for batch in batches])
        first, most = batches[0], task.work.batch_size
        x = first.x.new_zeros(len(batches), most, *first.x.shape[1:])
        y = first.y.new_zeros(len(batches), most)
        for c, batch in enumerate(batches):
            x[c, : len(batch.y)], y[c, : len(batch.y)] = batch
        yield Step(x, y, lengths.tolist(), weights_of(lengths, most).to(task.device))


def weights_of(lengths: Tensor, most: int) -> Tensor:
    """One over a batch's length, and 0 for what fills it up: [...] -> [..., B]."""
    inside = torch.arange(most, device=lengths.device) < lengths.unsqueeze(-1)
    return inside / lengths.clamp(min=1).unsqueeze(-1)
