"""Who is ahead, by how much, and whether luck with the seeds would do."""

from __future__ import annotations

import math

import pytest
from scipy.stats import ttest_rel

from noniid.experiments.tournament import agreement, standings
from noniid.results.store import Run


def runs(**accuracies: list[float | None]) -> list[Run]:
    """By algorithm, the accuracy of each seed; None is a run that diverged."""
    made = []
    for algorithm, values in accuracies.items():
        for seed, value in enumerate(values):
            experiment = {"algorithm": algorithm, "seed": seed}
            status, summary = ("diverged", {}) if value is None else ("done", {"accuracy": value})
            made.append(Run(f"{algorithm}{seed}", experiment, status, None, summary, {}, None, 0.0, None))
    return made


def test_the_best_comes_first_and_others_behind_it() -> None:
    best, middle, last = standings(runs(fedavg=[0.5, 0.6, 0.7], scaffold=[0.7, 0.8, 0.9], fednova=[0.6, 0.75, 0.75]))
    assert [best.algorithm, middle.algorithm, last.algorithm] == ["scaffold", "fednova", "fedavg"]
    assert (best.behind, best.p) == (0, None)
    assert middle.behind == pytest.approx(0.1)
    assert middle.p == pytest.approx(ttest_rel([0.7, 0.8, 0.9], [0.6, 0.75, 0.75]).pvalue)
    assert last.behind == pytest.approx(0.2) and last.p == 0  # by as much for every seed


def test_who_lost_a_seed_comes_last() -> None:
    best, last = standings(runs(fedavg=[0.5, 0.6], scaffold=[0.9, None]))
    assert (best.algorithm, last.algorithm, last.lost) == ("fedavg", "scaffold", 1)
    assert math.isnan(last.mean)
    assert not standings(runs(fedavg=[None]))[0].accuracies


@pytest.mark.parametrize(
    ("accuracies", "advised", "expected"),
    [
        ({"fedavg": [0.5, 0.6], "scaffold": [0.6, 0.7]}, "scaffold", "agree"),
        ({"fedavg": [0.5, 0.6], "fedprox(0.1)": [0.6, 0.7]}, "fedprox", "agree"),
        ({"fedavg": [0.5, 0.6], "scaffold": [0.5, 0.6]}, "scaffold", "agree"),
        ({"fedavg": [0.9, 0.91, 0.9], "scaffold": [0.6, 0.62, 0.6]}, "scaffold", "disagree"),
        ({"fedavg": [0.9, 0.5, 0.7], "scaffold": [0.6, 0.62, 0.6]}, "scaffold", "tie"),
        ({"fedavg": [0.9], "scaffold": [0.6]}, "scaffold", "unknown"),
        ({"fedavg": [0.9, 0.8], "scaffold": [0.6, None]}, "scaffold", "disagree"),
        ({"fedavg": [None], "scaffold": [None]}, "scaffold", "unknown"),
        ({"fedavg": [0.9, 0.8]}, "scaffold", "unknown"),
    ],
)
def test_agreement(accuracies: dict[str, list[float | None]], advised: str, expected: str) -> None:
    assert agreement(standings(runs(**accuracies)), advised) == expected
