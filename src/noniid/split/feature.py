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
from noniid.seeds import Draws, torch_stream
from noniid.split.base import Placement
from noniid.split.shift import Batches, Reading, Shift, ladder
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
    draw    "anew", or "frozen": a sample's noise is drawn once and is the same in every round.
    """

    sigma: float
    scale: Literal["variance", "std"] = "variance"
    test: bool = False
    draw: Literal["anew", "frozen"] = "anew"

    def check(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise BadInput(f"noise's sigma is a number from 0 up, not {self.sigma:g}.")
        if self.scale not in ("variance", "std"):
            raise BadInput(f"noise's scale is variance or std, not {self.scale!r}.")
        if self.draw not in ("anew", "frozen"):
            raise BadInput(f"noise's draw is anew or frozen, not {self.draw!r}.")

    @property
    def on_test(self) -> bool:
        return self.test

    def level(self, client: int, num_clients: int) -> float:
        """The standard deviation of this client's noise."""
        self.check()
        if self.scale == "variance":
            return math.sqrt(self.sigma * (client + 1) / num_clients)
        return ladder(self.sigma, client, num_clients, "linear")

    def fit(self, batches: Batches, num_clients: int, draws: Draws) -> int | None:
        """The seed of what is frozen."""
        return int(draws.integers(1 << 62)) if self.draw == "frozen" else None

    def apply(self, x: torch.Tensor, reading: Reading, fitted: int | None = None) -> torch.Tensor:
        if not x.is_floating_point():
            raise BadInput(f"noise needs real-valued features, and these are {x.dtype}.")
        level = self.level(reading.client, reading.num_clients)
        if level == 0:
            return x
        if fitted is not None:
            own = [_frozen(each, sample, reading, fitted) for each, sample in zip(x, reading.index)]
            return x + level * torch.stack(own)
        # Drawn where the generator lives, so that the bits do not depend on where the batch does.
        generator = reading.generator
        z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device)
        return x + level * z.to(x.device)


def _frozen(x: torch.Tensor, sample: torch.Tensor, reading: Reading, seed: int) -> torch.Tensor:
    """One sample's noise; every client has its own for a sample of the test set."""
    of_test = (reading.client,) if reading.test else ()
    generator = torch_stream(seed, "frozen test noise" if reading.test else "frozen noise", int(sample), *of_test)
    return torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
