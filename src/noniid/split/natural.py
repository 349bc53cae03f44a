"""Clients as they are: who gathered a sample holds it.

N clients, n samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noniid.errors import BadInput, unknown
from noniid.seeds import Draws
from noniid.split.base import Ints, Placement


@dataclass(frozen=True)
class By(Placement):
    """Every client is one value of a column of the data, in sorted order; how many there are follows from the data."""

    column: str

    natural: ClassVar[bool] = True

    def num_clients(self, columns: Mapping[str, np.ndarray]) -> int:
        return len(np.unique(self._values(columns)))

    def deal_known(
        self, labels: np.ndarray, columns: Mapping[str, np.ndarray], num_clients: int, draws: Draws
    ) -> list[Ints]:
        names, who = np.unique(self._values(columns), return_inverse=True)
        if len(names) != num_clients:
            raise BadInput(f"by({self.column}) makes {len(names):,} clients, not {num_clients:,}: do not say how many.")
        order = np.argsort(who, kind="stable").astype(np.int64, copy=False)
        return np.split(order, np.cumsum(np.bincount(who))[:-1])

    def deal(self, labels: np.ndarray, num_clients: int, draws: Draws) -> list[Ints]:
        return self.deal_known(labels, {}, num_clients, draws)

    def _values(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        if not columns:
            raise BadInput(f"by({self.column}) needs data with columns, and these have none: choose another split.")
        if self.column not in columns:
            raise unknown("column to split by", self.column, columns)
        values = columns[self.column]
        if len(np.unique(values)) == 1:
            raise BadInput(f"column {self.column!r} is {values[0]} in every row: that is a single client.")
        return values
