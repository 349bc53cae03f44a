"""Client-wise Dirichlet mixes, what they are filled from, and counts taken over from a file."""

import hashlib

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import Population, Recipe, Replay
from noniid.split.population import draw_mixes, fill

CIFAR = np.arange(50_000) % 10


def make(placement, num_clients=100, labels=CIFAR, seed=0):
    return Recipe(placement).make(labels, num_clients, np.random.default_rng(seed))


@pytest.mark.parametrize("alpha", [100, 10, 1, 0.5, 0.2, 0.1, 0.05, 0])
def test_the_papers_hundred_clients_of_five_hundred(alpha):
    split = make(Population(alpha))
    assert set(split.sizes) == {500} and split.num_dropped == 0


def test_the_limits_of_alpha():
    one = make(Population(0, size=100)).counts(CIFAR, 10)
    assert ((one > 0).sum(axis=1) == 1).all()
    tiny = make(Population(1e-300, size=100)).counts(CIFAR, 10)
    assert ((tiny > 0).sum(axis=1) == 1).all()
    even = make(Population(np.inf), 50).counts(CIFAR, 10)[:-5]  # the last ones get what is left
    assert abs(even / 1_000 - 0.1).max() < 0.06


def test_both_conventions():
    """Flower's alpha is ten times the paper's."""
    papers, flowers = Population(1.0), Population(0.1, convention="per-class")
    a, b = (make(p).counts(CIFAR, 10) for p in (papers, flowers))
    assert (a == b).all()
    assert not (make(Population(0.1)).counts(CIFAR, 10) == a).all()


def test_a_size_of_ones_own_drops_the_rest():
    split = make(Population(1, size=450))
    assert set(split.sizes) == {450} and split.num_dropped == 5_000
    with pytest.raises(BadInput, match="100 clients with 501 samples each need more than the 50,000 there are: lower"):
        make(Population(1, size=501))


def test_the_mix_of_the_data_is_the_prior():
    labels = np.repeat([0, 1, 3], [6_000, 3_000, 1_000])
    mixes = draw_mixes(2.0, np.array([0.6, 0.3, 0.1]), 4_000, np.random.default_rng(0))
    assert mixes.mean(axis=0) == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    # The variance of a Dirichlet share with parameters alpha p: p (1 - p) / (alpha + 1).
    assert mixes.var(axis=0) == pytest.approx([0.08, 0.07, 0.03], abs=0.01)
    assert make(Population(2.0), 10, labels).sizes.tolist() == [1_000] * 10  # no sample of label 2, no obstacle


def test_filling_equals_drawing_one_by_one():
    """The distribution of a client's counts, against the loop that zeroes a class the moment it is empty."""
    sizes, p, wanted = np.array([3, 2, 9]), np.array([0.7, 0.25, 0.05]), 8

    def one_by_one(rng):
        left, q, got = sizes.copy(), p.copy(), np.zeros(3, int)
        for _ in range(wanted):
            k = rng.choice(3, p=q)
            got[k] += 1
            left[k] -= 1
            if left[k] == 0:
                q = np.where(left > 0, p + 1e-5, 0)
                q /= q.sum()
        return tuple(got.tolist())

    def at_once(rng):
        return tuple(fill(sizes, p[None], np.array([wanted]), rng)[:, 0].tolist())

    rng = np.random.default_rng(0)
    draws = 4_000
    for method in (one_by_one, at_once):
        found = [method(rng) for _ in range(draws)]
        share = {counts: found.count(counts) / draws for counts in set(found)}
        assert all(sum(counts) == wanted for counts in share)
        first = share if method is one_by_one else first  # noqa: F821
    assert max(abs(share.get(counts, 0) - first.get(counts, 0)) for counts in {*share, *first}) < 0.04


def test_everything_is_handed_out_however_skewed():
    labels = np.arange(1_000) % 10
    for seed in range(20):
        split = make(Population(0), 10, labels, seed)
        assert set(split.sizes) == {100} and split.num_dropped == 0


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Population(-1), "alpha is a number from 0 up, not -1"),
        (Population(float("nan")), "alpha is a number from 0 up, not nan"),
        (Population(1, size=0), "size is at least 1, or none"),
        (Population(1, convention="flower"), "convention is total or per-class, not 'flower'"),  # type: ignore[arg-type]
    ],
)
def test_refusals(placement, message):
    with pytest.raises(BadInput, match=message):
        make(placement)


# Counts of a real federation


@pytest.fixture
def counts(tmp_path):
    """Six clients by three classes, as .npy; the last one holds nothing."""
    path = tmp_path / "counts.npy"
    np.save(path, np.array([[1, 0, 0], [3, 0, 2], [0, 1, 2], [0, 3, 0], [4, 4, 4], [0, 0, 0]]))
    return path


def test_classes_are_divided_in_the_files_proportions(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("10,1\n30,3\n")
    labels = np.repeat([0, 1], [400, 100])
    table = make(Replay(str(path)), 2, labels).counts(labels, 2)
    assert sorted(table.tolist()) == [[100, 25], [300, 75]]


def test_rows_are_drawn_until_everyone_has_something(counts):
    labels = np.arange(300) % 3
    for seed in range(10):
        split = make(Replay(str(counts)), 3, labels, seed)
        assert split.sizes.sum() == 300 and split.sizes.min() > 0


def test_replay_ends_where_no_rows_will_do(counts):
    labels = np.arange(300) % 3
    with pytest.raises(BadInput, match="a class or a client was always left without samples"):
        make(Replay(str(counts)), 6, labels)
    with pytest.raises(BadInput, match="has 6 rows for 7 clients: use fewer clients"):
        make(Replay(str(counts)), 7, labels)


def test_files_that_cannot_be_used(counts, tmp_path):
    labels = np.arange(300) % 3
    sha = hashlib.sha256(counts.read_bytes()).hexdigest()
    assert make(Replay(str(counts), sha[:8].upper()), 2, labels).num_clients == 2
    words, negative, damaged = tmp_path / "words.csv", tmp_path / "negative.csv", tmp_path / "damaged.npy"
    words.write_text("a,b,c\n")
    negative.write_text("1,-1,1\n")
    damaged.write_text("no array")
    for replay, message in (
        (Replay(str(counts), "0123"), "is not the file that was meant: its SHA-256 does not begin 0123"),
        (Replay("nowhere.csv"), "there is no file nowhere.csv"),
        (Replay(str(words)), "cannot read .* as numbers, a row for a client"),
        (Replay(str(damaged)), "cannot read .* as numbers, a row for a client"),
        (Replay(str(negative)), "holds a number that is no count"),
    ):
        with pytest.raises(BadInput, match=message):
            make(replay, 1, labels)
    with pytest.raises(BadInput, match="is 6 x 3: it needs a column for each of the 10 classes"):
        make(Replay(str(counts)), 2)
