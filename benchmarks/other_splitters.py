"""What do splitters answer to what cannot be done, and how long do they take for what can?

60,000 labels of ten classes over 1,000 clients by a class-wise Dirichlet, ten samples or more for everyone: with
alpha = 1 an easy split; with alpha = 0.01 one that does not exist, for a class then goes to some ten clients. Each runs
in a process of its own, which is ended when its time is up. FedLab asks for packages that splitting does not need,
so it is installed without them, and not beside us:

    pip install --no-deps --target FOLDER fedlab && PYTHONPATH=FOLDER python benchmarks/other_splitters.py

How to read it: `seconds` is the split alone, without imports and without making a data set of the labels.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import harness

NUM_CLASSES, NUM_CLIENTS, LEAST = 10, 1_000, 10
ALPHAS = (1.0, 0.01)

Parts = Sequence[Any]
Once = Callable[[], Parts]


def ours(labels: np.ndarray, alpha: float) -> Once:
    from noniid.split import parse

    recipe = parse(f"dirichlet({alpha}, min_size={LEAST})")
    return lambda: recipe.make(labels, NUM_CLIENTS, np.random.default_rng(0)).indices


def flower(labels: np.ndarray, alpha: float) -> Once:
    from datasets import Dataset
    from flwr_datasets.partitioner import DirichletPartitioner

    partitioner = DirichletPartitioner(NUM_CLIENTS, "label", alpha, LEAST, self_balancing=True, seed=0)
    partitioner.dataset = Dataset.from_dict({"label": labels})
    # The first partition asked for makes them all; all of them are then read to be counted, which is not timed.
    return lambda: [partitioner.load_partition(0)] and _Later(partitioner)


class _Later:
    def __init__(self, partitioner: Any):
        self._partitioner = partitioner

    def __iter__(self) -> Any:
        return (self._partitioner.load_partition(i) for i in range(self._partitioner.num_partitions))


def fedlab(labels: np.ndarray, alpha: float) -> Once:
    from fedlab.utils.dataset.functional import hetero_dir_partition  # pyright: ignore[reportMissingImports]

    np.random.seed(0)
    return lambda: list(hetero_dir_partition(labels, NUM_CLIENTS, NUM_CLASSES, alpha, LEAST).values())


CONTENDERS = {"noniid": ours, "Flower Datasets": flower, "FedLab": fedlab}


def split_once(name: str, alpha: float, num_samples: int) -> None:
    """The process that is measured: one line for the parent."""
    labels = np.random.default_rng(0).permutation(np.arange(num_samples) % NUM_CLASSES)
    try:
        once = CONTENDERS[name](labels, alpha)
    except ImportError:
        print(json.dumps(["not installed", None]))
        return
    began = time.perf_counter()
    try:
        parts: Any = once()
        seconds = time.perf_counter() - began
        sizes = [len(part) for part in parts]
        answer = f"{len(sizes):,} clients with {min(sizes)} to {max(sizes)} samples"
    except Exception as error:
        seconds, answer = time.perf_counter() - began, textwrap.shorten(f"refused: {error}", 78, placeholder=" …")
    print(json.dumps([answer, seconds]))


def measure(num_samples: int, most_seconds: float) -> harness.Table:
    rows: list[tuple[Any, ...]] = []
    for alpha in ALPHAS:
        for name in CONTENDERS:
            words = ["--inside", name, "--alpha", str(alpha), "--samples", str(num_samples)]
            try:
                told = subprocess.run(
                    [sys.executable, "-W", "ignore", __file__, *words],
                    stdout=subprocess.PIPE,
                    check=True,
                    timeout=most_seconds,
                )
                answer, seconds = json.loads(told.stdout.splitlines()[-1])
            except subprocess.TimeoutExpired:
                answer, seconds = f"no answer in {most_seconds:.0f} seconds", None
            rows.append((f"alpha = {alpha:g}", name, answer, seconds))
    title = f"Class-wise Dirichlet: {num_samples:,} samples over {NUM_CLIENTS:,} clients, {LEAST} or more each"
    notes = (f"One run each, ended after {most_seconds:.0f} seconds.", _versions())
    return harness.Table(title, ("asked", "who", "answer", "seconds"), rows, notes)


def _versions() -> str:
    from importlib import metadata

    found = {each.name: each.version for each in metadata.distributions() if each.name in ("flwr-datasets", "fedlab")}
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items())) + "."


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--samples", type=int, default=60_000, help="how many")
    flags.add_argument("--most-seconds", type=float, default=None, help="for each (default 120, quick 12)")
    flags.add_argument("--alpha", type=float, help="with --inside")
    flags.add_argument("--inside", metavar="WHO", help="be the process that is measured")
    arguments = flags.parse_args()
    if arguments.inside:
        split_once(arguments.inside, arguments.alpha, arguments.samples)
        return
    setting = harness.environment()
    most = arguments.most_seconds or (12 if arguments.quick else 120)
    harness.report("other_splitters", measure(arguments.samples, most), setting, save=arguments.save)


if __name__ == "__main__":
    main()
