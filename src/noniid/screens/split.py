"""Who holds what, as a table for the terminal, and how skewed it is, in words.

N clients, K labels. A cell's shade is the label's share of the client's own samples, the bar at the right is
the client's size. Where the counts do not fit, a block per label, or per few labels, takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noniid.split import SHIFTS, Profile, Shift, Split, by_client, summary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

MOST_SHOWN = 25  # clients; of more, the first and the last few
FIRST, LAST = 10, 5
LEAST_BAR, MOST_BAR = 6, 24  # characters
DARK, LIGHT = (16, 44, 84), (170, 218, 255)  # the ground of a count; with ink that shows on either
INK = "rgb(90,150,215)"  # shows on a dark terminal and on a light one


@dataclass(frozen=True)
class Glyphs:
    shades: str  # from little to much
    none: str
    bar: str  # the end of a bar, from the thinnest slice to a whole character


BLOCKS = Glyphs("░▒▓█", "·", "▏▎▍▌▋▊▉█")
ASCII = Glyphs("-+*#", ".", "#")


@dataclass(frozen=True)
class Cells:
    """The columns between clients and sizes, and what a row of counts [K] fills them with."""

    heads: list[str]
    width: int
    fill: Callable[[np.ndarray], list[Text]]
    legend: str = ""


def show_split(
    console: Console, title: str, split: Split, labels: np.ndarray, num_classes: int, show_all: bool = False
) -> None:
    from rich.text import Text

    counts = split.counts(labels, num_classes)
    num_clients = len(counts)
    shown = range(num_clients)
    if num_clients > MOST_SHOWN and not show_all:
        shown = [*range(FIRST), *range(num_clients - LAST, num_clients)]
    table, legend = _table(console, counts, shown)
    console.print(Text(title, style="bold"), Text(legend, style="dim"), "", table, sep="\n")
    if len(shown) < num_clients:
        hidden = f"{num_clients - len(shown):,} of {num_clients:,} clients are not shown; --all shows them."
        console.print(Text(hidden, style="dim"))
    facts = _facts(split, summary(split, labels, num_classes), num_classes)
    console.print("", _as_table(facts), sep="\n")


def split_json(split: Split, labels: np.ndarray, num_classes: int, profile: Profile | None = None) -> dict[str, Any]:
    """As plain values: the measured skew, counts by client and label, each shift's level by client."""
    counts = split.counts(labels, num_classes)
    return {
        "summary": summary(split, labels, num_classes),
        "sizes": split.sizes.tolist(),
        "counts": counts.tolist(),
        "by_client": {name: values.tolist() for name, values in by_client(counts).items()},
        **({} if profile is None else {"profile": profile.record()}),
        "shifts": [
            {"shift": SHIFTS.write(shift), "on_test": shift.on_test, "levels": _levels(shift, split)}
            for shift in split.shifts
        ],
    }


def _table(console: Console, counts: np.ndarray, shown: Sequence[int]) -> tuple[Table, str]:
    """The table and the line that explains it."""
    from rich import box
    from rich.table import Table

    glyphs = ASCII if console.options.ascii_only else BLOCKS
    sizes = counts.sum(axis=1)
    client_width = max(len("client"), len(str(len(counts) - 1)))
    size_width = max(len("size"), len(f"{sizes.sum():,}")) + 1
    room = console.width - client_width - size_width - 2
    cells = _numbers(counts, room - LEAST_BAR - 1, glyphs) or _blocks(counts, room - LEAST_BAR - 1, glyphs)
    bar_width = max(1, min(MOST_BAR, room - (cells.width + 1) * len(cells.heads)))
    table = Table(box=box.SIMPLE, show_edge=False, show_footer=True, padding=0, pad_edge=False)
    table.add_column("client", "total", justify="right", width=client_width, no_wrap=True)
    for head, total in zip(cells.heads, cells.fill(counts.sum(axis=0)), strict=True):
        table.add_column(head, total, width=cells.width, no_wrap=True)
    table.add_column("size", f"{sizes.sum():,}", justify="right", width=size_width, no_wrap=True)
    table.add_column("", "", width=bar_width, no_wrap=True, style=INK)
    for before, i in zip([-1, *shown], shown, strict=False):
        if i > before + 1:
            table.add_row("...")
        bar = _bar(sizes[i] / sizes.max() * bar_width, glyphs.bar)
        table.add_row(str(i), *cells.fill(counts[i]), f"{sizes[i]:,}", bar)
    legend = cells.legend or ("brighter: more of the client's own" if console.color_system else "")
    return table, f"samples by client (rows) and label (columns){legend and '; '}{legend}"


def _numbers(counts: np.ndarray, room: int, glyphs: Glyphs) -> Cells | None:
    """A column of counts for each label, as roomy as possible; None where they do not fit."""
    from rich.text import Text

    num_classes = counts.shape[1]
    names = [str(k) for k in range(num_classes)]
    most, peak = int(counts.sum(axis=0).max()), _shares(counts).max()
    for form, air in ((",d", 2), (",d", 1), ("d", 1), ("d", 0)):
        width = max(len(format(most, form)), len(names[-1])) + air
        if (width + 1) * num_classes <= room:
            break
    else:
        return None

    def fill(row: np.ndarray) -> list[Text]:
        texts = [format(int(count), form) if count else glyphs.none for count in row]
        styles = [_ground(shade) for shade in _shares(row) / peak]
        return [Text(text.rjust(width), style=style) for text, style in zip(texts, styles, strict=True)]

    return Cells([name.rjust(width) for name in names], width, fill)


