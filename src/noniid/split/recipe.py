"""`dirichlet(0.5) + noise(0.1)`: one placement and any number of shifts, as text and as a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from noniid.errors import BadInput, unknown
from noniid.seeds import Draws
from noniid.spec import Registry, split_sum
from noniid.split.base import Placement, Split
from noniid.split.clustered import Clustered
from noniid.split.feature import Fcube, Noise
from noniid.split.images import Blur, Contrast, Rotate, Scale
from noniid.split.independent import Independent
from noniid.split.label import Dirichlet, Labels
from noniid.split.mislabel import LabelNoise
from noniid.split.natural import By, Grouped
from noniid.split.owners import TwoOwners
from noniid.split.population import Population
from noniid.split.quantity import Iid, Lognormal, Quantity
from noniid.split.replay import Replay
from noniid.split.saved import Saved, is_saved
from noniid.split.shift import Reading, Shift
from noniid.split.sizes import Growing, Sizes, Zipf
from noniid.split.sorted import Shards, Similarity
from noniid.split.standard import Standardise
from noniid.split.traits import Traits

PLACEMENTS: Registry[Placement] = Registry(
    "split",
    {
        "iid": Iid,
        "labels": Labels,
        "dirichlet": Dirichlet,
        "population": Population,
        "similarity": Similarity,
        "shards": Shards,
        "two_owners": TwoOwners,
        "independent": Independent,
        "replay": Replay,
        "quantity": Quantity,
        "lognormal": Lognormal,
        "zipf": Zipf,
        "growing": Growing,
        "sizes": Sizes,
        "by": By,
        "grouped": Grouped,
        "clustered": Clustered,
        "fcube": Fcube,
        "saved": Saved,
    },
)
SHIFTS: Registry[Shift] = Registry(
    "split",
    {
        "noise": Noise,
        "rotate": Rotate,
        "scale": Scale,
        "contrast": Contrast,
        "blur": Blur,
        "standardise": Standardise,
        "label_noise": LabelNoise,
    },
)
IID = Iid()
CHUNK = 512  # samples that a shift is fitted to at once


@dataclass(frozen=True)
class Recipe:
    """How to split any data set over any number of clients.

    >>> import numpy as np
    >>> labels = np.repeat(np.arange(10), 100)
    >>> split = parse("labels(2) + noise(0.1)").make(labels, 10, np.random.default_rng(0))
    >>> split.num_clients, int(split.sizes.sum()), split.shifts
    (10, 1000, (Noise(sigma=0.1, scale='variance', test=False, draw='anew'),))
    """

    placement: Placement = IID
    shifts: tuple[Shift, ...] = ()

    def make(self, samples: np.ndarray | Traits, num_clients: int | None, draws: Draws) -> Split:
        """`samples` are labels, or traits where the recipe looks at more than labels; a placement with a count of
        its own needs no number of clients."""
        for shift in self.shifts:
            shift.check()
        traits = Traits.of(samples)
        held = self.placement.place(traits, num_clients, draws)
        split = Split(held, num_dropped=len(traits) - len(held.row))
        for shift in self.shifts:
            split = _with(split, shift, traits, draws)
        return split

    def __str__(self) -> str:
        return " + ".join([PLACEMENTS.write(self.placement), *map(SHIFTS.write, self.shifts)])


def _with(split: Split, shift: Shift, traits: Traits, draws: Draws) -> Split:
    """The split with one more shift, fitted to what the ones before it leave."""

    def batches(client: int) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(int(draws.integers(1 << 62)))
        held = split.indices[client]
        for index in np.split(held, range(CHUNK, len(held), CHUNK)):
            x = torch.as_tensor(traits.features(index))
            yield split.shifted(x, Reading(torch.as_tensor(index), client, split.num_clients, generator))

    fitted = shift.fit(batches, split.num_clients, draws)
    true = traits.labels if split.labels is None else split.labels
    labels = shift.relabel(true, split.indices, draws)
    return replace(
        split,
        shifts=(*split.shifts, shift),
        fitted=(*split.fitted, fitted),
        labels=split.labels if labels is true else labels,
    )


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
