"""A random table near the best one: moves that keep both margins. [RADFed, Algorithm 3]

N clients, U kinds of samples, F features, M categories; tables as in `program`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from noniid.seeds import Draws
from noniid.split.program import Reals, Wish

# Moves made before the search: at most, or exactly where moves are capped; and in it. The published code's and the
# paper's own numbers.
BEFORE = {"share": 500_000, "capped": 100_000}
SEARCH = 500_000
CHUNK = 10_000  # moves drawn at once


@dataclass(frozen=True)
class Moves:
    """How far a move may go: up to the part xi of what there is to move, or up to xi of a sample."""

    rule: Literal["share", "capped"]
    xi: float


def wander(table: Reals, wish: Wish, moves: Moves, draws: Draws) -> Reals:
    """From the best table: moves away from it, then the table of lowest loss among those of the search, [N, U].

    With the rule "share" the first moves end as soon as the loss is between 1.1 and 1.2 times the lowest there is.
    """
    walk = _Walk(table, wish, moves)
    lowest: float = walk.loss
    for move in _drawn(BEFORE[moves.rule], table.shape, draws):
        walk.move(*move)
        if moves.rule == "share" and 1.1 * lowest < walk.loss < 1.2 * lowest:
            break
    best, kept = walk.loss, walk.table.copy()
    for move in _drawn(SEARCH, table.shape, draws):
        walk.move(*move)
        if walk.loss < best:
            best, kept = walk.loss, walk.table.copy()
    return np.array(kept).reshape(table.shape)


def _drawn(number: int, shape: tuple[int, ...], draws: Draws) -> Iterator[tuple[int, int, int, int, float]]:
    """Two clients, two kinds and a number below 1, so many times; all drawn with replacement."""
    num_clients, num_kinds = shape
    for start in range(0, number, CHUNK):
        clients, others, kinds, their_kinds, u = draws.random((5, min(CHUNK, number - start)))
        cells = [(num_clients * clients, num_clients * others), (num_kinds * kinds, num_kinds * their_kinds)]
        yield from zip(*(each.astype(int).tolist() for pair in cells for each in pair), u.tolist(), strict=True)


class _Walk:
    """The table as one list of numbers, row after row: faster than an array where one entry at a time is touched."""

    def __init__(self, table: Reals, wish: Wish, moves: Moves):
        self.table: list[float] = table.ravel().tolist()
        self.loss: float = wish.loss(table)
        self._excess: list[list[float]] = wish.excess(table).tolist()
        self._num_kinds: int = table.shape[1]
        self._kinds: list[list[int]] = wish.kinds.tolist()
        self._capped, self._xi = moves.rule == "capped", moves.xi
        self._differing: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def move(self, i: int, other: int, j: int, their: int, u: float) -> None:
        """Client i gives a bit of kind j for as much of the other client's kind `their`."""
        if i == other or j == their:
            return
        table, num_kinds = self.table, self._num_kinds
        mine, theirs = i * num_kinds + j, other * num_kinds + their
        room = min(table[mine], table[theirs])
        eps = u * (min(room, self._xi) if self._capped else room * self._xi)
        table[mine] -= eps
        table[theirs] -= eps
        table[i * num_kinds + their] += eps
        table[other * num_kinds + j] += eps
        my_excess, their_excess = self._excess[i], self._excess[other]
        slope, bends = 0.0, 0
        for given, got in self._categories(j, their):
            slope += my_excess[got] - my_excess[given] + their_excess[given] - their_excess[got]
            bends += 4
            my_excess[given] -= eps
            my_excess[got] += eps
            their_excess[given] += eps
            their_excess[got] -= eps
        self.loss += eps * (2 * slope + eps * bends)

    def _categories(self, j: int, their: int) -> list[tuple[int, int]]:
        """In which categories two kinds differ, feature by feature."""
        found = self._differing.get((j, their))
        if found is None:
            found = [(a, b) for a, b in zip(self._kinds[j], self._kinds[their], strict=True) if a != b]
            self._differing[j, their] = found
        return found
