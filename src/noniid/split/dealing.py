"""What placements are made of: sorting by class, dealing out by a table, searching within bounds.

N clients, n samples, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.parts import Parts
from noniid.split.traits import Ints

R = TypeVar("R")

REHEARSALS = 10
HOPE = 0.01  # a search that expects fewer successes than this in all its attempts is not begun


def sort_by_class(labels: np.ndarray) -> tuple[Ints, Ints]:
    """All indices, class after class and ascending within each, [n]; and the class sizes, [K]."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadInput(f"class labels are whole numbers in one row, not {labels.dtype} of shape {labels.shape}.")
    if int(labels.min()) < 0:
        raise BadInput(f"class labels count from 0, but there is a {labels.min()}.")
    keys = labels.astype(_smallest(int(labels.max()) + 1), copy=False)
    sizes = np.bincount(keys).astype(np.int64, copy=False)
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False), sizes


def deal_out(by_class: Ints, class_sizes: Ints, table: Ints) -> Parts:
    """Cut each class's run of `by_class` into consecutive pieces of table[k, i] samples for client i.

    table [K, N]. A client's pieces come in class order. What a row leaves over goes to nobody.
    """
    num_clients = table.shape[1]
    nobody = class_sizes - table.sum(axis=1)
    takers = np.arange(num_clients + 1, dtype=_smallest(num_clients + 1))
    owner = np.repeat(np.tile(takers, len(table)), np.column_stack([table, nobody]).ravel())
    by_client = by_class[np.argsort(owner, kind="stable")]
    return Parts(by_client, np.cumsum(table.sum(axis=0)))


def _smallest(num_values: int) -> type[np.uint16] | type[np.int64]:
    # numpy sorts 16-bit numbers by radix, several times faster than wider ones.
    return np.uint16 if num_values <= 1 << 16 else np.int64


def by_cuts(row: Ints, shares: np.ndarray) -> Parts:
    """The row cut at floor(n (q_1 + ... + q_i)) for shares q [N] of it: part i has floor(q_i n) samples or one more."""
    ends = (np.cumsum(shares) * len(row)).astype(np.int64)
    ends[-1] = len(row)
    return Parts(row, ends)


def shuffled(num_samples: int, draws: Draws) -> Ints:
    return draws.permutation(num_samples).astype(np.int64, copy=False)


def pools(by_class: Ints, class_sizes: Ints) -> list[Ints]:
    """The run of each class in `by_class`, as views to shuffle in place."""
    return np.split(by_class, np.cumsum(class_sizes)[:-1])


def search(
    goal: str,
    attempts: int,
    rehearse: Callable[[], int],
    attempt: Callable[[], R | None],
    advice: str = "raise beta",
) -> R:
    """The first of at most `attempts` attempts that is not None.

    `rehearse` is the cheap form of an attempt - sizes only, from a stream of its own - and returns how many
    clients fell short. Sharing out a fixed whole makes clients' sizes negatively associated, so an attempt
    succeeds with probability at most about exp(-mean shortfall); measured, the two agree closely. A search
    without hope is therefore refused before any sample is moved, and whatever the seed.
    """
    advice = f"{advice}, lower min_size or use fewer clients."
    shortfall = 0
    for _ in range(REHEARSALS):
        short = rehearse()
        shortfall += short
        if short == 0:
            break
    else:
        mean = shortfall / REHEARSALS
        if attempts * math.exp(-mean) < HOPE:
            raise BadInput(f"{goal} is out of reach, about {mean:,.0f} fall short at every draw: {advice}")
    for _ in range(attempts):
        found = attempt()
        if found is not None:
            return found
    raise BadInput(f"{goal} did not succeed in {attempts:,} draws: {advice}")


def check_search(what: str, beta: float, min_size: int) -> None:
    check_positive(f"{what}'s beta", beta)
    check_min_size(what, min_size)


def check_positive(what: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise BadInput(f"{what} is a number above 0, not {value:g}.")


def check_min_size(what: str, min_size: int) -> None:
    if min_size < 1:
        raise BadInput(f"{what}'s min_size is at least 1, not {min_size}: an empty client cannot train.")


def check_room(min_size: int, num_clients: int, num_samples: int) -> None:
    if min_size * num_clients > num_samples:
        raise BadInput(
            f"{num_clients:,} clients with at least {min_size:,} samples each need more than the "
            f"{num_samples:,} there are: lower min_size or use fewer clients."
        )
