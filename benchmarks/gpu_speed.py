"""How many samples a second does a GPU train, clients one by one and as one recorded program?

Each line is a federation: a model, a data set of its shape, so many clients, batches of 64. The contenders train the
same clients with the same batches from the same weights: noniid's threads, its batched engine step by step, and the
batched engine as it is, whose steps are recorded as CUDA graphs and replayed. A repetition is one round of FedAvg,
without evaluation; the first one, which records, is not timed but told.

How to read it: samples/s is that of the best repetition. `ratio` is the batched engine's over the threads'.
Needs a GPU; without one it says so. Samples are drawn where the data sets are not at hand.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch

import harness
from noniid import models, split
from noniid.algorithms import ALGORITHMS
from noniid.engine import Schedule, begin, evaluate, simulate, start_engine
from noniid.engine.recorded import Recorder
from noniid.experiments.prepare import Ready, prepare
from setting import data_name, experiment, generated, table_name

NEVER = 10**9


@dataclass(frozen=True)
class Line:
    """A federation and an algorithm."""

    data: str
    model: str
    clients: int
    placement: str = "dirichlet(0.5)"
    algorithm: str = "fedavg"

    @property
    def title(self) -> str:
        return f"{self.model}, {self.clients} clients, {self.placement}, {self.algorithm}"


def lines(quick: bool) -> list[Line]:
    images, table = data_name(quick), table_name(quick)
    colour = generated("generated-colour", 5_000 if quick else 50_000, 1_000, (3, 32, 32))
    return [
        Line(table, "mlp", 10),
        Line(table, "mlp", 100, "iid"),
        Line(images, "simple-cnn", 10),
        Line(images, "simple-cnn", 10, "iid"),
        Line(images, "simple-cnn", 100, "iid"),
        Line(colour, "simple-cnn", 10),
        Line(images, "mcmahan-cnn", 10),
        Line(images, "two-nn", 10),
        *(Line(images, "simple-cnn", 10, algorithm=name) for name in ("fedprox", "scaffold", "moon", "rfedavg_plus")),
    ]


def prepared(line: Line, device: str, epochs: int) -> Ready:
    usual = experiment(quick=True, epochs=epochs)
    asked = replace(
        usual, data=line.data, split=split.parse(line.placement), model=models.parse(line.model),
        clients=line.clients, algorithm=ALGORITHMS.parse(line.algorithm), device=device,
    )  # fmt: skip
    return prepare(asked)


def rounds(ready: Ready, line: Line, engine: str, repetitions: int, recorded: bool = True) -> dict[str, Any]:
    """Seconds of the first round and of the best one, and what the model has learned."""
    algorithm = ALGORITHMS.parse(line.algorithm)
    off = nullcontext() if recorded else mock.patch.object(Recorder, "can", lambda *_: False)
    with off:
        running = start_engine(engine, ready.task)
        federation = ready.federation._replace(ask=running.ask)
        state = begin(algorithm, ready.w, federation)
        taken: list[float] = []
        for done in simulate(
            running, algorithm, state, federation, Schedule(repetitions + 1, federation.cohort, NEVER)
        ):
            torch.cuda.synchronize()
            taken.append(done.train_seconds)
            state = done.state
            if done.round == repetitions:
                break
        began = time.perf_counter()
        judged = evaluate(running, state.w)
        seconds = time.perf_counter() - began
        running.close()
    told = getattr(running, "_recorder", None)
    return {"first": taken[0], "best": min(taken[1:]), "samples": done.train_samples, "accuracy": judged.accuracy,
            "evaluation": seconds, "failures": dict(told.failures) if told else {}}  # fmt: skip


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--repetitions", type=int, default=2, help="timed rounds")
    flags.add_argument("--epochs", type=int, default=1, help="local epochs of a round")
    flags.add_argument("--only", default="", help="lines whose title holds this")
    flags.add_argument("--no-threads", action="store_true", help="leave the slow contender out")
    arguments = flags.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("gpu_speed needs a GPU, and torch finds none here.")
    setting = {**harness.environment(), "gpu": torch.cuda.get_device_name(0), "cuda": torch.version.cuda}
    rows: list[tuple[Any, ...]] = []
    for line in lines(arguments.quick):
        if arguments.only not in line.title:
            continue
        ready = prepared(line, "cuda", arguments.epochs)
        many = arguments.repetitions + 1
        fast = rounds(ready, line, "batched", many)
        plain = rounds(ready, line, "batched", many, recorded=False)
        slow = None if arguments.no_threads else rounds(ready, line, "threads", many)
        found = [each["accuracy"] for each in (fast, plain, slow) if each]
        rate = [each["samples"] / each["best"] if each else None for each in (slow, plain, fast)]
        ratio = rate[2] / rate[0] if slow else None
        rows.append((line.title, *rate, ratio, fast["first"], fast["evaluation"], found[0]))
        print(f"{rows[-1]} accuracies {found} {fast['failures'] or ''}", flush=True)
    columns = (
        "federation", "threads", "batched, step by step", "batched", "ratio", "first round s", "evaluation s", "accuracy",
    )  # fmt: skip
    table = harness.Table(f"Samples/s on a GPU, {arguments.epochs} epoch(s) a round", columns, rows)
    harness.report("gpu_speed", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
