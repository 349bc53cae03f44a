"""What no other test held, each found by a mutant that survived: see tests/mutants.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from noniid.algorithms import ALGORITHMS, Federation, State, Wave
from noniid.errors import BadInput
from noniid.optim import SGD

# What a user gets who names an algorithm and nothing else. To change one is to change everybody's numbers.
DEFAULTS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedprox": {"mu": 0.01},
    "scaffold": {"option": "ii", "variates": "zero", "share": "all", "correct": "gradient"},
    "fednova": {"steps": "effective", "weights": "samples"},
    "fedavgm": {"beta": 0.9, "nesterov": True},
    "fedadagrad": {"lr": 0.01, "beta1": 0.0, "tau": 1e-3, "v_init": 0.0},
    "fedadam": {"lr": 0.01, "beta1": 0.9, "tau": 1e-3, "v_init": 0.0, "beta2": 0.99},
    "fedyogi": {"lr": 0.01, "beta1": 0.9, "tau": 1e-3, "v_init": 0.0, "beta2": 0.99},
    "fedasync": {"alpha": 0.6, "decay": "constant", "a": None, "b": 4.0, "rho": 0.005, "max_staleness": 16},
    "radfed": {"redistributions": 15},
    "radfed_p": {"redistributions": 15, "mu": 0.01},
    "radfed_m": {"redistributions": 15, "alpha": 0.9},
    "radfed_a": {
        "redistributions": 15, "server": "adam", "lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3, "v_init": 0.0,
    },
    "radfed_is": {"redistributions": 15, "gamma": 0.9},
    "qfedavg": {"q": 1.0, "variant": "original"},
    "feddyn": {"alpha": 0.01},
    "moon": {"mu": 1.0, "temperature": 0.5},
    "fedbn": {},
    "local": {},
    "centralised": {},
}  # fmt: skip
_FEATURES = {"lam": 1e-4, "delta": "full", "others": "all", "itself": "excluded", "privacy_sigma": 0.0, "clip": 1.0}
DEFAULTS |= {"rfedavg": _FEATURES, "rfedavg_plus": _FEATURES}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_are_what_they_were(name: str) -> None:
    assert vars(ALGORITHMS[name]()) == DEFAULTS[name]


# Ranges


class _Answers:
    """Of clients who are asked before anybody trains."""

    def squared_grad_norm(self, w: Tensor) -> Tensor:
        return torch.ones(3)


MEMBERS = Federation(3, 2, lambda: torch.zeros(4), 2, lambda ids: _Answers())  # type: ignore[arg-type, return-value]

OUTSIDE = [
    "fedprox(-0.01)", "fedavgm(1)", "fedavgm(-0.01)",
    "fedadagrad(-1)", "fedadagrad(beta1=1)", "fedadagrad(beta1=-0.1)", "fedadagrad(tau=0)", "fedadagrad(v_init=-1)",
    "fedadam(tau=0)", "fedadam(beta2=1)", "fedadam(beta2=-0.1)", "fedyogi(lr=-1)", "fedyogi(beta2=1)",
    "fedyogi(beta2=-0.1)", "fedasync(0)", "fedasync(1.1)", "fedasync(a=-0.1)", "fedasync(b=-0.1)", "fedasync(rho=-0.1)",
    "fedasync(max_staleness=-1)", "radfed(0)", "radfed_p(0)", "radfed_p(mu=-0.1)", "radfed_m(0)", "radfed_m(alpha=0)",
    "radfed_m(alpha=1.1)", "radfed_a(0)", "radfed_a(tau=0)", "radfed_a(beta2=1)", "radfed_a(server=yogi, beta2=1)",
    "radfed_is(0)", "radfed_is(gamma=-0.1)", "radfed_is(gamma=1.1)", "rfedavg(-0.1)", "rfedavg(privacy_sigma=-0.1)",
    "rfedavg(clip=0)", "rfedavg_plus(-0.1)", "qfedavg(-0.1)", "feddyn(0)", "feddyn(-0.1)", "moon(-0.1)",
    "moon(temperature=0)",
]  # fmt: skip
AT_THE_EDGE = [
    "fedprox(0)", "fedavgm(0)", "fedadagrad(0, beta1=0, v_init=0, tau=1e-9)", "fedadam(beta2=0)", "fedyogi(beta2=0)",
    "fedadam(beta1=0.99, beta2=0.9999)", "fedasync(1)", "fedasync(0.01, a=0, b=0, rho=0, max_staleness=0)", "radfed(1)",
    "radfed_p(1, mu=0)", "radfed_m(1, alpha=1)", "radfed_m(alpha=0.01)", "radfed_is(1, gamma=0)", "radfed_is(gamma=1)",
    "radfed_is(gamma=none)", "rfedavg(0, privacy_sigma=0, clip=1e-3)", "rfedavg_plus(0)", "qfedavg(0)", "feddyn(1e-9)",
    "moon(0, temperature=1e-3)",
]  # fmt: skip


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_value_outside_its_range_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        ALGORITHMS.parse(text).init(torch.zeros(4), MEMBERS)


@pytest.mark.parametrize("text", AT_THE_EDGE)
def test_a_value_at_the_edge_of_its_range_is_accepted(text: str) -> None:
    assert torch.equal(ALGORITHMS.parse(text).init(torch.zeros(4), MEMBERS).w, torch.zeros(4))


def test_qfedavg_stands_a_client_that_has_nothing_left_to_learn() -> None:
    """F^(q - 1) of a loss of 0 is no number, for q below 1."""

    class Perfect(_Answers):
        def loss(self, w: Tensor) -> Tensor:
            return torch.tensor([0.0, 1.0])

    start, ids = torch.zeros(2, 4), torch.arange(2)
    wave = Wave(
        ids=ids, clock=ids, sizes=ids + 1, weights=torch.tensor([0.5, 0.5]), steps=ids + 1, staleness=ids, start=start,
        end=start + 0.1, loss=torch.ones(2), shared={}, memory={}, carried={}, optim=SGD(0.1),
        rng=np.random.default_rng(0), ask=Perfect(), num_trainable=4, batch_size=1,  # type: ignore[arg-type]
    )  # fmt: skip
    moved = ALGORITHMS.parse("qfedavg(0.5)").update(State(torch.zeros(4)), wave).w
    assert torch.isfinite(moved).all() and (moved > 0).all()


# What is kept and sent


@pytest.mark.parametrize("name", ["local", "centralised"])
def test_the_bounds_send_nothing(name: str) -> None:
    algorithm = ALGORITHMS.parse(name)
    assert algorithm.traffic(algorithm.init(torch.zeros(4), MEMBERS)) == (0, 0)


@pytest.mark.parametrize("most", [0, 3])
def test_fedasync_keeps_no_version_that_nobody_may_ask_for(most: int) -> None:
    begun = ALGORITHMS.parse(f"fedasync(max_staleness={most})").init(torch.zeros(4), MEMBERS)
    assert begun.server["versions"].shape == (most + 1, 4)
