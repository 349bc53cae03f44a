"""The global model on the test set, or a model for each client; by class, and what that means for each client.

Shapes: V views (N where the clients' shifts apply to the test set too, or where each has a model of its own; else
1), K classes, N clients, P values of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noniid import seeds
from noniid.data import Samples
from noniid.engine.base import Engine
from noniid.engine.replica import Replica
from noniid.engine.steps import resident
from noniid.engine.task import Task
from noniid.split import Reading

CHUNK = 250  # samples per job: small enough for the cache, and fixed, so that sums never depend on the workers
GPU_CHUNK = 5000  # enough to keep a GPU busy


@dataclass(frozen=True)
class Evaluation:
    """Correct answers and samples by view and class: [V, K] each; and the mean loss."""

    correct: Tensor
    count: Tensor
    loss: float

    @property
    def accuracy(self) -> float:
        return float(self.correct.sum() / self.count.sum())

    def by_client(self, mixes: Tensor) -> Tensor:
        """Accuracy for each client's own mix of labels, [N]; `mixes` are the labels' shares at each, [N, K].

        The test set is common to all, so a client's accuracy is that of the classes it holds, weighted as it holds
        them, on its own view where views differ.
        """
        by_class = self.correct / self.count.clamp(min=1)
        return (mixes * by_class.expand(len(mixes), -1)).sum(1)


def mixes_of(label_counts: np.ndarray) -> Tensor:
    """From how many samples of each label each client holds, [N, K]."""
    return torch.from_numpy(label_counts / label_counts.sum(1, keepdims=True)).double()


def evaluate(engine: Engine, w: Tensor) -> Evaluation:
    """Top-1 accuracy and mean cross-entropy of the model `[P]`, or of a model for each client `[N, P]`."""
    task = engine.task
    test, num_classes = task.dataset.test, task.dataset.num_classes
    views = len(w) if w.dim() == 2 else task.split.test_views
    models = w.expand(views, -1)
    on_gpu = torch.device(task.device).type == "cuda"
    parts = torch.arange(len(test)).split(GPU_CHUNK if on_gpu else CHUNK)
    jobs = [(view, index) for view in range(views) for index in parts]
    changing = any(shift.on_test for shift in task.split.shifts)

    @torch.no_grad()
    def judge(replica: Replica, job: tuple[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        view, index = job
        task, here = replica.task, index.to(replica.task.device)
        test = _resident(task) if on_gpu else task.dataset.test
        x, y = test.batch(here), test.y[here]
        if changing:
            noise = seeds.torch_stream(task.seed, "test inputs", view, int(index[0]))
            reading = Reading(index, view, task.split.views, noise, test=True)
            x = task.split.shifted(x.cpu(), reading).to(task.device)
        replica.row.copy_(models[view])
        logits = replica.judge(x).logits
        none = y.new_zeros(num_classes)
        hits = none.index_add(0, y, (logits.argmax(1) == y).to(y))
        return hits, none.index_add(0, y, torch.ones_like(y)), F.cross_entropy(logits, y, reduction="sum")

    answers = list(engine.map(judge, jobs))
    correct, count = (
        torch.stack([answer[part] for answer in answers]).view(views, -1, num_classes).sum(1).double().cpu()
        for part in (0, 1)
    )
    loss = float(torch.stack([answer[2] for answer in answers]).double().sum() / float(count.sum()))
    return Evaluation(correct, count, loss)


_ON_DEVICE: WeakKeyDictionary[Task, Samples] = WeakKeyDictionary()


def _resident(task: Task) -> Samples:
    """The test set on the task's device, sent there once."""
    if task not in _ON_DEVICE:
        _ON_DEVICE[task] = resident(task.dataset.test, task.device)
    return _ON_DEVICE[task]
