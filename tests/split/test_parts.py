"""All clients' index arrays as one array."""

from __future__ import annotations

import numpy as np
import pytest

from noniid.split import Parts, Split, parse

HELD = [np.array([5, 1, 2]), np.array([], np.int64), np.array([9]), np.array([0, 7])]


def test_parts_read_like_the_list_they_were_made_of() -> None:
    parts = Parts.of(HELD)
    assert len(parts) == 4 and parts.sizes.tolist() == [3, 0, 1, 2]
    assert [part.tolist() for part in parts] == [held.tolist() for held in HELD]
    assert parts[-1].tolist() == parts[np.int64(3)].tolist() == [0, 7]  # type: ignore[call-overload]
    assert [part.tolist() for part in parts[1:3]] == [[], [9]]
    assert parts.row.tolist() == [5, 1, 2, 9, 0, 7]
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            parts[beyond]


def test_parts_are_views_and_what_lies_behind_the_last_is_nobodys() -> None:
    row = np.arange(10)
    parts = Parts(row, np.array([2, 6]))
    parts[1][0] = 99
    assert row[2] == 99 and parts.row.tolist() == [0, 1, 99, 3, 4, 5]
    assert Parts.of(parts) is parts
    assert len(Parts.of([])) == 0 and Parts.of([]).sizes.tolist() == []


@pytest.mark.parametrize("num_clients", [1, 7, 10_000, 10_001, 25_000])
def test_labels_are_counted_for_any_number_of_clients(num_clients: int) -> None:
    rng = np.random.default_rng(0)
    labels, ends = rng.integers(4, size=50_000), np.sort(rng.integers(50_000, size=num_clients))
    ends[-1] = 50_000
    split = Split(Parts(rng.permutation(50_000), ends))
    counts = split.counts(labels, 5)
    assert counts.dtype == np.int64 and counts.shape == (num_clients, 5)
    for client in (0, num_clients // 2, num_clients - 1):
        assert counts[client].tolist() == np.bincount(labels[split.indices[client]], minlength=5).tolist()
    assert counts.sum(0).tolist() == np.bincount(labels, minlength=5).tolist()
    assert (counts.sum(1) == split.sizes).all()


def test_a_split_takes_any_sequence_and_pools_it() -> None:
    split = Split(HELD)
    assert split.num_clients == 4 and split.indices[2].tolist() == [9]
    pooled = split.pooled()
    assert pooled.indices[0].tolist() == [5, 1, 2, 9, 0, 7] and pooled.views == 4
    assert Split(()).counts(np.array([0, 1]), 2).shape == (0, 2)


@pytest.mark.parametrize("num_clients", [1, 3, 7, 50])
def test_iid_shares_are_numpys(num_clients: int) -> None:
    split = parse("iid").make(np.zeros(50, np.int64), num_clients, np.random.default_rng(3))
    known = np.array_split(np.random.default_rng(3).permutation(50), num_clients)
    assert [part.tolist() for part in split.indices] == [part.tolist() for part in known]
