"""The round loop: pick, start, train, update, evaluate.

Shapes: C clients in the wave, N in all, P values of a model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from noniid import seeds
from noniid.algorithms import Algorithm, Federation, Pick, State, Tensors, Wave
from noniid.algorithms.wrappers import Stack
from noniid.engine.base import Engine
from noniid.engine.carry import Carry
from noniid.engine.evaluate import Evaluation, evaluate
from noniid.engine.memory import Keeper, Memory
from noniid.errors import BadInput

BYTES_PER_VALUE = 4


@dataclass(frozen=True)
class Schedule:
    """How long, with how many clients, and how often one looks."""

    rounds: int
    cohort: int
    eval_every: int = 1

    def evaluates(self, round: int) -> bool:
        """Round 1 is the first; the last is always evaluated."""
        return round % self.eval_every == 0 or round == self.rounds


@dataclass(frozen=True)
class Round:
    """What one round did."""

    state: State  # after the round; its memory is overwritten by the next one
    round: int
    train_loss: float
    train_samples: int
    train_seconds: float
    bytes_per_client: float  # sent and received
    evaluation: Evaluation | None


class Diverged(Exception):
    """A loss or a model is no longer a finite number."""

    def __init__(self, round: int, what: str):
        super().__init__(f"diverged in round {round}: {what}")
        self.round = round


def cohort_size(num_clients: int, participation: float) -> int:
    """The whole part of N * participation, as NIID-Bench takes it, and at least one client."""
    if not 0 < participation <= 1:
        raise BadInput(f"participation is {participation:g}: give a share of the clients above 0, up to 1.")
    return max(1, int(num_clients * participation))


def begin(algorithm: Algorithm, w: Tensor, federation: Federation, carry: Carry | None = None) -> State:
    """The state before the first round."""
    state = algorithm.init(w, federation)
    memory = {**state.memory, **(carry.init(w, federation.num_clients) if carry else {})}
    if federation.num_clients == 1:  # a lone client's row expands to itself: it must not share the server's values
        memory = {name: rows.clone() for name, rows in memory.items()}
    return replace(state, memory=memory, round=0)


def simulate(
    engine: Engine,
    algorithm: Algorithm,
    state: State,
    federation: Federation,
    schedule: Schedule,
    keeper: Keeper | None = None,
) -> Iterator[Round]:
    """Rounds from `state` to the end of the schedule. Stop whenever you like: a `State` is all it takes to go on."""
    carry, memory = Carry.of(engine.task, engine.layout), Memory(keeper)
    loop = _Loop(engine, algorithm, federation, carry, memory)
    while state.round < schedule.rounds:
        number = state.round + 1
        began = time.perf_counter()
        waves: list[_Account] = []
        with memory.whole_round():
            for wave, after in _waves(loop, state):
                waves.append(_account(engine, algorithm, after, wave, carry))
                state = after
        state = replace(state, round=number)
        seconds = time.perf_counter() - began
        if not bool(torch.isfinite(state.w).all()):
            raise Diverged(number, "the global model is not finite")
        tested = carry.evaluated(algorithm.evaluated(state), state) if schedule.evaluates(number) else None
        clients = sum(each.clients for each in waves)
        yield Round(
            state=state,
            round=number,
            train_loss=sum(each.loss for each in waves) / sum(each.size for each in waves),
            train_samples=sum(each.samples for each in waves),
            train_seconds=seconds,
            bytes_per_client=sum(each.bytes for each in waves) / clients,
            evaluation=None if tested is None else evaluate(engine, tested),
        )


class _Loop(NamedTuple):
    """What is the same in all rounds."""

    engine: Engine
    algorithm: Algorithm
    federation: Federation
    carry: Carry
    memory: Memory


def _waves(loop: _Loop, state: State) -> Iterator[tuple[Wave, State]]:
    """The waves of one round, mostly one, each with the state it leaves behind."""
    engine, algorithm, federation, carry, memory = loop
    task, number = engine.task, state.round + 1
    last, index = False, 0
    while not last:
        pick = algorithm.pick(state, federation, seeds.stream(task.seed, "pick", number))
        old = memory.taken(state, pick.ids)
        wave = algorithm.start(state, _wave(loop, state, pick, old, index))
        began = carry.apply(wave)
        trained = engine.train(algorithm, began)
        _check(number, trained)
        ended = carry.take_back(wave, trained)
        wrap = _wrap(engine, algorithm, state)
        ended = wrap.apply(ended, seeds.stream(task.seed, "wrap", number, index), carry.places)
        update = algorithm.update(state, ended)
        remembered = memory.replaced(state.memory, pick.ids, old, {**update.memory, **ended.carried})
        state = State(update.w, {**state.server, **update.server}, remembered, state.round)
        yield ended, state
        last, index = pick.last, index + 1


def _wrap(engine: Engine, algorithm: Algorithm, state: State) -> Stack:
    """What happens to updates on their way: nothing, where none is sent."""
    _, up = algorithm.traffic(state)
    return engine.task.wrap if up else Stack()


def _wave(loop: _Loop, state: State, pick: Pick, rows: Tensors, index: int) -> Wave:
    """The wave of these clients, with their rows of the memory [C, ...], before anyone has said where it starts."""
    engine, algorithm, _, carry, _ = loop
    task, number = engine.task, state.round + 1
    start = state.w.expand(len(pick.ids), -1)
    sizes = task.sizes(pick.ids)
    carried = {name: rows[name] for name in carry.names}
    return Wave(
        ids=pick.ids,
        clock=torch.full_like(pick.ids, number) if pick.clock is None else pick.clock,
        sizes=sizes,
        weights=_wrap(engine, algorithm, state).weights(sizes).to(start),
        steps=task.steps(pick.ids),
        staleness=pick.staleness,
        start=start,
        end=start,
        loss=torch.zeros(len(pick.ids)),
        shared={name: state.server[name] for name in algorithm.down},
        memory={name: own for name, own in rows.items() if name not in carried},
        carried=carried,
        optim=task.work.optim_in(number),
        rng=seeds.stream(task.seed, "update", number, index),
        ask=carry.asking(engine.ask(pick.ids, number), carried),
        num_trainable=engine.layout.num_trainable,
        batch_size=task.work.batch_size,
    )


def _check(number: int, wave: Wave) -> None:
    bad = wave.ids[~torch.isfinite(wave.loss)].tolist()
    if bad:
        clients = "client" if len(bad) == 1 else "clients"
        raise Diverged(number, f"the training loss of {clients} {', '.join(map(str, bad))} is not finite")


@dataclass(frozen=True)
class _Account:
    """What a wave adds to its round's account."""

    clients: int
    size: int
    loss: float  # times size
    samples: int
    bytes: float


def _account(engine: Engine, algorithm: Algorithm, state: State, wave: Wave, carry: Carry) -> _Account:
    sizes, sent = wave.sizes, 0
    down, up = algorithm.traffic(state)
    if up:
        own = carry.places  # they stay where they are
        wrapped = wave.num_trainable - int((own < wave.num_trainable).sum())
        sent = BYTES_PER_VALUE * (down + up - 2 * len(own) - wrapped)
        sent += _wrap(engine, algorithm, state).bytes_up(wrapped)
    return _Account(
        clients=len(wave.ids),
        size=int(sizes.sum()),
        loss=float(wave.loss @ sizes.to(wave.loss.dtype)),
        samples=int(engine.task.samples(wave.ids).sum()),
        bytes=sent * len(wave.ids),
    )
