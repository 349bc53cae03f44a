"""What does a round cost when more clients exist, and as many train?

NIID-Bench's CNN on 1x28x28; 100 clients a round, 20 samples each, batches of 10, one epoch; the other clients wait.
FedAvg's clients remember nothing, SCAFFOLD's a row of the model's size each. Every line is a process of its own that
runs as a user would, evaluated and stored after each round, and writes a checkpoint after each round, too, where a
user's run writes one every ten seconds. All numbers of samples show the same thousand images.

How to read it: `start` is from the request to the first round, the data's making and split included. `seconds` is a
round's, evaluation and checkpoint included: the best one and the middle one after the first. `peak MB` is the most the
process has held; pages of files, which the system takes back when it needs room, are counted in it and left out in
`own MB`, the most it has held beside them after a round. `memory MB` is what all clients' rows come to. From line to
line nothing should grow but what the data's labels and indices take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

COHORT = 100
EACH = 20  # samples of a client
PARAMETERS = 44_426
POPULATIONS = {"fedavg": (100, 1_000, 10_000, 100_000, 1_000_000), "scaffold": (100, 1_000, 10_000)}


def status_mb(name: str) -> float | None:
    """An entry of this process's status; None where the system has none."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) for line in lines if line.startswith(f"{name}:")]
    return found[0] * 1024 / 1e6 if found else None


def train(spec: str, clients: int, rounds: int) -> dict[str, Any]:
    """The process that is measured."""
    from noniid import models, split
    from noniid.algorithms import ALGORITHMS
    from noniid.engine import Round
    from noniid.experiments import runner
    from noniid.experiments.experiment import Experiment
    from noniid.optim import SGD
    from noniid.results.store import Store
    from setting import repeated

    class Listener(runner.Silent):
        started_at, own = 0.0, 0.0

        def started(self, experiment: Experiment, done_rounds: int) -> None:
            self.started_at = time.perf_counter()

        def round(self, experiment: Experiment, round: Round) -> None:
            self.own = max(self.own, status_mb("RssAnon") or 0.0)

    planned = Experiment(
        repeated(clients * EACH), split.parse("iid"), ALGORITHMS.parse(spec), models.parse("simple-cnn"), clients,
        participation=COHORT / clients, rounds=rounds, epochs=1, batch=10, optim=SGD(0.01, 0.9),
    )  # fmt: skip
    runner.CHECKPOINT_SECONDS = 0.0
    with tempfile.TemporaryDirectory(dir=".") as folder:
        store, listener, began = Store(folder), Listener(), time.perf_counter()
        (run,) = runner.Runner(store, listener=listener).run([planned])
        seconds = [row["seconds"] for row in store.rounds(run.key)]
        store.close()
    if run.status != "done":
        raise SystemExit(f"the run ended as {run.status}: {run.reason}")
    best, median = harness.best_and_median(seconds[1:])
    start = listener.started_at - began
    return {"start": start, "best": best, "median": median, "peak": status_mb("VmHWM"), "own": listener.own}


def measured(spec: str, clients: int, rounds: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--inside", spec, str(clients), str(rounds)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(told)


def measure(rounds: int, most: int, say: Callable[[str], None]) -> harness.Table:
    rows: list[tuple[Any, ...]] = []
    for spec, populations in POPULATIONS.items():
        for clients in (n for n in populations if n <= most):
            say(f"{spec}, {clients:,} clients")
            got = measured(spec, clients, rounds)
            memory = 4e-6 * PARAMETERS * clients if spec == "scaffold" else 0.0
            rows.append((f"{spec}, {clients:,}", *(got[k] for k in ("start", "best", "median", "peak", "own")), memory))
    columns = ("algorithm, clients", "start s", "seconds", "median", "peak MB", "own MB", "memory MB")
    title = f"A round of {COHORT} clients out of ever more: simple-cnn, {EACH} samples each, B = 10"
    return harness.Table(title, columns, rows, (f"{rounds - 1} rounds after one that is not timed.",))


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--rounds", type=int, default=None, help="rounds of each run (default 20, quick 4)")
    flags.add_argument("--most", type=int, default=None, help="the largest population (default 1,000,000, quick 1,000)")
    flags.add_argument("--inside", nargs=3, metavar=("ALGORITHM", "CLIENTS", "ROUNDS"), help="be what is measured")
    arguments = flags.parse_args()
    if arguments.inside:
        spec, clients, rounds = arguments.inside
        print(json.dumps(train(spec, int(clients), int(rounds))))
        return
    setting = harness.environment()
    rounds = arguments.rounds or (4 if arguments.quick else 20)
    most = arguments.most or (1_000 if arguments.quick else 1_000_000)
    table = measure(rounds, most, lambda text: print(text, file=sys.stderr, flush=True))
    harness.report("population", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
