"""Every algorithm, in every named value, equals its plain-loop twin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from noniid import models
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.adaptive import FedAdagrad, FedAdam, FedYogi
from noniid.algorithms.bounds import Alone, Centralised
from noniid.algorithms.fedasync import FedAsync
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.fedavgm import FedAvgM
from noniid.algorithms.fedbn import FedBN
from noniid.algorithms.feddyn import FedDyn
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.fedprox import FedProx
from noniid.algorithms.moon import Moon
from noniid.algorithms.qfedavg import QFedAvg
from noniid.algorithms.radfed import RADFed, RADFedA, RADFedIS, RADFedM, RADFedP
from noniid.algorithms.rfedavg import RFedAvg, RFedAvgPlus
from noniid.algorithms.scaffold import Scaffold
from noniid.engine import Carry, Task
from noniid.optim import SGD, Adam, RMSProp
from noniid.rows import Layout
from tests.contract import problems
from tests.contract.variants import VARIANTS
from tests.reference import features, loops, personal, travelling
from tests.reference.local import Outcome, Values, cut_by_hand, values, zeros

ROUNDS = 3
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


class Plain(nn.Module):
    """No BatchNorm: the papers' boxes speak of parameters only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.last = nn.Linear(3 * 6 * 6, problems.NUM_CLASSES)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.conv(x)).flatten(1)
        return self.last(hidden), hidden


def _scaffold(task: Task, cohort: int, rounds: int, *, variates: str, **how: str) -> Outcome:
    net = models.fresh(task.model, task.dataset.input_shape, problems.NUM_CLASSES, 2)
    first = zeros(values(net)) if variates == "zero" else values(net)
    return loops.scaffold(task, cohort, rounds, variates=first, **how)


def _adaptive(kind: str) -> Callable[..., Outcome]:
    return lambda *what, **hyper: loops.adaptive(*what, kind=kind, **hyper)


# A twin takes the task, the cohort, the rounds, and the algorithm's hyper-parameters under their own names.
TWINS: dict[type[Algorithm], Callable[..., Outcome]] = {
    FedAvg: loops.fedavg,
    FedProx: loops.fedprox,
    Scaffold: _scaffold,
    FedNova: loops.fednova,
    FedAvgM: loops.fedavgm,
    FedAdagrad: _adaptive("adagrad"),
    FedAdam: _adaptive("adam"),
    FedYogi: _adaptive("yogi"),
    FedAsync: travelling.fedasync,
    RADFed: travelling.radfed,
    RADFedP: travelling.radfed_p,
    RADFedM: travelling.radfed_m,
    RADFedA: travelling.radfed_a,
    RADFedIS: travelling.radfed_is,
    RFedAvg: features.rfedavg,
    RFedAvgPlus: features.rfedavg_plus,
    QFedAvg: loops.qfedavg,
    FedDyn: loops.feddyn,
    Moon: features.moon,
    FedBN: personal.fedbn,
    Alone: loops.alone,
    Centralised: loops.centralised,
}

# Values with which what is special shows within a few rounds.
TELLING: dict[type[Algorithm], Mapping[str, Any]] = {
    FedProx: {"mu": 1.0},
    FedAdagrad: {"lr": 0.05, "v_init": 1e-3},
    FedAdam: {"lr": 0.05, "v_init": 1e-3},
    FedYogi: {"lr": 0.05, "v_init": 1e-3},
    FedAsync: {"max_staleness": 3, "b": 1.0, "rho": 0.5},
    RADFed: {"redistributions": 2},
    RADFedP: {"redistributions": 2, "mu": 1.0},
    RADFedM: {"redistributions": 2, "alpha": 0.6},
    RADFedA: {"redistributions": 2, "lr": 0.05, "v_init": 1e-3},
    RADFedIS: {"redistributions": 2},
    RFedAvg: {"lam": 0.5},
    RFedAvgPlus: {"lam": 0.5},
    FedDyn: {"alpha": 0.1},
    Moon: {"mu": 2.0},
}

MORE = [
    "fedavgm(nesterov=false)",
    "fedavgm(0.5)",
    "fedadagrad(0.05, 0.5, v_init=0.001)",
    "fedasync(0.9, max_staleness=0)",
    "fedasync(decay=hinge, a=10, b=0)",
    "radfed(1)",
    "radfed(3)",
    "radfed_is(2, gamma=none)",
    "radfed_is(1, gamma=0.3)",
    "rfedavg(0.5, privacy_sigma=2, clip=0.5)",
    "rfedavg_plus(0.5, privacy_sigma=2, clip=0.5)",
    "rfedavg_plus(0.5, others=cohort, privacy_sigma=2, clip=50)",
    "qfedavg(0)",
    "qfedavg(0.3)",
    "qfedavg(0.3, variant=rfedavg-code)",
    "feddyn(1)",
    "moon(1, temperature=0.1)",
]


def _telling(text: str) -> Algorithm:
    algorithm = ALGORITHMS.parse(text)
    return replace(algorithm, **TELLING.get(type(algorithm), {}))


def _equal(algorithm: Algorithm, task: Task, cohort: int | None, twin: Callable[..., Outcome] | None = None) -> None:
    """The last state, the models that would be tested, and what is known of each client."""
    given = problems.for_algorithm(algorithm, task)
    hyper = dataclasses.asdict(algorithm)
    theirs = (twin or TWINS[type(algorithm)])(given, cohort or given.num_clients, ROUNDS, **hyper)
    state = problems.run(algorithm, task, rounds=ROUNDS, cohort=cohort)[-1].state
    layout = Layout.of(task.model)
    _same(layout, state.w, theirs.w, "w")
    tested = Carry.of(given, layout).evaluated(algorithm.evaluated(state), state)
    expected = theirs.tested or [theirs.w]
    rows = tested if tested.dim() == 2 else [tested]
    for i, (row, one) in enumerate(zip(rows, expected, strict=True)):
        _same(layout, row, one, f"tested {i}")
    for name, kept in (theirs.memory or {}).items():
        torch.testing.assert_close(state.memory[name], torch.tensor(kept).unsqueeze(1), **CLOSE)


