"""Algorithms: maths only, one small file per paper."""

from __future__ import annotations

from noniid.algorithms.adaptive import FedAdagrad, FedAdam, FedYogi
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
    Tensors,
    Update,
    Wave,
)
from noniid.algorithms.bounds import Alone, Centralised
from noniid.algorithms.fedasync import FedAsync
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.fedavgm import FedAvgM
from noniid.algorithms.fedbn import FedBN
from noniid.algorithms.feddyn import FedDyn
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.fedprox import FedProx
from noniid.algorithms.moon import Moon
from noniid.algorithms.qfedavg import QFedAvg
from noniid.algorithms.radfed import RADFed, RADFedA, RADFedIS, RADFedM, RADFedP
from noniid.algorithms.rfedavg import RFedAvg, RFedAvgPlus
from noniid.algorithms.scaffold import Scaffold
from noniid.spec import Registry

ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    {
        "fedavg": FedAvg,
        "fedprox": FedProx,
        "scaffold": Scaffold,
        "fednova": FedNova,
        "fedavgm": FedAvgM,
        "fedadagrad": FedAdagrad,
        "fedadam": FedAdam,
        "fedyogi": FedYogi,
        "fedasync": FedAsync,
        "radfed": RADFed,
        "radfed_p": RADFedP,
        "radfed_m": RADFedM,
        "radfed_a": RADFedA,
        "radfed_is": RADFedIS,
        "rfedavg": RFedAvg,
        "rfedavg_plus": RFedAvgPlus,
        "qfedavg": QFedAvg,
        "feddyn": FedDyn,
        "moon": Moon,
        "fedbn": FedBN,
        "local": Alone,
        "centralised": Centralised,
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
    "Tensors",
    "Update",
    "Wave",
]
