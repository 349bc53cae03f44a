"""Natural clients: who holds what is known, from a column of the data.

N clients, n samples, V values of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import deal_out, shuffled, sort_by_class
from noniid.split.traits import Ints, Traits


@dataclass(frozen=True)
class By(Placement):
    """One client for each value of a column: by(writer), by(hospital).

    The data say how many clients there are, in the order of the values. What belongs to a value that is left out is
    dropped, and counted in `Split.num_dropped`.

    min_size   values with fewer samples are left out, as eICU's hospitals with 100 admissions or fewer.
    most       only so many values, those with the most samples, as the 500 accounts of rFedAvg's Sent140.
    """

    own_count: ClassVar[bool] = True
    column: str
    min_size: int = 1
    most: int | None = None

    def check(self) -> None:
        if self.min_size < 1:
            raise BadInput(f"by's min_size is at least 1, not {self.min_size}: an empty client cannot train.")
        if self.most is not None and self.most < 1:
            raise BadInput(f"by's most is at least one client, or none for all, not {self.most}.")

    def count(self, traits: Traits, asked: int | None) -> int:
        values, sizes = np.unique(traits.column(self.column), return_counts=True)
        if len(values) == 1:
            raise BadInput(f"column {self.column!r} is {values[0]} in every row: that is a single client.")
        return len(self._kept(sizes))

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        codes, sizes = _codes(traits.column(self.column))
        order, _ = sort_by_class(codes)
        kept = self._kept(sizes)
        table = np.zeros((len(sizes), num_clients), dtype=np.int64)
        table[kept, np.arange(num_clients)] = sizes[kept]
        return deal_out(order, sizes, table)

    def _kept(self, sizes: Ints) -> Ints:
        """Which values become clients, ascending."""
        largest = np.argsort(-sizes, kind="stable")[: self.most]
        kept = np.sort(largest[sizes[largest] >= self.min_size])
        if not len(kept):
            raise BadInput(
                f"no {self.column} has {self.min_size:,} samples or more, the largest has {sizes.max():,}: "
                "lower min_size."
            )
        return kept


@dataclass(frozen=True)
class Grouped(Placement):
    """The values of a column, in random order, are dealt into N nearly equal groups; a client holds a group's samples.

    NIID-Bench's split of FEMNIST: 3,383 writers for ten clients.
    """

    column: str

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        codes, sizes = _codes(traits.column(self.column))
        if num_clients > len(sizes):
            raise BadInput(
                f"{len(sizes):,} values of {self.column} cannot be dealt over {num_clients:,} clients: "
                "use fewer clients."
            )
        by_value: list[Ints] = np.split(sort_by_class(codes)[0], np.cumsum(sizes)[:-1])
        groups: list[Ints] = np.array_split(shuffled(len(sizes), draws), num_clients)
        return [np.concatenate([by_value[int(value)] for value in group]) for group in groups]


def _codes(column: np.ndarray) -> tuple[Ints, Ints]:
    """Each sample's value as a number from 0, [n], and how many samples each value has, [V]."""
    _, codes, sizes = np.unique(column, return_inverse=True, return_counts=True)
    return codes.astype(np.int64, copy=False), sizes.astype(np.int64, copy=False)
