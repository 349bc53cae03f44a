"""Label skew by mixes: every client has a class mix of its own and draws its samples from it. [Hsu et al. 2019]

N clients, n samples, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import deal_out, pools, sort_by_class
from noniid.split.traits import Ints, Traits

EPS = 1e-5  # what classes that are left gain when another runs out, so that no mix comes to nothing

Mixes = NDArray[np.float64]  # [N, K], or [K] of one client


@dataclass(frozen=True)
class Population(Placement):
    """Every client holds equally many samples, drawn from a class mix of its own, q ~ Dir(alpha p).

    p is the class mix of the data. With alpha = 0 a client's mix is one class, with alpha = inf it is p.

    size         samples per client; none: n // N. What clients do not hold is dropped, and counted in
                 `Split.num_dropped`.
    convention   "total": the Dirichlet's parameters are alpha p and add up to alpha, as the paper has it.
                 "per-class": alpha K p, which for equal classes is alpha for each, as Flower and the loaders of
                 google-research/federated have it: their alpha is K times the paper's.

    Samples are drawn without being put back, client after client. The paper does not say what happens when a class
    runs out; as in the published re-implementations nobody draws from it any more and mixes are scaled up.
    """

    alpha: float
    size: int | None = None
    convention: Literal["total", "per-class"] = "total"

    def check(self) -> None:
        if not self.alpha >= 0:
            raise BadInput(f"population's alpha is a number from 0 up, not {self.alpha:g}.")
        if self.size is not None and self.size < 1:
            raise BadInput(f"population's size is at least 1, or none for equal shares, not {self.size}.")
        if self.convention not in ("total", "per-class"):
            raise BadInput(f"population's convention is total or per-class, not {self.convention!r}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        size = len(traits) // num_clients if self.size is None else self.size
        if size * num_clients > len(traits):
            raise BadInput(
                f"{num_clients:,} clients with {size:,} samples each need more than the {len(traits):,} there are: "
                "lower size or use fewer clients."
            )
        by_class, class_sizes = sort_by_class(traits.labels)
        for pool in pools(by_class, class_sizes):
            draws.shuffle(pool)
        present = np.flatnonzero(class_sizes)
        alpha = self.alpha * (len(present) if self.convention == "per-class" else 1)
        mixes = np.zeros((num_clients, len(class_sizes)))
        mixes[:, present] = draw_mixes(alpha, class_sizes[present] / len(traits), num_clients, draws)
        table = fill(class_sizes, mixes, np.full(num_clients, size), draws)
        return deal_out(by_class, class_sizes, table)


def draw_mixes(alpha: float, prior: np.ndarray, num_clients: int, draws: Draws) -> Mixes:
    """q ~ Dir(alpha p) for each client, [N, K]; its limits for an alpha of 0, or next to it, and of infinity."""
    if math.isinf(alpha):
        return np.tile(prior, (num_clients, 1))
    return np.array([_draw_mix(alpha, prior, draws) for _ in range(num_clients)])


def _draw_mix(alpha: float, prior: np.ndarray, draws: Draws) -> Mixes:
    if alpha * prior.min() > 0:
        q = draws.dirichlet(alpha * prior)
        if q.sum() > 0:
            return q / q.sum()
    one = np.zeros(len(prior))  # where the draw underflows, too
    one[_pick(prior, draws.random(1))[0]] = 1
    return one


def fill(class_sizes: Ints, mixes: Mixes, sizes: Ints, draws: Draws) -> Ints:
    """Who gets how many of each class, [K, N]: client after client draws `sizes` [N] samples from its mix [N, K].

    A draw from a class that has run out is drawn again from the others; which is the same as to scale the mix up at
    that moment, and needs a few rounds of draws in place of one after the other.
    """
    left = class_sizes.copy()
    table = np.zeros((len(class_sizes), len(sizes)), dtype=np.int64)
    for i, wanted in enumerate(sizes.tolist()):
        p = mixes[i]
        while wanted:
            if (left == 0).any():
                p = np.where(left > 0, mixes[i] + EPS, 0)
            drawn = np.bincount(_pick(p, draws.random(wanted)), minlength=len(left))
            got = np.minimum(drawn, left)
            left -= got
            table[:, i] += got
            wanted -= int(got.sum())
    return table


def _pick(p: Mixes, u: Mixes) -> Ints:
    """Indices drawn in proportion to p [K], from uniform draws u; never one where p is 0."""
    ends: Mixes = np.cumsum(p)
    found = np.digitize(u * float(ends[-1]), ends)
    return np.minimum(found, np.flatnonzero(p)[-1])  # a product that rounds up must not pass the last
