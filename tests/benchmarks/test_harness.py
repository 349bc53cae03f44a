"""The benchmarks compare equal work: as many steps, from the same weights, to the same model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

import harness
from hand_loop import Job, OneProcess, Processes
from noniid.data import CATALOGUE
from noniid.engine import evaluate, start_engine
from noniid.experiments.prepare import Ready, prepare
from setting import experiment, generated
from training_speed import Contender, Engine, first_round

ROUNDS = 3
TINY = "tiny-patterns"


@pytest.fixture
def ready() -> Iterator[Ready]:
    generated(TINY, 640, 200)
    try:
        yield prepare(replace(experiment(quick=True, epochs=5), data=TINY, batch=8))
    finally:
        for name in (TINY, "generated-tenth"):
            CATALOGUE.pop(name, None)


def judged(contender: Contender, ready: Ready) -> tuple[int, torch.Tensor, float]:
    """Steps of the first round, the model after ROUNDS, its accuracy."""
    judge = start_engine("threads", ready.task, 1)
    try:
        steps = first_round(contender)
        for _ in range(ROUNDS - 1):
            contender.round()
        return steps, contender.w.clone(), evaluate(judge, contender.w).accuracy
    finally:
        contender.close()
        judge.close()


def same_work(ready: Ready, entries: dict[str, Contender]) -> None:
    results = {name: judged(each, ready) for name, each in entries.items()}
    harness.check_equal_work({n: r[0] for n, r in results.items()}, {n: r[2] for n, r in results.items()})
    steps, w, accuracy = next(iter(results.values()))
    assert steps == int(ready.task.steps(torch.arange(ready.task.num_clients)).sum())
    assert accuracy > 0.8, "where nothing is learned, equal accuracy says nothing"
    moved = (w - ready.w).norm()
    for name, (_, other, _) in results.items():
        assert (other - w).norm() < 0.01 * moved, f"{name} ended at another model"


def test_hand_loop_and_engines_do_the_same_work(ready: Ready):
    entries: dict[str, Contender] = {
        "threads": Engine(ready, "threads", 2),
        "no kernels": Engine(ready, "threads", 2, kernels=False),
        "reference": Engine(ready, "reference", 1),
        "hand": OneProcess(Job.of(ready.task, ready.w), 1),
        "hand, channels last": OneProcess(Job.of(ready.task, ready.w), 1, channels_last=True),
    }
    same_work(ready, entries)


@pytest.mark.slow
def test_hand_loop_in_processes_does_the_same_work(ready: Ready):
    entries: dict[str, Contender] = {
        "threads": Engine(ready, "threads", 2),
        "processes": Processes(Job.of(ready.task, ready.w), 2),
        "processes, channels last": Processes(Job.of(ready.task, ready.w), 2, channels_last=True),
    }
    same_work(ready, entries)


@pytest.mark.parametrize(
    ("steps", "accuracies"),
    [({"a": 10, "b": 9}, {"a": 0.5, "b": 0.5}), ({"a": 10, "b": 10}, {"a": 0.5, "b": 0.54})],
)
def test_unequal_work_is_refused(steps: dict[str, int], accuracies: dict[str, float]):
    with pytest.raises(harness.Unfair):
        harness.check_equal_work(steps, accuracies)


def test_repetitions_take_turns():
    order: list[str] = []
    seconds = harness.interleave({name: lambda name=name: order.append(name) for name in "abc"}, 2)
    assert order == list("abcabc")
    assert [len(taken) for taken in seconds.values()] == [2, 2, 2]


def test_a_kept_table_names_the_commit_and_no_place(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    table = harness.Table("Speed", ("contender", "samples/s", "ratio"), [("a", 1234.5, 1.0), ("b", None, 2)])
    harness.report("speed", table, harness.environment(), save=True)
    shown, text = capsys.readouterr().out, (tmp_path / "speed.json").read_text()
    assert "1,234" in shown
    kept = json.loads(text)
    assert kept["rows"] == [["a", 1234.5, 1.0], ["b", None, 2]]
    assert {"commit", "torch", "noniid", "cpu"} <= kept["environment"].keys() and kept["date"]
    assert str(harness.ROOT) not in text
