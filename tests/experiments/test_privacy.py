"""epsilon against formulas worked out here, and what a run's summary says of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import comb

from noniid.algorithms import ALGORITHMS
from noniid.algorithms.wrappers import Clip, Gaussian, Stack, Uniform
from noniid.errors import BadInput
from noniid.experiments.experiment import Experiment
from noniid.experiments.privacy import check_statistics, default_delta, epsilon, spent
from noniid.experiments.runner import Runner
from noniid.optim import SGD
from noniid.results.store import Store
from noniid.rows import Layout
from noniid.split import parse
from tests.contract import problems

FCUBE = Experiment("fcube", parse("fcube"), clients=4, rounds=3, epochs=1, batch=128, optim=SGD(0.1, 0.9))
NOISY = replace(FCUBE, wrap=Stack.parse("uniform + clip(1) + gaussian(2)"), participation=0.5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


# By formula


def _converted(renyi: Callable[[float], float], orders: Any, delta: float) -> float:
    """epsilon from Renyi divergences: proposition 12 of Canonne, Kamath and Steinke (2020)."""
    return min(renyi(a) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a in orders)


def _poisson(multiplier: float, q: float, order: int) -> float:
    """One step's divergence at a whole order: Mironov, Talwar and Zhang (2019), section 3.3."""
    k = np.arange(order + 1)
    terms = comb(order, k) * (1 - q) ** (order - k) * q**k * np.exp((k * k - k) / (2 * multiplier**2))
    return float(np.log(terms.sum())) / (order - 1)


def test_the_example_of_abadi_and_others() -> None:
    """q = 0.01, sigma = 4, 10,000 steps, delta = 1e-5: the moments accountant says 1.26; its conversion is by now
    replaced by a sharper one."""
    steps, delta, orders = 10_000, 1e-5, range(2, 60)
    moments = min(steps * _poisson(4, 0.01, a) + math.log(1 / delta) / (a - 1) for a in orders)
    assert moments == pytest.approx(1.26, abs=0.005)
    sharper = _converted(lambda a: steps * _poisson(4, 0.01, int(a)), orders, delta)
    found = epsilon(4, 100, 10_000, steps, delta, sampling="poisson")
    assert found == pytest.approx(sharper, rel=1e-3) and found < moments


@pytest.mark.parametrize(("sampling", "sensitivity"), [("fixed", 2), ("poisson", 1)])
@pytest.mark.parametrize(("multiplier", "rounds"), [(1, 1), (1, 50), (5, 10), (20, 200)])
def test_with_everyone_it_is_plain_composition(sampling: Any, sensitivity: int, multiplier: float, rounds: int) -> None:
    """Order a has the divergence a s^2 / (2 z^2) a round; one client replaced moves the sum by twice the norm."""
    orders = np.concatenate([np.arange(1.01, 10, 0.01), np.arange(10, 2000)])
    best = _converted(lambda a: rounds * a * sensitivity**2 / (2 * multiplier**2), orders, 1e-5)
    found = epsilon(multiplier, 10, 10, rounds, 1e-5, sampling)
    assert best * (1 - 1e-9) <= found <= best * 1.02


def _true_delta(multiplier: float, q: float, at: float) -> float:
    """What one round leaves open at this epsilon where all others stand at 1 and a client goes from 1 to -1."""
    x = np.linspace(-1 - 12 * multiplier, 1 + 12 * multiplier, 200_001)
    here, there = (stats.norm.pdf(x, mean, multiplier) for mean in (1, -1))
    drawn = (1 - q) * here + q * there
    excess = [np.maximum(a - math.exp(at) * b, 0) for a, b in ((here, drawn), (drawn, here))]
    return max(float(np.trapezoid(each, x)) for each in excess)


