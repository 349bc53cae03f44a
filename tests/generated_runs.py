"""Tables of pages that are made from exported runs: `runs.csv`, a line a run, and `rounds.csv`, a line a round."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noniid.algorithms import ALGORITHMS
from noniid.algorithms.scaffold import Scaffold
from noniid.results.table import FIELDS

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "reproductions"
LAST = 5  # evaluations, whose mean says more than the last one alone
NOTHING = "Nothing has been measured yet.\n"

# rFedAvg's Table I, cross-silo, MNIST at similarity 0: percent, mean and deviation of the last five rounds of a run.
RFEDAVG_CLAIMS = {"fedavg": (97.07, 0.34), "rfedavg": (97.88, 0.07), "rfedavg_plus": (98.02, 0.03)}

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


@dataclass(frozen=True)
class Kept:
    """An exported run, with the test accuracies of its rounds."""

    run: Mapping[str, str]
    accuracies: Mapping[int, float]  # by round

    def last(self, until: int | None = None) -> list[float]:
        """The last few accuracies, up to a round where runs ended at different ones."""
        return [value for number, value in self.accuracies.items() if until is None or number <= until][-LAST:]

    @property
    def last_round(self) -> int:
        return max(self.accuracies)


def read_runs(path: Path) -> dict[str, dict[str, str]]:
    """The rows of an export, by the run's key."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FIELDS:
            raise ValueError(f"{path} has other columns than `noniid show --csv` writes: export it again.")
        return {row["run"]: row for row in reader}


def kept(name: str, root: Path = KEPT) -> list[Kept]:
    """All runs that one page's exports hold; none, if there are no exports."""
    folder = root / name
    if not (folder / "runs.csv").exists():
        return []
    accuracies: dict[str, dict[int, float]] = {}
    with (folder / "rounds.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["accuracy"]:
                accuracies.setdefault(row["run"], {})[int(row["round"])] = float(row["accuracy"])
    return [Kept(run, accuracies.get(key, {})) for key, run in read_runs(folder / "runs.csv").items()]


def percent(value: str | float) -> str:
    """
    >>> percent("0.8553"), percent("")
    ('85.53', '-')
    """
    return f"{100 * float(value):.2f}" if value != "" else "-"


def spread(values: Sequence[float]) -> str:
    """
    >>> spread([0.5, 0.7])
    '60.00 ± 10.00'
    """
    return f"{percent(statistics.mean(values))} ± {percent(statistics.pstdev(values))}" if values else "-"


def seconds(value: str) -> str:
    return f"{float(value):,.0f}" if value else "-"


# One setting, many algorithms


def family_rows(runs: Sequence[Kept]) -> Iterator[list[str]]:
    for each in runs:
        run = each.run
        status = "" if run["status"] == "done" else f" ({run['status']} in round {each.last_round + 1})"
        yield [
            f"`{run['algorithm']}`{status}",
            percent(run["accuracy"]),
            spread(each.last()),
            f"{percent(run['best_accuracy'])} ({run['best_round']})",
            percent(run["worst_decile_accuracy"]),
            f"{float(run['bytes_per_client_round']) / 1e3:,.1f}",
            seconds(run["seconds"]),
        ]


FAMILY = [
    "algorithm", "final", f"last {LAST}: mean ± std", "best (round)", "worst decile", "kB a client and round", "seconds",
]  # fmt: skip


def family(table: Table, root: Path = KEPT) -> str:
    """Everything but SCAFFOLD's variants, one line each; other local work than the rest is told."""
    runs = [each for each in kept("family", root) if each.run["draws"] == "own"]
    main = [each for each in runs if each.run["epochs"] == "10" and not each.run["algorithm"].startswith("scaffold(")]
    other = [each for each in runs if each.run["epochs"] != "10"]
    if not runs:
        return NOTHING
    text = table(FAMILY, list(family_rows(main)))
    if other:
        text += (
            f"\nWith one local epoch, learning rate 0.1 and no momentum:\n\n{table(FAMILY, list(family_rows(other)))}"
        )
    return text


# SCAFFOLD


def scaffold(table: Table, root: Path = KEPT) -> str:
    """Every combination of its three choices, from the paper's to the published code's."""
    runs = [each for each in kept("family", root) if each.run["draws"] == "own" and each.run["epochs"] == "10"]
    rows = []
    for each in runs:
        chosen = ALGORITHMS.parse(each.run["algorithm"]) if each.run["algorithm"].startswith("scaffold") else None
        if not isinstance(chosen, Scaffold):
            continue
        ended = "" if each.run["status"] == "done" else f"{each.run['status']} in round {each.last_round + 1}"
        rows.append([chosen.variates, chosen.share, chosen.correct, ended or percent(each.run["accuracy"]),
                     spread(each.last()), f"{percent(each.run['best_accuracy'])} ({each.run['best_round']})"])  # fmt: skip
    if not rows:
        return NOTHING
    order = {
        value: place for place, value in enumerate(("zero", "random-net", "all", "cohort", "gradient", "after-step"))
    }
    rows.sort(key=lambda row: [order[value] for value in row[:3]])
    return table(
        ["variates start", "c moves by 1 /", "correction", "final", f"last {LAST}: mean ± std", "best (round)"], rows
    )


# rFedAvg+


def rfedavg(table: Table, root: Path = KEPT) -> str:
    """Beside the paper's table, over the last five rounds that all runs have reached."""
    runs = [each for each in kept("rfedavg", root) if each.accuracies]
    if not runs:
        return NOTHING
    until = min(each.last_round for each in runs)
    base = {each.run["seed"]: statistics.mean(each.last(until)) for each in runs if each.run["algorithm"] == "fedavg"}
    rows = []
    for each in runs:
        name = each.run["algorithm"].partition("(")[0]
        claim, deviation = RFEDAVG_CLAIMS[name]
        gain = statistics.mean(each.last(until)) - base[each.run["seed"]]
        rows.append([f"`{each.run['algorithm']}`", f"{claim:.2f} ± {deviation:.2f}", spread(each.last(until)),
                     f"{claim - RFEDAVG_CLAIMS['fedavg'][0]:+.2f}", f"{100 * gain:+.2f}"])  # fmt: skip
    text = table(["algorithm", "claimed", "measured", "gain claimed", "gain measured"], rows)
    return f"{text}\nPercent, mean ± standard deviation of rounds {until - LAST + 1} to {until}.\n"


# RADFed


def radfed(table: Table, root: Path = KEPT) -> str:
    """Two runs at the same number of local rounds, at each aggregation and over the last five."""
    runs = [each for each in kept("radfed", root) if each.accuracies]
    if not runs:
        return NOTHING
    until = min(each.last_round for each in runs)
    shown = [number for number in runs[0].accuracies if number <= until and number % 60 == 0] + [until]
    rows = [
        [f"`{each.run['algorithm']}`", *(percent(each.accuracies[number]) for number in dict.fromkeys(shown)),
         spread(each.last(until))]
        for each in runs
    ]  # fmt: skip
    rounds = [f"round {number}" for number in dict.fromkeys(shown)]
    return table(["algorithm", *rounds, f"last {LAST} seen: mean ± std"], rows)
