"""Cells side by side on a cluster come to what they come to one after the other, and none is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from noniid.algorithms import ALGORITHMS, Algorithm, Local
from noniid.engine import Round
from noniid.engine.connect import cluster
from noniid.experiments import spread as spread_module
from noniid.experiments.experiment import Experiment
from noniid.experiments.runner import Runner
from noniid.experiments.spread import spreads
from noniid.optim import SGD
from noniid.results.store import Run, Store
from noniid.split import parse

CELL = Experiment("fcube", parse("fcube"), clients=4, rounds=4, epochs=1, batch=128, optim=SGD(0.1, 0.9), engine="ray")
CELLS = [
    replace(CELL, algorithm=ALGORITHMS.parse(text)) for text in ("fedavg", "scaffold(variates=random-net)", "moon")
]


class Ear:
    """Notes what it is told."""

    def __init__(self, act: Callable[[Round], None] = lambda round: None):
        self.act = act
        self.began: dict[str, int] = {}
        self.rounds: dict[str, list[int]] = {}
        self.fresh: dict[str, bool] = {}

    def started(self, experiment: Experiment, done_rounds: int) -> None:
        assert experiment.key not in self.began
        self.began[experiment.key] = done_rounds

    def round(self, experiment: Experiment, round: Round) -> None:
        self.rounds.setdefault(experiment.key, []).append(round.round)
        self.act(round)

    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None:
        assert experiment.key not in self.fresh
        self.fresh[experiment.key] = fresh


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def every_round_is_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_module, "SLICE_SECONDS", 0.0)


def _assert_equal_to_threads(store: Store, cells: list[Experiment], folder: Path) -> None:
    straight = Store(folder / "straight")
    for cell, run in zip(cells, Runner(straight).run([replace(each, engine="threads") for each in cells]), strict=True):
        assert run.status == "done" and run.key == cell.key
        known, found = (
            [{k: v for k, v in row.items() if "seconds" not in k} for row in each.rounds(cell.key)]
            for each in (straight, store)
        )
        assert known == found and len(known) == cell.rounds
        models = [each.load(cell.key) for each in (straight, store)]
        assert models[0] and models[1] and models[0][1] == models[1][1] and set(models[1][0]) == {"w"}
        assert torch.equal(models[0][0]["w"], models[1][0]["w"])
        ours = store.find(cell.key)
        assert ours and ours.status == "done" and ours.summary["accuracy"] == run.summary["accuracy"]
        assert ours.summary["clients"] == run.summary["clients"] and ours.setting["engine"] == "ray"
    straight.close()


def test_cells_are_spread_where_they_keep_more_workers_busy_than_clients(store: Store) -> None:
    two = [CELL, replace(CELL, seed=1)]
    assert spreads(two, store, 2) and not spreads(two, store, 3)  # four clients keep three workers busy
    assert spreads([replace(each, participation=0.5) for each in two], store, 3)
    assert not spreads([CELL, CELL], store, 1) and not spreads([], store, 1)
    assert not spreads([replace(each, engine="threads") for each in two], store, 2)
    list(Runner(store).run([replace(CELL, engine="threads")]))
    assert not spreads(two, store, 2)  # one is in the store: nothing but the other is missing


def test_a_run_of_ray_is_the_run_of_threads(store: Store) -> None:
    assert CELL.key == replace(CELL, engine="threads").key != replace(CELL, engine="reference").key
    (known,) = Runner(store).run([replace(CELL, engine="threads")])
    (found,) = Runner(store, 2).run([CELL])
    assert known == found


def test_one_cell_sends_its_clients(store: Store, tmp_path: Path) -> None:
    ear = Ear()
    list(Runner(store, 2, ear).run([CELLS[1]]))
    assert ear.rounds == {CELLS[1].key: [1, 2, 3, 4]}
    _assert_equal_to_threads(store, [CELLS[1]], tmp_path)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_spread_cells_equal_those_of_threads(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(spread_module, "SLICE_SECONDS", seconds)
    ear = Ear()
    runs = list(Runner(store, 2, ear).run([*CELLS, CELLS[0]]))
    assert [run.key for run in runs] == [cell.key for cell in CELLS]
    assert ear.began == dict.fromkeys(ear.began, 0) and set(ear.fresh.values()) == {True} and len(ear.fresh) == 3
    assert ear.rounds == {cell.key: [1, 2, 3, 4] for cell in CELLS}
    _assert_equal_to_threads(store, CELLS, tmp_path)
    again = Ear()
    assert [run.key for run in Runner(store, 2, again).run(CELLS)] == [cell.key for cell in CELLS]
    assert not again.rounds and not any(again.fresh.values())


def test_cells_that_are_stopped_go_on(store: Store, tmp_path: Path) -> None:
    many = [*CELLS, replace(CELL, seed=7), replace(CELL, seed=8)]
    first = Runner(store, 2)
    first.listener = Ear(lambda done: first.stop.set() if done.round == 2 else None)
    stopped = list(first.run(many))
    assert {run.status for run in stopped} <= {"stopped", "done"} and stopped[0].status == "stopped"
    assert len(store.runs()) == len(stopped) < len(many)
    ear = Ear()
    assert {run.status for run in Runner(store, 2, ear).run(many)} == {"done"}
    assert max(ear.began.values()) >= 2
    for run in stopped:
        assert ear.began[run.key] == run.summary["rounds"]
    _assert_equal_to_threads(store, many, tmp_path)


@dataclass(frozen=True)
class Deadly(Algorithm):
    """FedAvg that kills its own process in round 3, as long as its bullet is there."""

    bullet: str = ""

    def after(self, w: Tensor, local: Local) -> Tensor:
        if self.bullet and float(w.abs().sum()) > 0 and Path(self.bullet).exists():
            left = int(Path(self.bullet).read_text())
            Path(self.bullet).write_text(str(left - 1))
            if left == 0:
                Path(self.bullet).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return w


def test_the_cell_of_a_killed_worker_goes_on_elsewhere(store: Store, tmp_path: Path) -> None:
    """In the middle of its third round: 8 steps of 4 clients make a round."""
    bullet = tmp_path / "bullet"
    bullet.write_text("70")
    deadly = replace(CELL, algorithm=Deadly(str(bullet)))
    pids = {worker.pid for worker in cluster(2).workers[:2]}
    ear = Ear()
    assert {run.status for run in Runner(store, 2, ear).run([deadly, CELLS[1]])} == {"done"}
    assert not bullet.exists() and {worker.pid for worker in cluster(2).workers[:2]} != pids
    assert ear.rounds[deadly.key] == [1, 2, 3, 4]
    _assert_equal_to_threads(store, [deadly, CELLS[1]], tmp_path)


def test_a_cell_that_fails_or_diverges_is_recorded_and_the_others_go_on(store: Store) -> None:
    failing = replace(CELL, split=parse("labels(11)"))
    wild = Experiment("digits", parse("iid"), clients=4, rounds=4, epochs=1, optim=SGD(1e30), engine="ray")
    damaged = replace(CELL, seed=5)
    (store.folder / "models" / f"{damaged.key}.safetensors").write_bytes(b"birds")
    failed, diverged, lost, done = Runner(store, 2).run([failing, wild, damaged, CELL])
    assert failed.status == "failed" and failed.reason and failed.reason.startswith("labels(11) asks for more labels")
    assert diverged.status == "diverged" and diverged.reason and diverged.reason.startswith("diverged in round")
    assert lost.status == "failed" and lost.reason and lost.reason.endswith("delete it to train that run anew.")
    assert done.status == "done"


def test_a_cell_that_another_process_is_at_is_passed_over(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as other:
        store.begin(CELL.key, CELL.record(), {})
        store._db.execute("UPDATE runs SET pid = ?", (other.pid,))
        passed, done = Runner(store, 2).run([CELL, replace(CELL, seed=1)])
        other.communicate()
    assert (passed.status, passed.pid, done.status) == ("running", other.pid, "done")


KILLED = """
    import json, os, signal, sys
    from noniid.experiments import runner, spread
    from noniid.experiments.experiment import Experiment
    from noniid.results.store import Store

    class Ear(runner.Silent):
        def round(self, experiment, round):
            if round.round == 3:
                os.kill(os.getpid(), signal.SIGKILL)

    spread.SLICE_SECONDS = 0.0
    cells = [Experiment.from_record(each | {"engine": "ray"}) for each in json.loads(sys.argv[2])]
    list(runner.Runner(Store(sys.argv[1]), 2, Ear()).run(cells))
"""


@pytest.mark.slow
def test_a_killed_driver_goes_on_from_its_store(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [cell.record() for cell in CELLS]
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "store"), json.dumps(records)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    store, ear = Store(tmp_path / "store"), Ear()
    assert {run.status for run in store.runs()} == {"running"}
    assert {run.status for run in Runner(store, 2, ear).run(CELLS)} == {"done"}
    assert max(ear.began.values()) == 2  # the third round was written, its state not yet
    _assert_equal_to_threads(store, CELLS, tmp_path)
    store.close()
