"""The federation that the benchmarks train: Fashion-MNIST over 10 clients, dirichlet(0.5), NIID-Bench's CNN.

And adult over as many, with NIID-Bench's MLP. Where a data set is not in the cache, and with --quick, generated
samples of the same shape take its place: speed and memory depend on shapes, not on what the samples show.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from noniid import data, models, split
from noniid.algorithms import Algorithm
from noniid.algorithms.fedavg import FedAvg
from noniid.data import CATALOGUE, Entry, Samples
from noniid.experiments.experiment import Experiment
from noniid.optim import SGD
from noniid.seeds import Draws

CLIENTS = 10
CLASSES = 10
SHAPE = (1, 28, 28)
COLUMNS = 123  # of adult
BLOCK = 1_000  # images drawn at once: the memory benchmark should see the data set, not its making


def experiment(
    *, quick: bool, algorithm: Algorithm | None = None, rounds: int = 50, epochs: int = 1, seed: int = 0
) -> Experiment:
    """The run that is measured."""
    return Experiment(
        data=data_name(quick),
        split=split.parse("dirichlet(0.5)"),
        algorithm=algorithm or FedAvg(),
        model=models.parse("simple-cnn"),
        clients=CLIENTS,
        rounds=rounds,
        epochs=epochs,
        batch=64,
        optim=SGD(lr=0.01, momentum=0.9, weight_decay=1e-5),
        seed=seed,
    )


def table_experiment(*, quick: bool, epochs: int, placement: str = "dirichlet(0.5)") -> Experiment:
    """The same on a table, with a model of a few thousand parameters."""
    placed = split.parse(placement)
    name = table_name(quick)
    return replace(experiment(quick=True, epochs=epochs), data=name, split=placed, model=models.parse("mlp"))


def device_experiment(*, quick: bool) -> Experiment:
    """Many clients with 60 images each, of whom a few take part in a round."""
    usual = experiment(quick=quick)
    clients, share = (100, 0.1) if quick else (1_000, 0.05)
    return replace(usual, split=split.parse("iid"), clients=clients, participation=share, batch=10)


def data_name(quick: bool) -> str:
    """A data set that needs no download."""
    if quick:
        return generated("generated-tenth", 6_000, 1_000)
    return "fmnist" if _here("fmnist") else generated("generated", 60_000, 10_000)


def table_name(quick: bool) -> str:
    """The same for tables."""
    if not quick and _here("adult"):
        return "adult"
    name, (num_train, num_test) = ("generated-rows", (3_000, 1_000)) if quick else ("generated-table", (30_000, 2_500))
    draw = functools.partial(_draw_table, num_train, num_test)
    CATALOGUE[name] = Entry("rows under noise", "synthetic", num_train, num_test, (COLUMNS,), 2, draw=draw, drawn=True)
    return name


def _here(name: str) -> bool:
    return any(row.here for row in data.listing() if row.name == name)


def generated(name: str, num_train: int, num_test: int, shape: tuple[int, int, int] = SHAPE) -> str:
    """Enters images of this process's own making into the catalogue, under this name."""
    draw = functools.partial(_draw, num_train, num_test, shape)
    CATALOGUE[name] = Entry(
        "patterns under noise", "synthetic", num_train, num_test, shape, CLASSES, draw=draw, drawn=True
    )
    return name


@dataclass(frozen=True, eq=False)
class Repeated(Samples):
    """Few images under many numbers, so that a million clients fit into memory; the labels are as many as numbers."""

    def batch(self, index: Tensor) -> Tensor:
        return super().batch(index % len(self.x))


def repeated(num_train: int) -> str:
    """Enters as many images, a thousand of them distinct, into the catalogue; returns their name."""
    name, (distinct, num_test) = f"repeated-{num_train}", (1_000, 1_000)

    def draw(draws: Draws) -> tuple[Samples, Samples]:
        few, test = _draw(distinct, num_test, SHAPE, draws)
        y = few.y.repeat(-(-num_train // distinct))[:num_train]
        return Repeated(few.x, y, few.scale), test

    CATALOGUE[name] = Entry("a few images", "synthetic", num_train, num_test, SHAPE, CLASSES, draw=draw, drawn=True)
    return name


def _draw_table(num_train: int, num_test: int, draws: Draws) -> tuple[Samples, Samples]:
    rule = draws.random(COLUMNS) - 0.5

    def some(num: int) -> Samples:
        x = draws.random((num, COLUMNS)).round()
        y = (x - 0.5) @ rule > 0
        return Samples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))

    return some(num_train), some(num_test)


def _draw(num_train: int, num_test: int, shape: tuple[int, int, int], draws: Draws) -> tuple[Samples, Samples]:
    coarse = draws.random((CLASSES, shape[0], 4, 4)).round()
    patterns = coarse.repeat(shape[1] // 4, axis=2).repeat(shape[2] // 4, axis=3)

    def some(num: int) -> Samples:
        y = draws.permutation(num) % CLASSES
        x = np.empty((num, *shape), np.uint8)
        for at in range(0, num, BLOCK):
            clean = patterns[y[at : at + BLOCK]]
            x[at : at + BLOCK] = 255 * (0.6 * clean + 0.4 * draws.random(clean.shape))
        return Samples(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)), 255.0)

    return some(num_train), some(num_test)
