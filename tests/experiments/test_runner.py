"""Runs are never lost, never repeated and never half-counted; a resumed run is the straight run."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from noniid.algorithms import ALGORITHMS
from noniid.algorithms.wrappers import Stack
from noniid.engine import Round
from noniid.experiments import course
from noniid.experiments import runner as runner_module
from noniid.experiments.experiment import Experiment
from noniid.experiments.request import request
from noniid.experiments.runner import Runner
from noniid.models import Linear
from noniid.optim import SGD
from noniid.results.store import Run, Store
from noniid.split import parse
from tests.contract.variants import VARIANTS

FCUBE = Experiment("fcube", parse("fcube"), clients=4, rounds=4, epochs=1, batch=128, optim=SGD(0.1, 0.9))
DIGITS = Experiment("digits", parse("dirichlet(0.5)"), clients=4, rounds=4, epochs=1, optim=SGD(0.05, 0.9))
SCAFFOLD = ALGORITHMS.parse("scaffold(variates=random-net)")


class Ear:
    """A listener that notes what it is told, and does something when it hears a round."""

    def __init__(self, act: Callable[[Round], None] = lambda round: None):
        self.act = act
        self.began: list[int] = []
        self.rounds: list[int] = []
        self.notes: list[str] = []
        self.fresh: list[bool] = []

    def started(self, experiment: Experiment, done_rounds: int) -> None:
        self.began.append(done_rounds)

    def noted(self, experiment: Experiment, note: str) -> None:
        self.notes.append(note)

    def round(self, experiment: Experiment, round: Round) -> None:
        self.rounds.append(round.round)
        self.act(round)

    def ended(self, experiment: Experiment, run: Run, fresh: bool) -> None:
        self.fresh.append(fresh)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def _numbers(store: Store, key: str) -> list[dict[str, Any]]:
    """A run's rounds without what was measured by the clock."""
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in store.rounds(key)]


def _final(store: Store, key: str) -> torch.Tensor:
    found = store.load(key)
    assert found is not None
    tensors, _ = found
    assert set(tensors) == {"w"}
    return tensors["w"]


def _assert_equals_the_straight_run(store: Store, experiment: Experiment, folder: Path) -> None:
    straight = Store(folder / "straight")
    (run,) = Runner(straight).run([experiment])
    assert run.status == "done"
    assert _numbers(store, experiment.key) == _numbers(straight, experiment.key)
    assert torch.equal(_final(store, experiment.key), _final(straight, experiment.key))
    straight.close()


# Finished runs


def test_a_finished_run_is_never_run_twice(store: Store) -> None:
    first, second = Ear(), Ear()
    (run,) = Runner(store, listener=first).run([FCUBE])
    (again,) = Runner(store, listener=second).run([FCUBE])
    assert (first.began, first.rounds, first.fresh) == ([0], [1, 2, 3, 4], [True])
    assert (second.began, second.rounds, second.fresh) == ([], [], [False])
    assert again == run


def test_one_experiment_given_twice_is_one_run(store: Store) -> None:
    ear = Ear()
    a, b = Runner(store, listener=ear).run([FCUBE, FCUBE])
    assert a == b and ear.fresh == [True, False]
    assert len(store.runs()) == 1


def test_a_finished_run_tells_what_it_came_to(store: Store) -> None:
    (run,) = Runner(store).run([replace(FCUBE, eval_every=3)])
    rows = store.rounds(run.key)
    assert run.status == "done" and run.reason is None
    assert [row["accuracy"] is not None for row in rows] == [False, False, True, True]
    assert run.summary["rounds"] == 4
    assert run.summary["accuracy"] == rows[-1]["accuracy"]
    assert run.summary["best_accuracy"] == max(row["accuracy"] for row in rows[2:])
    assert [row["train_samples"] for row in rows] == [4000] * 4
    assert Experiment.from_record(run.experiment).key == run.key


# Stopped runs


