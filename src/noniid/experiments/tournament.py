"""Algorithms against each other on the same data, split and seeds: who is ahead, and whether by more than luck."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from noniid.results.store import Run

MOST_P = 0.05

Agreement = Literal["agree", "tie", "disagree", "unknown"]


@dataclass(frozen=True)
class Standing:
    """One algorithm in the tournament; accuracies are fractions."""

    algorithm: str
    accuracies: tuple[float, ...]  # of the seeds that all algorithms finished
    behind: float  # the best mean less this one's
    p: float | None  # of the paired difference to the best; None for the best itself, and for a single seed
    lost: int  # runs that gave no number

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies)) if self.accuracies else float("nan")


def standings(runs: Sequence[Run]) -> list[Standing]:
    """The best first, by mean final accuracy; those that lost a seed come last."""
    by_algorithm: dict[str, dict[int, float]] = {}
    lost: dict[str, int] = {}
    for run in runs:
        name = run.experiment["algorithm"]
        numbers = by_algorithm.setdefault(name, {})
        if run.status == "done":
            numbers[run.experiment["seed"]] = run.summary["accuracy"]
        else:
            lost[name] = lost.get(name, 0) + 1
    whole = [numbers for name, numbers in by_algorithm.items() if name not in lost]
    seeds = sorted(set.intersection(*map(set, whole))) if whole else []
    found = {name: tuple(n[seed] for seed in seeds) for name, n in by_algorithm.items() if name not in lost}
    ranked = sorted(found, key=lambda name: -float(np.mean(found[name])))
    best = found[ranked[0]] if ranked else ()
    told = [Standing(name, found[name], _behind(best, found[name]), _p(best, found[name]), 0) for name in ranked]
    return [*told, *(Standing(name, (), float("nan"), None, count) for name, count in lost.items())]


def _behind(best: Sequence[float], other: Sequence[float]) -> float:
    return float(np.mean(best) - np.mean(other))


def _p(best: Sequence[float], other: Sequence[float]) -> float | None:
    """Paired by seed, two-sided. The best of several is compared, so that small p come a little too easily."""
    difference = np.subtract(best, other)
    if len(difference) < 2 or best is other:
        return None
    if np.ptp(difference) < 1e-12:  # the same distance for every seed: no luck is in it, or there is no distance
        return 1.0 if abs(difference[0]) < 1e-12 else 0.0
    stats: Any = importlib.import_module("scipy.stats")  # slow to load
    return float(stats.ttest_rel(best, other).pvalue)


def agreement(found: Sequence[Standing], advised: str) -> Agreement:
    """Whether the best algorithm of the tournament is the advised one.

    tie        the advised one is behind, but no further than luck with the seeds may put it
    unknown    it did not finish, or one seed says nothing of luck
    """
    done = [each for each in found if each.accuracies]
    mine = next((each for each in done if each.algorithm.partition("(")[0] == advised), None)
    if mine is None:
        return "disagree" if done and any(each.algorithm.partition("(")[0] == advised for each in found) else "unknown"
    if mine is done[0] or mine.behind <= 0:
        return "agree"
    if mine.p is None:
        return "unknown"
    return "disagree" if mine.p <= MOST_P else "tie"
