"""Pictures of a split: what they show is what was counted, and nothing is cut off."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.results import figures, pictures
from noniid.results.pictures import (
    bubbles_figure,
    class_colours,
    cube_figure,
    examples_figure,
    population_figure,
    sizes_figure,
    tsne_figure,
)
from tests.results.test_figures import assert_nothing_touches_the_edge, counts_of, size_of


def drawn(monkeypatch, draw, *arguments):
    """The figure just before it is written, laid out."""
    kept = []
    monkeypatch.setattr(pictures, "save", lambda figure, path: kept.append(figure))
    draw(*arguments, "a title", "unused.png")
    kept[0].canvas.draw()
    return kept[0]


SHAPES = [(1, 2), (4, 2), (10, 10), (20, 62), (100, 10)]


@pytest.mark.parametrize("draw", [population_figure, bubbles_figure])
@pytest.mark.parametrize(("num_clients", "num_classes"), SHAPES)
def test_of_counts(tmp_path, draw, num_clients, num_classes):
    counts = counts_of(num_clients, num_classes, "dirichlet(1)" if num_clients < 100 else "iid")
    draw(counts, "data, a split", tmp_path / "a.png")
    width, height = size_of(tmp_path / "a.png")
    assert 300 < width < 1700 and 250 < height < 1200
    assert_nothing_touches_the_edge(tmp_path / "a.png")


def test_bars_are_shares(monkeypatch):
    counts = counts_of(5, 3)
    (axes,) = drawn(monkeypatch, population_figure, counts).axes
    for k, bars in enumerate(axes.containers):
        assert [bar.get_width() for bar in bars] == pytest.approx(counts[:, k] / counts.sum(axis=1))
        assert [bar.get_x() for bar in bars] == pytest.approx(counts[:, :k].sum(axis=1) / counts.sum(axis=1))


def test_areas_are_counts(monkeypatch):
    counts = counts_of(5, 3, "iid")
    counts[2, 1] = 0
    (axes,) = drawn(monkeypatch, bubbles_figure, counts).axes
    bubbles = axes.collections[0]
    places = [(int(client), int(k)) for client, k in bubbles.get_offsets()]
    assert len(places) == 14 and (2, 1) not in places
    areas = bubbles.get_sizes()
    assert areas / areas.max() == pytest.approx(np.array([counts[place] for place in places]) / counts.max())


@pytest.mark.parametrize("sizes", [[5], [7, 7, 7], [1, 2, 50, 3, 9], range(10, 500)])
def test_sizes(tmp_path, monkeypatch, sizes):
    sizes = np.array(sizes)
    sizes_figure(sizes, "data, a split", tmp_path / "a.png")
    assert_nothing_touches_the_edge(tmp_path / "a.png")
    (axes,) = drawn(monkeypatch, sizes_figure, sizes).axes
    assert sum(bar.get_height() for bar in axes.patches) == len(sizes)
    assert f"mean {sizes.mean():,.0f}" in axes.texts[0].get_text()


@pytest.mark.parametrize("num_clients", [1, 4, 30])
def test_points(tmp_path, monkeypatch, num_clients):
    points = np.random.default_rng(0).uniform(-1, 1, (600, 3))
    held = np.array_split(np.arange(600), num_clients)
    cube_figure(points, np.arange(600) % 2, held, "data, a split", tmp_path / "a.png")
    assert_nothing_touches_the_edge(tmp_path / "a.png")
    (axes,) = drawn(monkeypatch, cube_figure, points, np.arange(600) % 2, held).axes
    assert sum(len(marks.get_offsets()) for marks in axes.collections) == 600
    with pytest.raises(BadInput, match=r"three dimensions, and these inputs have shape \(2,\)"):
        cube_figure(points[:, :2], np.zeros(600), held, "", "unused.png")


@pytest.mark.parametrize("channels", [1, 3])
def test_examples(tmp_path, monkeypatch, channels):
    images = np.random.default_rng(0).normal(0.5, 1, (2, 3, channels, 6, 6))
    rows, columns = ["class 0", "class 1"], ["client 0\n0.1", "client 1\n0.2", "client 2\n0.3"]
    examples_figure(images, rows, columns, "data, a split", tmp_path / "a.png")
    assert_nothing_touches_the_edge(tmp_path / "a.png")
    axes = drawn(monkeypatch, examples_figure, images, rows, columns).axes
    assert [each.get_title() for each in axes[:3]] == columns
    shown = np.asarray(axes[4].images[0].get_array())
    assert shown.min() >= 0 and shown.max() <= 1
    expected = np.clip(images[1, 1], 0, 1)
    assert shown == pytest.approx(expected[0] if channels == 1 else expected.transpose(1, 2, 0))


def test_on_a_plane_clients_that_differ_lie_apart(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    clients = np.repeat([2, 5, 7], 20)
    rows = rng.normal(20 * clients[:, None], 1, (60, 4))
    first, again = (drawn(monkeypatch, tsne_figure, rows, clients).axes[0].collections[0] for _ in range(2))
    places = np.asarray(first.get_offsets())
    assert places == pytest.approx(np.asarray(again.get_offsets()))
    _, who = np.unique(first.get_facecolors(), axis=0, return_inverse=True)
    assert np.bincount(who).tolist() == [20, 20, 20]
    middles = np.array([places[who == each].mean(axis=0) for each in range(3)])
    nearest = np.linalg.norm(places[:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == who).all()


@pytest.mark.parametrize(("shape", "num_clients"), [((4, 3), 2), ((30, 1), 1), ((90, 8), 30)])
def test_planes_of_any_size(tmp_path, shape, num_clients):
    rows = np.random.default_rng(0).normal(size=shape)
    tsne_figure(rows, np.arange(len(rows)) % num_clients, "data, a split", tmp_path / "a.png")
    assert_nothing_touches_the_edge(tmp_path / "a.png")


def test_a_plane_needs_samples(tmp_path):
    with pytest.raises(BadInput, match="t-SNE needs 4 samples or more, and there are 3"):
        tsne_figure(np.zeros((3, 2)), np.arange(3), "", tmp_path / "a.png")


@pytest.mark.parametrize("count", [1, 7, 8, 20, 21, 200])
def test_colours_differ(count):
    colours = class_colours(count)
    assert len({tuple(np.atleast_1d(colour).tolist()) for colour in colours}) == len(colours) == count


def test_names_and_formats_are_those_of_all_figures(tmp_path):
    with pytest.raises(BadInput, match=r"cannot draw 'a.gif': give it a name that ends in"):
        sizes_figure(np.array([1, 2]), "", tmp_path / "a.gif")
    assert pictures.save is figures.save
