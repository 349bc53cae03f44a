"""What clients keep for themselves beside an algorithm's memory: BatchNorm's values, an optimiser's state.

Shapes: N clients in all, C in the wave, P values of a model, M of them a client's own.

The server never sees a client's own values: before training they take the place of the server's, and afterwards
the server's are put back, so that to every algorithm they have not moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from noniid.algorithms import Ask, State, Tensors, Wave
from noniid.algorithms.base import OPTIM
from noniid.engine.task import Task
from noniid.optim import Optimiser
from noniid.rows import Layout

OWN = "own"


@dataclass(frozen=True)
class Carry:
    """Which of a model's values stay with the client, and whether its optimiser's state does."""

    places: Tensor  # [M] of a row
    optim: Optimiser | None  # None: its state starts anew with every visit
    num_trainable: int

    @classmethod
    def of(cls, task: Task, layout: Layout) -> Carry:
        places = layout.norm_places(task.model, task.bn).to(task.device)
        return cls(places, task.work.optim if task.work.keep_optim else None, layout.num_trainable)

    @property
    def names(self) -> tuple[str, ...]:
        """The entries of a state's memory that are kept here."""
        kept = [OWN] if len(self.places) else []
        if self.optim:
            kept += [OPTIM + name for name in self.optim.init(torch.zeros(1))]
        return tuple(kept)

    def init(self, w: Tensor, num_clients: int) -> dict[str, Tensor]:
        """Before the first round: everyone's own values are the first model's."""
        first: dict[str, Tensor] = {OWN: w[self.places]} if len(self.places) else {}
        if self.optim:
            first |= {OPTIM + name: value for name, value in self.optim.init(w[: self.num_trainable]).items()}
        return {name: row.expand(num_clients, -1) for name, row in first.items()}

    def apply(self, wave: Wave) -> Wave:
        """Clients begin with their own values in place of the server's."""
        return wave._replace(start=self.with_own(wave.start, wave.carried[OWN])) if len(self.places) else wave

    def asking(self, ask: Ask, carried: Tensors) -> Ask:
        """Questions that clients answer with their own values in place of the server's."""
        return _OwnAsk(ask, self, carried[OWN]) if len(self.places) else ask

    def take_back(self, before: Wave, trained: Wave) -> Wave:
        """The wave as the server sees it; the clients' own values are carried on."""
        if not len(self.places):
            return trained
        own = trained.end[:, self.places]
        end = self.with_own(trained.end, before.start[:, self.places])
        carried = {**trained.carried, OWN: own}
        ask = trained.ask
        assert isinstance(ask, _OwnAsk)
        return trained._replace(start=before.start, end=end, carried=carried, ask=replace(ask, own=own))

    def evaluated(self, w: Tensor, state: State) -> Tensor:
        """The models to test: with values of its own, each client has one."""
        if not len(self.places):
            return w
        own = state.memory[OWN]
        return self.with_own(w.expand(len(own), -1), own)

    def with_own(self, rows: Tensor, own: Tensor) -> Tensor:
        """Models `[C, P]` with clients' own values `[C, M]` in their places."""
        return rows.index_copy(1, self.places, own)


@dataclass(frozen=True)
class _OwnAsk:
    """See `Carry.asking`."""

    ask: Ask
    carry: Carry
    own: Tensor  # [C, M]

    def loss(self, w: Tensor, /) -> Tensor:
        return self.ask.loss(self._rows(w))

    def grad(self, w: Tensor, /) -> Tensor:
        return self.ask.grad(self._rows(w))

    def features(self, w: Tensor, /) -> Tensor:
        return self.ask.features(self._rows(w))

    def batch_features(self, w: Tensor, /) -> Tensor:
        return self.ask.batch_features(self._rows(w))

    def squared_grad_norm(self, w: Tensor, /) -> Tensor:
        return self.ask.squared_grad_norm(self._rows(w))

    def _rows(self, w: Tensor) -> Tensor:
        return self.carry.with_own(w.expand(len(self.own), -1), self.own)
