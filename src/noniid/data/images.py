"""Image files: IDX (MNIST and its family), CIFAR-10's binary records, SVHN's .mat, and scikit-learn's digits.

Nothing here opens a pickle: CIFAR-10 comes from its binary archive.
"""

from __future__ import annotations

import importlib.util
import math
import tarfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from noniid.data.dataset import Samples
from noniid.data.files import damaged, read_bytes
from noniid.errors import BadInput

_CIFAR_RECORD = 1 + 3 * 32 * 32  # label, then the red, green and blue planes
_CIFAR_FOLDER = "cifar-10-batches-bin"
CIFAR_NAMES = (
    *(f"{_CIFAR_FOLDER}/data_batch_{i}.bin" for i in range(1, 6)),
    f"{_CIFAR_FOLDER}/test_batch.bin",
)


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes: 0, 0, 8, number of dimensions, each of them as a big-endian int32, the data."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not 1 <= content[3] <= 4:
        raise damaged(path, "it does not begin like an IDX file of bytes")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise damaged(path, "its header is cut off")
    shape = [int(size) for size in np.frombuffer(content[4:start], ">i4")]
    if min(shape) < 0 or len(content) - start != math.prod(shape):
        raise damaged(path, f"{len(content) - start:,} bytes do not fill the shape {shape} of its header")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def idx_samples(images: Path, labels: Path, num_classes: int = 10) -> Samples:
    x, y = read_idx(images), read_idx(labels)
    if x.ndim != 3:
        raise damaged(images, f"images have 3 dimensions, not {x.ndim}")
    if y.shape != x.shape[:1]:
        raise damaged(labels, f"{y.shape} labels do not belong to {len(x):,} images")
    return image_samples(x[:, None], y, labels, num_classes)


def image_samples(x: np.ndarray, y: np.ndarray, path: Path, num_classes: int, scale: float = 255.0) -> Samples:
    """Byte images and their labels as tensors of their own; `path` is named if a label is out of range."""
    if y.size and not 0 <= int(y.min()) <= int(y.max()) < num_classes:
        raise damaged(path, f"labels go from {y.min()} to {y.max()} instead of 0 to {num_classes - 1}")
    own = np.require(x, requirements=["C", "W"])  # a copy where x only looks into a file's bytes
    return Samples(torch.from_numpy(own), torch.from_numpy(y.astype(np.int64)), scale)


def read_idx_set(paths: Sequence[Path]) -> tuple[Samples, Samples]:
    """Train images, train labels, test images, test labels."""
    train, test = idx_samples(paths[0], paths[1]), idx_samples(paths[2], paths[3])
    if train.x.shape[1:] != test.x.shape[1:]:
        raise damaged(paths[2], "its images have another size than the training images")
    return train, test


def read_cifar_folder(paths: Sequence[Path]) -> tuple[Samples, Samples]:
    """Five training files, then the test file."""
    return _cifar([(path, path.name, read_bytes(path)) for path in paths])


def read_cifar_archive(paths: Sequence[Path]) -> tuple[Samples, Samples]:
    """The binary archive as it is published; its members are read, never unpacked to disk."""
    (path,) = paths
    parts: list[tuple[Path, str, bytes]] = []
    try:
        with tarfile.open(path) as archive:
            for name in CIFAR_NAMES:
                member = archive.extractfile(name)
                parts.append((path, name, member.read() if member else b""))
    except Exception as error:  # tar, gzip, zlib and a missing member each raise their own kind
        raise damaged(path, str(error).strip("'\"")) from None
    return _cifar(parts)


def _cifar(parts: list[tuple[Path, str, bytes]]) -> tuple[Samples, Samples]:
    records = [_cifar_records(*part) for part in parts]
    train, test = (
        image_samples(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], path, 10)
        for rows, path in ((np.concatenate(records[:-1]), parts[0][0].parent), (records[-1], parts[-1][0]))
    )
    return train, test


def _cifar_records(path: Path, name: str, content: bytes) -> np.ndarray:
    if not content or len(content) % _CIFAR_RECORD:
        raise damaged(path, f"{name} has {len(content):,} bytes, not a multiple of {_CIFAR_RECORD:,}")
    records = np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_RECORD)
    if records[:, 0].max() > 9:
        raise damaged(path, f"{name} has labels above 9")
    return records


def read_svhn(path: Path) -> Samples:
    """X is [h, w, c, n]; the digit 0 carries label 10."""
    import scipy.io

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            content = scipy.io.loadmat(path, variable_names=["X", "y"])
        x, y = content["X"], content["y"]
    except Exception as error:  # scipy raises a dozen kinds on damaged bytes; all mean the same here
        raise damaged(path, str(error).strip("'\"") or type(error).__name__) from None
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8 or y.shape != (x.shape[3], 1):
        raise damaged(path, f"X is {x.dtype} {x.shape} and y {y.shape}, not uint8 (32, 32, 3, n) and (n, 1)")
    if y.size and not 1 <= y.min() <= y.max() <= 10:
        raise damaged(path, f"labels go from {y.min()} to {y.max()} instead of 1 to 10")
    return image_samples(x.transpose(3, 2, 0, 1), y[:, 0] % 10, path, 10)


def read_svhn_set(paths: Sequence[Path]) -> tuple[Samples, Samples]:
    train, test = (read_svhn(path) for path in paths)
    return train, test


def digits_file() -> Path:
    """The file inside scikit-learn, found without importing scikit-learn (which takes a second)."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise BadInput("digits come with scikit-learn, which is not installed: pip install scikit-learn.")
    return Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"


def read_digits(path: Path) -> tuple[Samples, Samples]:
    """Rows of 64 pixels from 0 to 16 and a label; every fifth sample of each class is a test sample."""
    try:
        table = np.array([line.split(",") for line in read_bytes(path).decode().split()], np.float64)
    except ValueError as error:
        raise damaged(path, str(error)) from None
    if table.ndim != 2 or table.shape[1] != 65 or table[:, :64].min() < 0 or table[:, :64].max() > 16:
        raise damaged(path, "a row is 64 pixels from 0 to 16 and a label")
    y = table[:, 64].astype(np.int64)
    whole = image_samples(table[:, :64].astype(np.uint8).reshape(-1, 1, 8, 8), y, path, 10, scale=16.0)
    rank = np.empty(len(y), np.int64)  # how many of the same class came before
    for label in range(10):
        own = np.flatnonzero(y == label)
        rank[own] = np.arange(len(own))
    is_test = rank % 5 == 4
    train, test = (whole.take(torch.from_numpy(np.flatnonzero(chosen))) for chosen in (~is_test, is_test))
    return train, test
