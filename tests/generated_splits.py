"""Tables of docs/splits.md: every placement and shift, where it comes from, and how skewed it is in one setting.

All are made of the embedded digits for ten clients with seed 0, as `noniid split digits SPLIT --clients 10` makes them.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from noniid import data, seeds
from noniid.algorithms import ALGORITHMS
from noniid.experiments.prepare import Placed
from noniid.split import Traits, parse, save, summary
from tests.generated_runs import Table

SEED, NUM_CLIENTS = 0, 10
OURS = "-"

_MCMAHAN = "[McMahan et al. 2017](https://arxiv.org/abs/1602.05629)"
_NIID_BENCH = "[NIID-Bench](https://arxiv.org/abs/2102.02079)"
_NIID_BENCH_CODE = "[NIID-Bench's code](https://github.com/Xtra-Computing/NIID-Bench)"
_FEDPROX = f"[FedProx]({ALGORITHMS['fedprox'].paper.url})"
_RADFED = f"[RADFed]({ALGORITHMS['radfed'].paper.url})"
_FLOWER = "[Flower Datasets](https://flower.ai/docs/datasets/)"
_CORRUPTIONS = "[Hendrycks and Dietterich 2019](https://arxiv.org/abs/1903.12261)"

# By name: an example, and who had the idea. A dash: nobody we know of.
PLACED = {
    "iid": ("iid", _MCMAHAN),
    "labels": ("labels(2)", _NIID_BENCH),
    "dirichlet": ("dirichlet(0.5)", f"[Yurochkin et al. 2019](https://arxiv.org/abs/1905.12022), {_NIID_BENCH}"),
    "population": ("population(1)", "[Hsu et al. 2019](https://arxiv.org/abs/1909.06335)"),
    "similarity": ("similarity(10)", f"[SCAFFOLD]({ALGORITHMS['scaffold'].paper.url}), "
                   f"[rFedAvg]({ALGORITHMS['rfedavg'].paper.url})"),
    "shards": ("shards(2)", _MCMAHAN),
    "two_owners": ("two_owners(0.5)", _NIID_BENCH_CODE),
    "independent": ("independent(0.1)", _RADFED),
    "replay": ("replay(counts.csv)", _NIID_BENCH_CODE),
    "quantity": ("quantity(0.5)", _NIID_BENCH),
    "lognormal": ("lognormal(1)", _FEDPROX),
    "zipf": ("zipf(1)", OURS),
    "growing": ("growing(square)", _FLOWER),
    "sizes": ('sizes("400, 300, 200, 100, 90, 80, 70, 60, 50, 40")', _FLOWER),
    "by": ("by(school)", "[LEAF](https://arxiv.org/abs/1812.01097)"),
    "grouped": ("grouped(writer)", _NIID_BENCH),
    "clustered": ("clustered(4)", "near [Yuan et al. 2022](https://arxiv.org/abs/2110.14216)"),
    "fcube": ("fcube", _NIID_BENCH),
    "saved": ("split.json", OURS),
}  # fmt: skip
SHIFTED = {
    "noise": ("noise(0.1)", _NIID_BENCH),
    "rotate": ("rotate(90)", "[IFCA](https://arxiv.org/abs/2006.04088)"),
    "scale": ("scale(-0.7)", _CORRUPTIONS),
    "contrast": ("contrast(-0.8)", _CORRUPTIONS),
    "blur": ("blur(1)", _CORRUPTIONS),
    "standardise": ("scale(-0.7) + standardise", _RADFED),
    "label_noise": ("label_noise(0.8)", "[FedCorr](https://arxiv.org/abs/2204.04677)"),
}
SOURCES = {name: source for name, (_, source) in (PLACED | SHIFTED).items()}


@functools.cache
def made(spec: str) -> Placed:
    """A split of the digits, which are given 30 writers at ten schools; each writer has four digits to write."""
    dataset = data.load("digits", seeds.stream(SEED, "division") if data.is_drawn("digits") else None)
    labels = dataset.train.y.numpy()
    writer = (3 * labels + np.random.default_rng(SEED).integers(12, size=len(labels))) % 30
    traits = Traits(
        labels, {"writer": writer, "school": writer // 3}, lambda index: dataset.train.batch(torch.from_numpy(index))
    )
    recipe = parse(spec)
    with _files(labels):
        return Placed(dataset, recipe.make(traits, NUM_CLIENTS, seeds.stream(SEED, "split")), recipe.placement)


@contextlib.contextmanager
def _files(labels: np.ndarray) -> Iterator[None]:
    """A folder with what `replay` and `saved` read: counts of a federation, and index lists."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        counts = np.random.default_rng(SEED).geometric(0.1, (20, 10)) // 8  # 20 accounts, most of a few classes
        np.savetxt("counts.csv", counts, fmt="%d", delimiter=",")
        save(parse("labels(3)").make(labels, NUM_CLIENTS, seeds.stream(SEED, "split")), Path("split.json"))
        yield


def gallery_placements(table: Table) -> str:
    rows = []
    for spec, _ in PLACED.values():
        placed = made(spec)
        skew = summary(placed.split, placed.dataset.train.y.numpy(), placed.dataset.num_classes)
        labels = [f"{skew[f'labels_{which}']:.{digits}f}" for which, digits in (("mean", 1), ("min", 0), ("max", 0))]
        rows.append([
            f"`{spec}`", *(f"{skew[name]:.2f}" for name in ("c_score", "total_variation", "size_gini")),
            f"{skew['effective_clients']:.1f}", "{} ({} to {})".format(*labels), f"{skew['num_dropped']:,.0f}",
        ])  # fmt: skip
    headings = ["split", "C-score", "total variation", "size Gini", "effective clients", "labels a client", "dropped"]
    return table(headings, rows)


@functools.cache
def told(spec: str) -> tuple[float, float, float]:
    """The share of samples whose client a model tells, the same by chance, and the share of labels that are wrong."""
    placed = made(spec)
    features = placed.profile(seed=SEED).features
    assert features is not None
    split, labels = placed.split, placed.dataset.train.y.numpy()
    held = np.concatenate(split.indices)
    wrong = 0.0 if split.labels is None else float((split.labels != labels)[held].mean())
    return features.telling.value, features.telling.chance, wrong


def gallery_shifts(table: Table) -> str:
    """Shifts leave sizes and true labels alone, so what is measured is features; and how many labels are wrong."""
    specs = ("iid", "clustered(4)", *(spec for spec, _ in SHIFTED.values()))
    rows = [[f"`{spec}`", *(f"{100 * value:.0f} %" for value in told(spec))] for spec in specs]
    return table(["split", "client told", "by chance", "wrong labels"], rows)
