"""docs/img/scaffold-participation.png from the exports beside this file: a curve for each of SCAFFOLD's eight forms.

python reproductions/family/scaffold_figure.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from noniid.algorithms import ALGORITHMS
from noniid.algorithms.scaffold import Scaffold
from noniid.results.figures import Series, curves_figure

HERE = Path(__file__).parent
PICTURE = HERE.parent.parent / "docs" / "img" / "scaffold-participation.png"
NAMES = {"zero, all, gradient": "the paper", "random-net, cohort, after-step": "the published code"}


def series() -> list[Series]:
    courses: dict[str, list[tuple[int, float]]] = {}
    with (HERE / "rounds.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            courses.setdefault(row["run"], []).append((int(row["round"]), float(row["accuracy"])))
    drawn = []
    with (HERE / "runs.csv").open(newline="", encoding="utf-8") as file:
        for run in csv.DictReader(file):
            form = ALGORITHMS.parse(run["algorithm"])
            if isinstance(form, Scaffold) and run["draws"] == "own":
                label = f"{form.variates}, {form.share}, {form.correct}"
                rounds, accuracy = (np.array(each) for each in zip(*courses[run["run"]], strict=True))
                drawn.append(Series(NAMES.get(label, label), rounds, accuracy, accuracy, accuracy))
    return sorted(drawn, key=lambda one: one.label)


if __name__ == "__main__":
    curves_figure(series(), "SCAFFOLD, 10 of 100 clients a round: fmnist, dirichlet(0.5)", PICTURE)
