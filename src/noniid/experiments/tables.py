"""A published table, run again: which cells, as what experiments, how long they take, what they come to.

Papers come in as values, by what their cells and settings are called; nothing here knows a paper by name.
"""

from __future__ import annotations

import functools
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

from noniid import data, models, split
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.fedprox import FedProx
from noniid.engine import Schedule, begin, cohort_size, simulate, start_engine
from noniid.engine.threads import default_workers
from noniid.errors import BadInput, unknown
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import prepare
from noniid.experiments.runner import summary
from noniid.optim import SGD
from noniid.results.compare import ComparedCell, ListedCell, compare, number
from noniid.results.store import ENDED, Run, Store

TRIAL_SECONDS = 0.5
TRIAL_BATCHES = 20  # of each client, in each round of a trial
_KIND = ("data", "model", "batch", "augment", "engine", "device")  # what a run's speed depends on
_METRICS = {"final round": "accuracy"}  # a protocol's metric -> where a run's summary has it

Settings = Any  # a paper's protocol on one data set: `experiments_for` reads it
Preset = Callable[[Experiment], Experiment] | None
Calibrate = Callable[[Experiment], float | None]  # -> training samples per second


@runtime_checkable
class Cell(Protocol):
    """A cell of a table of accuracies; `claim(version)` has a value and a spread."""

    @property
    def data(self) -> str: ...
    @property
    def split(self) -> str: ...
    @property
    def algorithm(self) -> str: ...
    def claim(self, version: str) -> Any: ...


@dataclass(frozen=True)
class Selected:
    """A cell that was asked for, and its algorithm as it is to run: its name, or name(arguments) as given."""

    cell: Cell
    algorithm: str

    @property
    def names(self) -> tuple[str, str, str]:
        return self.cell.data, self.cell.split, self.algorithm


@dataclass(frozen=True)
class Planned:
    """A cell and the runs that reproduce it, one for each seed; none where something is not available yet."""

    selected: Selected
    experiments: tuple[Experiment, ...] = ()
    metric: str = "final round"
    note: str = ""


def select(
    table: Iterable[object], datas: Sequence[str], splits: Sequence[str], algorithms: Sequence[str]
) -> list[Selected]:
    """The cells that match a pattern of each kind, in the table's order; no patterns of a kind let all pass.

    An algorithm may carry arguments: `fedprox(0.1)` takes fedprox's cells and runs them with mu = 0.1.
    """
    cells = [cell for cell in table if isinstance(cell, Cell)]
    if not cells:
        raise BadInput("this table prints no accuracies that could be measured again: take another table.")
    _must_match("data set", datas, [cell.data for cell in cells])
    _must_match("split", splits, [cell.split for cell in cells])
    _must_match("algorithm", [_bare(text) for text in algorithms], [cell.algorithm for cell in cells])
    of_data = [cell for cell in cells if _matches(cell.data, datas)]
    found = [cell for cell in of_data if _matches(cell.split, splits)]
    if not found:
        there = ", ".join(dict.fromkeys(cell.split for cell in of_data))
        raise BadInput(f"this table has no such split for {', '.join(datas)}: there it has {there}.")
    return [Selected(cell, text) for cell in found for text in _as_run(cell.algorithm, algorithms)]


def _as_run(name: str, patterns: Sequence[str]) -> list[str]:
    """What runs in a cell of the algorithm `name`: what is given with arguments goes before mere patterns."""
    with_arguments = [text for text in patterns if "(" in text and _matches(name, [_bare(text)])]
    given = dict.fromkeys(name + text[text.index("(") :] for text in with_arguments)
    return list(given) or ([name] if _matches(name, patterns) else [])


def _bare(algorithm: str) -> str:
    return algorithm.partition("(")[0].strip()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Blanks do not count: `quantity(0.5)+noise*` matches `quantity(0.5) + noise(0.1)`."""
    return not patterns or any(fnmatchcase(name.replace(" ", ""), each.replace(" ", "")) for each in patterns)


def _must_match(kind: str, patterns: Sequence[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            raise unknown(f"{kind} for this table", pattern, set(names))


def plan(
    chosen: Iterable[Selected], settings: Callable[[str], Settings], seeds: Sequence[int], preset: Preset
) -> list[Planned]:
    """The runs of every cell. `settings` gives a data set's protocol; no preset leaves algorithms correct."""
    plans: list[Planned] = []
    for each in chosen:
        if each.cell.data not in data.CATALOGUE:
            plans.append(Planned(each, note=f"data set {each.cell.data} is not available yet"))
            continue
        protocol = settings(each.cell.data)
        experiments = tuple(experiments_for(each, protocol, seeds, preset))
        plans.append(Planned(each, experiments, protocol.metric, _algorithm(each, protocol)[1]))
    return plans


def experiments_for(chosen: Selected, protocol: Settings, seeds: Sequence[int], preset: Preset) -> list[Experiment]:
    """One experiment for each seed. An algorithm given with arguments runs as given, whatever the preset."""
    algorithm, _ = _algorithm(chosen, protocol)
    made = Experiment(
        chosen.cell.data, split.parse(chosen.cell.split), algorithm, models.parse(protocol.model),
        clients=protocol.num_clients, participation=protocol.participation, rounds=protocol.rounds,
        epochs=protocol.epochs, batch=protocol.batch_size, augment=protocol.augment,
        optim=SGD(protocol.lr, protocol.momentum, protocol.weight_decay),
    )  # fmt: skip
    if preset:
        given = "(" in chosen.algorithm
        made = replace(preset(made), algorithm=algorithm) if given else preset(made)
    return [replace(made, seed=seed) for seed in seeds]


