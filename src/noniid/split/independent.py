"""Label and feature skew whose parts are drawn independently: sizes, class mixes, feature mixes. [RADFed]

N clients, n samples, K classes, U kinds of samples, F features (the class is one), M categories of all features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.categories import categories, kinds_of
from noniid.split.dealing import check_positive, deal_out, pools, sort_by_class
from noniid.split.population import draw_mixes
from noniid.split.program import Wish, solve, whole
from noniid.split.traits import Ints, Traits
from noniid.split.wander import Moves, wander

SIZE_DRAWS = 1_000  # each of all sizes
LEAST_WANTED = 0.5  # of a sample, before rounding


@dataclass(frozen=True)
class Independent(Placement):
    """Sizes ~ Dir(mu) and class mixes ~ Dir(lam) are drawn by themselves, and the nearest split to both is solved for.

    A quadratic program finds the table nearest to what was drawn among those that hand out every sample; a random
    walk away from it and a search for a low loss on the way back make it one of many such tables; its rounding keeps
    every client's size and hands out every sample.

    features   categorical features that get mixes ~ Dir(theta), too: "none"; "binary", all that have two values;
               or columns, as "sex, race".
    moves      of the walk: "share" moves up to xi times what there is to move, until the loss has risen by a tenth,
               as the published code did. "capped" moves up to xi of a sample, as the paper has it, which changes
               next to nothing at its sizes. "none" takes the nearest table as it is.
    """

    lam: float = 0.1
    mu: float = 1.0
    features: str = "none"
    theta: float = 0.1
    moves: Literal["share", "capped", "none"] = "share"
    xi: float = 0.002

    def check(self) -> None:
        for name in ("lam", "mu", "theta"):
            check_positive(f"independent's {name}", getattr(self, name))
        if self.moves not in ("share", "capped", "none"):
            raise BadInput(f"independent's moves is share, capped or none, not {self.moves!r}.")
        if not 0 < self.xi < math.inf or (self.moves == "share" and self.xi > 1):
            raise BadInput(f"independent's xi is a number above 0, and with moves=share up to 1, not {self.xi:g}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        features = [traits.labels, *categories(traits, self.features)]
        kind_of, kinds, starts = kinds_of(features)
        by_kind, kind_sizes = sort_by_class(kind_of)
        sizes = self._sizes(num_clients, len(traits), draws)
        # The mixes of all features side by side: as many columns as `kinds` numbers through.
        spreads = [self.lam] + [self.theta] * (len(features) - 1)
        counts: list[int] = np.diff(starts).tolist()
        mixes = [
            draw_mixes(spread * count, np.ones(count) / count, num_clients, draws)
            for spread, count in zip(spreads, counts)
        ]
        wish = Wish(kinds, starts[:-1], sizes, kind_sizes, np.concatenate(mixes, axis=1) * sizes[:, None])
        table = solve(wish)
        if self.moves != "none":
            table = wander(table, wish, Moves(self.moves, self.xi), draws)
        for pool in pools(by_kind, kind_sizes):
            draws.shuffle(pool)
        held = deal_out(by_kind, kind_sizes, whole(table, sizes, kind_sizes).T)
        for part in held:
            draws.shuffle(part)
        return held

    def _sizes(self, num_clients: int, num_samples: int, draws: Draws) -> Ints:
        """Rounded shares of all samples, nobody without; what rounding adds or loses falls on clients at random."""
        for _ in range(SIZE_DRAWS):
            wanted = draws.dirichlet(np.repeat(self.mu, num_clients)) * num_samples
            if not wanted.min() >= LEAST_WANTED:
                continue
            sizes = np.rint(wanted).astype(np.int64)
            rest = num_samples - int(sizes.sum())
            for _ in range(abs(rest)):
                sizes[int(draws.integers(num_clients))] += np.sign(rest)
            if sizes.min() > 0:
                return sizes
        raise BadInput(
            f"independent with mu={self.mu:g} left one of {num_clients:,} clients empty in {SIZE_DRAWS:,} draws: "
            "raise mu or use fewer clients."
        )
