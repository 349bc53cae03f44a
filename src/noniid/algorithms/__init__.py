"""Algorithms: maths only, one small file per paper."""

from __future__ import annotations

from noniid.algorithms.base import (
    Algorithm,
    Ask,
    Batch,
    Federation,
    Local,
    Output,
    Paper,
    Pick,
    State,
    Update,
    Wave,
)
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.fedprox import FedProx
from noniid.algorithms.scaffold import Scaffold
from noniid.spec import Registry

ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    {
        "fedavg": FedAvg,
        "fedprox": FedProx,
        "scaffold": Scaffold,
        "fednova": FedNova,
    },
)

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Ask",
    "Batch",
    "Federation",
    "Local",
    "Output",
    "Paper",
    "Pick",
    "State",
    "Update",
    "Wave",
]
