"""docs/your-own-data.md: its table is made, its commands run, and profile prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noniid.data.readers import READERS
from tests.cli import call
from tests.doc_examples import command_lines, fences

PAGE = (Path(__file__).parent.parent / "docs" / "your-own-data.md").read_text(encoding="utf-8")
FENCES = list(fences(PAGE))
[MAKES_THE_TABLE] = [each.text for each in FENCES if each.language == "python" and ">>>" not in each.text]
COLUMNS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's own, with the page's table in it."""
    monkeypatch.chdir(folder)
    exec(MAKES_THE_TABLE, {})


def commands() -> list[list[str]]:
    return [words for each in FENCES if each.language == "bash" for words in command_lines(each.text)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_what_the_page_runs_runs(words: list[str]) -> None:
    told = call(*words, *(("--epochs", 1) if words[0] in ("run", "recommend") else ()))
    assert told.exit_code == 0, told.output


def test_profile_prints_what_is_shown() -> None:
    """Digit for digit where no library's rounding is in it."""
    [shown] = [each.text for each in FENCES if each.language == "console"]
    asked, *lines = shown.splitlines()
    [words] = command_lines(asked)
    printed = [line.rstrip() for line in call(*words).stdout.splitlines() if line.strip()]
    expected = [line for line in lines if line and line != "..."]
    for line, theirs in zip(expected, printed, strict=False):
        measured = "model" in line or "MMD" in line
        assert _shape(line) == _shape(theirs) if measured else " ".join(line.split()) == " ".join(theirs.split())


def _shape(line: str) -> list[str]:
    return re.sub(r"\d+", "0", line).split()


def test_every_kind_of_file_is_told() -> None:
    assert all(f"`{suffix}`" in PAGE for suffix in READERS)


def test_lines_are_no_longer_than_elsewhere() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > COLUMNS and not line.startswith("|")] == []
