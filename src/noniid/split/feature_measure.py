"""Whether clients' features differ, beyond what their labels explain: by a kernel, and by a model that tells clients.

N clients, m samples looked at, d features, P permutations. Chance deals features out among the samples of a label:
clients keep their labels, so that label skew alone, which makes features differ too, is no feature skew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noniid.split.base import Ints, Split
from noniid.split.measure import BesideChance

Floats = NDArray[np.float32]

PERMUTATIONS = 199
MOST_SAMPLES = 1_500
MOST_CLIENTS = 40
MOST_VALUES = 20_000_000  # samples times features
MEDIAN_OF = 500  # samples whose distances are the kernel's scale
FOLDS = 5
RIDGE = 0.5
_AT_ONCE = 20  # permutations in one product


@dataclass(frozen=True, eq=False)
class FeatureSkew:
    """Both measures, overall and by client. A client that was not looked at, or only at one sample of it, is NaN."""

    mmd: BesideChance  # mean over clients of the unbiased squared maximum mean discrepancy to all others
    telling: BesideChance  # balanced accuracy of a model that tells clients by their features, cross-validated
    blind: float  # the balanced accuracy of a guess: 1 / N
    shared: float  # the share of samples whose label several clients hold: of the rest nothing can be told
    mmd_by_client: NDArray[np.float64]  # [N]
    telling_by_client: NDArray[np.float64]  # [N]

    @property
    def strength(self) -> float:
        """How much of the way from chance to certainty the model gets: 0 for features alike, 1 for telling all."""
        return max(0.0, (self.telling.value - self.telling.chance) / max(1 - self.telling.chance, 1e-9))


def looked_at(split: Split, num_features: int, rng: np.random.Generator) -> dict[int, Ints]:
    """By client, the samples that are looked at: as nearly equally many of each as there are, bounded in all."""
    ids = np.arange(split.num_clients)
    if len(ids) > MOST_CLIENTS:
        ids = np.sort(rng.permutation(ids)[:MOST_CLIENTS])
    most = min(MOST_SAMPLES, max(MOST_VALUES // max(num_features, 1), 2 * FOLDS * len(ids)))
    share = max(most // len(ids), 2)
    return {int(i): rng.permutation(split.indices[int(i)])[:share] for i in ids}


def feature_skew(
    x: np.ndarray, labels: np.ndarray, clients: np.ndarray, num_clients: int, rng: np.random.Generator
) -> FeatureSkew:
    """Of features [m, d], with labels [m] and clients [m] numbered below N."""
    present, who = np.unique(clients, return_inverse=True)
    kernel = rbf(x)
    permuted = _within_labels(labels, rng)
    orders = np.array([np.arange(len(who)), *(permuted() for _ in range(PERMUTATIONS))])
    told = _teller(kernel, who, rng)
    own, by_chance = _measured(kernel, told, who[orders[:1]]), _measured(kernel, told, who[orders[1:]])
    everyone = np.full((2, num_clients), np.nan)
    everyone[:, present] = own[:, 0]
    means, chances = _mean(own[:, 0]), _mean(by_chance)
    return FeatureSkew(
        BesideChance.of(means[0], chances[0]),
        BesideChance.of(means[1], chances[1]),
        1 / len(present),
        _shared(labels, who),
        everyone[0],
        everyone[1],
    )


def rbf(x: np.ndarray) -> Floats:
    """exp(-|x_a - x_b|^2 / (2 s^2)), [m, m], where s is the median distance of two samples."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1), np.float32)
    flat = flat - flat.mean(axis=0)  # far from the origin, distances drown in rounding
    norms = np.square(flat).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * flat @ flat.T, 0)
    few = squared[:MEDIAN_OF, :MEDIAN_OF]
    scale = float(np.median(few[np.triu_indices(len(few), 1)])) if len(few) > 1 else 1.0
    kernel = np.exp(-squared / (2 * (scale or 1.0)))
    np.fill_diagonal(kernel, 1)
    return kernel


