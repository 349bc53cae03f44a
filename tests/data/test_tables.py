from __future__ import annotations

import bz2
import gzip

import numpy as np
import pytest
import torch

from noniid.data import SparseRows, tables
from noniid.errors import BadInput

A9A = b"-1 3:1 11:1 123:1 \n+1 1:1 4:1\n-1 7:1 \n"


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
def test_a9a(tmp_path, pack):
    train, test = tmp_path / "a9a", tmp_path / "a9a.t"
    train.write_bytes(pack(A9A))
    test.write_bytes(pack(b"+1 122:1 \n"))
    train, test = tables.read_a9a([train, test])
    assert (train.x.shape, test.x.shape) == ((3, 123), (1, 123))  # though the test file never mentions 123
    assert train.x.dtype == torch.float32
    assert (train.y.tolist(), test.y.tolist()) == ([0, 1, 0], [1])
    assert train.x[0].nonzero().flatten().tolist() == [2, 10, 122]


def test_rcv1_stays_sparse(tmp_path):
    path = tmp_path / "rcv1_train.binary.bz2"
    path.write_bytes(bz2.compress(b"-1 2:0.25 47236:0.5\n1 1:0.125\n1\n"))
    samples = tables.read_rcv1([path])
    assert isinstance(samples.x, SparseRows)
    assert samples.x.shape == (3, 47_236)
    assert samples.y.tolist() == [0, 1, 1]
    dense = samples.batch(torch.tensor([1, 0]))
    assert dense[0].nonzero().flatten().tolist() == [0]
    assert dense[1, [1, 47_235]].tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        A9A[:-4],  # cut off inside a row
        A9A.replace(b"123:", b"124:"),
        A9A.replace(b"3:1 11", b"0:1 11"),
        A9A.replace(b"+1", b"+2"),
        A9A.replace(b"4:1", b"4:x"),
        A9A.replace(b"4:1", b"4"),
        A9A.replace(b"1:1 4:1", b"4:1 1:1"),
        b"39, State-gov, 77516\n",
        bz2.compress(A9A)[:-5],
        gzip.compress(A9A, mtime=0)[:-5],
        bz2.compress(A9A)[:20] + b"\0" + bz2.compress(A9A)[21:],
    ],
)
def test_damaged_libsvm(tmp_path, content):
    path = tmp_path / "a9a"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"a9a is damaged or not the right file"):
        tables.read_libsvm(path, 123, {-1: 0, 1: 1})


def covtype_rows(types, rng):
    rows = np.zeros((len(types), 55), int)
    rows[:, :10] = rng.integers(-170, 7000, (len(types), 10))
    rows[np.arange(len(types)), rng.integers(10, 14, len(types))] = 1
    rows[np.arange(len(types)), rng.integers(14, 54, len(types))] = 1
    rows[:, 54] = types
    return rows


def csv(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda b: b.replace(b"\n", b"\r\n")])
@pytest.mark.parametrize("block", [1, 100, 1000, 4 << 20])
def test_uci_covtype(tmp_path, monkeypatch, pack, block):
    monkeypatch.setattr(tables, "_BLOCK", block)
    rows = covtype_rows([5, 2, 7, 2, 1, 3], np.random.default_rng(0))
    path = tmp_path / "covtype.data"
    path.write_bytes(pack(csv(rows)))
    samples = tables.read_covtype_uci([path])
    low, high = rows[:, :54].min(0), rows[:, :54].max(0)
    expected = (rows[:, :54] - low) / np.where(high > low, high - low, 1)
    assert samples.x.dtype == torch.float32
    assert np.allclose(samples.x.numpy(), expected, atol=1e-6)
    assert samples.y.tolist() == [0, 1, 0, 1, 0, 0]


def test_libsvm_covtype_scaled_or_not_equals_ucis(tmp_path):
    rows = covtype_rows([5, 2, 7, 2, 1, 3], np.random.default_rng(1))
    (tmp_path / "covtype.data").write_bytes(csv(rows))
    uci = tables.read_covtype_uci([tmp_path / "covtype.data"])
    for name, values in (("raw", rows[:, :54]), ("scaled", uci.x.numpy().astype(float))):
        lines = [
            f"{2 if row[54] == 2 else 1} " + " ".join(f"{j + 1}:{v:.9g}" for j, v in enumerate(x) if v)
            for row, x in zip(rows, values, strict=True)
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        read = tables.read_covtype_libsvm([tmp_path / name])
        assert torch.equal(read.y, uci.y)
        assert torch.allclose(read.x, uci.x, atol=1e-6)


ROWS = csv(covtype_rows([5, 2, 7], np.random.default_rng(2)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        ROWS[:-1],
        ROWS[:-40],
        ROWS.replace(b",5\n", b",8\n"),
        ROWS.replace(b",5\n", b",0\n"),
        ROWS.replace(b",5\n", b"\n"),
        ROWS.replace(b",5\n", b",5,5\n"),
        ROWS.replace(b",5\n", b",5").replace(b",2\n", b"\n2\n"),
        ROWS.replace(b",5\n", b",five\n"),
        ROWS.replace(b",5\n", b",5.0\n"),
        ROWS.replace(b",5\n", b",-\n"),
        ROWS.replace(b",5\n", b",,5\n"),
        b"Elevation,Aspect\n" + ROWS,
        b"\0" + ROWS,
        gzip.compress(ROWS, mtime=0)[:-10],
    ],
)
def test_damaged_uci_covtype(tmp_path, content):
    path = tmp_path / "covtype.data"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"covtype\.data is damaged or not the right file"):
        tables.read_covtype_uci([path])
