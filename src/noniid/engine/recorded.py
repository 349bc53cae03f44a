"""Steps on a GPU, recorded once as CUDA graphs and replayed: a small model's step is a hundred launches, or one.

A recording has rows of its own, as many as it was made for. Clients' rows are copied in, stepped, and copied out as
soon as a client is through; when few are left, they go on in a recording for fewer. What cannot be recorded is
stepped operation by operation, to the same numbers. A new learning rate is a number in a place that is known.

Shapes: C clients, P values of a model, B batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from noniid.algorithms import Algorithm
from noniid.data import Samples
from noniid.engine.bundle import Bundle
from noniid.engine.programs import pads, program_for
from noniid.engine.recording import Kind, Recording, Rows
from noniid.engine.replica import Replica, Stopped
from noniid.engine.steps import Visit, planned, steps, weights_of
from noniid.engine.task import Task

SHRINK = 0.75  # a recording for fewer clients is worth its copies from here on
WORTH = 16  # steps that one is made for at least; what was recorded before must not matter, for bits would


class Ready(NamedTuple):
    """A step's inputs, on the device: samples' numbers [C, B] and weights, or x, y and weights."""

    lengths: list[int]
    inputs: tuple[Tensor, ...]


class Recorder:
    """One engine's recordings, made when first needed and kept."""

    def __init__(self, task: Task, replica: Replica, samples: Samples):
        self.task, self.replica, self._samples = task, replica, samples
        self._gathers = task.plain and isinstance(samples.x, Tensor)
        self._pool = torch.cuda.graph_pool_handle()
        self._kept: dict[Kind, Recording] = {}
        self.failures: dict[str, str] = {}  # by algorithm: why its steps cannot be recorded

    def close(self) -> None:
        """Give the memory back."""
        self._kept.clear()

    def can(self, algorithm: Algorithm) -> bool:
        return repr(algorithm) not in self.failures

    def train(
        self, algorithm: Algorithm, bundle: Bundle, visits: list[Visit], stopped: Callable[[], bool]
    ) -> Tensor | None:
        """All steps of these visits; the mean loss of each. None, and nothing done, if they cannot be recorded."""
        try:
            session = _Session(self, algorithm, bundle, visits)
        except Exception as error:  # whatever a user's hook does that a graph cannot hold
            self.failures[repr(algorithm)] = str(error).partition("\n")[0]
            return None
        total = session.run(stopped)
        return total / torch.tensor([visit.steps for visit in visits], device=total.device)

    def ready(self, visits: list[Visit]) -> Iterator[Ready]:
        """The steps of these visits, laid out ahead without ever waiting for the device."""
        if not self._gathers:
            for step in steps(self.task, self._samples, visits):
                yield Ready(step.lengths, (step.x, step.y, step.weights))
            return
        for plan in planned(self.task, visits):
            index, weights = (_sent(each, self.task.device) for each in (plan.index, plan.lengths))
            weights = weights_of(weights, index.shape[2])
            for k, known in enumerate(plan.lengths.tolist()):
                active = len(known) - known.count(0)
                yield Ready(known[:active], (index[k, :active], weights[k, :active]))

    def gather(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """x [C, B, ...] and y [C, B]."""
        if not self._gathers:
            return inputs[0], inputs[1]
        (index,) = inputs
        return self._samples.batch(index.flatten()).view(*index.shape, *self._samples.x.shape[1:]), self._samples.y[
            index
        ]

    def recording(
        self, algorithm: Algorithm, like: Bundle, count: int, length: int, inputs: Sequence[Tensor]
    ) -> Recording:
        """The one for so many clients and so long batches."""
        named = {**like.local.memory, **like.state, **{f"shared {k}": v[None] for k, v in like.local.shared.items()}}
        kind = Kind(
            repr(algorithm), repr(replace(like.local.optim, lr=0.0)), count, length,
            tuple(tuple(each.shape[2:]) for each in inputs),
            tuple(sorted((name, tuple(rows.shape[1:])) for name, rows in named.items())),
        )  # fmt: skip
        if kind not in self._kept:
            made = Recording(like, kind, inputs, self.gather)
            made.record(algorithm, program_for(self.replica, algorithm), self._pool)
            self._kept[kind] = made
        return self._kept[kind]


class _Session:
    """One bundle's steps through recordings."""

    def __init__(self, recorder: Recorder, algorithm: Algorithm, bundle: Bundle, visits: list[Visit]):
        self._recorder, self._algorithm, self._bundle = recorder, algorithm, bundle
        self._batch = recorder.task.work.batch_size
        recorder.replica.model.train()
        self._ready = recorder.ready(visits)
        first = next(self._ready)
        self._ready = itertools.chain([first], self._ready)
        self._like = first.inputs
        x, _ = recorder.gather(*(each[:1] for each in first.inputs[:-1]))
        self._pads = pads(recorder.replica, algorithm, x[0])
        self._begun: dict[int, Recording] = {}
        self._counts = _ladder([visit.steps for visit in visits])
        for count in set(self._counts.values()):
            self._recording(count, self._batch)

    def _recording(self, count: int, length: int) -> Recording:
        found = self._recorder.recording(self._algorithm, self._bundle, count, length, self._like)
        if id(found) not in self._begun:
            found.begin(self._bundle)
            self._begun[id(found)] = found
        return found

    def run(self, stopped: Callable[[], bool]) -> Tensor:
        """Steps the bundle's rows in place; the sum of each one's losses."""
        clients = len(self._bundle.w)
        done = Rows(self._bundle, torch.zeros(clients, device=self._bundle.w.device))
        at, live, count = done, clients, 0
        for k, (lengths, inputs) in enumerate(self._ready):
            if stopped():
                raise Stopped
            active = len(lengths)
            if active < live:
                done.copy_(slice(active, live), at, slice(active, live))
                live = active
            if k in self._counts:
                recording = self._recording(count := self._counts[k], self._batch)
                recording.rows.copy_(slice(live), at, slice(live))
                at = recording.rows
            self._step(self._recording(count, self._batch), lengths, inputs)
        done.copy_(slice(live), at, slice(live))
        return done.loss

    def _step(self, recording: Recording, lengths: list[int], inputs: tuple[Tensor, ...]) -> None:
        """One step of all; those with short batches take theirs aside, where a loss may look at the whole batch."""
        if self._pads:
            recording(inputs)
            return
        groups: dict[int, list[int]] = {}
        for c, n in enumerate(lengths):
            if n < self._batch:
                groups.setdefault(n, []).append(c)
        aside = [self._aside(recording, n, places, inputs) for n, places in groups.items()]
        if len(lengths) > sum(map(len, groups.values())):
            recording(inputs)
        for where, rows, number in aside:
            recording.rows.copy_(where, rows, slice(number))

    def _aside(
        self, recording: Recording, n: int, places: list[int], inputs: tuple[Tensor, ...]
    ) -> tuple[Any, Rows, int]:
        where = slice(places[0], places[0] + 1) if len(places) == 1 else _sent(torch.tensor(places), inputs[0].device)
        short = self._recording(_rung(len(places)), n)
        short.rows.copy_(slice(len(places)), recording.rows, where)
        *given, weights = (each[where, :n] for each in inputs)
        short((*given, weights))
        return where, short.rows, len(places)


def _sent(tensor: Tensor, device: Any) -> Tensor:
    """On the device, without waiting for what it is still doing."""
    return tensor.pin_memory().to(device, non_blocking=True)


def _rung(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: few sizes to record, none much larger than asked for."""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def _ladder(steps_of: Sequence[int]) -> dict[int, int]:
    """From which step on, for how many clients: all at first, fewer when enough of them are through."""
    last, count = steps_of[0], len(steps_of)
    counts = {0: count}
    for k in sorted(set(steps_of)):
        active = sum(steps > k for steps in steps_of)
        if active > 0 and _rung(active) <= SHRINK * count and last - k >= WORTH:
            count = _rung(active)
            counts[k] = count
    return counts