def mmd(kernel: Floats, members: Floats) -> NDArray[np.float64]:
    """Unbiased squared MMD of each client to all others, [C], from 0/1 members [m, C]; NaN for a single sample."""
    sizes = members.sum(axis=0, dtype=np.float64)
    rest = len(kernel) - sizes
    to_all = kernel.sum(axis=1, dtype=np.float64)
    within = np.einsum("ac,ac->c", members, kernel @ members, dtype=np.float64)
    across = to_all @ members - within
    others = to_all.sum() - within - 2 * across
    # A kernel's diagonal is 1, and a sample is not its own neighbour.
    pairs, other_pairs = sizes * (sizes - 1), rest * (rest - 1)
    possible = (sizes > 1) & (rest > 1)
    value = np.full(len(sizes), np.nan)
    here = (within - sizes)[possible] / pairs[possible] + (others - rest)[possible] / other_pairs[possible]
    value[possible] = here - 2 * across[possible] / (sizes * rest)[possible]
    return value


def _within_labels(labels: np.ndarray, rng: np.random.Generator) -> Callable[[], Ints]:
    """Random orders of all samples in which each stays among its label's."""
    order = np.argsort(labels, kind="stable")
    sorted_labels = labels[order]

    def draw() -> Ints:
        keys = np.lexsort((rng.random(len(order)), sorted_labels))
        shuffled = np.empty(len(order), np.int64)
        shuffled[order] = order[keys]
        return shuffled

    return draw


def _teller(kernel: Floats, who: Ints, rng: np.random.Generator) -> list[tuple[Ints, Ints, Floats]]:
    """By fold: held-out samples, the others, and what turns the others' clients into the held-out ones' scores.

    Kernel ridge regression is linear in what it learns, so that one factorisation serves every permutation.
    """
    place = np.lexsort((rng.random(len(who)), who))
    fold = np.empty(len(who), np.int64)
    fold[place] = np.arange(len(who)) % FOLDS  # of each client nearly equally many
    found: list[tuple[Ints, Ints, Floats]] = []
    for each in range(FOLDS):
        out, kept = np.flatnonzero(fold == each), np.flatnonzero(fold != each)
        if len(out) and len(kept):
            inner = kernel[np.ix_(kept, kept)] + RIDGE * np.eye(len(kept), dtype=np.float32)
            found.append((out, kept, np.linalg.solve(inner, kernel[np.ix_(kept, out)]).T))
    return found


def _measured(kernel: Floats, told: list[tuple[Ints, Ints, Floats]], who: Ints) -> NDArray[np.float64]:
    """MMD and the share of each client's samples that are told, [2, P, N], from clients in permuted order [P, m]."""
    num_clients = int(who.max()) + 1
    parts: list[np.ndarray] = []
    for first in range(0, len(who), _AT_ONCE):
        some = who[first : first + _AT_ONCE]
        members = np.eye(num_clients, dtype=np.float32)[some].transpose(1, 0, 2)  # [m, P, N]
        flat = members.reshape(len(kernel), -1)
        right = np.zeros(members.shape, np.float32)
        for out, kept, weights in told:
            share = np.maximum(members[kept].mean(axis=0), 1e-9)
            # Scores follow each client's share; without it, small clients are as likely a guess as large ones.
            scores = (weights @ (members[kept] - share).reshape(len(kept), -1)).reshape(len(out), *share.shape)
            guess = ((scores + share) / share).argmax(axis=2)
            right[out] = members[out] * (guess == some.T[out])[..., None]
        recall = right.sum(axis=0) / np.maximum(members.sum(axis=0), 1)
        parts.append(np.stack([mmd(kernel, flat).reshape(recall.shape), recall]))
    return np.concatenate(parts, axis=1)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Along the last axis, over what is known; 0 where nothing is."""
    known = np.isfinite(values)
    return np.where(known, values, 0).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)


def _shared(labels: np.ndarray, who: Ints) -> float:
    holders = {label: len(np.unique(who[labels == label])) for label in np.unique(labels)}
    return float(np.mean([holders[label] > 1 for label in labels]))
