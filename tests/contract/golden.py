"""Three clients whose training can be written down, and what every golden trajectory is made of.

Three clients hold 2, 4 and 6 samples; within a client all samples are equal, so that the order of its batches
of 2 does not matter and every step's gradient can be written down. Nothing here is taken from the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from noniid.algorithms import Algorithm
from noniid.data import Dataset, Samples
from noniid.engine import Task, Work
from noniid.optim import SGD
from noniid.rows import Layout
from noniid.split import Split

X = np.array([[1.0, 0.5], [-0.5, 1.0], [0.25, -1.0]])  # client i's one sample
Y = np.array([0, 1, 2])
SIZES = [2, 4, 6]
STEPS = [1, 2, 3]  # of one epoch, in batches of 2
LR, RHO = 0.2, 0.9
K, D = 3, 2
ROUNDS = 4  # so that RADFed, which aggregates every second round, aggregates twice
# The three models of RADFed's second round go round in a circle, which is not the same backwards, and FedAsync's
# first arrivals are neither all new nor of three different clients.
SEED = 2

Row = np.ndarray  # a model [P]
CLIENTS = range(3)


class Known(NamedTuple):
    """What is known of the state after a round."""

    w: Row
    tested: np.ndarray | None = None  # what is evaluated, where it is not w
    memory: Mapping[str, np.ndarray | list[Row]] = MappingProxyType({})


Golden = Callable[[Row], Iterator[Known]]  # a model in, round after round out


def after(golden: Golden, start: Row, rounds: int = ROUNDS) -> Known:
    """What is known after so many rounds."""
    return next(islice(golden(start), rounds - 1, None))


def walked(w: Row, steps: int, direction: Callable[[Row], Row]) -> Row:
    """The model after so many steps of SGD with momentum along `direction(model)`; the buffer begins at zero."""
    model, buffer = w, np.zeros_like(w)
    for _ in range(steps):
        buffer = RHO * buffer + direction(model)
        model = model - LR * buffer
    return model


def by_size(rows: Iterable[Row]) -> Row:
    a, b, c = rows
    return (2 * a + 4 * b + 6 * c) / 12


def alike(rows: Iterable[Row]) -> Row:
    a, b, c = rows
    return (a + b + c) / 3


def errors(logits: Row, i: int) -> Row:
    """Of -log softmax_y in client i's logits: softmax - onehot."""
    p = np.exp(logits) / np.exp(logits).sum()
    p[Y[i]] -= 1
    return p


def task(module: nn.Module, start: Row, algorithm: Algorithm) -> Task:
    """The three clients, with a model that begins at `start`."""
    owner = np.repeat(np.arange(3), SIZES)
    samples = Samples(torch.from_numpy(X[owner].astype(np.float32)), torch.from_numpy(Y[owner]))
    split = Split(tuple(np.split(np.arange(12), np.cumsum(SIZES)[:-1])))
    Layout.of(module).unpack(torch.from_numpy(start.astype(np.float32)), module)
    # Where all data lie in one place a batch of 2 would mix clients at random: one batch of everything, twice.
    work = Work(2, 12, SGD(LR, RHO)) if algorithm.pooled else Work(1, 2, SGD(LR, RHO))
    return Task(Dataset("three points", samples, samples, K, "none"), split, module, work, SEED)
