"""A split that was written is the split that is read, for the samples it was made of and no others."""

import json
import sys

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import Saved, Split, labels_checksum, load_saved, parse, save

LABELS = np.arange(60) % 3
FORMS = [".json", ".npz", ".parquet"]


def made(text="dirichlet(1, min_size=2)", num_clients=4):
    return parse(text).make(LABELS, num_clients, np.random.default_rng(0))


def same(one, other):
    return len(one) == len(other) and all(a.dtype == b.dtype and (a == b).all() for a, b in zip(one, other))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["iid", "dirichlet(1, min_size=2)", "labels(1)"])
def test_there_and_back(tmp_path, form, text):
    split, path = made(text), tmp_path / f"split{form}"
    save(split, path, {"split": text, "labels": labels_checksum(LABELS), "num_dropped": 7})
    found, provenance = load_saved(path)
    assert same(split.indices, found.indices)
    assert (provenance["split"], found.num_dropped) == (text, 7)
    for spec in (str(path), f"saved({path}) + noise(0.1)"):
        recipe = parse(spec)
        again = recipe.make(LABELS, None, np.random.default_rng(9))
        assert same(split.indices, again.indices)
        assert again.num_dropped == 60 - sum(split.sizes)
    assert [str(shift) for shift in again.shifts] == [str(shift) for shift in parse("noise(0.1)").shifts]


def test_what_is_read_is_the_readers_own(tmp_path):
    save(made(), tmp_path / "a.npz")
    first = parse(str(tmp_path / "a.npz")).make(LABELS, 4, np.random.default_rng(0))
    first.indices[0][:] = 0
    assert same(made().indices, load_saved(tmp_path / "a.npz")[0].indices)


def test_the_text_carries_the_checksum(tmp_path):
    path = tmp_path / "a.json"
    save(made(), path)
    placement = Saved(str(path)).completed()
    assert len(placement.checksum) == 12
    save(made("iid"), path)
    with pytest.raises(BadInput, match="holds another split than when this run was asked for"):
        placement.place(LABELS, 4, np.random.default_rng(0))
    assert Saved(str(path)).completed() != placement


def test_index_lists_of_anybody_may_be_used(tmp_path):
    path = tmp_path / "theirs.json"
    path.write_text('{"indices": [[3, 1], [0]]}')
    split = parse(str(path)).make(LABELS, 2, np.random.default_rng(0))
    assert [part.tolist() for part in split.indices] == [[3, 1], [0]]
    assert split.num_dropped == 57


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[::-1], r"was made for other samples than these \(for digits\): export it"),
        (LABELS[:50], "was made for other samples than these"),
    ],
)
def test_other_samples_are_refused(tmp_path, labels, message):
    save(made(), tmp_path / "a.json", {"labels": labels_checksum(LABELS), "data": "digits"})
    with pytest.raises(BadInput, match=message):
        parse(str(tmp_path / "a.json")).make(labels, None, np.random.default_rng(0))
    save(made(), tmp_path / "unknown.json")
    with pytest.raises(BadInput, match="names samples beyond the 40 there are"):
        parse(str(tmp_path / "unknown.json")).make(LABELS[:40], 4, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"", "is not a saved split"),
        ("a.json", b"[1, 2]", "is not a saved split"),
        ("a.json", b'{"indices": [[0.5]]}', "indices are lists of whole numbers"),
        ("a.json", b'{"indices": [[[0]]]}', "indices are lists of whole numbers"),
        ("a.json", b'{"indices": []}', "is not a split: it needs samples"),
        ("a.json", b'{"indices": [[0, 1], [1]]}', "each in one client's hands only"),
        ("a.json", b'{"indices": [[-1]]}', "counted from 0"),
        ("a.npz", b"PK nothing", "is not a saved split"),
        ("a.parquet", b"PAR1", "is not a saved split"),
        ("a.txt", b"x", "a split is saved as .json, .npz, .parquet: not as 'a.txt'"),
    ],
)
def test_files_that_are_no_splits(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        load_saved(tmp_path / name)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_an_npz_with_samples_left_over(tmp_path):
    np.savez(tmp_path / "a.npz", indices=np.arange(5), ends=np.array([2, 4]), provenance=np.array("{}"))
    with pytest.raises(BadInput, match="left over behind the last client"):
        load_saved(tmp_path / "a.npz")


def test_where_nothing_can_be_written(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="cannot write .*No such file"):
        save(made(), tmp_path / "absent" / "a.json")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match=r"pip install 'noniid\[tables\]'"):
        save(made(), tmp_path / "a.parquet")


def test_json_can_be_read_without_us(tmp_path):
    save(Split((np.array([2, 0]), np.array([1]))), tmp_path / "a.json", {"seed": 3})
    assert json.loads((tmp_path / "a.json").read_text()) == {"provenance": {"seed": 3}, "indices": [[2, 0], [1]]}
