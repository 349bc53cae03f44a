"""Feature skew: the numbers are those of the formulas, chance is chance, and label skew alone is none of it."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import kstest

from noniid.split import feature_measure as module
from noniid.split import parse
from noniid.split.feature_measure import feature_skew, looked_at, mmd, rbf


def clients_of(labels, num_clients, text="iid", seed=0):
    split = parse(text).make(labels, num_clients, np.random.default_rng(seed))
    who = np.empty(len(labels), np.int64)
    for client, held in enumerate(split.indices):
        who[held] = client
    return who


def blobs(num_samples, seed, num_classes=3, d=4):
    """Features that tell their class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, num_samples)
    return rng.normal(size=(num_samples, d)) + 2 * labels[:, None], labels


def measured(x, labels, who, seed=0):
    return feature_skew(x, labels, who, int(who.max()) + 1, np.random.default_rng(seed))


def test_the_kernel_is_gaussian_at_the_median_distance():
    x = np.random.default_rng(0).normal(size=(60, 3)) + 1000  # far away, where distances drown in rounding
    s = np.median(pdist(x))
    assert rbf(x) == pytest.approx(np.exp(-(cdist(x, x) ** 2) / (2 * s**2)), abs=1e-4)
    assert rbf(np.ones((5, 2))).tolist() == np.ones((5, 5)).tolist()


def test_mmd_by_the_formula():
    x = np.random.default_rng(1).normal(size=(12, 2))
    who = np.array([0] * 5 + [1] * 6 + [2])
    kernel = rbf(x)
    found = mmd(kernel, np.eye(3, dtype=np.float32)[who])
    for client in (0, 1):
        a, b = np.flatnonzero(who == client), np.flatnonzero(who != client)
        within = np.mean([kernel[i, j] for i in a for j in a if i != j])
        others = np.mean([kernel[i, j] for i in b for j in b if i != j])
        across = np.mean([kernel[i, j] for i in a for j in b])
        assert found[client] == pytest.approx(within + others - 2 * across, abs=1e-5)
    assert np.isnan(found[2])  # a single sample has no neighbour


def test_mmd_is_unbiased():
    rng = np.random.default_rng(2)
    members = np.eye(2, dtype=np.float32)[np.arange(20) % 2]
    values = [mmd(rbf(rng.normal(size=(20, 2))), members)[0] for _ in range(500)]
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(len(values))


@pytest.mark.parametrize("text", ["iid", "dirichlet(0.3, min_size=2)", "quantity(0.5)"])
def test_p_is_uniform_where_features_follow_from_labels(monkeypatch, text):
    """Under label skew too: chance keeps each client's labels."""
    monkeypatch.setattr(module, "PERMUTATIONS", 49)
    found = []
    for seed in range(60):
        x, labels = blobs(120, seed)
        found.append(measured(x, labels, clients_of(labels, 4, text, seed), seed))
    for p in ([each.mmd.p for each in found], [each.telling.p for each in found]):
        # The accuracy takes few values, so its p is a little above uniform: never below it.
        assert kstest(p, "uniform", alternative="greater").pvalue > 0.01
        assert np.mean(p) == pytest.approx(0.5, abs=0.13)


def test_label_skew_makes_features_differ_by_chance_as_much():
    x, labels = blobs(400, 0)
    found = measured(x, labels, clients_of(labels, 3, "labels(2)"))
    assert found.telling.value == pytest.approx(found.telling.chance, abs=0.08)
    assert found.telling.chance > 0.4 > found.blind
    assert found.mmd.chance > 0.02


@pytest.mark.parametrize("shift", ["mean", "spread"])
def test_what_is_shifted_is_seen(shift):
    x, labels = blobs(400, 0)
    who = clients_of(labels, 4)
    x = x + who[:, None] if shift == "mean" else x * (1 + who[:, None])
    found = measured(x, labels, who)
    assert found.mmd.p == found.telling.p == 1 / (1 + module.PERMUTATIONS)
    assert found.telling.value > found.telling.chance + 0.1
    assert 0.1 < found.strength < 1


def test_the_one_client_that_differs_is_named():
    x, labels = blobs(400, 0)
    who = clients_of(labels, 4)
    found = measured(x + 4 * (who == 2)[:, None], labels, who)
    assert found.mmd_by_client.argmax() == found.telling_by_client.argmax() == 2
    assert found.telling_by_client[2] > 0.8


def test_a_model_of_unequal_clients_does_not_only_guess_the_largest():
    rng = np.random.default_rng(0)
    who = np.repeat([0, 1], [360, 40])
    found = measured(rng.normal(size=(400, 2)) + 3 * who[:, None], np.zeros(400, int), who)
    assert min(found.telling_by_client) > 0.85


def test_where_labels_and_clients_coincide_nothing_can_be_told():
    x, labels = blobs(200, 0)
    found = measured(x, labels, labels)
    assert (found.mmd.p, found.telling.p, found.shared) == (1, 1, 0)


def test_clients_that_were_not_looked_at_and_single_samples_are_not_known():
    x, labels = blobs(41, 0)
    who = np.append(np.arange(40) % 2, 5)
    found = feature_skew(x, labels, who, 7, np.random.default_rng(0))
    assert np.isnan(found.mmd_by_client[[2, 3, 4, 5, 6]]).all() and np.isfinite(found.mmd_by_client[:2]).all()
    assert np.isnan(found.telling_by_client[[2, 3, 4, 6]]).all()
    alone = feature_skew(x[:3], labels[:3], np.arange(3), 3, np.random.default_rng(0))
    assert (alone.mmd.value, alone.mmd.p) == (0, 1)


def test_the_same_seed_gives_the_same_numbers():
    x, labels = blobs(200, 0)
    who = clients_of(labels, 4)
    one, other, another = (measured(x, labels, who, seed) for seed in (3, 3, 4))
    assert one.mmd == other.mmd and one.telling == other.telling
    assert one.telling != another.telling


def test_what_is_looked_at_is_bounded():
    labels = np.arange(30_000) % 10
    for num_clients, num_features in ((3, 10), (10, 3072), (1000, 10), (10, 50_000)):
        split = parse("iid").make(labels, num_clients, np.random.default_rng(0))
        chosen = looked_at(split, num_features, np.random.default_rng(0))
        held = sum(map(len, chosen.values()))
        assert len(chosen) == min(num_clients, module.MOST_CLIENTS)
        assert held <= module.MOST_SAMPLES
        assert held * num_features <= max(module.MOST_VALUES, num_features * 2 * module.FOLDS * len(chosen))
        assert all(set(index) <= set(split.indices[client]) for client, index in chosen.items())
