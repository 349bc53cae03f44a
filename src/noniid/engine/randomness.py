"""Models that draw random numbers of their own, such as dropout.

torch draws them from one generator for the whole process. A client of such a model therefore trains alone, from a
state of that generator that is the client's own, so that its numbers do not depend on who trained before it.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator

import torch

from noniid import seeds
from noniid.algorithms import Output
from noniid.engine.task import Task


class Turns:
    """Lets clients train side by side, or one at a time where the model needs torch's generator."""

    def __init__(self, task: Task):
        self._seed = task.seed
        self._lock = threading.Lock() if draws(task) else None

    @contextlib.contextmanager
    def of(self, client: int, clock: int) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        with self._lock, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.integer(self._seed, "model's own draws", clock, client))
            yield


def draws(task: Task) -> bool:
    """Does a forward pass in training mode move torch's generator?"""
    model = copy.deepcopy(task.model).train()
    few = torch.from_numpy(task.split.indices[0][:2])
    probe = task.dataset.train.batch(few.repeat(2))  # at least two, for BatchNorm
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        Output.of(model(probe))
        return not torch.equal(before, torch.get_rng_state())