def _same(layout: Layout, row: torch.Tensor, expected: Values, what: str) -> None:
    named = dict(layout.named(row))
    for name, value in expected.items():
        torch.testing.assert_close(named[name], value, **CLOSE, msg=lambda m, n=name: f"{what}, {n}: {m}")


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("text", VARIANTS)
def test_equals_its_twin(text: str, cohort: int | None) -> None:
    algorithm = _telling(text)
    net = problems.SmallNet() if isinstance(algorithm, FedBN) else Plain()
    _equal(algorithm, problems.task(net), cohort)


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("text", MORE)
def test_equals_its_twin_with_other_values(text: str, cohort: int | None) -> None:
    _equal(ALGORITHMS.parse(text), problems.task(Plain()), cohort)


@pytest.mark.parametrize("decay", ["constant", "poly", "hinge"])
def test_arrivals_of_a_cohort_between(decay: str) -> None:
    _equal(_telling(f"fedasync(decay={decay})"), problems.task(Plain()), 4)


def test_every_algorithm_has_a_twin() -> None:
    assert set(TWINS) == set(ALGORITHMS.values())


# BatchNorm


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("text", ["fedavg", "scaffold", "fednova", "fedavgm", "fedasync", "radfed", "moon", "local"])
def test_equals_its_twin_with_batchnorm(text: str, cohort: int | None) -> None:
    """Statistics are averaged, by whatever rule the parameters go."""
    _equal(_telling(text), problems.task(), cohort)


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("bn", ["keep-statistics-local", "local"])
def test_batchnorm_that_stays_with_its_client(bn: str, cohort: int | None) -> None:
    def twin(task: Task, cohort: int, rounds: int) -> Outcome:
        return personal.fedbn(task, cohort, rounds, statistics_only=bn != "local")

    _equal(FedAvg(), problems.task(bn=bn), cohort, twin)


# Local work

# A generous eps for Adam: where a gradient is all but zero its step is the sign, and so the last bit, of a sum.
WORK: dict[str, dict[str, Any]] = {
    "sgd, nesterov": {"optim": SGD(0.05, 0.9, 1e-3, nesterov=True)},
    "rmsprop": {"optim": RMSProp(0.003, weight_decay=1e-3)},
    "rmsprop, kept": {"optim": RMSProp(0.003, alpha=0.9), "keep_optim": True},
    "adam": {"optim": Adam(0.003, eps=1e-4, weight_decay=1e-3)},
    "adam, kept": {"optim": Adam(0.003, beta2=0.99, eps=1e-4), "keep_optim": True},
    "momentum, kept": {"keep_optim": True},
    "momentum, kept, decaying rate": {"keep_optim": True, "lr_decay": 0.5},
    "decaying rate": {"lr_decay": 0.5},
    "few steps": {"steps": 3},
    "many steps": {"steps": 11},
    "full batches": {"drop_last": True},
    "full batches, steps": {"drop_last": True, "steps": 11},
}


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("kind", WORK)
def test_local_work_equals_its_twin(kind: str, cohort: int | None) -> None:
    _equal(FedAvg(), problems.task(Plain(), **WORK[kind]), cohort, personal.fedavg_at_work)


@pytest.mark.parametrize("work", [{}, *({"drop_last": a, "steps": b} for a in (False, True) for b in (None, 1, 11))])
def test_batches_are_cut_as_by_hand(work: dict[str, Any]) -> None:
    task = problems.task(Plain(), **work)
    for client in range(task.num_clients):
        ours, by_hand = list(task.batches(client, 2)), list(cut_by_hand(task, client, 2))
        assert len(ours) == len(by_hand) == int(task.steps(torch.tensor([client])))
        assert sum(len(batch.y) for batch in ours) == int(task.samples(torch.tensor([client])))
        for one, other in zip(ours, by_hand, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("text", ["fednova", "scaffold"])
def test_gradients_are_counted_under_nesterov(text: str) -> None:
    _equal(_telling(text), problems.task(Plain(), optim=SGD(0.05, 0.9, nesterov=True)), None)


@pytest.mark.parametrize(
    "text", ["scaffold", "scaffold(correct=after-step)", "qfedavg", "qfedavg(variant=rfedavg-code)"]
)
def test_plain_sgd(text: str) -> None:
    """The papers' own optimiser."""
    _equal(_telling(text), problems.task(Plain(), optim=SGD(0.05)), 2)


# The two forms of rFedAvg's distance


def test_all_pairs_and_their_mean_have_one_gradient() -> None:
    g = torch.Generator().manual_seed(0)
    others = list(torch.randn(7, 5, generator=g))
    gradients = []
    for distance in (features.pairwise, features.to_the_mean):
        batch = torch.randn(4, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
        distance(batch, others).backward()
        gradients.append(batch.grad)
    torch.testing.assert_close(*gradients)


def test_pooled_data_are_everyones_once() -> None:
    task = problems.task(Plain())
    pooled = problems.for_algorithm(Centralised(), task)
    assert pooled.num_clients == 1
    assert sorted(pooled.split.indices[0]) == sorted(i for held in task.split.indices for i in held)
