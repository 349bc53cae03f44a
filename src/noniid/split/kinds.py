"""Which kind of skew a split has: of labels, of features, of quantity, several of them, or none.

N clients. A kind is there when chance would hardly make as much of it, and when it is large enough to matter; with many
samples the first alone says little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from noniid.errors import BadInput
from noniid.split.base import Ints, Split
from noniid.split.feature_measure import FeatureSkew, feature_skew, looked_at
from noniid.split.measure import BesideChance, label_skew, size_skew

Kind = Literal["label", "feature", "quantity"]

MOST_P = 0.01
LEAST_VARIATION = 0.05  # of labels, above chance: one sample in twenty would need another label
LEAST_GINI = 0.25  # a client typically holds half as much, or as much again, as the mean

Seen = Callable[[int, Ints], np.ndarray]  # a client and samples of it -> their features as it sees them, [m, d]


@dataclass(frozen=True, eq=False)
class Profile:
    """The evidence, and what follows from it."""

    labels: BesideChance  # total variation
    sizes: BesideChance  # Gini
    features: FeatureSkew | None  # None where nobody asked

    @property
    def feature_p(self) -> float | None:
        """Of both measures together: twice the smaller p, for there were two chances to find something."""
        if self.features is None:
            return None
        return min(1.0, 2 * min(self.features.mmd.p, self.features.telling.p))

    @property
    def kinds(self) -> list[Kind]:
        found: list[Kind] = []
        if self.labels.p <= MOST_P and self.labels.value - self.labels.chance >= LEAST_VARIATION:
            found.append("label")
        if self.feature_p is not None and self.feature_p <= MOST_P:
            found.append("feature")
        if self.sizes.p <= MOST_P and self.sizes.value >= LEAST_GINI:
            found.append("quantity")
        return found

    @property
    def verdict(self) -> str:
        """label, feature, quantity, mixed or none."""
        kinds = self.kinds
        return kinds[0] if len(kinds) == 1 else "mixed" if kinds else "none"

    def record(self) -> dict[str, Any]:
        """As plain values."""
        told: dict[str, Any] = {"verdict": self.verdict, "kinds": self.kinds}
        told |= {"label": self.labels._asdict(), "quantity": self.sizes._asdict()}
        if self.features is not None:
            told["feature"] = {
                "p": self.feature_p, "mmd": self.features.mmd._asdict(), "telling": self.features.telling._asdict(),
                "blind": self.features.blind, "shared": self.features.shared, "strength": self.features.strength,
            }  # fmt: skip
        return told


def profile(
    split: Split, labels: np.ndarray, num_classes: int, rng: np.random.Generator, seen: Seen | None = None
) -> Profile:
    """Features are measured where `seen` shows them; it is asked for a bounded number of samples."""
    if split.num_clients < 2:
        raise BadInput("skew is between clients, and there is one: split over two or more.")
    of_labels, of_sizes = label_skew(split.counts(labels, num_classes), rng), size_skew(split.sizes)
    return Profile(of_labels, of_sizes, None if seen is None else _features(split, labels, rng, seen))


def _features(split: Split, labels: np.ndarray, rng: np.random.Generator, seen: Seen) -> FeatureSkew:
    width = seen(0, split.indices[0][:1]).size
    chosen = looked_at(split, width, rng)
    x = np.concatenate([seen(client, index).reshape(len(index), -1) for client, index in chosen.items()])
    who = np.repeat(list(chosen), [len(index) for index in chosen.values()])
    return feature_skew(x, np.asarray(labels)[np.concatenate(list(chosen.values()))], who, split.num_clients, rng)
