"""Categorical features, and the kinds of samples that their combinations are.

n samples, F features, U kinds, d features in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from noniid.errors import BadInput
from noniid.split.traits import Ints, Traits

CHUNK = 16_384  # samples whose features are held at once


def categories(traits: Traits, features: str) -> list[np.ndarray]:
    """The columns [n] that a text names: "none", "binary" for all features with two values, or names."""
    if features == "none":
        return []
    return list(_binary(traits).T) if features == "binary" else [traits.column(n.strip()) for n in features.split(",")]


def kinds_of(features: Sequence[np.ndarray]) -> tuple[Ints, Ints, Ints]:
    """Each sample's kind [n]; each kind's category in each feature [U, F], numbered through; and where the numbers of
    each feature begin, [F + 1].

    >>> kinds_of([np.array([5, 5, 7]), np.array(["b", "a", "b"])])
    (array([1, 0, 2]), array([[0, 2],
           [0, 3],
           [1, 3]]), array([0, 2, 4]))
    """
    kind_of = np.zeros(len(features[0]), dtype=np.int64)
    codes: list[Ints] = []
    for column in features:
        code = column.astype(np.int64) if column.dtype == np.bool_ else np.unique(column, return_inverse=True)[1]
        codes.append(_numbered(code.astype(np.int64, copy=False)))
        # Numbered anew after every feature: combinations that do not occur would soon overflow.
        kind_of = _numbered(kind_of * (int(codes[-1].max()) + 1) + codes[-1])
    first = np.unique(kind_of, return_index=True)[1]
    starts = np.cumsum([0, *(int(code.max()) + 1 for code in codes)])
    return kind_of, np.stack([code[first] for code in codes], axis=1) + starts[:-1], starts


def _numbered(codes: Ints) -> Ints:
    """The same, but without gaps."""
    there = np.bincount(codes) > 0
    return (np.cumsum(there) - 1)[codes]


def _binary(traits: Traits) -> NDArray[np.bool_]:
    """The features that have just two values, as whether it is the higher one, [n, .]."""
    ends = [(rows.min(axis=0), rows.max(axis=0)) for _, rows in _chunks(traits)]
    low, high = np.min([a for a, _ in ends], axis=0), np.max([b for _, b in ends], axis=0)
    two = low < high
    for _, rows in _chunks(traits):
        two &= ((rows == low) | (rows == high)).all(axis=0)
    if not two.any():
        raise BadInput("no feature of these data has just two values: name columns, or leave features out.")
    is_high = np.empty((len(traits), int(two.sum())), dtype=np.bool_)
    for index, rows in _chunks(traits):
        is_high[index] = (rows == high)[:, two]
    return is_high


def _chunks(traits: Traits) -> Iterator[tuple[Ints, NDArray[np.float32]]]:
    for start in range(0, len(traits), CHUNK):
        index = np.arange(start, min(start + CHUNK, len(traits)))
        yield index, traits.rows(index)
