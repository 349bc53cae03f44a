"""The small federations of `noniid check`, under the name that the tests know them by."""

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

__all__ = [
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