def _algorithm(chosen: Selected, protocol: Settings) -> tuple[Algorithm, str]:
    """The algorithm, and what has to be said of it. Papers print FedProx with the best mu of a grid."""
    algorithm = ALGORITHMS.parse(chosen.algorithm)
    if not isinstance(algorithm, FedProx) or "(" in chosen.algorithm:
        return algorithm, ""
    mu = protocol.best_mu(chosen.cell.split)
    if mu is None:
        return algorithm, f"mu={algorithm.mu:g} is ours: the published choice is not told"
    return replace(algorithm, mu=mu), f"mu={mu:g} as published"


def estimate_seconds(experiment: Experiment, store: Store, calibrate: Calibrate) -> float | None:
    """The training time still ahead; None where neither stored runs nor `calibrate` know the speed."""
    run = store.find(experiment.key)
    if run and run.status in ENDED:
        return 0.0
    rate = stored_rate(experiment, store) or calibrate(experiment)
    clients = experiment.clients or 1  # published tables all say how many
    share = cohort_size(clients, experiment.participation) / clients
    samples_per_round = experiment.epochs * share * data.CATALOGUE[experiment.data].num_train
    rounds_ahead = experiment.rounds - len(store.rounds(experiment.key))
    return rounds_ahead * samples_per_round / rate if rate else None


def stored_rate(experiment: Experiment, store: Store) -> float | None:
    """Training samples per second: the median of stored runs of this kind, if possible of this algorithm."""
    record = experiment.record()
    like = [run for run in store.runs() if all(run.experiment.get(name) == record[name] for name in _KIND)]
    same = [run for run in like if _bare(run.experiment["algorithm"]) == _bare(record["algorithm"])]
    for runs in (same, like):
        told = [run.summary or summary(store.rounds(run.key)) for run in runs]
        rates = [rate for each in told if (rate := each.get("train_samples_per_second"))]
        if rates:
            return statistics.median(rates)
    return None


def measure_rate(experiment: Experiment) -> float | None:
    """Training samples per second here, by a trial of about a second; None if the data are not here.

    Each worker has a client of the same size: runs with lopsided clients are slower.
    """
    if not any(row.here for row in data.listing() if row.name == experiment.data):
        return None
    even, clients = split.Recipe(shifts=experiment.split.shifts), min(experiment.clients or 1, default_workers())
    never_diverges = replace(experiment.optim, lr=1e-6)
    trial = replace(
        experiment, split=even, clients=clients, participation=1.0, epochs=1,
        optim=never_diverges, draws="own", seed=0,
    )  # fmt: skip
    return _trial_rate(trial)


@functools.cache
def _trial_rate(trial: Experiment) -> float:
    ready = prepare(trial)
    few = tuple(held[: TRIAL_BATCHES * trial.batch] for held in ready.task.split.indices)
    engine = start_engine(trial.engine, replace(ready.task, split=replace(ready.task.split, indices=few)))
    state = begin(trial.algorithm, ready.w, ready.federation)
    endless = Schedule(sys.maxsize, ready.federation.cohort, eval_every=sys.maxsize)
    samples, seconds = 0, 0.0
    try:
        for done in simulate(engine, trial.algorithm, state, ready.federation, endless):
            if done.round > 1:  # the first one warms up
                samples, seconds = samples + done.train_samples, seconds + done.train_seconds
            if seconds >= TRIAL_SECONDS:
                break
    finally:
        engine.close()
    return samples / seconds


def listing(
    plans: Iterable[Planned], store: Store, version: str, calibrate: Calibrate = measure_rate
) -> Iterator[ListedCell]:
    """One line per cell: how many of its runs the store holds, and how long training the others takes."""
    for each in plans:
        claim = each.selected.cell.claim(version)
        runs = [store.find(experiment.key) for experiment in each.experiments]
        stored = sum(run is not None and run.status in ENDED for run in runs)
        seconds = [estimate_seconds(experiment, store, calibrate) for experiment in each.experiments]
        known = [value for value in seconds if value is not None]
        total = sum(known) if len(known) == len(runs) > 0 else None
        claimed = number(claim.value, claim.spread)
        yield ListedCell(*each.selected.names, claimed, stored, len(runs), total, each.note)


def compared(plans: Iterable[Planned], store: Store, version: str) -> list[ComparedCell]:
    """One line per cell: what the store's runs of it come to, beside what this version claims."""
    return [_compared(each, [store.find(e.key) for e in each.experiments], version) for each in plans]


def _compared(each: Planned, runs: Sequence[Run | None], version: str) -> ComparedCell:
    claim = each.selected.cell.claim(version)
    values = [100 * run.summary[_METRICS[each.metric]] for run in runs if run and run.status == "done"]
    lost = [run.status if run else "not run" for run in runs if not run or run.status != "done"]
    reasons = [run.reason for run in runs if run and run.reason and run.status in ("diverged", "failed")]
    note = "; ".join(dict.fromkeys(filter(None, [each.note, *reasons])))
    return compare(each.selected.names, (claim.value, claim.spread), values, lost, note)
