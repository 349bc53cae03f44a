from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from noniid.data import Dataset, Samples, SparseRows


@pytest.fixture
def sparse() -> tuple[SparseRows, torch.Tensor]:
    dense = np.random.default_rng(0).random((7, 11)).astype(np.float32)
    dense[dense < 0.7] = 0
    dense[3] = 0
    dense[6, 10] = 5
    return SparseRows.of(scipy.sparse.csr_matrix(dense)), torch.from_numpy(dense)


@pytest.mark.parametrize("index", [[0], [6, 3, 3, 0], [3], [], [-1, 2], list(range(7))])
def test_sparse_rows_gather_and_take(sparse, index):
    rows, dense = sparse
    chosen = torch.tensor(index, dtype=torch.int64)
    assert torch.equal(rows.gather(chosen), dense[chosen])
    taken = rows.take(chosen)
    assert taken.shape == (len(index), 11)
    assert torch.equal(taken.gather(torch.arange(len(index))), dense[chosen])


def test_bytes_become_floats_between_0_and_1():
    x = torch.arange(256, dtype=torch.uint8).reshape(4, 1, 8, 8)
    samples = Samples(x, torch.zeros(4, dtype=torch.int64), scale=255.0)
    batch = samples.batch(torch.tensor([3, 0]))
    assert batch.dtype == torch.float32
    assert torch.equal(batch, x[[3, 0]].to(torch.float32) / 255)
    assert x[0, 0, 0, 1] == 1  # the samples themselves stay as they were


def test_a_batch_of_a_table_is_a_copy():
    samples = Samples(torch.ones(3, 2), torch.zeros(3, dtype=torch.int64))
    samples.batch(torch.tensor([1])).zero_()
    assert samples.x.sum() == 6


def test_take_keeps_order_and_scale(sparse):
    rows, dense = sparse
    index = torch.tensor([5, 1])
    for x in (dense, rows):
        taken = Samples(x, torch.arange(7), scale=2.0).take(index)
        assert (len(taken), taken.scale, taken.y.tolist()) == (2, 2.0, [5, 1])
        got = taken.x.gather(torch.arange(2)) if isinstance(taken.x, SparseRows) else taken.x
        assert torch.equal(got, dense[index])


def test_columns_go_with_their_samples():
    writer = np.array(["ann", "bob", "ann"])
    samples = Samples(torch.ones(3, 2), torch.arange(3), columns={"writer": writer})
    taken = samples.take(torch.tensor([2, 1]))
    assert taken.columns["writer"].tolist() == ["ann", "bob"] and taken.y.tolist() == [2, 1]


def test_input_shape(sparse):
    rows, _ = sparse
    samples = Samples(rows, torch.zeros(7, dtype=torch.int64))
    assert Dataset("x", samples, samples, 2, "").input_shape == (11,)
