"""Runs gathered over their seeds: the rows of a comparison.

Shapes: none; every number here is a plain float.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noniid.results.store import Run

# The columns of an exported run, in their order; also the fields of `--json`.
FIELDS = (
    "run", "data", "split", "clients", "algorithm", "seed", "status", "rounds", "accuracy", "best_accuracy",
    "best_round", "worst_client_accuracy", "worst_decile_accuracy", "bytes_per_client_round",
    "train_samples_per_second", "seconds", "peak_memory_mb", "model", "participation", "epochs", "batch", "optim",
    "augment", "draws", "eval_every", "engine", "device", "steps", "drop_last", "keep_optim", "lr_decay", "bn", "wrap",
    "epsilon", "delta", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Spread:
    """A mean over seeds, with the sample standard deviation where there are two or more."""

    mean: float | None
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread:
        """
        >>> Spread.of([1.0, 3.0, None])
        Spread(mean=2.0, std=1.4142135623730951, n=2)
        """
        known = [value for value in values if value is not None]
        if not known:
            return cls(None, None, 0)
        mean = sum(known) / len(known)
        if len(known) == 1:
            return cls(mean, None, 1)
        return cls(mean, math.sqrt(sum((v - mean) ** 2 for v in known) / (len(known) - 1)), len(known))


@dataclass(frozen=True)
class Line:
    """One algorithm in one setting, over its seeds. Only finished runs enter the means."""

    experiment: Mapping[str, Any]  # of the first run; the seed varies
    runs: Sequence[Run]

    def spread(self, name: str) -> Spread:
        return Spread.of(run.summary.get(name) for run in self.runs if run.status == "done")

    @property
    def trouble(self) -> str:
        """What did not finish, in words; empty if all is well.

        >>> Line({}, []).trouble
        ''
        """
        counts: dict[str, int] = {}
        for run in self.runs:
            if run.status != "done":
                counts[run.status] = counts.get(run.status, 0) + 1
        return ", ".join(f"{count} {status}" for status, count in counts.items())


def lines(runs: Iterable[Run]) -> list[Line]:
    """Runs that differ only in their seed make one line, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        setting = tuple((name, value) for name, value in sorted(run.experiment.items()) if name != "seed")
        groups.setdefault(setting, []).append(run)
    return [Line(group[0].experiment, group) for group in groups.values()]


def record(run: Run) -> dict[str, Any]:
    """One run, flat: its experiment, what it came to, and why it ended."""
    values = {**run.experiment, **run.summary}
    values |= {"run": run.key, "status": run.status, "reason": run.reason}
    values["rounds"] = run.summary.get("rounds", 0)
    return {name: values.get(name) for name in FIELDS}
