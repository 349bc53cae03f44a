"""What clients remember may lie in files: the numbers are the same, and whatever moment a process dies at, a run goes
on from its last checkpoint."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from noniid.algorithms import ALGORITHMS, Algorithm, Wave
from noniid.engine import Stopped, Threads
from noniid.engine import memory as engine_memory
from noniid.experiments import checkpoints
from noniid.experiments import runner as runner_module
from noniid.experiments.experiment import Experiment
from noniid.experiments.runner import Runner
from noniid.optim import SGD
from noniid.results.kept import Kept
from noniid.results.store import Run, Store
from noniid.split import parse

FEW = Experiment(
    "digits", parse("iid"), ALGORITHMS.parse("scaffold"), clients=8, participation=0.4, rounds=5, epochs=1,
    optim=SGD(0.05, 0.9),
)  # fmt: skip
RUNS = {
    "scaffold": FEW,
    "a first row that is not zero": replace(FEW, algorithm=ALGORITHMS.parse("scaffold(variates=random-net)")),
    "every client a model": replace(FEW, algorithm=ALGORITHMS.parse("local")),
    "features": replace(FEW, algorithm=ALGORITHMS.parse("rfedavg_plus")),
    "optimisers": replace(FEW, algorithm=ALGORITHMS.parse("fedavg"), keep_optim=True),
    "several waves a round": replace(FEW, algorithm=ALGORITHMS.parse("fedasync"), keep_optim=True, participation=0.9),
}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is too much for a checkpoint."""
    monkeypatch.setattr(checkpoints, "KEPT_BYTES", 0)


def _outcome(store: Store, experiment: Experiment) -> tuple[list[dict[str, Any]], Tensor]:
    """A finished run's numbers, without what was measured by the clock."""
    run = store.find(experiment.key)
    assert run is not None and run.status == "done", run
    rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in store.rounds(experiment.key)]
    found = store.load(experiment.key)
    assert found is not None
    return rows, found[0]["w"]


def _straight(experiment: Experiment, folder: Path) -> tuple[list[dict[str, Any]], Tensor]:
    """The run with its memory in RAM, from beginning to end."""
    store = Store(folder / "straight")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "KEPT_BYTES", 1 << 40)
        list(Runner(store).run([experiment]))
    outcome = _outcome(store, experiment)
    store.close()
    return outcome


def _assert_equal(a: tuple[list[dict[str, Any]], Tensor], b: tuple[list[dict[str, Any]], Tensor]) -> None:
    assert a[0] == b[0]
    assert torch.equal(a[1], b[1])


class Ear(runner_module.Silent):
    def __init__(self, act: Callable[[int], None]):
        self.act = act

    def round(self, experiment: Experiment, round: Any) -> None:
        self.act(round.round)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", RUNS)
def test_where_the_memory_lies_changes_no_number_and_a_stopped_run_goes_on(name: str, tmp_path: Path) -> None:
    experiment, store = RUNS[name], Store(tmp_path / "store")
    first = Runner(store)

    def stop(round: int) -> None:
        assert any(store.memory_folder(experiment.key).glob("*.rows"))
        if round == 3:
            first.stop.set()

    first.listener = Ear(stop)
    (stopped,) = first.run([experiment])
    assert stopped.status == "stopped"
    found = store.load(experiment.key)
    assert found is not None and not any(name.startswith("memory.") for name in found[0])
    list(Runner(store).run([experiment]))
    _assert_equal(_outcome(store, experiment), _straight(experiment, tmp_path))
    assert not store.memory_folder(experiment.key).exists()  # a finished run needs it no more
    store.close()


@pytest.mark.parametrize("limit", [0, 1 << 40])
def test_a_round_that_is_stopped_between_its_waves_has_not_been(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "KEPT_BYTES", limit)
    experiment, store = RUNS["several waves a round"], Store(tmp_path / "store")
    train, waves = Threads.train, dict[int, int]()

    def trained(self: Threads, algorithm: Algorithm, wave: Wave) -> Wave:
        round = int(wave.clock[0] - 1) // 7 + 1  # of seven arrivals
        waves[round] = waves.get(round, 0) + 1
        if (round, waves[round]) == (3, 2):
            raise Stopped
        return train(self, algorithm, wave)

    with monkeypatch.context() as patch:
        patch.setattr(Threads, "train", trained)
        (stopped,) = Runner(store).run([experiment])
    assert (stopped.status, stopped.summary["rounds"]) == ("stopped", 2)
    list(Runner(store).run([experiment]))
    _assert_equal(_outcome(store, experiment), _straight(experiment, tmp_path))
    store.close()


@pytest.mark.usefixtures("kept")
def test_a_run_that_diverges_leaves_no_files(tmp_path: Path) -> None:
    store, wild = Store(tmp_path), replace(FEW, optim=SGD(1e30))
    (run,) = Runner(store).run([wild])
    assert run.status == "diverged" and not store.memory_folder(wild.key).exists()
    store.close()


