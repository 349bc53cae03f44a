"""Rows in files: a checkpoint's memory comes back to the bit, and nothing costs what was not written."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from noniid.errors import BadInput
from noniid.results.kept import Kept
from noniid.rows import put, take


def _change(kept: Kept, rows: Tensor, ids: list[int], value: float) -> None:
    """As the round loop does it."""
    chosen = torch.tensor(ids)
    kept.fetch("c", chosen)
    kept.note("c", chosen, take(rows, chosen))
    assert put(rows, chosen, torch.full((len(ids), *rows.shape[1:]), value)) is rows


def _again(folder: Path, like: Tensor, round: int) -> Tensor:
    """What another process finds."""
    return Kept(folder).back("c", like, round).clone()


@pytest.mark.parametrize("first", [torch.zeros(3), torch.tensor([1.0, -0.0, 2.0]), torch.zeros(2, 2)])
def test_a_file_begins_with_the_rows_it_is_given(tmp_path: Path, first: Tensor) -> None:
    rows = first.expand(5, *first.shape)
    made = Kept(tmp_path / "m").begin("c", rows, 5)
    assert torch.equal(made, rows) and torch.equal(torch.signbit(made), torch.signbit(rows))
    made[2] = 7.0
    assert not bool((rows == 7).any())  # what was expanded is left alone
    whole = torch.arange(10.0).view(5, 2)
    assert torch.equal(Kept(tmp_path / "m").begin("c", whole, 5), whole)  # in place of the file before


def test_a_row_of_zeros_costs_nothing_before_it_is_written(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "m")
    rows = kept.begin("c", torch.zeros(25_000).expand(10_000, -1), 10)  # 1 GB
    kept.saved(0)
    _change(kept, rows, [17, 9_999], 3.0)
    kept.sync()
    assert sum(path.stat().st_blocks * 512 for path in (tmp_path / "m").iterdir()) < 1_000_000
    assert rows[9_999].sum() == 75_000 and not bool(rows[9_998].any())


def test_notes_lead_back_to_the_last_checkpoint(tmp_path: Path) -> None:
    kept, like = Kept(tmp_path / "m"), torch.zeros(6, 2)
    rows = kept.begin("c", like, 6)
    _change(kept, rows, [0, 1], 1.0)  # before any checkpoint there is nothing to go back to
    assert not list((tmp_path / "m").glob("*.notes"))
    kept.saved(1)
    at_1 = rows.clone()
    _change(kept, rows, [1, 2], 2.0)
    _change(kept, rows, [2, 3], 3.0)  # a row that changes twice is noted once
    at_3 = rows.clone()
    assert torch.equal(_again(tmp_path / "m", like, 1), at_1)
    assert torch.equal(_again(tmp_path / "m", like, 1), at_1)
    rows.copy_(at_3)
    kept.saved(3)
    _change(kept, rows, [0, 5], 5.0)
    assert torch.equal(_again(tmp_path / "m", like, 3), at_3)


def test_notes_cut_short_anywhere_are_of_rows_that_were_not_touched(tmp_path: Path) -> None:
    kept, like = Kept(tmp_path / "m"), torch.zeros(4, 1)
    rows = kept.begin("c", like, 4)
    rows.copy_(torch.arange(4.0).unsqueeze(1))
    kept.saved(2)
    start = rows.clone()
    _change(kept, rows, [0, 2], 9.0)
    kept.note("c", torch.tensor([1, 3]), rows[[1, 3]])  # and dies before it touches them
    (notes,) = (tmp_path / "m").glob("*.notes")
    whole, first = notes.read_bytes(), 8 + 2 * 8 + 2 * 4
    for length in range(first, len(whole)):
        shutil.copytree(tmp_path / "m", tmp_path / str(length))
        (tmp_path / str(length) / notes.name).write_bytes(whole[:length])
        assert torch.equal(_again(tmp_path / str(length), like, 2), start)


def test_a_file_that_is_gone_or_damaged_is_told(tmp_path: Path) -> None:
    Kept(tmp_path / "m").begin("c", torch.zeros(4, 2), 4)
    for like in (torch.zeros(4, 3), torch.zeros(5, 2)):
        with pytest.raises(BadInput, match=r"damaged: delete .*m\.safetensors to train that run anew"):
            Kept(tmp_path / "m").back("c", like, 1)
    with pytest.raises(BadInput, match="is missing or damaged"):
        Kept(tmp_path / "m").back("d", torch.zeros(4, 2), 1)


def test_room_is_asked_for_what_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    zero, one = torch.zeros(5).expand(10, -1), torch.ones(5).expand(10, -1)  # 20 bytes a row
    Kept(tmp_path / "m").begin("c", zero, 5)
    for rows, visits in ((zero, 6), (zero, 60), (one, 5)):
        with pytest.raises(BadInput, match="takes up to 0.0 GB, and .* has room for 0.0: give a larger place by"):
            Kept(tmp_path / "m").begin("c", rows, visits)
