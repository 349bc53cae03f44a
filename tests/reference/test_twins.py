"""Every algorithm, in every named value, equals its plain-loop twin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from noniid import models
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.fedprox import FedProx
from noniid.algorithms.scaffold import Scaffold
from noniid.engine import Task
from noniid.rows import Layout
from tests.contract import problems
from tests.contract.variants import VARIANTS
from tests.reference import loops

ROUNDS = 3


class Plain(nn.Module):
    """No BatchNorm: the papers' boxes speak of parameters only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.last = nn.Linear(3 * 6 * 6, problems.NUM_CLASSES)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.relu(self.conv(x)).flatten(1)
        return self.last(features), features


def _scaffold(algorithm: Scaffold, task: Task) -> loops.Params:
    zero = {name: torch.zeros_like(v) for name, v in loops.params(task.model).items()}
    net = models.fresh(task.model, task.dataset.input_shape, problems.NUM_CLASSES, 2)
    c0 = zero if algorithm.variates == "zero" else loops.params(net)
    return loops.scaffold(task, ROUNDS, c0, option=algorithm.option, correct=algorithm.correct)


TWINS: dict[type[Algorithm], Callable[..., loops.Params]] = {
    FedAvg: lambda algorithm, task: loops.fedavg(task, ROUNDS),
    FedProx: lambda algorithm, task: loops.fedprox(task, ROUNDS, algorithm.mu),
    Scaffold: _scaffold,
    FedNova: lambda algorithm, task: loops.fednova(task, ROUNDS, steps=algorithm.steps, weights=algorithm.weights),
}


@pytest.mark.parametrize("text", [*VARIANTS, "fedprox(1.0)"])
def test_equals_its_twin(text: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    task = problems.task(Plain())
    twin = TWINS[type(algorithm)](algorithm, task)
    final = problems.run(algorithm, task, rounds=ROUNDS)[-1].state.w
    for name, view in Layout.of(task.model).named(final):
        torch.testing.assert_close(view, twin[name], rtol=2e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_every_algorithm_has_a_twin() -> None:
    assert set(TWINS) == set(ALGORITHMS.values())
