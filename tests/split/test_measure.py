import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cityblock, euclidean, jensenshannon
from scipy.stats import kstest, wasserstein_distance

from noniid.errors import BadInput
from noniid.split import Labels, Recipe, Split, by_client, label_skew, measure, parse, size_skew, summary
from noniid.split.measure import gini


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
            # |cumulated r_i - r| over classes 0 to 2: (3, 1, 0), (3, 1, 0) and (3, 3, 0) eighths
            "earth_mover": (4 * 4 + 2 * 4 + 2 * 6) / 8 / 8,
            **{name: values[name] for name in ("jensen_shannon", "hellinger")},  # test_distances_are_scipys
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


def random_counts(seed, num_clients=7, num_classes=5):
    counts = np.random.default_rng(seed).integers(0, 20, (num_clients, num_classes))
    counts[0, 1:] = 0
    counts[0, 0] = 3
    return counts


@pytest.mark.parametrize("seed", range(5))
def test_distances_are_scipys(seed):
    counts = random_counts(seed)
    r, each, classes = counts.sum(axis=0) / counts.sum(), by_client(counts), range(5)
    for i, own in enumerate(counts / counts.sum(axis=1, keepdims=True)):
        expected = {
            "labels": np.count_nonzero(own),
            "c_score": cityblock(own, r),
            "total_variation": cityblock(own, r) / 2,
            "jensen_shannon": jensenshannon(own, r, base=2),
            "hellinger": euclidean(np.sqrt(own), np.sqrt(r)) / np.sqrt(2),
            "earth_mover": wasserstein_distance(classes, classes, own, r),
        }
        assert {name: values[i] for name, values in each.items()} == pytest.approx(expected)


def test_the_summary_weighs_clients_by_their_samples():
    counts = random_counts(9)
    labels = np.repeat(np.tile(np.arange(5), 7), counts.ravel())
    ends = np.cumsum(counts.sum(axis=1))
    split = Split(tuple(np.split(np.arange(len(labels)), ends[:-1])))
    assert (split.counts(labels, 5) == counts).all()
    values = summary(split, labels, 5)
    q = counts.sum(axis=1) / counts.sum()
    for name in ("total_variation", "jensen_shannon", "hellinger", "earth_mover"):
        assert values[name] == pytest.approx(q @ by_client(counts)[name])


def test_two_classes_move_as_far_as_they_vary():
    each = by_client(random_counts(3, num_classes=2))
    assert each["earth_mover"] == pytest.approx(each["total_variation"])


# Tests against chance


def test_label_skew_is_told_from_chance():
    labels = np.arange(1000) % 10
    for text, skewed in (("iid", False), ("quantity(0.5)", False), ("dirichlet(0.5)", True), ("labels(9)", True)):
        counts = parse(text).make(labels, 10, np.random.default_rng(0)).counts(labels, 10)
        found = label_skew(counts, np.random.default_rng(1))
        assert (found.p <= 0.01) == skewed, text
        assert found.value == pytest.approx(summary_of(counts)["total_variation"])
        assert 0.05 < found.chance < 0.2  # small clients' mixes differ even if dealt at random


def summary_of(counts):
    q = counts.sum(axis=1) / counts.sum()
    return {name: q @ values for name, values in by_client(counts).items()}


def test_chance_is_what_iid_clients_show():
    labels = np.arange(600) % 3
    found = label_skew(np.full((6, 3), 100 // 3), np.random.default_rng(0))
    drawn = [
        summary(parse("iid").make(labels, 6, np.random.default_rng(seed)), labels, 3)["total_variation"]
        for seed in range(50)
    ]
    assert found.chance == pytest.approx(np.mean(drawn), rel=0.1)


def test_label_skews_p_is_uniform_without_skew(monkeypatch):
    monkeypatch.setattr(measure, "PERMUTATIONS", 99)
    labels = np.arange(300) % 4
    p = [
        label_skew(parse("iid").make(labels, 5, rng).counts(labels, 4), rng).p
        for rng in map(np.random.default_rng, range(200))
    ]
    assert kstest(p, "uniform").pvalue > 0.01


def test_size_skew():
    alike = size_skew(np.array([103, 97, 100, 100]))
    apart = size_skew(np.array([300, 60, 20, 20]))
    assert alike.p > 0.5 and apart.p < 1e-6
    assert apart.value == gini(np.array([300, 60, 20, 20]))
    rng = np.random.default_rng(0)
    drawn = [size_skew(rng.multinomial(400, [0.25] * 4)) for _ in range(300)]
    assert kstest([each.p for each in drawn], "uniform").pvalue > 0.01
    assert alike.chance == pytest.approx(np.mean([each.value for each in drawn]), rel=0.1)
    assert size_skew(np.array([7])) == (0, 0, 1)


def test_empty_classes_and_one_client_are_no_trouble():
    assert label_skew(np.array([[3, 0, 5]]), np.random.default_rng(0)) == pytest.approx((0, 0, 1))
    assert label_skew(np.array([[30, 0], [0, 0], [25, 0]]), np.random.default_rng(0)).p == 1


def test_too_few_classes():
    with pytest.raises(BadInput, match="above the largest label, 3: not 3"):
        split_of([0], [1]).counts(np.array([3, 0]), 3)
