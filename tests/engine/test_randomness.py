"""A model that draws random numbers of its own still gives the same bits for any number of workers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from noniid.algorithms.fedavg import FedAvg
from noniid.engine.randomness import draws
from tests.contract import problems
from tests.contract.problems import FAST


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, problems.NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(nn.functional.dropout(x.flatten(1), 0.5, self.training))


def test_dropout_is_seen() -> None:
    assert draws(problems.task(Dropping()))
    assert not draws(problems.task())


@pytest.mark.parametrize("engine", FAST)
def test_workers_and_engines_agree_on_dropout(engine: str) -> None:
    task = problems.task(Dropping())
    one, three = (problems.run(FedAvg(), task, workers=workers, engine=engine) for workers in (1, 3))
    judge = problems.run(FedAvg(), task, engine="reference")
    problems.same(one[-1].state, three[-1].state)
    problems.same(one[-1].state, judge[-1].state, rtol=2e-4, atol=2e-5)


def test_dropout_changes_the_result() -> None:
    task = problems.task(Dropping())
    trained = problems.run(FedAvg(), task)[-1].state.w
    other = problems.run(FedAvg(), problems.task(Dropping(), seed=1))[-1].state.w
    assert not torch.equal(trained, other)
