"""Two rounds by hand: each algorithm on a linear softmax model, in plain arithmetic.

Three clients hold 2, 4 and 6 samples; within a client all samples are equal, so that the order of its batches
of 2 does not matter and every step's gradient can be written down. Nothing here is taken from the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from noniid.algorithms import ALGORITHMS
from noniid.data import Dataset, Samples
from noniid.engine import Task, Work
from noniid.models import fresh, parse
from noniid.optim import SGD
from noniid.split import Split
from tests.contract import problems

X = np.array([[1.0, 0.5], [-0.5, 1.0], [0.25, -1.0]])  # client i's one sample
Y = np.array([0, 1, 2])
SIZES = [2, 4, 6]
STEPS = [1, 2, 3]  # of one epoch, in batches of 2
LR, RHO = 0.2, 0.9
K, D = 3, 2

Row = np.ndarray  # the weights [K, D], row after row, then the biases [K]
START = np.concatenate([np.linspace(-0.3, 0.4, K * D), [0.1, 0.0, -0.2]])


def _gradient(w: Row, i: int) -> Row:
    """Of -log softmax(W x + b)_y at client i's sample: (softmax - onehot) x^T and softmax - onehot."""
    logits = w[: K * D].reshape(K, D) @ X[i] + w[K * D :]
    p = np.exp(logits) / np.exp(logits).sum()
    p[Y[i]] -= 1
    return np.concatenate([np.outer(p, X[i]).ravel(), p])


def _trained(w: Row, i: int, corrected: Callable[[Row, Row], Row]) -> Row:
    """Client i's model after its steps of SGD with momentum along `corrected(gradient, model)`."""
    model, buffer = w.copy(), np.zeros_like(w)
    for _ in range(STEPS[i]):
        buffer = RHO * buffer + corrected(_gradient(model, i), model)
        model = model - LR * buffer
    return model


def fedavg(w: Row, rounds: int) -> Row:
    for _ in range(rounds):
        ends = [_trained(w, i, lambda g, model: g) for i in range(3)]
        w = (2 * ends[0] + 4 * ends[1] + 6 * ends[2]) / 12
    return w


def fedprox(w: Row, rounds: int) -> Row:
    for _ in range(rounds):
        ends = [_trained(w, i, lambda g, model, start=w: g + 0.5 * (model - start)) for i in range(3)]
        w = (2 * ends[0] + 4 * ends[1] + 6 * ends[2]) / 12
    return w


def scaffold(w: Row, rounds: int) -> Row:
    """Option (ii). One unit gradient in 1, 2, 3 steps with momentum .9 moves 1, 2.9, 5.61 in units of lr."""
    counts = [1.0, 1 + 1.9, 1 + 1.9 + 2.71]
    c, variates = np.zeros_like(w), [np.zeros_like(w) for _ in range(3)]
    for _ in range(rounds):
        ends = [_trained(w, i, lambda g, model, own=variates[i], c=c: g - own + c) for i in range(3)]
        fresh_ones = [variates[i] - c + (w - ends[i]) / (counts[i] * LR) for i in range(3)]
        c = c + sum(fresh_ones[i] - variates[i] for i in range(3)) / 3
        variates = fresh_ones
        w = (2 * ends[0] + 4 * ends[1] + 6 * ends[2]) / 12
    return w


def fednova(w: Row, rounds: int) -> Row:
    a, p = [1.0, 2.9, 5.61], [2 / 12, 4 / 12, 6 / 12]
    effective = sum(p[i] * a[i] for i in range(3))
    for _ in range(rounds):
        directions = [(w - _trained(w, i, lambda g, model: g)) / a[i] for i in range(3)]
        w = w - effective * sum(p[i] * directions[i] for i in range(3))
    return w


def _task() -> Task:
    owner = np.repeat(np.arange(3), SIZES)
    x = torch.from_numpy(X[owner].astype(np.float32))
    samples = Samples(x, torch.from_numpy(Y[owner]))
    ends = np.cumsum(SIZES)
    split = Split(tuple(np.split(np.arange(12), ends[:-1])))
    data = Dataset("three points", samples, samples, K, "none")
    return Task(data, split, fresh(parse("linear"), (D,), K, 0), Work(1, 2, SGD(LR, RHO)), seed=0)


GOLDEN = {"fedavg": fedavg, "fedprox(0.5)": fedprox, "scaffold": scaffold, "fednova": fednova}


@pytest.mark.parametrize("engine", ["threads", "reference"])
@pytest.mark.parametrize("text", GOLDEN)
def test_two_rounds_are_what_arithmetic_says(text: str, engine: str) -> None:
    task, algorithm = _task(), ALGORITHMS.parse(text)
    state = algorithm.init(torch.from_numpy(START.astype(np.float32)), problems.federation(task))
    done = problems.run(algorithm, task, rounds=2, engine=engine, state=state)
    for after in done:
        expected = GOLDEN[text](START, after.round)
        np.testing.assert_allclose(after.state.w.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_golden_trajectories_are_all_different() -> None:
    finals = [golden(START, 2) for golden in GOLDEN.values()]
    gaps = [np.abs(a - b).max() for i, a in enumerate(finals) for b in finals[:i]]
    assert min(gaps) > 1e-3


def test_every_algorithm_has_a_golden_trajectory() -> None:
    assert {type(ALGORITHMS.parse(text)) for text in GOLDEN} == set(ALGORITHMS.values())
