"""Index for index, in order, what the published code hands out."""

import numpy as np
import pytest

from noniid.seeds import Published
from noniid.split import Dirichlet, Fcube, Iid, Labels, Quantity

from . import published

SEEDS = [0, 1, 2, 2020]


def labels_of(K, n, seed=5):
    # Unequal classes, each with enough samples for every owner.
    rng = np.random.default_rng(seed)
    return np.concatenate([np.arange(K).repeat(30), rng.choice(K, n - 30 * K, p=rng.dirichlet([5] * K))])


def lists(parts):
    assert all(part.dtype == np.int64 for part in parts)
    return [part.tolist() for part in parts]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("N", [1, 7, 10])
def test_homo(N, seed):
    labels = labels_of(10, 1003)
    expected = published.homo(labels, N, published.Legacy(seed))
    assert lists(Iid().place(labels, N, Published(seed))) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("N", "K", "k"), [(10, 10, 1), (10, 10, 3), (23, 10, 2), (12, 4, 3), (6, 10, 10), (9, 2, 1)])
def test_labels(N, K, k, seed):
    labels = labels_of(K, 900)
    expected = published.quantity_of_labels(labels, N, K, k, published.Legacy(seed))
    assert lists(Labels(k).place(labels, N, Published(seed))) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("N", "K", "beta"), [(10, 10, 0.5), (10, 10, 0.1), (5, 2, 0.5), (20, 10, 0.5), (8, 30, 0.05)])
def test_dirichlet(N, K, beta, seed):
    labels = labels_of(K, 1500)
    expected = published.label_dirichlet(labels, N, K, beta, published.Legacy(seed))
    assert lists(Dirichlet(beta).place(labels, N, Published(seed))) == expected


@pytest.mark.parametrize("seed", range(10))
def test_a_client_with_exactly_its_fair_share_is_capped(seed):
    labels = np.arange(400) % 2
    expected = published.label_dirichlet(labels, 2, 2, 0.02, published.Legacy(seed))
    assert lists(Dirichlet(0.02).place(labels, 2, Published(seed))) == expected


def test_dirichlet_on_its_own_stream_ignores_the_run_and_leaves_its_stream_alone():
    labels = labels_of(10, 1500)
    expected = published.label_dirichlet(labels, 10, 10, 0.5, published.Legacy(2020))
    for draws in (Published(0), Published(1), np.random.default_rng(2)):
        assert lists(Dirichlet(0.5, seed=2020).place(labels, 10, draws)) == expected
    used, fresh = Published(0), Published(0)
    Dirichlet(0.5, seed=2020).place(labels, 10, used)
    assert used.permutation(9).tolist() == fresh.permutation(9).tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("N", "beta"), [(10, 0.5), (4, 0.1), (25, 1.0)])
def test_quantity(N, beta, seed):
    labels = labels_of(10, 1500)
    expected = published.quantity_dirichlet(labels, N, beta, published.Legacy(seed))
    assert lists(Quantity(beta).place(labels, N, Published(seed))) == expected


def test_the_searches_above_do_redraw():
    """Otherwise the tests would not see what a failed attempt takes from the stream."""
    labels = labels_of(10, 1500)
    for placement in (Dirichlet(0.1), Quantity(0.1)):
        draws = Counting(0)
        placement.place(labels, 10, draws)
        assert draws.dirichlets > 10


class Counting(Published):
    dirichlets = 0

    def dirichlet(self, alpha, /):
        self.dirichlets += 1
        return super().dirichlet(alpha)


def test_fcube_blocks():
    labels = np.tile([0, 1], 2000)
    parts = Fcube().place(labels, 4, Published(0))
    assert lists(parts) == [list(range(i * 1000, (i + 1) * 1000)) for i in range(4)]


def test_the_stream_goes_on_where_the_published_one_does():
    """What is drawn after the partition (which clients take part) must come from the same place."""
    labels = labels_of(10, 1500)
    for placement, reference in (
        (Iid(), lambda legacy: published.homo(labels, 10, legacy)),
        (Labels(2), lambda legacy: published.quantity_of_labels(labels, 10, 10, 2, legacy)),
        (Labels(10), lambda legacy: published.quantity_of_labels(labels, 10, 10, 10, legacy)),
        (Dirichlet(0.1), lambda legacy: published.label_dirichlet(labels, 10, 10, 0.1, legacy)),
        (Quantity(0.3), lambda legacy: published.quantity_dirichlet(labels, 10, 0.3, legacy)),
    ):
        draws, legacy = Published(3), published.Legacy(3)
        placement.place(labels, 10, draws)
        reference(legacy)
        assert draws.permutation(9).tolist() == legacy.np.permutation(9).tolist()
        assert draws.integers(1 << 20) == legacy.py.randint(0, (1 << 20) - 1)
