"""Rivals are given what we have, do what we do, and are timed as we are; who cannot run has a row that says why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import harness
import rival
import rivals
import training_speed
from hand_loop import Job, OneProcess
from nets import NETS
from noniid.data import CATALOGUE
from noniid.experiments.prepare import Ready, prepare
from rival import RIVALS, Process, Rival, write_job
from setting import device_experiment, experiment, generated, table_experiment
from training_speed import Engine, race, round_samples, round_steps

BENCHMARKS = Path(harness.__file__).parent
FAKE = Path(__file__).parent / "fake_rival.py"
TINY = "tiny-patterns"


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    """Few images, and enough epochs to learn them in a few rounds."""
    generated(TINY, 640, 200)
    try:
        yield prepare(replace(experiment(quick=True, epochs=8), data=TINY, batch=8))
    finally:
        for name in (TINY, "generated-tenth"):
            CATALOGUE.pop(name, None)


@pytest.fixture
def fake(ready: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Process]]:
    started: list[Process] = []

    def start(wrong: str) -> Process:
        monkeypatch.setenv("FAKE", wrong)
        folder = tmp_path / f"job {len(started)}"
        expected = write_job(ready, folder, "simple-cnn", 1)
        started.append(Process([sys.executable, str(FAKE)], folder, "fake", expected))
        return started[-1]

    yield start
    for each in started:
        each.close()


def against(ready: Ready, other: training_speed.Contender) -> dict[str, training_speed.Contender]:
    return {"by hand": OneProcess(Job.of(ready.task, ready.w), 1), "Fake": other}


def test_a_rival_does_the_same_work(ready: Ready, fake: Callable[[str], Process]):
    raced = race(ready, against(ready, fake("")), 3)
    assert raced["Fake"].steps == raced["by hand"].steps == round_steps(ready)
    assert min(each.accuracy for each in raced.values()) > training_speed.learned_from(ready)


@pytest.mark.parametrize(
    ("wrong", "named"), [("a step less", "numbers of steps"), ("learns nothing", "reached different accuracies")]
)
def test_a_rival_that_does_other_work_is_refused(ready: Ready, fake: Callable[[str], Process], wrong: str, named: str):
    with pytest.raises(harness.Unfair, match=named):
        race(ready, against(ready, fake(wrong)), 3)


def test_a_rival_that_read_other_data_is_refused(fake: Callable[[str], Process]):
    with pytest.raises(harness.Unfair, match="other data"):
        fake("other data")


def test_a_rival_that_cannot_start_says_why(fake: Callable[[str], Process]):
    with pytest.raises(harness.Broken, match="no module of that name"):
        fake("cannot start")


def test_a_rival_that_breaks_is_left_out_and_the_others_race_on(ready: Ready, fake: Callable[[str], Process]):
    assert race(ready, against(ready, fake("breaks")), 1).keys() == {"by hand"}


def test_what_a_rival_is_given_is_what_we_train_on(ready: Ready, tmp_path: Path):
    write_job(ready, tmp_path / "job", "simple-cnn", 1)
    given = rival_job(tmp_path / "job")
    task = ready.task
    held = [own.numpy() for own in given.clients]
    assert all(np.array_equal(a, b) for a, b in zip(held, task.split.indices, strict=True))
    assert torch.equal(given.x, task.dataset.train.batch(torch.arange(len(task.dataset.train))))
    assert torch.equal(given.y, task.dataset.train.y) and torch.equal(given.w, ready.w)
    optim = task.work.optim
    assert given.optim == {"lr": optim.lr, "momentum": 0.9, "weight_decay": 1e-5}
    assert (given.epochs, given.batch_size, given.cohort) == (8, 8, 10)


def rival_job(folder: Path):
    from rival_drivers.driver import Job as Given

    return Given(str(folder))


def test_no_ones_first_round_is_timed_and_every_other_is_timed_alone(ready: Ready, monkeypatch: pytest.MonkeyPatch):
    events: list[str] = []
    monkeypatch.setattr(harness, "time", SimpleNamespace(perf_counter=lambda: events.append("tick") or 0.0))

    class Told:
        w = ready.w

        def __init__(self, name: str):
            events.append(f"{name} starts")
            self._name = name

        def round(self) -> int:
            events.append(self._name)
            return round_steps(ready)

        def close(self) -> None:
            events.append(f"{self._name} ends")

    race(ready, {name: Told(name) for name in ("ours", "Rival")}, 2)
    turn = ["tick", "ours", "tick", "tick", "Rival", "tick"]
    before = ["ours starts", "Rival starts", "ours", "Rival"]
    assert events == [*before, *turn, *turn, "Rival ends", "ours ends"]


@pytest.mark.parametrize("name", rivals.SETTINGS)
def test_every_setting_counts_its_work_alike(name: str):
    """The hand loop takes the engines' steps in every setting, cohorts included, and ends at their model."""
    setting = rivals.SETTINGS[name]
    try:
        made = prepare(setting.make(True))
        hand = OneProcess(Job.of(made.task, made.w, NETS[setting.model], made.federation.cohort), 1)
        engine = Engine(made, setting.engines[-1], 1)
        assert training_speed.first_round(hand) == training_speed.first_round(engine) == round_steps(made)
        moved = float((hand.w - engine.w).norm() / (hand.w - made.w).norm())
        engine.close()
        assert moved < 1e-3
        assert round_samples(made) >= made.task.work.batch_size * (round_steps(made) - made.federation.cohort * 5)
    finally:
        for drawn in ("generated-tenth", "generated-rows"):
            CATALOGUE.pop(drawn, None)


