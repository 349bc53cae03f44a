"""Verbs and flags are frozen: whoever changes one changes this file, and says so in the changelog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from noniid.cli import main
from tests.cli import call

CLI_PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

VERBS = {
    "run": "--data --label --client --test --ignore --split --clients --algorithm --model --rounds --epochs --steps --batch --lr --momentum --weight-decay "
    "--optimiser --keep-optimiser --lr-decay --drop-last --bn --wrap --precision --participation --augment --seeds --eval-every --as-published --workers --engine --device --store --figure --explain --json",
    "show": "[RUN] --store --data --split --algorithm --status --csv --rounds --figure --json",
    "split": "DATA [SPLIT] --label --client --test --ignore --clients --seed --as-published --features --all --export --figure --kind --json",
    "profile": "DATA --label --client --test --ignore --split --clients --seed --json",
    "recommend": "DATA --label --client --test --ignore --split --clients --algorithm --model --rounds --epochs --lr "
    "--participation --seeds --workers --store --json",
    "table": "TABLE --data --split --algorithm --seeds --version --correct --dry-run --workers --engine --store --json",
    "algorithms": "--json",
    "check": "ALGORITHM --json",
    "data list": "--json",
    "data fetch": "NAMES...",
    "data info": "NAME --json",
}


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join([*path, name]), command


def written(command: click.Command) -> str:
    """A command's arguments and flags, in the order of its help."""
    context = click.Context(command)
    return " ".join(
        parameter.make_metavar(context) if isinstance(parameter, click.Argument) else "/".join(parameter.opts)
        for parameter in command.params
    )


COMMANDS = dict(commands())


def test_these_and_no_others() -> None:
    assert {name: written(command) for name, command in COMMANDS.items()} == VERBS


@pytest.mark.parametrize("name", VERBS)
def test_everything_is_explained(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    for option in command.params:
        assert isinstance(option, click.Argument) or (isinstance(option, click.Option) and option.help), option.name


@pytest.mark.parametrize("name", VERBS)
def test_everything_is_in_the_docs(name: str) -> None:
    _, _, rest = CLI_PAGE.read_text().partition(f"## noniid {name}\n")
    section = rest.partition("\n## ")[0]
    assert section
    for option in COMMANDS[name].params:
        assert all(f"`{flag}" in section for flag in option.opts if flag.startswith("-"))


@pytest.mark.parametrize("words", [[], ["data"], *(name.split() for name in VERBS)])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_printed_and_mentions_every_flag(words: list[str], flag: str) -> None:
    told = call(*words, flag)
    assert (told.exit_code, told.stderr) == (0, "")
    shown = VERBS.get(" ".join(words), "").split()
    assert all(each in told.stdout for each in shown)


def test_version() -> None:
    assert call("--version").stdout.startswith("noniid, version ")