@pytest.mark.parametrize("experiment", [FCUBE, replace(DIGITS, algorithm=SCAFFOLD, participation=0.5)])
@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_run_goes_on_to_equal_the_straight_one(
    store: Store, tmp_path: Path, experiment: Experiment, after: int
) -> None:
    first = Runner(store)
    first.listener = Ear(lambda done: first.stop.set() if done.round == after else None)
    (stopped,) = first.run([experiment, replace(experiment, seed=9)])  # the second is not begun
    assert stopped.status == "stopped" and stopped.summary["rounds"] == after
    assert len(store.runs()) == 1
    ear = Ear()
    (done,) = Runner(store, listener=ear).run([experiment])
    assert done.status == "done"
    assert (ear.began, ear.rounds) == ([after], list(range(after + 1, 5)))
    _assert_equals_the_straight_run(store, experiment, tmp_path)


@pytest.mark.parametrize(
    ("algorithm", "clients"),
    [
        ("fedavg", 4),
        ("fedavg", 1),
        ("scaffold", 4),
        ("scaffold(variates=random-net)", 4),
        ("scaffold", 1),
        ("scaffold(variates=random-net)", 1),
    ],
)
def test_a_run_stopped_in_its_first_round_keeps_its_first_state(
    store: Store, tmp_path: Path, algorithm: str, clients: int
) -> None:
    """All that clients remember is still one row expanded to all; the file holds a row for each."""
    experiment = replace(FCUBE, algorithm=ALGORITHMS.parse(algorithm), clients=clients, split=parse("iid"))
    first = Runner(store)
    ear = Ear()
    ear.started = lambda experiment, done_rounds: first.stop.set()  # type: ignore[method-assign]
    first.listener = ear
    (stopped,) = first.run([experiment])
    assert (stopped.status, stopped.summary["rounds"]) == ("stopped", 0), stopped.reason
    found = store.load(experiment.key)
    assert found is not None
    tensors, number = found
    assert number == 0
    if "memory.c" in tensors:
        assert torch.equal(tensors["memory.c"], tensors["server.c"].expand(clients, -1))
    list(Runner(store).run([experiment]))
    _assert_equals_the_straight_run(store, experiment, tmp_path)


# Killed runs


def _copy(store: Store, folder: Path) -> None:
    """What a process that dies at this moment leaves behind."""
    (folder / "models").mkdir(parents=True)
    target = sqlite3.connect(folder / "runs.sqlite")
    store._db.backup(target)
    target.close()
    for path in (store.folder / "models").iterdir():
        shutil.copy(path, folder / "models")


@pytest.mark.parametrize("saved", [0, 2, 3])
@pytest.mark.parametrize("experiment", [FCUBE, replace(DIGITS, algorithm=SCAFFOLD, participation=0.5)])
def test_whatever_a_dead_process_leaves_is_gone_on_from(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiment: Experiment, saved: int
) -> None:
    """Three rounds are written, and the checkpoint may be older than they are, or missing."""
    monkeypatch.setattr(runner_module, "CHECKPOINT_SECONDS", -1.0)
    save = store.save
    monkeypatch.setattr(store, "save", lambda *a: save(*a) if a[-1] <= saved else None)
    ear = Ear(lambda done: _copy(store, tmp_path / "left") if done.round == 3 else None)
    list(Runner(store, listener=ear).run([experiment]))

    left, heard, kept = Store(tmp_path / "left"), Ear(), []
    assert len(left.rounds(experiment.key)) == 3
    heard.started = lambda e, done: kept.extend([done, len(left.rounds(e.key))])  # type: ignore[method-assign]
    (run,) = Runner(left, listener=heard).run([experiment])
    assert kept == [saved, saved]  # rows of rounds that are trained again are gone before that
    assert (run.status, heard.rounds) == ("done", list(range(saved + 1, 5)))
    _assert_equals_the_straight_run(left, experiment, tmp_path)
    left.close()


