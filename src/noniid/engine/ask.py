"""Further passes over clients' training data: losses, gradients, mean features.

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
from noniid.rows import squared_norm


class Questions:
    """Answers `Ask` for the clients `ids`, on any engine: one client is one job.

    `clock` tells one visit from another where an answer is drawn: `batch_features` looks at a random batch.
    """

    def __init__(self, engine: Engine, ids: Tensor, clock: int = 0):
        self._engine = engine
        self._ids = [int(i) for i in ids]
        self._clock = clock

    def loss(self, w: Tensor, /) -> Tensor:
        """Mean cross-entropy over each client's training data: [C]."""
        return self._per_client(w, self._loss)

    def grad(self, w: Tensor, /) -> Tensor:
        """The gradient of that mean, [C, P]; zero where a value is not trainable."""
        return self._per_client(w, self._grad)

    def features(self, w: Tensor, /) -> Tensor:
        """The mean of each client's features, [C, F]."""
        return self._per_client(w, self._features)

    def batch_features(self, w: Tensor, /) -> Tensor:
        """The mean features of one random batch of each client's, [C, F]."""
        return self._per_client(w, self._batch_features)

    def squared_grad_norm(self, w: Tensor, /) -> Tensor:
        """The squared norm of a batch's gradient, mean over each client's batches: [C]."""
        return self._per_client(w, self._squared_grad_norm)

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
        return self._mean(client, lambda x, y: _features(replica, x).sum(0))

    @torch.no_grad()
    def _batch_features(self, replica: Replica, client: int) -> Tensor:
        return _features(replica, self._engine.task.one_batch(client, self._clock).x).mean(0)

    def _grad(self, replica: Replica, client: int) -> Tensor:
        replica.grad.zero_()

        def accumulate(x: Tensor, y: Tensor) -> Any:
            F.cross_entropy(Output.of(replica.model(x)).logits, y, reduction="sum").backward()
            return 0

        self._mean(client, accumulate)
        return replica.grad / len(self._engine.task.split.indices[client])

    def _squared_grad_norm(self, replica: Replica, client: int) -> Tensor:
        norms: list[Tensor] = []
        for batch in self._engine.task.in_order(client, self._engine.task.work.batch_size):
            replica.grad.zero_()
            F.cross_entropy(Output.of(replica.model(batch.x)).logits, batch.y).backward()
            norms.append(squared_norm(replica.grad))
        return torch.stack(norms).mean()

    def _mean(self, client: int, total: Callable[[Tensor, Tensor], Any]) -> Any:
        task = self._engine.task
        return sum(total(batch.x, batch.y) for batch in task.in_order(client)) / len(task.split.indices[client])


def _features(replica: Replica, x: Tensor) -> Tensor:
    features = Output.of(replica.model(x)).features
    if features is None:
        raise BadInput("this algorithm compares features, and the model gives only logits.")
    return features
