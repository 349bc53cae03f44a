"""The index arrays of all clients, held as one.

N clients, n samples held.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np

from noniid.split.traits import Ints


class Parts(Sequence[Ints]):
    """A client's part is a view of `row` [n] that ends at its entry of `ends` [N] and begins where the one before
    it ends: a million clients cost no more than their samples."""

    def __init__(self, row: Ints, ends: Ints):
        self.ends = np.asarray(ends, np.int64)
        self.row = row[: self.ends[-1] if len(self.ends) else 0]

    @classmethod
    def of(cls, held: Sequence[Ints]) -> Parts:
        """The same parts; what is not one array yet is copied into one."""
        if isinstance(held, Parts):
            return held
        row = np.concatenate(held) if len(held) else np.empty(0, np.int64)
        return cls(row, np.cumsum([len(part) for part in held], dtype=np.int64))

    @cached_property
    def sizes(self) -> Ints:
        """How many samples each client holds, [N]."""
        return np.diff(self.ends, prepend=0)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, client: int) -> Ints: ...
    @overload
    def __getitem__(self, client: slice) -> list[Ints]: ...
    def __getitem__(self, client: int | slice) -> Ints | list[Ints]:
        if isinstance(client, slice):
            return [self[i] for i in range(*client.indices(len(self)))]
        if not -len(self) <= client < len(self):
            raise IndexError(f"there is no client {client} among {len(self)}")
        client %= len(self)
        return self.row[self.ends[client - 1] if client else 0 : self.ends[client]]
