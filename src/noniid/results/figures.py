"""Figures: who holds what, accuracy against round, claimed beside measured.

N clients, K classes. Accuracies are fractions, as in the store, and are drawn in percent.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noniid.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
MOST_WRITTEN_OUT = 30  # clients; with more, cells carry no numbers and clients no ticks of their own

# Okabe and Ito's palette, made for colour-blind readers too; without its yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
LINES = ("-", "--", ":", "-.")  # the second seven series are dashed, the third dotted
SPARSE = (0, (1, 4))  # dots that nobody takes for a curve: they lead from one that ended early to its name
BLUES = ("#e4eef8", "#9cc4e4", "#3a87c4", "#0b4a8a", "#06264d")
INK, GREY, PALE, BAR = "#222222", "#6b6b6b", "#e3e3e3", "#8a9bad"


@dataclass(frozen=True, eq=False)
class Series:
    """One line of a curve figure: accuracy by round and the band around it; NaN where not evaluated."""

    label: str
    rounds: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def evaluated(self) -> Series:
        seen = np.isfinite(self.mean)
        return Series(self.label, self.rounds[seen], self.mean[seen], self.low[seen], self.high[seen])


@dataclass(frozen=True)
class Comparison:
    """One line of a claims figure. A spread is what follows the ±, None where nothing does."""

    label: str
    claimed: float
    claimed_spread: float | None
    measured: float
    measured_spread: float | None


def split_figure(counts: np.ndarray, title: str, path: Path | str, class_names: Sequence[str] | None = None) -> None:
    """Clients x classes as a heat map of counts [N, K]; a class that a client does not hold stays white."""
    num_clients, num_classes = counts.shape
    names = [str(k) for k in range(num_classes)] if class_names is None else list(class_names)
    written_out = num_clients <= MOST_WRITTEN_OUT
    number = 0.08 * len(f"{counts.max():,}")  # inches
    width = float(np.clip(num_classes * max(0.5, number + 0.16), 2.6, 8.0))
    height = max(0.34 * num_clients, 0.7) if written_out else float(np.clip(0.055 * num_clients, 3.6, 6.0))
    figure = blank(width + 2.9, height + 1.75, title)
    grid = figure.add_gridspec(2, 2, width_ratios=(width, 1.5), height_ratios=(height, 0.13))
    heat, sizes = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    _draw_heat(heat, figure.add_subplot(grid[1, 0]), counts)
    _name_classes(heat, names, width / num_classes)
    _draw_sizes(sizes, counts.sum(axis=1), written_out)
    if written_out:
        _write_out(heat, counts, with_numbers=width / num_classes >= number)
    save(figure, path)


def _draw_heat(axes: Axes, bar: Axes, counts: np.ndarray) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    blues = LinearSegmentedColormap.from_list("held", BLUES).with_extremes(bad="white")
    top = max(int(counts.max()), 1)
    image = axes.imshow(np.ma.masked_equal(counts, 0), cmap=blues, vmin=0, vmax=top, aspect="auto")
    axes.yaxis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5, 10]))
    bare(axes, x="class", y="client")
    axes.figure.colorbar(image, cax=bar, orientation="horizontal", ticks=MaxNLocator(4, integer=True))
    bare(bar, x="samples of the class; white: none", labelsize=8)
    bar.xaxis.set_major_formatter("{x:,.0f}")


def _name_classes(axes: Axes, names: list[str], cell: float) -> None:
    """Class names above cells of so many inches: slanted where too long, some left out where too many."""
    room = 0.22 if all(name.isdecimal() for name in names) else 0.16
    shown = range(0, len(names), int(np.ceil(room / cell)))
    axes.xaxis.tick_top()
    axes.set_xticks(shown, [short(names[k], 24) for k in shown], parse_math=False)
    if max(map(len, names)) * 0.085 > cell * shown.step:
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="left", rotation_mode="anchor")
    axes.xaxis.set_label_position("top")


def _write_out(axes: Axes, counts: np.ndarray, with_numbers: bool) -> None:
    num_clients, num_classes = counts.shape
    axes.set_yticks(range(num_clients))
    axes.set_yticks(np.arange(1, num_clients) - 0.5, minor=True)
    axes.set_xticks(np.arange(1, num_classes) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5 if with_numbers else 0.7)
    axes.tick_params(which="minor", length=0)
    if with_numbers:
        for (i, k), count in np.ndenumerate(counts):
            colour = "#b5b5b5" if count == 0 else "white" if count > 0.45 * counts.max() else INK
            axes.text(k, i, f"{count:,}", ha="center", va="center", fontsize=8, color=colour)


def _draw_sizes(axes: Axes, sizes: np.ndarray, written_out: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    largest = max(int(sizes.max()), 1)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.set_yticks([])
    bare(axes, x="samples in all", labelsize=8)
    if written_out:
        axes.barh(range(len(sizes)), sizes, height=0.62, color=BAR)
        for i, size in enumerate(sizes):
            axes.text(size + 0.04 * largest, i, f"{size:,}", va="center", fontsize=8, color=INK)
        axes.set_xlim(0, largest * 1.6)
        axes.set_xticks([])
    else:
        axes.stairs(sizes, np.arange(len(sizes) + 1) - 0.5, orientation="horizontal", fill=True, color=BAR)
        axes.set_xlim(0, largest * 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.xaxis.set_major_formatter("{x:,.0f}")


def curves_figure(series: Sequence[Series], title: str, path: Path | str) -> None:
    """Test accuracy against round, a band over the seeds, each line named at its end."""
    lines = [(_look(i), one.evaluated()) for i, one in enumerate(series) if np.isfinite(one.mean).any()]
    if not lines:
        raise BadInput("no round has been evaluated yet: there is no curve to draw.")
    figure = blank(8.6, max(4.4, 0.19 * len(lines) + 1.2), title)
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes = figure.add_subplot()
    for (colour, style), one in lines:
        axes.fill_between(one.rounds, one.low, one.high, color=colour, alpha=0.14, linewidth=0)
        (line,) = axes.plot(one.rounds, one.mean, style, color=colour, linewidth=1.8, markersize=4)
        line.set_marker("o" if len(one.rounds) <= 12 else "")
    bare(axes, x="round", y="test accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.grid(color=PALE, linewidth=0.7)
    axes.margins(x=0.015)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5, 10]))
    _name_lines(axes, lines, gap=0.19 / (figure.get_figheight() - 1.1))
    save(figure, path)


def _name_lines(axes: Axes, lines: list[tuple[tuple[str, str], Series]], gap: float) -> None:
    """Labels right of the axes, each as near its line's end as `gap`, in heights of the axes, allows."""
    from sklearn.isotonic import isotonic_regression

    lines = sorted(lines, key=lambda line: line[1].mean[-1])
    bottom, top = axes.get_ylim()
    wanted = (np.array([one.mean[-1] for _, one in lines]) - bottom) / (top - bottom)
    steps = gap * np.arange(len(lines))
    places = isotonic_regression(wanted - steps, y_min=0, y_max=max(1 - steps[-1], 0)) + steps
    last = max(one.rounds[-1] for _, one in lines)
    for ((colour, style), one), place in zip(lines, places, strict=True):
        end = (one.rounds[-1], one.mean[-1])
        dashes = style if end[0] == last else SPARSE
        leader = {"arrowstyle": "-", "color": colour, "lw": 0.7, "ls": dashes, "relpos": (0, 0.5)}
        label = axes.annotate(short(one.label, 36), end, (1.035, place), "data", "axes fraction", leader)
        label.set(va="center", fontsize=9.5, color=colour, annotation_clip=False, parse_math=False)


