"""What is seen while runs train."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noniid.algorithms import ALGORITHMS
from noniid.engine import Round
from noniid.experiments.experiment import Experiment
from noniid.results.store import Run
from noniid.screens.words import clock

if TYPE_CHECKING:
    from rich.console import Console

QUIET_SECONDS = 10.0  # between lines where there is no terminal to redraw


class Progress:
    """A listener: a bar for the run under way and the time left for all; plain lines without a terminal."""

    def __init__(self, console: Console, experiments: Sequence[Experiment]):
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        self._console = console
        self._left = {e.key: e.rounds for e in experiments}
        self._told: set[str | None] = set()
        self._trained, self._seconds = 0, 0.0
        self._spoke = self._began = time.monotonic()
        text = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
        self._bars = Bars(text[0], BarColumn(20), MofNCompleteColumn(), text[1],
                          console=console, transient=True, disable=not console.is_terminal)  # fmt: skip
        self._bar = self._bars.add_task("", total=None, text="")

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def started(self, experiment: Experiment, done_rounds: int) -> None:
        self._left[experiment.key] = experiment.rounds - done_rounds
        self._began = time.monotonic()
        name = _name(experiment)
        self._bars.reset(self._bar, total=experiment.rounds, completed=done_rounds, description=name, text="")
        if done_rounds:
            self._console.print(f"{name}: goes on after round {done_rounds}", highlight=False)

    def noted(self, experiment: Experiment, note: str) -> None:
        """Once for all runs that it holds for alike."""
        if note not in self._told:
            self._told.add(note)
            self._console.print(f"{_name(experiment)}: {note}", highlight=False, soft_wrap=True, markup=False)

    def round(self, experiment: Experiment, round: Round) -> None:
        now = time.monotonic()
        self._left[experiment.key] -= 1
        self._trained, self._seconds = self._trained + 1, self._seconds + now - self._began
        self._began = now
        accuracy = f"{100 * round.evaluation.accuracy:.2f} %  " if round.evaluation else ""
        speed = round.train_samples / max(round.train_seconds, 1e-9)
        text = f"{accuracy}{speed:,.0f} samples/s  {clock(self._time_left())} left"
        self._bars.update(
            self._bar, total=experiment.rounds, completed=round.round, description=_name(experiment), text=text
        )
        if not self._console.is_terminal and now - self._spoke > QUIET_SECONDS:
            self._spoke = now
            place = f"round {round.round}/{experiment.rounds}"
            self._console.print(f"{_name(experiment)}: {place}  {text}", highlight=False, soft_wrap=True)

    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None:
        self._left.pop(experiment.key, None)
        if fresh and self._left and run.status in ("failed", "diverged") and run.reason not in self._told:
            # The end, where all reasons are told, is still far.
            self._told.add(run.reason)
            text = f"{_name(experiment)}: {run.status}: {run.reason}"
            self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _time_left(self) -> float:
        return sum(self._left.values()) * self._seconds / max(self._trained, 1)


def _name(experiment: Experiment) -> str:
    algorithm = ALGORITHMS.write(experiment.algorithm)
    return f"{experiment.data}, {experiment.split}, {algorithm}, seed {experiment.seed}"
