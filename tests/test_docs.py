"""What the documentation says is what the code does: generated parts are fresh, examples run, commands exist."""

from __future__ import annotations

import csv
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noniid.algorithms import ALGORITHMS
from noniid.data import CATALOGUE
from noniid.experiments.experiment import Experiment
from noniid.experiments.tables import plan, select
from noniid.models import MODELS
from noniid.papers.niid_bench import PAPER, TABLE_3
from noniid.results.table import FIELDS
from noniid.split import PLACEMENTS, SHIFTS
from tests import generated_docs
from tests.doc_examples import command_lines, failures, fences, refusal, wrong_commands, wrong_sessions
from tests.generated_claims import PRESETS, claims, reproduction
from tests.generated_docs import filled, pages, stale, table


def test_generated_parts_are_fresh() -> None:
    assert not stale(), "python -m tests.generated_docs --write"


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_examples_run_and_commands_exist(path: Path) -> None:
    assert not failures(path)


# Pages


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A README and a page of their own."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# x\n\n<!-- generated: models -->\nold\n<!-- end -->\n\nrest\n")
    (tmp_path / "docs" / "plain.md").write_text("nothing generated\n")
    monkeypatch.setattr(generated_docs, "ROOT", tmp_path)
    monkeypatch.setattr(generated_docs, "CLI_PAGE", tmp_path / "docs" / "cli.md")
    monkeypatch.setattr(generated_docs, "pages", lambda: pages(tmp_path))
    return tmp_path


