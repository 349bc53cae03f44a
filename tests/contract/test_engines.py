"""Laws between engines, for every registered algorithm and every named value of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from noniid.algorithms import ALGORITHMS
from noniid.split import Noise, Split
from tests.contract import problems
from tests.contract.variants import VARIANTS


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("cohort", [None, 2])
def test_fast_engine_equals_reference(text: str, cohort: int | None) -> None:
    algorithm = ALGORITHMS.parse(text)
    fast = problems.run(algorithm, problems.task(), cohort=cohort, engine="threads")
    slow = problems.run(algorithm, problems.task(), cohort=cohort, engine="reference")
    problems.same(fast[-1].state, slow[-1].state, rtol=2e-4, atol=2e-5)
    assert fast[-1].train_loss == pytest.approx(slow[-1].train_loss, rel=1e-4)


@pytest.mark.parametrize("text", VARIANTS)
def test_workers_do_not_matter_to_the_bit(text: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    one = problems.run(algorithm, problems.task(), workers=1)
    for workers in (2, 3, 7):
        many = problems.run(algorithm, problems.task(), workers=workers)
        problems.same(one[-1].state, many[-1].state)
        assert [r.evaluation for r in one][-1].loss == many[-1].evaluation.loss  # type: ignore[union-attr]


@pytest.mark.parametrize("text", VARIANTS)
def test_same_seed_same_bits_other_seed_other_bits(text: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    a, b = (problems.run(algorithm, problems.task(seed=3), cohort=2) for _ in range(2))
    c = problems.run(algorithm, problems.task(seed=4), cohort=2)
    problems.same(a[-1].state, b[-1].state)
    assert not torch.equal(a[-1].state.w, c[-1].state.w)


@pytest.mark.parametrize("text", VARIANTS)
def test_stop_and_resume_equals_the_straight_run(text: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    straight = problems.run(algorithm, problems.task(), rounds=5, cohort=3)
    resumed = problems.run(algorithm, problems.task(), rounds=5, cohort=3, state=straight[1].state)
    assert [r.round for r in resumed] == [3, 4, 5]
    problems.same(straight[-1].state, resumed[-1].state)


@pytest.mark.parametrize("text", VARIANTS)
def test_noise_and_shared_generators_do_not_leak_between_clients(text: str) -> None:
    data = problems.dataset()
    plain = problems.unequal_split(data)
    noisy = Split(plain.indices, (Noise(0.5, test=True),))
    algorithm = ALGORITHMS.parse(text)
    one = problems.run(algorithm, problems.task(split=noisy), workers=1)
    two = problems.run(algorithm, problems.task(split=noisy), workers=2)
    clean = problems.run(algorithm, problems.task(split=plain))
    problems.same(one[-1].state, two[-1].state)
    assert not torch.equal(one[-1].state.w, clean[-1].state.w)
    assert one[-1].evaluation.count.shape[0] == noisy.num_clients  # type: ignore[union-attr]


@pytest.mark.parametrize("text", VARIANTS)
def test_global_random_state_is_neither_used_nor_moved(text: str) -> None:
    tasks = problems.task(), problems.task()
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]
    a = problems.run(ALGORITHMS.parse(text), tasks[0])
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # type: ignore[index]
    torch.manual_seed(6)
    b = problems.run(ALGORITHMS.parse(text), tasks[1])
    problems.same(a[-1].state, b[-1].state)
