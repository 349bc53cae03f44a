"""The real files, where they are in the cache; nothing is fetched."""

from __future__ import annotations

import pytest
import torch

from noniid.data import CATALOGUE, adult, info, listing, load
from noniid.data.files import cache_dir

HERE = [row.name for row in listing() if row.here]
FILES = [name for name in HERE if any(layout.files for layout in CATALOGUE[name].layouts)]


def counts(samples):
    return torch.bincount(samples.y).tolist()


@pytest.mark.parametrize("name", ["mnist", "fmnist", "cifar10", "svhn", "adult", "rcv1", "covtype"])
def test_sizes_and_ranges(name):
    if name not in HERE:
        pytest.skip(f"{name} is not in {cache_dir()}")
    entry, dataset = CATALOGUE[name], load(name)
    for samples, num in ((dataset.train, entry.num_train), (dataset.test, entry.num_test)):
        batch = samples.batch(torch.arange(0, num, max(num // 100, 1)))
        assert len(samples) == num
        assert len(counts(samples)) == entry.num_classes
        assert batch.shape[1:] == entry.shape
        assert batch.min() >= 0
        assert batch.max() <= 1


@pytest.mark.parametrize("name", ["mnist", "fmnist", "cifar10"])
def test_image_classes(name):
    if name not in HERE:
        pytest.skip(f"{name} is not in {cache_dir()}")
    dataset = load(name)
    if name == "mnist":
        assert counts(dataset.train) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert counts(dataset.test) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    else:
        assert set(counts(dataset.test)) == {1000}
        assert len(set(counts(dataset.train))) == 1


@pytest.mark.skipif("svhn" not in HERE, reason="svhn is not in the cache")
def test_svhn_classes():
    shares = torch.bincount(load("svhn").test.y) / 26_032
    assert shares[[1, 3, 0]].tolist() == pytest.approx([0.1959, 0.1107, 0.0670], abs=5e-5)


@pytest.mark.skipif("adult" not in HERE, reason="adult is not in the cache")
def test_adult_is_a9a():
    dataset = load("adult")
    assert counts(dataset.train) == [24_720, 7_841]
    assert counts(dataset.test) == [12_435, 3_846]  # 76.38 and 23.62 %
    assert dataset.train.x.unique().tolist() == [0, 1]
    assert dataset.train.x.sum() == 451_592  # the number of ones in a9a
    first = [2, 10, 13, 18, 38, 41, 54, 63, 66, 72, 74, 75, 79, 82]
    assert dataset.train.x[0].nonzero().flatten().tolist() == first
    assert (dataset.train.x.sum(0) > 0).all()
    assert dataset.test.x[:, 122].sum() == 0  # which is why a9a.t has 122 columns


@pytest.mark.skipif(not (cache_dir() / "adult" / "adult.data").is_file(), reason="adult.data is not in the cache")
def test_adult_cuts():
    table = adult._read(cache_dir() / "adult" / "adult.data")
    cuts = {name: adult.field_cuts(table[name], how) for name, how in adult.FIELDS if how == adult._QUINTILES}
    assert cuts["age"] == [26, 33, 41, 50]
    assert cuts["education-num"] == [9, 10, 11, 13]
    assert cuts["hours-per-week"] == [35, 40, 41, 48]
    assert cuts["fnlwgt"] == [106_648, 158_662, 196_338, 259_873]


@pytest.mark.skipif("covtype" not in HERE, reason="covtype is not in the cache")
def test_covtype_classes():
    dataset = load("covtype")
    both = [a + b for a, b in zip(counts(dataset.train), counts(dataset.test), strict=True)]
    assert both == [297_711, 283_301]  # 51.24 and 48.76 %


@pytest.mark.parametrize("name", FILES)
def test_files_are_the_published_ones(name):
    told = info(name)
    assert "NOT" not in told["files"]
    assert "counts" in " ".join(told)
