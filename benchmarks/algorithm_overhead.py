"""What does an algorithm cost beyond FedAvg?

FedProx adds a term to every gradient, SCAFFOLD two, FedNova another average, rFedAvg+ a term to the loss and a pass over all
data after the round, MOON two passes with every step; all train the same clients with the same batches on noniid's threads.
A repetition is one round of each in turn, without evaluation.

How to read it: seconds of a round, the best repetition and the middle one; `ratio` compares the best with FedAvg's
best (1.000) and `paired` is the middle one of the ratios within each repetition, which a disturbance moves less.
The goal is a ratio of at most 1.100, and 1.250 for rFedAvg+.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import harness
from noniid.algorithms import ALGORITHMS
from noniid.engine import Engine, Schedule, begin, simulate, start_engine
from noniid.experiments.prepare import Ready, prepare
from setting import experiment

SPECS = ("fedavg", "fedprox(0.01)", "scaffold", "fednova", "rfedavg_plus", "moon")
NEVER = 10**9


def rounds_of(spec: str, ready: Ready, engine: Engine) -> Callable[[], object]:
    """A function that trains the algorithm's next round."""
    algorithm, ready = ALGORITHMS.parse(spec), ready._replace(federation=ready.federation._replace(ask=engine.ask))
    state, schedule = (
        begin(algorithm, ready.w, ready.federation),
        Schedule(NEVER, ready.federation.cohort, NEVER),
    )
    return partial(next, simulate(engine, algorithm, state, ready.federation, schedule))


def measure(ready: Ready, workers: int, repetitions: int) -> harness.Table:
    engine = start_engine("threads", ready.task, workers)
    try:
        contenders = {spec: rounds_of(spec, ready, engine) for spec in SPECS}
        harness.interleave(contenders, 1)  # not counted: compiles the kernels, makes SCAFFOLD's memory real
        seconds = harness.interleave(contenders, repetitions)
    finally:
        engine.close()
    base = seconds["fedavg"]
    rows = []
    for spec, taken in seconds.items():
        best, median = harness.best_and_median(taken)
        paired = statistics.median(a / b for a, b in zip(taken, base, strict=True))
        rows.append((spec, best, median, best / min(base), paired))
    task = ready.task
    title = f"Seconds a round: {task.dataset.name}, {task.num_clients} clients, {task.work.epochs} epoch(s) a round"
    columns = ("algorithm", "seconds", "median", "ratio", "paired")
    notes = (
        f"Best of {repetitions} rounds, in turns, after one that is not timed. Goal: ratio at most 1.100, rFedAvg+ 1.250.",
    )
    return harness.Table(title, columns, rows, notes)


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--epochs", type=int, default=1, help="local epochs of a round")
    flags.add_argument("--repetitions", type=int, default=None, help="timed rounds of each (default 7, quick 2)")
    flags.add_argument("--workers", type=int, default=harness.cores(), help="threads to train on")
    arguments = flags.parse_args()
    setting = harness.environment()
    ready = prepare(experiment(quick=arguments.quick, epochs=arguments.epochs))
    repetitions = arguments.repetitions or (2 if arguments.quick else 7)
    table = measure(ready, arguments.workers, repetitions)
    harness.report("algorithm_overhead", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
