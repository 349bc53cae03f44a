"""RADFed's quadratic programs, the walk away from their solution, and whole numbers that keep both margins."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from noniid.errors import BadInput
from noniid.split import Independent, Recipe, Traits, summary
from noniid.split import program as program_module
from noniid.split import wander as wander_module
from noniid.split.categories import kinds_of
from noniid.split.program import Wish, solve, whole
from noniid.split.wander import Moves, wander

MNIST = np.repeat(np.arange(10), [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958])


def wish(num_clients, num_features, seed):
    """Something to wish for with random kinds, margins and mixes."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, rng.integers(2, 5), 400) for _ in range(num_features)]
    kind_of, kinds, starts = kinds_of(columns)
    sizes = rng.multinomial(400 - num_clients, rng.dirichlet(np.ones(num_clients))) + 1
    mixes = [rng.dirichlet(np.full(count, 0.3), num_clients) for count in np.diff(starts)]
    return Wish(kinds, starts[:-1], sizes, np.bincount(kind_of), np.hstack(mixes) * sizes[:, None])


def keeps_margins(table, wished):
    return np.allclose(table.sum(1), wished.sizes) and np.allclose(table.sum(0), wished.kind_sizes)


# The programs


@pytest.mark.parametrize("num_features", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_the_lowest_there_is(num_features, seed):
    wished = wish(4, num_features, seed)
    table = solve(wished)
    assert table.min() >= 0 and keeps_margins(table, wished)
    margins = [
        {"type": "eq", "fun": lambda a: a.reshape(table.shape).sum(1) - wished.sizes},
        {"type": "eq", "fun": lambda a: a.reshape(table.shape).sum(0)[:-1] - wished.kind_sizes[:-1]},
    ]
    start = np.outer(wished.sizes, wished.kind_sizes).ravel() / wished.sizes.sum()
    settings = {"constraints": margins, "bounds": [(0, None)] * start.size, "options": {"maxiter": 500}}
    other = minimize(lambda a: wished.loss(a.reshape(table.shape)), start, method="SLSQP", **settings)
    assert wished.loss(table) <= other.fun * (1 + 1e-6) + 1e-4
    assert wished.loss(table) >= other.fun * (1 - 1e-2) - 1e-2


def test_a_wish_that_can_be_met_is_met():
    sizes, target = np.array([3, 5]), np.array([[1.0, 2.0], [4.0, 1.0]])
    wished = Wish(np.array([[0], [1]]), np.array([0]), sizes, np.array([5, 3]), target)
    assert solve(wished) == pytest.approx(target, abs=1e-5)


def test_by_hand():
    """Both of two clients want only the first class, of which there is enough for one."""
    wished = Wish(np.array([[0], [1]]), np.array([0]), np.array([10, 10]), np.array([10, 10]), np.eye(2)[[0, 0]] * 10)
    assert solve(wished) == pytest.approx(np.full((2, 2), 5), abs=1e-4)


def test_programs_too_large_to_solve_are_not_begun(monkeypatch):
    monkeypatch.setattr(program_module, "MOST_CELLS", 20)
    with pytest.raises(BadInput, match="are more than 20 numbers to solve for: name fewer features or use fewer"):
        solve(wish(4, 3, 0))


def test_without_a_solver_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(BadInput, match=r"pip install 'noniid\[qp\]'"):
        solve(wish(4, 1, 0))


# Whole numbers


@given(rows=st.integers(1, 12), columns=st.integers(1, 12), seed=st.integers(0, 2**31), thin=st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_rounding_keeps_both_margins_and_moves_no_entry_by_one(rows, columns, seed, thin):
    """Any real table with whole margins, here a mean of whole ones."""
    rng = np.random.default_rng(seed)
    tables = [_contingency(rng, rows, columns, thin)]
    for _ in range(4):
        tables.append(_shuffled_margins(rng, tables[0]))
    table = np.average(tables, axis=0, weights=rng.dirichlet(np.ones(5)))
    sizes, kind_sizes = tables[0].sum(1), tables[0].sum(0)
    noisy = np.maximum(table + rng.normal(0, 1e-9, table.shape), 0)  # as a solver's
    found = whole(noisy, sizes, kind_sizes)
    assert found.dtype == np.int64 and found.min() >= 0
    assert (found.sum(1) == sizes).all() and (found.sum(0) == kind_sizes).all()
    assert abs(found - table).max() < 1 + 1e-6


def _contingency(rng, rows, columns, thin):
    return rng.integers(0, 20, (rows, columns)) * (rng.random((rows, columns)) < thin)


def _shuffled_margins(rng, table):
    """Another whole table with the same margins, by moves."""
    table = table.copy()
    for _ in range(50):
        (i, k), (j, m) = rng.integers(0, table.shape[0], 2), rng.integers(0, table.shape[1], 2)
        if i != k and j != m and min(table[i, j], table[k, m]) > 0:
            table[[i, k, i, k], [j, m, m, j]] += np.array([-1, -1, 1, 1])
    return table


def test_a_whole_table_is_its_own_rounding():
    table = np.array([[3.0, 0.0], [1.0, 4.0]])
    assert (whole(table, np.array([3, 5]), np.array([4, 4])) == table).all()


# The walk


@pytest.fixture
def few_moves(monkeypatch):
    monkeypatch.setattr(wander_module, "BEFORE", {"share": 20_000, "capped": 20_000})
    monkeypatch.setattr(wander_module, "SEARCH", 20_000)


@pytest.mark.usefixtures("few_moves")
@pytest.mark.parametrize("moves", [Moves("share", 0.5), Moves("capped", 0.3)])
@pytest.mark.parametrize("num_features", [1, 3])
def test_moves_keep_margins_and_the_loss_is_tracked(moves, num_features):
    wished = wish(6, num_features, 1)
    best = solve(wished)
    walk = wander_module._Walk(best, wished, moves)
    for move in wander_module._drawn(5_000, best.shape, np.random.default_rng(0)):
        walk.move(*move)
    table = np.array(walk.table).reshape(best.shape)
    assert table.min() >= 0 and keeps_margins(table, wished)
    assert walk.loss == pytest.approx(wished.loss(table), rel=1e-6)
    found = wander(best, wished, moves, np.random.default_rng(0))
    assert keeps_margins(found, wished)
    assert wished.loss(best) <= wished.loss(found) <= wished.loss(table) * 2


@pytest.mark.usefixtures("few_moves")
def test_the_codes_walk_leaves_the_best_table_by_about_a_tenth():
    wished = wish(10, 1, 3)
    best = solve(wished)
    found = wander(best, wished, Moves("share", 0.05), np.random.default_rng(0))
    assert wished.loss(best) < wished.loss(found) < 1.2 * wished.loss(best)
    assert abs(found - best).max() > 1


def test_the_papers_cap_moves_next_to_nothing():
    labels = MNIST
    near, capped, shared = (
        Recipe(Independent(moves=moves)).make(labels, 100, np.random.default_rng(0)).counts(labels, 10)
        for moves in ("none", "capped", "share")
    )
    assert abs(capped - near).max() <= 3 and abs(shared - near).max() > 10


# The placement


@pytest.mark.parametrize(("lam", "c_score"), [(1.0, 0.70), (0.1, 1.29)])
def test_mnist_as_radfed_measured_it(lam, c_score):
    """Table I: 100 clients, all 70,000 samples."""
    found = []
    for seed in range(3):
        split = Recipe(Independent(lam)).make(MNIST, 100, np.random.default_rng(seed))
        assert split.num_dropped == 0
        found.append(summary(split, MNIST, 10))
    assert np.mean([each["c_score"] for each in found]) == pytest.approx(c_score, abs=0.1)
    assert np.mean([each["size_std"] for each in found]) == pytest.approx(670, rel=0.15)


def test_features_differ_where_they_are_asked_to():
    rng = np.random.default_rng(0)
    labels, sex, site = (rng.integers(0, k, 6_000) for k in (2, 2, 3))
    x = np.stack([rng.normal(size=6_000), sex * 0.5, np.ones(6_000)], axis=1)  # only one has two values
    traits = Traits(labels, {"sex": np.where(sex, "f", "m"), "site": site}, lambda index: x[index])

    def spread(features):
        placement = Independent(features=features, moves="none")
        split = Recipe(placement).make(traits, 20, np.random.default_rng(1))
        assert split.num_dropped == 0
        return summary(split, sex, 2)["c_score"]

    assert spread("none") < 0.2
    assert spread("binary") > 0.6
    assert spread("sex, site") > 0.6
    assert spread("site") < 0.2


def test_a_class_without_samples_gets_no_mix():
    labels = np.repeat([0, 3, 4], 200)
    split = Recipe(Independent(moves="none")).make(labels, 5, np.random.default_rng(0))
    assert split.sizes.sum() == 600


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Independent(0), "independent's lam is a number above 0, not 0"),
        (Independent(mu=-1), "independent's mu is a number above 0, not -1"),
        (Independent(theta=float("inf")), "independent's theta is a number above 0, not inf"),
        (Independent(moves="some"), "independent's moves is share, capped or none, not 'some'"),  # type: ignore[arg-type]
        (Independent(xi=1.5), "xi is a number above 0, and with moves=share up to 1, not 1.5"),
        (
            Independent(mu=0.001),
            "independent with mu=0.001 left one of 10 clients empty in 1,000 draws: raise mu or use",
        ),
        (Independent(features="sex"), "these data have no column 'sex'"),
        (Independent(features="binary"), "no feature of these data has just two values: name columns"),
    ],
)
def test_refusals(placement, message):
    labels = np.arange(100) % 2
    traits = Traits(labels, read=lambda index: np.ones((len(index), 2)))
    with pytest.raises(BadInput, match=message):
        Recipe(placement).make(traits, 10, np.random.default_rng(0))
