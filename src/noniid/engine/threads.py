"""Clients on threads: one client per thread, one intra-op thread each, data resident as whole tensors.

torch releases the interpreter's lock inside its kernels, so two threads train two clients at once, without
processes, copies of the data or serialisation. A client's arithmetic depends on its own streams only, and results
are collected by place in the wave: the numbers are the same to the bit for any number of workers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Ask, Wave
from noniid.engine.ask import Questions
from noniid.engine.randomness import Turns
from noniid.engine.replica import Replica, with_carried_states
from noniid.engine.task import Task
from noniid.errors import BadInput
from noniid.rows import Layout

T = TypeVar("T")


def default_workers() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """See the module's text."""

    note = ""

    def __init__(self, task: Task, workers: int | None = None):
        if workers is not None and workers < 1:
            raise BadInput(f"workers is {workers}: give 1 or more.")
        self.task = task
        self.layout = Layout.of(task.model)
        self.stop = threading.Event()
        self.workers = workers or default_workers()
        self._replicas = threading.local()
        self._turns = Turns(task)
        self._pool = ThreadPoolExecutor(self.workers, "client", initializer=torch.set_num_threads, initargs=(1,))

    def train(self, algorithm: Algorithm, wave: Wave) -> Wave:
        end, loss = torch.empty_like(wave.start), torch.empty(len(wave.ids))
        states: list[dict[str, Tensor]] = [{} for _ in wave.ids]

        def train_one(replica: Replica, i: int) -> None:
            with self._turns.of(int(wave.ids[i]), int(wave.clock[i])):
                loss[i], states[i] = replica.train(algorithm, wave, i, self.task, self.stop.is_set)
            end[i] = replica.row

        longest_first = torch.argsort(wave.steps, descending=True, stable=True).tolist()
        self.map(train_one, longest_first)
        return with_carried_states(wave._replace(end=end, loss=loss), states)

    def ask(self, ids: Tensor, clock: int = 0) -> Ask:
        return Questions(self, ids, clock)

    def map(self, function: Callable[[Replica, T], Any], items: Sequence[T]) -> Iterable[Any]:
        futures = [self._pool.submit(lambda item=item: function(self._replica(), item)) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _replica(self) -> Replica:
        """This thread's model, made at its first job and kept."""
        if not hasattr(self._replicas, "own"):
            self._replicas.own = Replica(self.task, self.layout)
        return self._replicas.own
