"""Numbers as people read them, and the console they are shown on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noniid.results.table import Spread

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_A_PIPE = 120


def console(stderr: bool = False) -> Console:
    """The terminal; what goes to a file or a pipe gets a width at which tables need not fold."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=WIDTH_OF_A_PIPE)


def percent(value: Spread) -> str:
    """
    >>> percent(Spread(0.8812, 0.0061, 3)), percent(Spread(0.8812, None, 1))
    ('88.12 ± 0.61 %', '88.12 %')
    """
    if value.mean is None:
        return "-"
    spread = "" if value.std is None else f" ± {100 * value.std:.2f}"
    return f"{100 * value.mean:.2f}{spread} %"


def size(num_bytes: float | None) -> str:
    """
    >>> size(355408), size(64)
    ('355.4 kB', '64 B')
    """
    if num_bytes is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes:.0f} B"


def clock(seconds: float | None) -> str:
    """
    >>> clock(4.3), clock(63), clock(7322)
    ('4.3 s', '1:03', '2:02:02')
    """
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
