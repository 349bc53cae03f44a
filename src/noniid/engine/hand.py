"""What a worker process of a cluster does: the jobs it is sent, on tasks that it keeps.

Ray carries the messages (cluster.py); nothing here knows it, but for the one door through which a process fetches
what was placed for all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import noniid
from noniid.data import Dataset, Samples
from noniid.data.dataset import SparseRows
from noniid.engine.task import Task
from noniid.engine.threads import Threads

KEPT = 2  # tasks that a worker has at hand

Fetch = Callable[[Any], Any]  # a reference to something placed -> the thing itself


class Greeting(NamedTuple):
    """Who a worker is, and what it would train with."""

    pid: int
    machine: str
    noniid: str
    torch: str


@dataclass(frozen=True)
class Place:
    """Where a task was placed. The reference stands in a tuple, or Ray would put the task in its stead."""

    number: int
    reference: tuple[Any]


class Hand:
    """One worker. Its jobs come one after the other; `stop` may be called beside them."""

    def __init__(self, fetch: Fetch):
        self._fetch = fetch
        self._engines: dict[int, Threads] = {}
        self._number, self._job = 0, None
        self._stopped, self.stopping = 0, Event()

    def greet(self) -> Greeting:
        return Greeting(os.getpid(), os.uname().nodename, noniid.__version__, torch.__version__)

    def work(self, number: int, job: tuple[Any], part: Any) -> Any:
        """A part of a job. The job itself is fetched with its first part."""
        if number != self._number:
            self._number, self._job = number, self._fetch(job[0])
            self.stopping = Event()
        if number <= self._stopped:
            self.stopping.set()
        with _quiet():
            return self._job(self, part)  # type: ignore[misc]

    def stop(self, number: int) -> None:
        """Break off the job of this number, and all before it."""
        self._stopped = max(self._stopped, number)
        if self._number <= number:
            self.stopping.set()

    def engine(self, place: Place) -> Threads:
        """One thread that trains this task's clients."""
        if place.number not in self._engines:
            for number in list(self._engines)[: 1 - KEPT]:
                self._engines.pop(number).close()
            self._engines[place.number] = Threads(self._fetch(place.reference[0]).unpacked(), 1)
        engine = self._engines[place.number]
        engine.stop = self.stopping
        return engine


@contextmanager
def _quiet() -> Iterator[None]:
    """What was placed is read-only, which torch would warn of; nobody writes to data."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        yield


class Parcel(NamedTuple):
    """A task whose data are arrays: the processes of a machine read them where they lie, without a copy."""

    task: Task  # with empty data
    arrays: tuple[list[np.ndarray], ...]  # of train and test
    widths: tuple[int | None, ...]  # None where data are not sparse

    @classmethod
    def of(cls, task: Task) -> Parcel:
        both = (task.dataset.train, task.dataset.test)
        empty = replace(task.dataset, train=_empty(both[0]), test=_empty(both[1]))
        widths = tuple(each.x.width if isinstance(each.x, SparseRows) else None for each in both)
        return cls(replace(task, dataset=empty), tuple(_arrays(each) for each in both), widths)

    def unpacked(self) -> Task:
        dataset = self.task.dataset
        train, test = (
            _samples(arrays, width, like.scale)
            for arrays, width, like in zip(self.arrays, self.widths, (dataset.train, dataset.test), strict=True)
        )
        return replace(self.task, dataset=Dataset(dataset.name, train, test, dataset.num_classes, dataset.checksum))


def _empty(samples: Samples) -> Samples:
    return Samples(torch.empty(0), torch.empty(0), samples.scale)


def _arrays(samples: Samples) -> list[np.ndarray]:
    x = samples.x
    parts = (x.indptr, x.columns, x.values) if isinstance(x, SparseRows) else (x,)
    return [part.numpy() for part in (*parts, samples.y)]


def _samples(arrays: list[np.ndarray], width: int | None, scale: float) -> Samples:
    *parts, y = map(torch.from_numpy, arrays)
    if width is None:
        return Samples(parts[0], y, scale)
    indptr, columns, values = parts
    return Samples(SparseRows(indptr, columns, values, width), y, scale)


def own(array: np.ndarray) -> Tensor:
    """A tensor of one's own, whatever the array is a view of."""
    return torch.from_numpy(np.array(array))