def test_cohorts_of_unequal_clients_are_refused(ready: Ready):
    partial = ready._replace(federation=ready.federation._replace(cohort=5))
    with pytest.raises(harness.Unfair, match="differ in size"):
        round_steps(partial)


def test_who_is_not_installed_has_a_row_that_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rival, "HOMES", tmp_path)
    broken = tmp_path / RIVALS[0].package
    broken.mkdir()
    (broken / "failed").write_text("not installed: no such package\n")
    raced = {"by hand": training_speed.Raced(2.0, 2.5, 10, 0.5), "noniid": training_speed.Raced(1.0, 1.0, 10, 0.5)}
    remarks = {each.title: each.missing or "" for each in RIVALS}
    table = rivals.rows(raced, remarks, 100)
    assert table[:2] == [("by hand", 50.0, 40.0, 1.0, 10, 0.5, ""), ("noniid", 100.0, 100.0, 2.0, 10, 0.5, "")]
    assert table[2] == (RIVALS[0].title, None, None, None, None, None, "not installed: no such package")
    assert {row[0] for row in table[2:]} == {each.title for each in RIVALS}
    assert all("rivals.py --install" in row[-1] for row in table[3:])


def test_who_cannot_be_started_has_a_row_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rival, "HOMES", tmp_path)
    for each in RIVALS[:2]:
        (tmp_path / each.package).mkdir()
        (tmp_path / each.package / "installed").touch()

    def start(chosen: Rival) -> Process:
        raise harness.Broken(f"{chosen.title} ended: no memory")

    entries, remarks = rivals.visiting(start, [RIVALS[0].name])
    assert entries == {} and remarks.keys() == {each.title for each in RIVALS}
    assert remarks[RIVALS[0].title] == "Flower ended: no memory" and remarks[RIVALS[1].title] == "not asked for"
    assert "--install" in remarks[RIVALS[2].title]


def test_a_failed_installation_is_kept_as_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rival, "HOMES", tmp_path)
    refused = subprocess.CompletedProcess([], 1, "", "Looking\nERROR: No matching distribution found for nobody\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    nobody = Rival("nobody", "Nobody", ("nobody",))
    rival.install(nobody)
    assert nobody.missing == "not installed: ERROR: No matching distribution found for nobody"


@pytest.mark.slow
@pytest.mark.parametrize("chosen", RIVALS, ids=lambda each: each.name)
def test_the_true_rivals_do_the_same_work(chosen: Rival, ready: Ready, tmp_path: Path):
    if chosen.missing:
        pytest.skip(chosen.missing)
    expected = write_job(ready, tmp_path / "job", "simple-cnn", 2)
    raced = race(ready, against(ready, Process.of(chosen, tmp_path / "job", expected, 2)), 3)
    assert raced["Fake"].steps == round_steps(ready)
    assert raced["Fake"].accuracy > training_speed.learned_from(ready)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["cost.py", "--figure", "cost.png"],
        ["roofline.py"],
        ["rivals.py", "--rivals", "none"],
        ["population.py"],
        ["cross_device.py"],
        ["algorithm_overhead.py"],
    ],
    ids=lambda w: w[0],
)
def test_new_benchmarks_run(words: list[str], tmp_path: Path):
    command = [sys.executable, "-W", "error", str(BENCHMARKS / words[0]), "--quick", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "|" in done.stdout
    assert "--figure" not in words or (tmp_path / "cost.png").stat().st_size > 10_000


def test_quick_work_is_of_the_settings_kind():
    try:
        assert device_experiment(quick=True).participation < 1 and device_experiment(quick=True).batch == 10
        assert table_experiment(quick=True, epochs=5).epochs == 5
    finally:
        for drawn in ("generated-tenth", "generated-rows"):
            CATALOGUE.pop(drawn, None)
