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


def numbers(algorithm: Algorithm) -> list[str]:
    """The parameters that are numbers, or may be: switches are not."""
    hints = typing.get_type_hints(type(algorithm))
    kinds = {
        field.name: {hints[field.name], *typing.get_args(hints[field.name])} for field in dataclasses.fields(algorithm)
    }
    return [name for name, kind in kinds.items() if kind & {int, float}]


def _other_values(algorithm: Algorithm, name: str) -> Iterator[Algorithm]:
    """With a larger value of this parameter, or where that is refused a smaller one."""
    value = getattr(algorithm, name)
    if isinstance(value, bool):
        yield replace(algorithm, **{name: not value})
        return
    kind, known = (float, 0.0) if value is None else (type(value), value)
    tries = [kind(each) for each in (10 * known + 1, 2, 1, 0.5, known / 10)]
    yield from (replace(algorithm, **{name: each}) for each in tries if each != value)


def matters(algorithm: Algorithm, name: str) -> bool:
    """Some parameters are heard only beside certain values of the others."""
    others = [other for other in numbers(algorithm) if other != name]
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
