"""More pictures of a split: populations as bars, bubbles, sizes, points in a cube or on a plane, what noise does.

N clients, K classes, n samples, m of them shown, d features; c channels, h and w pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noniid.errors import BadInput
from noniid.results.figures import BAR, COLOURS, GREY, INK, PALE, bare, blank, save, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 24  # classes in a legend
MOST_TICKS = 30  # clients with a tick of their own
MOST_POINTS = 4_000
LEAST_EMBEDDED = 4


def population_figure(counts: np.ndarray, title: str, path: Path | str) -> None:
    """Every client as a bar of its class shares, from counts [N, K]; as figure 1 of Hsu et al. (2019)."""
    num_clients, num_classes = counts.shape
    height = float(np.clip(0.22 * num_clients, 1.6, 7.0))
    figure = blank(8.6, height + 1.5, title)
    axes = figure.add_subplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    left = np.zeros(num_clients)
    thickness = 0.86 if num_clients <= MOST_TICKS else 1.0
    for k, colour in enumerate(class_colours(num_classes)):
        axes.barh(range(num_clients), shares[:, k], left=left, height=thickness, color=colour, label=str(k))
        left += shares[:, k]
    axes.set(xlim=(0, 1), ylim=(num_clients - 0.5, -0.5))
    bare(axes, x="share of the client's own samples", y="client")
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    _client_ticks(axes, num_clients)
    _class_legend(figure, axes, num_classes)
    save(figure, path)


def bubbles_figure(counts: np.ndarray, title: str, path: Path | str) -> None:
    """A bubble for each client and class, its area the number of samples, from counts [N, K]."""
    num_clients, num_classes = counts.shape
    width, height = (float(np.clip(0.36 * count, 2.6, most)) for count, most in ((num_clients, 11), (num_classes, 6.5)))
    figure = blank(width + 2.2, height + 1.4, title)
    axes = figure.add_subplot()
    cell = 72 * min(width / num_clients, height / num_classes)  # points
    top = max(int(counts.max()), 1)
    client, k = np.nonzero(counts)
    area = (0.94 * cell) ** 2 * counts[client, k] / top
    axes.scatter(client, k, s=area, color=COLOURS[0], alpha=0.85, linewidth=0)
    axes.set(xlim=(-0.7, num_clients - 0.3), ylim=(num_classes - 0.3, -0.7), axisbelow=True)
    axes.grid(color=PALE, linewidth=0.7)
    _few_ticks(axes)
    bare(axes, x="client", y="class")
    # Two round numbers beside the axes say what an area means.
    for number in dict.fromkeys((_round(top), _round(top / 4))):
        axes.scatter([], [], s=(0.94 * cell) ** 2 * number / top, color=COLOURS[0], alpha=0.85, label=f"{number:,}")
    axes.legend(title="samples", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9,
                title_fontsize=9, labelspacing=1.4, handletextpad=1.2)  # fmt: skip
    save(figure, path)


def sizes_figure(sizes: np.ndarray, title: str, path: Path | str) -> None:
    """How many clients hold how much, [N]; a line at the mean."""
    figure = blank(7.2, 4.0, title)
    axes = figure.add_subplot()
    from matplotlib.ticker import MaxNLocator

    low, high = int(sizes.min()), int(sizes.max())
    num_bins = int(np.clip(np.ceil(2 * np.sqrt(len(sizes))), 5, 40))
    edges = np.linspace(low, high, num_bins + 1) if high > low else np.array([low - 0.5, low + 0.5])
    axes.hist(sizes, edges.tolist(), color=BAR, edgecolor="white", linewidth=0.8)
    mean = float(sizes.mean())
    axes.axvline(mean, color=COLOURS[1], linewidth=1.4)
    axes.annotate(f" mean {mean:,.0f}", (mean, 1.0), xycoords=("data", "axes fraction"), va="bottom", ha="center",
                  fontsize=9, color=COLOURS[1])  # fmt: skip
    bare(axes, x="samples of a client", y="clients")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color=PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    save(figure, path)


def cube_figure(
    points: np.ndarray, labels: np.ndarray, held: Sequence[np.ndarray], title: str, path: Path | str
) -> None:
    """Points [n, 3] in space, a colour for each client and a shape for each label; `held` are the clients' indices."""
    if points.ndim != 2 or points.shape[1] != 3:
        raise BadInput(f"points are drawn in three dimensions, and these inputs have shape {points.shape[1:]}.")
    figure = blank(6.4, 5.8, title)
    from matplotlib.ticker import MaxNLocator

    axes: Any = figure.add_subplot(projection="3d")
    share = max(1, sum(map(len, held)) // MOST_POINTS + 1)
    colours = class_colours(len(held))
    for client, index in enumerate(held):
        for label, shape in zip(np.unique(labels), ("o", "^", "s", "D", "v", "*")):
            own = points[index[labels[index] == label][::share]]
            name = f"client {client}" if label == labels.min() and len(held) <= MOST_NAMED else None
            axes.scatter(*own.T, s=14, marker=shape, color=colours[client], alpha=0.75, linewidth=0, label=name)
    for name, axis in zip(("x1", "x2", "x3"), (axes.xaxis, axes.yaxis, axes.zaxis), strict=True):
        axis.set_pane_color("#fafafa")
        axis.set_label_text(name, color=GREY)
        axis.set_tick_params(labelsize=8, colors=INK)
        axis.set_major_locator(MaxNLocator(2))  # slanted axes have little room
    axes.grid(color=PALE, linewidth=0.6)
    axes.view_init(elev=18, azim=-62)
    axes.set_box_aspect(None, zoom=1.0)
    if len(held) <= MOST_NAMED:
        figure.legend(loc="outside lower center", ncols=min(len(held), 6), frameon=False, fontsize=9, markerscale=2)
    save(figure, path)


def tsne_figure(rows: np.ndarray, clients: np.ndarray, title: str, path: Path | str, seed: int = 0) -> None:
    """Features [m, d] laid out on a plane by t-SNE, a colour for each client [m]; distances far apart mean little."""
    from matplotlib.colors import to_rgb
    from sklearn.manifold import TSNE

    present, who = np.unique(clients, return_inverse=True)
    if len(rows) < LEAST_EMBEDDED:
        raise BadInput(f"t-SNE needs {LEAST_EMBEDDED} samples or more, and there are {len(rows)}.")
    init = "pca" if min(rows.shape) > 1 else "random"
    plane = TSNE(perplexity=min(30, (len(rows) - 1) / 3), init=init, random_state=seed).fit_transform(rows)
    figure = blank(6.8, 6.0, title)
    axes = figure.add_subplot()
    # In random order: drawn one after the other, the last client would hide the first.
    order = np.random.default_rng(seed).permutation(len(rows))
    colours = np.array([to_rgb(colour) for colour in class_colours(len(present))])
    axes.scatter(*plane[order].T, s=11, c=colours[who[order]], alpha=0.8, linewidth=0)
    axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
    bare(axes)
    if len(present) <= MOST_NAMED:
        for client, colour in zip(present, colours, strict=True):
            axes.scatter([], [], s=24, color=colour, label=str(client))
        figure.legend(title="client", loc="outside right center", frameon=False, fontsize=9, title_fontsize=9)
    save(figure, path)


def examples_figure(
    images: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, path: Path | str
) -> None:
    """The same images as clients see them, [rows, columns, c, h, w]; what lies beyond 0 and 1 is cut off."""
    num_rows, num_columns = images.shape[:2]
    figure = blank(0.5 + 1.25 * num_columns, 0.9 + 1.25 * num_rows, title)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for i, j in itertools.product(range(num_rows), range(num_columns)):
        axes: Any = grid[i, j]
        image = np.clip(images[i, j], 0, 1)
        axes.imshow(image[0] if len(image) != 3 else image.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        bare(axes, y=short(rows[i], 18) if j == 0 else "")
        if i == 0:
            axes.set_title(columns[j], fontsize=8.5, color=INK)
    save(figure, path)


def class_colours(count: int) -> list[Any]:
    """Colours to tell apart; of many, neighbours in a rainbow."""
    from matplotlib import colormaps

    if count <= len(COLOURS):
        return list(COLOURS[:count])
    if count <= 20:
        # Darker ones first, then their lighter fellows.
        wheel = [colormaps["tab20"](i) for i in range(20)]
        return [*wheel[::2], *wheel[1::2]][:count]
    return [colormaps["turbo"](float(place)) for place in np.linspace(0.04, 0.96, count)]


def _class_legend(figure: Any, axes: Axes, num_classes: int) -> None:
    if num_classes <= MOST_NAMED:
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, title="class", loc="outside right center", frameon=False, fontsize=9,
                      title_fontsize=9, handlelength=0.9, handleheight=0.9)  # fmt: skip


def _client_ticks(axes: Axes, num_clients: int) -> None:
    from matplotlib.ticker import MaxNLocator

    if num_clients <= MOST_TICKS:
        axes.set_yticks(range(num_clients))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(10, integer=True, steps=[1, 2, 5, 10]))


def _few_ticks(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(20, integer=True, steps=[1, 2, 5, 10]))


def _round(value: float) -> int:
    """To one digit.

    >>> _round(1438), _round(7)
    (1000, 7)
    """
    scale = 10 ** int(np.log10(max(value, 1)))
    return max(int(round(value / scale) * scale), 1)
