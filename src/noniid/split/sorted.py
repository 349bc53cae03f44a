"""Label skew by order: samples are sorted by label, and clients take pieces of the row.

N clients, n samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Ints, Placement


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

    def deal(self, labels: np.ndarray, num_clients: int, draws: Draws) -> list[Ints]:
        shuffled = draws.permutation(len(labels)).astype(np.int64, copy=False)
        alike, rest = np.split(shuffled, [round(self.percent / 100 * len(labels))])
        rest = rest[np.argsort(labels[rest], kind="stable")]
        return [np.concatenate(pieces) for pieces in zip(_runs(alike, num_clients), _runs(rest, num_clients))]


def _runs(row: Ints, num_clients: int) -> Ints:
    """N equal runs [N, n // N]; what remains is left out."""
    length = len(row) // num_clients
    return row[: length * num_clients].reshape(num_clients, length)
