"""Further passes over clients' training data: losses, gradients, mean features.

Shapes: C clients, P values of a model, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.algorithms import Output
from noniid.engine.base import Engine
from noniid.engine.replica import Replica
from noniid.errors import BadInput
from noniid.rows import squared_norm

Question = Callable[[Replica, int], Tensor]  # of a replica that holds the model, and a client


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
        return self._per_client(w, _loss)

    def grad(self, w: Tensor, /) -> Tensor:
        """The gradient of that mean, [C, P]; zero where a value is not trainable."""
        return self._per_client(w, _grad)

    def features(self, w: Tensor, /) -> Tensor:
        """The mean of each client's features, [C, F]."""
        return self._per_client(w, _mean_features)

    def batch_features(self, w: Tensor, /) -> Tensor:
        """The mean features of one random batch of each client's, [C, F]."""
        return self._per_client(w, partial(_batch_features, clock=self._clock))

    def squared_grad_norm(self, w: Tensor, /) -> Tensor:
        """The squared norm of a batch's gradient, mean over each client's batches: [C]."""
        return self._per_client(w, _squared_grad_norm)

    def _per_client(self, w: Tensor, question: Question) -> Tensor:
        """A model that all clients are asked about goes with the question, models of their own with each client."""
        common, rows = (w, [None] * len(self._ids)) if w.dim() == 1 else (None, list(w))
        answers = self._engine.map(partial(_answer, question, common), list(zip(self._ids, rows, strict=True)))
        return torch.stack(list(answers))


def _answer(question: Question, common: Tensor | None, replica: Replica, job: tuple[int, Tensor | None]) -> Tensor:
    client, row = job
    model = common if row is None else row
    assert model is not None
    replica.row.copy_(model)
    replica.model.eval()
    return question(replica, client)


@torch.no_grad()
def _loss(replica: Replica, client: int) -> Tensor:
    def total(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(replica.judge(x).logits, y, reduction="sum")

    return _mean(replica, client, total)


@torch.no_grad()
def _mean_features(replica: Replica, client: int) -> Tensor:
    return _mean(replica, client, lambda x, y: features_of(replica.judge(x)).sum(0))


@torch.no_grad()
def _batch_features(replica: Replica, client: int, clock: int) -> Tensor:
    return features_of(replica.judge(replica.task.one_batch(client, clock).x)).mean(0)


def _grad(replica: Replica, client: int) -> Tensor:
    replica.grad.zero_()

    def accumulate(x: Tensor, y: Tensor) -> Any:
        F.cross_entropy(Output.of(replica.model(x)).logits, y, reduction="sum").backward()
        return 0

    _mean(replica, client, accumulate)
    return replica.grad / len(replica.task.split.indices[client])


def _squared_grad_norm(replica: Replica, client: int) -> Tensor:
    norms: list[Tensor] = []
    for batch in replica.task.in_order(client, replica.task.work.batch_size):
        replica.grad.zero_()
        F.cross_entropy(Output.of(replica.model(batch.x)).logits, batch.y).backward()
        norms.append(squared_norm(replica.grad))
    return torch.stack(norms).mean()


def _mean(replica: Replica, client: int, total: Callable[[Tensor, Tensor], Any]) -> Any:
    task = replica.task
    return sum(total(batch.x, batch.y) for batch in task.in_order(client)) / len(task.split.indices[client])


def features_of(out: Output) -> Tensor:
    """The features of a model that shows them."""
    if out.features is None:
        raise BadInput("this algorithm compares features, and the model gives only logits.")
    return out.features
