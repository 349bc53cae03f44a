"""SGD as elementwise steps on rows."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from noniid.errors import BadInput
from noniid.optim import SGD

GRID = [
    SGD(lr, momentum, weight_decay)
    for lr in (0.0, 0.01, 0.3)
    for momentum in (0.0, 0.5, 0.9)
    for weight_decay in (0.0, 1e-5, 0.1)
]


def _gradients(steps: int, *shape: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return list(torch.randn(steps, *shape, generator=generator))


def _moved(optim: SGD, w: Tensor, gradients: list[Tensor]) -> Tensor:
    w = w.clone()
    state = optim.init(w)
    for g in gradients:
        optim.step_(w, g, state)
    return w


@pytest.mark.parametrize("optim", GRID, ids=str)
def test_steps_equal_torchs_to_the_bit(optim: SGD) -> None:
    w, gradients = _gradients(1, 37)[0], _gradients(25, 37)
    theirs = torch.nn.Parameter(w.clone())
    stepper = torch.optim.SGD([theirs], optim.lr, optim.momentum, weight_decay=optim.weight_decay)
    for g in gradients:
        theirs.grad = g.clone()
        stepper.step()
    assert torch.equal(_moved(optim, w, gradients), theirs.detach())


@pytest.mark.parametrize("optim", GRID, ids=str)
def test_stacked_rows_equal_separate_rows(optim: SGD) -> None:
    w, gradients = _gradients(1, 3, 17)[0], _gradients(10, 3, 17)
    stacked = _moved(optim, w, gradients)
    for i in range(3):
        torch.testing.assert_close(stacked[i], _moved(optim, w[i], [g[i] for g in gradients]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("optim", GRID, ids=str)
def test_the_gradient_is_left_as_it_is(optim: SGD) -> None:
    (g,) = _gradients(1, 5)
    before, w = g.clone(), torch.ones(5)
    state = optim.init(w)
    optim.step_(w, g, state)
    optim.step_(w, g, state)
    assert torch.equal(g, before)


def test_only_momentum_keeps_a_state() -> None:
    assert SGD(0.1, weight_decay=0.1).init(torch.ones(3)) == {}
    assert SGD(0.1, 0.9).init(torch.ones(2, 3))["momentum"].shape == (2, 3)


def _simulated(momentum: float, steps: int) -> float:
    """Each step's gradient is one unit: how far it all moves, in units of lr."""
    buffer = moved = 0.0
    for _ in range(steps):
        buffer = momentum * buffer + 1.0
        moved += buffer
    return moved


@given(st.floats(0, 0.99), st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_effective_steps_are_what_a_simulation_counts(momentum: float, steps: list[int]) -> None:
    counted = SGD(momentum=momentum).effective_steps(torch.tensor(steps))
    for a, n in zip(counted.tolist(), steps, strict=True):
        assert math.isclose(a, _simulated(momentum, n), rel_tol=1e-5, abs_tol=1e-5)


def test_without_momentum_effective_steps_are_steps() -> None:
    assert SGD().effective_steps(torch.tensor([0, 1, 7, 100_000])).tolist() == [0.0, 1.0, 7.0, 100_000.0]


@pytest.mark.parametrize("optim", [SGD(0.1, 0.9), SGD(0.01, 0.5), SGD(0.2)], ids=str)
def test_a_constant_gradient_moves_by_rate_times_effective_steps(optim: SGD) -> None:
    for steps in (1, 2, 9):
        moved = _moved(optim, torch.zeros(1), [torch.ones(1)] * steps)
        expected = -optim.lr * optim.effective_steps(torch.tensor([steps]))
        torch.testing.assert_close(moved, expected)


@pytest.mark.parametrize(
    ("optim", "sentence"),
    [
        (SGD(-0.1), "lr is -0.1: give a learning rate of 0 or more."),
        (SGD(math.nan), "lr is nan: give a learning rate of 0 or more."),
        (SGD(momentum=1.0), "momentum is 1: give a value from 0 up to, not including, 1."),
        (SGD(momentum=-0.1), "momentum is -0.1: give a value from 0 up to, not including, 1."),
        (SGD(weight_decay=-1.0), "weight decay is -1: give 0 or more."),
    ],
)
def test_values_that_make_no_sense_are_refused(optim: SGD, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        optim.check()
    assert str(caught.value) == sentence


@pytest.mark.parametrize("optim", GRID, ids=str)
def test_the_grid_is_accepted(optim: SGD) -> None:
    optim.check()
