"""What every split keeps to: run over the registry, so that a new line there is tested."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noniid.seeds import Published
from noniid.split import (
    PLACEMENTS,
    SHIFTS,
    By,
    Clustered,
    Dirichlet,
    Fcube,
    Grouped,
    Growing,
    Iid,
    Independent,
    Labels,
    Lognormal,
    Population,
    Quantity,
    Recipe,
    Replay,
    Saved,
    Shards,
    Similarity,
    Sizes,
    Traits,
    TwoOwners,
    Zipf,
    parse,
    wander,
)

# One or more usable instances of everything registered.
EXAMPLES = {
    "iid": [Iid()],
    "labels": [Labels(1), Labels(2), Labels(2, first="random"), Labels(3)],
    "dirichlet": [Dirichlet(0.5, 2), Dirichlet(5.0, 1, cap=False), Dirichlet(1, 2, seed=2020)],
    "quantity": [Quantity(0.5, 1), Quantity(100.0, 4)],
    "fcube": [Fcube()],
    "similarity": [Similarity(0), Similarity(35), Similarity(100)],
    "shards": [Shards(1), Shards(3)],
    "population": [Population(0), Population(0.3), Population(1, 5, "per-class"), Population(np.inf)],
    "two_owners": [TwoOwners(5), TwoOwners(100)],
    "replay": [Replay("counts")],
    "lognormal": [Lognormal(0, 1), Lognormal(0.7, 2)],
    "zipf": [Zipf(0.5), Zipf(1)],
    "growing": [Growing(), Growing("square"), Growing("exponential")],
    "sizes": [Sizes("7,1, 20"), Sizes("40")],
    "by": [By("writer"), By("writer", 3, most=4)],
    "grouped": [Grouped("writer")],
    "independent": [Independent(1), Independent(0.3, features="writer"), Independent(0.5, 5, moves="capped", xi=1)],
    "clustered": [Clustered(3), Clustered(4, 1, within="all")],
}
PLACED = [placement for examples in EXAMPLES.values() for placement in examples]
STREAMS = [np.random.default_rng, Published]
DROPS = (Labels, Similarity, Shards, Population, Sizes, By, Clustered)  # others hand out every sample
# What a client holds of each label follows from the labels' sizes, whatever the order of the samples.
BY_SIZES = (Labels, Dirichlet, Population, TwoOwners, Replay, Independent)
UNDRAWN = [*EXAMPLES["fcube"], *EXAMPLES["by"], Dirichlet(1, 2, seed=2020)]  # the same whatever the run's seed
WRITERS = 12


@st.composite
def tasks(draw):
    """Labels with at least 20 samples of each of 3 classes, and few enough clients for every example."""
    counts = draw(st.lists(st.integers(20, 60), min_size=3, max_size=5))
    labels = np.repeat(np.arange(len(counts)), counts)
    order = draw(st.permutations(range(len(labels)))) if len(labels) < 80 else range(len(labels))
    dtype = draw(st.sampled_from([np.int64, np.uint8, np.int32]))
    return labels[list(order)].astype(dtype), draw(st.integers(1, 6)), draw(st.integers(0, 2**31))


@pytest.fixture(scope="module", autouse=True)
def short_walks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wander, "BEFORE", {"share": 200, "capped": 200})
        patch.setattr(wander, "SEARCH", 200)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Counts of 20 clients for 3, 4 and 5 classes."""
    folder = tmp_path_factory.mktemp("counts")
    for num_classes in (3, 4, 5):
        counts = np.random.default_rng(num_classes).integers(1, 9, (20, num_classes))
        np.savetxt(folder / f"{num_classes}.csv", counts, delimiter=",", fmt="%d")
    return folder


def fitted(placement, labels, num_clients, folder):
    """The placement and a number of clients that suit these labels."""
    num_classes = int(labels.max()) + 1
    if isinstance(placement, Replay):
        return Replay(str(folder / f"{num_classes}.csv")), num_clients
    if isinstance(placement, TwoOwners):
        return placement, num_classes
    if isinstance(placement, Growing):  # with more clients the first ones' shares are less than a sample
        return placement, min(num_clients, 3)
    return placement, None if placement.own_count else num_clients


