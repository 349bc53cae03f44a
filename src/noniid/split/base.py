"""A split is a placement, who holds which sample, and shifts, what clients do to their features.

N clients, n samples, K classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from noniid.errors import BadInput
from noniid.seeds import Draws

if TYPE_CHECKING:
    import torch

Ints = NDArray[np.int64]
R = TypeVar("R")

NO_COLUMNS: Mapping[str, np.ndarray] = {}
REHEARSALS = 10
HOPE = 0.01  # a search that expects fewer successes than this in all its attempts is not begun


@dataclass(frozen=True, eq=False)
class Split:
    """Who holds what: one index array per client, disjoint; and what clients do to their features."""

    indices: tuple[Ints, ...]
    shifts: tuple[Shift, ...] = ()  # in the order they are applied
    num_dropped: int = 0  # samples that no client holds
    owners: tuple[Ints, ...] | None = None  # of a pooled split: whose samples the one client's are

    def pooled(self) -> Split:
        """All samples in the hands of one client, each still shifted as its owner's are."""
        return replace(self, indices=(np.concatenate(self.indices),), owners=self.indices)

    @property
    def views(self) -> int:
        """In how many ways samples may be shifted: the clients, or before pooling the owners."""
        return len(self.owners or self.indices)

    def shifted(
        self, shift: Shift, x: torch.Tensor, index: torch.Tensor, client: int, generator: torch.Generator
    ) -> torch.Tensor:
        """A batch `x` of this client, the samples `index`, shifted as whoever owns them shifts."""
        if self.owners is None:
            return shift.apply(x, client, self.views, generator)
        owner_of = self._owner_of()[index.numpy()]
        x = x.clone()
        for owner in np.unique(owner_of):
            mine = np.flatnonzero(owner_of == owner)
            x[mine] = shift.apply(x[mine], int(owner), self.views, generator)
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
        return np.array([len(held) for held in self.indices], dtype=np.int64)

    def counts(self, labels: np.ndarray, num_classes: int) -> Ints:
        """How many samples of each class each client holds, [N, K]."""
        labels = np.asarray(labels)
        if len(labels) and int(labels.max()) >= num_classes:
            raise BadInput(f"num_classes must be above the largest label, {labels.max()}: not {num_classes}.")
        rows = [np.bincount(labels[held], minlength=num_classes) for held in self.indices]
        return np.array(rows, dtype=np.int64).reshape(self.num_clients, num_classes)


class Placement(ABC):
    """Who holds which sample. Subclasses are frozen dataclasses and implement `deal`."""

    natural: ClassVar[bool] = False  # how many clients there are follows from the data, by `num_clients`

    def num_clients(self, columns: Mapping[str, np.ndarray]) -> int:
        """Of a natural placement: how many clients these data have."""
        raise NotImplementedError

    @final
    def place(
        self, labels: np.ndarray, num_clients: int, draws: Draws, columns: Mapping[str, np.ndarray] = NO_COLUMNS
    ) -> list[Ints]:
        """One index array per client; every client holds something, or the error says what to change."""
        self.check()
        num_samples = len(labels)
        if num_clients < 1:
            raise BadInput(f"a split needs at least one client, not {num_clients}.")
        if num_clients > num_samples:
            raise BadInput(f"{num_samples:,} samples cannot be split over {num_clients:,} clients: use fewer clients.")
        held = self.deal_known(np.asarray(labels), columns, num_clients, draws)
        empty = sum(len(part) == 0 for part in held)
        if empty:
            raise BadInput(
                f"{self} leaves {empty:,} of {num_clients:,} clients empty: "
                "use fewer clients, more data or a milder split."
            )
        return held

    def deal_known(
        self, labels: np.ndarray, columns: Mapping[str, np.ndarray], num_clients: int, draws: Draws
    ) -> list[Ints]:
        """`deal`, for placements that look at what else is known of the samples."""
        return self.deal(labels, num_clients, draws)

    @abstractmethod
    def deal(self, labels: np.ndarray, num_clients: int, draws: Draws) -> list[Ints]:
        """Disjoint int64 index arrays, one per client, from at least as many samples as clients."""

    def check(self) -> None:  # noqa: B027 (nothing to refuse is a fine answer)
        """Raise BadInput for field values that make no sense."""


