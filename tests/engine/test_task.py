"""Batches are the same whether they are gathered one by one or several at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from noniid.engine import Task
from tests.contract import problems


def _one_by_one(task: Task, client: int, clock: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    train, batch = task.dataset.train, task.work.batch_size
    found = [index for epoch in task.epochs(client, clock) for index in epoch.split(batch)]
    return [(train.batch(index), train.y[index]) for index in found]


@pytest.mark.parametrize("batch", [1, 3, 8, 31, 64, 200])
@pytest.mark.parametrize("work", [{}, {"drop_last": True}, {"steps": 11}], ids=str)
def test_small_batches_are_gathered_together(batch: int, work: dict[str, Any]) -> None:
    task = problems.task(batch=batch, **work)
    for client in range(5):
        many, known = list(task.batches(client, 2)), _one_by_one(task, client, 2)
        assert len(many) == len(known) == int(task.steps(torch.tensor([client])))
        for (x, y), (known_x, known_y) in zip(many, known, strict=True):
            assert torch.equal(x, known_x) and torch.equal(y, known_y)
            assert x.is_contiguous() and x.data_ptr() % 64 == 0  # as a tensor of its own
