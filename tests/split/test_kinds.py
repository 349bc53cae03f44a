"""Made skews, of which the truth is known, are called what they are."""

import numpy as np
import pytest
import torch

from noniid.errors import BadInput
from noniid.split import BesideChance, Profile, Reading, feature_measure, parse, profile

NUM_CLIENTS, NUM_CLASSES = 6, 4
LABELS = np.arange(1800) % NUM_CLASSES
X = np.random.default_rng(7).normal(size=(1800, 5)) + 2 * np.eye(5)[LABELS]  # features tell the class


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Enough to see what was made, and quick."""
    monkeypatch.setattr(feature_measure, "MOST_SAMPLES", 600)


def found(text, moved=0.0, seed=0, features=True):
    """The profile of a split in which each client's features are moved as far as its number says."""
    split = parse(text).make(LABELS, NUM_CLIENTS, np.random.default_rng(seed))

    def seen(client, index):
        assert set(index) <= set(split.indices[client])
        return X[index] + moved * client / NUM_CLIENTS

    return profile(split, LABELS, NUM_CLASSES, np.random.default_rng(seed), seen if features else None)


@pytest.mark.parametrize(
    ("text", "moved", "kinds"),
    [
        ("iid", 0, []),
        ("labels(2)", 0, ["label"]),
        ("similarity(30)", 0, ["label"]),
        ("quantity(0.5)", 0, ["quantity"]),
        ("iid", 1, ["feature"]),
        ("labels(3)", 1, ["label", "feature"]),
        ("quantity(0.5)", 1, ["feature", "quantity"]),
        ("dirichlet(0.2, cap=false)", 0, ["label", "quantity"]),
        ("dirichlet(0.2, cap=false)", 1.5, ["label", "feature", "quantity"]),
    ],
)
def test_the_kind_is_what_was_made(text, moved, kinds):
    for seed in range(2):
        told = found(text, moved, seed)
        assert told.kinds == kinds, told.record()
        assert told.verdict == (kinds[0] if len(kinds) == 1 else "mixed" if kinds else "none")


def test_iid_clients_are_rarely_called_skewed():
    verdicts = [found("iid", 0, seed).verdict for seed in range(12)]
    assert verdicts.count("none") >= 11


def test_much_data_does_not_make_a_trifle_a_skew():
    labels = np.append(np.zeros(200_000, int), np.ones(200_000, int))
    first = np.append(np.arange(101_000), np.arange(200_000, 299_000))
    second = np.setdiff1d(np.arange(400_000), first)
    split = parse("iid").make(labels, 2, np.random.default_rng(0))
    told = profile(type(split)((first, second)), labels, 2, np.random.default_rng(0))
    assert told.labels.p <= 0.01
    assert told.kinds == []


def test_features_are_not_looked_at_unless_shown():
    told = found("iid", 1, features=False)
    assert (told.features, told.feature_p, told.kinds) == (None, None, [])
    assert "feature" not in told.record()


def test_two_measures_are_two_chances():
    told = found("iid", 1)
    assert told.feature_p == 2 * min(told.features.mmd.p, told.features.telling.p) <= 0.01
    assert found("iid", 0).feature_p <= 1


def test_the_record_is_plain():
    told = found("labels(2)").record()
    assert told["verdict"] == "label" and told["kinds"] == ["label"]
    assert set(told["label"]) == set(told["quantity"]) == {"value", "chance", "p"}
    assert set(told["feature"]) == {"p", "mmd", "telling", "blind", "shared", "strength"}
    assert 0 < told["feature"]["shared"] <= 1


def test_one_client_differs_from_nobody():
    split = parse("iid").make(LABELS, 1, np.random.default_rng(0))
    with pytest.raises(BadInput, match="skew is between clients, and there is one"):
        profile(split, LABELS, NUM_CLASSES, np.random.default_rng(0))


def test_what_is_significant_must_be_large_too():
    small = Profile(BesideChance(0.06, 0.02, 0.001), BesideChance(0.2, 0.01, 1e-9), None)
    assert small.kinds == []
    assert Profile(BesideChance(0.08, 0.02, 0.001), BesideChance(0.3, 0.01, 1e-9), None).kinds == ["label", "quantity"]
    assert Profile(BesideChance(0.5, 0.4, 0.2), BesideChance(0.3, 0.3, 0.4), None).kinds == []


def test_images_are_rows_of_pixels():
    split = parse("noise(0.5)").make(LABELS, 3, np.random.default_rng(0))
    pixels = torch.zeros(len(LABELS), 1, 4, 4)

    def seen(client, index):
        generator = torch.Generator().manual_seed(client)
        return split.shifted(pixels[index], Reading(torch.from_numpy(index), client, 3, generator)).numpy()

    assert profile(split, LABELS, NUM_CLASSES, np.random.default_rng(0), seen).kinds == ["feature"]
