"""The presets switch every departure of the published code, and published draws give its index lists."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from noniid.algorithms import ALGORITHMS
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.scaffold import Scaffold
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import place
from noniid.experiments.published import PRESETS
from noniid.split import Dirichlet, Labels, Noise, Recipe, parse
from tests.split import published

both_presets = pytest.mark.parametrize("preset", PRESETS)


def _experiment(data: str = "digits", split: str = "iid", algorithm: str = "fedavg", **fields) -> Experiment:
    return Experiment(data, parse(split), ALGORITHMS.parse(algorithm), **fields)


# Presets


@both_presets
def test_label_dirichlet_is_one_partition_for_all_trials(preset: str) -> None:
    split = PRESETS[preset](_experiment(split="dirichlet(0.5, min_size=10)")).split
    assert split == Recipe(Dirichlet(0.5, seed=2020))


@both_presets
@pytest.mark.parametrize("data", ["adult", "rcv1", "covtype"])
@pytest.mark.parametrize("k", [1, 2])
def test_two_class_tables_run_one_label_whatever_was_asked_for(preset: str, data: str, k: int) -> None:
    assert PRESETS[preset](_experiment(data, f"labels({k})")).split.placement == Labels(1)


@both_presets
@pytest.mark.parametrize("data", ["mnist", "cifar10", "fcube"])
def test_other_data_keep_their_labels(preset: str, data: str) -> None:
    assert PRESETS[preset](_experiment(data, "labels(2)")).split.placement == Labels(2)


@both_presets
def test_noise_is_a_standard_deviation_and_the_test_set_is_noisy_too(preset: str) -> None:
    split = PRESETS[preset](_experiment(split="iid + noise(0.1)")).split
    assert split.shifts == (Noise(0.1, scale="std", test=True),)
    levels = [split.shifts[0].level(i, 10) for i in range(10)]
    assert levels == pytest.approx([0.1 * i / 9 for i in range(10)])


@both_presets
@pytest.mark.parametrize("option", ["i", "ii"])
def test_scaffold_as_published(preset: str, option: str) -> None:
    algorithm = PRESETS[preset](_experiment(algorithm=f"scaffold({option})")).algorithm
    assert algorithm == Scaffold(
        option="i" if option == "i" else "ii", variates="random-net", share="cohort", correct="after-step"
    )


def test_fednova_as_published_counts_steps_in_v1_and_momentum_in_v2() -> None:
    usual = _experiment(algorithm="fednova")
    assert PRESETS["niid-bench-v1"](usual).algorithm == FedNova(steps="count", weights="batches")
    assert PRESETS["niid-bench"](usual).algorithm == FedNova(steps="effective", weights="batches")


@both_presets
@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox(0.1)"])
@pytest.mark.parametrize("split", ["iid", "quantity(0.5)", "fcube"])
def test_all_else_stays_as_it_is(preset: str, algorithm: str, split: str) -> None:
    usual = _experiment(split=split, algorithm=algorithm, rounds=7, seed=3, participation=0.5)
    assert PRESETS[preset](usual) == replace(usual, draws="published")


@both_presets
@pytest.mark.parametrize("split", ["iid", "labels(2)", "dirichlet(0.5) + noise(0.1)"])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fednova"])
def test_a_preset_is_fixed_under_itself(preset: str, split: str, algorithm: str) -> None:
    once = PRESETS[preset](_experiment(split=split, algorithm=algorithm))
    assert PRESETS[preset](once) == once
    assert once.key != _experiment(split=split, algorithm=algorithm).key


# Draws


def _held(experiment: Experiment) -> list[list[int]]:
    return [part.tolist() for part in place(experiment).split.indices]


@pytest.mark.parametrize("seed", [0, 2])
def test_published_draws_on_fcube_are_points_then_partition(seed: int) -> None:
    usual = _experiment("fcube", "iid", clients=4, draws="published", seed=seed)
    python, legacy = random.Random(seed), np.random.RandomState(seed)
    train, _, test, _ = published.fcube_points(python)
    expected = [part.tolist() for part in np.array_split(legacy.permutation(4000), 4)]
    assert _held(usual) == expected
    assert _held(usual) == expected  # a second time: drawn data must not come from a cache
    dataset = place(usual).dataset
    np.testing.assert_array_equal(dataset.train.batch(torch.arange(4000)), np.float32(train))
    np.testing.assert_array_equal(dataset.test.batch(torch.arange(1000)), np.float32(test))


@pytest.mark.parametrize("seed", [0, 2])
def test_published_labels_of_fcube_follow_its_points(seed: int) -> None:
    """Both draw from Python's stream, so the order of division and partition shows."""
    python, legacy = random.Random(seed), published.Legacy(seed)
    _, y, _, _ = published.fcube_points(legacy.py)
    published.fcube_points(python)
    assert legacy.py.getstate() == python.getstate()
    experiment = _experiment("fcube", "labels(1)", clients=4, draws="published", seed=seed)
    expected = published.quantity_of_labels(np.array(y), 4, 2, 1, legacy)
    assert _held(experiment) == [list(part) for part in expected]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("split", ["iid", "labels(2)", "dirichlet(0.5)", "dirichlet(0.5, seed=2020)", "quantity(0.5)"])
def test_published_draws_on_fixed_data_begin_with_the_partition(split: str, seed: int) -> None:
    placed = place(_experiment("digits", split, clients=10, draws="published", seed=seed))
    labels = placed.dataset.train.y.numpy()
    legacy = published.Legacy(2020 if "seed" in split else seed)
    expected = {
        "iid": lambda: published.homo(labels, 10, legacy),
        "labels": lambda: published.quantity_of_labels(labels, 10, 10, 2, legacy),
        "dirichlet": lambda: published.label_dirichlet(labels, 10, 10, 0.5, legacy),
        "quantity": lambda: published.quantity_dirichlet(labels, 10, 0.5, legacy),
    }[split.partition("(")[0]]()
    assert [part.tolist() for part in placed.split.indices] == [list(part) for part in expected]


@pytest.mark.parametrize("data", ["digits", "fcube"])
def test_our_own_draws_give_division_and_split_a_stream_each(data: str) -> None:
    own = _experiment(data, clients=4)
    assert _held(own) == _held(own)
    assert _held(own) != _held(replace(own, seed=1))
    assert _held(own) != _held(replace(own, draws="published"))