def traits_of(labels):
    """Labels, a writer for each sample, and features that differ by label and sample."""
    n = len(labels)
    x = np.stack([labels, np.sin(np.arange(n)), np.arange(n) % 7], axis=1)
    return Traits(labels, {"writer": np.arange(n) ** 2 % 53 % WRITERS}, lambda index: x[index])


def permuted(traits, order):
    columns = {name: values[order] for name, values in traits.columns.items()}
    return Traits(traits.labels[order], columns, lambda index: traits.read(order[index]))


def test_every_registered_placement_has_examples():
    """But saved(path), which knows one data set: test_saved.py."""
    assert set(EXAMPLES) == set(PLACEMENTS) - {"saved"}
    assert {type(p) for p in PLACED} == {*PLACEMENTS.values()} - {Saved}


@pytest.mark.parametrize("make_draws", STREAMS)
@pytest.mark.parametrize("placement", PLACED, ids=PLACEMENTS.write)
@settings(max_examples=25, deadline=None)
@given(task=tasks())
def test_disjoint_complete_deterministic_and_without_side_effects(placement, make_draws, folder, task):
    labels, num_clients, seed = task
    placement, asked = fitted(placement, labels, num_clients, folder)
    before, traits = labels.copy(), traits_of(labels)
    split = Recipe(placement).make(traits, asked, make_draws(seed))
    everything = np.concatenate(split.indices)
    assert split.num_clients == len(split.sizes) == (asked or placement.count(traits, None))
    assert all(part.dtype == np.int64 for part in split.indices)
    assert split.sizes.min() >= 1
    assert len(np.unique(everything)) == len(everything)
    assert everything.min() >= 0 and everything.max() < len(labels)
    assert len(everything) + split.num_dropped == len(labels)
    assert split.num_dropped == 0 or isinstance(placement, DROPS)
    assert (labels == before).all()
    again = Recipe(placement).make(traits, asked, make_draws(seed))
    assert all((a == b).all() for a, b in zip(split.indices, again.indices, strict=True))
    counts = split.counts(labels, 5)
    assert counts.shape == (split.num_clients, 5)
    assert (counts.sum(axis=1) == split.sizes).all()
    assert (counts.sum(axis=0) <= np.bincount(labels, minlength=5)).all()


