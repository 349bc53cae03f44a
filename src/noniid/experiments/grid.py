"""Many experiments from one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from noniid.algorithms import Algorithm
from noniid.errors import BadInput
from noniid.experiments.experiment import Experiment
from noniid.split import Recipe


def grid(
    base: Experiment, splits: Sequence[Recipe], algorithms: Sequence[Algorithm], seeds: Sequence[int]
) -> list[Experiment]:
    """Every split with every algorithm and every seed, algorithms side by side: the order of a table."""
    cells = itertools.product(splits, algorithms, seeds)
    made = [replace(base, split=split, algorithm=algorithm, seed=seed) for split, algorithm, seed in cells]
    return list(dict.fromkeys(made))


def read_seeds(text: str) -> list[int]:
    """`3` is three seeds, 0 to 2; `0,2,5` and `7,` are these.

    >>> read_seeds("3"), read_seeds("0,2,5"), read_seeds("7,")
    ([0, 1, 2], [0, 2, 5], [7])
    """
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise BadInput(f"seeds are a count, as 3, or a list, as 0,2,5: not {text!r}.") from None
    if not numbers or min(numbers) < 0:
        raise BadInput(f"seeds are whole numbers from 0, and at least one: not {text!r}.")
    if "," in text:
        return list(dict.fromkeys(numbers))
    if numbers[0] == 0:
        raise BadInput("0 seeds would train nothing: give 1 or more, or 0, (with a comma) for seed 0 alone.")
    return list(range(numbers[0]))
