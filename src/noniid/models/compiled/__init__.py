"""Small networks in compiled code, for CPUs; needs numba (`noniid[fast]`).

numba compiles at the first call, some seconds, and keeps the result on disk for all processes after.
"""

from __future__ import annotations

from noniid.models.compiled.passes import Batch, Source, backward, descend_all, forward, look, step, walk
from noniid.models.compiled.plan import Convolution, Plan, Room, plan

__all__ = [
    "Batch",
    "Convolution",
    "Plan",
    "Room",
    "Source",
    "backward",
    "descend_all",
    "forward",
    "look",
    "plan",
    "step",
    "walk",
]
