"""Visits in compiled code: what a client does under the plain loss, with SGD, and data that are read as they are.

An algorithm that leaves loss and gradient alone has its say before a visit or after it, and nobody needs the
interpreter in between. One that corrects gradients is asked at every step, but for nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor

from noniid.algorithms import Algorithm
from noniid.data import Samples
from noniid.engine.task import Task
from noniid.models import Walk
from noniid.optim import Optimiser


def walk_of(algorithm: Algorithm, optim: Optimiser, task: Task) -> Walk | None:
    """How this algorithm's clients walk; None if there is more to a step, or to reading a sample."""
    kind, train, sgd = type(algorithm), task.dataset.train, optim.as_sgd
    if kind.loss is not Algorithm.loss or sgd is None or not task.plain:
        return None
    x = train.x
    if type(train) is not Samples or not isinstance(x, Tensor) or not x.is_contiguous():
        return None  # another kind of samples may have its own way of reading one
    if x.dtype not in (torch.uint8, torch.float32):
        return None
    bare = kind.grad is Algorithm.grad and kind.after is Algorithm.after
    return Walk(x, train.scale, train.y, task.work.batch_size, sgd, bare)
