"""What `noniid table` shows: the cells and their cost, or measured beside claimed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from noniid.experiments.grid import read_seeds
from noniid.experiments.published import PRESETS
from noniid.experiments.tables import Planned, compared, listing, plan, select
from noniid.results.compare import COLUMNS, ComparedCell, ListedCell, tally
from noniid.results.store import Store
from noniid.screens.session import say_failures, train_all
from noniid.screens.words import clock, console


@dataclass(frozen=True)
class Wanted:
    """Which cells of a table, with how many seeds, run how."""

    cells: Iterable[object]
    settings: Callable[[str], Any]  # a data set's published protocol
    version: str  # whose claims
    preset: str | None  # None runs the algorithms as papers write them
    datas: Sequence[str]
    splits: Sequence[str]
    algorithms: Sequence[str]
    seeds: str

    def plan(self) -> list[Planned]:
        chosen = select(self.cells, self.datas, self.splits, self.algorithms)
        return plan(chosen, self.settings, read_seeds(self.seeds), PRESETS[self.preset] if self.preset else None)


def show_plan(wanted: Wanted, folder: Path, as_json: bool) -> None:
    """The cells, what the store holds of them, and the time the others take."""
    with tempfile.TemporaryDirectory() as nowhere:  # looking makes no store
        known = folder if (folder / "runs.sqlite").exists() else nowhere
        cells = list(listing(wanted.plan(), Store(known), wanted.version))
    if as_json:
        _print_json(cells)
        return
    table = _table("data", "split", "algorithm", "claimed", "in store", "training time", "note")
    for cell in cells:
        stored, time = (
            f"{cell.stored} of {cell.wanted}",
            clock(cell.seconds) if cell.seconds is not None else "?",
        )
        table.add_row(cell.data, cell.split, cell.algorithm, cell.claimed, stored, time, cell.note)
    console().print(table)
    known = [cell.seconds for cell in cells if cell.seconds is not None]
    unknown = f", and {len(cells) - len(known)} cells of unknown cost" if len(known) < len(cells) else ""
    console().print(f"{len(cells)} cells, about {clock(sum(known))} of training{unknown}.")


def show_reproduced(wanted: Wanted, folder: Path, workers: int | None, engine: str, as_json: bool) -> int:
    """Run what is missing, then print measured beside claimed. Returns the exit status."""
    plans = wanted.plan()
    experiments = [replace(experiment, engine=engine) for each in plans for experiment in each.experiments]
    outcome = train_all(experiments, folder, workers, on_run=lambda run: None)
    found = compared(plans, Store(folder), wanted.version)
    say_failures(outcome)
    if as_json:
        _print_json(found)
        return outcome.exit_code
    table = _table(*COLUMNS)
    for cell in found:
        table.add_row(*cell.row())
    console().print(table)
    console().print(f"{tally(found)}: within is no further away than 1 point or 2 of the claimed deviations.")
    return outcome.exit_code


def _table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading in RIGHT else "left")
    return table


RIGHT = ("claimed", "measured", "difference", "runs", "training time", "in store")


def _print_json(cells: Iterable[ListedCell | ComparedCell]) -> None:
    for cell in cells:
        print(json.dumps(asdict(cell)))
