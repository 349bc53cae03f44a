"""Label skew: clients differ in which classes they hold. [NIID-Bench, section IV-A]

N clients, n samples, K classes (the largest label plus one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from noniid.errors import BadInput
from noniid.seeds import Draws, Published
from noniid.split.base import Placement
from noniid.split.dealing import check_room, check_search, deal_out, pools, search, sort_by_class
from noniid.split.parts import Parts
from noniid.split.traits import Ints, Traits

ATTEMPTS = 2_000  # each shuffles all samples: seconds in the worst case for 60,000 of them


@dataclass(frozen=True)
class Labels(Placement):
    """Every client holds k labels, and a label's samples are divided equally among its owners (#C=k).

    first   "by-index": client i's first label is i mod K, the others are random. The paper does not say so,
            but its code does it, and with reason: as soon as N >= K no label is left without an owner.
            "random": all k labels are random, as the paper's text reads.

    The samples of a label that nobody owns are dropped, and counted in `Split.num_dropped`. With k = K
    nothing is random but the order: every label is divided over all clients. On two-class tables the
    published code ran k = 1 whatever was asked for; here that is written as labels(1).
    """

    k: int
    first: Literal["by-index", "random"] = "by-index"

    def check(self) -> None:
        if self.k < 1:
            raise BadInput(f"labels needs at least one label per client, not {self.k}.")
        if self.first not in ("by-index", "random"):
            raise BadInput(f"labels' first is by-index or random, not {self.first!r}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        by_class, class_sizes = sort_by_class(traits.labels)
        owns = self._owners(num_clients, len(class_sizes), draws)
        for pool in pools(by_class, class_sizes):
            draws.shuffle(pool)
        # Each owner gets an equal part, and the first owners one more where it does not come out even.
        num_owners = np.maximum(owns.sum(axis=1, keepdims=True), 1)
        sizes = class_sizes[:, None]
        rank = owns.cumsum(axis=1) - 1
        table = np.where(owns, sizes // num_owners + (rank < sizes % num_owners), 0)
        return deal_out(by_class, class_sizes, table)

    def _owners(self, num_clients: int, num_classes: int, draws: Draws) -> NDArray[np.bool_]:
        """Does client i own label l? [K, N]"""
        if self.k > num_classes:
            raise BadInput(f"labels({self.k}) asks for more labels than the {num_classes} there are: lower k.")
        owns = np.zeros((num_classes, num_clients), dtype=np.bool_)
        if self.k == num_classes:
            return ~owns
        for i in range(num_clients):
            mine = {i % num_classes} if self.first == "by-index" else set[int]()
            while len(mine) < self.k:  # a label drawn twice changes nothing, so it is drawn again
                mine.add(int(draws.integers(num_classes)))
            owns[list(mine), i] = True
        return owns


@dataclass(frozen=True)
class Dirichlet(Placement):
    """Class k is divided over the clients in proportions p_k ~ Dir_N(beta).

    min_size   all is redrawn until every client holds at least this many. Like `cap`, a rule of the published
               code that the paper leaves out.
    cap        a client that already holds its fair share n/N gets nothing of the classes that follow.
    seed       draw from legacy streams of this seed instead of the run's. The published code re-seeded itself
               with 2020 here, so its three trials shared one partition: dirichlet(0.5, seed=2020).
    """

    beta: float
    min_size: int = 10
    cap: bool = True
    seed: int | None = None

    def check(self) -> None:
        check_search("dirichlet", self.beta, self.min_size)
        if self.seed is not None and not 0 <= self.seed < 1 << 32:
            raise BadInput(f"dirichlet's seed is a whole number from 0 to 2^32 - 1, not {self.seed}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        check_room(self.min_size, num_clients, len(traits))
        if self.seed is not None:
            draws = Published(self.seed)
        ascending, class_sizes = sort_by_class(traits.labels)
        by_class = np.empty_like(ascending)
        runs = pools(by_class, class_sizes)
        rehearsal = np.random.default_rng(0)

        def rehearse() -> int:
            table = self._table(class_sizes, num_clients, rehearsal, lambda k: None)
            return num_clients if table is None else self._num_short(table)

        def attempt() -> Ints | None:
            by_class[:] = ascending
            table = self._table(class_sizes, num_clients, draws, lambda k: draws.shuffle(runs[k]))
            return None if table is None or self._num_short(table) else table

        goal = f"dirichlet({self.beta:g}) with {self.min_size:,} samples or more for {num_clients:,} clients"
        held = deal_out(by_class, class_sizes, search(goal, ATTEMPTS, rehearse, attempt))
        for part in held:
            draws.shuffle(part)
        return held

    def _num_short(self, table: Ints) -> int:
        return int((table.sum(axis=0) < self.min_size).sum())

    def _table(self, class_sizes: Ints, num_clients: int, draws: Draws, shuffle: Callable[[int], None]) -> Ints | None:
        """One draw of who gets how many of each class, [K, N]; None if a class finds no taker."""
        table = np.zeros((len(class_sizes), num_clients), dtype=np.int64)
        held = np.zeros(num_clients, dtype=np.int64)
        fair = class_sizes.sum() / num_clients
        for k, size in enumerate(class_sizes):
            shuffle(k)
            p = draws.dirichlet(np.repeat(self.beta, num_clients))
            if self.cap:
                p = p * (held < fair)
            total = p.sum()
            if not total > 0:  # with a tiny beta all that is left may underflow to 0, or the draw to 0/0
                return None
            cuts = (np.cumsum(p / total) * size).astype(np.int64)[:-1]
            table[k] = np.diff(np.minimum(cuts, size), prepend=0, append=size)
            held += table[k]
        return table
