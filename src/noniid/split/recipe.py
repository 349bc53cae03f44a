"""`dirichlet(0.5) + noise(0.1)`: one placement and any number of shifts, as text and as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from noniid.errors import BadInput, unknown
from noniid.seeds import Draws
from noniid.spec import Registry, split_sum
from noniid.split.base import NO_COLUMNS, Placement, Shift, Split
from noniid.split.feature import Fcube, Noise
from noniid.split.label import Dirichlet, Labels
from noniid.split.natural import By
from noniid.split.quantity import Iid, Quantity
from noniid.split.saved import Saved, is_saved
from noniid.split.sorted import Similarity

PLACEMENTS: Registry[Placement] = Registry(
    "split",
    {
        "iid": Iid,
        "labels": Labels,
        "dirichlet": Dirichlet,
        "similarity": Similarity,
        "quantity": Quantity,
        "fcube": Fcube,
        "by": By,
        "saved": Saved,
    },
)
SHIFTS: Registry[Shift] = Registry("split", {"noise": Noise})
IID = Iid()


@dataclass(frozen=True)
class Recipe:
    """How to split any data set over any number of clients.

    >>> import numpy as np
    >>> labels = np.repeat(np.arange(10), 100)
    >>> split = parse("labels(2) + noise(0.1)").make(labels, 10, np.random.default_rng(0))
    >>> split.num_clients, int(split.sizes.sum()), split.shifts
    (10, 1000, (Noise(sigma=0.1, scale='variance', test=False),))
    """

    placement: Placement = IID
    shifts: tuple[Shift, ...] = ()

    def make(
        self, labels: np.ndarray, num_clients: int, draws: Draws, columns: Mapping[str, np.ndarray] = NO_COLUMNS
    ) -> Split:
        for shift in self.shifts:
            shift.check()
        indices = tuple(self.placement.place(labels, num_clients, draws, columns))
        return Split(indices, self.shifts, num_dropped=len(labels) - sum(map(len, indices)))

    def __str__(self) -> str:
        return " + ".join([PLACEMENTS.write(self.placement), *map(SHIFTS.write, self.shifts)])


def parse(text: str) -> Recipe:
    """The recipe a text names; without a placement it is iid. The path of a saved split is one too.

    >>> print(parse("noise(0.1) + dirichlet(beta=0.5)"))
    dirichlet(0.5) + noise(0.1)
    """
    placements: list[Placement] = []
    shifts: list[Shift] = []
    for term in split_sum(text):
        part = _part(term)
        if isinstance(part, Shift):
            shifts.append(part)
        else:
            placements.append(part)
    if len(placements) > 1:
        names = " and ".join(PLACEMENTS.write(placement) for placement in placements)
        raise BadInput(f"{names} both say who holds what: keep one of them.")
    return Recipe(placements[0] if placements else IID, tuple(shifts))


def _part(term: str) -> Placement | Shift:
    if is_saved(term):
        return Saved(term)
    name = term.partition("(")[0].strip()
    placements, shifts = list(PLACEMENTS), list(SHIFTS)
    if name in shifts:
        return SHIFTS.parse(term)
    if name in placements or ":" in name or not name:
        return _checked(PLACEMENTS.parse(term), name)
    raise unknown("split", name, [*placements, *shifts])


def _checked(part: object, name: str) -> Placement | Shift:
    if isinstance(part, Placement | Shift):
        return part
    raise BadInput(f"{name} is neither a Placement nor a Shift of noniid.split.")  # a user's own module:Class