class Shift(ABC):
    """What a client does to its features. Subclasses are frozen dataclasses.

    When `on_test`, the test set is shifted too: the evaluation set is then N copies of it, the i-th shifted
    as client i's data are.
    """

    @property
    @abstractmethod
    def on_test(self) -> bool: ...

    @abstractmethod
    def level(self, client: int, num_clients: int) -> float:
        """How strongly client `client` (from 0) is shifted; 0 leaves its features as they are."""

    @abstractmethod
    def apply(self, x: torch.Tensor, client: int, num_clients: int, generator: torch.Generator) -> torch.Tensor:
        """The shifted batch [B, ...]; `x` itself is left alone. Called anew each time a batch is read."""

    def check(self) -> None:  # noqa: B027
        """Raise BadInput for field values that make no sense."""


def sort_by_class(labels: np.ndarray) -> tuple[Ints, Ints]:
    """All indices, class after class and ascending within each, [n]; and the class sizes, [K]."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadInput(f"class labels are whole numbers in one row, not {labels.dtype} of shape {labels.shape}.")
    if int(labels.min()) < 0:
        raise BadInput(f"class labels count from 0, but there is a {labels.min()}.")
    keys = labels.astype(_smallest(int(labels.max()) + 1), copy=False)
    sizes = np.bincount(keys).astype(np.int64, copy=False)
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False), sizes


def deal_out(by_class: Ints, class_sizes: Ints, table: Ints) -> list[Ints]:
    """Cut each class's run of `by_class` into consecutive pieces of table[k, i] samples for client i.

    table [K, N]. A client's pieces come in class order. What a row leaves over goes to nobody. The parts are
    views of one array: 10,000 clients cost no more memory than their samples.
    """
    num_clients = table.shape[1]
    nobody = class_sizes - table.sum(axis=1)
    takers = np.arange(num_clients + 1, dtype=_smallest(num_clients + 1))
    owner = np.repeat(np.tile(takers, len(table)), np.column_stack([table, nobody]).ravel())
    by_client = by_class[np.argsort(owner, kind="stable")]
    ends = np.cumsum(table.sum(axis=0)).tolist()
    return [by_client[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _smallest(num_values: int) -> type[np.uint16] | type[np.int64]:
    # numpy sorts 16-bit numbers by radix, several times faster than wider ones.
    return np.uint16 if num_values <= 1 << 16 else np.int64


def search(goal: str, attempts: int, rehearse: Callable[[], int], attempt: Callable[[], R | None]) -> R:
    """The first of at most `attempts` attempts that is not None.

    `rehearse` is the cheap form of an attempt - sizes only, from a stream of its own - and returns how many
    clients fell short. Sharing out a fixed whole makes clients' sizes negatively associated, so an attempt
    succeeds with probability at most about exp(-mean shortfall); measured, the two agree closely. A search
    without hope is therefore refused before any sample is moved, and whatever the seed.
    """
    advice = "raise beta, lower min_size or use fewer clients."
    shortfall = 0
    for _ in range(REHEARSALS):
        short = rehearse()
        shortfall += short
        if short == 0:
            break
    else:
        mean = shortfall / REHEARSALS
        if attempts * math.exp(-mean) < HOPE:
            raise BadInput(f"{goal} is out of reach, about {mean:,.0f} fall short at every draw: {advice}")
    for _ in range(attempts):
        found = attempt()
        if found is not None:
            return found
    raise BadInput(f"{goal} did not succeed in {attempts:,} draws: {advice}")


def check_search(what: str, beta: float, min_size: int) -> None:
    if not 0 < beta < math.inf:
        raise BadInput(f"{what}'s beta is a number above 0, not {beta:g}.")
    if min_size < 1:
        raise BadInput(f"{what}'s min_size is at least 1, not {min_size}: an empty client cannot train.")


def check_room(min_size: int, num_clients: int, num_samples: int) -> None:
    if min_size * num_clients > num_samples:
        raise BadInput(
            f"{num_clients:,} clients with at least {min_size:,} samples each need more than the "
            f"{num_samples:,} there are: lower min_size or use fewer clients."
        )
