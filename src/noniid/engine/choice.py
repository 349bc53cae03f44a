"""Which engine suits a model on a device: what `--engine auto` stands for.

A rule by model and device says what to expect, and a measurement on this machine may say otherwise, by a clear margin
only: noise must not give the same request another engine, and so another name, from one day to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from noniid.engine.calibrate import Rates
from noniid.engine.dense import Dense
from noniid.rows import Layout

AUTO = "auto"
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


MARGIN = 1.25  # the other engine must be so much faster


class Choice(NamedTuple):
    engine: str
    why: str
    rates: Rates | None = None  # as measured here: training samples a second by engine


def choose(model: nn.Module, device: str, measure: Callable[[], Rates | None] = lambda: None) -> Choice:
    """The engine for this model on this device, and why; `measure` is called where there is a choice."""
    expected = _expected(model, device)
    rates = measure() if expected.other else None
    if rates is None:
        return Choice(expected.engine, expected.why)
    told = "measured here: " + ", ".join(f"{name} {rate:,.0f} samples/s" for name, rate in rates.items())
    if rates[expected.other] > MARGIN * rates[expected.engine]:
        return Choice(expected.other, told, rates)
    return Choice(expected.engine, f"{expected.why} ({told})", rates)


class _Expected(NamedTuple):
    engine: str
    why: str
    other: str = ""  # the engine that might do better; none where there is no choice


def _expected(model: nn.Module, device: str) -> _Expected:
    parts = list(model.modules())
    if any(isinstance(part, _DROPOUTS) for part in parts):
        return _Expected("threads", "dropout draws random numbers, and each client needs its own")
    if any(isinstance(part, nn.RNNBase) for part in parts):
        return _Expected("threads", "torch.vmap cannot map recurrent layers over clients")
    if torch.device(device).type != "cpu":
        return _Expected("batched", "a GPU is idle most of the time with one client after the other", "threads")
    if any(isinstance(part, _CONVOLUTIONS) for part in parts):
        return _Expected("threads", "on a CPU stacked convolutions are slower than client by client", "batched")
    if not Dense.fits(model, Layout.of(model)):
        return _Expected(
            "threads", "on a CPU torch.vmap, which stacks any module, costs what stacking saves", "batched"
        )
    return _Expected(
        "batched", "dense models' steps are short, and stacked clients share what goes with one", "threads"
    )
