"""What `noniid algorithms` and `noniid check` show."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

from noniid import laws
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.screens.words import console

MARKS = {True: "holds", False: "BROKEN", None: "-"}


def show_algorithms(as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    if as_json:
        print(json.dumps([_told(name, cls) for name, cls in ALGORITHMS.items()]))
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("algorithm", "what", "from"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "from")
    for name, cls in ALGORITHMS.items():
        told = _told(name, cls)
        parameters = ", ".join(f"{field}={value}" for field, value in told["parameters"].items())
        table.add_row(f"{name}({parameters})" if parameters else name, told["what"], str(cls.paper.year))
    console().print(table)


def _told(name: str, cls: type[Algorithm]) -> dict[str, Any]:
    parameters = {
        field.name: str(field.default).lower() if isinstance(field.default, bool) else field.default
        for field in dataclasses.fields(cls)
    }
    what = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    return {"name": name, "parameters": parameters, "what": what, "paper": cls.paper._asdict()}


def show_verdicts(text: str, as_json: bool) -> int:
    """Each law as it is tried. The exit status: 1 if one is broken."""
    algorithm = ALGORITHMS.parse(text)
    screen, broken = console(), 0
    for verdict in laws.check(algorithm):
        broken += verdict.holds is False
        if as_json:
            print(json.dumps(verdict._asdict()), flush=True)
        else:
            why = f": {verdict.why}" if verdict.why else ""
            screen.print(
                f"{MARKS[verdict.holds]:>7}  {verdict.law}{why}", highlight=False, markup=False, soft_wrap=True
            )
    if not as_json:
        count = len(laws.LAWS)
        screen.print(f"{broken} of {count} laws are broken." if broken else f"No law of {count} is broken.")
    return 1 if broken else 0
