"""Commands from start to end: what is called, what is shown, what the exit status is."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from noniid.engine import SAME_NUMBERS
from noniid.errors import BadInput
from noniid.experiments.check import check, check_workers
from noniid.experiments.experiment import Experiment
from noniid.experiments.request import suited
from noniid.experiments.runner import Runner, summary
from noniid.models import MODELS
from noniid.results.figures import FORMATS, Series, curves_figure
from noniid.results.store import Run, Store
from noniid.results.table import Line, lines, record
from noniid.screens.progress import Progress
from noniid.screens.runs import comparison, details, listing, write_csv
from noniid.screens.words import console


@dataclass(frozen=True)
class Outcome:
    """The runs that were asked for, as far as they came, and what the shell is told."""

    runs: list[Run]
    exit_code: int  # 0 all finished, 1 some failed or diverged, 130 stopped by the user


def train(experiments: Sequence[Experiment], folder: Path, *, workers: int | None, as_json: bool) -> Outcome:
    """Train what is missing; the comparison, or a JSON line for each finished run, on stdout."""

    def tell(run: Run) -> None:
        if as_json:
            print(json.dumps(record(run)), flush=True)

    outcome = train_all(experiments, folder, workers, tell)
    if not as_json and any(run.status != "failed" for run in outcome.runs):
        comparison(console(), outcome.runs)
    say_failures(outcome)
    return outcome


def train_all(
    experiments: Sequence[Experiment], folder: Path, workers: int | None, on_run: Callable[[Run], None]
) -> Outcome:
    """Train what is missing, with progress on stderr; Ctrl-C ends it cleanly."""
    check_workers(workers)
    for experiment in experiments:
        check(experiment)
    runs: list[Run] = []
    stop = Event()
    with Progress(console(stderr=True), experiments) as progress, _stopping(stop):
        for run in Runner(Store(folder), workers, progress, stop).run(experiments):
            runs.append(run)
            on_run(run)
    if stop.is_set():
        return Outcome(runs, 130)
    return Outcome(runs, 0 if all(run.status == "done" for run in runs) else 1)


def explain_engines(experiments: Sequence[Experiment], *, as_json: bool) -> None:
    """A line for each model, data set and device: which engine trains it, and why that one suits it or another does."""
    alike = {(e.data, MODELS.write(e.model), e.device, e.engine): e for e in experiments}
    for (name, model, device, engine), experiment in alike.items():
        check(experiment)
        choice = suited(experiment)
        if as_json:
            told = {"data": name, "model": model, "device": device, "engine": engine}
            print(json.dumps({**told, "suited": choice.engine, "why": choice.why, "samples_per_second": choice.rates}))
        else:
            same = SAME_NUMBERS.get(engine, engine)
            trained = engine if engine == same else f"{engine}, which is {same} on the workers of a cluster"
            other = "" if same == choice.engine else f" {choice.engine} would suit it:"
            console().print(
                f"{model} on {name}, {device}: {trained}.{other} {choice.why}.", soft_wrap=True, markup=False
            )


@contextmanager
def _stopping(stop: Event) -> Iterator[None]:
    """The first Ctrl-C asks to stop, a second one is Python's own."""

    def ask(number: int, frame: Any) -> None:
        stop.set()
        signal.signal(number, before[number])

    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say_failures(outcome: Outcome) -> None:
    """Each reason once, however many cells it stopped."""
    errors, runs = console(stderr=True), outcome.runs
    for reason in dict.fromkeys(run.reason for run in runs if run.status in ("failed", "diverged")):
        count = sum(run.reason == reason for run in runs)
        share = f"{count} of {len(runs)} runs: " if len(runs) > 1 else ""
        errors.print(f"noniid: {share}{reason}", soft_wrap=True, markup=False)
    for run in runs:
        if run.status == "running":
            errors.print(f"noniid: run {run.key} is being trained by process {run.pid}: not touched here.")
    if outcome.exit_code == 130:
        errors.print("Stopped. The same command goes on from here.")


