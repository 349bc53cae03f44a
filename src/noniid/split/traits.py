"""What a placement may know of the samples it deals out.

n samples, B of them asked for, d values each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noniid.errors import BadInput, unknown

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Traits:
    """Of n samples: their labels, which is all that most placements look at, and what else is known of them.

    labels    [n], the class of each
    columns   by name, [n] each: its writer, its hospital, ...
    read      the features of the samples asked for, [B, ...], as an array or a tensor; called only by what
              looks at features, and for so many samples at a time as it can hold
    """

    labels: np.ndarray
    columns: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    read: Callable[[Ints], Any] | None = None

    @classmethod
    def of(cls, samples: np.ndarray | Traits) -> Traits:
        """Bare labels are traits, too."""
        return samples if isinstance(samples, Traits) else cls(np.asarray(samples))

    def __len__(self) -> int:
        return len(self.labels)

    def column(self, name: str) -> np.ndarray:
        """[n]

        >>> Traits(np.zeros(2), {"writer": np.array(["ann", "bob"])}).column("writter")
        Traceback (most recent call last):
            ...
        noniid.errors.BadInput: unknown column 'writter': did you mean 'writer'? Known: writer.
        """
        if not self.columns:
            raise BadInput(f"these data have no column {name!r}, nor any other: choose a split by labels or sizes.")
        if name not in self.columns:
            raise unknown("column", name, self.columns)
        return np.asarray(self.columns[name])

    def features(self, index: Ints) -> Any:
        """What `read` gives for these samples, [B, ...]."""
        if self.read is None:
            raise BadInput("this split looks at features and was given labels only: give it Traits that can read them.")
        return self.read(index)

    def rows(self, index: Ints) -> NDArray[np.float32]:
        """The features of these samples as rows, [B, d]."""
        return np.asarray(self.features(index), dtype=np.float32).reshape(len(index), -1)
