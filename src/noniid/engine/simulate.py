"""The round loop: pick, start, train, update, evaluate.

Shapes: C clients in the wave, N in all, P values of a model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from noniid import seeds
from noniid.algorithms import Algorithm, Federation, Pick, State, Update, Wave
from noniid.algorithms.wrappers import Stack
from noniid.engine.base import Engine
from noniid.engine.carry import Carry
from noniid.engine.evaluate import Evaluation, evaluate
from noniid.errors import BadInput
from noniid.rows import put, take

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
    engine: Engine, algorithm: Algorithm, state: State, federation: Federation, schedule: Schedule
) -> Iterator[Round]:
    """Rounds from `state` to the end of the schedule. Stop whenever you like: a `State` is all it takes to go on."""
    carry = Carry.of(engine.task, engine.layout)
    while state.round < schedule.rounds:
        number = state.round + 1
        began = time.perf_counter()
        waves: list[_Account] = []
        for wave, after in _waves(engine, algorithm, state, federation, carry):
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


def _waves(
    engine: Engine, algorithm: Algorithm, state: State, federation: Federation, carry: Carry
) -> Iterator[tuple[Wave, State]]:
    """The waves of one round, mostly one, each with the state it leaves behind."""
    task, number = engine.task, state.round + 1
    last, index = False, 0
    while not last:
        pick = algorithm.pick(state, federation, seeds.stream(task.seed, "pick", number))
        # Memory is written in place, and a round of several waves may be stopped half way: it must not show.
        if not pick.last and index == 0:
            state = replace(state, memory={name: rows.clone() for name, rows in state.memory.items()})
        wave = algorithm.start(state, _wave(engine, algorithm, state, pick, carry, index))
        began = carry.apply(wave)
        trained = engine.train(algorithm, began)
        _check(number, trained)
        ended = carry.take_back(wave, trained)
        wrap = _wrap(engine, algorithm, state)
        ended = wrap.apply(ended, seeds.stream(task.seed, "wrap", number, index), carry.places)
        state = _applied(state, ended, algorithm.update(state, ended))
        yield ended, state
        last, index = pick.last, index + 1


def _wrap(engine: Engine, algorithm: Algorithm, state: State) -> Stack:
    """What happens to updates on their way: nothing, where none is sent."""
    _, up = algorithm.traffic(state)
    return engine.task.wrap if up else Stack()


def _wave(engine: Engine, algorithm: Algorithm, state: State, pick: Pick, carry: Carry, index: int) -> Wave:
    task, number = engine.task, state.round + 1
    start = state.w.expand(len(pick.ids), -1)
    sizes = task.sizes(pick.ids)
    own = {name: rows for name, rows in state.memory.items() if name not in carry.names}
    carried = {name: take(state.memory[name], pick.ids) for name in carry.names}
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
        memory={name: take(rows, pick.ids) for name, rows in own.items()},
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


def _applied(state: State, wave: Wave, update: Update) -> State:
    fresh = {**update.memory, **wave.carried}
    memory: Mapping[str, Tensor] = {
        name: put(rows, wave.ids, fresh[name]) if name in fresh else rows for name, rows in state.memory.items()
    }
    return State(update.w, {**state.server, **update.server}, memory, state.round)


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