@pytest.mark.parametrize("placement", [p for p in PLACED if not isinstance(p, Grouped)], ids=PLACEMENTS.write)
@settings(max_examples=10, deadline=None)
@given(task=tasks(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_samples_changes_no_size(placement, folder, task, order):
    labels, num_clients, seed = task
    placement, asked = fitted(placement, labels, num_clients, folder)
    mixed = np.array(order.sample(range(len(labels)), len(labels)))
    traits, other = traits_of(labels), permuted(traits_of(labels), mixed)
    split = Recipe(placement).make(traits, asked, np.random.default_rng(seed))
    again = Recipe(placement).make(other, asked, np.random.default_rng(seed))
    assert (split.sizes == again.sizes).all()
    if isinstance(placement, BY_SIZES):
        assert (split.counts(labels, 5) == again.counts(labels[mixed], 5)).all()
    if isinstance(placement, By):
        assert all(set(a) == set(mixed[b]) for a, b in zip(split.indices, again.indices, strict=True))


@pytest.mark.parametrize("placement", [Iid(), Quantity(0.5, 1), Fcube()], ids=PLACEMENTS.write)
@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_placements_that_do_not_look_at_labels(placement, seed):
    labels = np.arange(90) % 3
    other = labels[np.random.default_rng(seed).permutation(90)]
    split = placement.place(labels, 6, np.random.default_rng(seed))
    assert all(
        (a == b).all() for a, b in zip(split, placement.place(other, 6, np.random.default_rng(seed)), strict=True)
    )


@pytest.mark.parametrize("placement", [p for p in PLACED if p not in UNDRAWN], ids=PLACEMENTS.write)
def test_another_seed_is_another_split(placement, folder):
    labels = np.arange(300) % 5
    placement, asked = fitted(placement, labels, 4, folder)
    placed = (placement.place(traits_of(labels), asked, np.random.default_rng(s)) for s in (0, 1))
    first, second = map(np.concatenate, placed)
    assert not np.array_equal(first, second)


@given(n=st.integers(1, 200), num_clients=st.integers(1, 30))
@settings(deadline=None)
def test_equal_parts_are_equal(n, num_clients):
    num_clients = min(n, num_clients)
    for placement in (Iid(), Fcube()):
        sizes = [len(part) for part in placement.place(np.zeros(n, int), num_clients, np.random.default_rng(0))]
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1


@given(k=st.integers(1, 10), num_clients=st.integers(1, 25), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_labels_gives_k_labels_in_equal_parts(k, num_clients, seed):
    labels = np.repeat(np.arange(10), np.arange(30, 40))
    split = Recipe(Labels(k)).make(labels, num_clients, np.random.default_rng(seed))
    counts = split.counts(labels, 10)
    assert (np.count_nonzero(counts, axis=1) == k).all()
    assert all(counts[i, i % 10] > 0 for i in range(num_clients))
    for parts in counts.T:
        owned = parts[parts > 0]
        assert len(owned) == 0 or owned.max() - owned.min() <= 1
    unowned = counts.sum(axis=0) == 0
    assert split.num_dropped == np.bincount(labels)[unowned].sum()
    assert num_clients < 10 or not unowned.any()


def test_a_first_label_at_random_may_leave_labels_unowned_and_says_so():
    labels = np.arange(1000) % 10
    split = Recipe(Labels(1, first="random")).make(labels, 10, np.random.default_rng(0))
    owned = (split.counts(labels, 10).sum(axis=0) > 0).sum()
    assert owned < 10
    assert split.num_dropped == 1000 - 100 * owned


def test_a_class_without_samples_is_no_obstacle():
    labels = np.repeat([0, 2, 5], 100)
    for placement in (Dirichlet(1.0, 5), Labels(6)):
        split = Recipe(placement).make(labels, 4, np.random.default_rng(0))
        assert split.sizes.sum() == 300


@pytest.mark.parametrize("min_size", [1, 10, 40])
def test_searches_keep_the_minimum(min_size):
    labels = np.arange(1000) % 10
    for placement in (Dirichlet(2.0, min_size), Dirichlet(2.0, min_size, cap=False), Quantity(2.0, min_size)):
        for seed in range(5):
            sizes = map(len, placement.place(labels, 10, np.random.default_rng(seed)))
            assert min(sizes) >= min_size


def test_a_minimum_met_exactly_is_met():
    for placement in (Dirichlet(1.0, 20), Quantity(1.0, 20)):
        assert len(placement.place(np.arange(20) % 2, 1, np.random.default_rng(0))[0]) == 20


def test_more_clients_and_classes_than_16_bits_count():
    for num_classes, num_clients in ((2, 70_000), (70_000, 2)):
        labels = np.arange(140_000) % num_classes
        split = Recipe(Labels(1)).make(labels, num_clients, np.random.default_rng(0))
        assert all(set(labels[part]) == {i % num_classes} for i, part in enumerate(split.indices))


def test_capping_keeps_clients_smaller():
    labels = np.arange(10_000) % 10

    def largest(cap):
        draws = np.random.default_rng(0)
        recipe = Recipe(Dirichlet(0.3, 1, cap=cap))
        return np.mean([recipe.make(labels, 10, draws).sizes.max() for _ in range(20)])

    assert largest(True) < largest(False)


def test_beta_sets_the_skew():
    labels = np.arange(20_000) % 10
    spread = []
    for beta in (0.1, 1.0, 1000.0):
        split = Recipe(Dirichlet(beta, 1)).make(labels, 10, np.random.default_rng(0))
        spread.append(split.counts(labels, 10).std())
    assert spread[0] > spread[1] > 5 * spread[2]


def test_fields_are_plain_and_frozen():
    for cls in (*PLACEMENTS.values(), *SHIFTS.values()):
        assert cls.__dataclass_params__.frozen
    for placement in PLACED:
        assert hash(placement) == hash(dataclasses.replace(placement))
        assert hash(Recipe(placement)) == hash(parse(str(Recipe(placement))))