KILLED = """
    import os, signal, sys
    from noniid.experiments import runner
    from noniid.experiments.experiment import Experiment
    from noniid.results.store import Store

    class Ear(runner.Silent):
        def round(self, experiment, round):
            if round.round == 3:
                os.kill(os.getpid(), signal.SIGKILL)

    runner.CHECKPOINT_SECONDS = 0
    import json
    experiment = Experiment.from_record(json.loads(sys.argv[2]))
    list(runner.Runner(Store(sys.argv[1]), listener=Ear()).run([experiment]))
"""


@pytest.mark.slow
def test_a_killed_process_is_gone_on_from(tmp_path: Path) -> None:
    experiment = replace(DIGITS, algorithm=SCAFFOLD)
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "store")]
    process = subprocess.run([*command, json.dumps(experiment.record())], check=False)
    assert process.returncode == -signal.SIGKILL
    store, ear = Store(tmp_path / "store"), Ear()
    left = store.find(experiment.key)
    assert left is not None and left.status == "running"
    (run,) = Runner(store, listener=ear).run([experiment])
    assert (run.status, ear.began, ear.rounds) == ("done", [3], [4])
    _assert_equals_the_straight_run(store, experiment, tmp_path)
    store.close()


# Runs that cannot end well


@pytest.mark.parametrize("lr", [1e6, 1e30])
def test_a_run_that_diverges_is_recorded_with_its_round_and_the_next_goes_on(store: Store, lr: float) -> None:
    wild = replace(DIGITS, optim=SGD(lr))
    diverged, done = Runner(store).run([wild, FCUBE])
    assert (diverged.status, done.status) == ("diverged", "done")
    assert diverged.reason is not None
    assert diverged.reason.startswith(f"diverged in round {diverged.summary['rounds'] + 1}: ")
    assert diverged.reason.endswith("not finite")
    ear = Ear()
    (again,) = Runner(store, listener=ear).run([wild])
    assert again == diverged and ear.fresh == [False]


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (replace(DIGITS, split=parse("labels(11)")), "labels(11) asks for more labels than the 10 there are: lower k."),
        (replace(DIGITS, clients=2000), "1,442 samples cannot be split over 2,000 clients: use fewer clients."),
        (replace(DIGITS, data="digit"), "unknown data set 'digit': did you mean 'digits'?"),
        (replace(DIGITS, rounds=0), "rounds is 0: give 1 or more."),
        (replace(DIGITS, participation=0.0), "participation is 0: give a share of the clients above 0, up to 1."),
        (replace(DIGITS, optim=SGD(-1.0)), "lr is -1: give a learning rate of 0 or more."),
        (replace(DIGITS, algorithm=ALGORITHMS.parse("fedprox(-1)")), "fedprox's mu is -1: give 0 (FedAvg) or more."),
        (replace(DIGITS, engine="thread"), "unknown engine 'thread': did you mean 'threads'?"),
        (replace(DIGITS, device="tpu9"), "unknown device 'tpu9': use cpu or cuda."),
    ],
    ids=lambda value: "" if isinstance(value, Experiment) else value.split(":")[0][:30],
)
def test_a_run_that_cannot_be_is_recorded_with_its_sentence_and_the_next_goes_on(
    store: Store, broken: Experiment, sentence: str
) -> None:
    quick = replace(FCUBE, rounds=1)
    failed, done = Runner(store).run([broken, quick])
    assert (failed.status, done.status) == ("failed", "done")
    assert failed.reason is not None and failed.reason.startswith(sentence)
    ear = Ear()
    list(Runner(store, listener=ear).run([broken]))
    assert ear.fresh == [True]  # a failure may have been mended meanwhile, so it is tried again


