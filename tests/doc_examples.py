"""Examples in Markdown: Python sessions are run, `noniid` command lines are read without being carried out."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from noniid.algorithms import ALGORITHMS
from noniid.cli import main as noniid
from noniid.errors import BadInput
from noniid.split import parse

_FENCED = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_SHELL = ("bash", "console", "sh")
_ENDS = {"|", ">", ">>", "<", "&", "&&", ";", "||", "2>", "(", ")"}  # of one command


class Fence(NamedTuple):
    language: str
    line: int  # of its first line in the page
    text: str


def fences(page: str) -> Iterator[Fence]:
    """
    >>> list(fences("see\\n```bash\\nmake run\\n```\\n"))
    [Fence(language='bash', line=3, text='make run\\n')]
    """
    for found in _FENCED.finditer(page):
        text = re.sub(f"^{found[1]}", "", found[3], flags=re.MULTILINE)
        yield Fence(found[2], page[: found.start(3)].count("\n") + 1, text)


def failures(path: Path) -> list[str]:
    """One line for each example on a page that does not do what it says."""
    page = path.read_text(encoding="utf-8")
    return [*wrong_sessions(page), *wrong_commands(page)]


def wrong_sessions(page: str) -> list[str]:
    """Python sessions of a page are one session: a later one knows what an earlier one has made."""
    known: dict[str, Any] = {}
    found: list[str] = []
    for fence in fences(page):
        if fence.language != "python" or ">>>" not in fence.text:
            continue
        told = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            test = doctest.DocTestParser().get_doctest(fence.text, known, "example", None, None)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            runner.run(test, out=told.write, clear_globs=False)
        known = test.globs
        if told.getvalue():
            found.append(f"line {fence.line}: {' '.join(told.getvalue().split())}")
    return found


def wrong_commands(page: str) -> list[str]:
    """Command lines that `noniid` would refuse."""
    found = []
    for fence in fences(page):
        for words in command_lines(fence.text) if fence.language in _SHELL else ():
            problem = refusal(words)
            if problem:
                found.append(f"line {fence.line}: `noniid {shlex.join(words)}`: {problem}")
    return found


def command_lines(text: str) -> Iterator[list[str]]:
    """What follows `noniid` in each line of a script; a backslash at its end continues a line.

    >>> list(command_lines("cd x\\n$ noniid run --seeds 3 \\\\\\n --json | head  # two\\nnoniid show"))
    [['run', '--seeds', '3', '--json'], ['show']]
    """
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer) if re.match(r"(\S*/)?noniid( |$)", line.strip().removeprefix("$ ")) else []
        if words:
            end = next((i for i, word in enumerate(words) if word in _ENDS), len(words))
            yield words[1:end]


def refusal(words: list[str]) -> str:
    """What is wrong with a command line; empty if nothing is.

    >>> refusal(["run", "--seeds", "3"]), refusal(["run", "--sedes", "3"]).split(". ")[0]
    ('', "No such option '--sedes'")
    """
    command: click.Command = noniid
    above, name = None, "noniid"
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        above = click.Context(command, parent=above, info_name=name, **command.context_settings)
        name, *words = words
        if name not in command.commands:
            return f"there is no command {above.command_path} {name}"
        command = command.commands[name]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            context = command.make_context(name, list(words), parent=above)
        _read_specs(context.params)
    except click.exceptions.Exit:  # --help and --version
        return ""
    except click.UsageError as error:
        return error.format_message()
    except BadInput as error:
        return str(error)
    return ""


def _read_specs(given: dict[str, Any]) -> None:
    """Splits and algorithms must be such, where they are not patterns or somebody's own."""
    splits, algorithms = given.get("splits") or (), given.get("algorithms") or ()
    for text in [*splits, *filter(None, [given.get("split")])]:
        if not set(text) & set("*?[:"):
            parse(text)
    for text in [*algorithms, *filter(None, [given.get("algorithm")])]:
        if not set(text) & set("*?[:"):
            ALGORITHMS.parse(text)
