"""Placements that cut the samples sorted by label."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import Shards, Similarity, parse

MNIST_SIZES = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def _labels() -> np.ndarray:
    return np.random.default_rng(5).permutation(np.repeat(np.arange(10), MNIST_SIZES))


def test_as_rfedavg_describes_mnist_over_twenty_clients() -> None:
    """3,000 samples each; without similarity of one label or two."""
    labels = _labels()
    split = parse("similarity(0)").make(labels, 20, np.random.default_rng(0))
    assert set(split.sizes) == {3000}
    held = (split.counts(labels, 10) > 0).sum(axis=1)
    assert held.min() == 1 and held.max() == 2
    assert (np.diff([labels[part].mean() for part in split.indices]) >= 0).all()  # the k-th run for client k


@pytest.mark.parametrize("percent", [0, 10, 50, 100])
def test_the_shares_of_both_parts(percent: float) -> None:
    labels = _labels()
    split = Similarity(percent).place(labels, 7, np.random.default_rng(1))
    alike = round(percent / 100 * len(labels))
    expected = alike // 7 + (len(labels) - alike) // 7
    assert [len(part) for part in split] == [expected] * 7


def test_more_similarity_is_less_skew() -> None:
    labels = _labels()
    scores = [
        np.abs(np.bincount(labels[part], minlength=10) / len(part) - np.array(MNIST_SIZES) / 60_000).sum()
        for percent in (0, 25, 50, 75, 100)
        for part in [Similarity(percent).place(labels, 20, np.random.default_rng(2))[0]]
    ]
    assert scores == sorted(scores, reverse=True) and scores[-1] < 0.1 and scores[0] > 1.5


@pytest.mark.parametrize("percent", [-1, 100.5, float("nan")])
def test_no_percentage(percent: float) -> None:
    with pytest.raises(BadInput, match="similarity is a percentage from 0 .sorted by label. to 100 .iid., not"):
        Similarity(percent).place(np.arange(10), 2, np.random.default_rng(0))


def test_two_shards_of_three_hundred_for_a_hundred_clients() -> None:
    labels = _labels()
    split = parse("shards(2)").make(labels, 100, np.random.default_rng(0))
    assert set(split.sizes) == {600} and split.num_dropped == 0
    held = (split.counts(labels, 10) > 0).sum(axis=1)
    assert held.min() >= 1 and held.max() <= 4 and 1.5 < held.mean() < 2.5


def test_every_shard_is_a_run_of_the_sorted_samples() -> None:
    labels = np.repeat(np.arange(6), 10)
    split = Shards(3).place(labels, 2, np.random.default_rng(1))  # each shard is a label
    assert sorted(np.concatenate([labels[part[::10]] for part in split]).tolist()) == list(range(6))
    assert all(len(set(labels[shard])) == 1 for part in split for shard in part.reshape(3, 10))


def test_no_shards() -> None:
    with pytest.raises(BadInput, match="shards needs at least one shard per client, not 0"):
        Shards(0).place(np.arange(10), 2, np.random.default_rng(0))
    with pytest.raises(BadInput, match="12 shards cannot be cut from 10 samples: lower k or use fewer clients"):
        Shards(4).place(np.arange(10), 3, np.random.default_rng(0))
