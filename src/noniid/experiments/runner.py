"""Runs experiments: only what is missing, resuming what was stopped, recording what failed.

A run's state at a round boundary is all there is. It is written every few seconds and when the run is stopped, so
that a killed process loses seconds, and a resumed run equals the straight one to the bit.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import torch

import noniid
from noniid.algorithms import State
from noniid.engine import Carry, Diverged, Engine, Round, Schedule, Stopped, simulate, start_engine
from noniid.experiments.checkpoints import Checkpoints
from noniid.experiments.course import ending, row_of, summary
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from noniid.experiments.privacy import spent
from noniid.experiments.spread import Cells, spreads
from noniid.results.store import ENDED, Run, Store

CHECKPOINT_SECONDS = 10.0


class Listener(Protocol):
    """Is told what happens; a progress display is one."""

    def started(self, experiment: Experiment, done_rounds: int) -> None: ...
    def round(self, experiment: Experiment, round: Round) -> None: ...
    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None: ...


class Silent:
    """A listener that does nothing."""

    def started(self, experiment: Experiment, done_rounds: int) -> None: ...
    def round(self, experiment: Experiment, round: Round) -> None: ...
    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None: ...


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
            yield from Cells(self.store, self.workers, self.listener, self.stop, setting(self.workers, "ray")).run(
                experiments
            )
            return
        for experiment in experiments:
            if self.stop.is_set():
                return
            known = self.store.find(experiment.key)
            fresh = known is None or known.status not in ENDED
            if fresh:
                fresh = self._run_one(experiment)
            run = self.store.find(experiment.key)
            assert run is not None
            self.listener.ended(experiment, run, fresh)
            yield run

    def _run_one(self, experiment: Experiment) -> bool:
        """False where another process is at it: the run is passed over, and the others go on."""
        if not self.store.begin(experiment.key, experiment.record(), setting(self.workers, experiment.engine)):
            return False
        status, reason = "stopped", None
        known: dict[str, Any] = {}
        try:
            self._train(experiment, known)
            status = "done"
        except Exception as error:
            status, reason = ending(error)
        finally:
            rounds = self.store.rounds(experiment.key)
            known |= {**summary(rounds), **spent(experiment, len(rounds))}
            self.store.end(experiment.key, status, known, reason)
        return True

    def _train(self, experiment: Experiment, known: dict[str, Any]) -> None:
        ready = prepare(experiment)
        known["clients"] = len(ready.mixes)  # where the split says how many, no experiment does
        engine = start_engine(experiment.engine, ready.task, self.workers)
        engine.stop = self.stop
        ready = ready._replace(federation=ready.federation._replace(ask=engine.ask))
        checkpoints = Checkpoints(self.store, experiment)
        try:
            state = checkpoints.resume(ready, engine)
            self.listener.started(experiment, state.round)
            self._rounds(checkpoints, ready, engine, state, experiment)
        finally:
            engine.close()

    def _rounds(
        self, checkpoints: Checkpoints, ready: Ready, engine: Engine, state: State, experiment: Experiment
    ) -> None:
        schedule = Schedule(experiment.rounds, ready.federation.cohort, experiment.eval_every)
        began = saved = time.monotonic()
        try:
            for done in simulate(engine, experiment.algorithm, state, ready.federation, schedule, checkpoints.kept):
                state, now = done.state, time.monotonic()
                self.store.add_round(experiment.key, row_of(done, ready, now - began))
                began = now
                if now - saved > CHECKPOINT_SECONDS or self.stop.is_set():
                    checkpoints.save(state)
                    saved = now
                self.listener.round(experiment, done)
        except Stopped:  # raised before the round has changed anything
            checkpoints.save(state)
            raise
        except Diverged:
            checkpoints.drop()
            raise
        final = Carry.of(ready.task, engine.layout).evaluated(experiment.algorithm.evaluated(state), state)
        checkpoints.finish(final, state.round)


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


def run(
    experiments: Iterable[Experiment], store: Store | Path | str = "noniid-store", workers: int | None = None
) -> list[Run]:
    """Train what `store` does not hold yet, without a word; all the runs that were asked for."""
    kept = store if isinstance(store, Store) else Store(store)
    return list(Runner(kept, workers).run(experiments))