def _look(i: int) -> tuple[str, str]:
    """The i-th line's colour and dashes."""
    return COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)]


def claims_figure(comparisons: Sequence[Comparison], title: str, path: Path | str) -> None:
    """A paper's numbers and ours, line by line from the top, each with its ± as a whisker."""
    if not comparisons:
        raise BadInput("no claimed cell has been measured yet: there is nothing to compare.")
    figure = blank(8.6, 0.3 * len(comparisons) + 1.6, title)
    from matplotlib.ticker import PercentFormatter

    axes = figure.add_subplot()
    rows = np.arange(len(comparisons))
    for kind, offset, shape, colour, fill in (
        ("claimed", -0.14, "D", GREY, "white"),
        ("measured", 0.14, "o", COLOURS[0], COLOURS[0]),
    ):
        values = [getattr(one, kind) for one in comparisons]
        spreads = [getattr(one, f"{kind}_spread") or 0 for one in comparisons]
        bars = axes.errorbar(values, rows + offset, xerr=spreads, fmt=shape, color=colour, label=kind)
        bars.lines[0].set(markersize=5, markerfacecolor=fill)
    points = [f"{100 * (one.measured - one.claimed):+.1f}" for one in comparisons]
    axes.set_yticks(rows, [short(one.label, 48) for one in comparisons], parse_math=False)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    right = axes.twinx()
    right.set(ylim=axes.get_ylim(), yticks=rows, yticklabels=points)
    bare(right)
    bare(axes, x="test accuracy; at the right: measured less claimed, in points")
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.grid(axis="x", color=PALE, linewidth=0.7)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    save(figure, path)


def blank(width: float, height: float, title: str) -> Figure:
    """An empty figure, sizes in inches, with its title at the left, broken where it would not fit."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("figures need matplotlib: pip install 'noniid[figures]'.") from None
    figure = Figure(figsize=(width, height), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    title = textwrap.fill(title, int(width * 11.5))
    figure.suptitle(title, x=0.12 / width, ha="left", fontsize=11.5, color=INK, parse_math=False)
    return figure


def bare(axes: Axes, x: str = "", y: str = "", labelsize: int = 9) -> None:
    """No frame, no tick marks; the axes' names in grey."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=labelsize, colors=INK)
    axes.set_xlabel(x, color=GREY)
    axes.set_ylabel(y, color=GREY)


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def save(figure: Figure, path: Path | str) -> None:
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"cannot draw {path.name!r}: give it a name that ends in {', '.join(FORMATS)}.")
    try:
        figure.savefig(path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}.") from None
