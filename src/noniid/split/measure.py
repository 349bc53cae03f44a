"""How skewed a split is, in a few numbers.

N clients, K classes; r_i is client i's class distribution, r that of all clients together, and q_i client i's
share of the samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noniid.split.base import Split


def summary(split: Split, labels: np.ndarray, num_classes: int) -> dict[str, float]:
    """Sizes and skews by name.

    c_score             mean over clients of |r_i - r|_1, as in RADFed: 0 for equal mixes, at most 2
    total_variation     mean over samples (clients weighted by q_i) of |r_i - r|_1 / 2
    effective_clients   1 / sum_i q_i^2: N for equal sizes, 1 if one client holds all
    size_gini           0 for equal sizes, (N - 1) / N if one client holds all
    """
    counts = split.counts(labels, num_classes)
    sizes = counts.sum(axis=1)
    distances = label_distances(counts)
    num_labels = (counts > 0).sum(axis=1)
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
        "labels_min": num_labels.min(),
        "labels_mean": num_labels.mean(),
        "labels_max": num_labels.max(),
        "c_score": distances.mean(),
        "total_variation": q @ distances / 2,
    }
    return {name: float(value) for name, value in values.items()}


def label_distances(counts: np.ndarray) -> NDArray[np.float64]:
    """|r_i - r|_1 for each client, [N], from counts [N, K]."""
    own = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    everyone = counts.sum(axis=0) / counts.sum()
    return np.abs(own - everyone).sum(axis=1)


def gini(sizes: np.ndarray) -> float:
    """
    >>> gini(np.array([5, 5])), gini(np.array([10, 0]))
    (0.0, 0.5)
    """
    ordered = np.sort(sizes)
    rank = np.arange(1, len(ordered) + 1)
    return float((2 * rank - len(ordered) - 1) @ ordered / (len(ordered) * ordered.sum()))
