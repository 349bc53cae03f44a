"""Small federations that every law is tried on: seconds for all laws together, and nothing that is even or equal."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from noniid import models, seeds
from noniid.algorithms import Algorithm, Ask, Federation, Output, State
from noniid.algorithms.wrappers import Stack
from noniid.data import Dataset, Samples
from noniid.engine import BatchNorm, Carry, Engine, Round, Schedule, Task, Work, begin, simulate, start_engine
from noniid.optim import SGD
from noniid.rows import Layout
from noniid.split import Split

NUM_CLASSES = 4
OPTIM = SGD(lr=0.05, momentum=0.9, weight_decay=1e-3)


class SmallNet(nn.Module):
    """Convolution, BatchNorm and a dense layer: parameters of every shape, and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.last = nn.Linear(3 * 6 * 6, NUM_CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.last(features), features


def dataset(seed: int = 0, n: int = 120) -> Dataset:
    """Blurred class patterns on 1x8x8 bytes."""
    g = torch.Generator().manual_seed(seed)
    patterns = torch.rand(NUM_CLASSES, 1, 8, 8, generator=g)

    def draw(n: int) -> Samples:
        y = torch.randint(0, NUM_CLASSES, (n,), generator=g)
        x = (patterns[y] + 0.5 * torch.rand(n, 1, 8, 8, generator=g)) / 1.5
        return Samples((x * 255).to(torch.uint8), y, 255.0)

    return Dataset("patterns", draw(n), draw(60), NUM_CLASSES, "none")


def unequal_split(data: Dataset, num_clients: int = 5, seed: int = 0) -> Split:
    """Clients of very different sizes, so that steps, weights and short batches all differ."""
    order = seeds.stream(seed, "test split").permutation(len(data.train))
    sizes = [3, 10, 17, 30, 60, 120, 240][:num_clients]
    cuts = [sum(sizes[: i + 1]) for i in range(num_clients)]
    return Split(tuple(order[a:b] for a, b in zip([0, *cuts], cuts, strict=False)))


def task(net: nn.Module | None = None, *, split: Split | None = None, seed: int = 0, wrap: str = "",
         bn: BatchNorm = "average", device: str = "cpu", **work: Any) -> Task:  # fmt: skip
    """Five unequal clients, unless told otherwise; `work` are fields of the local work that are not the usual ones."""
    data = dataset()
    split = split or unequal_split(data)
    module = models.fresh(net or SmallNet(), data.input_shape, NUM_CLASSES, 1)
    batch_size = work.pop("batch", 8)
    usual = Work(epochs=2, batch_size=batch_size, optim=OPTIM)
    return Task(data, split, module, replace(usual, **work), seed, device, bn, Stack.parse(wrap))


def for_algorithm(algorithm: Algorithm, task: Task) -> Task:
    """The task as an experiment would give it to this algorithm."""
    split = task.split.pooled() if algorithm.pooled and task.split.owners is None else task.split
    return replace(task, split=split, bn=algorithm.bn or task.bn)


def federation(task: Task, cohort: int | None = None, ask: Callable[[Tensor], Ask] | None = None) -> Federation:
    def random_model() -> Tensor:
        net = models.fresh(task.model, task.dataset.input_shape, NUM_CLASSES, 2)
        return Layout.of(net).pack(net).to(task.device)

    features = Output.of(copy.deepcopy(task.model).eval()(task.dataset.train.batch(torch.arange(1)))).features
    num_features = None if features is None else features.shape[1]
    return Federation(
        task.num_clients, cohort or task.num_clients, random_model, num_features, ask or _asked_anew(task)
    )


def _asked_anew(task: Task) -> Callable[[Tensor], Ask]:
    """Questions before any engine runs are answered by one made for them."""
    return lambda ids: start_engine("threads", task, 1).ask(ids)


def initial(task: Task) -> Tensor:
    return Layout.of(task.model).pack(task.model).to(task.device)


def run(  # noqa: PLR0913
        algorithm: Algorithm, task: Task, *, rounds: int = 3, cohort: int | None = None, engine: str = "threads",
        workers: int | None = None, state: State | None = None) -> list[Round]:  # fmt: skip
    """Rounds with memory cloned, so that each can be looked at afterwards."""
    task = for_algorithm(algorithm, task)
    running: Engine = start_engine(engine, task, workers)
    members = federation(task, 1 if algorithm.pooled else cohort, running.ask)
    state = state or begin(algorithm, initial(task), members, Carry.of(task, running.layout))
    try:
        return [_kept(done) for done in simulate(running, algorithm, state, members, Schedule(rounds, members.cohort))]
    finally:
        running.close()


def _kept(done: Round) -> Round:
    memory = {name: rows.clone() for name, rows in done.state.memory.items()}
    return replace(done, state=replace(done.state, memory=memory))


def same(a: State, b: State, **tolerance: Any) -> None:
    """Assert that two states are equal, to the bit unless a tolerance is given."""
    pairs = {"w": (a.w, b.w)} | {f"server.{k}": (a.server[k], b.server[k]) for k in a.server}
    pairs |= {f"memory.{k}": (a.memory[k], b.memory[k]) for k in a.memory}
    assert a.server.keys() == b.server.keys() and a.memory.keys() == b.memory.keys() and a.round == b.round
    for x, y in pairs.values():
        if tolerance:
            torch.testing.assert_close(x, y, **tolerance)
        else:
            assert torch.equal(x, y)
