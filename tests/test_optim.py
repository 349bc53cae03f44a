"""Optimisers as elementwise steps on rows."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from noniid.errors import BadInput
from noniid.optim import OPTIMISERS, SGD, Adam, Optimiser, RMSProp

GRID = [
    SGD(lr, momentum, weight_decay)
    for lr in (0.0, 0.01, 0.3)
    for momentum in (0.0, 0.5, 0.9)
    for weight_decay in (0.0, 1e-5, 0.1)
]
AHEAD = [SGD(0.3, momentum, weight_decay, nesterov=True) for momentum in (0.5, 0.9) for weight_decay in (0.0, 0.1)]
ADAPTIVE: list[Optimiser] = [
    RMSProp(0.01), RMSProp(0.3, 0.5, 1e-2), RMSProp(0.02, 0.9, weight_decay=0.1), RMSProp(0.0, 0.0),
    Adam(), Adam(0.3, 0.5, 0.7, 1e-2), Adam(0.02, weight_decay=0.1), Adam(0.1, 0.0, 0.0), Adam(0.0),
]  # fmt: skip
ALL: list[Optimiser] = [*GRID, *AHEAD, *ADAPTIVE]


def _gradients(steps: int, *shape: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return list(torch.randn(steps, *shape, generator=generator))


def _moved(optim: Optimiser, w: Tensor, gradients: list[Tensor]) -> Tensor:
    w = w.clone()
    state = optim.init(w)
    for g in gradients:
        optim.step_(w, g, state)
    return w


def _theirs(w: torch.nn.Parameter, o: Optimiser) -> torch.optim.Optimizer:
    if isinstance(o, SGD):
        return torch.optim.SGD([w], o.lr, o.momentum, weight_decay=o.weight_decay, nesterov=o.nesterov)
    if isinstance(o, RMSProp):
        return torch.optim.RMSprop([w], o.lr, o.alpha, o.eps, o.weight_decay)
    assert isinstance(o, Adam)
    return torch.optim.Adam([w], o.lr, (o.beta1, o.beta2), o.eps, o.weight_decay)


def _moved_by_torch(optim: Optimiser, w: Tensor, gradients: list[Tensor]) -> Tensor:
    theirs = torch.nn.Parameter(w.clone())
    stepper = _theirs(theirs, optim)
    for g in gradients:
        theirs.grad = g.clone()
        stepper.step()
    return theirs.detach()


@pytest.mark.parametrize("optim", [*GRID, *AHEAD], ids=str)
def test_steps_equal_torchs_to_the_bit(optim: SGD) -> None:
    w, gradients = _gradients(1, 37)[0], _gradients(25, 37)
    assert torch.equal(_moved(optim, w, gradients), _moved_by_torch(optim, w, gradients))


@pytest.mark.parametrize("optim", ADAPTIVE, ids=str)
def test_adaptive_steps_equal_torchs(optim: Optimiser) -> None:
    """Gradients whose sizes differ, so that neither a mean nor its root is near one; after the first step, too."""
    w, gradients = _gradients(1, 37)[0], [0.1 * (i + 1) * g for i, g in enumerate(_gradients(25, 37))]
    for steps in (1, 2, 25):
        ours, theirs = (moved(optim, w, gradients[:steps]) for moved in (_moved, _moved_by_torch))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optim", ALL, ids=str)
def test_stacked_rows_equal_separate_rows(optim: Optimiser) -> None:
    w, gradients = _gradients(1, 3, 17)[0], _gradients(10, 3, 17)
    stacked = _moved(optim, w, gradients)
    for i in range(3):
        torch.testing.assert_close(stacked[i], _moved(optim, w[i], [g[i] for g in gradients]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("optim", ALL, ids=str)
def test_the_gradient_is_left_as_it_is(optim: Optimiser) -> None:
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


def test_adaptive_optimisers_keep_a_state_for_each_client() -> None:
    w = torch.ones(2, 3)
    assert {name: value.shape for name, value in RMSProp().init(w).items()} == {"square": (2, 3)}
    assert {name: value.shape for name, value in Adam().init(w).items()} == {
        "mean": (2, 3),
        "square": (2, 3),
        "count": (2, 1),
    }


@given(st.floats(0, 0.99), st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_effective_steps_are_what_a_simulation_counts(momentum: float, steps: list[int]) -> None:
    counted = SGD(momentum=momentum).effective_steps(torch.tensor(steps))
    for a, n in zip(counted.tolist(), steps, strict=True):
        assert math.isclose(a, _simulated(momentum, n), rel_tol=1e-5, abs_tol=1e-5)


def test_without_momentum_effective_steps_are_steps() -> None:
    assert SGD().effective_steps(torch.tensor([0, 1, 7, 100_000])).tolist() == [0.0, 1.0, 7.0, 100_000.0]


@pytest.mark.parametrize("optim", [SGD(0.1, 0.9), SGD(0.01, 0.5), SGD(0.2), *AHEAD[::2]], ids=str)
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
        (SGD(nesterov=True), "nesterov looks ahead along the momentum, and momentum is 0: give one above 0."),
        (RMSProp(-0.1), "lr is -0.1: give a learning rate of 0 or more."),
        (RMSProp(alpha=1.0), "rmsprop's alpha is 1: give a value from 0 up to, not including, 1."),
        (RMSProp(eps=0.0), "rmsprop's eps is 0: give a number above 0."),
        (RMSProp(weight_decay=-1.0), "weight decay is -1: give 0 or more."),
        (Adam(-0.1), "lr is -0.1: give a learning rate of 0 or more."),
        (Adam(beta1=1.0), "adam's beta1 is 1: give a value from 0 up to, not including, 1."),
        (Adam(beta2=1.0), "adam's beta2 is 1: give a value from 0 up to, not including, 1."),
        (Adam(eps=0.0), "adam's eps is 0: give a number above 0."),
        (Adam(weight_decay=-1.0), "weight decay is -1: give 0 or more."),
    ],
)
def test_values_that_make_no_sense_are_refused(optim: Optimiser, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        optim.check()
    assert str(caught.value) == sentence


@pytest.mark.parametrize("optim", ALL, ids=str)
def test_the_grid_is_accepted(optim: Optimiser) -> None:
    optim.check()


def test_defaults_are_what_they_were() -> None:
    assert {name: vars(kind()) for name, kind in OPTIMISERS.items()} == {
        "sgd": {"lr": 0.01, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False},
        "rmsprop": {"lr": 0.01, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0},
        "adam": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0},
    }
