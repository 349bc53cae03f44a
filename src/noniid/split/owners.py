"""Label skew by ownership, where labels have exactly two owners.

N clients, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import check_positive, deal_out, pools, sort_by_class
from noniid.split.traits import Ints, Traits

ATTEMPTS = 1_000  # about every third comes to an end at worst


@dataclass(frozen=True)
class TwoOwners(Placement):
    """As many clients as labels; client i owns label i and one other, and two owners share a label by Dir_2(beta).

    What NIID-Bench's code calls `mixed`; its paper has no such split. The second labels are drawn client after
    client among those with one owner. Where the last client would be left with its own label only, that code never
    ends; here all are drawn anew.
    """

    beta: float

    def check(self) -> None:
        check_positive("two_owners' beta", self.beta)

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        by_class, class_sizes = sort_by_class(traits.labels)
        if num_clients != len(class_sizes) or num_clients < 2:
            raise BadInput(
                f"two_owners gives every label two of as many clients: use {max(len(class_sizes), 2)} clients, "
                f"not {num_clients}."
            )
        second = self._second(num_clients, draws)
        table = np.zeros((num_clients, num_clients), dtype=np.int64)
        for k, pool in enumerate(pools(by_class, class_sizes)):
            draws.shuffle(pool)
            p = draws.dirichlet(np.repeat(self.beta, 2))
            share = p[0] if p.sum() > 0 else 1.0  # a tiny beta may underflow
            first, other = sorted((k, second.index(k)))
            table[k, first] = int(share * class_sizes[k])
            table[k, other] = class_sizes[k] - table[k, first]
        return deal_out(by_class, class_sizes, table)

    def _second(self, num_clients: int, draws: Draws) -> list[int]:
        """Each client's second label, all of them different and none its own."""
        for _ in range(ATTEMPTS):
            second: list[int] = []
            for i in range(num_clients):
                free = set(range(num_clients)) - {i, *second}
                if not free:
                    break
                while (label := int(draws.integers(num_clients))) not in free:
                    pass
                second.append(label)
            else:
                return second
        raise BadInput(f"two_owners found no second labels in {ATTEMPTS:,} draws: use another seed.")
