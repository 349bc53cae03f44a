"""The benchmarks compare equal work: as many steps, from the same weights, to the same model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

import harness
from hand_loop import Job, OneProcess
from nets import mlp
from noniid.data import CATALOGUE
from noniid.engine import evaluate, start_engine
from noniid.experiments.prepare import Ready, prepare
from setting import experiment, generated, table_experiment
from training_speed import Contender, Engine, contenders, first_round

ROUNDS = 3
TINY = "tiny-patterns"
Prepare = Callable[[int], Ready]


@pytest.fixture
def tiny() -> Iterator[Prepare]:
    """The benchmarks' federation on few images, with this many local epochs."""
    generated(TINY, 640, 200)
    try:
        yield lambda epochs: prepare(replace(experiment(quick=True, epochs=epochs), data=TINY, batch=8))
    finally:
        for name in (TINY, "generated-tenth"):
            CATALOGUE.pop(name, None)


class Trained(NamedTuple):
    steps: int  # of the first round
    w: torch.Tensor  # after all rounds
    accuracy: float


def trained(ready: Ready, entries: dict[str, Contender], rounds: int) -> dict[str, Trained]:
    judge = start_engine("threads", ready.task, 1)
    results: dict[str, Trained] = {}
    for name, each in entries.items():
        steps = first_round(each)
        for _ in range(rounds - 1):
            each.round()
        results[name] = Trained(steps, each.w.clone(), evaluate(judge, each.w).accuracy)
        each.close()
    judge.close()
    expected = int(ready.task.steps(torch.arange(ready.task.num_clients)).sum())
    assert {name: result.steps for name, result in results.items()} == dict.fromkeys(entries, expected)
    return results


def test_hand_loop_and_engine_end_at_the_same_model(tiny: Prepare):
    """Over few steps, that is: over many, rounding grows into a difference of some percent of the movement."""
    ready = tiny(1)
    entries: dict[str, Contender] = {
        "threads": Engine(ready, "threads", 2),
        "no kernels": Engine(ready, "threads", 2, kernels=False),
        "hand": OneProcess(Job.of(ready.task, ready.w), 1),
        "hand, channels last": OneProcess(Job.of(ready.task, ready.w), 1, channels_last=True),
    }
    results = trained(ready, entries, rounds=2)
    w = results["threads"].w
    apart = {name: float((each.w - w).norm() / (w - ready.w).norm()) for name, each in results.items()}
    assert max(apart.values()) < 1e-3, apart


def test_stacked_clients_end_at_the_hand_loops_model():
    try:
        ready = prepare(table_experiment(quick=True, epochs=1))
    finally:
        for name in ("generated-rows", "generated-tenth"):
            CATALOGUE.pop(name, None)
    entries: dict[str, Contender] = {
        "batched": Engine(ready, "batched", 2),
        "hand": OneProcess(Job.of(ready.task, ready.w, mlp), 1),
    }
    results = trained(ready, entries, rounds=2)
    w = results["batched"].w
    assert float((results["hand"].w - w).norm() / (w - ready.w).norm()) < 1e-3


@pytest.mark.slow
def test_all_contenders_learn_as_much(tiny: Prepare):
    ready = tiny(5)
    results = trained(ready, contenders(ready, 2, reference=True), ROUNDS)
    accuracies = {name: each.accuracy for name, each in results.items()}
    assert min(accuracies.values()) > 0.8, "where nothing is learned, equal accuracy says nothing"
    harness.check_equal_work({name: each.steps for name, each in results.items()}, accuracies)


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


def test_a_kept_table_names_the_commit_and_no_place_and_joins_older_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    older = tmp_path / "speed" / "2020-01-01-101500-abc.json"
    older.parent.mkdir()
    older.write_text("{}")
    table = harness.Table("Speed", ("contender", "samples/s", "ratio"), [("a", 1234.5, 1.0), ("b", None, 2)])
    harness.report("speed", table, harness.environment(), save=True)
    shown = capsys.readouterr().out
    assert "1,234" in shown
    first, newest = harness.kept()["speed"]
    assert first == {}
    assert newest["rows"] == [["a", 1234.5, 1.0], ["b", None, 2]]
    assert {"commit", "torch", "noniid", "cpu"} <= newest["environment"].keys() and newest["date"]
    assert str(harness.ROOT) not in json.dumps(newest)


def test_every_kept_run_is_named_by_when_and_of_what():
    for path in harness.RESULTS.glob("*/*.json"):
        run = json.loads(path.read_text())
        assert re.fullmatch(rf"{run['date']}-\d{{6}}-{re.escape(run['environment']['commit'])}", path.stem), path
        assert run["benchmark"] == path.parent.name
    assert not list(harness.RESULTS.glob("*.json"))
