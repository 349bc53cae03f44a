import io
import json
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from noniid.screens.split import show_split, split_json
from noniid.split import parse, summary


def case(text, num_clients, num_classes, num_samples=6000):
    labels = np.random.default_rng(0).integers(0, num_classes, num_samples)
    return parse(text).make(labels, num_clients, np.random.default_rng(1)), labels, num_classes


def shown(split, labels, num_classes, width=80, show_all=False, **console):
    out = io.StringIO()
    show_split(Console(file=out, width=width, **console), "the title", split, labels, num_classes, show_all)
    return out.getvalue()


def rows(text):
    """Client -> what follows its number in the table."""
    table = text.partition("\n total")[0]
    found = re.findall(r"^ *(\d+) (.*)$", table, re.MULTILINE)
    return {int(client): rest for client, rest in found}


@pytest.mark.parametrize("width", [40, 80, 100, 120])
@pytest.mark.parametrize("num_classes", [2, 10, 13, 62, 100])
@pytest.mark.parametrize("num_clients", [1, 10, 100])
def test_no_line_is_wider_than_the_console(num_clients, num_classes, width):
    text = shown(*case("labels(2) + noise(0.1)", num_clients, num_classes), width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert set(rows(text)) >= set(range(min(num_clients, 10)))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("num_classes", [2, 10])
@pytest.mark.parametrize("num_clients", [1, 4, 10])
def test_counts_are_written_out(num_clients, num_classes, width):
    split, labels, _ = case("dirichlet(0.3)", num_clients, num_classes)
    counts = split.counts(labels, num_classes)
    text = shown(split, labels, num_classes, width)
    table = rows(text)
    assert list(table) == list(range(num_clients))
    for client, rest in table.items():
        cells = rest.replace(",", "").replace("·", "0").split()
        assert [int(cell) for cell in cells[: num_classes + 1]] == [*counts[client], counts[client].sum()]
    (total,) = re.findall(r"^ total (.*)$", text, re.MULTILINE)
    assert [int(cell) for cell in total.replace(",", "").split()] == [*counts.sum(axis=0), len(labels)]


def test_bars_are_as_long_as_clients_are_large():
    split, labels, num_classes = case("quantity(0.5)", 10, 2)
    lengths = [sum(rest.count(c) for c in "▏▎▍▌▋▊▉█") for rest in rows(shown(split, labels, num_classes)).values()]
    expected = np.ceil(24 * split.sizes / split.sizes.max())
    assert np.abs(np.array(lengths) - expected).max() <= 1
    assert min(lengths) >= 1
    assert max(lengths) == 24


def test_many_clients_are_folded():
    one = case("iid", 100, 10)
    text = shown(*one)
    assert list(rows(text)) == [*range(10), *range(95, 100)]
    assert "85 of 100 clients are not shown; --all shows them." in text
    everyone = shown(*one, show_all=True)
    assert list(rows(everyone)) == list(range(100))
    assert "not shown" not in everyone
    assert list(rows(shown(*case("iid", 25, 10)))) == list(range(25))


@pytest.mark.parametrize(("width", "per_label"), [(80, 1), (120, 2)])
def test_many_labels_become_blocks(width, per_label):
    split, labels, num_classes = case("labels(5)", 10, 40)
    text = shown(split, labels, num_classes, width)
    counts = split.counts(labels, num_classes)
    for client, rest in rows(text).items():
        blocks = rest[: per_label * num_classes]
        assert [block != "·" for block in blocks[::per_label]] == (counts[client] > 0).tolist()
        assert f"{counts[client].sum():,}" in rest
    (ruler,) = re.findall(r"^client (.*)  size", text, re.MULTILINE)
    assert all(ruler[per_label * k :].startswith(f"{k}") for k in range(0, 40, 10))
    assert "a block" not in text


def test_blocks_stand_for_several_labels_where_there_is_no_room_for_all():
    split, labels, num_classes = case("labels(100)", 4, 100)
    text = shown(split, labels, num_classes)
    assert "2 labels to a block" in " ".join(text.split())
    assert len(rows(text)[0].split()[0]) == 50


def test_what_was_measured_is_said_in_words():
    one = case("labels(1) + noise(0.1, test=true)", 4, 10)
    split = one[0]
    assert split.num_dropped > 0
    text = " ".join(shown(*one, width=120).split())
    skew = summary(*one)
    sizes = f"client sizes {skew['size_min']:.0f} to {skew['size_max']:.0f}, mean {skew['size_mean']:.1f}"
    assert sizes.removesuffix(".0") in text
    assert f"Gini {skew['size_gini']:.2f}" in text
    assert f"effective clients {skew['effective_clients']:.1f} of 4" in text
    assert "labels per client 1 each, of 10 there are" in text
    assert f"C-score {skew['c_score']:.2f}" in text
    assert f"total variation {skew['total_variation']:.2f}" in text
    assert f"dropped {split.num_dropped:,} samples that no client holds" in text
    assert "noise(0.1, test=true) level by client 0.158, 0.224, 0.274, 0.316; the test set too" in text


def test_what_there_is_none_of_goes_unsaid():
    text = shown(*case("iid", 4, 10))
    assert "dropped" not in text
    assert "level" not in text
    many = shown(*case("noise(0.1)", 100, 10), width=120)
    assert "level 0.0316 (client 0) to 0.316 (client 99); the test set stays as it is" in many


def test_colour_changes_no_character():
    one = case("dirichlet(0.3)", 10, 10)
    plain = shown(*one).splitlines()
    painted = shown(*one, force_terminal=True, color_system="truecolor", legacy_windows=False)
    assert "\x1b[" in painted
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", painted).splitlines()
    assert stripped[0] == "the title"
    assert stripped[2:] == plain[2:]  # the second line explains the colours where there are some


@pytest.mark.parametrize("num_classes", [10, 40])
def test_terminals_without_block_characters(num_classes):
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    show_split(console, "the title", *case("labels(2)", 30, num_classes))
    console.file.flush()
    assert "total" in raw.getvalue().decode("ascii")


def test_json_holds_the_same():
    one = case("dirichlet(0.3) + noise(0.1)", 4, 10)
    split, labels, num_classes = one
    values = json.loads(json.dumps(split_json(*one)))
    assert values["counts"] == split.counts(labels, num_classes).tolist()
    assert values["sizes"] == split.sizes.tolist()
    assert values["summary"] == summary(*one)
    (noise,) = values["shifts"]
    assert (noise["shift"], noise["on_test"]) == ("noise(0.1)", False)
    assert noise["levels"] == pytest.approx(np.sqrt(0.1 * np.arange(1, 5) / 4).tolist())
