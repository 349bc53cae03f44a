"""FedAvg: every client trains from the global model; the server averages by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noniid.algorithms.base import Algorithm, Paper


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """w <- sum_i (n_i / n) w_i."""

    only_mean: ClassVar[bool] = True
    paper: ClassVar[Paper] = Paper(
        "Communication-Efficient Learning of Deep Networks from Decentralized Data",
        "McMahan, Moore, Ramage, Hampson, Aguera y Arcas",
        2017,
        "https://arxiv.org/abs/1602.05629",
    )
