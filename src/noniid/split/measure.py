"""How skewed a split is, in a few numbers.

N clients, K classes; r_i is client i's class distribution, r that of all clients together, and q_i client i's
share of the samples.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noniid.split.base import Split

Floats = NDArray[np.float64]

PERMUTATIONS = 999
MOST_CELLS = 200_000_000  # of all permuted tables together: some seconds


def summary(split: Split, labels: np.ndarray, num_classes: int) -> dict[str, float]:
    """Sizes and skews by name. A distance is between r_i and r, and its mean is over samples (weights q_i).

    c_score             mean over clients of |r_i - r|_1, as in RADFed: 0 for equal mixes, at most 2
    total_variation     mean of |r_i - r|_1 / 2
    jensen_shannon      mean of the square root of the Jensen-Shannon divergence in bits, from 0 to 1
    hellinger           mean of |sqrt(r_i) - sqrt(r)|_2 / sqrt(2), from 0 to 1
    earth_mover         mean of the earth mover's distance where classes k and l are |k - l| apart, at most K - 1: for
                        classes that have an order; without one it is the total variation
    effective_clients   1 / sum_i q_i^2: N for equal sizes, 1 if one client holds all
    size_gini           0 for equal sizes, (N - 1) / N if one client holds all
    """
    counts = split.counts(labels, num_classes)
    sizes = counts.sum(axis=1)
    each = by_client(counts)
    q = sizes / sizes.sum()
    values = {
        "num_clients": split.num_clients,
        "num_samples": sizes.sum(),
        "num_dropped": split.num_dropped,
        "size_min": sizes.min(),
        "size_max": sizes.max(),
        "size_mean": sizes.mean(),
        "size_std": sizes.std(),
        "size_gini": gini(sizes),
        "effective_clients": 1 / np.square(q).sum(),
        "labels_min": each["labels"].min(),
        "labels_mean": each["labels"].mean(),
        "labels_max": each["labels"].max(),
        "c_score": each["c_score"].mean(),
        **{name: q @ each[name] for name in ("total_variation", "jensen_shannon", "hellinger", "earth_mover")},
    }
    return {name: float(value) for name, value in values.items()}


def by_client(counts: np.ndarray) -> dict[str, Floats]:
    """What `summary` is made of, client by client, [N] each, from counts [N, K]."""
    own = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    everyone = counts.sum(axis=0) / counts.sum()
    distances = np.abs(own - everyone).sum(axis=1)
    middle = (own + everyone) / 2
    divergence = (_relative_entropy(own, middle) + _relative_entropy(everyone, middle)) / 2
    return {
        "labels": (counts > 0).sum(axis=1).astype(np.float64),
        "c_score": distances,
        "total_variation": distances / 2,
        "jensen_shannon": np.sqrt(np.clip(divergence, 0, 1)),
        "hellinger": np.sqrt(np.square(np.sqrt(own) - np.sqrt(everyone)).sum(axis=1) / 2),
        "earth_mover": np.abs(np.cumsum(own - everyone, axis=1)).sum(axis=1),
    }


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    """In bits, along the last axis; q is above 0 wherever p is."""
    ratio = np.divide(p, q, out=np.ones(np.broadcast_shapes(p.shape, q.shape)), where=p > 0)
    return (p * np.log2(ratio)).sum(axis=-1)


def gini(sizes: np.ndarray) -> float:
    """
    >>> gini(np.array([5, 5])), gini(np.array([10, 0]))
    (0.0, 0.5)
    """
    ordered = np.sort(sizes)
    rank = np.arange(1, len(ordered) + 1)
    return float((2 * rank - len(ordered) - 1) @ ordered / (len(ordered) * ordered.sum()))


class BesideChance(NamedTuple):
    """A measure, what chance alone makes of it, and how often chance makes as much or more."""

    value: float
    chance: float  # its mean over permutations
    p: float

    @classmethod
    def of(cls, value: float, permuted: np.ndarray) -> BesideChance:
        """The observed order is one of the permutations: p is never 0.

        >>> BesideChance.of(3.0, np.array([1.0, 2.0, 3.0]))
        BesideChance(value=3.0, chance=2.0, p=0.5)
        """
        # What is equal but for the order in which single precision added it up is equal.
        as_much = permuted >= value - 1e-6 * max(1.0, abs(value))
        return cls(float(value), float(permuted.mean()), float((1 + as_much.sum()) / (1 + len(permuted))))


def label_skew(counts: np.ndarray, rng: np.random.Generator) -> BesideChance:
    """Total variation, and whether as much comes about when labels are dealt out at random to clients of these sizes.

    The test looks at the information that a sample's client gives about its label, which sees rare classes too.
    """
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(counts.shape) < 2:
        return BesideChance(0.0, 0.0, 1.0)
    sizes, class_sizes = counts.sum(axis=1), counts.sum(axis=0)
    num_tables = max(min(PERMUTATIONS, MOST_CELLS // max(counts.size, int(counts.sum()))), 99)
    tables = _stats().random_table(sizes, class_sizes, seed=rng)
    permuted = np.array([_information_and_variation(tables.rvs()) for _ in range(num_tables)])
    information, variation = _information_and_variation(counts)
    return BesideChance.of(information, permuted[:, 0])._replace(value=variation, chance=float(permuted[:, 1].mean()))


def _information_and_variation(counts: np.ndarray) -> tuple[float, float]:
    """Of labels about clients, in bits a sample; and the mean total variation."""
    q = counts.sum(axis=1) / counts.sum()
    own = counts / counts.sum(axis=1, keepdims=True)
    everyone = counts.sum(axis=0) / counts.sum()
    return float(q @ _relative_entropy(own, everyone)), float(q @ np.abs(own - everyone).sum(axis=1) / 2)


def size_skew(sizes: np.ndarray) -> BesideChance:
    """Gini, and whether sizes differ more than if every sample had found its client by equal chance."""
    num_clients, num_samples = len(sizes), int(sizes.sum())
    p = float(_stats().chisquare(sizes).pvalue) if num_clients > 1 else 1.0
    # Two counts differ by 2 sqrt(mean / pi) on average, and Gini is half of that, over all pairs, in means.
    chance = (1 - 1 / num_clients) / float(np.sqrt(np.pi * num_samples / num_clients))
    return BesideChance(gini(sizes), chance, p)


def _stats() -> Any:
    return importlib.import_module("scipy.stats")  # takes half a second, and has no types
