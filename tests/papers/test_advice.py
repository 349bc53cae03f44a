"""The tree has a leaf for every mixture of skews, and a table of the paper stands behind it."""

import itertools

import pytest

from noniid.papers.advice import advise
from noniid.papers.niid_bench import TABLE_3, TABLE_5

KINDS = ("label", "feature", "quantity")
EVERY = [kinds for r in range(4) for kinds in itertools.combinations(KINDS, r)]


@pytest.mark.parametrize("kinds", EVERY, ids="+".join)
@pytest.mark.parametrize("participation", [1.0, 0.1])
def test_every_mixture_has_a_leaf(kinds, participation):
    advice = advise(kinds, 5, participation)
    assert advice.algorithm in ("fedavg", "fedprox", "scaffold")
    assert advice.path[:3] == tuple(f"{kind} skew? {'yes' if kind in kinds else 'no'}" for kind in KINDS)
    assert advice.reason and advice.source
    assert advise(kinds[::-1], 5, participation) == advice


@pytest.mark.parametrize(
    ("kinds", "algorithm"),
    [([], "fedavg"), (["label"], "fedprox"), (["quantity"], "fedprox"), (["feature"], "scaffold"),
     (["label", "feature"], "scaffold"), (["feature", "quantity"], "fedprox"), (KINDS, "fedprox")],
)  # fmt: skip
def test_leaves(kinds, algorithm):
    assert advise(kinds, 5).algorithm == algorithm


def test_single_labels_and_absent_clients():
    one = advise(["label", "feature"], 1.2)
    assert (one.algorithm, one.path[-1]) == ("fedprox", "about one label a client? yes")
    some = advise(["feature"], 10, participation=0.5)
    assert (some.algorithm, some.path[-1]) == ("fedprox", "do all clients take part in every round? no")


def claims(table, data, split):
    return {cell.algorithm: cell.claim("v2").value for cell in table if (cell.data, cell.split) == (data, split)}


@pytest.mark.parametrize(
    ("kinds", "split"),
    [(["label", "feature"], "dirichlet(0.5) + noise(0.1)"), (["feature", "quantity"], "quantity(0.5) + noise(0.1)")],
)
def test_mixed_skews_are_advised_as_table_5_has_them(kinds, split):
    found = claims(TABLE_5, "cifar10", split)
    best = max(found, key=found.get)
    advice = advise(kinds, 5)
    assert advice.algorithm == best
    gap = found[best] - sorted(found.values())[-2]
    assert f"best, by {gap:.1f} points" in advice.reason


def test_feature_skew_is_advised_as_most_of_table_3_has_it():
    wins = {"scaffold": 0, "fedprox": 0, "fedavg": 0, "fednova": 0}
    for data, split in {(c.data, c.split) for c in TABLE_3 if c.split in ("noise(0.1)", "fcube")}:
        found = claims(TABLE_3, data, split)
        wins = {name: won + (found[name] == max(found.values())) for name, won in wins.items()}
    assert max(wins, key=wins.get) == advise(["feature"], 5).algorithm
