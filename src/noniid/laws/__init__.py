"""Laws that every algorithm obeys, ours and users' own: `noniid check my.module:MyAlgorithm`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noniid.algorithms import Algorithm
from noniid.errors import BadInput
from noniid.laws.knobs import variants
from noniid.laws.laws import LAWS
from noniid.laws.watch import Broken, DoesNotApply


class Verdict(NamedTuple):
    """Whether a law holds; None where it says nothing about this algorithm."""

    law: str
    holds: bool | None
    why: str = ""


def check(algorithm: Algorithm) -> Iterator[Verdict]:
    """Every law in turn."""
    for name, law in LAWS.items():
        try:
            law(algorithm)
        except Broken as broken:
            yield Verdict(name, False, str(broken))
        except DoesNotApply as reason:
            yield Verdict(name, None, str(reason))
        except BadInput:
            raise
        except Exception as error:  # whatever a user's code raises is a broken law, not our crash
            yield Verdict(name, False, f"{type(error).__name__}: {error}")
        else:
            yield Verdict(name, True)


__all__ = ["LAWS", "Broken", "DoesNotApply", "Verdict", "check", "variants"]
