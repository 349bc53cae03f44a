"""Clients whose rows lie together, and their steps: one program for all of them.

Shapes: C clients, P values of a model, T of them trainable (they come first), B batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Local, Wave
from noniid.algorithms.base import OPTIM
from noniid.engine.replica import Replica


class Bundle(NamedTuple):
    """Those of a wave that train together."""

    num_trainable: int
    w: Tensor  # [C, P] their models, stepped in place
    g: Tensor  # [C, P] their gradients, written by a program; zero where a value is not trainable
    local: Local  # [C, ...] what their hooks see
    state: dict[str, Tensor]  # [C, ...] their optimisers' states, stepped in place

    def first(self, clients: int) -> Bundle:
        """Only these, as views."""
        memory = {name: rows[:clients] for name, rows in self.local.memory.items()}
        local = self.local._replace(w=self.w[:clients], start=self.local.start[:clients], memory=memory)
        state = {name: rows[:clients] for name, rows in self.state.items()}
        return self._replace(w=self.w[:clients], g=self.g[:clients], local=local, state=state)

    def chosen(self, places: Tensor) -> Bundle:
        """Only these, as copies and without the states of their optimisers: to differentiate, not to step."""
        w, local = self.w[places], self.local
        memory = {name: rows[places] for name, rows in local.memory.items()}
        local = local._replace(w=w, start=local.start[places], memory=memory)
        return self._replace(w=w, g=self.g[places], local=local, state={})


def bundle_of(replica: Replica, wave: Wave, chosen: list[int]) -> Bundle:
    """These clients of the wave, at their start."""
    w, start = wave.start[chosen], wave.start[chosen]  # each a copy
    memory = {name: rows[chosen] for name, rows in wave.memory.items()}
    local = Local(w, start, wave.shared, memory, wave.optim, replica.forward)
    kept = {name.removeprefix(OPTIM): rows[chosen] for name, rows in wave.carried.items() if name.startswith(OPTIM)}
    state = kept or wave.optim.init(w[:, : wave.num_trainable])
    return Bundle(wave.num_trainable, w, torch.zeros_like(w), local, state)


class Step(NamedTuple):
    """A minibatch of each client; short ones are filled up."""

    x: Tensor  # [C, B, ...]
    y: Tensor  # [C, B]
    lengths: list[int]  # [C]
    weights: Tensor  # [C, B]: one over the length, and 0 for what fills up

    def by_length(self) -> Iterator[tuple[int, Tensor | slice]]:
        """Each length with the places of its clients; all of them are a slice, for that copies nothing."""
        lengths = sorted(set(self.lengths))
        if len(lengths) == 1:
            yield lengths[0], slice(None)
            return
        for length in lengths:
            places = [c for c, n in enumerate(self.lengths) if n == length]
            yield length, torch.tensor(places, device=self.y.device)


Backward = Callable[[Step], Tensor]  # fills the bundle's gradients, returns the losses [C]


class Program(Protocol):
    """A way to differentiate: whatever can be prepared is, when it is given a bundle."""

    def on(self, bundle: Bundle) -> Backward: ...


class Stepper:
    """A program, an algorithm's hooks and its optimiser on one bundle."""

    def __init__(self, algorithm: Algorithm, bundle: Bundle, program: Program):
        kind = type(algorithm)
        self.bundle, self._algorithm, self._backward = bundle, algorithm, program.on(bundle)
        self._corrects, self._adjusts = kind.grad is not Algorithm.grad, kind.after is not Algorithm.after

    def __call__(self, step: Step) -> Tensor:
        trainable, w, g, local, state = self.bundle
        loss = self._backward(step)
        if self._corrects:
            g = self._algorithm.grad(g, local)
        local.optim.step_(w[:, :trainable], g[:, :trainable], state)
        if self._adjusts:  # buffers are the forward pass's own
            w[:, :trainable] = self._algorithm.after(w, local)[:, :trainable]
        return loss
