"""Label skew by order: samples are sorted by label, and clients take pieces of the row.

N clients, n samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import shuffled
from noniid.split.traits import Ints, Traits


@dataclass(frozen=True)
class Similarity(Placement):
    """A part of all samples, in percent, is divided evenly at random; the rest is sorted by label and cut into N runs.

    rFedAvg's measure of how alike clients are: with 100 they hold equal mixes, with 0 client k holds the k-th run of
    the sorted samples, which is one label or a few. All clients hold equally many; what does not come out even is
    dropped, and counted in `Split.num_dropped`.
    """

    percent: float

    def check(self) -> None:
        if not 0 <= self.percent <= 100:
            raise BadInput(f"similarity is a percentage from 0 (sorted by label) to 100 (iid), not {self.percent:g}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> list[Ints]:
        alike, rest = np.split(shuffled(len(traits), draws), [round(self.percent / 100 * len(traits))])
        rest = _by_label(rest, traits.labels)
        return [np.concatenate(pieces) for pieces in zip(_runs(alike, num_clients), _runs(rest, num_clients))]


@dataclass(frozen=True)
class Shards(Placement):
    """All samples, sorted by label, are cut into N times k equal shards, and every client draws k of them.

    The split of McMahan et al. (2017) for MNIST: 100 clients with two shards of 300 each. A shard may lie across the
    border of two labels, so that a client holds up to 2k of them. What does not come out even is dropped, and
    counted in `Split.num_dropped`.
    """

    k: int = 2

    def check(self) -> None:
        if self.k < 1:
            raise BadInput(f"shards needs at least one shard per client, not {self.k}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> list[Ints]:
        num_shards = self.k * num_clients
        if num_shards > len(traits):
            raise BadInput(
                f"{num_shards:,} shards cannot be cut from {len(traits):,} samples: lower k or use fewer clients."
            )
        shards = _runs(_by_label(shuffled(len(traits), draws), traits.labels), num_shards)
        drawn = draws.permutation(num_shards).reshape(num_clients, self.k)
        return [shards[mine].ravel() for mine in drawn]


def _by_label(row: Ints, labels: np.ndarray) -> Ints:
    """The row sorted by label; samples of a label stay in their order."""
    return row[np.argsort(labels[row], kind="stable")]


def _runs(row: Ints, num_clients: int) -> Ints:
    """N equal runs [N, n // N]; what remains is left out."""
    length = len(row) // num_clients
    return row[: length * num_clients].reshape(num_clients, length)
