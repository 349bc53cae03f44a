import itertools
import struct
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.text import Text

from noniid.errors import BadInput
from noniid.results import figures
from noniid.results.figures import Comparison, Series, claims_figure, curves_figure, split_figure
from noniid.split import parse


def counts_of(num_clients, num_classes, text="dirichlet(0.5)"):
    labels = np.random.default_rng(0).integers(0, num_classes, 5000)
    split = parse(text).make(labels, num_clients, np.random.default_rng(1))
    return split.counts(labels, num_classes)


def curve(label, top, rounds=50, width=0.02):
    t = np.arange(1, rounds + 1)
    mean = top * (1 - np.exp(-t / 8))
    return Series(label, t, mean, mean - width, mean + width)


def size_of(path):
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:])


def assert_nothing_touches_the_edge(path):
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    edges = [pixels[:2], pixels[-2:], pixels[:, :2], pixels[:, -2:]]
    assert all((edge == 1).all() for edge in edges)
    assert (pixels < 0.5).any()


def drawn(monkeypatch, draw, *arguments):
    """The figure just before it is written, laid out."""
    kept = []
    monkeypatch.setattr(figures, "save", lambda figure, path: kept.append(figure))
    draw(*arguments, "a title", "unused.png")
    kept[0].canvas.draw()
    return kept[0]


@pytest.mark.parametrize(
    ("num_clients", "num_classes"), [(1, 2), (1, 10), (4, 2), (4, 10), (10, 62), (100, 2), (100, 10)]
)
def test_split_figure(tmp_path, num_clients, num_classes):
    path = tmp_path / "split.png"
    text = "dirichlet(0.5)" if num_clients < 100 else "iid"
    split_figure(counts_of(num_clients, num_classes, text), f"data, {text}, {num_clients} clients", path)
    width, height = size_of(path)
    assert 500 < width < 1400
    assert 250 < height < 1000
    assert_nothing_touches_the_edge(path)


def test_every_count_and_size_is_written_out(monkeypatch):
    counts = counts_of(4, 10)
    heat, sizes, _ = drawn(monkeypatch, split_figure, counts).axes
    cells = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in heat.texts}
    assert cells == {(i, k): f"{counts[i, k]:,}" for i in range(4) for k in range(10)}
    assert [text.get_text() for text in sizes.texts] == [f"{size:,}" for size in counts.sum(axis=1)]
    assert [label.get_text() for label in heat.get_yticklabels()] == ["0", "1", "2", "3"]


def test_many_clients_get_neither_numbers_nor_ticks(monkeypatch):
    heat, sizes, _ = drawn(monkeypatch, split_figure, counts_of(100, 10)).axes
    assert not heat.texts
    assert not sizes.texts
    assert len(heat.get_yticks()) < 15


@pytest.mark.parametrize("names", [["ant", "bee"], ["an ant of the longest kind there is", "a $bee$ at 5 $"]])
def test_class_names(monkeypatch, tmp_path, names):
    heat, *_ = drawn(monkeypatch, lambda *rest: split_figure(*rest, class_names=names), counts_of(4, 2)).axes
    shown = [label.get_text() for label in heat.get_xticklabels()]
    assert all(name.startswith(text.removesuffix("…")) for name, text in zip(names, shown, strict=True))
    assert all(len(text) <= 24 for text in shown)
    monkeypatch.undo()
    split_figure(counts_of(4, 2), "a title that is long " * 8, tmp_path / "named.png", names)
    assert_nothing_touches_the_edge(tmp_path / "named.png")


@pytest.mark.parametrize("num_series", [1, 4, 16])
def test_curves_figure(tmp_path, monkeypatch, num_series):
    series = [curve(f"method-{i}", 0.7 + 0.002 * i) for i in range(num_series)]
    curves_figure(series, "data: dirichlet(0.5)", tmp_path / "curves.png")
    assert size_of(tmp_path / "curves.png") == (1032, 528)
    assert_nothing_touches_the_edge(tmp_path / "curves.png")

    figure = drawn(monkeypatch, curves_figure, series)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [f"method-{i}" for i in range(num_series)]  # by height
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the line that leads there
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert len(looks) == num_series


def test_curves_skip_what_was_not_evaluated(monkeypatch):
    gaps = curve("every tenth", 0.7)
    gaps.mean[np.arange(1, 51) % 10 != 0] = np.nan
    never = curve("never", 0.7)
    never.mean[:] = np.nan
    (axes,) = drawn(monkeypatch, curves_figure, [never, gaps, curve("one round", 0.5, rounds=1)]).axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[10, 20, 30, 40, 50], [1]]
    with pytest.raises(BadInput, match="no round has been evaluated yet"):
        curves_figure([never], "a title", "unused.png")


def test_claims_figure(tmp_path, monkeypatch):
    comparisons = [
        Comparison("mnist, labels(1), fedavg", 0.298, 0.079, 0.291, 0.04),
        Comparison("mnist, labels(2), fedavg", 0.7, None, 0.712, None),
    ]
    claims_figure(comparisons, "claimed and measured", tmp_path / "claims.png")
    assert size_of(tmp_path / "claims.png")[0] == 1032
    assert_nothing_touches_the_edge(tmp_path / "claims.png")
    axes, right = drawn(monkeypatch, claims_figure, comparisons).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [one.label for one in comparisons]
    assert [label.get_text() for label in right.get_yticklabels()] == ["-0.7", "+1.2"]
    with pytest.raises(BadInput, match="nothing to compare"):
        claims_figure([], "a title", "unused.png")


@pytest.mark.parametrize(("suffix", "begins"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_formats(tmp_path, suffix, begins):
    path = tmp_path / f"figure{suffix}"
    curves_figure([curve("fedavg", 0.7)], "", path)
    assert path.read_bytes().startswith(begins)


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"cannot draw 'split.gif': give it a name that ends in .png, .svg"):
        split_figure(counts_of(4, 2), "a title", tmp_path / "split.gif")
    with pytest.raises(BadInput, match=r"cannot write .*split.png: No such file or directory\."):
        split_figure(counts_of(4, 2), "a title", tmp_path / "absent" / "split.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (
        lambda: split_figure(counts_of(4, 2), "a title", tmp_path / "a.png"),
        lambda: curves_figure([curve("fedavg", 0.7)], "a title", tmp_path / "a.png"),
        lambda: claims_figure([Comparison("cell", 0.5, None, 0.5, None)], "a title", tmp_path / "a.png"),
    ):
        with pytest.raises(BadInput, match=r"figures need matplotlib: pip install 'noniid\[figures\]'\."):
            draw()


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, noniid.results.figures; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
