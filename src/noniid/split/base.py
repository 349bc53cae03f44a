"""A split is a placement, who holds which sample, and shifts, what clients do to their samples.

N clients, n samples, K classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.parts import Parts
from noniid.split.shift import Reading, Shift
from noniid.split.traits import Ints, Traits

if TYPE_CHECKING:
    import torch

COUNTED = 10_000  # clients whose labels are counted at once


@dataclass(frozen=True, eq=False)
class Split:
    """Who holds what: one index array per client, disjoint; and what clients do to it."""

    indices: Sequence[Ints]  # whatever is given becomes one array: `Parts`
    shifts: tuple[Shift, ...] = ()  # in the order they are applied
    num_dropped: int = 0  # samples that no client holds
    owners: Parts | None = None  # of a pooled split: whose samples the one client's are
    fitted: tuple[Any, ...] = ()  # by shift: what it found when the split was made
    labels: Ints | None = None  # [n], where clients train with others than the true ones

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", Parts.of(self.indices))

    @property
    def parts(self) -> Parts:
        assert isinstance(self.indices, Parts)
        return self.indices

    def pooled(self) -> Split:
        """All samples in the hands of one client, each still shifted as its owner's are."""
        return replace(self, indices=(self.parts.row,), owners=self.parts)

    @property
    def views(self) -> int:
        """In how many ways samples may be shifted: the clients, or before pooling the owners."""
        return len(self.owners or self.indices)

    @property
    def test_views(self) -> int:
        """In how many ways the test set is seen."""
        return self.views if any(shift.on_test and not shift.alike for shift in self.shifts) else 1

    def shifted(self, x: torch.Tensor, reading: Reading) -> torch.Tensor:
        """The samples `x`, shifted as whoever owns them shifts; of the test set, as the reading's client does."""
        for number, shift in enumerate(self.shifts):
            fitted = self.fitted[number] if self.fitted else None
            if reading.test:
                x = shift.apply(x, reading, fitted) if shift.on_test else x
            elif self.owners is None:
                x = shift.apply(x, reading, fitted)
            else:
                x = self._by_owner(shift, x, reading, fitted)
        return x

    def relabelled(self, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """What clients take for the labels `y` of the samples `index`."""
        if self.labels is None:
            return y
        return y.new_tensor(self.labels[index.numpy()])

    def _by_owner(self, shift: Shift, x: torch.Tensor, reading: Reading, fitted: Any) -> torch.Tensor:
        owner_of = self._owner_of()[reading.index.numpy()]
        x = x.clone()
        for owner in np.unique(owner_of):
            mine = np.flatnonzero(owner_of == owner)
            x[mine] = shift.apply(x[mine], replace(reading, index=reading.index[mine], client=int(owner)), fitted)
        return x

    def _owner_of(self) -> Ints:
        """By sample, as far as owned."""
        assert self.owners is not None
        owner_of = np.zeros(max(int(held.max()) for held in self.owners) + 1, np.int64)
        for owner, held in enumerate(self.owners):
            owner_of[held] = owner
        return owner_of

    @property
    def num_clients(self) -> int:
        return len(self.indices)

    @property
    def sizes(self) -> Ints:
        return self.parts.sizes

    def counts(self, labels: np.ndarray, num_classes: int) -> Ints:
        """How many samples of each class each client holds, [N, K], by these labels, the true ones as a rule."""
        labels = np.asarray(labels)
        if len(labels) and int(labels.max()) >= num_classes:
            raise BadInput(f"num_classes must be above the largest label, {labels.max()}: not {num_classes}.")
        counts: list[Ints] = [np.zeros((0, num_classes), np.int64)]
        row, ends, sizes = self.parts.row, self.parts.ends, self.sizes
        for first in range(0, self.num_clients, COUNTED):
            some = sizes[first : first + COUNTED]
            end = ends[first + len(some) - 1]
            place = np.repeat(np.arange(len(some)) * num_classes, some) + labels[row[end - some.sum() : end]]
            counts.append(np.bincount(place, minlength=len(some) * num_classes).reshape(-1, num_classes))
        return np.concatenate(counts).astype(np.int64, copy=False)


class Placement(ABC):
    """Who holds which sample. Subclasses are frozen dataclasses and implement `deal`."""

    # Whether the data or the fields say how many clients there are, so that nobody is asked: then `count` says it.
    own_count: ClassVar[bool] = False

    @final
    def place(self, samples: np.ndarray | Traits, num_clients: int | None, draws: Draws) -> Parts:
        """One index array per client; every client holds something, or the error says what to change.

        `samples` are labels, or traits where the placement looks at more than labels.
        """
        self.check()
        traits = Traits.of(samples)
        num_clients = self.count(traits, num_clients)
        if num_clients < 1:
            raise BadInput(f"a split needs at least one client, not {num_clients}.")
        if num_clients > len(traits):
            raise BadInput(f"{len(traits):,} samples cannot be split over {num_clients:,} clients: use fewer clients.")
        held = Parts.of(self.deal(traits, num_clients, draws))
        empty = int((held.sizes == 0).sum())
        if empty:
            raise BadInput(
                f"{self} leaves {empty:,} of {num_clients:,} clients empty: "
                "use fewer clients, more data or a milder split."
            )
        return held

    def count(self, traits: Traits, asked: int | None) -> int:
        """How many clients there will be: as many as asked for, unless this has a count of its own."""
        if asked is None:
            raise BadInput("this split needs to be told for how many clients.")
        return asked

    @abstractmethod
    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        """Disjoint int64 index arrays, one per client, from at least as many samples as clients."""

    def check(self) -> None:  # noqa: B027 (nothing to refuse is a fine answer)
        """Raise BadInput for field values that make no sense."""
