"""The small federations of `noniid check`, under the name that the tests know them by."""

from noniid.engine import ENGINES
from noniid.laws.problems import *  # noqa: F403
from noniid.laws.problems import (
    NUM_CLASSES,
    OPTIM,
    SmallNet,
    dataset,
    federation,
    initial,
    run,
    same,
    task,
    unequal_split,
)

FAST = tuple(name for name in ENGINES if name != "reference")  # those that are judged

__all__ = [
    "FAST",
    "NUM_CLASSES",
    "OPTIM",
    "SmallNet",
    "dataset",
    "federation",
    "initial",
    "run",
    "same",
    "task",
    "unequal_split",
]
