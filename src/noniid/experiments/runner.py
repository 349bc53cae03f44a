"""Runs experiments: only what is missing, resuming what was stopped, recording what failed.

A run's state at a round boundary is all there is. It is written every few seconds and when the run is stopped, so
that a killed process loses seconds, and a resumed run equals the straight one to the bit.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import groupby, islice
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import torch

import noniid
from noniid.algorithms import State
from noniid.engine import Carry, Cell, Engine, Round, Schedule, simulate_each, start_engine
from noniid.experiments.checkpoints import Checkpoints
from noniid.experiments.course import ending, row_of, summary
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from noniid.experiments.privacy import spent
from noniid.experiments.spread import Cells, spreads
from noniid.results.store import ENDED, Run, Store

CHECKPOINT_SECONDS = 10.0
SIDE_BY_SIDE = 8  # runs at most


class Listener(Protocol):
    """Is told what happens; a progress display is one."""

    def started(self, experiment: Experiment, done_rounds: int) -> None: ...
    def noted(self, experiment: Experiment, note: str) -> None: ...
    def round(self, experiment: Experiment, round: Round) -> None: ...
    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None: ...


class Silent:
    """A listener that does nothing."""

    def started(self, experiment: Experiment, done_rounds: int) -> None: ...
    def noted(self, experiment: Experiment, note: str) -> None: ...
    def round(self, experiment: Experiment, round: Round) -> None: ...
    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None: ...


@dataclass(eq=False)
class _UnderWay:
    """A run, and how far it has come."""

    experiment: Experiment
    ready: Ready | None = None
    engine: Engine | None = None
    checkpoints: Checkpoints | None = None
    state: State | None = None
    status: str = "stopped"
    reason: str | None = None
    known: dict[str, Any] = field(default_factory=dict[str, Any])  # of its summary
    began: float = field(default_factory=time.monotonic)  # its last round
    saved: float = field(default_factory=time.monotonic)  # its last checkpoint

    @property
    def cell(self) -> Cell:
        assert self.ready and self.engine and self.state and self.checkpoints
        e, federation = self.experiment, self.ready.federation
        schedule = Schedule(e.rounds, federation.cohort, e.eval_every)
        return Cell(self.engine, e.algorithm, self.state, federation, schedule, self.checkpoints.kept)


@dataclass(eq=False)
class Runner:
    """`run` trains what the store does not hold yet. `stop` may be set from a signal handler."""

    store: Store
    workers: int | None = None
    listener: Listener = field(default_factory=Silent)
    stop: Event = field(default_factory=Event)

    def run(self, experiments: Iterable[Experiment]) -> Iterator[Run]:
        """One finished, diverged or failed run after the other; ends early when stopped."""
        experiments = list(experiments)
        if spreads(experiments, self.store, self.workers):
            cells = Cells(self.store, self.workers, self.listener, self.stop, setting(self.workers, "ray"))
            yield from cells.run(experiments)
            return
        for family in families(experiments):
            if self.stop.is_set():
                return
            known = {each: self.store.find(each.key) for each in dict.fromkeys(family)}
            missing = [each for each, run in known.items() if run is None or run.status not in ENDED]
            trained = self._train(missing)
            for experiment in family:
                run = self.store.find(experiment.key)
                if run is None:  # stopped before its turn
                    return
                self.listener.ended(experiment, run, experiment.key in trained)
                trained.discard(experiment.key)  # given twice, it is one run
                yield run

    def _train(self, experiments: list[Experiment]) -> set[str]:
        """Side by side; the keys of those that are not passed over, for no other process is at them."""
        begun = [
            each
            for each in experiments
            if self.store.begin(each.key, each.record(), setting(self.workers, each.engine))
        ]
        running = [_UnderWay(each) for each in begun]
        try:
            for each in running:
                with self._reasons(each):
                    self._start(each)
            self._simulate([each for each in running if each.state is not None])
        finally:
            for each in running:
                self._end(each)
        return {each.key for each in begun}

    def _start(self, run: _UnderWay) -> None:
        experiment, ready = run.experiment, prepare(run.experiment)
        run.known["clients"] = len(ready.mixes)  # where the split says how many, no experiment does
        engine = run.engine = start_engine(experiment.engine, ready.task, self.workers)
        engine.stop = self.stop
        run.ready = ready._replace(federation=ready.federation._replace(ask=engine.ask))
        run.checkpoints = Checkpoints(self.store, experiment)
        run.state = run.checkpoints.resume(run.ready, engine)
        self.listener.started(experiment, run.state.round)

    def _simulate(self, runs: list[_UnderWay]) -> None:
        """The rounds of all, as they come."""
        left = len(runs)
        for place, item in simulate_each([run.cell for run in runs]):
            run = runs[place]
            with self._reasons(run):
                if not isinstance(item, Round):
                    left -= 1
                    raise item
                self._keep(run, item, left)
                left -= item.round == run.experiment.rounds
        for run in runs:  # resumed after its last round
            if run.state and run.state.round == run.experiment.rounds and run.status != "failed":
                run.status, run.reason = "done", None

    def _keep(self, run: _UnderWay, done: Round, sharers: int) -> None:
        """A round, and now and then a checkpoint; who trains side by side shares the seconds."""
        assert run.ready and run.engine and run.checkpoints
        experiment, now = run.experiment, time.monotonic()
        row = row_of(done, run.ready, now - run.began)
        row |= {name: row[name] / sharers for name in ("train_seconds", "seconds")}
        self.store.add_round(experiment.key, row)
        run.began, run.state = now, done.state
        if now - run.saved > CHECKPOINT_SECONDS or self.stop.is_set():
            run.checkpoints.save(done.state)
            run.saved = now
        self.listener.round(experiment, done)
        if run.engine.note != run.known.get("note", ""):
            run.known["note"] = run.engine.note
            self.listener.noted(experiment, run.engine.note)

    @contextmanager
    def _reasons(self, run: _UnderWay) -> Iterator[None]:
        """What is raised inside is why this run, and no other, is not done."""
        try:
            yield
        except Exception as error:
            run.status, run.reason = ending(error)

    def _end(self, run: _UnderWay) -> None:
        experiment, state = run.experiment, run.state
        with self._reasons(run):
            if run.checkpoints and run.ready and run.engine and state:
                if run.status == "done":
                    carry = Carry.of(run.ready.task, run.engine.layout)
                    run.checkpoints.finish(carry.evaluated(experiment.algorithm.evaluated(state), state), state.round)
                elif run.status == "stopped":  # raised before the round has changed anything
                    run.checkpoints.save(state)
                elif run.status == "diverged":
                    run.checkpoints.drop()
        if run.engine:
            run.engine.close()
        rounds = self.store.rounds(experiment.key)
        run.known |= {**summary(rounds), **spent(experiment, len(rounds))}
        self.store.end(experiment.key, run.status, run.known, run.reason)


def setting(workers: int | None, engine: str) -> dict[str, Any]:
    """What a run's speed depends on, and should nothing else."""
    return {
        "noniid": noniid.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "workers": workers,
        "engine": engine,
    }


def families(experiments: Iterable[Experiment]) -> Iterator[list[Experiment]]:
    """Neighbours that differ in nothing but the seed and their algorithm's numbers train side by side, a few at a
    time, where the engine stacks clients; everyone else trains alone."""

    def family(experiment: Experiment) -> str:
        if experiment.engine != "batched":
            return experiment.key
        algorithm = experiment.algorithm
        numbers = {f.name: 0.0 for f in fields(algorithm) if type(getattr(algorithm, f.name)) is float}
        return repr(replace(experiment, seed=0, algorithm=replace(algorithm, **numbers)))

    for _, alike in groupby(experiments, family):
        while few := list(islice(alike, SIDE_BY_SIDE)):
            yield few


def run(
    experiments: Iterable[Experiment], store: Store | Path | str = "noniid-store", workers: int | None = None
) -> list[Run]:
    """Train what `store` does not hold yet, without a word; all the runs that were asked for."""
    kept = store if isinstance(store, Store) else Store(store)
    return list(Runner(kept, workers).run(experiments))
