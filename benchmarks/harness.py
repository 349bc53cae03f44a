"""What all benchmarks share: flags, interleaved repetitions, one table, and the result kept with its circumstances."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box, print
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
NOISE = 0.03  # accuracies of equal work differ by less than this


@dataclass(frozen=True)
class Table:
    """One question's answer: text and numbers, ready to be shown or kept."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()


class Unfair(Exception):
    """The contenders did not do the same work: their times cannot be compared."""


class Broken(Exception):
    """A contender does not run here; says why in one sentence."""


def flags(text: str | None) -> argparse.ArgumentParser:
    """The flags every benchmark has; `text` is its docstring."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--quick", action="store_true", help="a tenth of the work: does it run at all?")
    one.add_argument("--save", action="store_true", help="keep the table in benchmarks/results/, beside older ones")
    return parser


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def interleave(contenders: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """Seconds of each repetition by contender. Whoever disturbs the machine disturbs them all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, once in contenders.items():
            began = time.perf_counter()
            once()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def best_and_median(seconds: Sequence[float]) -> tuple[float, float]:
    return min(seconds), statistics.median(seconds)


def check_equal_work(steps: Mapping[str, int], accuracies: Mapping[str, float]) -> None:
    """Raises Unfair unless all took as many steps and learned as much."""
    if len(set(steps.values())) > 1:
        raise Unfair(f"the contenders took different numbers of steps: {dict(steps)}")
    if max(accuracies.values()) - min(accuracies.values()) >= NOISE:
        raise Unfair(f"the contenders reached different accuracies: {dict(accuracies)}")


def environment() -> dict[str, Any]:
    """What a number depends on beside the code it measures."""
    import torch

    import noniid

    return {
        "cpu": _cpu(),
        "cores": cores(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numba": _version("numba"),
        "noniid": noniid.__version__,
        "commit": _commit(),
    }


def report(name: str, table: Table, setting: Mapping[str, Any], *, save: bool) -> None:
    """Prints the table under a line on the machine; keeps both if asked to, beside what was kept before."""
    print(", ".join(f"{key} {value}" for key, value in setting.items()))
    if setting["load"] > 0.5:
        print("[bold]Something else was running when this began: do not trust the numbers.[/bold]")
    shown = RichTable(title=table.title, title_justify="left", box=box.MARKDOWN)
    for i, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*map(text, row))
    console = Console(width=140)
    console.print(shown)
    for note in table.notes:
        console.print(note)
    if save:
        now = datetime.datetime.now(datetime.UTC)
        kept = {"benchmark": name, "date": now.date().isoformat(), "environment": dict(setting), **asdict(table)}
        path = RESULTS / name / f"{now:%Y-%m-%d-%H%M%S}-{setting['commit']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept, indent=1) + "\n")


def kept(folder: Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """Every saved run by benchmark, the newest last: their files' names begin with the time."""
    saved: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((folder or RESULTS).glob("*/*.json")):
        saved.setdefault(path.parent.name, []).append(json.loads(path.read_text(encoding="utf-8")))
    return saved


def headline(saved: Mapping[str, Any]) -> tuple[float, float] | None:
    """Samples/s and ratio of the best of noniid's rows, of a table that compares it with others."""
    columns = list(saved["columns"])
    if not {"contender", "samples/s", "ratio"} <= set(columns):
        return None
    speed, ratio = columns.index("samples/s"), columns.index("ratio")
    ours = [row for row in saved["rows"] if str(row[0]).startswith("noniid") and row[ratio] is not None]
    return max(((row[speed], row[ratio]) for row in ours), key=lambda each: each[1], default=None)


def text(value: Any) -> str:
    """A cell as it is shown, here and in the documentation."""
    if not isinstance(value, float):
        return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit measured, marked where the code differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    try:
        changed = git("status", "--porcelain", "--", "src", ":(glob)benchmarks/*.py").strip()
        return git("rev-parse", "--short", "HEAD").strip() + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
