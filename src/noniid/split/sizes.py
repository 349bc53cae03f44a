"""Quantity skew by a rule: every client's size is known beforehand, only who holds which sample is drawn.

N clients, n samples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import check_positive, shuffled
from noniid.split.parts import Parts
from noniid.split.traits import Traits


@dataclass(frozen=True)
class Zipf(Placement):
    """Client i = 1..N holds a share of all samples that is proportional to i^-a: the first one holds most."""

    a: float = 1.0

    def check(self) -> None:
        check_positive("zipf's a", self.a)

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        return _shared(np.arange(1.0, num_clients + 1) ** -self.a, 0, traits, draws)


@dataclass(frozen=True)
class Growing(Placement):
    """Client i = 1..N holds a share of all samples that grows with i, or its square, or e^i.

    The sizes of Flower Datasets' Linear-, Square- and ExponentialPartitioner: shares rounded down, and what that
    leaves goes to the last client, the largest.
    """

    rule: Literal["linear", "square", "exponential"] = "linear"

    def check(self) -> None:
        if self.rule not in ("linear", "square", "exponential"):
            raise BadInput(f"growing's rule is linear, square or exponential, not {self.rule!r}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        i = np.arange(1, num_clients + 1)
        # e^(i - N) is e^i but for a factor, and does not overflow.
        weights = {"linear": i, "square": i**2, "exponential": np.exp(i - num_clients)}
        return _shared(weights[self.rule].astype(float), -1, traits, draws)


@dataclass(frozen=True)
class Sizes(Placement):
    """Clients hold exactly as many samples as is written here: sizes("600, 300, 100") is three clients.

    What the sizes leave over is dropped, and counted in `Split.num_dropped`.
    """

    own_count: ClassVar[bool] = True
    each: str

    def check(self) -> None:
        if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", self.each) or 0 in self._sizes():
            raise BadInput(f"sizes are whole numbers from 1 up with commas between them, not {self.each!r}.")

    def count(self, traits: Traits, asked: int | None) -> int:
        return len(self._sizes())

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        ends = np.cumsum(self._sizes())
        if ends[-1] > len(traits):
            raise BadInput(f"sizes add up to {ends[-1]:,}, and there are {len(traits):,} samples: lower them.")
        return Parts(shuffled(len(traits), draws), ends)

    def _sizes(self) -> list[int]:
        return [int(size) for size in self.each.split(",")]


def _shared(weights: np.ndarray, rest_to: int, traits: Traits, draws: Draws) -> Parts:
    """Shares in proportion to the weights [N], rounded down; one client gets what that leaves."""
    sizes = (weights / weights.sum() * len(traits)).astype(np.int64)
    sizes[rest_to] += len(traits) - sizes.sum()
    return Parts(shuffled(len(traits), draws), np.cumsum(sizes))
