"""Which engine suits a model on a device: what `--engine auto` stands for.

The answer depends on the model and the kind of device only, never on the machine or on what it is doing, so that the
same request names the same run everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from noniid.engine.dense import Dense
from noniid.rows import Layout

AUTO = "auto"
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Choice(NamedTuple):
    engine: str
    why: str


def choose(model: nn.Module, device: str) -> Choice:
    """The engine for this model on this device, and the reason in words."""
    parts = list(model.modules())
    if any(isinstance(part, _DROPOUTS) for part in parts):
        return Choice("threads", "dropout draws random numbers, and each client needs its own")
    if any(isinstance(part, nn.RNNBase) for part in parts):
        return Choice("threads", "torch.vmap cannot map recurrent layers over clients")
    if torch.device(device).type != "cpu":
        return Choice("batched", "a GPU is idle most of the time with one client after the other")
    if any(isinstance(part, _CONVOLUTIONS) for part in parts):
        return Choice("threads", "on a CPU stacked convolutions are slower than one client after the other")
    if not Dense.fits(model, Layout.of(model)):
        return Choice("threads", "on a CPU torch.vmap, which stacks any module, costs what stacking saves")
    return Choice("batched", "steps of dense models are short, and stacked clients share what a step costs beside them")
