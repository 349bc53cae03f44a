"""Runs that train side by side end as they would alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from noniid import models
from noniid.algorithms import ALGORITHMS
from noniid.engine import Carry, Diverged, Schedule, Stopped, begin, simulate, start_engine
from noniid.engine.jointly import Cell, simulate_together
from noniid.laws.problems import _kept as kept
from noniid.optim import SGD
from tests.contract import problems
from tests.contract.variants import DEFAULTS
from tests.engine.devices import GPU

MLP = models.parse("mlp(torch)")
DATA = problems.dataset()


def cell(text: str, seed: int, rounds: int = 3, device: str = "cpu", net: Any = MLP, **work: Any) -> Cell:
    """One run of a seed; all share one data set, as the cells of a table do."""
    algorithm = ALGORITHMS.parse(text)
    task = problems.for_algorithm(algorithm, problems.task(net, seed=seed, device=device, **work))
    task = replace(task, dataset=DATA)
    engine: Any = start_engine("batched", task)
    members = problems.federation(task, 1 if algorithm.pooled else 3, engine.ask)
    w = problems.initial(task) * (1 + 0.1 * seed)
    state = begin(algorithm, w, members, Carry.of(task, engine.layout))
    return Cell(engine, algorithm, state, members, Schedule(rounds, members.cohort))


def together(cells: list[Cell]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in cells]
    for place, item in simulate_together(cells):
        found[place].append(kept(item) if hasattr(item, "state") else item)
    for each in cells:
        each.engine.close()
    return found


def alone(each: Cell) -> list[Any]:
    done = [kept(done) for done in simulate(*each)]
    each.engine.close()
    return done


def joint_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many clients trained side by side, wave by wave."""
    from noniid.engine.batched import Batched

    sizes: list[int] = []
    usual = Batched.train

    def watched(self: Any, algorithm: Any, wave: Any, tasks: Any = None) -> Any:
        sizes.append(len(wave.ids))
        return usual(self, algorithm, wave, tasks)

    monkeypatch.setattr(Batched, "train", watched)
    return sizes


@pytest.mark.parametrize("text", DEFAULTS)
def test_seeds_side_by_side_give_the_bits_of_each_alone(text: str) -> None:
    for mine, own in zip(together([cell(text, seed) for seed in range(3)]), range(3), strict=True):
        known = alone(cell(text, own))
        problems.same(mine[-1].state, known[-1].state)
        assert [each.train_loss for each in mine] == [each.train_loss for each in known]
        assert mine[-1].evaluation.accuracy == known[-1].evaluation.accuracy


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("text", ["fedavg", "scaffold", "fedprox", "moon"])
@pytest.mark.parametrize("net", [None, MLP], ids=["convolution and batchnorm", "dense"])
def test_seeds_side_by_side_on_a_gpu(text: str, net: Any, device: str) -> None:
    cells = [cell(text, seed, device=device, net=net) for seed in range(3)]
    for mine, own in zip(together(cells), range(3), strict=True):
        known = alone(cell(text, own, device=device, net=net))
        problems.same(mine[-1].state, known[-1].state, rtol=1e-3, atol=1e-4)


def test_they_do_train_as_one_wave_but_for_compiled_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = joint_sizes(monkeypatch)
    together([cell("fedprox", seed) for seed in range(3)])
    assert sizes == [9, 9, 9]
    sizes.clear()
    together([cell("fedavg", seed) for seed in range(3)])
    assert sizes == [3] * 9


@pytest.mark.parametrize(
    "texts", [("fedprox(0)", "fedprox(0.5)", "fedprox(3)"), ("moon(mu=0)", "moon(mu=5)"), ("rfedavg_plus(0)", "rfedavg_plus(0.5)")]
)  # fmt: skip
def test_cells_that_differ_in_numbers_are_rows_too(texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = joint_sizes(monkeypatch)
    found = together([cell(text, 0) for text in texts])
    assert sizes == [3 * len(texts)] * 3
    for mine, text in zip(found, texts, strict=True):
        problems.same(mine[-1].state, alone(cell(text, 0))[-1].state, rtol=1e-5, atol=1e-6)
    assert not torch.equal(found[0][-1].state.w, found[-1][-1].state.w)


def test_what_differs_in_more_trains_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = joint_sizes(monkeypatch)
    cells = [cell("fedavg", 0), cell("fedavg", 1, optim=SGD(0.5)), cell("fedprox", 0), cell("fedavg", 0, batch=4)]
    found = together(cells)
    assert sizes == [3] * 12
    problems.same(found[1][-1].state, alone(cell("fedavg", 1, optim=SGD(0.5)))[-1].state)


def test_a_run_that_ends_or_diverges_does_not_hold_up_the_others() -> None:
    found = together(
        [cell("fedavg", 0), cell("fedavg", 1, rounds=1), cell("fedavg", 2, optim=SGD(1e30)), cell("fedavg", 3)]
    )
    assert [len(each) for each in found[:2]] == [3, 1]
    assert isinstance(found[2][-1], Diverged)
    for seed in (0, 3):
        problems.same(found[seed][-1].state, alone(cell("fedavg", seed))[-1].state)


def test_all_stop_within_a_step() -> None:
    cells = [cell("fedavg", seed) for seed in range(2)]
    for each in cells:
        each.engine.stop.set()
    assert all(isinstance(each[-1], Stopped) for each in together(cells))


def test_giving_up_half_way_ends_the_threads() -> None:
    cells = [cell("fedavg", seed, rounds=50) for seed in range(2)]
    running = simulate_together(cells)
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert all(each.engine.stop.is_set() for each in cells)
