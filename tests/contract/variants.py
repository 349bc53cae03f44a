"""Every registered algorithm, each named value of it, and all of them at once: no opt-out."""

from __future__ import annotations

from noniid.algorithms import ALGORITHMS
from noniid.laws import variants

DEFAULTS = [ALGORITHMS.write(cls()) for cls in ALGORITHMS.values()]
VARIANTS = [ALGORITHMS.write(each) for cls in ALGORITHMS.values() for each in variants(cls())]
