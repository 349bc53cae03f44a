"""A model as a vector.

Shapes: P = parameters, then buffers such as BatchNorm's statistics; C clients of a wave; N clients in all.
In every paper `w` is in R^d; so here a model is a row `[P]`, a wave of clients is `[C, P]`, and what all
clients remember is `[N, P]`. Aggregation is one product, a checkpoint is one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Slot:
    """Where one named tensor of a model lies in its row."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Names to slices of a row: trainable parameters first, then the rest."""

    slots: tuple[Slot, ...]
    num_trainable: int

    @property
    def size(self) -> int:
        return self.slots[-1].stop if self.slots else 0

    @classmethod
    def of(cls, model: nn.Module) -> Layout:
        """The layout of a model; frozen parameters and buffers follow the trainable part."""
        parameters = dict(model.named_parameters())
        trainable = {name: p for name, p in parameters.items() if p.requires_grad}
        rest = {name: p for name, p in parameters.items() if not p.requires_grad}
        rest |= dict(model.named_buffers())
        slots: list[Slot] = []
        start = 0
        for name, tensor in [*trainable.items(), *rest.items()]:
            slots.append(Slot(name, start, start + tensor.numel(), tuple(tensor.shape)))
            start += tensor.numel()
        return cls(tuple(slots), sum(p.numel() for p in trainable.values()))

    def norm_places(self, model: nn.Module, kept: Literal["average", "keep-statistics-local", "local"]) -> Tensor:
        """Where BatchNorm's values lie in a row that do not leave their client: none, its statistics, or all."""
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        norms = {name for name, part in model.named_modules() if isinstance(part, kinds)}  # pyright: ignore[reportUnknownVariableType]
        mine = [slot for slot in self.slots if slot.name.rpartition(".")[0] in norms]
        if kept == "keep-statistics-local":
            mine = [slot for slot in mine if slot.start >= self.num_trainable]
        places = [torch.arange(slot.start, slot.stop) for slot in mine]
        return torch.cat(places) if places and kept != "average" else torch.empty(0, dtype=torch.int64)

    def named(self, row: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Views of one row `[P]`, by name."""
        for slot in self.slots:
            yield slot.name, row[slot.start : slot.stop].view(slot.shape)

    def pack(self, model: nn.Module) -> Tensor:
        """A model's values as a new row. Counters (integer buffers) become floats, exact up to 2**24."""
        values = dict(model.named_parameters()) | dict(model.named_buffers())
        row = torch.empty(self.size)
        for name, view in self.named(row):
            view.copy_(values[name].detach())
        return row

    def unpack(self, row: Tensor, model: nn.Module) -> None:
        """Copy a row's values into a model."""
        values = dict(model.named_parameters()) | dict(model.named_buffers())
        with torch.no_grad():
            for name, view in self.named(row):
                values[name].copy_(view)

    def bind(self, model: nn.Module, row: Tensor, grad: Tensor) -> None:
        """Make the model's tensors views of `row`, its gradients of `grad`: one flat update moves all."""
        values = dict(model.named_parameters()) | dict(model.named_buffers())
        grads = dict(self.named(grad))
        with torch.no_grad():
            for slot, (name, view) in zip(self.slots, self.named(row), strict=True):
                # Through `data`, so that a tensor used in several places stays one tensor.
                values[name].data = view
                if slot.stop <= self.num_trainable:
                    values[name].grad = grads[name]


def weighted_mean(rows: Tensor, weights: Tensor) -> Tensor:
    """`[C, P]`, `[C]` -> `[P]`; the weights need not sum to one."""
    return (weights / weights.sum()).to(rows) @ rows


def squared_norm(rows: Tensor) -> Tensor:
    """`[..., P]` -> `[...]`."""
    return rows.square().sum(-1)


def plus(rows: Tensor, scale: float | Tensor, more: Tensor) -> Tensor:
    """rows + scale * more, in one pass where the scale is a plain number."""
    return rows + scale * more if isinstance(scale, Tensor) else rows.add(more, alpha=scale)


def column(values: Tensor, rows: Tensor) -> Tensor:
    """A number per client `[C]`, shaped to scale rows `[C, P]`."""
    return values.to(rows).unsqueeze(-1)


def take(memory: Tensor, ids: Tensor) -> Tensor:
    """The rows of these clients, as a copy: `[N, ...]`, `[C]` -> `[C, ...]`."""
    return memory.index_select(0, ids.to(memory.device))


def is_real(memory: Tensor) -> bool:
    """Whether every client has a row of its own; not so while one row is expanded to all."""
    return not math.prod(memory.shape) or memory.shape[0] == 1 or memory.stride(0) != 0


def put(memory: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
    """The memory with these clients' rows replaced.

    Written in place once the memory is real; a memory that still is one row expanded to all clients becomes
    real here, so that a population costs nothing until its clients have trained.
    """
    if not is_real(memory):
        memory = memory.clone(memory_format=torch.contiguous_format)
    return memory.index_copy_(0, ids.to(memory.device), rows.to(memory.device))
