"""Label skew taken over from a real federation, whose counts of samples by client and class are in a file.

N clients, K classes, R rows of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import deal_out, pools, sort_by_class
from noniid.split.traits import Ints, Traits

ATTEMPTS = 1_000  # each draws N rows anew


@dataclass(frozen=True)
class Replay(Placement):
    """Class k is divided over the clients in the proportions of column k of a file's count matrix, a row for a client.

    As NIID-Bench's code hands the counts of FEMNIST's writers or Criteo's accounts on to other data. The file is .npy
    or .csv, with as many columns as there are classes; each client takes a row of its own, and rows are drawn anew
    until every class of the data has a taker and every client a share.

    checksum   refuse the file unless its SHA-256 begins so: a run is known by this text, which otherwise does not
               change where the file does.
    """

    file: str
    checksum: str | None = None

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        by_class, class_sizes = sort_by_class(traits.labels)
        counts = self._counts(len(class_sizes))
        if num_clients > len(counts):
            raise BadInput(f"{self.file} has {len(counts):,} rows for {num_clients:,} clients: use fewer clients.")
        for _ in range(ATTEMPTS):
            rows = counts[draws.permutation(len(counts))[:num_clients]]
            table = _divided(class_sizes, rows)
            if table is not None:
                break
        else:
            raise BadInput(
                f"in {ATTEMPTS:,} draws of {num_clients:,} rows of {self.file} a class or a client was always left "
                "without samples: use other counts, or another number of clients."
            )
        for pool in pools(by_class, class_sizes):
            draws.shuffle(pool)
        return deal_out(by_class, class_sizes, table)

    def _counts(self, num_classes: int) -> np.ndarray:
        """[R, K]"""
        path = Path(self.file)
        if not path.is_file():
            raise BadInput(f"there is no file {self.file}: replay needs counts by client and class, as .npy or .csv.")
        if self.checksum and not hashlib.sha256(path.read_bytes()).hexdigest().startswith(self.checksum.lower()):
            raise BadInput(f"{self.file} is not the file that was meant: its SHA-256 does not begin {self.checksum}.")
        try:
            counts = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
            counts = counts.astype(float)
        except ValueError as error:
            raise BadInput(f"cannot read {self.file} as numbers, a row for a client: {error}.") from None
        if counts.ndim != 2 or counts.shape[1] != num_classes:
            shape = " x ".join(map(str, counts.shape))
            raise BadInput(f"{self.file} is {shape}: it needs a column for each of the {num_classes} classes.")
        if not (np.isfinite(counts).all() and (counts >= 0).all()):
            raise BadInput(f"{self.file} holds a number that is no count: all must be 0 or more.")
        return counts


def _divided(class_sizes: Ints, rows: np.ndarray) -> Ints | None:
    """Class sizes [K] in the proportions of the rows [N, K]: [K, N]; None where someone is left without."""
    totals = rows.sum(axis=0)
    if ((totals == 0) & (class_sizes > 0)).any():
        return None
    ends = np.cumsum(rows, axis=0) / np.maximum(totals, np.finfo(float).tiny)
    cuts = np.floor(ends * class_sizes + 1e-9).astype(np.int64)  # an end that is whole must not miss by an ulp
    table = np.diff(np.minimum(cuts, class_sizes), axis=0, prepend=0).T
    return None if (table.sum(axis=0) == 0).any() else table
