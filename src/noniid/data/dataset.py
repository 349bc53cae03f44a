"""What `load` gives: whole tensors, images as bytes, and a gather that makes float batches of them.

Shapes: n samples, d features, c channels, h and w pixels, B batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A table that is nearly all zeros, kept as compressed rows; only a batch is ever made dense."""

    indptr: Tensor  # int64 [n+1]: row i owns the entries indptr[i] to indptr[i+1]
    columns: Tensor  # int64 [entries]
    values: Tensor  # float32 [entries]
    width: int

    @classmethod
    def of(cls, csr: Any) -> SparseRows:
        """From a scipy CSR matrix or array."""
        return cls(
            torch.as_tensor(csr.indptr, dtype=torch.int64),
            torch.as_tensor(csr.indices, dtype=torch.int64),
            torch.as_tensor(csr.data, dtype=torch.float32),
            int(csr.shape[1]),
        )

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), self.width))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def gather(self, index: Tensor) -> Tensor:
        """These rows, dense: float32 [B, d]."""
        counts, entries = self._entries(index)
        rows = torch.repeat_interleave(torch.arange(len(index), device=index.device), counts)
        dense = torch.zeros(len(index), self.width, device=index.device)
        dense.view(-1)[rows * self.width + self.columns[entries]] = self.values[entries]
        return dense

    def take(self, index: Tensor) -> SparseRows:
        """These rows, still sparse."""
        counts, entries = self._entries(index)
        return SparseRows(_indptr(counts), self.columns[entries], self.values[entries], self.width)

    def _entries(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """How many entries each of these rows has, and where all of them lie, row after row."""
        index = torch.where(index < 0, index + len(self), index)
        first = self.indptr[index]
        counts = self.indptr[index + 1] - first
        before = _indptr(counts)
        shift = torch.repeat_interleave(first - before[:-1], counts)
        return counts, shift + torch.arange(len(shift), device=index.device)


def _indptr(counts: Tensor) -> Tensor:
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels, all in memory."""

    x: Tensor | SparseRows  # images uint8 [n, c, h, w]; tables float32 [n, d]
    y: Tensor  # int64 [n]
    scale: float = 1.0  # what an integer pixel is divided by: 255 for bytes, 16 for the digits
    # What else is known of each sample, [n] each: its writer, its hospital, ...
    columns: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, index: Tensor) -> Tensor:
        """The inputs of these samples as the model sees them: float32 [B, ...]."""
        if isinstance(self.x, SparseRows):
            return self.x.gather(index)
        # Gathered as bytes, a quarter of the memory; they become floats in the one pass that divides them.
        x = self.x.index_select(0, index)
        return x.to(torch.float32) if self.scale == 1.0 else torch.div(x, self.scale)

    def take(self, index: Tensor) -> Samples:
        """These samples, in this order, as a set of their own."""
        x = self.x.take(index) if isinstance(self.x, SparseRows) else self.x[index]
        columns = {name: values[index.numpy()] for name, values in self.columns.items()}
        return Samples(x, self.y[index], self.scale, columns)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, divided into what clients train on and what the model is tested on."""

    name: str
    train: Samples
    test: Samples
    num_classes: int
    checksum: str  # of inputs and labels before any division: equal whatever the files were wrapped in

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, without the batch.

        >>> from noniid.data import load
        >>> load("digits").input_shape
        (1, 8, 8)
        """
        return tuple(self.train.x.shape[1:])
