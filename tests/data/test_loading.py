from __future__ import annotations

import dataclasses
import gzip
import shutil

import numpy as np
import pooch
import pytest
import torch

import noniid.data
from noniid import seeds
from noniid.data import CATALOGUE, fetch, info, is_drawn, listing, load
from noniid.errors import BadInput
from tests.data.test_images import cifar_archive, cifar_folder, cifar_parts, idx_set

WITH_FILES = [name for name, entry in CATALOGUE.items() if any(layout.files for layout in entry.layouts)]


def resize(monkeypatch, name, **sizes):
    """The catalogue says what a test's tiny files hold."""
    monkeypatch.setitem(CATALOGUE, name, dataclasses.replace(CATALOGUE[name], **sizes))


def test_unknown_name(cache):
    for call in (load, fetch, info, is_drawn):
        with pytest.raises(BadInput, match="did you mean 'mnist'"):
            call("mnits")


@pytest.mark.parametrize("name", WITH_FILES)
def test_without_network_one_sentence_says_what_to_put_where(cache, offline, name):
    with pytest.raises(BadInput) as caught:
        load(name)
    text = str(caught.value)
    first = next(file for layout in CATALOGUE[name].layouts for file in layout.files if file.urls)
    assert "no connection" in text
    assert f"put it into {cache / name}" in text
    assert first.name in text
    assert all(url in text for url in first.urls)
    assert "\n" not in text
    if name == "mnist":
        assert text.endswith(
            "likewise train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz."
        )
    assert offline[: len(first.urls)] == list(first.urls)


@pytest.mark.parametrize("name", WITH_FILES)
def test_every_set_can_be_downloaded(name):
    assert any(all(file.urls for file in layout.files) for layout in CATALOGUE[name].layouts)
    assert not any(
        url.endswith((".pkl", "python.tar.gz")) for x in CATALOGUE[name].layouts for f in x.files for url in f.urls
    )


def test_files_in_place_need_no_network(cache, offline, monkeypatch):
    (cache / "mnist").mkdir()
    resize(monkeypatch, "mnist", num_train=6, num_test=4)
    idx_set(cache / "mnist")
    raw = load("mnist")
    shutil.rmtree(cache / "mnist")
    (cache / "mnist").mkdir()
    idx_set(cache / "mnist", ".gz", gzip.compress)
    packed = load("mnist")
    assert (raw.name, raw.num_classes, raw.input_shape) == ("mnist", 10, (1, 28, 28))
    assert len(packed.train) == 6
    assert not offline


def test_wrapping_does_not_change_the_checksum(cache, monkeypatch):
    labels, pixels = cifar_parts()
    resize(monkeypatch, "cifar10", num_train=25, num_test=8)
    (cache / "cifar10").mkdir()
    cifar_folder(cache / "cifar10", labels, pixels)
    folder = load("cifar10").checksum
    shutil.rmtree(cache / "cifar10" / "cifar-10-batches-bin")
    cifar_archive(cache / "cifar10" / "cifar-10-binary.tar.gz", labels, pixels)
    assert load("cifar10").checksum == folder
    pixels[0][0, 0, 0, 0] ^= 1
    cifar_archive(cache / "cifar10" / "cifar-10-binary.tar.gz", labels, pixels)
    assert load("cifar10").checksum != folder


def test_wrong_number_of_samples(cache):
    (cache / "mnist").mkdir()
    idx_set(cache / "mnist")
    with pytest.raises(BadInput, match=r"mnist holds 6 \+ 4 samples .* has 60,000 \+ 10,000"):
        load("mnist")


def test_downloads_only_what_is_missing_and_tries_mirrors(cache, monkeypatch):
    source = cache / "elsewhere"
    source.mkdir()
    idx_set(source, ".gz", gzip.compress)
    (cache / "mnist").mkdir()
    shutil.copy(source / "t10k-labels-idx1-ubyte.gz", cache / "mnist")
    asked = []

    def retrieve(url, known_hash, fname, path, progressbar):
        asked.append((url, known_hash[:7], progressbar))
        if "ossci" in url:
            raise ValueError("the hash does not match")
        return shutil.copy(source / fname, path)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    resize(monkeypatch, "mnist", num_train=6, num_test=4)
    assert fetch("mnist", progress=False) == cache / "mnist"
    assert len(asked) == 6
    assert {kind for _, kind, _ in asked} == {"sha256:"}
    assert not any("t10k-labels" in url for url, _, _ in asked)
    assert len(load("mnist").train) == 6
    assert fetch("mnist") == cache / "mnist"
    assert len(asked) == 6


