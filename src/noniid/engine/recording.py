"""One step of several clients as a CUDA graph, with rows and inputs in places of their own.

Shapes: C clients, P values of a model, B batch.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from noniid.algorithms import Algorithm
from noniid.engine.bundle import Bundle, Program, Step, Stepper


class Rows(NamedTuple):
    """What is kept of clients between steps."""

    bundle: Bundle
    loss: Tensor  # [C], summed over the steps

    def all(self) -> list[Tensor]:
        """[C, ...] each, in an order that depends on names only."""
        bundle = self.bundle
        named = [rows[name] for rows in (bundle.local.memory, bundle.state) for name in sorted(rows)]
        return [bundle.w, bundle.local.start, self.loss, *named]

    def copy_(self, mine: Any, other: Rows, theirs: Any) -> None:
        for to, source in zip(self.all(), other.all(), strict=True):
            to[mine] = source[theirs]


@dataclass(frozen=True)
class Kind:
    """Steps of a kind can be recorded together: everything but tensors that are copied in."""

    algorithm: str
    optim: str
    count: int
    length: int
    inputs: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]


class Recording:
    """A step of so many clients with batches of one length."""

    def __init__(self, like: Bundle, kind: Kind, inputs: Sequence[Tensor], gather: Callable[..., Any]):
        local, n = like.local, kind.count
        memory, state = ({name: _many(rows, n) for name, rows in some.items()} for some in (local.memory, like.state))
        self._lr = torch.zeros((), device=like.w.device)
        local = local._replace(
            start=_many(like.w, n), memory=memory, optim=replace(local.optim, lr=self._lr),
            shared={name: value.clone() for name, value in local.shared.items()},
        )  # fmt: skip
        w, g = _many(like.w, n), like.w.new_zeros(n, like.w.shape[1])
        bundle = Bundle(like.num_trainable, w, g, local._replace(w=w), state)
        self.rows = Rows(bundle, torch.zeros(n, device=w.device))
        self._inputs = [_many(each[:, : kind.length], n) for each in inputs]
        self._lengths, self._gather = [kind.length] * n, gather
        self._graph = torch.cuda.CUDAGraph()

    def record(self, algorithm: Algorithm, program: Program, pool: Any) -> None:
        stepper = Stepper(algorithm, self.rows.bundle, program)

        def once() -> None:
            x, y = self._gather(*self._inputs[:-1])
            self.rows.loss.add_(stepper(Step(x, y, self._lengths, self._inputs[-1])))

        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            once()  # what libraries make at a first call is not to be recorded
            with _no_waiting():
                once()
        torch.cuda.current_stream().wait_stream(aside)
        with _no_collecting(), torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            once()

    def begin(self, bundle: Bundle) -> None:
        """Take what all clients of a wave share."""
        self._lr.fill_(float(bundle.local.optim.lr))
        for name, value in bundle.local.shared.items():
            self.rows.bundle.local.shared[name].copy_(value)

    def __call__(self, inputs: Sequence[Tensor]) -> None:
        """One step; what is left of the rows beyond the inputs steps on an old batch, and is never looked at."""
        for mine, given in zip(self._inputs, inputs, strict=True):
            mine[: len(given)].copy_(given, non_blocking=True)
        self._graph.replay()


@contextlib.contextmanager
def _no_waiting() -> Iterator[None]:
    """Inside, what waits for the device raises: a recording that comes upon it could not be taken back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode is new
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """Inside, no garbage is collected: freeing another recording spoils the one that is being made."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _many(rows: Tensor, n: int) -> Tensor:
    """n copies of the first row."""
    return rows[:1].repeat(n, *[1] * (rows.dim() - 1))
