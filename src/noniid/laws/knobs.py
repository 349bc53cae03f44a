"""An algorithm's named values and numbers, and whether they are heard."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.errors import BadInput
from noniid.laws.watch import COHORT, last


def variants(algorithm: Algorithm) -> list[Algorithm]:
    """The algorithm, with each of its named values in turn, and with all of them changed."""
    hints = typing.get_type_hints(type(algorithm))
    choices = {
        field.name: typing.get_args(hints[field.name])
        for field in dataclasses.fields(algorithm)
        if typing.get_origin(hints[field.name]) is Literal
    }
    others = {name: [v for v in values if v != getattr(algorithm, name)] for name, values in choices.items()}
    single = [replace(algorithm, **{name: value}) for name, values in others.items() for value in values]
    whole = replace(algorithm, **{name: values[-1] for name, values in others.items()})
    return list(dict.fromkeys([algorithm, *single, whole]))


def _numeric(algorithm: Algorithm) -> list[str]:
    values = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    return [name for name, value in values.items() if isinstance(value, float | int) and not isinstance(value, bool)]


def _other_values(algorithm: Algorithm, name: str) -> Iterator[Algorithm]:
    """With a larger value of this parameter, or where that is refused a smaller one."""
    value = getattr(algorithm, name)
    tries = [not value] if isinstance(value, bool) else [10 * value + 1, 2, 1, 0.5, value / 10]
    yield from (replace(algorithm, **{name: type(value)(each)}) for each in tries if each != value)


def matters(algorithm: Algorithm, name: str) -> bool:
    """Some parameters are heard only beside certain values of the others."""
    others = [other for other in _numeric(algorithm) if other != name]
    bases = [*variants(algorithm), *(each for other in others for each in _other_values(algorithm, other))]
    return any(_differs(base, name) for base in bases)


def _differs(base: Algorithm, name: str) -> bool:
    try:
        usual = _tested(ALGORITHMS.write(base), base)
    except BadInput:
        return False
    for other in _other_values(base, name):
        try:
            if not torch.allclose(usual, _tested(ALGORITHMS.write(other), other), rtol=1e-3, atol=1e-5):
                return True
        except BadInput:
            continue
    return False


@functools.lru_cache(maxsize=256)
def _tested(text: str, algorithm: Algorithm) -> Tensor:
    """What is tested after three rounds, with few of many clients."""
    return algorithm.evaluated(last(algorithm, rounds=3, cohort=COHORT))
