"""The split that NIID-Bench's code calls mixed."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.seeds import Published
from noniid.split import TwoOwners

from . import published

LABELS = np.random.default_rng(3).permutation(np.repeat(np.arange(10), np.arange(50, 60)))


def test_as_the_code_hands_it_out_where_it_ends():
    expected = {seed: published.mixed(LABELS, 10, 0.5, published.Legacy(seed)) for seed in range(20)}
    ended = {seed: held for seed, held in expected.items() if held is not None}
    assert len(ended) > 10
    for seed, held in ended.items():
        assert [part.tolist() for part in TwoOwners(0.5).place(LABELS, 10, Published(seed))] == held


def test_where_the_code_never_ends_the_labels_are_drawn_anew():
    endless = [seed for seed in range(60) if published.mixed(LABELS, 10, 5.0, published.Legacy(seed)) is None]
    assert endless
    for seed in endless:
        held = TwoOwners(5.0).place(LABELS, 10, Published(seed))
        assert sum(map(len, held)) == len(LABELS)


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("seed", range(5))
def test_two_owners_a_label_and_two_labels_a_client(num_classes, seed):
    labels = np.arange(100 * num_classes) % num_classes
    held = TwoOwners(50.0).place(labels, num_classes, np.random.default_rng(seed))
    owns = np.array([np.bincount(labels[part], minlength=num_classes) > 0 for part in held])
    assert owns.diagonal().all()
    assert (owns.sum(axis=0) == 2).all() and (owns.sum(axis=1) == 2).all()


@pytest.mark.parametrize(("num_clients", "labels"), [(5, LABELS), (1, np.zeros(9, int)), (11, LABELS)])
def test_as_many_clients_as_labels(num_clients, labels):
    with pytest.raises(BadInput, match=r"two_owners gives every label two .*: use (10|2) clients, not"):
        TwoOwners(1).place(labels, num_clients, np.random.default_rng(0))


def test_refusals():
    with pytest.raises(BadInput, match="two_owners' beta is a number above 0, not 0"):
        TwoOwners(0).place(LABELS, 10, np.random.default_rng(0))
