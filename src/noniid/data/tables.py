"""Tables: LIBSVM text (a9a, rcv1, covtype) and UCI's covtype. UCI's adult has a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noniid.data.dataset import Samples, SparseRows
from noniid.data.files import damaged, opened
from noniid.errors import BadInput

ADULT_WIDTH, RCV1_WIDTH, COVTYPE_WIDTH = 123, 47_236, 54
_COVTYPE_ROW = COVTYPE_WIDTH + 1
_BLOCK = 4 << 20  # bytes of text parsed at a time: enough to be fast, little beside the table itself


def read_libsvm(path: Path, width: int, labels: dict[int, int]) -> tuple[Any, np.ndarray]:
    """(CSR matrix float32 [n, width], classes int64 [n]) of `label column:value ...` lines, columns from 1.

    `labels` says which class each label in the file stands for; any other label is an error.
    """
    from sklearn.datasets import load_svmlight_file

    with opened(path) as stream:
        try:
            options: dict[str, Any] = {"n_features": width, "dtype": np.float32, "zero_based": False}
            x, y = load_svmlight_file(_Whole(stream, path), **options)
        except BadInput:
            raise
        except (ValueError, OverflowError, IndexError) as error:
            raise damaged(path, str(error)) from None
    if not len(y):
        raise damaged(path, "it has no rows")
    if x.nnz and x.indices.min() < 0:
        raise damaged(path, "columns count from 1")
    unknown = set(np.unique(y).tolist()) - {float(label) for label in labels}
    if unknown:
        raise damaged(path, f"labels are {sorted(labels)}, not {sorted(unknown)}")
    classes = np.zeros(len(y), np.int64)
    for label, cls in labels.items():
        classes[y == label] = cls
    return x, classes


class _Whole:
    """A stream of lines that must end with a line break: without one the last row may be cut off inside a
    number, and would still parse."""

    def __init__(self, stream: Any, path: Path):
        self._stream, self._path = stream, path

    def __iter__(self) -> Any:
        line = b"\n"
        for line in self._stream:
            yield line
        if not line.endswith(b"\n"):
            raise damaged(self._path, "its last line is cut off")

    def read(self) -> bytes:  # scikit-learn takes anything with a read method, and iterates
        return b"".join(self)


def _dense(x: Any, y: np.ndarray) -> Samples:
    return Samples(torch.from_numpy(x.toarray()), torch.from_numpy(y))


def read_a9a(paths: Sequence[Path]) -> tuple[Samples, Samples]:
    """a9a and a9a.t; the test file never mentions column 123, which is all zeros there."""
    train, test = (_dense(*read_libsvm(path, ADULT_WIDTH, {-1: 0, 1: 1})) for path in paths)
    return train, test


def read_rcv1(paths: Sequence[Path]) -> Samples:
    """All rows of rcv1_train.binary, sparse: dense they would fill 3.8 GB."""
    x, y = read_libsvm(paths[0], RCV1_WIDTH, {-1: 0, 1: 1})
    return Samples(SparseRows.of(x), torch.from_numpy(y))


def read_covtype_libsvm(paths: Sequence[Path]) -> Samples:
    """LIBSVM's two-class covtype, scaled or not: label 1 is class 0, label 2 (lodgepole pine) is class 1."""
    x, y = read_libsvm(paths[0], COVTYPE_WIDTH, {1: 0, 2: 1})
    return Samples(_to_unit_interval(torch.from_numpy(x.toarray())), torch.from_numpy(y))


def read_covtype_uci(paths: Sequence[Path]) -> Samples:
    """UCI's covtype: cover type 2 (lodgepole pine) is class 1, the six others are class 0."""
    (path,) = paths
    blocks, classes = [], []
    for block in _whole_lines(path):
        rows = _covtype_rows(block, path)
        blocks.append(torch.from_numpy(rows[:, :COVTYPE_WIDTH].astype(np.float32)))
        classes.append(rows[:, COVTYPE_WIDTH] == 2)
    if not blocks:
        raise damaged(path, "it has no rows")
    return Samples(_to_unit_interval(torch.cat(blocks)), torch.from_numpy(np.concatenate(classes).astype(np.int64)))


def _whole_lines(path: Path) -> Any:
    rest = b""
    with opened(path) as stream:
        while block := stream.read(_BLOCK):
            complete, line_break, rest = (rest + block).rpartition(b"\n")
            if line_break and complete.strip():
                yield complete.strip()
    if rest.strip():
        raise damaged(path, "its last line is cut off")


def _covtype_rows(block: bytes, path: Path) -> np.ndarray:
    """int32 [rows, 55]. Every row names exactly one of 4 areas, one of 40 soils and a type from 1 to 7, so a
    value too many or too few anywhere shows."""
    num_rows = block.count(b"\n") + 1
    flat = block.replace(b"\r", b"").replace(b"\n", b",")
    if flat.strip(b"0123456789,-"):
        raise damaged(path, "it holds something other than whole numbers")
    # numpy's own parser: forty times the speed of loadtxt. It stops at what it cannot read; the counts tell.
    values = _parse_integers(flat, path)
    if values.size != num_rows * _COVTYPE_ROW:
        raise damaged(path, f"a row is {_COVTYPE_ROW} whole numbers")
    rows = values.reshape(num_rows, _COVTYPE_ROW)
    flags, types = rows[:, 10:COVTYPE_WIDTH], rows[:, COVTYPE_WIDTH]
    one_each = (flags[:, :4].sum(1) == 1) & (flags[:, 4:].sum(1) == 1) & (flags.min(1) == 0) & (flags.max(1) == 1)
    if not (one_each & (types >= 1) & (types <= 7)).all():
        raise damaged(path, "a row names one wilderness area, one soil type and a cover type from 1 to 7")
    return rows


def _parse_integers(flat: bytes, path: Path) -> np.ndarray:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(flat, np.int32, sep=",")  # type: ignore[call-overload]
        except (DeprecationWarning, ValueError):
            raise damaged(path, f"a row is {_COVTYPE_ROW} whole numbers between commas") from None


def _to_unit_interval(x: torch.Tensor) -> torch.Tensor:
    """Each column to [0, 1] over all rows, in place. On a file scaled already this changes nothing."""
    low, high = x.amin(0), x.amax(0)
    spread = torch.where(high > low, high - low, torch.ones_like(low))
    return x.sub_(low).div_(spread)
