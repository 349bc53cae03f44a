"""The one error a user meets: a sentence that says what is wrong and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BadInput(ValueError):
    """Something the user can mend. Its text is shown as it stands, without a traceback."""


def unknown(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """
    >>> unknown("data set", "mnits", ["mnist", "fmnist"])
    BadInput("unknown data set 'mnits': did you mean 'mnist'? Known: fmnist, mnist.")
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return BadInput(f"unknown {kind} {name!r}: {hint}Known: {', '.join(names)}.")
