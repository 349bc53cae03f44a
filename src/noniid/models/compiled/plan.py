"""Where everything lies that compiled passes read and write.

Shapes: B samples in blocks of L lanes.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import torch

from noniid.models.compiled.emit import LANES
from noniid.models.compiled.layers import TAPS, WINDOW


class Convolution(NamedTuple):
    """Its inputs' shape without border, and how many maps it gives."""

    channels: int
    height: int
    width: int
    border: int
    num_out: int

    @property
    def pooled(self) -> tuple[int, int]:
        tall, broad = ((extent + 2 * self.border - TAPS + 1) // 2 for extent in (self.height, self.width))
        return tall, broad


class Room(NamedTuple):
    """Memory of passes over so many samples."""

    acts: Any  # what goes into each layer, and the logits
    codes: Any  # which of four won
    d: Any  # gradients on their way back, of a layer's outputs
    before: Any  # and of its inputs
    rows: Any  # a layer's inputs, sample by sample
    work: Any  # of a convolution's backward pass
    taps: Any


class Plan(NamedTuple):
    """Of one network. Sizes of what grows with the batch are those of one sample."""

    convs: Any  # int64 [n, 9]: channels, height and width with border, border, outputs, the next border, places
    linears: Any  # int64 [m, 4]: inputs, outputs, places of activations and weights
    shown: int  # the linear layer whose inputs are the features
    num_weights: int
    activations: int
    codes: int
    widest: int  # of what goes back from layer to layer
    work: int  # for all samples
    most_taps: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """One input, logits, features."""
        c, h, w, border = self.convs[0, :4] if len(self.convs) else (self.linears[0, 0], 1, 1, 0)
        return int(c * (h - 2 * border) * (w - 2 * border)), int(self.linears[-1, 1]), int(self.linears[self.shown, 0])

    def room(self, num: int) -> Room:
        padded, longest = -(-num // LANES) * LANES, int(self.linears[:, :2].max()) + LANES
        sizes = (self.activations, self.widest, self.widest, longest + 4)
        acts, d, before, rows = (_floats(padded * size) for size in sizes)
        taps = np.empty(max(padded, longest, self.most_taps), np.int64)
        codes = np.empty(padded * self.codes, np.uint8)
        return Room(acts, codes, d, before, rows, _floats(self.work), taps)


def _floats(size: int) -> np.ndarray:
    """torch's memory begins where a vector does."""
    return torch.empty(size).numpy()


@functools.lru_cache(maxsize=64)
def plan(convolutions: tuple[Convolution, ...], widths: tuple[int, ...], shown: int) -> Plan:
    """For these convolutions, then linear layers of these widths (the first one's inputs included)."""
    convs, linears = np.zeros((len(convolutions), 9), np.int64), np.zeros((len(widths) - 1, 4), np.int64)
    at = codes = weights = work = most_taps = 0
    widest = max(widths[1:])
    for i, each in enumerate(convolutions):
        h, w = each.height + 2 * each.border, each.width + 2 * each.border
        after = convolutions[i + 1].border if i + 1 < len(convolutions) else 0
        convs[i] = each.channels, h, w, each.border, each.num_out, after, at, codes, weights
        at += each.channels * h * w
        pooled = each.num_out * each.pooled[0] * each.pooled[1]
        codes += pooled
        weights += each.num_out * (each.channels * WINDOW + 1)
        sums, wide = (each.num_out + 1) * each.channels * WINDOW, each.num_out * 2 * each.pooled[0] * (w + 4)
        work = max(work, (sums + wide) * LANES + each.num_out * each.channels * WINDOW)
        widest = max(widest, pooled, each.channels * each.height * each.width if i else 0)
        most_taps = max(most_taps, WINDOW * max(each.channels, each.num_out))
    for i, (k, o) in enumerate(itertools.pairwise(widths)):
        linears[i] = k, o, at, weights
        at += k
        weights += o * (k + 1)
        widest = max(widest, k if i or convolutions else 0)
    return Plan(convs, linears, shown, weights, at + widths[-1], codes, widest, work, most_taps)
