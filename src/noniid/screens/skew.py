"""Measured skew in words: the evidence for each kind, and the verdict that `noniid profile` gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noniid.data import natural_client
from noniid.errors import BadInput
from noniid.experiments.prepare import Placed, place_whole
from noniid.experiments.request import known_data
from noniid.screens.words import console
from noniid.split import BesideChance, By, Profile, Recipe, by_client, parse, summary
from noniid.split.kinds import MOST_P

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_SHOWN = 40  # clients
COLUMNS = ("size", "labels", "total_variation", "jensen_shannon", "hellinger", "earth_mover", "mmd", "told")
MEANING = {
    "label": "clients hold labels in different proportions",
    "feature": "clients' features differ beyond what their labels explain",
    "quantity": "clients differ in how much they hold",
}


class Silos(NamedTuple):
    """Clients whose skew is measured."""

    title: str
    placed: Placed
    seed: int


def silos(data: str, split: str | None, clients: int | None, seed: int, **own: str | None) -> Silos:
    """Of a file all rows, of a data set what it trains on."""
    text = known_data(data, **own)
    client = natural_client(text)
    if split is None and client is None:
        raise BadInput(f'say who the clients of {data} are: --client COLUMN, or --split as "dirichlet(0.5)".')
    recipe = parse(split) if split else Recipe(By(client or ""))
    placed = place_whole(text, recipe, clients, seed)
    return Silos(f"{data}, {recipe}", placed, seed)


def show_profile(measured: Silos, as_json: bool) -> None:
    title, placed, seed = measured
    found = placed.profile(seed=seed)
    if as_json:
        print(json.dumps(profile_json(placed, found)))
        return
    from rich.text import Text

    screen, split = console(), placed.split
    samples = int(split.sizes.sum())
    size = f"{split.num_clients:,} clients, {samples:,} samples, {placed.dataset.num_classes} classes"
    screen.print(Text(f"{title}: {size}", style="bold"), "", sep="\n")
    screen.print(Text(f"verdict: {verdict(found)}", style="bold"))
    show_evidence(screen, found)
    screen.print("", _clients(placed, found), sep="\n")


def verdict(found: Profile) -> str:
    """
    >>> from noniid.split import BesideChance
    >>> verdict(Profile(BesideChance(0.5, 0.1, 0.001), BesideChance(0.1, 0.1, 0.5), None))
    'label skew: clients hold labels in different proportions'
    """
    if not found.kinds:
        return "none: clients differ no more than chance makes them differ, or too little to matter"
    if len(found.kinds) > 1:
        return f"mixed: {' and '.join(found.kinds)} skew"
    return f"{found.kinds[0]} skew: {MEANING[found.kinds[0]]}"


def evidence(found: Profile) -> dict[str, list[str]]:
    """What was measured for each kind, a line each: the value, what chance makes of it, and p."""
    told = {"label": [f"total variation {_beside_chance(found.labels, '{:.2f}'.format)}"]}
    features = found.features
    if features is not None:
        told["feature"] = [
            f"a model tells whose a sample is for {_beside_chance(features.telling, _percent)}; "
            f"a guess {_percent(features.blind)}",
            f"squared MMD {_beside_chance(features.mmd, '{:.4f}'.format)}",
        ]
        if features.shared < 1:
            told["feature"].append(
                f"{_percent(1 - features.shared)} of the samples have a label that one client alone holds: "
                "of them nothing can be told"
            )
    told["quantity"] = [f"Gini of sizes {_beside_chance(found.sizes, '{:.2f}'.format)}"]
    return told


def _beside_chance(tested: BesideChance, form: Callable[[float], str]) -> str:
    p = "p < 0.0001" if tested.p < 0.0001 else f"p = {tested.p:.2g}"
    return f"{form(tested.value)}, by chance {form(tested.chance)} ({p})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def answer(found: Profile, kind: str) -> str:
    """yes, no, or that there is some, but too little to matter."""
    p = {"label": found.labels.p, "quantity": found.sizes.p}.get(kind, 1.0)
    return "yes" if kind in found.kinds else "little" if p <= MOST_P else "no"


def show_evidence(screen: Console, found: Profile) -> None:
    screen.print("", _evidence_table(found), sep="\n")


def _evidence_table(found: Profile) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for kind, lines in evidence(found).items():
        marks = [f"{kind} skew", answer(found, kind)]
        for line in lines:
            table.add_row(Text(marks[0], style="bold"), marks[1], Text(line))
            marks = ["", ""]
    return table


def client_names(placed: Placed) -> list[str]:
    """The values of the column that makes the clients, or their numbers."""
    columns, placement = placed.dataset.train.columns, placed.placement
    if isinstance(placement, By):
        return [str(columns[placement.column][held[0]]) for held in placed.split.indices]
    return [str(i) for i in range(placed.split.num_clients)]


def _rows(placed: Placed, found: Profile) -> Iterator[dict[str, Any]]:
    """By client; NaN is None."""
    each = by_client(placed.counts)
    if found.features is not None:
        each |= {"mmd": found.features.mmd_by_client, "told": found.features.telling_by_client}
    for i, name in enumerate(client_names(placed)):
        numbers = {what: None if np.isnan(values[i]) else float(values[i]) for what, values in each.items()}
        yield {"client": name, "size": int(placed.split.sizes[i]), **numbers, "labels": int(each["labels"][i])}


def profile_json(placed: Placed, found: Profile) -> dict[str, Any]:
    labels, num_classes = placed.dataset.train.y.numpy(), placed.dataset.num_classes
    told = found.record()
    return {**told, "summary": summary(placed.split, labels, num_classes), "clients": list(_rows(placed, found))}


def _clients(placed: Placed, found: Profile) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("client", overflow="fold")
    for name in COLUMNS:
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    rows = list(_rows(placed, found))
    for row in rows[:MOST_SHOWN]:
        numbers = [_short(row.get(name), name) for name in COLUMNS[2:]]
        table.add_row(row["client"], f"{row['size']:,}", str(row["labels"]), *numbers)
    if len(rows) > MOST_SHOWN:
        table.add_row("...")
    return table


def _short(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return _percent(value) if name == "told" else f"{value:.3f}" if name == "mmd" else f"{value:.2f}"
