"""Feature skew: clients hold the same classes, but their features differ.

N clients, n samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement, Shift
from noniid.split.traits import Ints, Traits


@dataclass(frozen=True)
class Fcube(Placement):
    """The samples in their stored order, cut into N nearly equal parts.

    FCUBE is stored as four blocks of 1,000 points, each two octants opposite each other: with N = 4 every
    client holds both labels, in corners of the cube that no other client sees.
    """

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> list[Ints]:
        return np.array_split(np.arange(len(traits), dtype=np.int64), num_clients)


@dataclass(frozen=True)
class Noise(Shift):
    """Gaussian noise that grows from client to client, drawn anew whenever a sample is read, never clipped.

    scale   "variance": variance sigma * i/N for i = 1..N, the paper's formula.
            "std": standard deviation sigma * i/(N-1) for i = 0..N-1, what its code ran: for sigma = 0.1
            at most a tenth of the paper's variance, and one client without noise.
    test    whether the test set is noisy as well; in the published runs it was.
    """

    sigma: float
    scale: Literal["variance", "std"] = "variance"
    test: bool = False

    def check(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise BadInput(f"noise's sigma is a number from 0 up, not {self.sigma:g}.")
        if self.scale not in ("variance", "std"):
            raise BadInput(f"noise's scale is variance or std, not {self.scale!r}.")

    @property
    def on_test(self) -> bool:
        return self.test

    def level(self, client: int, num_clients: int) -> float:
        """The standard deviation of this client's noise."""
        self.check()
        if self.scale == "variance":
            return math.sqrt(self.sigma * (client + 1) / num_clients)
        # A lone client is the first of the ladder, not the last: no noise.
        return self.sigma * client / max(num_clients - 1, 1)

    def apply(self, x: torch.Tensor, client: int, num_clients: int, generator: torch.Generator) -> torch.Tensor:
        if not x.is_floating_point():
            raise BadInput(f"noise needs real-valued features, and these are {x.dtype}.")
        level = self.level(client, num_clients)
        if level == 0:
            return x
        # Drawn where the generator lives, so that the bits do not depend on where the batch does.
        z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device)
        return x + level * z.to(x.device)
