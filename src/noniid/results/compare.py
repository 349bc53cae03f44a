"""Measured beside claimed: what the runs of one cell come to, and whether they meet a printed number.

Values in, values out. Accuracies are percentages, differences are points.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

# One point, for papers print one decimal and few trials; or two of the claimed standard deviations.
LEAST_TOLERANCE = 1.0
TOLERATED_SPREADS = 2.0
_ROUNDING = 1e-9  # 89.1 - 88.1 is a little more or less than 1

Word = Literal["within", "above", "below", "no claim"]


@dataclass(frozen=True)
class Summary:
    mean: float
    std: float | None  # of the sample; None for a single value
    n: int


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation.

    >>> summarise([87.0, 88.0, 89.0])
    Summary(mean=88.0, std=1.0, n=3)
    """
    if not values:
        raise ValueError("there is nothing to summarise: give at least one value.")
    std = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), std, len(values))


@dataclass(frozen=True)
class Verdict:
    """What was measured against what was claimed."""

    mean: float
    std: float | None
    difference: float | None  # measured - claimed
    tolerance: float | None
    verdict: Word


def judge(measured: Sequence[float], value: float | None, spread: float | None) -> Verdict:
    """Whether the mean lies within max(1 point, twice the claimed spread) of the claimed value.

    >>> judge([88.5, 89.5], 88.1, 0.6).verdict, judge([86.0], 88.1, 0.6).verdict
    ('within', 'below')
    """
    found = summarise(measured)
    if value is None:
        return Verdict(found.mean, found.std, None, None, "no claim")
    difference = found.mean - value
    tolerance = max(LEAST_TOLERANCE, TOLERATED_SPREADS * (spread or 0.0))
    far = abs(difference) > tolerance + _ROUNDING
    verdict: Word = "within" if not far else "above" if difference > 0 else "below"
    return Verdict(found.mean, found.std, difference, tolerance, verdict)


COLUMNS = ("data", "split", "algorithm", "claimed", "measured", "difference", "verdict", "runs", "note")


@dataclass(frozen=True)
class ListedCell:
    """One line of a table before it is reproduced."""

    data: str
    split: str
    algorithm: str
    claimed: str
    stored: int  # runs that need not be trained again
    wanted: int
    seconds: float | None  # that training the others takes; None if nobody knows
    note: str = ""


@dataclass(frozen=True)
class ComparedCell:
    """One line of a reproduced table."""

    data: str
    split: str
    algorithm: str
    claimed: str
    measured: str  # runs that gave no number are told here
    difference: float | None
    verdict: Word | Literal["no run"]
    runs: int  # as many numbers are behind the measured mean
    note: str = ""

    def row(self) -> tuple[str, ...]:
        """The texts of `COLUMNS`."""
        difference = "-" if self.difference is None else f"{round(self.difference, 1) + 0.0:+.1f}"  # never -0.0
        names = (self.data, self.split, self.algorithm)
        return (*names, self.claimed, self.measured, difference, self.verdict, str(self.runs), self.note)


def compare(
    names: tuple[str, str, str],
    claim: tuple[float | None, float | None],
    values: Sequence[float],
    lost: Sequence[str] = (),
    note: str = "",
) -> ComparedCell:
    """A line for (data, split, algorithm), claimed (value, spread) and the accuracies measured.

    `lost` says of each run without a number why: diverged, failed, not run. They are counted beside the mean,
    for the mean of those that went well is not the mean of all.

    >>> compare(("mnist", "iid", "fedavg"), (99.1, 0.1), [99.0, 98.8], ["diverged"]).measured
    '98.9 ± 0.1; 1 diverged'
    """
    claimed = number(*claim)
    others = ", ".join(f"{count} {what}" for what, count in Counter(lost).items())
    if not values:
        return ComparedCell(*names, claimed, others or "not run", None, "no run", 0, note)
    verdict = judge(values, *claim)
    measured = number(verdict.mean, verdict.std) + (f"; {others}" if others else "")
    return ComparedCell(*names, claimed, measured, verdict.difference, verdict.verdict, len(values), note)


def number(value: float | None, spread: float | None) -> str:
    """
    >>> number(88.06, 0.6), number(10.0, None), number(None, None)
    ('88.1 ± 0.6', '10.0', '-')
    """
    if value is None:
        return "-"
    return f"{value:.1f}" if spread is None else f"{value:.1f} ± {spread:.1f}"


def tally(cells: Iterable[ComparedCell]) -> str:
    """How many cells came to which verdict, most frequent first.

    >>> tally(compare(("mnist", "iid", "fedavg"), (99.1, 0.1), [v]) for v in (99.0, 98.5, 50.0))
    '2 within, 1 below'
    """
    counts = Counter(cell.verdict for cell in cells)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
