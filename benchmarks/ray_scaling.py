"""How does a round's time fall with the workers of a Ray cluster, and where does it stop?

The model, with constants measured here:

    round(W) = crowding * max(compute / W, longest) + wave + messages(W) * message + megabytes * megabyte + server

`compute` is a wave's training on one thread and `longest` its largest client's part of that. `crowding` is by how much
all processors of a machine at work slow each other down (1 for one worker): what two threads lose on large clients,
without Ray. `wave` is what it costs to begin one, `message` what each message costs whoever sends it, `megabyte` what rows
cost on their way there and back, and `server` is the driver's own part: the wave made, the clients' rows averaged.
Nothing of it is taken to overlap. Evaluation is left out.

How to read it: `measured` is the best of several rounds on a cluster of this machine, in turns with the `threads`
engine; where there are more workers than processors here only the model speaks. `apart` is model over measured less one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

import harness
from noniid import split
from noniid.algorithms import Algorithm, Wave
from noniid.algorithms.fedavg import FedAvg
from noniid.engine import Schedule, Threads, begin, simulate
from noniid.engine.connect import cluster
from noniid.engine.hand import Hand
from noniid.engine.jobs import shares
from noniid.errors import BadInput
from noniid.experiments.prepare import Ready, prepare
from setting import experiment
from training_speed import NEVER, Engine

WORKERS = (1, 2, 4, 8, 16, 64)
MEGABYTE = 1e6


class Constants(NamedTuple):
    """Seconds, whatever is trained."""

    wave: float
    message: float
    megabyte: float


class Costs(NamedTuple):
    """Seconds and sizes of one federation's rounds."""

    compute: float
    longest: float
    server: float
    megabytes: float
    steps: list[float]


@dataclass
class Echo:
    """A job that does nothing with what it is sent."""

    row: np.ndarray

    def __call__(self, hand: Hand, part: Any) -> Any:
        return part


def best(once: Callable[[], Any], repetitions: int) -> float:
    return min(harness.interleave({"": once}, repetitions)[""])


def constants(workers: int, values: int, repetitions: int) -> Constants:
    """Of a cluster of so many workers and a model of so many values."""
    found = cluster(workers)
    row, many, large = np.zeros(values, np.float32), 300, np.zeros(1_000_000, np.float32)

    def send(count: int, part: Any) -> float:
        def once() -> None:
            for _ in found.work(Echo(row), [[i] for i in range(count)], lambda message: part, workers):
                pass

        return best(once, repetitions)

    send(many, None)
    begun = send(1, None)
    message = (send(many, None) - begun) / (many - 1)
    loaded = (send(11, large) - send(11, None)) / 11
    return Constants(begun - message, message, loaded / (2 * large.nbytes / MEGABYTE))


class Idle(Threads):
    """An engine whose clients have nothing to do: what is left of a round is the server's."""

    seen: Callable[[Wave], None]

    def train(self, algorithm: Algorithm, wave: Wave) -> Wave:
        self.seen(wave)
        return wave._replace(end=wave.start.clone())


def costs(ready: Ready, one_thread: float, repetitions: int) -> Costs:
    """From a round on one thread, and a round of the server alone."""
    engine, waves = Idle(ready.task, 1), []
    engine.seen = waves.append
    state, schedule = begin(FedAvg(), ready.w, ready.federation), Schedule(NEVER, ready.federation.cohort, NEVER)
    going = simulate(engine, FedAvg(), state, ready.federation, schedule)
    server = best(lambda: next(going), repetitions)
    engine.close()
    steps = waves[-1].steps.to(torch.float64)
    megabytes = waves[-1].start.numel() * 4 / MEGABYTE / 2  # one way only: everyone begins at the same row
    compute = one_thread - server
    return Costs(compute, compute * float(steps.max() / steps.sum()), server, megabytes, steps.tolist())


def modelled(known: Constants, of: Costs, workers: int, crowding: float) -> float:
    messages = len(shares(of.steps, workers))
    driver = known.wave + messages * known.message + of.megabytes * known.megabyte + of.server
    return (crowding if workers > 1 else 1.0) * max(of.compute / workers, of.longest) + driver


def measured(ready: Ready, workers: list[int], repetitions: int) -> dict[tuple[str, int], float]:
    running = {(name, count): Engine(ready, name, count) for count in workers for name in ("threads", "ray")}
    for each in running.values():
        each.round()
    seconds = harness.interleave({str(key): each.round for key, each in running.items()}, repetitions)
    for each in running.values():
        each.close()
    return {key: min(seconds[str(key)]) for key in running}


def main() -> None:
    arguments = harness.flags(__doc__).parse_args()
    try:
        cluster(harness.cores())
    except BadInput as refusal:
        print(f"Skipped: {refusal}")
        return
    setting = harness.environment()
    repetitions = 2 if arguments.quick else 7
    base = experiment(quick=arguments.quick, epochs=1)
    many = replace(base, split=split.parse("iid"), clients=100 if arguments.quick else 1000, batch=10)
    settings = {
        "10 clients": base,
        "100 clients of 60 samples": replace(many, participation=1.0 if arguments.quick else 0.1),
    }
    here = [count for count in WORKERS if count <= harness.cores()]
    rows: list[tuple[Any, ...]] = []
    notes = [
        f"Best of {repetitions}, in turns, after one that is not timed. Several machines were not there to measure."
    ]
    crowding = 0.0
    for name, chosen in settings.items():
        ready = prepare(chosen)
        known, times = constants(harness.cores(), len(ready.w), repetitions), measured(ready, here, repetitions)
        of = costs(ready, times["threads", 1], repetitions)
        crowding = crowding or max(1.0, times["threads", here[-1]] * here[-1] / times["threads", 1])
        for count in WORKERS:
            model, found = modelled(known, of, count, crowding), times.get(("ray", count))
            apart = None if found is None else model / found - 1
            rows.append((name, count, len(shares(of.steps, count)), model, found, apart, times.get(("threads", count))))
        notes.append(
            f"{name}: compute {of.compute:.3f} s, longest {of.longest:.3f} s, crowding {crowding:.2f}, wave "
            f"{1000 * known.wave:.2f} ms, message {1000 * known.message:.2f} ms, {of.megabytes:.1f} MB each way at "
            f"{1000 * known.megabyte:.2f} ms, server {1000 * of.server:.2f} ms."
        )
    columns = ("wave", "workers", "messages", "model, s", "measured, s", "apart", "threads, s")
    title = f"Rounds on a Ray cluster: {base.data}, {base.model.__class__.__name__}, 1 epoch"
    harness.report("ray_scaling", harness.Table(title, columns, rows, tuple(notes)), setting, save=arguments.save)


if __name__ == "__main__":
    main()