@pytest.mark.parametrize("multiplier", [0.7, 1.0, 3.0])
@pytest.mark.parametrize(("cohort", "clients"), [(1, 2), (1, 10), (3, 4), (5, 5)])
def test_it_holds_for_a_federation_that_gives_much_away(multiplier: float, cohort: int, clients: int) -> None:
    for delta in (1e-2, 1e-5):
        found = epsilon(multiplier, cohort, clients, 1, delta)
        assert _true_delta(multiplier, cohort / clients, found) <= delta
    # Were a client replaced as cheap as one added, this law would be broken: it can see the difference.
    if cohort == clients:
        assert _true_delta(multiplier, 1, epsilon(multiplier, cohort, clients, 1, 1e-5, "poisson")) > 1e-5


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_it_falls_with_noise_and_delta_and_grows_with_rounds_and_cohorts(sampling: Any) -> None:
    usual = {"multiplier": 4.0, "cohort": 10, "num_clients": 100, "rounds": 50, "delta": 1e-5, "sampling": sampling}
    ladders: dict[str, tuple[Any, ...]] = {
        "multiplier": (16.0, 8.0, 4.0, 2.0, 1.0),
        "delta": (1e-2, 1e-5, 1e-9),
        "rounds": (0, 1, 10, 100, 1000),
        "cohort": (1, 2, 10, 50, 90, 100),
        "num_clients": (1000, 100, 20, 10),
    }
    for name, values in ladders.items():
        found = [epsilon(**{**usual, name: value}) for value in values]
        assert found == sorted(found) and found[0] < found[-1], name
    assert epsilon(0, 1, 2, 1, 1e-5) == math.inf and epsilon(0, 1, 2, 0, 1e-5) == 0


def test_drawing_a_cohort_never_costs_privacy() -> None:
    for multiplier in (0.1, 0.5, 1, 3):
        assert epsilon(multiplier, 1, 2, 50, 1e-5) <= epsilon(multiplier, 2, 2, 50, 1e-5)


@pytest.mark.parametrize(
    "given", [(-1, 1, 2, 1, 0.1), (1, 0, 2, 1, 0.1), (1, 3, 2, 1, 0.1), (1, 1, 2, -1, 0.1), (1, 1, 2, 1, 0), (1, 1, 2, 1, 1)]
)  # fmt: skip
def test_what_makes_no_sense_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(BadInput, match="epsilon takes a multiplier >= 0"):
        epsilon(*given)


# In a run's summary


def test_a_run_with_noise_tells_what_it_spent(store: Store) -> None:
    (run,) = Runner(store).run([NOISY])
    assert run.status == "done", run.reason
    assert run.summary["delta"] == default_delta(4) == 1e-5
    assert run.summary["epsilon"] == epsilon(2, 2, 4, 3, 1e-5)
    assert "no_epsilon" not in run.summary and run.summary["rounds"] == 3


def test_a_run_without_noise_says_nothing_of_it(store: Store) -> None:
    for wrap in ("", "clip(1)", "uniform + topk(0.5)"):
        (run,) = Runner(store).run([replace(FCUBE, wrap=Stack.parse(wrap), rounds=1)])
        assert run.status == "done" and not {"epsilon", "delta", "no_epsilon"} & set(run.summary)


@pytest.mark.parametrize("name", ["scaffold", "fednova", "local", "centralised"])
def test_no_guarantee_is_claimed_where_none_is_known(name: str) -> None:
    assert set(spent(replace(NOISY, algorithm=ALGORITHMS[name]()), 3)) == {"no_epsilon"}


def test_no_noise_hides_nothing() -> None:
    silent = Stack.parse("uniform + clip(1) + gaussian(0)")
    assert spent(replace(NOISY, wrap=silent), 3) == {"no_epsilon": "noise of multiplier 0 hides nothing"}


def test_without_the_extra_a_run_is_done_and_says_what_to_install(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(BadInput, match=r"pip install 'noniid\[privacy\]'"):
        epsilon(1, 1, 2, 1, 0.1)
    (run,) = Runner(store).run([NOISY])
    assert run.status == "done" and "epsilon" not in run.summary and "noniid[privacy]" in run.summary["no_epsilon"]


def test_a_run_that_fails_before_its_first_round_has_spent_nothing(store: Store) -> None:
    for wrong in (replace(NOISY, participation=2.0), replace(NOISY, wrap=Stack((Clip(1.0), Gaussian(1.0))))):
        (run,) = Runner(store).run([wrong])
        assert run.status == "failed" and "epsilon" not in run.summary
    assert run.reason is not None and "add uniform" in run.reason


# Statistics


@pytest.mark.parametrize(("bn", "fine"), [("average", False), ("keep-statistics-local", True), ("local", True)])
def test_statistics_do_not_travel_beside_noise(bn: Any, fine: bool) -> None:
    module = problems.SmallNet()
    layout = Layout.of(module)
    noisy = Stack((Uniform(), Clip(1.0), Gaussian(1.0)))
    check_statistics(Stack(), module, layout, bn)
    if fine:
        check_statistics(noisy, module, layout, bn)
    else:
        with pytest.raises(BadInput, match="bn=keep-statistics-local"):
            check_statistics(noisy, module, layout, bn)
