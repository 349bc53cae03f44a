"""What every engine gives: train a wave, ask further questions of its clients, evaluate a model.

Shapes: C clients of the wave, P values of a model, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Event
from typing import Any, Protocol, TypeVar

from torch import Tensor

from noniid.algorithms import Algorithm, Ask, Wave
from noniid.engine.task import Task
from noniid.rows import Layout

T = TypeVar("T")


class Engine(Protocol):
    """Executes clients. Any engine gives the same numbers, up to floating-point rounding."""

    task: Task
    layout: Layout
    stop: Event  # set it from anywhere, and `train` raises Stopped within a step
    note: str  # what a user should know of how clients were trained so far; mostly nothing

    def train(self, algorithm: Algorithm, wave: Wave) -> Wave: ...
    def ask(self, ids: Tensor, clock: int = 0) -> Ask: ...
    def map(self, function: Callable[[Any, T], Any], items: Sequence[T]) -> Iterable[Any]:
        """`function(replica, item)` for all items, results in their order.

        It may run on another machine: it finds the task as `replica.task`, and what else it holds is sent with it.
        """
        ...

    def close(self) -> None: ...
