"""What clients remember, as the round loop takes it and puts it back.

Shapes: N clients in all, C in the wave.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Protocol

from torch import Tensor

from noniid.algorithms import State, Tensors
from noniid.rows import is_real, put, take


class Keeper(Protocol):
    """Whoever keeps the rows where that takes care: is told by name of what is about to happen to them."""

    def fetch(self, name: str, ids: Tensor) -> None:
        """The rows of these clients are about to be read."""

    def note(self, name: str, ids: Tensor, rows: Tensor) -> None:
        """The rows of these clients are about to be replaced, and this is what they are: [C, ...]."""


class Memory:
    """Rows are replaced in place. A round of several waves may end half way, and that must not show: until a round
    is whole, what was replaced is held to be put back."""

    def __init__(self, keeper: Keeper | None = None):
        self._keeper = keeper
        self._replaced: list[tuple[Tensor, Tensor, Tensor]] = []

    @contextlib.contextmanager
    def whole_round(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for memory, ids, old in reversed(self._replaced):
                put(memory, ids, old)
            raise
        finally:
            self._replaced.clear()

    def taken(self, state: State, ids: Tensor) -> dict[str, Tensor]:
        """These clients' rows, as copies: [C, ...] by name."""
        if self._keeper:
            for name in state.memory:
                self._keeper.fetch(name, ids)
        return {name: take(rows, ids).to(state.w.device) for name, rows in state.memory.items()}

    def replaced(self, memory: Tensors, ids: Tensor, old: Tensors, fresh: Mapping[str, Tensor]) -> Tensors:
        """The memory with `fresh` rows of these clients in place of their `old` ones."""
        after = dict(memory)
        for name, rows in fresh.items():
            if self._keeper:
                self._keeper.note(name, ids, old[name])
            if is_real(memory[name]):
                self._replaced.append((memory[name], ids, old[name]))
            after[name] = put(memory[name], ids, rows)
        return after
