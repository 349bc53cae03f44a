"""How many samples a second does noniid train, against the best loop one could write by hand?

The contenders train the same clients with the same batches from the same weights, each on all cores:
a hand-written loop in one process whose operations use all cores; the same loop in one process per core; noniid's
threads as installed, and without its compiled kernels. The hand loop runs in both memory layouts.
A repetition is one round of FedAvg, from the global model to the next one, without evaluation.

How to read it: samples/s is that of the best repetition, `median` that of the middle one; `ratio` compares the best
with the best of all hand loops (1.000), all measured in turns within this run. `accuracy` is the global model's after
all rounds: equal work gives equal accuracy, and the run stops where steps or accuracies differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import NamedTuple, Protocol
from unittest import mock

import torch
from torch import Tensor

import harness
from hand_loop import Job, OneProcess, Processes
from noniid.algorithms.fedavg import FedAvg
from noniid.engine import Schedule, Task, begin, evaluate, simulate, start_engine
from noniid.experiments.prepare import Ready, prepare
from noniid.models import fused
from setting import experiment

NEVER = 10**9


class Contender(Protocol):
    """Trains a round at a time, each from the model that the last one left in `w`."""

    @property
    def w(self) -> Tensor: ...
    def round(self) -> int | None: ...
    def close(self) -> None: ...


class Engine:
    """A noniid engine as a contender."""

    def __init__(self, ready: Ready, name: str, workers: int, *, kernels: bool = True):
        self._engine = start_engine(name, ready.task, workers)
        self._kernels = kernels
        state, schedule = (
            begin(FedAvg(), ready.w, ready.federation),
            Schedule(NEVER, ready.federation.cohort, NEVER),
        )
        self._rounds = simulate(self._engine, FedAvg(), state, ready.federation, schedule)
        self.w = ready.w

    def round(self) -> None:
        off = mock.patch.object(fused, "kernels", lambda: None)
        with nullcontext() if self._kernels else off:
            self.w = next(self._rounds).state.w

    def close(self) -> None:
        self._engine.close()


@contextmanager
def counted() -> Iterator[list[int]]:
    """The batches of each epoch that an engine takes meanwhile."""
    taken: list[int] = []
    epochs = Task.epochs

    def counting(self: Task, client: int, clock: int) -> Iterator[Tensor]:
        for epoch in epochs(self, client, clock):
            taken.append(math.ceil(len(epoch) / self.work.batch_size))
            yield epoch

    with mock.patch.object(Task, "epochs", counting):
        yield taken


def first_round(contender: Contender) -> int:
    """Trains a round that is not timed, and counts its steps."""
    with counted() as taken:
        steps = contender.round()
    return sum(taken) if steps is None else steps


def contenders(ready: Ready, workers: int, *, reference: bool = False) -> dict[str, Contender]:
    """All who take part, in the order of their turns; each has a global model of its own."""

    def job() -> Job:
        return Job.of(ready.task, ready.w, cohort=ready.federation.cohort)

    entries: dict[str, Contender] = {}
    for layout, last in (("", False), (", channels last", True)):
        entries[f"by hand, 1 process x {workers} threads{layout}"] = OneProcess(job(), workers, channels_last=last)
        entries[f"by hand, {workers} processes x 1 thread{layout}"] = Processes(job(), workers, channels_last=last)
    entries[f"noniid, {workers} threads"] = Engine(ready, "threads", workers)
    if fused.kernels() is not None:
        name = f"noniid, {workers} threads, no compiled kernels"
        entries[name] = Engine(ready, "threads", workers, kernels=False)
    if reference:
        entries["noniid, reference engine"] = Engine(ready, "reference", 1)
    return entries


class Raced(NamedTuple):
    """What a contender did in a race."""

    best: float  # seconds of its fastest round
    median: float
    steps: int  # of a round
    accuracy: float  # of the model after the last one


def race(ready: Ready, running: Mapping[str, Contender], repetitions: int, rounds: int = 1) -> dict[str, Raced]:
    """So many rounds of each in turns, after one that is not timed; the contenders are closed afterwards.

    Who breaks in its first round is left out of the answer; Unfair unless all others did equal work."""
    with ExitStack() as closing:
        judge = start_engine("threads", ready.task)
        for each in [*running.values(), judge]:
            closing.callback(each.close)
        steps: dict[str, int] = {}
        for name, each in running.items():
            with suppress(harness.Broken):
                steps[name] = first_round(each)
        seconds = harness.interleave({name: _several(running[name], rounds) for name in steps}, repetitions)
        accuracy = {name: evaluate(judge, running[name].w).accuracy for name in steps}
    # Where nothing is learned yet, accuracies are those of chance, and say nothing.
    told = accuracy if max(accuracy.values()) >= learned_from(ready) else dict.fromkeys(accuracy, 0.0)
    harness.check_equal_work({"the task": round_steps(ready), **steps}, told)
    return {
        name: Raced(*harness.best_and_median(taken), steps[name], accuracy[name]) for name, taken in seconds.items()
    }


def round_steps(ready: Ready) -> int:
    """Steps that a round takes: of the clients of the first cohort. Where not all take part, all must hold as much."""
    task, cohort = ready.task, ready.federation.cohort
    steps = task.steps(torch.arange(task.num_clients))
    if cohort < task.num_clients and len(set(task.split.sizes.tolist())) > 1:
        raise harness.Unfair("the clients differ in size, so that rounds of other clients are other work")
    return int(steps[:cohort].sum())


def round_samples(ready: Ready) -> int:
    """Samples that a round trains on."""
    sizes = ready.task.split.sizes[: ready.federation.cohort]
    return int(sizes.sum()) * ready.task.work.epochs


def measure(ready: Ready, running: Mapping[str, Contender], repetitions: int, rounds: int = 1) -> harness.Table:
    """All against the best loop written by hand."""
    task, samples = ready.task, round_samples(ready) * rounds
    raced = race(ready, running, repetitions, rounds)
    hand = min(each.best for name, each in raced.items() if name.startswith("by hand"))
    rows = [
        (name, samples / each.best, samples / each.median, hand / each.best, each.steps, each.accuracy)
        for name, each in raced.items()
    ]
    title = f"Training speed: {task.dataset.name}, {_clients(ready)}, {task.work.epochs} epoch(s) a round"
    columns = ("contender", "samples/s", "median", "ratio", "steps/round", "accuracy")
    what = "rounds" if rounds == 1 else f"times {rounds} rounds"
    notes = [f"Best of {repetitions} {what}, in turns, after one that is not timed.", *learned(ready, raced)]
    return harness.Table(title, columns, rows, tuple(notes))


def _several(contender: Contender, rounds: int) -> Callable[[], None]:
    def once() -> None:
        for _ in range(rounds):
            contender.round()

    return once


def _clients(ready: Ready) -> str:
    everyone, cohort = ready.task.num_clients, ready.federation.cohort
    return f"{everyone:,} clients" if cohort == everyone else f"{cohort:,} of {everyone:,} clients"


def learned_from(ready: Ready) -> float:
    """The accuracy from which on something is learned."""
    test = ready.task.dataset.test
    chance = float(torch.bincount(test.y).max()) / len(test)
    return chance + 0.1 * (1 - chance)


def learned(ready: Ready, raced: Mapping[str, Raced]) -> list[str]:
    """A warning where accuracies say nothing yet."""
    if max(each.accuracy for each in raced.values()) >= learned_from(ready):
        return []
    return ["Nothing is learned yet: only the equal steps say that the work was equal."]


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--epochs", type=int, default=1, help="local epochs of a round")
    flags.add_argument("--repetitions", type=int, default=None, help="timed rounds (default 7, quick 2)")
    flags.add_argument("--workers", type=int, default=harness.cores(), help="cores to use")
    flags.add_argument("--reference", action="store_true", help="include the reference engine")
    arguments = flags.parse_args()
    setting = harness.environment()
    ready = prepare(experiment(quick=arguments.quick, epochs=arguments.epochs))
    running = contenders(ready, arguments.workers, reference=arguments.reference)
    table = measure(ready, running, arguments.repetitions or (2 if arguments.quick else 7))
    harness.report("training_speed", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
