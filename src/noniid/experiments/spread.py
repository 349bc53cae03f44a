"""Runs of a table side by side on a Ray cluster: a cell is trained by whoever is free, and recorded here.

A worker trains a cell by itself for a few seconds and gives back its rounds and its state; they are stored, and
the cell goes on from there, wherever. So a lost worker costs seconds, a killed driver goes on from its store, and
nobody but the driver writes to it.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from noniid.algorithms import State
from noniid.engine import Carry, Round, Schedule, Stopped, Threads, begin, cohort_size, simulate
from noniid.engine.connect import cluster
from noniid.engine.hand import Hand, own
from noniid.errors import BadInput
from noniid.experiments.course import ending, peak_memory_mb, row_of, state_of, summary, tensors_of
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from noniid.experiments.privacy import spent
from noniid.results.store import ENDED, Run, Store

if TYPE_CHECKING:
    from noniid.experiments.runner import Listener

SLICE_SECONDS = 10.0


def spreads(experiments: Sequence[Experiment], store: Store, workers: int | None) -> bool:
    """Whether cells or, in one cell after the other, clients go to the workers: whichever keeps more of them busy."""
    if not experiments or any(experiment.engine != "ray" for experiment in experiments):
        return False
    missing = {each.key for each in experiments if not _has_ended(store.find(each.key))}
    if len(missing) < 2:
        return False
    if any(store.memory_folder(key).exists() for key in missing):
        return False  # what their clients remember lies in files here
    workers = workers or cluster().size
    busy = max(min(workers, cohort_size(each.clients or workers, each.participation)) for each in experiments)
    return len(missing) >= busy


def _has_ended(run: Run | None) -> bool:
    return run is not None and run.status in ENDED


# At a worker


class Cell(NamedTuple):
    """A run, from the state it was left in."""

    record: Mapping[str, Any]
    tensors: Mapping[str, Any] | None  # arrays; None at its beginning
    round: int


class Slice(NamedTuple):
    """Some rounds of a cell."""

    rounds: list[tuple[dict[str, Any], Round]]  # each with its row; their states stay where they are
    tensors: Mapping[str, Any] | None  # arrays of the state, or of the final model; None where neither is sound
    round: int
    known: Mapping[str, Any]  # what else the summary tells
    ended: tuple[str, str | None] | None  # status and reason; None if there is more to do


@dataclass(frozen=True)
class Advance:
    """Train a cell for so many seconds, or to its end."""

    seconds: float

    def __call__(self, hand: Hand, cell: Cell | None) -> Slice | None:
        return None if cell is None else _Course(hand.stopping, cell).run(self.seconds)


class _Course:
    """A cell while a worker trains it."""

    def __init__(self, stop: Event, cell: Cell):
        self._stop, self._cell = stop, cell
        self._rounds: list[tuple[dict[str, Any], Round]] = []
        self._known: dict[str, Any] = {}
        self._tensors: Mapping[str, Any] | None = None
        self._round = cell.round

    def run(self, seconds: float) -> Slice:
        ended: tuple[str, str | None] | None = None
        try:
            if self._train(time.monotonic() + seconds):
                ended = "done", None
        except Exception as error:
            ended = ending(error)
        self._known["peak_memory_mb"] = peak_memory_mb()
        return Slice(self._rounds, self._tensors, self._round, self._known, ended)

    def _train(self, until: float) -> bool:
        """Whether the run has come to its end."""
        experiment, ready, engine = _prepared(json.dumps(dict(self._cell.record)))
        engine.stop = self._stop
        self._known["clients"] = len(ready.mixes)
        carry = Carry.of(ready.task, engine.layout)
        state = self._begun(experiment, ready, carry)
        schedule, began = Schedule(experiment.rounds, ready.federation.cohort, experiment.eval_every), time.monotonic()
        try:
            for done in simulate(engine, experiment.algorithm, state, ready.federation, schedule):
                now, state = time.monotonic(), done.state
                self._rounds.append((row_of(done, ready, now - began), replace(done, state=State(torch.empty(0)))))
                began = now
                if now > until and state.round < experiment.rounds:
                    self._keep(tensors_of(state), state.round)
                    return False
        except Stopped:  # raised before the round has changed anything
            self._keep(tensors_of(state), state.round)
            raise
        self._keep({"w": carry.evaluated(experiment.algorithm.evaluated(state), state)}, state.round)
        return True

    def _begun(self, experiment: Experiment, ready: Ready, carry: Carry) -> State:
        if self._cell.tensors is None:
            return begin(experiment.algorithm, ready.w, ready.federation, carry)
        return state_of({name: own(array) for name, array in self._cell.tensors.items()}, self._cell.round)

    def _keep(self, tensors: Mapping[str, Tensor], round: int) -> None:
        self._tensors, self._round = {name: tensor.numpy() for name, tensor in tensors.items()}, round


@functools.lru_cache(maxsize=1)
def _prepared(record: str) -> tuple[Experiment, Ready, Threads]:
    """The cell under way stays prepared from slice to slice."""
    experiment = Experiment.from_record(json.loads(record))
    ready = prepare(experiment)
    engine = Threads(ready.task, 1)
    return experiment, ready._replace(federation=ready.federation._replace(ask=engine.ask)), engine


# At the driver


class Cells:
    """Trains what the store does not hold yet, as `Runner` does, which is where its arguments come from."""

    def __init__(
        self, store: Store, workers: int | None, listener: Listener, stop: Event, setting: Mapping[str, Any]
    ):  # fmt: skip
        self._store, self._workers, self._listener = store, workers, listener
        self._stop, self._setting = stop, setting
        self._under_way: dict[str, Experiment] = {}
        self._ended: set[str] = set()  # here, now

    def run(self, experiments: Sequence[Experiment]) -> Iterator[Run]:
        """Finished runs in the order of the experiments, whatever the order they end in."""
        asked = list(dict.fromkeys(experiments))
        settled = {each.key for each in asked if _has_ended(self._store.find(each.key))}
        waiting, told = [[i] for i, each in enumerate(asked) if each.key not in settled], 0
        for key in self._train(asked, waiting):
            settled.add(key)
            while told < len(asked) and asked[told].key in settled:
                yield self._told(asked[told])
                told += 1
        for each in asked[told:]:  # stopped: those that were begun, or done before
            if each.key in settled:
                yield self._told(each)

    def _told(self, experiment: Experiment) -> Run:
        run = self._store.find(experiment.key)
        assert run is not None
        if experiment.key not in self._ended:
            self._listener.ended(experiment, run, False)
        return run

    def _train(self, asked: Sequence[Experiment], waiting: list[list[int]]) -> Iterator[str]:
        """The key of each run that is settled, as it comes."""
        workers = cluster(self._workers)
        slices = workers.work(
            Advance(SLICE_SECONDS), waiting, lambda message: self._cell(asked[message[0]]),
            self._workers or workers.size, self._stop, ahead=1,
        )  # fmt: skip
        try:
            for message, found in slices:
                experiment = asked[message[0]]
                if isinstance(found, BadInput):
                    found = Slice([], None, 0, {}, ("failed", str(found)))
                if found is not None:
                    self._record(experiment, found)
                if found is not None and found.ended is None and not self._stop.is_set():
                    waiting.insert(0, message)  # the worker that has it prepared is free
                elif found is None or found.ended:
                    yield experiment.key
        except Stopped:
            pass
        finally:
            for experiment in list(self._under_way.values()):
                self._end(experiment, *ending(Stopped()), {})
        yield from self._ended

    def _cell(self, experiment: Experiment) -> Cell | None:
        """What a worker goes on from; None where another process is at it, or nothing can be gone on from."""
        key, fresh = experiment.key, False
        if key not in self._under_way:
            if not self._store.begin(key, experiment.record(), self._setting):
                return None
            self._under_way[key] = experiment
            fresh = True
        try:
            saved = self._store.load(key)
        except BadInput as error:
            self._end(experiment, *ending(error), {})
            return None
        tensors, round = saved or (None, 0)
        if fresh:
            self._store.forget_after(key, round)
            self._listener.started(experiment, round)
        arrays = None if tensors is None else {name: tensor.numpy() for name, tensor in tensors.items()}
        return Cell(experiment.record(), arrays, round)

    def _record(self, experiment: Experiment, found: Slice) -> None:
        for row, done in found.rounds:
            self._store.add_round(experiment.key, row)
            self._listener.round(experiment, done)
        if found.tensors is not None:
            self._store.save(experiment.key, {name: own(array) for name, array in found.tensors.items()}, found.round)
        if found.ended:
            self._end(experiment, *found.ended, found.known)

    def _end(self, experiment: Experiment, status: str, reason: str | None, known: Mapping[str, Any]) -> None:
        rounds = self._store.rounds(experiment.key)
        told = {**summary(rounds), **known, **spent(experiment, len(rounds))}
        self._store.end(experiment.key, status, told, reason)
        del self._under_way[experiment.key]
        self._ended.add(experiment.key)
        run = self._store.find(experiment.key)
        assert run is not None
        self._listener.ended(experiment, run, True)
