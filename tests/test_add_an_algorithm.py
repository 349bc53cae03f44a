"""docs/add-an-algorithm.md: what it writes down is as short as it says, equals ours, obeys, and prints what it shows."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from noniid import laws
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.laws import problems
from tests.cli import call
from tests.doc_examples import command_lines, fences

PAGE = (Path(__file__).parent.parent / "docs" / "add-an-algorithm.md").read_text(encoding="utf-8")
FENCES = list(fences(PAGE))
CODE = {match[1]: each.text for each in FENCES if (match := re.search(r"^class (\w+)", each.text, re.MULTILINE))}
OURS = {"MyProx": "fedprox", "MyScaffold": "scaffold"}
OBEYING = ["MyProx", "MyScaffold", "FeatureProx"]
BROKEN = "ShortSteps"
COLUMNS = 120
FCUBE = ("--data", "fcube", "--split", "fcube", "--clients", 4)
SHORT = ("--rounds", 1, "--epochs", 1, "--seeds", 1)  # the last value of an option counts


def commands(language: str) -> list[list[str]]:
    return [words for each in FENCES if each.language == language for words in command_lines(each.text)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The reader's own, with the page's code in it."""
    (tmp_path / "my_algorithms.py").write_text("\n\n".join(CODE.values()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_algorithms", None)


def mine(name: str) -> Algorithm:
    return ALGORITHMS.parse(f"my_algorithms:{name}")


def broken(algorithm: Algorithm) -> list[str]:
    return [verdict.law for verdict in laws.check(algorithm) if verdict.holds is False]


def instead(folder: Path, old: str, new: str) -> None:
    """The reader changes something in the file."""
    text = (folder / "my_algorithms.py").read_text()
    assert text.count(old) == 1
    (folder / "my_algorithms.py").write_text(text.replace(old, new))


def test_the_page_has_these_and_no_other_code() -> None:
    assert [*CODE] == [*OBEYING, BROKEN]
    assert list(CODE.values()) == [each.text for each in FENCES if each.language == "python"]


@pytest.mark.parametrize(("name", "most"), [("MyProx", 20), ("MyScaffold", 45)])
def test_it_is_as_short_as_promised(name: str, most: int) -> None:
    """The imports are counted, blank lines and comments are not."""
    lines = [line.strip() for line in CODE[name].splitlines()]
    assert len([line for line in lines if line and not line.startswith("#")]) <= most


def test_all_hooks_are_told_in_the_order_of_the_class() -> None:
    told = re.findall(r"^\| `(\w+)\(.*?\)` \|", PAGE, re.MULTILINE)
    assert told == [name for name, value in vars(Algorithm).items() if callable(value) and not name.startswith("_")]


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("name", OURS)
def test_it_equals_ours(name: str, cohort: int | None, folder: Path) -> None:
    theirs, ours = (problems.run(each, problems.task(), cohort=cohort)[-1].state
                    for each in (mine(name), ALGORITHMS.parse(OURS[name])))  # fmt: skip
    problems.same(theirs, ours, rtol=1e-5, atol=1e-6)
    assert not torch.equal(ours.w, problems.run(ALGORITHMS.parse("fedavg"), problems.task(), cohort=cohort)[-1].state.w)


@pytest.mark.parametrize("name", OBEYING)
def test_it_obeys(name: str, folder: Path) -> None:
    assert broken(mine(name)) == []


@pytest.mark.parametrize("shown", [each.text for each in FENCES if each.language == "console"])
def test_what_check_prints_is_what_the_page_shows(shown: str, folder: Path) -> None:
    asked, _, output = shown.partition("\n")
    [words] = command_lines(asked)
    printed = call(*words).stdout.splitlines(keepends=True)
    assert output == "".join(line for line in printed if "| grep BROKEN" not in asked or "BROKEN" in line)


def test_the_broken_one_is_mended_as_the_page_says(folder: Path) -> None:
    assert "`g.norm(dim=-1, keepdim=True)`" in PAGE
    instead(folder, "g.norm()", "g.norm(dim=-1, keepdim=True)")
    assert broken(mine(BROKEN)) == []


def test_a_forgotten_down_is_a_key_error_at_nearly_every_law(folder: Path) -> None:
    instead(folder, 'down = ("c",)', "down = ()")
    why = [verdict.why for verdict in laws.check(mine("MyScaffold"))]
    assert why.count("KeyError: 'c'") >= len(laws.LAWS) - 1


def test_laws_do_not_know_how_steps_are_counted(folder: Path) -> None:
    instead(folder, "wave.effective_steps()", "wave.steps")
    assert broken(mine("MyScaffold")) == []


@pytest.mark.parametrize("words", commands("bash"), ids=" ".join)
def test_what_the_page_runs_runs(words: list[str], folder: Path) -> None:
    told = call(*words, *SHORT)
    assert told.exit_code == 0, told.output
    for name in (word for word in words if "my_algorithms" in word):
        assert name in told.stdout


@pytest.mark.parametrize("flag", re.findall(r"`(--[^`]+)`(?=[^|\n]*\|[^|\n]*\|\n)", PAGE))
def test_what_needs_no_code_goes_with_own_code(flag: str, folder: Path) -> None:
    told = call("run", *FCUBE, "--algorithm", "my_algorithms:FeatureProx", *SHORT, *shlex.split(flag))
    assert told.exit_code == 0, told.output


def test_who_keeps_only_the_mean_is_told_its_epsilon(folder: Path) -> None:
    assert "`only_mean = True`" in PAGE
    instead(folder, "mu: float = 0.01\n", "mu: float = 0.01\n    only_mean = True\n")
    asked = ("--algorithm", "my_algorithms:MyProx", "--algorithm", "my_algorithms:MyScaffold", *SHORT)
    told = call("run", *FCUBE, *asked, "--wrap", "uniform + clip(1) + gaussian(0.5)", "--json")
    assert [json.loads(line)["epsilon"] is not None for line in told.stdout.splitlines()] == [True, False]


@pytest.mark.parametrize("more", [("--optimiser", "adam"), ("--keep-optimiser",)])
def test_where_steps_cannot_be_counted_the_run_ends_with_a_sentence(more: tuple[str, ...], folder: Path) -> None:
    told = call("run", *FCUBE, "--algorithm", "my_algorithms:MyScaffold", *SHORT, *more)
    assert told.exit_code != 0
    assert "nobody knows how much a gradient counts" in told.stderr


def test_lines_are_no_longer_than_elsewhere() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > COLUMNS and not line.startswith("|")] == []
