"""How much memory does a run of 50 rounds need, and does it grow?

A fresh process trains the benchmarks' federation as a user would, evaluated and stored after each round, and says
how much of it is resident.

How to read it: `resident` is what the process holds at that moment, `peak` the most it has held so far, both in MB
(10^6 bytes). The goal is a peak under 1,500 MB and a flat `resident` from round 5 to round 50.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

EVERY = 5
GOAL_MB = 1_500


def resident_mb() -> float:
    """What this process holds now; where the system does not say, the most it has held."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return peak_mb()
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """The most this process has held. getrusage may count its parent's memory from before the start."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def tell(moment: str) -> None:
    """One line for the parent."""
    print(json.dumps([moment, resident_mb(), peak_mb()]), flush=True)


def train(rounds: int, epochs: int, quick: bool, spec: str) -> None:
    """The fresh process: run, and tell at every round."""
    tell("python")
    from noniid.algorithms import ALGORITHMS
    from noniid.engine import Round
    from noniid.experiments.experiment import Experiment
    from noniid.experiments.runner import Runner, Silent
    from noniid.results.store import Store
    from setting import experiment

    class Listener(Silent):
        def started(self, experiment: Experiment, done_rounds: int) -> None:
            tell("data loaded")

        def round(self, experiment: Experiment, round: Round) -> None:
            tell(f"round {round.round}")

    tell("imported")
    planned = experiment(quick=quick, algorithm=ALGORITHMS.parse(spec), rounds=rounds, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        for run in Runner(Store(folder), listener=Listener()).run([planned]):
            if run.status != "done":
                raise SystemExit(f"the run ended as {run.status}: {run.reason}")


def measure(rounds: int, epochs: int, quick: bool, spec: str) -> harness.Table:
    flags = ["--inside", "--rounds", str(rounds), "--epochs", str(epochs), "--algorithm", spec]
    command = [sys.executable, __file__, *flags, *(["--quick"] if quick else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [json.loads(line) for line in process.stdout]
    if process.returncode:
        raise SystemExit(f"the measured process failed with code {process.returncode}")
    shown = {"python", "imported", "data loaded", *(f"round {r}" for r in range(EVERY, rounds + 1, EVERY))}
    rows = [(moment, now, peak) for moment, now, peak in told if moment in shown]
    steady = [now for moment, now, _ in told if moment.startswith("round ") and int(moment[6:]) >= EVERY]
    growth = f"From round {EVERY} to {rounds} resident memory moved by {steady[-1] - steady[0]:+.1f} MB"
    notes = (
        f"{growth}, between {min(steady):,.0f} and {max(steady):,.0f}.",
        f"Goal: peak under {GOAL_MB:,} MB (it is {told[-1][2]:,.0f}) and flat.",
    )
    return harness.Table(f"Memory: {spec}, {epochs} epoch(s) a round", ("after", "resident MB", "peak MB"), rows, notes)


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--rounds", type=int, default=None, help="rounds of the run (default 50, quick 10)")
    flags.add_argument("--epochs", type=int, default=1, help="local epochs of a round (the published runs: 10)")
    flags.add_argument("--algorithm", default="fedavg", help="which algorithm")
    flags.add_argument("--inside", action="store_true", help="be the process that is measured")
    arguments = flags.parse_args()
    rounds = arguments.rounds or (10 if arguments.quick else 50)
    if rounds < EVERY:
        flags.error(f"give at least {EVERY} rounds")
    if arguments.inside:
        train(rounds, arguments.epochs, arguments.quick, arguments.algorithm)
        return
    setting = harness.environment()
    table = measure(rounds, arguments.epochs, arguments.quick, arguments.algorithm)
    harness.report("memory", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
