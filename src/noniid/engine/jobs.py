"""What is sent to a cluster's workers: some of a wave's clients to train, some items to apply a function to.

Shapes: C clients in the wave, c of them in one message, P values of a model.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Ask, Wave
from noniid.algorithms.base import OPTIM, Tensors
from noniid.engine.hand import Hand, Place, own

Arrays = dict[str, np.ndarray]
_COUNTS = ("ids", "clock", "sizes", "weights", "steps", "staleness")  # a number for each client of the wave


class Trained(NamedTuple):
    """What comes back of some clients."""

    end: np.ndarray  # [c, P]
    loss: np.ndarray  # [c]
    optim: Arrays  # [c, ...] where optimisers keep their state


def shares(weights: Sequence[float], workers: int) -> list[list[int]]:
    """Places of what is to be done, as messages: the heaviest first, the messages getting lighter.

    A message holds half of what a worker would get if all that is left were dealt out evenly, so that the first ones
    share the cost of a message and the last ones fill the gaps; but never less than a sixteenth of a worker's part of
    all, for smaller ones cost more than the gaps.

    >>> shares([1, 9, 1, 1, 1, 1], 2)
    [[1], [0], [2], [3], [4], [5]]
    >>> [len(share) for share in shares([1] * 50, 2)]
    [12, 9, 7, 5, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1]
    >>> [len(share) for share in shares([1] * 500, 2)]
    [125, 93, 70, 53, 39, 30, 22, 17, 15, 15, 15, 6]
    """
    waiting = collections.deque(sorted(range(len(weights)), key=lambda i: -weights[i]))
    left, least, made = float(sum(weights)), sum(weights) / (16 * workers), []
    while waiting:
        goal, share, held = max(left / (2 * workers), least), [], 0.0
        while waiting and (not share or held + weights[waiting[0]] <= goal):
            share.append(waiting.popleft())
            held += weights[share[-1]]
        left -= held
        made.append(share)
    return made


@dataclass
class TrainWave:
    """The clients of one wave. What is equal for all of them goes along once; rows of their own with each message."""

    place: Place
    algorithm: Algorithm
    rest: Wave  # without tensors
    counts: Arrays  # [C]
    shared: Arrays
    equal: Arrays  # [1, ...]: start, memory and carried rows that are one row expanded to all clients

    @classmethod
    def of(cls, place: Place, algorithm: Algorithm, wave: Wave) -> TrainWave:
        nothing = torch.empty(0)
        bare = wave._replace(
            **dict.fromkeys((*_COUNTS, "start", "end", "loss"), nothing),
            shared={}, memory={}, carried={}, ask=cast(Ask, None),
        )  # fmt: skip
        counts = {name: getattr(wave, name).numpy() for name in _COUNTS}
        shared = {name: tensor.numpy() for name, tensor in wave.shared.items()}
        equal = {name: rows[:1].numpy() for name, rows in _rows(wave).items() if _is_equal(rows)}
        return cls(place, algorithm, bare, counts, shared, equal)

    @staticmethod
    def part(wave: Wave, chosen: list[int]) -> tuple[list[int], Arrays]:
        """The message for these clients."""
        index = torch.tensor(chosen)
        return chosen, {name: rows[index].numpy() for name, rows in _rows(wave).items() if not _is_equal(rows)}

    def __call__(self, hand: Hand, part: tuple[list[int], Arrays]) -> Trained:
        trained = hand.engine(self.place).train(self.algorithm, self._wave(*part))
        kept = {name: rows.numpy() for name, rows in trained.carried.items() if name.startswith(OPTIM)}
        return Trained(trained.end.numpy(), trained.loss.numpy(), kept)

    @cached_property
    def _common(self) -> tuple[Tensors, Tensors, Tensors]:
        """As tensors, made once for all messages that a worker gets of this wave."""
        counts, shared, equal = (
            {k: own(v) for k, v in each.items()} for each in (self.counts, self.shared, self.equal)
        )
        return counts, shared, equal

    def _wave(self, chosen: list[int], rows: Arrays) -> Wave:
        counts, shared, equal = self._common
        found = {name: own(array) for name, array in rows.items()}
        found |= {name: row.expand(len(chosen), *row.shape[1:]) for name, row in equal.items()}
        return self.rest._replace(
            **{name: values[torch.tensor(chosen)] for name, values in counts.items()},
            start=found["start"],
            end=found["start"],
            shared=shared,
            memory=_named(found, "memory."),
            carried=_named(found, "carried."),
        )


def _rows(wave: Wave) -> dict[str, Tensor]:
    memory = {f"memory.{name}": rows for name, rows in wave.memory.items()}
    return {"start": wave.start, **memory, **{f"carried.{name}": rows for name, rows in wave.carried.items()}}


def _named(rows: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in rows.items() if name.startswith(prefix)}


def _is_equal(rows: Tensor) -> bool:
    return len(rows) > 1 and rows.stride(0) == 0


@dataclass(frozen=True)
class Apply:
    """A function of a replica and an item."""

    place: Place
    function: Callable[..., Any]

    @staticmethod
    def part(items: Sequence[Any], chosen: list[int]) -> list[Any]:
        """The message for these items."""
        return [packed(items[i]) for i in chosen]

    def __call__(self, hand: Hand, items: list[Any]) -> list[Any]:
        answers = hand.engine(self.place).map(self.function, [unpacked(item) for item in items])
        return [packed(answer) for answer in answers]


class _Packed(NamedTuple):
    """A tensor as an array: of a view only what it shows is sent, and nothing of it twice."""

    array: np.ndarray


def packed(value: Any) -> Any:
    """Tensors, also in tuples, as they are sent.

    >>> unpacked(packed((1, torch.arange(2))))
    (1, tensor([0, 1]))
    """
    if isinstance(value, Tensor):
        return _Packed(value.detach().numpy())
    return tuple(packed(each) for each in value) if isinstance(value, tuple) else value


def unpacked(value: Any) -> Any:
    """What was packed."""
    if isinstance(value, _Packed):
        return own(value.array)
    return tuple(unpacked(each) for each in value) if isinstance(value, tuple) else value
