"""How many samples a second does noniid train of a small dense model, one by one and stacked?

NIID-Bench's MLP on adult: a step is microseconds of arithmetic, so what counts is everything around it. The contenders
train the same clients with the same batches from the same weights, each on all cores: a hand-written loop in one
process, the same in one process per core, noniid's threads, and noniid's batched engine on one worker and on all.
A repetition is one round of FedAvg, from the global model to the next one, without evaluation.

How to read it: as training_speed. Clients of unequal size leave the stack one after the other; `--split iid` shows
what it comes to when none does.
"""

from __future__ import annotations

import harness
from hand_loop import Job, OneProcess, Processes
from nets import mlp
from noniid.experiments.prepare import Ready, prepare
from setting import table_experiment
from training_speed import Contender, Engine, measure


def contenders(ready: Ready, workers: int) -> dict[str, Contender]:
    """All who take part, in the order of their turns; each has a global model of its own."""

    def job() -> Job:
        return Job.of(ready.task, ready.w, mlp)

    entries: dict[str, Contender] = {
        "by hand, 1 process": OneProcess(job(), 1),
        f"by hand, {workers} processes x 1 thread": Processes(job(), workers),
        "noniid, threads, 1 worker": Engine(ready, "threads", 1),
        f"noniid, threads, {workers} workers": Engine(ready, "threads", workers),
        "noniid, batched, 1 worker": Engine(ready, "batched", 1),
        f"noniid, batched, {workers} workers": Engine(ready, "batched", workers),
    }
    return entries


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--epochs", type=int, default=5, help="local epochs of a round")
    flags.add_argument("--repetitions", type=int, default=None, help="timed rounds (default 7, quick 2)")
    flags.add_argument("--workers", type=int, default=harness.cores(), help="cores to use")
    flags.add_argument("--split", default="dirichlet(0.5)", help="who holds what")
    arguments = flags.parse_args()
    setting = harness.environment()
    ready = prepare(table_experiment(quick=arguments.quick, epochs=arguments.epochs, placement=arguments.split))
    table = measure(ready, contenders(ready, arguments.workers), arguments.repetitions or (2 if arguments.quick else 7))
    harness.report("dense_speed", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
