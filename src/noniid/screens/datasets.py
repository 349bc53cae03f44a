"""What `noniid data` shows."""

from __future__ import annotations

import json

from noniid.data import info, listing
from noniid.screens.words import console


def show_listing(as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    if as_json:
        print(json.dumps([row._asdict() for row in listing()]))
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    for heading in ("train", "test", "input", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("here")
    for row in listing():
        here = "yes" if row.here else "-"
        table.add_row(row.name, row.what, f"{row.train:,}", f"{row.test:,}", row.shape, str(row.classes), here)
    console().print(table)


def show_info(name: str, as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    found = info(name)
    if as_json:
        print(json.dumps(found))
        return
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for what, value in found.items():
        table.add_row(what, value)
    console().print(table)