def test_wrong_checksum_is_told(cache, monkeypatch):
    def retrieve(*_, **__):
        raise ValueError("MD5 hash of downloaded file does not match")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(BadInput, match="wrong checksum"):
        fetch("svhn")


def test_an_unwritable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NONIID_DATA", str(tmp_path / "file"))
    with pytest.raises(BadInput, match=r"cannot write to .* set NONIID_DATA"):
        load("mnist")


def test_what_was_begun_is_completed(cache, offline):
    (cache / "adult").mkdir()
    (cache / "adult" / "adult.data").write_text("")
    with pytest.raises(BadInput, match=r"adult\.test"):
        load("adult")


def test_fcube(cache):
    cube = load("fcube", seeds.stream(3, "x"))
    assert (cube.train.x.shape, cube.test.x.shape) == ((4000, 3), (1000, 3))
    assert cube.train.x.dtype == torch.float32
    for samples in (cube.train, cube.test):
        assert torch.equal(samples.y, (samples.x[:, 0] <= 0).long())
    assert cube.train.y.tolist() == [0, 1] * 2000
    signs = cube.train.x[::2].sign().reshape(4, 500, 3)
    assert signs.unique(dim=1).squeeze(1).tolist() == [[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]]
    octants = cube.train.x[1::2].sign().reshape(4, 500, 3)
    assert torch.equal(octants[:, 0], -signs[:, 0])
    assert torch.equal(load("fcube", seeds.stream(3, "x")).train.x, cube.train.x)
    assert not torch.equal(load("fcube").train.x, cube.train.x)
    assert len(load("fcube", seeds.Published(0)).train) == 4000


@pytest.mark.parametrize("make", [lambda: seeds.stream(5, "division"), lambda: seeds.Published(5)])
def test_the_division_of_rows_is_drawn(cache, monkeypatch, make):
    (cache / "rcv1").mkdir()
    (cache / "rcv1" / "rcv1").write_text("".join(f"{(-1) ** i} {i + 1}:1\n" for i in range(11)))
    resize(monkeypatch, "rcv1", num_train=8, num_test=3)
    divided = load("rcv1", make())
    order = make().permutation(11)
    got = torch.cat([part.batch(torch.arange(len(part))).argmax(1) for part in (divided.train, divided.test)])
    assert np.array_equal(got.numpy(), order)
    assert torch.equal(torch.cat([divided.train.y, divided.test.y]), torch.from_numpy((order + 1) % 2))
    assert load("rcv1").checksum == divided.checksum  # of the rows, not of the draw


def test_is_drawn():
    assert [name for name in CATALOGUE if is_drawn(name)] == ["fcube", "rcv1", "covtype"]


def test_listing(cache):
    rows = {row.name: row for row in listing()}
    assert list(rows) == list(CATALOGUE)
    assert [name for name, row in rows.items() if row.here] == ["digits", "fcube"]
    assert rows["cifar10"][2:6] == (50_000, 10_000, "3 x 32 x 32", 10)


def test_info(cache, monkeypatch):
    absent = info("mnist")
    assert all(isinstance(value, str) for value in absent.values())
    assert "not here" in absent["files"]
    assert "train counts" not in absent
    (cache / "mnist").mkdir()
    idx_set(cache / "mnist")
    resize(monkeypatch, "mnist", num_train=6, num_test=4)
    present = info("mnist")
    assert "NOT the published bytes" in present["files"]
    assert present["train counts"].startswith("0: ")
    assert "folder" not in info("digits")
    assert info("digits")["checksum"] == load("digits").checksum


@pytest.mark.parametrize("name", ["digits", "fcube"])
def test_loads_from_nothing(cache, name):
    entry, dataset = CATALOGUE[name], load(name)
    assert (len(dataset.train), len(dataset.test)) == (entry.num_train, entry.num_test)
    assert dataset.train.batch(torch.tensor([0, 5])).shape == (2, *entry.shape)


def test_public_names():
    assert all(hasattr(noniid.data, name) for name in noniid.data.__all__)
