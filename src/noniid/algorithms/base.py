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
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.errors import BadInput
from noniid.optim import Optimiser

Tensors = Mapping[str, Tensor]
OPTIM = "optim."  # what an optimiser keeps of a client is carried under this and its own name


class Paper(NamedTuple):
    """Where an algorithm comes from."""

    title: str
    authors: str
    year: int
    url: str


class Ask(Protocol):
    """Further passes over clients' training data, in evaluation mode; `w` is `[P]` or `[C, P]`."""

    def loss(self, w: Tensor, /) -> Tensor: ...  # [C]
    def grad(self, w: Tensor, /) -> Tensor: ...  # [C, P]
    def features(self, w: Tensor, /) -> Tensor: ...  # [C, F], means over the client's data
    def batch_features(self, w: Tensor, /) -> Tensor: ...  # [C, F], means over one random batch
    def squared_grad_norm(self, w: Tensor, /) -> Tensor: ...  # [C], mean over the client's batches


def nobody_to_ask(ids: Tensor) -> Ask:
    raise RuntimeError("no engine is running: there are no clients to ask")


class Federation(NamedTuple):
    """What never changes during a run."""

    num_clients: int
    cohort: int  # clients that train in a round
    random_model: Callable[[], Tensor]  # another random initialisation of the model, [P]
    num_features: int | None = None  # F; None from a model that gives only logits
    ask: Callable[[Tensor], Ask] = nobody_to_ask  # questions to the clients of these ids

    def need_features(self, who: str) -> int:
        """F, for an algorithm that compares features."""
        if self.num_features is None:
            raise BadInput(f"{who} compares features, and the model gives only logits: return (logits, features).")
        return self.num_features


@dataclass(frozen=True)
class State:
    """All that survives a round: save it and you can resume."""

    w: Tensor  # [P] the global model
    server: Tensors = field(default_factory=dict[str, Tensor])
    memory: Tensors = field(default_factory=dict[str, Tensor])  # [N, ...], a row per client
    round: int = 0


class Pick(NamedTuple):
    """Who trains next, and from how old a model."""

    ids: Tensor  # [C]
    staleness: Tensor  # [C]
    clock: Tensor | None = None  # [C] what tells one visit to a client from its others; None: the round's number
    last: bool = True  # whether the round ends with this wave


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


class Wave(NamedTuple):
    """Clients that train together."""

    ids: Tensor  # [C]
    clock: Tensor  # [C] the visit: part of the key of every random draw of the client's training
    sizes: Tensor  # [C] training samples
    weights: Tensor  # [C] shares in the server's mean: sizes, if nothing else was asked for; they sum to 1
    steps: Tensor  # [C] local steps
    staleness: Tensor  # [C]
    start: Tensor  # [C, P] where each begins
    end: Tensor  # [C, P] where each ended
    loss: Tensor  # [C] mean training loss of the local steps
    shared: Tensors  # what the server broadcast
    memory: Tensors  # [C, ...] what each of these clients remembers
    carried: Tensors  # [C, ...] what these clients keep beside the algorithm's memory, such as optimiser state
    optim: Optimiser
    rng: np.random.Generator
    ask: Ask
    num_trainable: int  # T: the first values of a row; what follows are statistics of the forward pass
    batch_size: int

    def mean(self) -> Tensor:
        """The clients' models, weighted: [P]."""
        return self.weights @ self.end

    def movement(self) -> Tensor:
        """How far the clients moved, weighted: [P]. A plain average is one step along it."""
        return self.weights @ (self.end - self.start)

    def effective_steps(self) -> Tensor:
        """How many plain steps each client's steps weigh, momentum counted in: [C]."""
        if any(name.startswith(OPTIM) for name in self.carried):
            raise BadInput(
                "optimisers keep their state from round to round, so nobody knows how much a gradient counts in the "
                "end, and this algorithm divides by it: let them start anew, or use its variant that counts steps."
            )
        return self.optim.effective_steps(self.steps)

    def with_mean_statistics(self, w: Tensor) -> Tensor:
        """A server's model with the clients' mean statistics: no rule may extrapolate a variance."""
        return torch.cat([w[: self.num_trainable], self.mean()[self.num_trainable :]])


class Local(NamedTuple):
    """What one training step may see; rows are `[P]` for one client, `[C, P]` for a stacked wave."""

    w: Tensor
    start: Tensor
    shared: Tensors
    memory: Tensors
    optim: Optimiser
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
    ordered: ClassVar[bool] = False  # the clients of a wave are taken one after the other
    pooled: ClassVar[bool] = False  # one client holds all data: no federation
    only_mean: ClassVar[bool] = False  # all that is kept of a wave comes from its mean: noise in it hides the clients
    bn: ClassVar[Literal["average", "keep-statistics-local", "local"] | None] = (
        None  # where BatchNorm stays; None: as asked
    )

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
        """The weighted mean of the clients' models."""
        return Update(wave.mean())

    def evaluated(self, state: State) -> Tensor:
        """What is tested: one model `[P]`, or one for each client `[N, P]`."""
        return state.w

    def traffic(self, state: State) -> tuple[int, int]:
        """Numbers sent to a client and back from it, in a round it takes part in: the model and what goes with it."""
        down = sum(state.server[name].numel() for name in self.down)
        up = sum(state.memory[name][0].numel() for name in self.up)
        return state.w.numel() + down, state.w.numel() + up


def no_forward(row: Tensor, x: Tensor) -> Any:
    """For steps taken outside an engine."""
    raise NotImplementedError("this step has no model to ask")
