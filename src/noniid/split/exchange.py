"""Splits for other libraries, and theirs for us: dictionaries as FedLab's, torch's Subsets.

N clients. For Flower there is `noniid.split.flower`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noniid.errors import BadInput
from noniid.split.base import Ints, Split

if TYPE_CHECKING:
    from torch.utils.data import Dataset, Subset


def to_dict(split: Split) -> dict[int, Ints]:
    """Client -> the indices of its samples, as FedLab's `client_dict`.

    >>> {client: held.tolist() for client, held in to_dict(Split((np.array([2, 0]), np.array([1])))).items()}
    {0: [2, 0], 1: [1]}
    """
    return dict(enumerate(split.indices))


def from_dict(clients: Mapping[Any, Sequence[int] | Ints]) -> Split:
    """The split of such a dictionary; clients are numbered in its order."""
    return _checked(clients.values())


def to_subsets(split: Split, dataset: Dataset[Any]) -> list[Subset[Any]]:
    """One `torch.utils.data.Subset` for each client. Shifts are left to you: Subsets have none."""
    from torch.utils.data import Subset

    return [Subset(dataset, held.tolist()) for held in split.indices]


def from_subsets(subsets: Iterable[Subset[Any]]) -> Split:
    """The split that Subsets of one data set make."""
    return _checked([subset.indices for subset in subsets])


def _checked(parts: Iterable[Sequence[int] | Ints]) -> Split:
    indices = tuple(np.asarray(part, np.int64) for part in parts)
    held = np.concatenate([*indices, np.empty(0, np.int64)])
    if any(not len(part) for part in indices) or not len(held):
        raise BadInput("every client of a split needs at least one sample.")
    if len(np.unique(held)) != len(held) or held.min() < 0:
        raise BadInput("in a split every sample is one client's alone, and samples count from 0.")
    return Split(indices)
