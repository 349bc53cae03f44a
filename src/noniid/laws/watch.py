"""What laws look at: runs, one wave taken out of a run, hooks under watch."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Local, State, Wave
from noniid.algorithms.base import no_forward
from noniid.engine import Task
from noniid.laws import problems

CLOSE: dict[str, Any] = {"rtol": 2e-4, "atol": 2e-5}
COHORT = 2  # of five clients


class Broken(AssertionError):
    """The algorithm does not obey; the text says how that shows."""


class DoesNotApply(Exception):
    """The law is about something this algorithm does not do; the text says what."""


def run(algorithm: Algorithm, *, rounds: int = 2, task: Task | None = None, seed: int = 0, **how: Any) -> list[State]:
    """The states after each round."""
    task = task or problems.task(epochs=1, seed=seed)
    return [done.state for done in problems.run(algorithm, task, rounds=rounds, **how)]


def last(algorithm: Algorithm, **how: Any) -> State:
    return run(algorithm, **how)[-1]


@functools.lru_cache(maxsize=64)
def trained(algorithm: Algorithm) -> tuple[State, Wave]:
    """What the server's `update` was given in the third round, with four of five clients."""
    seen: list[tuple[State, Wave]] = []

    def update(self: Algorithm, state: State, wave: Wave) -> Any:
        memory = {name: rows.clone() for name, rows in state.memory.items()}
        seen.append((replace(state, memory=memory), wave))
        return type(algorithm).update(self, state, wave)

    # The reference engine, for it answers questions after its run, too.
    run(with_hooks(algorithm, {"update": update}), rounds=3, cohort=4, engine="reference")
    return seen[-1]


def fresh(wave: Wave) -> Wave:
    """The same wave, ready for another update: its draws begin anew."""
    return wave._replace(rng=np.random.default_rng(0))


class _Part:
    """Answers for some of a wave's clients, in another order."""

    def __init__(self, wave: Wave, chosen: list[int]):
        self._ask, self._size, self._chosen = wave.ask, len(wave.ids), chosen

    def __getattr__(self, question: str) -> Callable[[Tensor], Tensor]:
        def answer(w: Tensor) -> Tensor:
            rows = w.expand(self._size, -1)
            if w.dim() == 2:
                rows = rows.clone()
                rows[self._chosen] = w
            return getattr(self._ask, question)(rows)[self._chosen]

        return answer


_ROWS = ("ids", "clock", "sizes", "weights", "steps", "staleness", "start", "end", "loss")


def part(wave: Wave, chosen: list[int]) -> Wave:
    rows = {name: getattr(wave, name)[chosen] for name in _ROWS}
    memory = {name: values[chosen] for name, values in wave.memory.items()}
    return wave._replace(**rows, memory=memory, ask=typing.cast(Any, _Part(wave, chosen)))


def local(wave: Wave, rows: int | slice) -> Local:
    memory = {name: values[rows] for name, values in wave.memory.items()}
    return Local(wave.end[rows], wave.start[rows], wave.shared, memory, wave.optim, no_forward)


def num_trainable(task: Task) -> int:
    return sum(p.numel() for p in task.model.parameters())


def same(a: State, b: State, text: str, **tolerance: Any) -> None:
    try:
        problems.same(a, b, **tolerance)
    except AssertionError:
        raise Broken(text) from None


def equal(a: Tensor, b: Tensor, text: str, **tolerance: Any) -> None:
    if not torch.allclose(a, b, **tolerance):
        raise Broken(text)


HOOKS = ("init", "pick", "start", "loss", "grad", "after", "update", "evaluated")


class Part(NamedTuple):
    """A tensor among a hook's arguments, and what it was before."""

    tensor: Tensor
    before: Tensor


def guard(name: str) -> Callable[..., Any]:
    def hook(self: Algorithm, *given: Any) -> Any:
        held = [Part(tensor, tensor.detach().clone()) for tensor in _tensors(given)]
        result = getattr(type(self).__mro__[1], name)(self, *given)
        if any(not torch.equal(part.tensor, part.before) for part in held):
            raise Broken(f"`{name}` changes its inputs in place")
        return result

    return hook


def with_hooks(algorithm: Algorithm, hooks: Mapping[str, Callable[..., Any]]) -> Algorithm:
    """The same algorithm, with some hooks watched."""
    watched = type(type(algorithm).__name__, (type(algorithm),), dict(hooks))
    return watched(**{field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)})


def _tensors(thing: Any) -> list[Tensor]:
    """All tensors in a hook's arguments."""
    if isinstance(thing, Tensor):
        return [thing]
    if isinstance(thing, Mapping):
        return [tensor for value in thing.values() for tensor in _tensors(value)]
    if isinstance(thing, tuple):
        return [tensor for value in thing for tensor in _tensors(value)]
    if isinstance(thing, State):
        return _tensors((thing.w, thing.server, thing.memory))
    return []
