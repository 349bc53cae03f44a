"""Four rounds by hand: each algorithm on a model of a few numbers, in plain arithmetic."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
import pytest
from torch import Tensor, nn

from noniid.algorithms import ALGORITHMS
from noniid.engine import ENGINES
from noniid.models import fresh, parse
from tests.contract import golden_features, golden_linear, golden_travels, problems
from tests.contract.golden import ROUNDS, D, Golden, K, Row, after, task

LINEAR = golden_linear.GOLDEN | golden_travels.GOLDEN
# The linear model's features are its inputs, so algorithms that compare features have a model of their own.
TWO_LAYERS = golden_features.GOLDEN

# On these clients such an algorithm's model takes the way of another's.
SAME = {
    "fedbn": "fedavg",  # there is no BatchNorm
    "radfed_is(2, gamma=0.9)": "radfed(2)",  # everyone is drawn; what differs are the scores
    "radfed_is(2, gamma=none)": "radfed(2)",
}
DISTINCT = {text: golden for text, golden in LINEAR.items() if text not in SAME}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", LINEAR)
def test_rounds_are_what_arithmetic_says(text: str, engine: str) -> None:
    _check(text, LINEAR[text], fresh(parse("linear"), (D,), K, 0), golden_linear.START, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", TWO_LAYERS)
def test_rounds_with_features_are_what_arithmetic_says(text: str, engine: str) -> None:
    _check(text, TWO_LAYERS[text], golden_features.TwoLayers(), golden_features.START, engine)


def _check(text: str, golden: Golden, module: nn.Module, start: Row, engine: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    done = problems.run(algorithm, task(module, start, algorithm), rounds=ROUNDS, engine=engine)
    assert [each.round for each in done] == list(range(1, ROUNDS + 1))
    for state, known in zip([each.state for each in done], golden(start), strict=False):
        _close(state.w, known.w)
        _close(algorithm.evaluated(state), known.w if known.tested is None else known.tested)
        for name, rows in known.memory.items():
            _close(state.memory[name], np.stack(rows))


def _close(tensor: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("goldens", "start"), [(DISTINCT, golden_linear.START), (TWO_LAYERS, golden_features.START)], ids=["linear", "two"]
)
def test_the_golden_trajectories_are_all_different(goldens: dict[str, Golden], start: Row) -> None:
    finals = {text: after(golden, start).w for text, golden in goldens.items()}
    gaps = {pair: np.abs(finals[pair[0]] - finals[pair[1]]).max() for pair in combinations(finals, 2)}
    assert min(gaps.values()) > 1e-3, min(gaps, key=gaps.__getitem__)


def test_those_that_coincide_do_so_in_the_model_only() -> None:
    for text, other in SAME.items():
        a, b = (after(LINEAR[each], golden_linear.START) for each in (text, other))
        np.testing.assert_array_equal(a.w, b.w)
    scores = [after(LINEAR[text], golden_linear.START).memory["score"] for text in SAME if "radfed_is" in text]
    assert np.abs(scores[0] - scores[1]).max() > 1e-3


def test_the_draws_tell_a_way_from_its_reverse_and_an_old_model_from_a_new_one() -> None:
    assert golden_travels.order(2) in ([1, 2, 0], [2, 0, 1])  # from client to client in a circle
    first, second = islice(golden_travels.arrivals(2), 2)
    ages = [old for _, old in first + second]
    assert {0, 1, 2} <= set(ages) and len({client for client, _ in first}) < 3


def test_every_algorithm_has_a_golden_trajectory() -> None:
    assert {type(ALGORITHMS.parse(text)) for text in [*LINEAR, *TWO_LAYERS]} == set(ALGORITHMS.values())
