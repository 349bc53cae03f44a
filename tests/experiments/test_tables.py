"""A table run again: the right cells, as the right experiments, found in the store and honestly compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from noniid import split
from noniid.algorithms import ALGORITHMS
from noniid.errors import BadInput
from noniid.experiments import tables
from noniid.experiments.experiment import Experiment
from noniid.experiments.published import PRESETS
from noniid.experiments.runner import Runner
from noniid.experiments.tables import (
    Selected,
    compared,
    estimate_seconds,
    experiments_for,
    listing,
    plan,
    select,
)
from noniid.optim import SGD
from noniid.papers.niid_bench import PAPER, TABLE_2, TABLE_3, TABLE_4, TABLE_5, protocol
from noniid.results.store import Store

PUBLISHED = PRESETS["niid-bench"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def one(data: str, split: str, algorithm: str, table: Sequence[object] = TABLE_3) -> Selected:
    [found] = select(table, [data], [split], [algorithm])
    return found


def made(data: str, split: str, algorithm: str, preset: tables.Preset = PUBLISHED) -> Experiment:
    [experiment] = experiments_for(one(data, split, algorithm), protocol(data), [0], preset)
    return experiment


def no_trial(experiment: Experiment) -> float | None:
    raise AssertionError(f"{experiment} should not be tried")


def put(store: Store, experiment: Experiment, accuracy: float = 0.5, rate: float | None = 1000.0) -> None:
    store.begin(experiment.key, experiment.record(), {})
    store.end(experiment.key, "done", {"accuracy": accuracy, "train_samples_per_second": rate})


# Which cells


def test_no_patterns_take_the_whole_table_in_its_order():
    assert [each.cell for each in select(TABLE_3, [], [], [])] == list(TABLE_3)
    [blanks] = select(TABLE_5, [], ["quantity(0.5)+noise*"], ["fedavg"])
    assert blanks.cell.split == "quantity(0.5) + noise(0.1)", "blanks do not count"


def test_patterns_add_up_and_the_table_keeps_its_order():
    found = select(TABLE_3, ["fmnist", "adult"], ["quantity*", "dirichlet(0.5)"], ["scaffold", "fed[an]*"])
    splits = [
        ("fmnist", "dirichlet(0.5)"), ("adult", "dirichlet(0.5)"),
        ("fmnist", "quantity(0.5)"), ("adult", "quantity(0.5)"),
    ]  # fmt: skip
    algorithms = ("fedavg", "scaffold", "fednova")
    assert [each.names for each in found] == [(*names, a) for names in splits for a in algorithms]


def test_arguments_select_by_name_and_go_before_patterns():
    found = select(TABLE_3, ["fcube"], ["iid"], ["fed*", "fedprox(0.1)", "fedprox(mu=1)", "fedprox(0.1)"])
    assert [each.algorithm for each in found] == ["fedavg", "fedprox(0.1)", "fedprox(mu=1)", "fednova"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ((["fmist"], [], []), "unknown data set for this table 'fmist': did you mean 'fmnist'"),
        ((["mnist", "*-100"], [], []), r"'\*-100'"),
        (([], ["dirichlet(0.1)"], []), r"split .* 'dirichlet\(0.1\)': did you mean 'dirichlet\(0.5\)'"),
        (([], [], ["fedproxy(0.1)"]), "algorithm .* 'fedproxy': did you mean 'fedprox'"),
        ((["fcube"], ["dirichlet*"], []), "no such split for fcube: there it has fcube, iid"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused(patterns: tuple[list[str], ...], message: str):
    with pytest.raises(BadInput, match=message):
        select(TABLE_3, *patterns)


@pytest.mark.parametrize("table", [TABLE_2, TABLE_4])
def test_tables_of_sizes_and_costs_cannot_be_run(table: Sequence[object]):
    with pytest.raises(BadInput, match="no accuracies"):
        select(table, [], [], [])


# As what experiments


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox(0.01)", "scaffold", "fednova"])
def test_stored_runs_of_the_preset_are_found_again(algorithm: str):
    recipe, sgd = split.parse("dirichlet(0.5)"), SGD(0.01, 0.9, 1e-5)
    named = ALGORITHMS.parse(algorithm)
    by_hand = Experiment("fmnist", recipe, named, clients=10, rounds=50, epochs=10, batch=64, optim=sgd)
    assert made("fmnist", "dirichlet(0.5)", algorithm).key == PUBLISHED(by_hand).key
    assert made("fmnist", "dirichlet(0.5)", algorithm, None).key == by_hand.key


def test_the_protocol_is_that_of_the_data_set_for_every_seed():
    found = experiments_for(one("adult", "iid", "fedavg"), protocol("adult"), [2, 0], PUBLISHED)
    assert found == [replace(found[1], seed=2), replace(found[0], seed=0)]
    assert made("rcv1", "iid", "fedavg").optim == SGD(0.1, 0.9, 1e-5)
    assert made("cifar10", "iid", "fedavg").augment == "crop-flip"
    fcube = made("fcube", "fcube", "fedavg").record()
    assert (fcube["clients"], fcube["model"], fcube["split"]) == (4, "linear", "fcube")


def test_presets_differ_by_version_and_from_the_correct_algorithm():
    presets = (None, PUBLISHED, PRESETS["niid-bench-v1"])
    texts = [ALGORITHMS.write(made("adult", "iid", "fednova", preset).algorithm) for preset in presets]
    assert texts[0] == "fednova"
    assert len(set(texts)) == 3


def test_an_algorithm_given_with_arguments_runs_as_given():
    assert made("adult", "iid", "scaffold(option=i)").algorithm == ALGORITHMS.parse("scaffold(option=i)")
    assert made("adult", "iid", "scaffold").algorithm != ALGORITHMS.parse("scaffold")
    assert made("adult", "iid", "scaffold(option=i)").draws == "published"


def test_fedprox_says_where_its_mu_comes_from():
    chosen = [one(*names, "fedprox") for names in (("cifar10", "dirichlet(0.5)"), ("cifar10", "iid"))]
    chosen.append(one("cifar10", "dirichlet(0.5)", "fedprox(0.1)"))
    plans = plan(chosen, PAPER.protocol, [0], PUBLISHED)
    assert [ALGORITHMS.write(each.experiments[0].algorithm) for each in plans] == [
        ALGORITHMS.write(ALGORITHMS.parse(f"fedprox({mu})")) for mu in (0.001, 0.01, 0.1)
    ]
    notes = ["mu=0.001 as published", "mu=0.01 is ours: the published choice is not told", ""]
    assert [each.note for each in plans] == notes


def test_every_cell_becomes_experiments_or_is_not_available():
    for table in (TABLE_3, TABLE_5):
        plans = plan(select(table, [], [], []), PAPER.protocol, range(3), PUBLISHED)
        assert {each.selected.cell.data for each in plans if not each.experiments} <= {"femnist"}
        assert all(len(each.experiments) == 3 for each in plans if each.experiments)


def test_what_is_not_available_is_listed_and_does_not_fail(store: Store):
    plans = plan(select(TABLE_3, ["femnist"], ["writers"], ["fedavg"]), PAPER.protocol, [0], PUBLISHED)
    [listed], [line] = listing(plans, store, "v2", no_trial), compared(plans, store, "v2")
    assert (listed.stored, listed.wanted, listed.seconds) == (0, 0, None)
    assert "not available" in listed.note
    assert line.row()[3:] == ("99.4 ± 0.0", "not run", "-", "no run", "0", listed.note)


# How long


def test_time_is_samples_over_the_speed_of_stored_runs(store: Store):
    experiment = made("fcube", "fcube", "fedavg")  # 50 rounds of 10 epochs over 4,000 samples
    for seed, rate in enumerate((100.0, 1000.0, 4000.0), start=1):
        put(store, replace(experiment, seed=seed), rate=rate)
    put(store, made("fcube", "fcube", "scaffold"), rate=1.0)
    assert estimate_seconds(experiment, store, no_trial) == 50 * 10 * 4000 / 1000
    half = replace(experiment, participation=0.5)
    assert estimate_seconds(half, store, no_trial) == 50 * 10 * 2000 / 1000


def test_other_algorithms_speak_where_the_same_is_silent(store: Store):
    put(store, made("fcube", "fcube", "scaffold"), rate=2000.0)
    put(store, replace(made("fcube", "fcube", "fednova"), batch=8), rate=1.0)
    put(store, replace(made("fcube", "fcube", "fednova"), engine="reference"), rate=2.0)
    assert estimate_seconds(made("fcube", "fcube", "fedavg"), store, no_trial) == 1000


def test_what_is_done_takes_no_time_and_what_is_begun_the_rest(store: Store):
    begun, done = made("fcube", "iid", "fedavg"), made("fcube", "fcube", "fedavg")
    store.begin(begun.key, begun.record(), {})
    for number in range(1, 21):
        row = {"round": number, "train_samples": 40_000, "train_seconds": 4.0, "seconds": 5.0}
        store.add_round(begun.key, row)
    assert estimate_seconds(begun, store, no_trial) == pytest.approx(30 * 4.0)
    put(store, done, rate=None)
    assert estimate_seconds(done, store, no_trial) == 0


def test_a_trial_is_asked_only_where_the_store_is_silent(store: Store):
    experiment = made("fcube", "fcube", "fedavg")
    assert estimate_seconds(experiment, store, lambda _: 500.0) == 4000
    assert estimate_seconds(experiment, store, lambda _: None) is None


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_a_trial_measures_without_touching_the_experiment(algorithm: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "TRIAL_SECONDS", 0.02)
    tables._trial_rate.cache_clear()
    experiment = made("fcube", "fcube", algorithm)
    rate = tables.measure_rate(experiment)
    assert rate is not None and rate > 0
    assert tables.measure_rate(replace(experiment, seed=1)) == rate, "one trial for all seeds"
    tables._trial_rate.cache_clear()


def test_no_trial_fetches_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NONIID_DATA", str(tmp_path))
    assert tables.measure_rate(made("mnist", "iid", "fedavg")) is None
    assert list(tmp_path.iterdir()) == []


def test_a_listing_counts_stored_runs_and_leaves_time_open_where_unknown(store: Store):
    plans = plan(select(TABLE_3, ["fcube"], ["iid"], ["fedavg", "fedprox"]), PAPER.protocol, range(3), PUBLISHED)
    put(store, plans[0].experiments[1], rate=None)
    first, second = listing(plans, store, "v1", lambda _: None)
    assert (first.stored, first.wanted, first.seconds) == (1, 3, None)
    put(store, plans[0].experiments[0], rate=1000.0)
    first, second = listing(plans, store, "v1", no_trial)
    assert (first.claimed, first.stored, first.seconds) == ("99.7 ± 0.1", 2, 2000)
    assert (second.stored, second.seconds) == (0, 6000)


# What it comes to


def test_diverged_and_failed_runs_are_shown_and_not_averaged(store: Store):
    plans = plan([one("adult", "quantity(0.5)", "fednova")], PAPER.protocol, range(5), PUBLISHED)
    experiments = plans[0].experiments
    put(store, experiments[0], accuracy=0.42)
    put(store, experiments[1], accuracy=0.44)
    for experiment, status in zip(experiments[2:4], ("diverged", "failed"), strict=True):
        store.begin(experiment.key, experiment.record(), {})
        store.end(experiment.key, status, {"accuracy": 0.99}, f"it {status}")
    [line] = compared(plans, store, "v2")
    assert line.measured == "43.0 ± 1.4; 1 diverged, 1 failed, 1 not run"
    assert (line.claimed, line.runs, line.verdict) == ("43.2 ± 33.9", 2, "within")
    assert line.difference == pytest.approx(-0.2)
    assert line.note == "it diverged; it failed"


def test_versions_claim_differently(store: Store):
    plans = plan([one("cifar10", "quantity(0.5)", "fednova")], PAPER.protocol, [0], PUBLISHED)
    put(store, plans[0].experiments[0], accuracy=0.70)
    [v1], [v2] = compared(plans, store, "v1"), compared(plans, store, "v2")
    assert (v1.claimed, v1.verdict) == ("24.4 ± 15.3", "above")
    assert (v2.claimed, v2.verdict) == ("10.0 ± 0.0", "above")


def test_cells_run_and_come_back_compared(store: Store):
    short = replace(protocol("fcube"), rounds=1, epochs=1)
    plans = plan(select(TABLE_3, ["fcube"], ["fcube"], ["fed*"]), lambda data: short, range(2), PUBLISHED)
    runs = list(Runner(store).run(experiment for each in plans for experiment in each.experiments))
    assert [run.status for run in runs] == ["done"] * 6
    lines = compared(plans, store, "v2")
    assert [line.algorithm for line in lines] == ["fedavg", "fedprox", "fednova"]
    mean = 50 * (runs[0].summary["accuracy"] + runs[1].summary["accuracy"])
    assert lines[0].measured.startswith(f"{mean:.1f} ± ")
    assert lines[0].difference == pytest.approx(mean - 99.8)
    assert [(each.stored, each.seconds) for each in listing(plans, store, "v2", no_trial)] == [(2, 0)] * 3
