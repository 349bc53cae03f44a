"""How long does it take to split very many samples over very many clients, and how much memory?

A fresh process for each split draws 10 million labels of ten classes and splits them over 10,000 clients.

How to read it: `seconds` is the split alone, the best repetition and the middle one; `peak` is the most the process
has held by its end, `labels held` what it held before the split, both in MB (10^6 bytes), most of it torch. The goal
is 10 seconds and 1,000 MB for dirichlet, labels and quantity.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import harness
from memory import peak_mb, resident_mb

SPLITS = (
    "iid",
    "labels(2)",
    "dirichlet(0.5)",
    "quantity(5)",
    "population(1)",
    "shards(2)",
    "similarity(10)",
    "lognormal(1, min_size=1)",
)
NUM_CLASSES = 10
GOAL_SECONDS, GOAL_MB = 10, 1_000


def split_once(text: str, num_samples: int, num_clients: int) -> None:
    """The fresh process: one line for the parent."""
    import numpy as np

    from noniid.split import parse

    labels = np.random.default_rng(0).integers(0, NUM_CLASSES, num_samples, dtype=np.uint8)
    before = resident_mb()
    began = time.perf_counter()
    split = parse(text).make(labels, num_clients, np.random.default_rng(1))
    seconds = time.perf_counter() - began
    if split.num_clients != num_clients or split.sizes.sum() + split.num_dropped != num_samples:
        raise SystemExit(f"{text} lost samples or clients")
    print(json.dumps([seconds, before, peak_mb()]))


def measure(texts: list[str], num_samples: int, num_clients: int, repetitions: int) -> harness.Table:
    told: dict[str, list[list[float]]] = {text: [] for text in texts}
    for _ in range(repetitions):
        for text in texts:
            size = ["--samples", str(num_samples), "--clients", str(num_clients)]
            command = [sys.executable, __file__, "--inside", text, *size]
            told[text].append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    rows = [_row(text, each) for text, each in told.items()]
    notes = (
        f"Best of {repetitions}, in turns, each in a process of its own.",
        f"Goal for dirichlet, labels and quantity: {GOAL_SECONDS} seconds and {GOAL_MB:,} MB.",
    )
    title = f"Splitting: {num_samples:,} samples over {num_clients:,} clients"
    return harness.Table(title, ("split", "seconds", "median", "labels held MB", "peak MB"), rows, notes)


def _row(text: str, told: list[list[float]]) -> tuple[str | float, ...]:
    seconds, before, peak = zip(*told, strict=True)
    return text, *harness.best_and_median(seconds), max(before), max(peak)


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--samples", type=int, default=None, help="how many (default 10,000,000, quick a tenth)")
    flags.add_argument("--clients", type=int, default=None, help="how many (default 10,000, quick a tenth)")
    flags.add_argument("--repetitions", type=int, default=None, help="runs of each (default 3, quick 1)")
    flags.add_argument("--split", action="append", dest="splits", metavar="SPLIT", help="only this one; repeatable")
    flags.add_argument("--inside", metavar="SPLIT", help="be the process that is measured")
    arguments = flags.parse_args()
    num_samples = arguments.samples or (1_000_000 if arguments.quick else 10_000_000)
    num_clients = arguments.clients or (1_000 if arguments.quick else 10_000)
    if arguments.inside:
        split_once(arguments.inside, num_samples, num_clients)
        return
    setting = harness.environment()
    repetitions = arguments.repetitions or (1 if arguments.quick else 3)
    table = measure(arguments.splits or list(SPLITS), num_samples, num_clients, repetitions)
    harness.report("split_speed", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
