"""What engines owe every algorithm beyond the laws of `noniid check`: noise, optimisers, and ways of keeping state."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from noniid.algorithms import ALGORITHMS
from noniid.optim import SGD, Adam, Optimiser, RMSProp
from noniid.split import Noise, Split
from tests.contract import problems
from tests.contract.problems import FAST
from tests.contract.variants import DEFAULTS, VARIANTS

OPTIMISERS: list[Optimiser] = [
    SGD(0.05, 0.9, 1e-3, nesterov=True),
    RMSProp(0.003, weight_decay=1e-3),
    Adam(0.003, eps=1e-4, weight_decay=1e-3),
]


@pytest.mark.parametrize("engine", FAST)
@pytest.mark.parametrize("text", VARIANTS)
def test_noise_and_shared_generators_do_not_leak_between_clients(text: str, engine: str) -> None:
    plain = problems.unequal_split(problems.dataset())
    noisy = Split(plain.indices, (Noise(0.5, test=True),))
    algorithm = ALGORITHMS.parse(text)
    one = problems.run(algorithm, problems.task(split=noisy), workers=1, engine=engine)
    two = problems.run(algorithm, problems.task(split=noisy), workers=2, engine=engine)
    judge = problems.run(algorithm, problems.task(split=noisy), engine="reference")
    clean = problems.run(algorithm, problems.task(split=plain), engine=engine)
    problems.same(one[-1].state, two[-1].state)
    problems.same(one[0].state, judge[0].state, rtol=1e-3, atol=1e-4)
    assert not torch.equal(*(algorithm.evaluated(each[-1].state) for each in (one, clean)))
    assert one[-1].evaluation.count.shape[0] == noisy.num_clients  # type: ignore[union-attr]


@pytest.mark.parametrize("engine", FAST)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("optim", OPTIMISERS, ids=lambda optim: type(optim).__name__)
def test_engines_agree_with_every_optimiser_kept_or_not(optim: Optimiser, keep: bool, engine: str) -> None:
    work: dict[str, Any] = {"optim": optim, "keep_optim": keep, "lr_decay": 0.8, "drop_last": True}
    fast, slow = (
        problems.run(ALGORITHMS.parse("fedprox"), problems.task(**work), cohort=3, engine=each)[-1].state
        for each in (engine, "reference")
    )
    assert bool(fast.memory) == keep
    problems.same(fast, slow, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("engine", FAST)
@pytest.mark.parametrize("bn", ["average", "keep-statistics-local", "local"])
@pytest.mark.parametrize("text", DEFAULTS)
def test_batchnorm_may_stay_with_the_clients_of_any_algorithm(text: str, bn: Any, engine: str) -> None:
    """Who keeps it is tested with it; the server's own values never move."""
    algorithm, task = ALGORITHMS.parse(text), problems.task(bn=bn, keep_optim=False)
    done = problems.run(algorithm, task, cohort=3, engine=engine)
    judge = problems.run(algorithm, task, cohort=3, rounds=1, engine="reference")
    problems.same(done[0].state, judge[0].state, rtol=1e-3, atol=1e-4)
    resumed = problems.run(algorithm, task, cohort=3, state=done[0].state, engine=engine)
    problems.same(done[-1].state, resumed[-1].state)
    if bn == "average" or text in ("local", "centralised", "fedbn"):
        return
    places = problems.Layout.of(task.model).norm_places(task.model, bn)
    begun, server = problems.initial(task), done[-1].state.w
    torch.testing.assert_close(server[places], begun[places])
    own = done[-1].state.memory["own"]
    assert own.shape == (5, len(places)) and not torch.equal(own[0], own[1])
    assert done[-1].evaluation.correct.shape[0] == 5  # type: ignore[union-attr]


@pytest.mark.parametrize("engine", FAST)
@pytest.mark.parametrize("text", DEFAULTS)
def test_a_resumed_run_with_all_that_clients_keep_equals_the_straight_one(text: str, engine: str) -> None:
    if text in ("fednova", "scaffold"):
        text = {"fednova": "fednova(count)", "scaffold": "scaffold(correct=after-step)"}[text]
    algorithm = ALGORITHMS.parse(text)
    task = problems.task(bn="local", keep_optim=True, lr_decay=0.9, steps=5)
    straight = problems.run(algorithm, task, rounds=4, cohort=3, engine=engine)
    resumed = problems.run(algorithm, task, rounds=4, cohort=3, state=straight[1].state, engine=engine)
    problems.same(straight[-1].state, resumed[-1].state)
    assert {name for name in straight[-1].state.memory if name.startswith("optim.")} == {"optim.momentum"}
