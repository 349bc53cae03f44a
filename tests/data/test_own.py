"""Data of one's own: what was in the file is what is trained on, and a changed file is other data."""

from __future__ import annotations

import bz2
import gzip
import sys

import datasets
import numpy as np
import pandas
import pytest
import torch
from PIL import Image

from noniid import data
from noniid.data import SparseRows, own, own_data
from noniid.data.own import divide
from noniid.errors import BadInput
from noniid.seeds import stream

TABLE = """age,sex,clinic,ill
50,f,north,yes
?,m,north,no
70,,south,no
30,f,south,yes
41,m,north,yes
42,m,north,no
43,f,south,no
44,m,south,yes
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def everything(text):
    """Inputs, labels and columns of train and test, as one."""
    dataset = data.load(text)
    x = torch.cat([part.batch(torch.arange(len(part))) for part in (dataset.train, dataset.test)])
    y = torch.cat([dataset.train.y, dataset.test.y])
    columns = {name: np.concatenate([part.columns[name] for part in (dataset.train, dataset.test)])
               for name in dataset.train.columns}  # fmt: skip
    return x, y, columns


def write_folder(folder, by_client=True, size=(4, 5), mode="L"):
    """Images whose brightness says label and client: 4 of each."""
    for client in range(2):
        for label in range(2):
            inner = folder / (f"c{client}" if by_client else "") / f"l{label}"
            inner.mkdir(parents=True, exist_ok=True)
            for i in range(4):
                Image.new(mode, size, 100 * label + 10 * client).save(inner / f"{client}{i}.png")
    return folder


# Files


def test_a_csv_of_numbers_texts_and_gaps(table):
    text = own_data(table, label="ill", client="clinic")
    assert text.startswith(f"file({table}, label=ill, client=clinic, checksum=")
    dataset = data.load(text)
    assert (dataset.name, dataset.num_classes, dataset.input_shape) == (text, 2, (2 + 2,))
    assert (len(dataset.train), len(dataset.test)) == (6, 2)  # a quarter of each clinic's rows
    _, y, columns = everything(text)
    assert sorted(zip(columns["clinic"].tolist(), y.tolist(), strict=True)) == sorted(
        (clinic, int(ill == "yes")) for _, _, clinic, ill in (row.split(",") for row in TABLE.splitlines()[1:])
    )
    assert columns["sex"].tolist().count("") == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("separator", [",", ";", "\t", ", "])
def test_csv_however_written(tmp_path, table, pack, separator):
    path = tmp_path / "other.csv"
    path.write_bytes(pack(TABLE.replace(",", separator).encode()))
    for one, other in zip(
        everything(own_data(path, "ill", "clinic"))[:2], everything(own_data(table, "ill", "clinic"))[:2]
    ):
        assert torch.equal(one, other)


def test_parquet_equals_csv(tmp_path, table):
    pandas.read_csv(table, na_values="?").to_parquet(tmp_path / "table.parquet")
    asked = {"label": "ill", "client": "clinic"}
    for one, other in zip(
        everything(own_data(table, **asked)), everything(own_data(tmp_path / "table.parquet", **asked))
    ):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else str(one) == str(other)


def test_npz_of_columns_and_of_rows(tmp_path):
    rows = np.arange(24.0).reshape(8, 3)
    y, who = np.arange(8) % 2, np.arange(8) // 4
    np.savez(tmp_path / "rows.npz", x=rows, y=y, who=who)
    np.savez(tmp_path / "columns.npz", a=rows[:, 0], b=rows[:, 1], c=rows[:, 2], y=y, who=who)
    one, other = (everything(own_data(tmp_path / name, "y", "who")) for name in ("rows.npz", "columns.npz"))
    assert one[0].shape == (8, 3)
    assert torch.equal(one[0], other[0])
    assert sorted(one[2]["who"].tolist()) == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("shape", "expected"), [((8, 5, 6), (1, 5, 6)), ((8, 5, 6, 3), (3, 5, 6)), ((8, 3, 5, 6), (3, 5, 6))]
)
def test_npz_of_images(tmp_path, shape, expected):
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    np.savez(tmp_path / "images.npz", x=pixels, label=np.arange(8) % 2)
    dataset = data.load(own_data(tmp_path / "images.npz"))
    assert (dataset.input_shape, dataset.train.x.dtype, dataset.train.scale) == (expected, torch.uint8, 255.0)


def test_libsvm_with_clients(tmp_path):
    path = tmp_path / "rows.libsvm"
    path.write_text("".join(f"{i % 2} qid:{i // 4} 1:{i} 3:0.5\n" for i in range(8)))
    x, y, columns = everything(own_data(path, client="qid"))
    order = x[:, 0].argsort()
    assert x[order].tolist() == [[i, 0, 0.5] for i in range(8)]  # as it stands: such files are mostly scaled
    assert y[order].tolist() == [0, 1] * 4
    assert columns["qid"][order.numpy()].tolist() == [0] * 4 + [1] * 4


def test_wide_libsvm_stays_sparse(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i % 2} {i + 1}:1 50000:2\n" for i in range(8)))
    assert isinstance(data.load(own_data(path)).train.x, SparseRows)


@pytest.mark.parametrize("by_client", [True, False])
def test_a_folder_of_images(tmp_path, by_client):
    write_folder(tmp_path / "images", by_client)
    x, y, columns = everything(own_data(tmp_path / "images", client="client" if by_client else None))
    assert x.shape == (16, 1, 5, 4)
    assert torch.equal((x[:, 0, 0, 0] * 255 >= 100).long(), y)
    if by_client:
        assert set(columns["client"]) == {"c0", "c1"}


def test_a_folder_whose_table_tells(tmp_path):
    folder = write_folder(tmp_path / "images", by_client=False, mode="RGB")
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.png"))
    lines = [f"{name},{'dark' if 'l0' in str(name) else 'bright'},w{name.name[0]}" for name in names]
    (folder / "metadata.csv").write_text("\n".join(["file_name,shade,writer", *lines]) + "\n")
    x, y, columns = everything(own_data(folder, label="shade", client="writer"))
    assert x.shape == (16, 3, 5, 4)
    assert torch.equal((x[:, 0, 0, 0] * 255 < 100).long(), y)  # bright comes before dark
    assert sorted(set(columns["writer"])) == ["w0", "w1"]


# From Python


class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.tensor([float(i), 0.0]), i % 2, f"c{i // 4}"


def test_a_torch_dataset():
    text = own_data(Points(), client="client", name="points")
    assert text.startswith("memory(points, client=client, checksum=")
    x, y, columns = everything(text)
    assert x.shape == (8, 2)
    assert torch.equal(x[:, 0].argsort().argsort() % 2, y)
    assert sorted(columns["client"].tolist()) == ["c0"] * 4 + ["c1"] * 4


def test_a_hugging_face_table_equals_its_file(table):
    frame = pandas.read_csv(table, na_values="?")
    one = everything(own_data(datasets.Dataset.from_pandas(frame, preserve_index=False), "ill", "clinic"))
    other = everything(own_data(table, "ill", "clinic"))
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def test_hugging_face_images():
    images = [Image.new("L", (4, 5), 20 * i) for i in range(8)]
    held = datasets.Dataset.from_dict({"image": images, "digit": [i % 2 for i in range(8)], "who": list("aaaabbbb")},
                                      features=datasets.Features({"image": datasets.Image(), "digit": datasets.Value("int64"),
                                                                  "who": datasets.Value("string")}))  # fmt: skip
    x, y, columns = everything(own_data(held, "digit", "who"))
    assert x.shape == (8, 1, 5, 4)
    assert torch.equal((x[:, 0, 0, 0] * 255 / 20).round().long() % 2, y)
    assert sorted(columns["who"].tolist()) == list("aaaabbbb")


def test_a_pandas_table_equals_its_file(table):
    frame = pandas.read_csv(table, na_values="?")
    one, other = everything(own_data(frame, "ill", "clinic")), everything(own_data(table, "ill", "clinic"))
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def test_what_is_no_data():
    with pytest.raises(BadInput, match="int is no data: give a path"):
        own_data(3)
    with pytest.raises(BadInput, match=r"gives \(input, label\) or \(input, label, client\)"):
        own_data([(1, 2, 3, 4)])
    with pytest.raises(BadInput, match=r"inputs differ in shape, as \(2,\) and \(3,\)"):
        own_data([(torch.zeros(2), 0), (torch.zeros(3), 1)])
    with pytest.raises(BadInput, match="there is no data called 'gone' in this process"):
        data.load("memory(gone, label=y, checksum=123)")


# Identity


def test_a_changed_file_is_other_data(table):
    before = own_data(table, "ill", "clinic")
    table.write_text(TABLE.replace("50,f", "51,f"))
    assert own_data(table, "ill", "clinic") != before
    own._read.cache_clear()  # what this process has read already it still knows
    with pytest.raises(BadInput, match="holds other data than when this run was asked for"):
        data.load(before)


def test_a_changed_image_is_other_data(tmp_path):
    folder = write_folder(tmp_path / "images")
    before = own_data(folder, client="client")
    assert own_data(folder, client="client") == before
    Image.new("L", (4, 5), 7).save(folder / "c0" / "l0" / "00.png")
    assert own_data(folder, client="client") != before


def test_a_text_without_checksum_is_completed(table):
    assert data.load(f"file({table}, label=ill)").checksum == data.load(own_data(table, "ill")).checksum != ""


# Division


@pytest.mark.parametrize("sizes", [[8, 4, 1], [40, 3, 2, 5]])
def test_rows_of_every_client_are_tested_on(sizes):
    clients = np.repeat(np.arange(len(sizes)), sizes)
    train, test = divide(clients, "rows", stream(0, "division"))
    assert sorted([*train, *test]) == list(range(sum(sizes)))
    assert np.bincount(clients[test], minlength=len(sizes)).tolist() == [size // 4 for size in sizes]


def test_whole_clients_are_tested_on():
    clients = np.repeat(np.arange(9), 5)
    train, test = divide(clients, "clients", stream(0, "division"))
    assert not set(clients[train]) & set(clients[test])
    assert len(set(clients[test])) == 2
    assert not np.array_equal(test, divide(clients, "clients", stream(1, "division"))[1])


# Refusals


@pytest.mark.parametrize(
    ("change", "asked", "message"),
    [
        (None, {}, r"say which column of table.csv is the label, by --label: it has age, sex, clinic, ill\."),
        (None, {"label": "il"}, "unknown label column 'il': did you mean 'ill'\\? table.csv has age, sex"),
        (None, {"label": "ill", "client": "clinc"}, "did you mean 'clinic'"),
        (None, {"label": "ill", "ignore": "age, nme"}, "unknown ignored column 'nme'"),
        (None, {"label": "ill", "client": "ill"}, "column 'ill' is the label"),
        (None, {"label": "ill", "ignore": "age,sex,clinic"}, "no column left to learn from"),
        (None, {"label": "ill", "test": "clients"}, "say which column is the client"),
        (lambda text: "", {"label": "ill"}, "table.csv is empty"),
        (lambda text: text.splitlines()[0] + "\n", {"label": "ill"}, "table.csv has no rows"),
        (lambda text: text.replace("yes", "", 1), {"label": "ill"}, "label 'ill' is missing in 1 of 8 rows"),
        (lambda text: text.replace("north", "", 1), {"label": "ill", "client": "clinic"}, "client 'clinic' is missing in 1"),
        (lambda text: text.replace("50,f", "50,f,7,8,9"), {"label": "ill"}, "table.csv cannot be read"),
        (lambda text: text.replace("yes", "no"), {"label": "ill"}, "label 'ill' is no in every row"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used(table, change, asked, message):
    if change:
        table.write_text(change(TABLE))
    with pytest.raises(BadInput, match=message) as caught:
        data.load(own_data(table, **asked))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.csv", None, "there is no file .*gone.csv"),
        ("table.doc", b"x", "of no kind that can be read: give a name that ends in .csv, .tsv, .parquet"),
        ("table.parquet", b"no parquet", "table.parquet cannot be read"),
        ("table.npz", b"no npz", "table.npz cannot be read"),
        ("table.csv", b"\xff\xfe\x00\x01,\x99\n\xff,\xff\n", "table.csv cannot be read"),
        ("table.csv", gzip.compress(TABLE.encode(), mtime=0)[:-20], "table.csv is damaged"),
        ("rows.libsvm", b"1 2:x\n", "rows.libsvm cannot be read"),
        ("rows.libsvm", b"\n", "has no rows"),
        ("picture", "empty folder", "there are no images in"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    if content == "empty folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        data.load(own_data(path, "ill"))


@pytest.mark.parametrize(
    ("arrays", "asked", "message"),
    [
        ({"x": np.zeros((4, 2)), "y": np.arange(3)}, {"label": "y"}, r"different lengths \(x 4, y 3\)"),
        ({"x": np.zeros((0, 2)), "y": np.arange(0)}, {"label": "y"}, "has no rows"),
        ({"x": np.zeros((4, 2)), "y": np.zeros((4, 2))}, {"label": "y"}, "one value a sample"),
        ({"x": np.zeros((4, 2, 2)), "z": np.zeros(4), "y": np.arange(4) % 2}, {"label": "y"}, "ignore z"),
        ({"x": np.zeros((4, 2, 2, 2, 2)), "y": np.arange(4) % 2}, {"label": "y"}, "have shape"),
        ({"x": np.full((4, 2, 2), np.nan), "y": np.arange(4) % 2}, {"label": "y"}, "no numbers"),
    ],
)
def test_arrays_that_cannot_be_used(arrays, asked, message):
    with pytest.raises(BadInput, match=message):
        own_data(arrays, **asked)


def test_folders_that_cannot_be_read(tmp_path):
    folder = write_folder(tmp_path / "images")
    (folder / "c0" / "l0" / "00.png").write_bytes(b"no image")
    with pytest.raises(BadInput, match=r"00.png is not an image that can be read"):
        own_data(folder)
    Image.new("L", (9, 9)).save(folder / "c0" / "l0" / "00.png")
    with pytest.raises(BadInput, match="images differ in size, as 5 x 4 and 9 x 9"):
        own_data(folder)
    Image.new("L", (4, 5)).save(folder / "lost.png")
    with pytest.raises(BadInput, match="lie at different depths"):
        own_data(folder)
    (folder / "metadata.csv").write_text("file_name,label\nno.png,1\n")
    with pytest.raises(BadInput, match=r"names 1 files that are not there, as no\.png"):
        own_data(folder)
    (folder / "metadata.csv").write_text("file,label\nno.png,1\n")
    with pytest.raises(BadInput, match="has no column file_name"):
        own_data(folder)


def test_too_few_rows_to_divide(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text("x,y\n1,0\n2,1\n3,0\n")
    with pytest.raises(BadInput, match="no client has 4 rows or more"):
        data.load(own_data(path, "y"))
    with pytest.raises(BadInput, match="needs two or more of them"):
        divide(np.zeros(9), "clients", stream(0, "division"))


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("table.csv", "pandas", "tables"), ("table.parquet", "pandas", "tables"), ("images", "PIL", "images")],
)
def test_a_missing_extra_is_named(tmp_path, table, monkeypatch, name, module, extra):
    write_folder(tmp_path / "images")
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=rf"pip install 'noniid\[{extra}\]'"):
        own_data(tmp_path / name, "label")
