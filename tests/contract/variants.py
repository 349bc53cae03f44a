"""Every registered algorithm, and every named value of each: no opt-out."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from typing import Literal

from noniid.algorithms import ALGORITHMS


def _variants() -> list[str]:
    texts = []
    for name, cls in ALGORITHMS.items():
        hints = typing.get_type_hints(cls)
        choices = {
            field.name: typing.get_args(hints[field.name])
            for field in dataclasses.fields(cls)
            if typing.get_origin(hints[field.name]) is Literal
        }
        for values in itertools.product(*choices.values()):
            texts.append(ALGORITHMS.write(cls(**dict(zip(choices, values, strict=True)))))
        assert name in texts[-1]
    return texts


VARIANTS = _variants()
