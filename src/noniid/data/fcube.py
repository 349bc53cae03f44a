"""FCUBE: points in a cube, labelled by one plane, in four blocks that differ only in where points lie."""

from __future__ import annotations

import numpy as np
import torch

from noniid.data.dataset import Samples
from noniid.seeds import Draws

_BLOCK, _NUM_BLOCKS, _NUM_TEST = 1000, 4, 1000


def draw_fcube(draws: Draws) -> tuple[Samples, Samples]:
    """4,000 training points, block after block, and 1,000 test points from the whole cube [-1, 1)^3.

    A block is two octants that mirror each other in the origin: even points lie in the one with x1 > 0
    (class 0), odd points are sent to its antipode (class 1). Cut in order into four equal parts, one client
    holds one block.
    """
    blocks = []
    for block in range(_NUM_BLOCKS):
        points = draws.random((_BLOCK, 3))
        points[:, 1] *= -1 if block >= 2 else 1
        points[:, 2] *= -1 if block % 2 else 1
        points[1::2] *= -1
        blocks.append(points)
    train_y = np.tile([0, 1], _NUM_BLOCKS * _BLOCK // 2)
    test = 2 * draws.random((_NUM_TEST, 3)) - 1
    return _samples(np.concatenate(blocks), train_y), _samples(test, test[:, 0] <= 0)


def _samples(points: np.ndarray, y: np.ndarray) -> Samples:
    return Samples(torch.from_numpy(points.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))
