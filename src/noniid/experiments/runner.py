"""Runs experiments: only what is missing, resuming what was stopped, recording what failed.

A run's state at a round boundary is all there is. It is written every few seconds and when the run is stopped, so
that a killed process loses seconds, and a resumed run equals the straight one to the bit.
"""

from __future__ import annotations

import math
import os
import platform
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

import noniid
from noniid.algorithms import State
from noniid.engine import Carry, Diverged, Engine, Round, Schedule, Stopped, simulate, start_engine
from noniid.errors import BadInput
from noniid.experiments.checkpoints import Checkpoints
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from noniid.experiments.privacy import spent
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
        if not self.store.begin(experiment.key, experiment.record(), self._setting()):
            return False
        status, reason = "stopped", None
        known: dict[str, Any] = {}
        try:
            self._train(experiment, known)
            status = "done"
        except Stopped:
            reason = "stopped by the user; the same command goes on from here"
        except Diverged as error:
            status, reason = "diverged", str(error)
        except BadInput as error:
            status, reason = "failed", str(error)
        except Exception as error:
            status, reason = "failed", f"{type(error).__name__}: {error}"
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
                self.store.add_round(experiment.key, _row(done, ready, now - began))
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

    def _setting(self) -> dict[str, Any]:
        return {
            "noniid": noniid.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "workers": self.workers,
        }


def run(
    experiments: Iterable[Experiment], store: Store | Path | str = "noniid-store", workers: int | None = None
) -> list[Run]:
    """Train what `store` does not hold yet, without a word; all the runs that were asked for."""
    kept = store if isinstance(store, Store) else Store(store)
    return list(Runner(kept, workers).run(experiments))


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rounds come to; accuracy is the final round's, whatever came before."""
    judged = [row for row in rounds if row["accuracy"] is not None]
    samples = sum(row["train_samples"] for row in rounds)
    train_seconds = sum(row["train_seconds"] for row in rounds)
    best = max(judged, key=lambda row: row["accuracy"], default=None)  # the first of equals
    return {
        "rounds": len(rounds),
        "accuracy": judged[-1]["accuracy"] if judged else None,
        "best_accuracy": best["accuracy"] if best else None,
        "best_round": best["round"] if best else None,
        "worst_client_accuracy": judged[-1]["worst_client_accuracy"] if judged else None,
        "worst_decile_accuracy": judged[-1]["worst_decile_accuracy"] if judged else None,
        "bytes_per_client_round": rounds[-1]["bytes_per_client"] if rounds else None,
        "train_samples_per_second": samples / train_seconds if train_seconds else None,
        "seconds": sum(row["seconds"] for row in rounds),
        "peak_memory_mb": _peak_memory_mb(),
    }


def _peak_memory_mb() -> float:
    """Of this process so far; a maximum, so earlier runs in the same process count too."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _row(done: Round, ready: Ready, seconds: float) -> dict[str, Any]:
    worst = _worst_decile(done.evaluation.by_client(ready.mixes)) if done.evaluation else None
    return {
        "round": done.round,
        "accuracy": done.evaluation.accuracy if done.evaluation else None,
        "test_loss": done.evaluation.loss if done.evaluation else None,
        "train_loss": done.train_loss,
        "worst_client_accuracy": None if worst is None else float(worst[0]),
        "worst_decile_accuracy": None if worst is None else float(worst.mean()),
        "train_samples": done.train_samples,
        "train_seconds": done.train_seconds,
        "seconds": seconds,
        "bytes_per_client": done.bytes_per_client,
    }


def _worst_decile(accuracies: Tensor) -> Tensor:
    """The lowest tenth of the clients' accuracies [N], lowest first, without sorting the rest of a large population."""
    last = math.ceil(len(accuracies) / 10) - 1
    return torch.from_numpy(np.sort(np.partition(accuracies.numpy(), last)[: last + 1]))
