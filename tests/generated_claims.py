"""NIID-Bench's cells beside the runs that reproduce them, from an export of `noniid show --csv`."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from noniid.experiments.published import PRESETS
from noniid.experiments.tables import Selected, plan, select
from noniid.papers.niid_bench import PAPER, TABLE_3
from noniid.results.compare import COLUMNS, ComparedCell, compare, tally
from tests.generated_runs import KEPT, NOTHING, Table, read_runs

RUNS = KEPT / "niid-bench" / "runs.csv"


def reproduction(table: Table, path: Path = RUNS) -> str:
    """Table 3 of NIID-Bench beside the runs in an export of `noniid show --csv`."""
    if not path.exists():
        return NOTHING
    cells, num_others = _reproduced(path)
    others = f" {num_others} more runs in the export belong to no cell of the table." if num_others else ""
    return f"{table(COLUMNS, [each.row() for each in cells])}\n{tally(cells) or 'No cell measured'}.{others}\n"


def claims(table: Table, path: Path = RUNS) -> str:
    """The same on a few lines: of each cell the best run, as the paper tells FedProx's best mu alone."""
    if not path.exists():
        return NOTHING
    best: dict[tuple[str, str], dict[str, ComparedCell]] = {}
    for cell in _reproduced(path)[0]:
        row, name = best.setdefault((cell.data, cell.split), {}), cell.algorithm.partition("(")[0]
        if name not in row or _ahead(cell) > _ahead(row[name]):
            row[name] = cell
    shown = list(dict.fromkeys(name for row in best.values() for name in row))
    texts = [
        [*place, *(f"{row[name].measured} ({row[name].claimed})" if name in row else "" for name in shown)]
        for place, row in best.items()
    ]
    within = sum(cell.verdict == "within" for row in best.values() for cell in row.values())
    told = f"Measured (claimed); {within} of {sum(map(len, best.values()))} cells within. FedProx with the best mu tried.\n"
    return f"{table(['data', 'split', *shown], texts)}\n{told}"


def _ahead(cell: ComparedCell) -> float:
    return -math.inf if cell.difference is None else cell.difference


def _reproduced(path: Path) -> tuple[list[ComparedCell], int]:
    """Every measured cell; and how many runs belong to none."""
    runs = read_runs(path)
    seeds = sorted({int(run["seed"]) for run in runs.values()})
    plans = plan(_cells(), PAPER.protocol, seeds, PRESETS["niid-bench"])
    found = [
        (each, [runs.pop(e.key) for e in each.experiments if e.key in runs]) for each in plans
    ]  # a run counts once
    return [_compared(each, mine) for each, mine in found if mine], len(runs)


def _cells() -> list[Selected]:
    """FedProx's with every mu that the paper tried, too: it prints the best one's accuracy, and not which it was."""
    cells = select(TABLE_3, [], [], [])
    tried = select(TABLE_3, [], [], [f"fedprox({mu:g})" for mu in PAPER.protocol("mnist").mu_grid])
    return [each for one in cells for each in [one, *(other for other in tried if other.cell is one.cell)]]


def _compared(planned: Any, runs: list[dict[str, str]]) -> ComparedCell:
    claim = planned.selected.cell.claim("v2")
    values = [100 * float(run["accuracy"]) for run in runs if run["status"] == "done"]
    lost = [run["status"] for run in runs if run["status"] != "done"]
    reasons = Counter(run["reason"] for run in runs if run["reason"])
    note = "; ".join(filter(None, [planned.note, *reasons]))
    return compare(planned.selected.names, (claim.value, claim.spread), values, lost, note)
