"""RADFed's Table I, client sizes and C-scores, beside those of our `independent` splits over several seeds.

    python reproductions/radfed/table1.py [--seeds 10]

prints a Markdown table. Class sizes are all that a split of MNIST or CIFAR-10 needs. Covertype is read from UCI's
covtype.data in the cache: LIBSVM's file, which the loader prefers, no longer tells the cover types apart.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from noniid.data.files import cache_dir
from noniid.split import Independent, Recipe, Traits, summary

NUM_CLIENTS = 100
STATISTICS = ("size_min", "size_max", "size_mean", "size_std", "c_score")
MNIST = np.repeat(np.arange(10), [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958])
CIFAR = np.repeat(np.arange(10), 6000)
COVERTYPE_SIZES = (211_560, 280_440)  # RADFed's; UCI has 211,840 and 283,301, and nobody says which are left out


class Claimed(NamedTuple):
    name: str
    placement: Independent
    values: tuple[float, ...]  # in the order of STATISTICS


TABLE_1 = (
    Claimed("CIFAR-10", Independent(0.1), (2, 2850, 600, 605, 1.29)),
    Claimed("MNIST-1", Independent(1.0), (3, 3365, 700, 667, 0.70)),
    Claimed("MNIST-0.1", Independent(0.1), (11, 3327, 700, 658, 1.29)),
    Claimed("COVCLS", Independent(0.1), (110, 33300, 4920, 5110, 0.79)),
    Claimed("COVFEAT", Independent(0.1, features="binary"), (372, 17328, 4920, 3237, 0.68)),
)


def samples(name: str) -> Traits | None:
    """None where the data are not here."""
    if not name.startswith("COV"):
        return Traits(CIFAR if name == "CIFAR-10" else MNIST)
    path = cache_dir() / "covtype" / "covtype.data"
    return _covertype(np.loadtxt(path, delimiter=",", dtype=np.int16)) if path.exists() else None


def _covertype(rows: np.ndarray) -> Traits:
    """Spruce/fir and lodgepole pine, cut to RADFed's sizes at random."""
    draws = np.random.default_rng(0)
    kept = [draws.permutation(np.flatnonzero(rows[:, -1] == k + 1))[:size] for k, size in enumerate(COVERTYPE_SIZES)]
    rows = rows[np.concatenate(kept)]
    return Traits(rows[:, -1].astype(np.int64) - 1, read=lambda index: rows[index, :-1])


def lines(claimed: Claimed, traits: Traits, num_seeds: int) -> list[str]:
    """The paper's line and ours: the mean over seeds, and from where to where."""
    found: list[list[float]] = []
    began = time.perf_counter()
    for seed in range(num_seeds):
        split = Recipe(claimed.placement).make(traits, NUM_CLIENTS, np.random.default_rng(seed))
        assert split.num_dropped == 0
        measured = summary(split, traits.labels, int(traits.labels.max()) + 1)
        found.append([measured[name] for name in STATISTICS])
    seconds = (time.perf_counter() - began) / num_seeds
    ours = [f"{_text(np.mean(each))} ({_text(min(each))} - {_text(max(each))})" for each in zip(*found, strict=True)]
    return [
        f"| {claimed.name} | paper | {' | '.join(map(_text, claimed.values))} | |",
        f"| | `{_spec(claimed)}` | {' | '.join(ours)} | {seconds:.1f} |",
    ]


def _spec(claimed: Claimed) -> str:
    return str(Recipe(claimed.placement))


def _text(value: float) -> str:
    return f"{value:.2f}" if value < 2.01 and value != round(value) else f"{value:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many (default 10)")
    arguments = parser.parse_args()
    print("| data | | min | max | mean | std | C-score | seconds a split |\n|---|---|---|---|---|---|---|---|")
    for claimed in TABLE_1:
        traits = samples(claimed.name)
        rows = (
            [f"| {claimed.name} | not here | | | | | | |"]
            if traits is None
            else lines(claimed, traits, arguments.seeds)
        )
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
