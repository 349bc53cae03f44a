"""One seed, many independent streams.

Every draw in the package comes from a stream with a name, `stream(seed, "batches", round, client)`, so that a
new draw in one place moves no draw anywhere else, and any order of execution gives the same numbers.
"""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch


class Draws(Protocol):
    """What a partitioner may draw. numpy's Generator is one; `Published` is the other."""

    def permutation(self, x: Any, /) -> np.ndarray: ...
    def shuffle(self, x: Any, /) -> None: ...
    def dirichlet(self, alpha: Any, /) -> np.ndarray: ...
    def integers(self, high: int, /) -> Any: ...
    def random(self, size: Any, /) -> np.ndarray: ...


def _sequence(seed: int, purpose: str, keys: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()), *keys))


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """The stream of this purpose; `keys` are round, client, ... and make it a stream of its own.

    >>> bool(stream(0, "batches", 1, 2).random() == stream(0, "batches", 1, 2).random())
    True
    >>> bool(stream(0, "batches", 1, 2).random() == stream(0, "batches", 2, 1).random())
    False
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, keys)))


def integer(seed: int, purpose: str, *keys: int) -> int:
    """A 63-bit seed for a generator that takes only a number."""
    return int(_sequence(seed, purpose, keys).generate_state(1, np.uint64)[0] >> np.uint64(1))


def torch_stream(seed: int, purpose: str, *keys: int) -> torch.Generator:
    """The same, as a torch generator on the CPU."""
    import torch

    return torch.Generator().manual_seed(integer(seed, purpose, *keys))


class Published:
    """The two legacy streams that NIID-Bench's code draws from: numpy's RandomState and Python's `random`.

    Python's gives labels(k) its labels and FCUBE its points; everything else comes from numpy's. One object stands
    for the global state of a whole published run: the draws of the data division and those of the partition must
    come from the same object, in that order, to equal the published index lists.
    """

    def __init__(self, seed: int):
        self._numpy = np.random.RandomState(seed)
        self._python = random.Random(seed)

    def permutation(self, x: Any, /) -> np.ndarray:
        return self._numpy.permutation(x)

    def shuffle(self, x: Any, /) -> None:
        self._numpy.shuffle(x)

    def dirichlet(self, alpha: Any, /) -> np.ndarray:
        return self._numpy.dirichlet(alpha)

    def integers(self, high: int, /) -> int:
        return self._python.randint(0, high - 1)

    def random(self, size: Any, /) -> np.ndarray:
        """FCUBE's coordinates, one after the other."""
        shape = np.atleast_1d(size)
        return np.array([self._python.random() for _ in range(shape.prod())]).reshape(shape)
