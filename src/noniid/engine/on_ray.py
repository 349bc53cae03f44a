"""Clients on the workers of a Ray cluster: each worker is a process with one thread and the `threads` engine.

A client's arithmetic depends on its own streams only, so the numbers are those of `threads` to the bit, whoever trains
it and however many there are. The task is placed once on each machine; a wave sends what is equal for its clients
once, and rows of clients' own with them. Workers take clients as they become free, the largest first.

Evaluation and questions are spread too: docs/many-machines.md tells what that costs and gains.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Event
from typing import Any, TypeVar

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Ask, Wave
from noniid.engine.ask import Questions
from noniid.engine.cluster import Cluster, Message
from noniid.engine.connect import cluster
from noniid.engine.hand import Parcel, Place
from noniid.engine.jobs import Apply, TrainWave, shares, unpacked
from noniid.engine.replica import Replica
from noniid.engine.task import Task
from noniid.errors import BadInput
from noniid.rows import Layout

T = TypeVar("T")
_numbers = itertools.count(1)


class OnRay:
    """See the module's text."""

    note = ""

    def __init__(self, task: Task, workers: int | None = None):
        if workers is not None and workers < 1:
            raise BadInput(f"workers is {workers}: give 1 or more.")
        if torch.device(task.device).type != "cpu":
            raise BadInput(f"the ray engine trains on processors, not on {task.device}: use --device cpu.")
        self.task = task
        self.layout = Layout.of(task.model)
        self.stop = Event()
        self._cluster: Cluster = cluster(workers)
        self.workers = workers or self._cluster.size
        self._place = Place(next(_numbers), (self._cluster.put(Parcel.of(task)),))

    def train(self, algorithm: Algorithm, wave: Wave) -> Wave:
        end, loss = torch.empty(wave.start.shape), torch.empty(len(wave.ids))
        carried = {name: rows.clone() for name, rows in wave.carried.items()}
        job = TrainWave.of(self._place, algorithm, wave)
        messages = shares(wave.steps.tolist(), self.workers)
        for chosen, found in self._work(job, messages, lambda chosen: TrainWave.part(wave, chosen), self.stop):
            end.numpy()[chosen], loss.numpy()[chosen] = found.end, found.loss
            for name, rows in found.optim.items():
                carried[name].numpy()[chosen] = rows
        return wave._replace(end=end, loss=loss, carried=carried)

    def ask(self, ids: Tensor, clock: int = 0) -> Ask:
        return Questions(self, ids, clock)

    def map(self, function: Callable[[Replica, T], Any], items: Sequence[T]) -> Iterable[Any]:
        """`function` and the items are sent: it finds the task with the replica, and holds nothing large."""
        results: list[Any] = [None] * len(items)
        messages = shares([1] * len(items), self.workers)
        for chosen, found in self._work(
            Apply(self._place, function), messages, lambda chosen: Apply.part(items, chosen)
        ):
            for i, result in zip(chosen, found, strict=True):
                results[i] = unpacked(result)
        return results

    def _work(
        self, job: Any, messages: list[Message], part: Callable[[Message], Any], stop: Event | None = None
    ) -> Iterator[tuple[Message, Any]]:
        for message, found in self._cluster.work(job, messages, part, self.workers, stop):
            if isinstance(found, BadInput):
                raise found
            yield message, found

    def close(self) -> None:
        """The workers stay for the next engine: they end with this process."""
