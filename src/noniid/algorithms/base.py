"""The one abstraction: what an algorithm may say, and when it is asked.

Shapes: C clients in the wave, N in all, P values of a model (parameters, then buffers), B batch, F features.

The defaults of `Algorithm` *are* FedAvg, so a subclass shows exactly where its paper departs from it. Hooks never
learn how clients are executed: `loss` speaks of one client, `grad` and `after` are elementwise and get `[P]` or
`[C, P]`, the rest runs once per wave. No hook changes its inputs, and none keeps anything on `self`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.optim import SGD
from noniid.rows import weighted_mean

Tensors = Mapping[str, Tensor]


class Paper(NamedTuple):
    """Where an algorithm comes from."""

    title: str
    authors: str
    year: int
    url: str


class Federation(NamedTuple):
    """What never changes during a run."""

    num_clients: int
    cohort: int  # clients that train in a round
    random_model: Callable[[], Tensor]  # another random initialisation of the model, [P]


@dataclass(frozen=True)
class State:
    """All that survives a round: save it and you can resume."""

    w: Tensor  # [P] the global model
    server: Tensors = field(default_factory=dict[str, Tensor])
    memory: Tensors = field(default_factory=dict[str, Tensor])  # [N, ...], a row per client
    round: int = 0


class Pick(NamedTuple):
    """Who trains in a round, and from how old a model."""

    ids: Tensor  # [C]
    staleness: Tensor  # [C]


class Output(NamedTuple):
    """What a model says of a batch."""

    logits: Tensor  # [B, K]
    features: Tensor | None  # [B, F], what the last layer sees; None from a model that gives only logits

    @classmethod
    def of(cls, raw: Tensor | tuple[Tensor, Tensor | None]) -> Output:
        """From what a module's `forward` returned."""
        return cls(raw, None) if isinstance(raw, Tensor) else cls(*raw)


class Batch(NamedTuple):
    x: Tensor  # [B, ...]
    y: Tensor  # [B]


class Ask(Protocol):
    """Further passes over the clients' training data, in evaluation mode; `w` is `[P]` or `[C, P]`."""

    def loss(self, w: Tensor, /) -> Tensor: ...  # [C]
    def grad(self, w: Tensor, /) -> Tensor: ...  # [C, P]
    def features(self, w: Tensor, /) -> Tensor: ...  # [C, F]


class Wave(NamedTuple):
    """Clients that train together."""

    ids: Tensor  # [C]
    sizes: Tensor  # [C] training samples
    steps: Tensor  # [C] local steps
    staleness: Tensor  # [C]
    start: Tensor  # [C, P] where each begins
    end: Tensor  # [C, P] where each ended
    loss: Tensor  # [C] mean training loss of the local steps
    shared: Tensors  # what the server broadcast
    memory: Tensors  # [C, ...] what each of these clients remembers
    optim: SGD
    rng: np.random.Generator
    ask: Ask


class Local(NamedTuple):
    """What one training step may see; rows are `[P]` for one client, `[C, P]` for a stacked wave."""

    w: Tensor
    start: Tensor
    shared: Tensors
    memory: Tensors
    optim: SGD
    forward: Callable[[Tensor, Tensor], Output]  # forward(row, x), for methods that compare models


class Update(NamedTuple):
    """What a round changes: the model, entries of the server, and the memory rows of the wave's clients."""

    w: Tensor  # [P]
    server: Tensors = MappingProxyType({})
    memory: Tensors = MappingProxyType({})  # [C, ...]


@dataclass(frozen=True)
class Algorithm:
    """FedAvg, hook by hook. Subclasses are frozen dataclasses: fields = hyper-parameters = config."""

    paper: ClassVar[Paper]
    down: ClassVar[tuple[str, ...]] = ()  # entries of `server` that are sent to clients beside the model
    up: ClassVar[tuple[str, ...]] = ()  # entries of `memory` that clients send back beside the model

    def init(self, w: Tensor, federation: Federation) -> State:
        """The state before the first round. A memory row equal for all clients is best given by `expand`."""
        return State(w)

    def pick(self, state: State, federation: Federation, rng: np.random.Generator) -> Pick:
        """Uniformly, without replacement."""
        chosen = rng.choice(federation.num_clients, federation.cohort, replace=False)
        ids = torch.as_tensor(np.sort(chosen))
        return Pick(ids, torch.zeros_like(ids))

    def start(self, state: State, wave: Wave) -> Wave:
        """Everyone begins at the global model."""
        return wave._replace(start=state.w.expand(len(wave.ids), -1))

    def loss(self, out: Output, batch: Batch, local: Local) -> Tensor:
        """One client, one minibatch."""
        return F.cross_entropy(out.logits, batch.y)

    def grad(self, g: Tensor, local: Local) -> Tensor:
        """The gradient that the optimiser sees."""
        return g

    def after(self, w: Tensor, local: Local) -> Tensor:
        """The model after the optimiser's step."""
        return w

    def update(self, state: State, wave: Wave) -> Update:
        """The mean of the clients' models, weighted by their samples."""
        return Update(weighted_mean(wave.end, wave.sizes))


def no_forward(row: Tensor, x: Tensor) -> Any:
    """For steps taken outside an engine."""
    raise NotImplementedError("this step has no model to ask")
