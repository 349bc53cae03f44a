"""Floating-point operations of training, counted from the layers: a multiplication and an addition are two.

Of convolutions and dense layers only, which are nearly all. A layer's backward pass costs its forward pass twice: once
for the weights' gradient and once for the inputs', which nobody needs in front of the first layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from noniid.models.fused import plain_operations


class Layer(NamedTuple):
    """A layer as a sample meets it, and its operations for that one sample."""

    name: str
    module: nn.Module
    in_shape: tuple[int, ...]
    forward: int
    first: bool  # nothing before it wants a gradient

    @property
    def backward(self) -> int:
        return self.forward * (1 if self.first else 2)


@torch.no_grad()
def layers(module: nn.Module, x: Tensor) -> list[Layer]:
    """In the order in which one sample, [1, ...], passes them.

    >>> [(each.name, each.forward, each.backward) for each in layers(nn.Sequential(nn.Linear(4, 3)), torch.zeros(1, 4))]
    [('0', 24, 24)]
    """
    met: list[Layer] = []

    def meets(name: str) -> Callable[..., None]:
        def hook(part: nn.Module, inputs: tuple[Any, ...], out: Tensor) -> None:
            met.append(Layer(name, part, tuple(inputs[0].shape[1:]), _forward(part, out), not met))

        return hook

    hooks = [
        part.register_forward_hook(meets(name))
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear | nn.Conv2d)
    ]
    with plain_operations():  # so that convolutions are called as modules
        module(x)
    for hook in hooks:
        hook.remove()
    return met


def per_sample(met: Sequence[Layer]) -> int:
    """Forward and backward."""
    return sum(each.forward + each.backward for each in met)


def _forward(part: nn.Module, out: Tensor) -> int:
    if isinstance(part, nn.Linear):
        return 2 * part.in_features * part.out_features
    assert isinstance(part, nn.Conv2d)
    return 2 * part.weight.numel() * out.shape[-2] * out.shape[-1]
