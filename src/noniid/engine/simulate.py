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
from noniid.engine.base import Engine
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


def begin(algorithm: Algorithm, w: Tensor, federation: Federation) -> State:
    """The state before the first round."""
    state = algorithm.init(w, federation)
    # A lone client's row expands to itself: it must not share its values with the server's.
    alone = federation.num_clients == 1
    memory = {name: rows.clone() for name, rows in state.memory.items()} if alone else state.memory
    return replace(state, memory=memory, round=0)


def simulate(
    engine: Engine, algorithm: Algorithm, state: State, federation: Federation, schedule: Schedule
) -> Iterator[Round]:
    """Rounds from `state` to the end of the schedule. Stop whenever you like: a `State` is all it takes to go on."""
    while state.round < schedule.rounds:
        number = state.round + 1
        began = time.perf_counter()
        wave = _train(engine, algorithm, state, federation)
        _check(number, wave)
        state = _applied(state, wave.ids, algorithm.update(state, wave))
        seconds = time.perf_counter() - began
        if not bool(torch.isfinite(state.w).all()):
            raise Diverged(number, "the global model is not finite")
        yield Round(
            state=state,
            round=number,
            train_loss=float(wave.loss @ wave.sizes.to(wave.loss.dtype) / wave.sizes.sum()),
            train_samples=int(wave.sizes.sum()) * engine.task.work.epochs,
            train_seconds=seconds,
            bytes_per_client=_bytes_per_client(algorithm, state, wave.memory),
            evaluation=evaluate(engine, state.w) if schedule.evaluates(number) else None,
        )


def _train(engine: Engine, algorithm: Algorithm, state: State, federation: Federation) -> Wave:
    task, number = engine.task, state.round + 1
    pick = algorithm.pick(state, federation, seeds.stream(task.seed, "pick", number))
    wave = algorithm.start(state, _wave(engine, algorithm, state, pick))
    return engine.train(algorithm, wave, number)


def _wave(engine: Engine, algorithm: Algorithm, state: State, pick: Pick) -> Wave:
    start = state.w.expand(len(pick.ids), -1)
    return Wave(
        ids=pick.ids,
        sizes=engine.task.sizes(pick.ids),
        steps=engine.task.steps(pick.ids),
        staleness=pick.staleness,
        start=start,
        end=start,
        loss=torch.zeros(len(pick.ids)),
        shared={name: state.server[name] for name in algorithm.down},
        memory={name: take(rows, pick.ids) for name, rows in state.memory.items()},
        optim=engine.task.work.optim,
        rng=seeds.stream(engine.task.seed, "update", state.round + 1),
        ask=engine.ask(pick.ids),
    )


def _check(number: int, wave: Wave) -> None:
    bad = wave.ids[~torch.isfinite(wave.loss)].tolist()
    if bad:
        clients = "client" if len(bad) == 1 else "clients"
        raise Diverged(number, f"the training loss of {clients} {', '.join(map(str, bad))} is not finite")


def _applied(state: State, ids: Tensor, update: Update) -> State:
    memory: Mapping[str, Tensor] = {
        name: put(rows, ids, update.memory[name]) if name in update.memory else rows
        for name, rows in state.memory.items()
    }
    return State(update.w, {**state.server, **update.server}, memory, state.round + 1)


def _bytes_per_client(algorithm: Algorithm, state: State, memory: Mapping[str, Tensor]) -> float:
    """The model both ways, and what the algorithm says travels with it."""
    down = state.w.numel() + sum(state.server[name].numel() for name in algorithm.down)
    up = state.w.numel() + sum(memory[name][0].numel() for name in algorithm.up)
    return BYTES_PER_VALUE * float(down + up)
