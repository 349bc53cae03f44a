"""FedBN: BatchNorm stays with the clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from noniid.algorithms.base import Algorithm, Paper


@dataclass(frozen=True)
class FedBN(Algorithm):
    """FedAvg of everything but BatchNorm's parameters and statistics; each client is tested with its own.

    Any other algorithm does the same with `bn=local`.
    """

    bn: ClassVar[Literal["local"] | None] = "local"
    only_mean: ClassVar[bool] = True
    paper: ClassVar[Paper] = Paper(
        "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
        "Li, Jiang, Zhang, Kamp, Dou",
        2021,
        "https://arxiv.org/abs/2102.07623",
    )
