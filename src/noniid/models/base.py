"""What a model is here: a module whose `forward` gives logits and the features before its last layer.

A module of your own that gives only logits will do for every algorithm that does not compare features.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn

from noniid.errors import BadInput


@dataclass(frozen=True)
class Model:
    """A family of models; `module` makes the member for a data set's shape."""

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        raise NotImplementedError


def fresh(model: Model | nn.Module, input_shape: tuple[int, ...], num_classes: int, seed: int) -> nn.Module:
    """A model with the random initialisation of this seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(model, nn.Module):
            return _reinitialised(model)
        return model.module(input_shape, num_classes)


def _reinitialised(module: nn.Module) -> nn.Module:
    own = copy.deepcopy(module)
    for part in own.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
    return own


def flat_size(input_shape: tuple[int, ...]) -> int:
    return math.prod(input_shape)


def need_image(name: str, input_shape: tuple[int, ...], smallest: int) -> None:
    if len(input_shape) != 3 or min(input_shape[1:]) < smallest:
        shape = "x".join(map(str, input_shape))
        raise BadInput(
            f"{name} needs images of at least {smallest}x{smallest}, and these inputs are {shape}: use mlp or two-nn."
        )
