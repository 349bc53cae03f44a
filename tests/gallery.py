"""Draws the pictures of docs/splits.md anew: `python -m tests.gallery`; those of single splits too, with `--all`.

Two are of every placement and shift there is, of the same splits as the page's tables. The others are what the page's own
`noniid split ... --figure docs/img/...` lines draw: they need data sets that are fetched first, and a file that its
Python makes.
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noniid.cli import main as noniid
from noniid.experiments.prepare import Placed
from noniid.results.figures import BAR, BLUES, COLOURS, GREY, INK, bare, blank, save
from noniid.split import Standardise
from tests.doc_examples import command_lines, fences
from tests.generated_splits import NUM_CLIENTS, PLACED, SHIFTED, made

ROOT = Path(__file__).parent.parent
PAGE, IMAGES = ROOT / "docs" / "splits.md", ROOT / "docs" / "img"
COLUMNS = 5  # of placements
EACH = 3  # images of a client
MOST_BYTES = 200_000


def draw_placements(path: Path) -> None:
    """A heat map of counts by client and class for each placement, the clients' sizes as bars beside it."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    tables = [made(spec).counts for spec, _ in PLACED.values()]
    num_rows = -(-len(tables) // COLUMNS)
    figure = blank(11.0, 0.8 + 2.05 * num_rows, f"Every placement: digits over {NUM_CLIENTS} clients, seed 0")
    blues = LinearSegmentedColormap.from_list("held", BLUES).with_extremes(bad="white")
    grid = figure.subplots(num_rows, COLUMNS, squeeze=False).ravel()
    shades = PowerNorm(0.5, 0, max(int(counts.max()) for counts in tables))  # the few of iid are to be seen, too
    image = None
    for axes, (spec, _), counts in itertools.zip_longest(grid, PLACED.values(), tables, fillvalue=(None, None)):
        if spec is None:
            axes.set_axis_off()
            continue
        image = axes.imshow(np.ma.masked_equal(counts, 0), cmap=blues, norm=shades, aspect="auto")
        axes.set_title(_short(spec), fontsize=9.5, color=INK, loc="left")
        axes.set(xticks=[], yticks=[])
        bare(axes)
        sizes = axes.inset_axes((1.03, 0, 0.22, 1), sharey=axes)
        sizes.barh(range(len(counts)), counts.sum(axis=1), height=0.7, color=BAR)
        sizes.set(xlim=(0, None), xticks=[])
        sizes.tick_params(labelleft=False)
        bare(sizes)
    grid[0].set_ylabel("client", color=GREY, fontsize=9)
    grid[0].set_xlabel("class", color=GREY, fontsize=9)
    grid[0].text(1.03, -0.04, "size", transform=grid[0].transAxes, va="top", fontsize=8.5, color=GREY)
    bar = figure.colorbar(image, ax=grid[len(tables):].tolist() or grid.tolist(), orientation="horizontal",
                          fraction=0.1, ticks=(1, 10, 50, 100))  # fmt: skip
    bare(bar.ax, x="samples; white: none", labelsize=8.5)
    save(figure, path)


def _short(spec: str) -> str:
    return spec if len(spec) <= 22 else f"{spec[:17]} …"


def draw_shifts(path: Path) -> None:
    """The same images as the first, a middle and the last client see them, a row for each shift."""
    clients = (0, NUM_CLIENTS // 2, NUM_CLIENTS - 1)
    figure = blank(8.0, 0.7 + 0.76 * len(SHIFTED), f"Every shift: digits, as {NUM_CLIENTS} clients see them")
    gap = EACH + 1  # every fourth column stays empty
    widths = [0.3 if (j + 1) % gap == 0 else 1 for j in range(gap * len(clients) - 1)]
    grid = figure.subplots(len(SHIFTED), len(widths), squeeze=False, width_ratios=widths)
    for axes in grid[:, EACH::gap].ravel():
        axes.set_axis_off()
    for row, (spec, _) in zip(grid, SHIFTED.values(), strict=True):
        for number, client in enumerate(clients):
            _draw_row(row[number * gap : number * gap + EACH], made(spec), client)
        row[0].set_ylabel(spec.replace(" + ", "\n+ "), rotation=0, ha="right", va="center", fontsize=9.5, color=INK)
    for number, client in enumerate(clients):
        grid[0, number * gap + EACH // 2].set_title(f"client {client}", fontsize=10, color=INK)
    save(figure, path)


def _draw_row(row: Sequence[Any], placed: Placed, client: int) -> None:
    """Of a client's own images where their labels are wrong, which differ from client to client."""
    true, split = placed.dataset.train.y.numpy(), placed.split
    same = np.array([np.flatnonzero(true == k)[0] for k in (3, 7, 0)])
    index = same if split.labels is None else split.indices[client][-EACH:]
    images = placed.seen(client, index)
    # Standardised pixels lie around 0; all others are shown from black to white as the first client's are.
    low, high = (-1.2, 2.2) if any(isinstance(shift, Standardise) for shift in split.shifts) else (0, 1)
    for axes, image, sample in zip(row, images, index, strict=True):
        axes.imshow(image[0], cmap="gray", vmin=low, vmax=high)
        axes.set(xticks=[], yticks=[])
        bare(axes)
        if split.labels is not None:
            wrong = split.labels[sample] != true[sample]
            axes.set_xlabel(f"“{split.labels[sample]}”", fontsize=9, color=COLOURS[1] if wrong else GREY, labelpad=3)


def lines() -> list[list[str]]:
    """The page's command lines that draw into docs/img."""
    found = [
        words for fence in fences(PAGE.read_text(encoding="utf-8")) if fence.language == "bash"
        for words in command_lines(fence.text)
    ]  # fmt: skip
    return [words for words in found if any(word.startswith("docs/img/") for word in words)]


def main(arguments: Sequence[str]) -> int:
    draw_placements(IMAGES / "placements.png")
    draw_shifts(IMAGES / "shifts.png")
    for words in lines() if "--all" in arguments else ():
        print(f"noniid {shlex.join(words)}", flush=True)
        noniid(words, standalone_mode=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