@dataclass(frozen=True)
class Opened:
    """A store to read from."""

    store: Store

    def select(self, key: str | None, status: str | None = None, **patterns: str | None) -> list[Run]:
        """Runs by the beginning of their key and by patterns of what they are; a key must name exactly one."""
        wanted = {name: pattern for name, pattern in patterns.items() if pattern is not None}
        found = [
            run
            for run in self.store.runs()
            if run.key.startswith(key or "")
            and status in (None, run.status)
            and all(_matches(run.experiment[name], pattern) for name, pattern in wanted.items())
        ]
        if key is not None and len(found) != 1:
            raise BadInput(f"{len(found) or 'no'} runs in {self.store.folder} begin with {key!r}: see `noniid show`.")
        if not found and (wanted or status):
            raise BadInput(f"no runs in {self.store.folder} are like that: see `noniid show`.")
        return [run if run.summary else replace(run, summary=summary(self.store.rounds(run.key))) for run in found]

    def export(self, runs: Sequence[Run], file: str, rounds: bool) -> None:
        rounds_of = {run.key: self.store.rounds(run.key) for run in runs} if rounds else None
        if file == "-":
            write_csv(sys.stdout, runs, rounds_of)
            return
        try:
            with Path(file).open("w", newline="", encoding="utf-8") as out:
                write_csv(out, runs, rounds_of)
        except OSError as error:
            raise BadInput(f"cannot write {file}: {error.strerror}.") from None


def _matches(spec: str, pattern: str) -> bool:
    """By the whole spec or by its name: `fedprox` finds fedprox(0.1)."""
    return fnmatchcase(spec, pattern) or fnmatchcase(spec.partition("(")[0], pattern)


def open_store(folder: Path) -> Opened:
    """For reading: a store that does not exist is an error, not a new store."""
    if not (folder / "runs.sqlite").exists():
        raise BadInput(f"there is no store at {folder}: `noniid run` makes one, --store names another.")
    return Opened(Store(folder))


def show_runs(opened: Opened, runs: Sequence[Run], *, one: bool, as_json: bool) -> None:
    if as_json:
        for run in runs:
            print(json.dumps(record(run)))
    elif one:
        details(console(), runs[0], opened.store.rounds(runs[0].key))
    else:
        listing(console(), runs)


def check_figure(file: str) -> None:
    """Before hours of training, not after them."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"cannot draw {path.name!r}: give it a name that ends in {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise BadInput(f"cannot write {file}: there is no folder {path.parent}.")


def draw_curves(folder: Path, runs: Sequence[Run], file: str) -> Path:
    """Accuracy against round, a line for each algorithm and setting, a band over its seeds."""
    opened = open_store(folder)
    found = lines(runs)
    names = short_names([line.experiment["algorithm"] for line in found])
    places = [f"{line.experiment['data']}, {line.experiment['split']}" for line in found]
    several = len(set(places)) > 1
    labels = [f"{name}, {place}" if several else name for name, place in zip(names, places, strict=True)]
    drawn = [_series(opened.store, line, label) for line, label in zip(found, labels, strict=True)]
    kept = [series for series in drawn if series is not None]
    if not kept:
        raise BadInput("there is nothing to draw: no run has an evaluated round.")
    curves_figure(kept, "" if several else places[0], Path(file))
    return Path(file)


def short_names(specs: Sequence[str]) -> list[str]:
    """Without arguments, where that leaves no two of them alike.

    >>> short_names(["fedavg", "scaffold(i)"]), short_names(["fedprox(0.1)", "fedprox(1)"])
    (['fedavg', 'scaffold'], ['fedprox(0.1)', 'fedprox(1)'])
    """
    short = [spec.partition("(")[0] for spec in specs]
    return short if len(set(short)) == len(set(specs)) else list(specs)


def _series(store: Store, line: Line, label: str) -> Series | None:
    courses = [
        {row["round"]: row["accuracy"] for row in store.rounds(run.key) if row["accuracy"] is not None}
        for run in line.runs
    ]
    rounds = sorted(set.intersection(*map(set, courses)))  # what all its seeds have reached
    if not rounds:
        return None
    values = np.array([[course[number] for course in courses] for number in rounds])
    return Series(label, np.array(rounds), values.mean(1), values.min(1), values.max(1))
