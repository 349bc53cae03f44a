"""Runs as tables: the comparison after `noniid run`, the lists and details of `noniid show`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from noniid.results.store import Run
from noniid.results.table import FIELDS, Line, Spread, lines, record
from noniid.screens.words import clock, percent, size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BLOCKS = " ▁▂▃▄▅▆▇█"


def comparison(console: Console, runs: Sequence[Run]) -> None:
    """A table for each setting, a row for each algorithm; the best mean is bold."""
    settings: dict[str, list[Line]] = {}
    for line in lines(runs):
        e = line.experiment
        clients = f"{e['clients']} clients, " if e["clients"] else ""  # without where the split says how many
        title = f"{e['data']}, {e['split']}, {clients}{e['rounds']} rounds, {e['model']}"
        settings.setdefault(title, []).append(line)
    for title, found in settings.items():
        num_seeds = max(len(line.runs) for line in found)
        table = _table(f"{title}, {num_seeds} seed{'s' * (num_seeds > 1)}")
        table.add_column("algorithm", overflow="fold")
        for heading in (
            "final\naccuracy",
            "best\n(round)",
            "worst\nclient",
            "bytes a client\nand round",
            "time",
        ):
            table.add_column(heading, justify="right", no_wrap=True)
        top = max((line.spread("accuracy").mean or 0.0 for line in found), default=0.0)
        for line in found:
            table.add_row(*_compared(line, top))
        console.print(table)


def _compared(line: Line, top: float) -> list[str]:
    accuracy, best = line.spread("accuracy"), line.spread("best_accuracy")
    name = line.experiment["algorithm"]
    if accuracy.mean is None:
        return [name, line.trouble, "", "", "", ""]
    final = f"[bold]{percent(accuracy)}[/bold]" if accuracy.mean == top else percent(accuracy)
    best_round = line.spread("best_round").mean or 0
    return [
        name,
        f"{final} ({line.trouble})" if line.trouble else final,
        f"{percent(Spread(best.mean, None, best.n))} ({best_round:.0f})",
        percent(line.spread("worst_client_accuracy")),
        size(line.spread("bytes_per_client_round").mean),
        clock(line.spread("seconds").mean),
    ]


def listing(console: Console, runs: Iterable[Run]) -> None:
    """One line a run, oldest first."""
    table = _table("")
    table.add_column("run", no_wrap=True)
    table.add_column("data and split", overflow="fold")
    table.add_column("algorithm", overflow="fold")
    for heading in ("clients", "seed", "rounds", "accuracy"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for run in runs:
        e, s = run.experiment, run.summary
        rounds = f"{s.get('rounds', 0)}/{e['rounds']}"
        accuracy = percent(Spread.of([s.get("accuracy")]))
        table.add_row(run.key, f"{e['data']}, {e['split']}", e["algorithm"], str(e["clients"] or "-"), str(e["seed"]),
                      rounds, accuracy, run.status)  # fmt: skip
    console.print(table)


def details(console: Console, run: Run, rounds: Sequence[Mapping[str, Any]]) -> None:
    """One run: its whole experiment, what it came to, and its course."""
    table = _table(f"run {run.key}: {run.status}")
    table.add_column("what")
    table.add_column("value", overflow="fold")
    for name, value in {**run.experiment, **run.summary, **run.setting}.items():
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        table.add_row(name, shown)
    if run.reason:
        table.add_row("reason", run.reason)
    console.print(table)
    course = [row["accuracy"] for row in rounds if row["accuracy"] is not None]
    if course:
        console.print(f"accuracy by round  {sparkline(course)}  {100 * course[0]:.1f} to {100 * course[-1]:.1f} %")


def sparkline(values: Sequence[float], width: int = 50) -> str:
    """
    >>> sparkline([0.0, 0.5, 1.0])
    ' ▄█'
    """
    step = max(1, -(-len(values) // width))
    kept = values[::step]
    low, high = min(kept), max(kept)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[int((value - low) * scale)] for value in kept)


def write_csv(file: IO[str], runs: Iterable[Run], rounds_of: Mapping[str, Sequence[Mapping[str, Any]]] | None) -> None:
    """A line a run; with `rounds_of`, a line a round, led by the run's key."""
    if rounds_of is None:
        writer = csv.DictWriter(file, list[str](FIELDS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(record(run) for run in runs)
        return
    rows = [{"run": run.key, **row} for run in runs for row in rounds_of[run.key]]
    names = list(rows[0]) if rows else ["run", "round"]
    per_round = csv.DictWriter(file, names, lineterminator="\n")
    per_round.writeheader()
    per_round.writerows(rows)


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
