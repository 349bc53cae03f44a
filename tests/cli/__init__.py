"""The command line as a person, or a script, meets it."""

from __future__ import annotations

from click.testing import CliRunner, Result

from noniid.cli import main

TINY = ("--data", "fcube", "--split", "fcube", "--clients", 4, "--rounds", 2, "--epochs", 1)


def call(*arguments: object) -> Result:
    """`noniid` with these arguments, in this process."""
    return CliRunner().invoke(main, [str(each) for each in arguments], prog_name="noniid")
