"""Equal shares of everything, and quantity skew by a search: clients differ in how much they hold.

N clients, n samples.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import by_cuts, check_min_size, check_room, check_search, search, shuffled
from noniid.split.parts import Parts
from noniid.split.traits import Traits

# An attempt is one cheap draw, and some cells need very many: quantity(0.5) for 100 clients of CIFAR-10
# succeeds about once in 100,000. Both bounds are some seconds of drawing.
MOST_ATTEMPTS = 1_000_000
MOST_DRAWN = 100_000_000


@dataclass(frozen=True)
class Iid(Placement):
    """All samples in random order, cut into N nearly equal parts: the baseline without any skew."""

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        each, more = divmod(len(traits), num_clients)
        sizes = np.where(np.arange(num_clients) < more, each + 1, each)
        return Parts(shuffled(len(traits), draws), np.cumsum(sizes))


class _Drawn(Placement):
    """Shares of all samples, drawn anew until everyone's is large enough."""

    min_size: int

    @abstractmethod
    def shares(self, num_clients: int, draws: Draws) -> np.ndarray:
        """q [N], which sums to 1; or all 0 where the draw failed."""

    @abstractmethod
    def text(self) -> tuple[str, str]:
        """What this is called in an error, and what to change."""

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Parts:
        num_samples = len(traits)
        check_room(self.min_size, num_clients, num_samples)
        rehearsal = np.random.default_rng(0)

        def rehearse() -> int:
            return int((~(self.shares(num_clients, rehearsal) * num_samples >= self.min_size)).sum())

        def attempt() -> np.ndarray | None:
            q = self.shares(num_clients, draws)
            return q if (q * num_samples).min() >= self.min_size else None

        row = shuffled(num_samples, draws)
        name, advice = self.text()
        goal = f"{name} with {self.min_size:,} samples or more for {num_clients:,} clients"
        attempts = min(MOST_ATTEMPTS, MOST_DRAWN // num_clients)
        return by_cuts(row, search(goal, attempts, rehearse, attempt, advice))


@dataclass(frozen=True)
class Quantity(_Drawn):
    """Client i holds the fraction q_i of all samples: q ~ Dir_N(beta), redrawn until every q_i n >= min_size.

    Cut at floor(n (q_1 + ... + q_i)), which leaves everyone at least floor(q_i n).
    """

    beta: float
    min_size: int = 10

    def check(self) -> None:
        check_search("quantity", self.beta, self.min_size)

    def text(self) -> tuple[str, str]:
        return f"quantity({self.beta:g})", "raise beta"

    def shares(self, num_clients: int, draws: Draws) -> np.ndarray:
        q = draws.dirichlet(np.repeat(self.beta, num_clients))
        total = q.sum()
        return q / total if total > 0 else np.zeros(num_clients)  # a tiny beta may underflow: all fall short


@dataclass(frozen=True)
class Lognormal(_Drawn):
    """Client i holds the fraction q_i of all samples: ln q_i ~ N(0, sigma^2), redrawn until every q_i n >= min_size.

    sigma   0 gives all the same; 2 is how FedProx spread MNIST over its devices.
    """

    sigma: float
    min_size: int = 10

    def check(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise BadInput(f"lognormal's sigma is a number from 0 up, not {self.sigma:g}.")
        check_min_size("lognormal", self.min_size)

    def text(self) -> tuple[str, str]:
        return f"lognormal({self.sigma:g})", "lower sigma"

    def shares(self, num_clients: int, draws: Draws) -> np.ndarray:
        u, angle = draws.random((2, num_clients))  # two uniform numbers make a normal one (Box and Muller)
        z = self.sigma * np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * angle)
        q = np.exp(z - z.max())  # the largest is taken off so that no power overflows
        return q / q.sum()
