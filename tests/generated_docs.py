"""Parts of README.md and docs/ that are made from the code: `python -m tests.generated_docs [--write]`.

docs/cli.md is made whole; elsewhere, what stands between `<!-- generated: NAME -->` and `<!-- end -->`. Without
--write nothing is changed: stale files are named, and so is every example that does not run.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from noniid.algorithms import ALGORITHMS
from noniid.cli import main as noniid
from noniid.data import CATALOGUE
from noniid.models import MODELS
from noniid.spec import Registry
from noniid.split import PLACEMENTS, SHIFTS
from tests import generated_claims, generated_runs, generated_splits
from tests.doc_examples import failures
from tests.generated_runs import NOTHING

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # scripts that import each other by their plain names

import harness  # noqa: E402

CLI_PAGE = ROOT / "docs" / "cli.md"
KEPT = ROOT / "benchmarks" / "results"
_BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "x|y"]]), end="")
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [headings, *rows]
    cells = [" | ".join(each.replace("|", r"\|") for each in line) for line in lines]
    return "\n".join([f"| {cells[0]} |", "|---" * len(headings) + "|", *(f"| {each} |" for each in cells[1:])]) + "\n"


# The command line


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def cli_page() -> str:
    sections = [_section(path, command) for path, command in commands(noniid, "noniid")]
    return f"# Commands\n\n{noniid.help} Every command explains itself with `-h` or `--help`.\n\n" + "\n".join(sections)


def _section(path: str, command: click.Command) -> str:
    # Commands keep the help flag of the first context they are asked in: without a parent it would lack -h.
    context = click.Context(command, parent=click.Context(noniid, **noniid.context_settings), info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    records = [option.get_help_record(context) for option in command.params if isinstance(option, click.Option)]
    flags = [(f"`{flag}`", " ".join(text.split())) for flag, text in filter(None, records)]
    text = inspect.cleandoc(command.help or "")
    return f"## {path}\n\n{text}\n\n```text\n{usage}\n```\n" + (f"\n{table(['flag', 'what'], flags)}" if flags else "")


# What there is


def names() -> str:
    """What can be chosen, on a few lines."""
    rooms: dict[str, tuple[Registry[Any], str]] = {
        "algorithms": (ALGORITHMS, "algorithms"), "placements": (PLACEMENTS, "splits"), "shifts": (SHIFTS, "splits"),
        "models": (MODELS, "data"),
    }  # fmt: skip
    lines = [f"- [{len(known)} {room}](docs/{page}.md): {', '.join(known)}" for room, (known, page) in rooms.items()]
    lines.append(f"- [{len(CATALOGUE)} data sets](docs/data.md): {', '.join(CATALOGUE)}")
    return "".join(textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) + "\n" for line in lines)


def algorithms() -> str:
    rows = [
        (f"`{name}`", f"[{cls.paper.title}]({cls.paper.url}) ({cls.paper.year})", fields(cls))
        for name, cls in ALGORITHMS.items()
    ]
    return table(["algorithm", "paper", "parameters"], rows)


def splits() -> str:
    kinds: dict[str, Registry[Any]] = {"placement": PLACEMENTS, "shift": SHIFTS}
    rows = [
        (f"`{name}`", kind, fields(cls), first_sentence(cls), generated_splits.SOURCES[name])
        for kind, known in kinds.items()
        for name, cls in known.items()
    ]
    return table(["split", "kind", "parameters", "what", "from"], rows)


def datasets() -> str:
    rows = [
        (f"`{name}`", e.title, f"{e.num_train:,}", f"{e.num_test:,}", " x ".join(f"{size:,}" for size in e.shape),
         str(e.num_classes), e.license, f"[source]({e.homepage})")
        for name, e in CATALOGUE.items()
    ]  # fmt: skip
    return table(["data set", "what", "train", "test", "input", "classes", "license", "from"], rows)


def models() -> str:
    rows = [(f"`{name}`", fields(cls), first_sentence(cls)) for name, cls in MODELS.items()]
    return table(["model", "parameters", "what"], rows)


def fields(cls: type[Any]) -> str:
    """A dataclass's fields with their defaults, as a spec writes them.

    >>> fields(PLACEMENTS["dirichlet"])
    '`beta`, `min_size=10`, `cap=true`, `seed=none`'
    """
    return ", ".join(f"`{field.name}{_default(field.default)}`" for field in dataclasses.fields(cls))


def _default(value: Any) -> str:
    if value is dataclasses.MISSING:
        return ""
    return f"={str(value).lower() if value is None or isinstance(value, bool) else value}"


def first_sentence(cls: type[Any]) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())


# Speed and memory


def benchmarks(folder: Path = KEPT) -> str:
    """The newest kept table of every benchmark, under what it was measured on; then the headlines of all runs kept."""
    saved = harness.kept(folder)
    return "\n".join([*(_benchmark(runs[-1]) for runs in saved.values()), *_over_time(saved)]) or NOTHING


def _over_time(saved: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = [
        [run["title"], run["date"], run["environment"]["commit"], *map(harness.text, headline)]
        for runs in saved.values()
        for run in runs
        if (headline := harness.headline(run))
    ]
    columns = ["table", "measured", "commit", "noniid, samples/s", "ratio to the best other"]
    return [f"## Over time\n\n{table(columns, rows)}"] if rows else []


def speed(folder: Path = KEPT) -> str:
    """noniid over the fastest of all others, in every setting that rivals were measured in."""
    runs = [saved[-1] for name, saved in harness.kept(folder).items() if name.startswith("rivals")]
    if not runs:
        return NOTHING
    said = [
        f"{headline[1]:.2f} times that of {_fastest_other(run)} on {_setting(run)}"
        for run in runs
        if (headline := harness.headline(run))
    ]
    text = f"Beside a careful hand-written loop, Flower, pfl, FedLab and BlazeFL at equal work, noniid's rate is {'; '.join(said)}."
    return (
        textwrap.fill(
            text + " Tables: [benchmarks](benchmarks/README.md).", 120, break_long_words=False, break_on_hyphens=False
        )
        + "\n"
    )


def _fastest_other(run: dict[str, Any]) -> str:
    ratio = run["columns"].index("ratio")
    others = [row for row in run["rows"] if row[ratio] is not None and not row[0].startswith("noniid")]
    return (
        "the best loop by hand" if (name := max(others, key=lambda row: row[ratio])[0]).startswith("by hand") else name
    )


def _setting(run: dict[str, Any]) -> str:
    """The title without its first word and the number of epochs."""
    return ", ".join(run["title"].partition(": ")[2].split(", ")[:3])


def one_benchmark(name: str, folder: Path = KEPT) -> str:
    """One kept table, without the name that it has among the others."""
    runs = harness.kept(folder).get(name)
    return _benchmark(runs[-1]).partition("\n\n")[2] if runs else NOTHING


def _benchmark(kept: dict[str, Any]) -> str:
    rows = [[harness.text(value) for value in row] for row in kept["rows"]]
    circumstances = [f"{name} {value}" for name, value in kept["environment"].items() if value is not None]
    notes = " ".join(kept["notes"])
    measured = f"Measured {kept['date']}: {', '.join(circumstances)}."
    return f"## {kept['title']}\n\n{table(kept['columns'], rows)}\n{notes}\n{measured}\n"


FROM_RUNS: dict[str, Callable[[], str]] = {
    each.__name__: functools.partial(each, table)
    for each in (
        generated_claims.claims,
        generated_claims.reproduction,
        generated_runs.family,
        generated_runs.scaffold,
        generated_runs.rfedavg,
        generated_runs.radfed,
        generated_splits.gallery_placements,
        generated_splits.gallery_shifts,
    )
}
BLOCKS: dict[str, Callable[[], str]] = {
    "names": names, "algorithms": algorithms, "splits": splits, "datasets": datasets, "models": models,
    "benchmarks": benchmarks, "speed": speed,
    **{name: functools.partial(one_benchmark, name) for name in ("other_splitters", "ray_scaling")}, **FROM_RUNS,
}  # fmt: skip


# Pages


def filled(text: str, blocks: dict[str, Callable[[], str]] = BLOCKS) -> str:
    """A page with its blocks made anew.

    >>> filled("<!-- generated: x -->\\nold\\n<!-- end -->", {"x": lambda: "new\\n"})
    '<!-- generated: x -->\\n\\nnew\\n\\n<!-- end -->'
    """
    return _BLOCK.sub(lambda found: f"{found[1]}\n{blocks[found[2]]()}\n{found[3]}", text)


def pages(root: Path = ROOT) -> list[Path]:
    """README.md, what lies in docs/, and the pages of benchmarks and reproductions, as far as they are there."""
    inner = (path for pattern in ("docs/**/*.md", "reproductions/*/README.md") for path in sorted(root.glob(pattern)))
    found = (root / "README.md", *inner, root / "benchmarks" / "README.md")
    return [path for path in found if path.exists()]


def wanted(path: Path) -> str:
    return cli_page() if path == CLI_PAGE else filled(path.read_text(encoding="utf-8"))


def stale() -> list[Path]:
    """The pages that are not what the code makes of them."""
    paths = dict.fromkeys([*pages(), CLI_PAGE])
    return [path for path in paths if not path.exists() or path.read_text(encoding="utf-8") != wanted(path)]


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 if everything is as it should be."""
    old = stale()
    if "--write" in arguments:
        for path in old:
            path.write_text(wanted(path), encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")
        return 0
    problems = [f"stale: {path.relative_to(ROOT)}" for path in old]
    problems += [f"{path.relative_to(ROOT)}: {problem}" for path in pages() for problem in failures(path)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
