"""The two bounds of every comparison: no exchange at all, and no federation at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Paper, State, Update, Wave

_PAPER = Paper(
    "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    "McMahan, Moore, Ramage, Hampson, Aguera y Arcas",
    2017,
    "https://arxiv.org/abs/1602.05629",
)


@dataclass(frozen=True)
class Alone(Algorithm):
    """Every client trains for itself. Each has a model of its own, and the accuracy is the mean of theirs."""

    paper: ClassVar[Paper] = _PAPER

    def init(self, w: Tensor, federation: Federation) -> State:
        return State(w, memory={"w": w.expand(federation.num_clients, -1)})

    def start(self, state: State, wave: Wave) -> Wave:
        return wave._replace(start=wave.memory["w"])

    def update(self, state: State, wave: Wave) -> Update:
        return Update(state.w, memory={"w": wave.end})

    def evaluated(self, state: State) -> Tensor:
        return state.memory["w"]

    def traffic(self, state: State) -> tuple[int, int]:
        return 0, 0


@dataclass(frozen=True)
class Centralised(Algorithm):
    """One model trains on all data in one place, with the same local work a round."""

    pooled: ClassVar[bool] = True
    paper: ClassVar[Paper] = _PAPER

    def traffic(self, state: State) -> tuple[int, int]:
        return 0, 0