def test_a_checkpoint_that_holds_the_memory_is_gone_on_from_with_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So were all checkpoints before there were files; and the other way round."""
    store = Store(tmp_path / "store")
    for limit, last in ((1 << 40, 2), (0, 3), (1 << 40, 4), (1 << 40, 5)):
        monkeypatch.setattr(checkpoints, "KEPT_BYTES", limit)
        runner = Runner(store)
        runner.listener = Ear(lambda round, last=last, runner=runner: runner.stop.set() if round == last else None)
        list(runner.run([FEW]))
    _assert_equal(_outcome(store, FEW), _straight(FEW, tmp_path))
    store.close()


# Dead processes


def _copy(store: Store, folder: Path) -> None:
    """What a process that dies at this moment leaves behind."""
    shutil.copytree(store.folder / "models", folder / "models")
    target = sqlite3.connect(folder / "runs.sqlite")
    store._db.backup(target)
    target.close()


def _half_put(then: Callable[[], None]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    put = engine_memory.put

    def half(memory: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
        put(memory, ids[:1], rows[:1])
        memory[int(ids[1])][:5] = rows[1][:5]
        then()
        return put(memory, ids, rows)

    return half


MOMENTS = ("noted", "half put", "half a note", "put", "saved", "half back")


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["scaffold", "a first row that is not zero"])
def test_whatever_moment_a_process_dies_at(
    name: str, moment: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In round 4, with a checkpoint after every round, or after every other."""
    experiment, store, left = RUNS[name], Store(tmp_path / "store"), tmp_path / "left"
    monkeypatch.setattr(runner_module, "CHECKPOINT_SECONDS", -1.0)
    save = checkpoints.Checkpoints.save
    monkeypatch.setattr(
        checkpoints.Checkpoints, "save", lambda self, state: None if state.round % every else save(self, state)
    )
    begun = 0

    def die() -> None:
        if begun == 3 and not left.exists():
            left.mkdir()
            _copy(store, left)

    def heard(round: int) -> None:
        nonlocal begun
        begun = round

    note, saved, put = Kept.note, Kept.saved, engine_memory.put

    def noted(self: Kept, name: str, ids: Tensor, rows: Tensor) -> None:
        note(self, name, ids, rows)
        die()

    def cut(self: Kept, name: str, ids: Tensor, rows: Tensor) -> None:
        """The last bytes do not reach the file."""
        note(self, name, ids, rows)
        if begun == 3 and not left.exists():
            die()
            (path,) = (left / "models").rglob("*.notes")
            path.write_bytes(path.read_bytes()[:-7])

    def late(self: Kept, round: int) -> None:
        die()
        saved(self, round)

    def whole(memory: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
        done = put(memory, ids, rows)
        die()
        return done

    with monkeypatch.context() as patch:
        if moment in ("noted", "half back"):
            patch.setattr(Kept, "note", noted)
        elif moment == "half a note":
            patch.setattr(Kept, "note", cut)
        elif moment == "saved":
            patch.setattr(Kept, "saved", late)
        else:
            patch.setattr(engine_memory, "put", whole if moment == "put" else _half_put(die))
        list(Runner(store, listener=Ear(heard)).run([experiment]))
    dead = Store(left)
    if moment == "half back":  # dies a second time, on its way back
        _interrupted_on_its_way_back(dead, experiment, patch=monkeypatch)
    (run,) = Runner(dead).run([experiment])
    assert run.status == "done", run.reason
    straight = _straight(experiment, tmp_path)
    _assert_equal(_outcome(store, experiment), straight)
    _assert_equal(_outcome(dead, experiment), straight)
    dead.close()
    store.close()


def _interrupted_on_its_way_back(store: Store, experiment: Experiment, patch: pytest.MonkeyPatch) -> None:
    class Died(Exception): ...

    def unlink(self: Path, missing_ok: bool = False) -> None:
        raise Died

    with patch.context() as inner:
        inner.setattr(Path, "unlink", unlink)
        (run,) = Runner(store).run([experiment])
    assert run.status == "failed" and run.reason == "Died: "


PROGRAM = """
    import json, sys
    from noniid.experiments import checkpoints, runner
    from noniid.experiments.experiment import Experiment
    from noniid.results.store import Store

    checkpoints.KEPT_BYTES, runner.CHECKPOINT_SECONDS = 0, 0.05
    experiment = Experiment.from_record(json.loads(sys.argv[2]))
    class Ear(runner.Silent):
        def started(self, experiment, done):
            print(flush=True)
    list(runner.Runner(Store(sys.argv[1]), listener=Ear()).run([experiment]))
"""


@pytest.mark.slow
def test_a_process_killed_again_and_again_at_any_time(tmp_path: Path) -> None:
    experiment = replace(FEW, rounds=400)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "store"), json.dumps(experiment.record())]
    rng, killed = random.Random(7), 0
    for _ in range(8):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.05, 0.6))
            process.kill()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 3
    store = Store(tmp_path / "store")
    run = store.find(experiment.key)
    assert isinstance(run, Run)
    list(Runner(store).run([experiment]))
    _assert_equal(_outcome(store, experiment), _straight(experiment, tmp_path))
    store.close()