def test_an_error_of_any_kind_fails_its_run_only(store: Store) -> None:
    def trip(done: Round) -> None:
        if done.state.w.numel() > 8:
            raise ZeroDivisionError("oh")

    failed, done = Runner(store, listener=Ear(trip)).run([DIGITS, FCUBE])
    assert (failed.status, failed.reason) == ("failed", "ZeroDivisionError: oh")
    assert done.status == "done"


def test_a_damaged_checkpoint_fails_its_run_only(store: Store) -> None:
    (store.folder / "models" / f"{FCUBE.key}.safetensors").write_bytes(b"birds")
    failed, done = Runner(store).run([FCUBE, replace(FCUBE, seed=1)])
    assert (failed.status, done.status) == ("failed", "done")
    assert failed.reason is not None and failed.reason.endswith("delete it to train that run anew.")


def test_a_run_that_another_process_is_at_is_passed_over(store: Store) -> None:
    quick, ear = replace(FCUBE, rounds=1), Ear()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as other:
        store.begin(quick.key, quick.record(), {})
        store._db.execute("UPDATE runs SET pid = ?", (other.pid,))
        held, done = Runner(store, listener=ear).run([quick, replace(quick, seed=1)])
        other.communicate()
    assert (held.status, held.pid, done.status) == ("running", other.pid, "done")
    assert ear.fresh == [False, True] and ear.began == [0]
    assert store.rounds(quick.key) == []


# Experiments

OTHERS: dict[str, Any] = {
    "data": "digits",
    "split": parse("iid"),
    "algorithm": ALGORITHMS.parse("fedprox"),
    "model": Linear(),
    "clients": 5,
    "participation": 0.5,
    "rounds": 51,
    "epochs": 2,
    "batch": 32,
    "optim": SGD(0.02),
    "augment": "crop-flip",
    "draws": "published",
    "eval_every": 2,
    "seed": 1,
    "engine": "reference",
    "device": "cuda",
    "steps": 7,
    "drop_last": True,
    "keep_optim": True,
    "lr_decay": 0.9,
    "bn": "local",
    "wrap": Stack.parse("topk(0.1)"),
    "precision": "bf16",
}
PLAIN = Experiment("adult", parse("dirichlet(0.5)"))


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Experiment)])
def test_another_value_of_any_field_is_another_key(name: str) -> None:
    other = replace(PLAIN, **{name: OTHERS[name]})
    assert other.key != PLAIN.key
    assert replace(other, **{name: getattr(PLAIN, name)}).key == PLAIN.key


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("split", ["iid", "labels(2, first=random)", "dirichlet(0.1, seed=2020) + noise(0.3, std)"])
def test_a_record_is_json_and_reads_back_to_the_same_experiment(text: str, split: str) -> None:
    experiment = replace(PLAIN, algorithm=ALGORITHMS.parse(text), split=parse(split), optim=SGD(1 / 3, 0.9, 1e-5))
    again = Experiment.from_record(json.loads(json.dumps(experiment.record())))
    assert again == experiment
    assert again.key == experiment.key


def test_every_field_reads_back() -> None:
    experiment = replace(PLAIN, **OTHERS)
    assert Experiment.from_record(json.loads(json.dumps(experiment.record()))) == experiment
    assert set(OTHERS) == {field.name for field in dataclasses.fields(Experiment)}


def test_later_fields_leave_older_keys_as_they_were() -> None:
    """Runs that were stored before a field existed are found again while it stands at its default."""
    later = {"steps", "drop_last", "keep_optim", "lr_decay", "bn", "wrap", "precision"}
    assert set(replace(PLAIN, **OTHERS).record()) - set(PLAIN.record()) == later
    assert Experiment("fmnist", parse("dirichlet(0.5)")).key == "856b82aff2b0"
    assert Experiment.from_record(PLAIN.record()) == PLAIN


def test_a_key_is_twelve_hexadecimal_digits() -> None:
    assert len(PLAIN.key) == 12 and int(PLAIN.key, 16) >= 0


