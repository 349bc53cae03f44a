"""Clients whose samples look alike."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import Clustered, Recipe, Traits

# Two labels, each in four far corners.
RNG = np.random.default_rng(0)
LABELS = np.arange(800) % 2
CORNERS = RNG.integers(0, 4, 800)
X = np.stack([CORNERS % 2, CORNERS // 2], axis=1) * 50.0 + RNG.normal(size=(800, 2))


def traits(x=X):
    return Traits(LABELS, read=lambda index: x[index])


def corners(split):
    """How many samples of each corner each client holds, [N, 4]."""
    return np.array([np.bincount(CORNERS[part], minlength=4) for part in split.indices])


def make(placement, num_clients=4, given=None, seed=0):
    return Recipe(placement).make(given or traits(), num_clients, np.random.default_rng(seed))


def test_within_labels_the_labels_show_nothing_and_the_features_differ():
    split = make(Clustered(4, 0.05))
    assert (split.counts(LABELS, 2) == 100).all()
    mild = make(Clustered(4, 1000))
    assert corners(split).max(axis=1).mean() > 1.5 * corners(mild).max(axis=1).mean()


def test_clusters_of_everything():
    split = make(Clustered(4, 0.01, within="all"), 2)
    assert split.sizes.tolist() == [400, 400]
    assert corners(split).max(axis=1).min() > 150


def test_embeddings_take_the_place_of_features(tmp_path):
    path = tmp_path / "embeddings.npy"
    np.save(path, X)
    given = make(Clustered(4, 0.05, embeddings=str(path)), given=Traits(LABELS))
    assert all((a == b).all() for a, b in zip(given.indices, make(Clustered(4, 0.05)).indices, strict=True))
    np.save(path, X[:5])
    with pytest.raises(BadInput, match="is 5 x 2: it needs a row for each of the 800 samples"):
        make(Clustered(4, embeddings=str(path)))
    with pytest.raises(BadInput, match="cannot read embeddings from nowhere.npy"):
        make(Clustered(4, embeddings="nowhere.npy"))


def test_samples_that_are_all_alike_are_one_cluster():
    assert make(Clustered(5), given=traits(np.zeros_like(X))).sizes.tolist() == [200] * 4


def test_a_label_with_fewer_samples_than_clients_is_dropped():
    labels = np.where(np.arange(800) < 3, 1, 0)
    split = make(Clustered(2, 1), given=Traits(labels, read=lambda index: X[index]))
    assert split.num_dropped == 3 + 797 % 4


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Clustered(0), "clustered needs at least one cluster, not 0"),
        (Clustered(2, 0), "clustered's beta is a number above 0, not 0"),
        (Clustered(2, within="client"), "clustered's within is label or all, not 'client'"),  # type: ignore[arg-type]
    ],
)
def test_refusals(placement, message):
    with pytest.raises(BadInput, match=message):
        make(placement)


def test_labels_alone_are_too_little():
    with pytest.raises(BadInput, match="this split looks at features and was given labels only"):
        make(Clustered(2), given=Traits(LABELS))
