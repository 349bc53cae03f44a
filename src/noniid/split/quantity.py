"""Equal shares of everything, and quantity skew: clients differ in how much they hold.

N clients, n samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noniid.seeds import Draws
from noniid.split.base import Ints, Placement, check_room, check_search, search

# An attempt is one cheap draw, and some cells need very many: quantity(0.5) for 100 clients of CIFAR-10
# succeeds about once in 100,000. Both bounds are some seconds of drawing.
MOST_ATTEMPTS = 1_000_000
MOST_DRAWN = 100_000_000


@dataclass(frozen=True)
class Iid(Placement):
    """All samples in random order, cut into N nearly equal parts: the baseline without any skew."""

    def deal(self, labels: np.ndarray, num_clients: int, draws: Draws) -> list[Ints]:
        return np.array_split(_shuffled(len(labels), draws), num_clients)


@dataclass(frozen=True)
class Quantity(Placement):
    """Client i holds the fraction q_i of all samples: q ~ Dir_N(beta), redrawn until every q_i n >= min_size.

    Cut at floor(n (q_1 + ... + q_i)), which leaves everyone at least floor(q_i n).
    """

    beta: float
    min_size: int = 10

    def check(self) -> None:
        check_search("quantity", self.beta, self.min_size)

    def deal(self, labels: np.ndarray, num_clients: int, draws: Draws) -> list[Ints]:
        num_samples = len(labels)
        check_room(self.min_size, num_clients, num_samples)
        rehearsal = np.random.default_rng(0)

        def rehearse() -> int:
            return int((~(self._shares(num_clients, rehearsal) * num_samples >= self.min_size)).sum())

        def attempt() -> np.ndarray | None:
            q = self._shares(num_clients, draws)
            return q if (q * num_samples).min() >= self.min_size else None

        shuffled = _shuffled(num_samples, draws)
        goal = f"quantity({self.beta:g}) with {self.min_size:,} samples or more for {num_clients:,} clients"
        attempts = min(MOST_ATTEMPTS, MOST_DRAWN // num_clients)
        q = search(goal, attempts, rehearse, attempt)
        return np.split(shuffled, (np.cumsum(q) * num_samples).astype(np.int64)[:-1])

    def _shares(self, num_clients: int, draws: Draws) -> np.ndarray:
        q = draws.dirichlet(np.repeat(self.beta, num_clients))
        total = q.sum()
        return q / total if total > 0 else np.zeros(num_clients)  # a tiny beta may underflow: all fall short


def _shuffled(num_samples: int, draws: Draws) -> Ints:
    return draws.permutation(num_samples).astype(np.int64, copy=False)