def _blocks(counts: np.ndarray, room: int, glyphs: Glyphs) -> Cells:
    """One column of blocks: two characters a label, or one, or one for several labels."""
    from rich.text import Text

    num_classes = counts.shape[1]
    room = max(room - 1, 1)
    wide = 2 if 2 * num_classes <= room else 1
    group = math.ceil(num_classes / room)
    starts = np.arange(0, num_classes, group)
    peak = _shares(np.add.reduceat(counts, starts, axis=1)).max()

    def fill(row: np.ndarray) -> list[Text]:
        text = Text()
        for shade in _shares(np.add.reduceat(row, starts)) / peak:
            level = min(int(shade * len(glyphs.shades)), len(glyphs.shades) - 1)
            text.append((glyphs.shades[level] if shade else glyphs.none) * wide, style=INK if shade else "dim")
        return [text]

    marks = [str(start) for start in starts[:: 10 // wide]]
    ruler = "".join(mark.ljust(10) for mark in marks).rstrip()
    width = wide * len(starts)
    if len(ruler) > width:  # the last mark stands too near the end
        ruler = ruler[: 10 * (len(marks) - 1)]
    several = f", {group} labels to a block" if group > 1 else ""
    legend = f"{glyphs.none} none, {glyphs.shades} up to {100 * peak:.0f} % of the client's own{several}"
    return Cells([ruler], width, fill, legend)


def _shares(counts: np.ndarray) -> np.ndarray:
    """Each label's share of its row, [..., K]."""
    return counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)


def _ground(shade: float) -> str:
    """The ground between DARK and LIGHT for a shade from 0 to 1, and ink to read on it."""
    if shade == 0:
        return "dim"
    amount = math.sqrt(shade)  # small shares are the many, and must be told apart
    red, green, blue = (round(dark + amount * (light - dark)) for dark, light in zip(DARK, LIGHT, strict=True))
    return f"{'black' if amount > 0.5 else 'white'} on rgb({red},{green},{blue})"


def _bar(length: float, ends: str) -> str:
    """A bar so many characters long; whoever holds something gets at least a slice.

    >>> _bar(2.5, "▏▎▍▌▋▊▉█"), _bar(0.01, "▏▎▍▌▋▊▉█"), _bar(0, "▏▎▍▌▋▊▉█")
    ('██▌', '▏', '')
    """
    slices = max(round(length * len(ends)), 1) if length else 0
    whole, rest = divmod(slices, len(ends))
    return ends[-1] * whole + (ends[rest - 1] if rest else "")


def _facts(split: Split, skew: dict[str, float], num_classes: int) -> dict[str, str]:
    """What was measured, a line each."""
    variation = skew["total_variation"]
    facts = {
        "client sizes": f"{_range(skew, 'size')}; Gini {skew['size_gini']:.2f} (0: all equal)",
        "effective clients": f"{skew['effective_clients']:,.1f} of {split.num_clients:,} (1: one holds all)",
        "labels per client": f"{_range(skew, 'labels')}, of {num_classes} there are",
        "C-score": f"{skew['c_score']:.2f} on a scale from 0 (equal label mixes) to 2",
        "total variation": f"{variation:.2f}: {100 * variation:.0f} % of samples would need other labels "
        "for equal mixes",
        "other distances": f"Jensen-Shannon {skew['jensen_shannon']:.2f}, Hellinger {skew['hellinger']:.2f}, "
        f"earth mover {skew['earth_mover']:.2f} (classes in order)",
    }
    if split.num_dropped:
        facts["dropped"] = f"{split.num_dropped:,} samples that no client holds"
    for shift in split.shifts:
        facts[SHIFTS.write(shift)] = _strength(shift, split)
    return facts


def _as_table(facts: dict[str, str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        table.add_row(Text(name, style="bold"), Text(fact))
    return table


def _range(skew: dict[str, float], what: str) -> str:
    low, mean, high = (skew[f"{what}_{end}"] for end in ("min", "mean", "max"))
    if low == high:
        return f"{low:,.0f} each"
    return f"{low:,.0f} to {high:,.0f}, mean " + f"{mean:,.1f}".removesuffix(".0")


def _levels(shift: Shift, split: Split) -> list[float]:
    return [shift.level(i, split.num_clients) for i in range(split.num_clients)]


def _strength(shift: Shift, split: Split) -> str:
    """A few levels one by one, many by their ends."""
    levels = _levels(shift, split)
    if len(levels) <= FIRST:
        text = "level by client " + ", ".join(f"{level:.3g}" for level in levels)
    else:
        text = f"level {levels[0]:.3g} (client 0) to {levels[-1]:.3g} (client {len(levels) - 1:,})"
    return f"{text}; the test set {'too' if shift.on_test else 'stays as it is'}"