@pytest.mark.slow
def test_a_key_is_the_same_in_every_process() -> None:
    program = "import sys, json\nfrom noniid.experiments.experiment import Experiment\n"
    program += "print(Experiment.from_record(json.loads(sys.argv[1])).key)"
    command = [sys.executable, "-c", program, json.dumps(PLAIN.record())]
    environment = {"PYTHONHASHSEED": "12345"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == PLAIN.key


def test_the_model_left_open_is_the_data_sets_own() -> None:
    assert replace(PLAIN, model=Experiment("adult", parse("iid")).model) == PLAIN
    assert Experiment("fcube", parse("iid")).model == Linear()


@pytest.mark.parametrize("clients", [1, 9, 10, 11, 1000])
def test_the_worst_decile_is_that_of_the_sorted_clients(clients: int) -> None:
    accuracies = torch.rand(clients, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    known = accuracies.sort().values[: -(-clients // 10)]
    assert torch.equal(course._worst_decile(accuracies), known)


def test_why_clients_train_one_by_one_is_told_and_kept(store: Store) -> None:
    (experiment,) = request("digits", model="lstm(4)", engine="batched", rounds=2, epochs=1, clients=3)
    ear = Ear()
    (run,) = Runner(store, listener=ear).run([experiment])
    assert len(ear.notes) == 1 and ear.notes[0].startswith("clients train one by one: torch.vmap cannot map")
    assert run.summary["note"] == ear.notes[0]
    (quiet,) = Runner(store).run([replace(experiment, engine="threads")])
    assert "note" not in quiet.summary


def test_seeds_and_numbers_that_train_side_by_side_are_runs_of_their_own(store: Store, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"model": "mlp", "rounds": 3, "epochs": 1, "clients": 4, "participation": 0.5}
    experiments = request("digits", [], ["fedprox(0.01)", "scaffold"], seeds=3, engine="batched", **asked)
    assert [len(each) for each in runner_module.families(experiments)] == [3, 3]
    ear = Ear()
    side_by_side = list(Runner(store, listener=ear).run(experiments))
    assert [run.status for run in side_by_side] == ["done"] * 6 and ear.fresh == [True] * 6
    other = Store(tmp_path / "alone")
    for experiment, run in zip(experiments, side_by_side, strict=True):
        assert run.key == experiment.key and run.summary["rounds"] == 3
        (alone,) = Runner(other).run([experiment])
        assert alone.summary["accuracy"] == run.summary["accuracy"]
        a, b = (each.load(experiment.key) for each in (store, other))
        assert a is not None and b is not None and torch.equal(a[0]["w"], b[0]["w"])
    assert list(Runner(store).run(experiments)) == side_by_side  # nothing is trained twice


def test_runs_side_by_side_are_stopped_and_gone_on_from_together(store: Store, tmp_path: Path) -> None:
    experiments = request("digits", model="mlp", rounds=4, epochs=1, clients=3, seeds=3, engine="batched")
    running = Runner(store)

    def stop(done: Round) -> None:
        if done.round == 2:
            running.stop.set()

    running.listener = Ear(stop)
    stopped = list(running.run(experiments))
    assert {run.status for run in stopped} == {"stopped"}
    done = list(Runner(store).run(experiments))
    straight = list(Runner(Store(tmp_path / "straight")).run(experiments))
    assert [run.summary["accuracy"] for run in done] == [run.summary["accuracy"] for run in straight]
    assert [run.status for run in done] == ["done"] * 3


def test_one_of_several_side_by_side_that_fails_leaves_the_others_alone(store: Store) -> None:
    good, bad = request("digits", model="mlp", rounds=2, epochs=1, clients=3, seeds=2, engine="batched")
    bad = replace(bad, split=parse("labels(50)"))
    fine, failed = Runner(store)._train([good, bad]), store.find(bad.key)
    assert fine == {good.key, bad.key} and failed is not None and failed.status == "failed"
    known = store.find(good.key)
    assert known is not None and known.status == "done"
