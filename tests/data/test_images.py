from __future__ import annotations

import gzip
import io
import tarfile

import numpy as np
import pytest
import scipy.io
import torch

from noniid.data import images
from noniid.errors import BadInput

RNG = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def idx_set(folder, suffix="", pack=bytes, num=(6, 4)):
    """The four files and what is in them."""
    paths, held = [], []
    for part, n in zip(("train", "t10k"), num, strict=True):
        for kind, array in (
            ("images-idx3-ubyte", RNG.integers(0, 256, (n, 28, 28))),
            ("labels-idx1-ubyte", RNG.integers(0, 10, n)),
        ):
            path = folder / f"{part}-{kind}{suffix}"
            path.write_bytes(pack(idx(array)))
            paths.append(path)
            held.append(array)
    return paths, held


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".gz", bytes)])
def test_idx(tmp_path, suffix, pack):
    paths, (x, y, test_x, test_y) = idx_set(tmp_path, suffix, pack)
    train, test = images.read_idx_set(paths)
    assert train.x.dtype == torch.uint8
    assert train.x.shape == (6, 1, 28, 28)
    assert np.array_equal(train.x[:, 0].numpy(), x)
    assert np.array_equal(test.x[:, 0].numpy(), test_x)
    assert (train.y.tolist(), test.y.tolist()) == (y.tolist(), test_y.tolist())
    assert train.scale == 255


GOOD = idx(np.zeros((3, 2, 2)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GOOD[:3],
        GOOD[:10],
        GOOD[:-1],
        GOOD + b"\0",
        b"\0\0\x0d" + GOOD[3:],  # floats
        b"<html>not found</html>",
        gzip.compress(GOOD, mtime=0)[:-9],
        gzip.compress(GOOD, mtime=0)[:12],
        gzip.compress(GOOD, mtime=0)[:-8] + b"\0" * 8,  # wrong checksum
    ],
)
def test_damaged_idx(tmp_path, content):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"train-images-idx3-ubyte is damaged or not the right file"):
        images.read_idx(path)


def test_idx_files_that_do_not_belong_together(tmp_path):
    paths, _ = idx_set(tmp_path)
    with pytest.raises(BadInput, match="t10k-labels"):
        images.idx_samples(paths[0], paths[3])
    with pytest.raises(BadInput, match="labels"):
        images.idx_samples(paths[1], paths[1])
    paths[1].write_bytes(idx(np.full(6, 10)))
    with pytest.raises(BadInput, match="labels go from 10 to 10"):
        images.idx_samples(paths[0], paths[1])


def cifar_parts(n=3):
    return [RNG.integers(0, 10, (n + i, 1)) for i in range(6)], [
        RNG.integers(0, 256, (n + i, 3, 32, 32)) for i in range(6)
    ]


def cifar_bytes(y, x):
    return np.concatenate([y, x.reshape(len(x), -1)], 1).astype(np.uint8).tobytes()


def cifar_folder(folder, labels, pixels):
    for name, y, x in zip(images.CIFAR_NAMES, labels, pixels, strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(cifar_bytes(y, x))
    return [folder / name for name in images.CIFAR_NAMES]


def cifar_archive(path, labels, pixels, names=images.CIFAR_NAMES):
    with tarfile.open(path, "w:gz") as archive:
        for name, y, x in zip(names, labels, pixels, strict=False):
            member = tarfile.TarInfo(name)
            content = cifar_bytes(y, x)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_cifar_folder_and_archive_hold_the_same(tmp_path):
    labels, pixels = cifar_parts()
    folder = images.read_cifar_folder(cifar_folder(tmp_path, labels, pixels))
    archive = images.read_cifar_archive([cifar_archive(tmp_path / "a.tar.gz", labels, pixels)])
    for train, test in (folder, archive):
        assert np.array_equal(train.x.numpy(), np.concatenate(pixels[:5]))
        assert np.array_equal(train.y.numpy(), np.concatenate(labels[:5])[:, 0])
        assert np.array_equal(test.x.numpy(), pixels[5])
        assert np.array_equal(test.y.numpy(), labels[5][:, 0])


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"\x0a" + b[1:]])
def test_damaged_cifar_folder(tmp_path, damage):
    paths = cifar_folder(tmp_path, *cifar_parts())
    paths[2].write_bytes(damage(paths[2].read_bytes()))
    with pytest.raises(BadInput, match=r"data_batch_3\.bin"):
        images.read_cifar_folder(paths)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_cifar_archive(tmp_path, share):
    path = cifar_archive(tmp_path / "cifar-10-binary.tar.gz", *cifar_parts())
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(BadInput, match=r"cifar-10-binary\.tar\.gz"):
        images.read_cifar_archive([path])


def test_cifar_archive_without_one_of_its_files(tmp_path):
    path = cifar_archive(tmp_path / "a.tar.gz", *cifar_parts(), names=images.CIFAR_NAMES[:5])
    with pytest.raises(BadInput, match=r"a\.tar\.gz .*test_batch\.bin"):
        images.read_cifar_archive([path])


def test_svhn(tmp_path):
    x = RNG.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    y = np.array([[1], [10], [9], [10], [2]], np.uint8)
    scipy.io.savemat(tmp_path / "train_32x32.mat", {"X": x, "y": y}, do_compression=True)
    scipy.io.savemat(tmp_path / "test_32x32.mat", {"X": x[..., :2], "y": y[:2]})
    train, test = images.read_svhn_set([tmp_path / "train_32x32.mat", tmp_path / "test_32x32.mat"])
    assert train.y.tolist() == [1, 0, 9, 0, 2]
    assert (train.x.shape, test.x.shape) == ((5, 3, 32, 32), (2, 3, 32, 32))
    assert train.x[3, 2, 7, 11] == x[7, 11, 2, 3]


@pytest.mark.parametrize(
    "held",
    [
        {"X": np.zeros((32, 32, 3, 2), np.uint8)},
        {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((3, 1))},
        {"X": np.zeros((2, 3, 32, 32), np.uint8), "y": np.ones((2, 1))},
        {"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))},
        {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.zeros((2, 1))},
    ],
)
def test_wrong_svhn(tmp_path, held):
    path = tmp_path / "train_32x32.mat"
    scipy.io.savemat(path, held)
    with pytest.raises(BadInput, match=r"train_32x32\.mat is damaged"):
        images.read_svhn(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95])
@pytest.mark.parametrize("compressed", [True, False])
def test_truncated_svhn(tmp_path, share, compressed):
    path = tmp_path / "test_32x32.mat"
    x = RNG.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    scipy.io.savemat(path, {"X": x, "y": np.ones((5, 1))}, do_compression=compressed)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(BadInput, match=r"test_32x32\.mat is damaged"):
        images.read_svhn(path)


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    whole = load_digits()
    train, test = images.read_digits(images.digits_file())
    assert len(train) + len(test) == len(whole.target)
    assert (torch.bincount(test.y) == torch.bincount(torch.from_numpy(whole.target)) // 5).all()
    seen = {row.tobytes() for part in (train, test) for row in part.x.numpy()}
    assert seen == {row.astype(np.uint8).tobytes() for row in whole.images}
    assert (train.x.max(), train.scale) == (16, 16.0)
    assert train.batch(torch.arange(9)).max() <= 1


@pytest.mark.parametrize("text", ["", "1,2,3\n", ",".join(["17"] * 65), ",".join(["x"] * 65)])
def test_damaged_digits(tmp_path, text):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    with pytest.raises(BadInput, match=r"digits\.csv\.gz is damaged"):
        images.read_digits(path)
