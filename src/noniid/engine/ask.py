"""Further passes over clients' training data: losses, full gradients, mean features.

Shapes: C clients, P values of a model, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.algorithms import Output
from noniid.engine.base import Engine
from noniid.engine.replica import Replica
from noniid.errors import BadInput


class Questions:
    """Answers `Ask` for the clients `ids`, on any engine: one client is one job."""

    def __init__(self, engine: Engine, ids: Tensor):
        self._engine = engine
        self._ids = [int(i) for i in ids]

    def loss(self, w: Tensor, /) -> Tensor:
        """Mean cross-entropy over each client's training data: [C]."""
        return self._per_client(w, self._loss)

    def grad(self, w: Tensor, /) -> Tensor:
        """The gradient of that mean, [C, P]; zero where a value is not trainable."""
        return self._per_client(w, self._grad)

    def features(self, w: Tensor, /) -> Tensor:
        """The mean of each client's features, [C, F]."""
        return self._per_client(w, self._features)

    def _per_client(self, w: Tensor, question: Callable[[Replica, int], Tensor]) -> Tensor:
        rows = w.expand(len(self._ids), -1)

        def answer(replica: Replica, job: tuple[int, Tensor]) -> Tensor:
            client, row = job
            replica.row.copy_(row)
            replica.model.eval()
            return question(replica, client)

        return torch.stack(list(self._engine.map(answer, list(zip(self._ids, rows, strict=True)))))

    @torch.no_grad()
    def _loss(self, replica: Replica, client: int) -> Tensor:
        return self._mean(client, lambda x, y: F.cross_entropy(Output.of(replica.model(x)).logits, y, reduction="sum"))

    @torch.no_grad()
    def _features(self, replica: Replica, client: int) -> Tensor:
        def total(x: Tensor, y: Tensor) -> Tensor:
            features = Output.of(replica.model(x)).features
            if features is None:
                raise BadInput("this algorithm compares features, and the model gives only logits.")
            return features.sum(0)

        return self._mean(client, total)

    def _grad(self, replica: Replica, client: int) -> Tensor:
        replica.grad.zero_()

        def accumulate(x: Tensor, y: Tensor) -> Any:
            F.cross_entropy(Output.of(replica.model(x)).logits, y, reduction="sum").backward()
            return 0

        self._mean(client, accumulate)
        return replica.grad / len(self._engine.task.split.indices[client])

    def _mean(self, client: int, total: Callable[[Tensor, Tensor], Any]) -> Any:
        task = self._engine.task
        return sum(total(batch.x, batch.y) for batch in task.in_order(client)) / len(task.split.indices[client])