def test_stale_pages_are_named_and_then_written(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (site / "README.md").read_text()
    assert generated_docs.main([]) == 1
    assert capsys.readouterr().out.splitlines() == ["stale: README.md", "stale: docs/cli.md"]
    assert (site / "README.md").read_text() == before
    assert generated_docs.main(["--write"]) == 0
    assert "| `simple-cnn` |" in (site / "README.md").read_text()
    assert (site / "README.md").read_text().endswith("<!-- end -->\n\nrest\n")
    assert (site / "docs" / "plain.md").read_text() == "nothing generated\n"
    capsys.readouterr()
    assert generated_docs.main([]) == 0
    assert capsys.readouterr().out == ""


def test_examples_that_do_not_run_are_named(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "docs" / "plain.md").write_text("```bash\nnoniid rnu\n```\n")
    generated_docs.main(["--write"])
    capsys.readouterr()
    assert generated_docs.main([]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line == "docs/plain.md: line 2: `noniid rnu`: there is no command noniid rnu"


def test_a_block_nobody_makes_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing-like-it"):
        filled("<!-- generated: nothing-like-it -->\n<!-- end -->")


def test_filling_twice_changes_nothing() -> None:
    blocks = {"a": lambda: "one\n", "b": lambda: "two\n"}
    page = "<!-- generated: a -->\n<!-- end -->\nbetween\n<!-- generated: b -->\n<!-- end -->\n"
    once = filled(page, blocks)
    assert "one" in once and "between" in once and "two" in once
    assert filled(once, blocks) == once


@pytest.mark.parametrize(
    "name",
    sorted(
        set(generated_docs.BLOCKS)
        - {"names", "benchmarks", "other_splitters", "ray_scaling", "speed", *generated_docs.FROM_RUNS}
    ),
)
def test_every_block_is_a_table_of_equal_rows(name: str) -> None:
    lines = generated_docs.BLOCKS[name]().splitlines()
    assert len(lines) > 3
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1


# Speed and memory


def test_the_readme_says_everything_on_one_hundred_and_fifty_lines() -> None:
    assert len((generated_docs.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_names_of_all_there_is() -> None:
    listed = re.findall(r"[a-z][\w-]*", generated_docs.names())
    assert {*ALGORITHMS, *PLACEMENTS, *SHIFTS, *MODELS, *CATALOGUE} <= set(listed)


def keep(folder: Path, name: str, run: str, **changes: Any) -> None:
    """A table as a benchmark keeps it."""
    kept = {
        "title": "Speed", "columns": ["who", "samples/s", "ratio"], "rows": [["a", 12345.6, 1.0], ["b", None, 2]],
        "notes": ["Best of 7."], "date": run[:10], "environment": {"cpu": "a fast one", "numba": None, "commit": "c1"},
    } | changes  # fmt: skip
    path = folder / name / f"{run}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept))


def test_the_newest_kept_table_is_shown_with_what_it_was_measured_on(tmp_path: Path) -> None:
    keep(tmp_path, "speed", "2026-01-02-101500-c1")
    keep(tmp_path, "speed", "2025-12-31-235959-c0", rows=[["old", 1.0, 1.0]])
    shown = generated_docs.benchmarks(tmp_path)
    assert shown.startswith("## Speed\n\n| who | samples/s | ratio |\n")
    assert "| a | 12,346 | 1.000 |\n| b | - | 2 |" in shown
    assert shown.endswith("Best of 7.\nMeasured 2026-01-02: cpu a fast one, commit c1.\n")
    assert "old" not in shown


def test_headlines_over_time_are_those_of_the_best_row_of_ours(tmp_path: Path) -> None:
    columns = ["contender", "samples/s", "ratio", "remark"]
    for run, fastest in (("2026-01-02-101500-c1", 2.5), ("2026-01-03-101500-c2", 3.5)):
        rows = [["by hand", 1000.0, 1.0, ""], ["noniid, a", 2000.0, 2.0, ""], ["noniid, b", 1000 * fastest, fastest, ""],
                ["Rival", None, None, "not installed"]]  # fmt: skip
        keep(tmp_path, "race", run, title="Race", columns=columns, rows=rows)
    keep(tmp_path, "memory", "2026-01-02-101500-c1")
    _, _, shown = generated_docs.benchmarks(tmp_path).partition("## Over time\n")
    assert "| Race | 2026-01-02 | c1 | 2,500 | 2.500 |\n| Race | 2026-01-03 | c1 | 3,500 | 3.500 |" in shown
    assert shown.count("\n| Race") == 2 and "Speed" not in shown


def test_speed_is_told_of_every_setting_against_the_fastest_other(tmp_path: Path) -> None:
    columns = ["contender", "samples/s", "ratio"]
    rows = [["by hand, a", 500.0, 0.5], ["noniid, b", 900.0, 0.9], ["Rival", 1000.0, 1.0], ["None", None, None]]
    keep(
        tmp_path, "rivals", "2026-01-02-101500-c1", title="Rivals: data, net, 9 clients, x", columns=columns, rows=rows
    )
    rows = [["by hand, a", 1000.0, 1.0], ["noniid, b", 2000.0, 2.0]]
    keep(
        tmp_path, "rivals_mlp", "2026-01-02-101500-c1", title="Rivals: rows, net, 5 clients", columns=columns, rows=rows
    )
    shown = " ".join(generated_docs.speed(tmp_path).split())
    assert (
        "0.90 times that of Rival on data, net, 9 clients; 2.00 times that of the best loop by hand on rows, net, 5 clients."
        in shown
    )


def test_no_benchmark_kept(tmp_path: Path) -> None:
    assert generated_docs.benchmarks(tmp_path) == "Nothing has been measured yet.\n"
    assert generated_docs.one_benchmark("other_splitters", tmp_path) == "Nothing has been measured yet.\n"
    assert generated_docs.speed(tmp_path) == "Nothing has been measured yet.\n"


# Claimed and measured


def cell(split: str, algorithm: str, seed: int = 0) -> Experiment:
    [planned] = plan(select(TABLE_3, ["fcube"], [split], [algorithm]), PAPER.protocol, [seed], PRESETS["niid-bench"])
    return planned.experiments[0]


def export(path: Path, *runs: tuple[Experiment, str, float]) -> Path:
    """A file as `noniid show --csv` writes it."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for experiment, status, accuracy in runs:
            values = {"run": experiment.key, **experiment.record(), "status": status, "accuracy": accuracy}
            values["reason"] = "diverged in round 3" if status == "diverged" else ""
            writer.writerow({name: values[name] for name in FIELDS if name in values})
    return path


def test_nothing_measured(tmp_path: Path) -> None:
    assert reproduction(table, tmp_path / "runs.csv") == "Nothing has been measured yet.\n"


def test_runs_stand_beside_their_claims(tmp_path: Path) -> None:
    path = export(
        tmp_path / "runs.csv",
        (cell("fcube", "fedavg"), "done", 0.991),
        (cell("fcube", "fedavg", 1), "done", 0.993),
        (cell("fcube", "fedavg", 2), "diverged", 0.2),
        (cell("iid", "scaffold"), "done", 0.5),
        (replace(cell("fcube", "fedavg"), rounds=3), "done", 0.1),
    )
    _, _, one, two, _, words = reproduction(table, path).splitlines()
    assert one.split(" | ")[:6] == ["| fcube", "fcube", "fedavg", "99.8 ± 0.2", "99.2 ± 0.1; 1 diverged", "-0.6"]
    assert one.split(" | ")[6:] == ["within", "2", "diverged in round 3 |"]
    assert two.split(" | ")[:7] == ["| fcube", "iid", "scaffold", "99.8 ± 0.1", "50.0", "-49.8", "below"]
    assert words == "1 within, 1 below. 1 more runs in the export belong to no cell of the table."


def test_a_split_is_named_as_the_paper_names_it(tmp_path: Path) -> None:
    [planned] = plan(
        select(TABLE_3, ["adult"], ["dirichlet(0.5)"], ["scaffold"]), PAPER.protocol, [0], PRESETS["niid-bench"]
    )
    assert "seed=2020" in str(planned.experiments[0].split)
    told = reproduction(table, export(tmp_path / "runs.csv", (planned.experiments[0], "done", 0.764)))
    assert "| adult | dirichlet(0.5) | scaffold | 76.4 ± 0.0 | 76.4 | +0.0 | within | 1 |  |" in told


def test_claims_show_the_best_mu_of_each_cell_as_the_paper_does(tmp_path: Path) -> None:
    path = export(
        tmp_path / "runs.csv",
        (cell("fcube", "fedavg"), "done", 0.991),
        (cell("fcube", "fedprox"), "done", 0.5),
        (cell("fcube", "fedprox(0.1)"), "done", 0.9),
        (cell("iid", "scaffold"), "diverged", 0.2),
    )
    head, _, one, two, _, words = claims(table, path).splitlines()
    assert head == "| data | split | fedavg | fedprox | scaffold |"
    assert one == "| fcube | fcube | 99.1 (99.8 ± 0.2) | 90.0 (99.8 ± 0.0) |  |"
    assert two == "| fcube | iid |  |  | 1 diverged (99.8 ± 0.1) |"
    assert words == "Measured (claimed); 1 of 3 cells within. FedProx with the best mu tried."


def test_an_export_with_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("run,round\n")
    with pytest.raises(ValueError, match="export it again"):
        reproduction(table, tmp_path / "runs.csv")


# Examples


def test_fences_are_found_in_lists_too() -> None:
    page = "1. so:\n\n   ```python\n   >>> 1\n   1\n   ```\n\n```bash\nmake\n```\n```\nno language\n```\n"
    assert [(each.language, each.line, each.text) for each in fences(page)] == [
        ("python", 4, ">>> 1\n1\n"),
        ("bash", 9, "make\n"),
    ]


def test_sessions_of_a_page_know_each_other_and_run_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "```python\n>>> x = open('left', 'w').close()\n>>> y = 2\n```\n```python\n>>> y + 1\n3\n```\n"
    assert wrong_sessions(page) == []
    assert not (tmp_path / "left").exists()
    [problem] = wrong_sessions(page.replace("3\n", "4\n"))
    assert problem.startswith("line 6: ") and "Expected: 4 Got: 3" in problem
    assert wrong_sessions("```python\nno_session(\n```\n") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("noniid show --csv - > runs.csv", ["show", "--csv", "-"]),
        ('.venv/bin/noniid run --split "dirichlet(0.5) + noise(0.1)" # two', ["run", "--split", "dirichlet(0.5) + noise(0.1)"]),
        ("noniid run && noniid show", ["run"]),
        ("noniid", []),
    ],
)  # fmt: skip
def test_command_lines_end_where_the_shell_ends_them(line: str, words: list[str]) -> None:
    assert list(command_lines(line)) == [words]


def test_other_lines_are_not_ours() -> None:
    assert not list(command_lines("pip install noniid\nnoniid-store\nmake run  # it's quick"))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["run", "--sedes", "3"], "No such option"),
        (["run", "--rounds", "x"], "not a valid integer"),
        (["run", "--split", "dirichlt(1)"], "did you mean 'dirichlet'"),
        (["run", "--algorithm", "fedprox(nu=1)"], "unknown parameter of fedprox"),
        (["split", "digits", "labels"], "labels needs k"),
        (["data", "lst"], "no command noniid data lst"),
        (["data", "info"], "Missing argument"),
    ],
)
def test_wrong_commands_are_refused(words: list[str], part: str) -> None:
    assert part in refusal(words)


@pytest.mark.parametrize(
    "text", ["--help", "run -h", "run --algorithm my.own:Thing(1)", "table niid-bench/3 --split dirichlet*", "show ab"]
)
def test_right_commands_are_not(text: str) -> None:
    assert refusal(text.split()) == ""
    assert wrong_commands(f"```bash\nnoniid {shlex.join(text.split())}\n```\n") == []
