"""docs/splits.md shows every split there is, and its pictures are small and there."""

from __future__ import annotations

import re

import pytest

from noniid.split import PLACEMENTS, SHIFTS, parse
from tests import gallery
from tests.generated_splits import PLACED, SHIFTED, SOURCES, made

PAGE = gallery.PAGE.read_text(encoding="utf-8")


def test_every_split_has_an_example_of_its_own() -> None:
    assert list(PLACED) == list(PLACEMENTS)
    assert list(SHIFTED) == list(SHIFTS)
    for name, (spec, _) in PLACED.items():
        assert type(parse(spec).placement) is PLACEMENTS[name], spec
    for name, (spec, _) in SHIFTED.items():
        assert type(parse(spec).shifts[-1]) is SHIFTS[name], spec
    assert all(source == "-" or "](https://" in source for source in SOURCES.values())


@pytest.mark.parametrize("spec", ["iid", "by(school)", "grouped(writer)", "replay(counts.csv)", "split.json"])
def test_made_splits_have_ten_clients(spec: str) -> None:
    assert made(spec).split.num_clients == 10
    assert (made(spec).split.sizes > 0).all()


def test_pictures_are_shown_and_small() -> None:
    shown = set(re.findall(r"!\[[^]]+\]\(img/([\w-]+\.png)\)", PAGE))
    assert {"placements.png", "shifts.png"} <= shown
    drawn = {word.removeprefix("docs/img/") for words in gallery.lines() for word in words if "docs/img/" in word}
    assert drawn <= shown
    for name in shown:
        assert (gallery.IMAGES / name).stat().st_size < gallery.MOST_BYTES, name
