"""Wrappers around every registered algorithm, each at its defaults."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from noniid.algorithms import ALGORITHMS, Algorithm, State, Update, Wave
from noniid.engine import Round, begin
from noniid.split import Split
from tests.contract import problems
from tests.contract.problems import FAST

STACKS = ["clip(0.05)", "uniform + clip(1) + gaussian(0.1)", "topk(0.1)", "quantise(4)", "topk(0.1) + quantise(4)"]
# What changes nothing, beside a stack of which that is plain.
NEUTRAL = {
    "clip(1e6)": "",
    "topk(1)": "",
    "power(1)": "",
    "uniform + clip(1e6) + gaussian(0, norm=1e6)": "uniform",
}
# The small model by hand: a convolution, BatchNorm, a dense layer. FedBN keeps BatchNorm.
CONVOLUTION, NORM, DENSE = 3 * 9 + 3, 3 + 3, 4 * 108 + 4
each_algorithm = pytest.mark.parametrize("name", ALGORITHMS)
each_stack = pytest.mark.parametrize("stack", STACKS)


@functools.cache
def _run(name: str, stack: str, workers: int = 1, engine: str = "threads") -> list[Round]:
    """Two rounds of one epoch with four of five clients."""
    task = problems.task(epochs=1, batch=32, wrap=stack)
    return problems.run(ALGORITHMS[name](), task, rounds=2, cohort=4, workers=workers, engine=engine)


def _tensors(state: State) -> list[Tensor]:
    return [state.w, *state.server.values(), *state.memory.values()]


def _sends(name: str) -> bool:
    task = problems.for_algorithm(ALGORITHMS[name](), problems.task())
    algorithm = ALGORITHMS[name]()
    members = problems.federation(task, 1 if algorithm.pooled else 4)
    return bool(algorithm.traffic(begin(algorithm, problems.initial(task), members))[1])


@each_algorithm
@each_stack
def test_training_goes_on(name: str, stack: str) -> None:
    for done in _run(name, stack):
        assert all(bool(torch.isfinite(tensor).all()) for tensor in _tensors(done.state))
        assert math.isfinite(done.train_loss)


@each_algorithm
@each_stack
def test_same_seed_same_bits_for_any_number_of_workers(name: str, stack: str) -> None:
    for one, three in zip(_run(name, stack), _run(name, stack, workers=3), strict=True):
        problems.same(one.state, three.state)


@each_algorithm
@pytest.mark.parametrize("stack", ["topk(0.1) + quantise(4)"])
@pytest.mark.parametrize("engine", FAST)
def test_all_engines_wrap_alike(name: str, stack: str, engine: str) -> None:
    """Up to the few values that rounding error puts on the other side of a coin or of the largest tenth."""
    a, b = (_run(name, stack, engine=each)[0].state.w for each in (engine, "reference"))
    assert float((a - b).norm()) <= 0.2 * float((a - problems.initial(problems.task())).norm()) + 1e-5


@each_algorithm
@each_stack
def test_what_is_sent_is_changed_and_where_nothing_is_nothing_is(name: str, stack: str) -> None:
    plain, wrapped = _run(name, "")[-1], _run(name, stack)[-1]
    if _sends(name):
        pairs = zip(_tensors(plain.state), _tensors(wrapped.state), strict=True)
        assert any(float((a.double() - b.double()).norm()) > 1e-3 for a, b in pairs)
    else:
        problems.same(plain.state, wrapped.state)
        assert wrapped.bytes_per_client == 0


@each_algorithm
@pytest.mark.parametrize("stack", NEUTRAL)
def test_a_neutral_wrapper_changes_no_bit(name: str, stack: str) -> None:
    problems.same(_run(name, stack)[-1].state, _run(name, NEUTRAL[stack])[-1].state)


@each_algorithm
@each_stack
def test_bytes_shrink_as_counted_by_hand(name: str, stack: str) -> None:
    values = CONVOLUTION + DENSE + (0 if ALGORITHMS[name].bn == "local" else NORM)
    kept = round(0.1 * values)
    model = {
        "topk(0.1)": 8 * kept,
        "quantise(4)": math.ceil(values / 2) + 4,
        "topk(0.1) + quantise(4)": math.ceil(kept / 2) + 4 * kept + 4,
    }.get(stack, 4 * values)
    for plain, wrapped in zip(_run(name, ""), _run(name, stack), strict=True):
        expected = plain.bytes_per_client - 4 * values + model if _sends(name) else 0
        assert wrapped.bytes_per_client == expected


@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
@pytest.mark.parametrize("bn", ["keep-statistics-local", "local"])
def test_values_that_stay_with_clients_are_neither_wrapped_nor_paid_for(name: str, bn: Any) -> None:
    task = problems.task(epochs=1, batch=32, bn=bn, wrap="uniform + clip(1) + gaussian(1)")
    first, (done,) = problems.initial(task), problems.run(ALGORITHMS[name](), task, rounds=1)
    own = slice(CONVOLUTION, CONVOLUTION + NORM)
    assert torch.equal(done.state.w[own], first[own]) == (bn == "local")
    statistics = slice(CONVOLUTION + NORM + DENSE, None)
    assert torch.equal(done.state.w[statistics], first[statistics])


@pytest.mark.parametrize("stack", STACKS)
def test_one_client_alone(stack: str) -> None:
    split = Split((problems.unequal_split(problems.dataset()).indices[4],))
    task = problems.task(epochs=1, split=split, wrap=stack)
    (done,) = problems.run(ALGORITHMS["fedavg"](), task, rounds=1)
    moved = float((done.state.w - problems.initial(task))[: CONVOLUTION + NORM + DENSE].norm())
    assert moved > 0 and (stack != "clip(0.05)" or moved == pytest.approx(0.05, rel=1e-4))


# What noise can hide


class _Asked(Exception):
    """A client was asked for more than its movement."""


class _Silent:
    """An `Ask` that answers nothing."""

    def __getattr__(self, name: str) -> Any:
        raise _Asked


def _updates(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Algorithm, list[tuple[State, Wave]]]:
    """What a run of two rounds with equal weights hands to `update`."""
    seen: list[tuple[State, Wave]] = []
    update = ALGORITHMS[name].update

    def noted(self: Algorithm, state: State, wave: Wave) -> Update:
        seen.append((state, wave))
        return update(self, state, wave)

    with monkeypatch.context() as patched:
        patched.setattr(ALGORITHMS[name], "update", noted)
        problems.run(ALGORITHMS[name](), problems.task(epochs=1, batch=32, wrap="uniform"), rounds=2, cohort=4)
    return ALGORITHMS[name](), seen


def _only_the_mean_counts(algorithm: Algorithm, state: State, wave: Wave) -> bool:
    """Whether all that is kept stays the same if clients' models change and their mean does not."""
    z = torch.randn(wave.end.shape, generator=torch.Generator().manual_seed(0))
    other = wave._replace(end=wave.end + z - z.mean(0), ask=_Silent())
    try:
        a, b = (algorithm.update(state, each) for each in (wave._replace(ask=_Silent()), other))
    except _Asked:
        return False
    close = functools.partial(torch.allclose, rtol=1e-3, atol=1e-4)
    return close(a.w, b.w) and all(close(a.server[k], b.server[k]) for k in a.server) and not a.memory


@each_algorithm
def test_an_algorithm_that_says_so_keeps_only_the_mean(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, seen = _updates(name, monkeypatch)
    measured = all(_only_the_mean_counts(algorithm, state, wave) for state, wave in seen)
    if algorithm.only_mean:
        assert measured and not algorithm.up and type(algorithm).pick is Algorithm.pick
    elif _sends(name):
        assert not measured
