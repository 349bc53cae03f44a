"""Quadratic programs over tables with given margins, and whole numbers that keep them. [RADFed, programs (1) and (2)]

N clients, U kinds of samples, F features (the class is one), M categories of all features together. A sample's kind
is its category in each feature: `kinds` [U, F] numbers categories through, from 0 to M - 1. A table a [N, U] says how
many samples of each kind a client holds; its margins are the clients' sizes [N] and the kinds' sizes [U].
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noniid.errors import BadInput
from noniid.split.traits import Ints

Reals = NDArray[np.float64]
MOST_CELLS = 500_000  # of a table; some minutes of solving
TOLERANCE = 1e-7  # what a solver's whole numbers may be off


@dataclass(frozen=True, eq=False)
class Wish:
    """A table's margins, and how many samples of each category every client would best hold."""

    kinds: Ints  # [U, F]
    first: Ints  # [F] the first category of each feature
    sizes: Ints  # [N]
    kind_sizes: Ints  # [U]
    target: Reals  # [N, M]

    def excess(self, table: Reals) -> Reals:
        """What clients hold above their target, [N, M]."""
        marks = np.zeros((len(self.kinds), self.target.shape[1]))
        np.put_along_axis(marks, self.kinds, 1, axis=1)
        return table @ marks - self.target

    def loss(self, table: Reals) -> float:
        return float(np.square(self.excess(table)).sum())


def solve(wish: Wish) -> Reals:
    """The table of real numbers >= 0 with these margins that is nearest to the target, [N, U]."""
    cells = len(wish.sizes) * len(wish.kind_sizes)
    if cells > MOST_CELLS:
        raise BadInput(
            f"{len(wish.sizes):,} clients times {len(wish.kind_sizes):,} kinds of samples are more than "
            f"{MOST_CELLS:,} numbers to solve for: name fewer features or use fewer clients."
        )
    clarabel = _solver()
    conditions, values, squares = _program(wish)
    scale = wish.sizes.mean()  # solvers like numbers near 1
    cones = [clarabel.ZeroConeT(len(values) - cells), clarabel.NonnegativeConeT(cells)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # the same steps on any machine
    linear = np.zeros(squares.shape[0])
    found = clarabel.DefaultSolver(squares, linear, conditions, values / scale, cones, settings).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise BadInput(
            f"the solver found no table for these sizes ({found.status}): use another seed or fewer clients."
        )
    return np.maximum(np.array(found.x[:cells]).reshape(len(wish.sizes), -1) * scale, 0)


def _program(wish: Wish) -> tuple[Any, Reals, Any]:
    """Conditions and their values, equalities first; and the squares to make small. The unknowns are the table and
    what clients hold above their targets, so that all matrices stay sparse.

    In each feature that excess adds up to 0, so that the first category's follows from the others' and is left out:
    where it is the common one, as absence is among properties, that makes the program many times smaller.
    """
    sparse = _sparse()
    num_clients, num_kinds, num_categories = len(wish.sizes), len(wish.kinds), len(wish.target.T)
    clients, others = sparse.identity(num_clients), np.setdiff1d(np.arange(num_categories), wish.first)
    kind = np.repeat(np.arange(num_kinds), wish.kinds.shape[1])
    entries = (np.ones(wish.kinds.size), (wish.kinds.ravel(), kind))
    marks = sparse.csr_matrix(entries, shape=(num_categories, num_kinds))[others]
    by_client = sparse.kron(clients, np.ones((1, num_kinds)))
    by_kind = sparse.kron(np.ones((1, num_clients)), sparse.identity(num_kinds))
    margins = sparse.vstack([by_client, by_kind]).tocsr()[:-1]  # the last one follows from the others
    cells, excesses = num_clients * num_kinds, num_clients * len(others)
    conditions = sparse.bmat(
        [
            [sparse.kron(clients, marks), -sparse.identity(excesses)],
            [margins, sparse.csr_matrix((margins.shape[0], excesses))],
            [-sparse.identity(cells), sparse.csr_matrix((cells, excesses))],
        ]
    )
    margin_values = np.concatenate([wish.sizes, wish.kind_sizes])[:-1]
    values = np.concatenate([wish.target[:, others].ravel(), margin_values.astype(float), np.zeros(cells)])
    # (x_1 + ... + x_d)^2 is the first category's square.
    sizes: list[int] = (np.diff([*wish.first, num_categories]) - 1).tolist()
    one = sparse.block_diag([np.eye(size) + np.ones((size, size)) for size in sizes if size] or [np.zeros((0, 0))])
    squares = sparse.block_diag([sparse.csc_matrix((cells, cells)), 2 * sparse.kron(clients, one)])
    return conditions.tocsc(), values, squares.tocsc()


def whole(table: Reals, sizes: Ints, kind_sizes: Ints) -> Ints:
    """The nearest table of whole numbers that keeps both margins, every entry rounded up or down, [N, U].

    Which entries to round up is a transport problem whose corners are whole. It has a solution as long as the margins
    of the real table are off by less than one in all, since what cannot be transported is a whole number, too.
    """
    sparse, minimise = _sparse(), _minimise()
    low = np.floor(table + TOLERANCE)
    part = np.where(table - low > TOLERANCE, table - low, 0)
    rows, columns = np.nonzero(part)
    result = low.astype(np.int64)
    if not len(rows):
        return result
    ones, cells = np.ones(len(rows)), np.arange(len(rows))
    by_row = sparse.csr_matrix((ones, (rows, cells)), shape=(len(sizes), len(rows)))
    by_column = sparse.csr_matrix((ones, (columns, cells)), shape=(len(kind_sizes), len(rows)))
    missing = np.concatenate([sizes - low.sum(axis=1), kind_sizes - low.sum(axis=0)])
    # Rounding an entry up instead of down brings it 1 - 2 part further away. The simplex method ends in a corner.
    cost = 1 - 2 * part[rows, columns]
    margins = sparse.vstack([by_row, by_column])
    found = minimise(cost, A_eq=margins, b_eq=missing, bounds=(0, 1), method="highs-ds")
    assert found.status == 0, found.message
    result[rows, columns] += np.rint(found.x).astype(np.int64)
    return result


# What has no types is anything here.


def _solver() -> Any:
    """Clarabel, an interior-point solver for quadratic programs."""
    try:
        return importlib.import_module("clarabel")
    except ImportError:
        raise BadInput("independent needs a solver for quadratic programs: pip install 'noniid[qp]'.") from None


def _sparse() -> Any:
    return importlib.import_module("scipy.sparse")


def _minimise() -> Any:
    return importlib.import_module("scipy.optimize").linprog
