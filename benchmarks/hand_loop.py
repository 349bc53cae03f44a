"""FedAvg as a careful programmer would write it in plain PyTorch, for two models on two data sets.

What it does for speed: inputs are floats before the clock starts, batches are gathered by index_select, ReLU comes
after pooling (see nets.py), the optimiser is fused, gradients are set to None, weights are copied and averaged in
place, no loss is read, nothing is checked. Client data, cohorts, batch order and initial weights are those of the
noniid engines, so that all end at the same model up to rounding.

Shapes: n samples, C clients, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor, multiprocessing, nn
from torch.nn import functional as F

from nets import Net
from noniid import seeds
from noniid.engine import Task


@dataclass(frozen=True, eq=False)
class Job:
    """What is trained, as tensors that processes can share."""

    x: Tensor  # float32 [n, ...]
    y: Tensor  # int64 [n]
    clients: tuple[Tensor, ...]  # whose samples are whose
    w: Tensor  # [P] the global model; a round replaces its values
    num_classes: int
    epochs: int
    batch_size: int
    optim: dict[str, float]
    seed: int
    net: Callable[[int], nn.Module]  # of so many classes
    cohort: int  # clients of a round

    @classmethod
    def of(cls, task: Task, w: Tensor, net: Callable[[int], nn.Module] = Net, cohort: int | None = None) -> Job:
        train, work = task.dataset.train, task.work
        optim = {
            "lr": work.optim.lr,
            "momentum": work.optim.momentum,
            "weight_decay": work.optim.weight_decay,
        }
        shared = [train.batch(torch.arange(len(train))), train.y.clone(), w.clone()]
        clients = [torch.from_numpy(held.copy()) for held in task.split.indices]
        for tensor in [*shared, *clients]:
            tensor.share_memory_()
        x, y, own = shared
        classes = task.dataset.num_classes
        cohort = cohort or len(clients)
        return cls(x, y, tuple(clients), own, classes, work.epochs, work.batch_size, optim, task.seed, net, cohort)

    def picked(self, round: int) -> list[int]:
        """Who trains in this round, as noniid picks them; the longest first."""
        draws = seeds.stream(self.seed, "pick", round)
        chosen = np.sort(draws.choice(len(self.clients), self.cohort, replace=False)).tolist()
        return sorted(chosen, key=lambda client: -len(self.clients[client]))

    def num_samples(self, picked: list[int]) -> int:
        """Of these clients together: a client's share in the new global model is its own number over this one."""
        return sum(len(self.clients[each]) for each in picked)


class Trainer:
    """One model, trained in place by one client after the other."""

    def __init__(self, job: Job, channels_last: bool):
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self._job = job
        self._net = job.net(job.num_classes).to(memory_format=layout)
        self._parameters = list(self._net.parameters())
        self._global = self._views(job.w)

    def train(self, client: int, round: int, num_samples: int, total: Tensor) -> int:
        """Adds the client's share of the new global model to `total`, [P]. Returns the number of steps."""
        job = self._job
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, self._global)
        optimiser = torch.optim.SGD(self._parameters, **job.optim, fused=True)
        own, order = job.clients[client], seeds.stream(job.seed, "batches", round, client)
        steps = 0
        for _ in range(job.epochs):
            shuffled = own[torch.from_numpy(order.permutation(len(own)))]
            for index in shuffled.split(job.batch_size):
                optimiser.zero_grad(set_to_none=True)
                logits = self._net(job.x.index_select(0, index))
                F.cross_entropy(logits, job.y.index_select(0, index)).backward()
                optimiser.step()
                steps += 1
        with torch.no_grad():
            torch._foreach_add_(self._views(total), self._parameters, alpha=len(own) / num_samples)
        return steps

    def _views(self, row: Tensor) -> list[Tensor]:
        sizes = [p.numel() for p in self._parameters]
        return [part.view(p.shape) for part, p in zip(row.split(sizes), self._parameters, strict=True)]


class OneProcess:
    """Clients one after the other, every operation on all cores."""

    def __init__(self, job: Job, threads: int, *, channels_last: bool = False):
        self._job, self._threads = job, threads
        self._trainer = Trainer(job, channels_last)
        self._total = torch.zeros_like(job.w)
        self._round = 0

    @property
    def w(self) -> Tensor:
        return self._job.w

    def round(self) -> int:
        """Trains one round; returns the number of steps of all clients."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        self._round += 1
        self._total.zero_()
        picked = self._job.picked(self._round)
        held = self._job.num_samples(picked)
        steps = sum(self._trainer.train(client, self._round, held, self._total) for client in picked)
        self._job.w.copy_(self._total)
        torch.set_num_threads(before)
        return steps

    def close(self) -> None:
        pass


class Processes:
    """A client per process, one thread each; data and weights in shared memory, the next client to whoever is free."""

    def __init__(self, job: Job, processes: int, *, channels_last: bool = False):
        context = multiprocessing.get_context("spawn")
        self._job, self._round = job, 0
        self._totals = torch.zeros(processes, job.w.numel()).share_memory_()
        self._next = context.Value("q", 0)
        self._pipes: list[Connection] = []
        self._workers = []
        for total in self._totals:
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(job, channels_last, total, self._next, theirs), daemon=True)
            worker.start()
            theirs.close()
            self._pipes.append(ours)
            self._workers.append(worker)

    @property
    def w(self) -> Tensor:
        return self._job.w

    def round(self) -> int:
        """Trains one round; returns the number of steps of all clients."""
        self._round += 1
        self._next.value = 0
        for pipe in self._pipes:
            pipe.send(self._round)
        steps = sum(pipe.recv() for pipe in self._pipes)
        torch.sum(self._totals, 0, out=self._job.w)
        return steps

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for worker in self._workers:
            worker.join()


def _work(job: Job, channels_last: bool, total: Tensor, place: Any, pipe: Connection) -> None:
    torch.set_num_threads(1)
    trainer = Trainer(job, channels_last)
    while (round := pipe.recv()) is not None:
        total.zero_()
        order = job.picked(round)
        held, steps = job.num_samples(order), 0
        while True:
            with place.get_lock():
                mine, place.value = place.value, place.value + 1
            if mine >= len(order):
                break
            steps += trainer.train(order[mine], round, held, total)
        pipe.send(steps)
