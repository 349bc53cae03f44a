import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noniid.errors import BadInput
from noniid.split import Labels, Recipe, Split, summary


def split_of(*parts):
    return Split(tuple(np.array(part, dtype=np.int64) for part in parts))


def test_by_hand():
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 2])
    split = split_of([0, 1, 2, 3], [4, 5], [6, 7])
    assert split.counts(labels, 4).tolist() == [[3, 1, 0, 0], [0, 2, 0, 0], [0, 1, 1, 0]]
    values = summary(split, labels, 4)
    # r = (3, 4, 1, 0) / 8; the clients' distances are 0.75, 1.0 and 0.75.
    distances = np.array([3 / 8 + 2 / 8 + 1 / 8, 3 / 8 + 4 / 8 + 1 / 8, 3 / 8 + 0 + 3 / 8])
    assert values == pytest.approx(
        {
            "num_clients": 3,
            "num_samples": 8,
            "num_dropped": 0,
            "size_min": 2,
            "size_max": 4,
            "size_mean": 8 / 3,
            "size_std": np.std([4, 2, 2]),
            "size_gini": (2 * 4) / (2 * 3**2 * 8 / 3),  # mean absolute difference over twice the mean
            "effective_clients": 64 / 24,
            "labels_min": 1,
            "labels_mean": 5 / 3,
            "labels_max": 2,
            "c_score": distances.mean(),
            "total_variation": (4 * distances[0] + 2 * distances[1] + 2 * distances[2]) / 8 / 2,
        }
    )
    assert all(type(value) is float for value in values.values())


def test_the_two_ends():
    labels = np.arange(1000) % 10
    alike = Recipe(Labels(10)).make(labels, 10, np.random.default_rng(0))
    apart = Recipe(Labels(1)).make(labels, 10, np.random.default_rng(0))
    values = summary(alike, labels, 10)
    assert (values["c_score"], values["total_variation"], values["size_gini"]) == pytest.approx((0, 0, 0))
    assert values["effective_clients"] == pytest.approx(10)
    values = summary(apart, labels, 10)
    assert values["c_score"] == pytest.approx(2 * 0.9)
    assert values["total_variation"] == pytest.approx(0.9)
    assert values["labels_max"] == 1


def test_dropped_samples_are_nobodys_skew():
    labels = np.arange(100) % 10
    values = summary(Recipe(Labels(1)).make(labels, 1, np.random.default_rng(0)), labels, 10)
    assert (values["num_samples"], values["num_dropped"], values["c_score"]) == (10, 90, 0)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 99))
def test_bounds(sizes, seed):
    labels = np.random.default_rng(seed).integers(0, 4, sum(sizes))
    ends = np.cumsum(sizes)
    split = split_of(*(range(end - size, end) for size, end in zip(sizes, ends, strict=True)))
    values = summary(split, labels, 4)
    assert 0 <= values["c_score"] <= 2
    assert 0 <= values["total_variation"] <= 1
    assert 1 - 1e-9 <= values["effective_clients"] <= len(sizes) + 1e-9
    pairs = np.abs(np.subtract.outer(sizes, sizes)).mean() / (2 * np.mean(sizes))
    assert values["size_gini"] == pytest.approx(pairs)


def test_too_few_classes():
    with pytest.raises(BadInput, match="above the largest label, 3: not 3"):
        split_of([0], [1]).counts(np.array([3, 0]), 3)
