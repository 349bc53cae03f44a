"""Shifts of how samples look: turned, brighter, flatter, blurred. Each is fixed for a client and draws nothing.

Shapes: B images, c channels, h and w pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.errors import BadInput
from noniid.split.shift import Grow, Laddered, Reading, check_grow, ladder


@dataclass(frozen=True)
class Rotate(Laddered):
    """Images turned counter-clockwise, from not at all at the first client to so many degrees at the last.

    Pixels are interpolated, and what comes in from outside is 0. rotate(270) with four clients is 0, 90, 180, 270.

    grow   "linear": by i/(N-1) of it for client i = 0..N-1. "same": all of it for everyone.
    test   whether the test set is turned as well.
    """

    degrees: float
    grow: Grow = "linear"
    test: bool = False

    def check(self) -> None:
        if not math.isfinite(self.degrees):
            raise BadInput(f"rotate's degrees is a number, not {self.degrees:g}.")
        check_grow("rotate", self.grow)

    def level(self, client: int, num_clients: int) -> float:
        """The angle in degrees."""
        return ladder(self.degrees, client, num_clients, self.grow)

    def apply(self, x: Tensor, reading: Reading, fitted: None = None) -> Tensor:
        h, w = _image_size("rotate", x)
        degrees = self.level(reading.client, reading.num_clients) % 360
        if degrees == 0:
            return x
        cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        # Coordinates run from -1 to 1 along both sides, whatever their lengths.
        turn = torch.tensor([[cos, -sin * h / w, 0], [sin * w / h, cos, 0]], dtype=x.dtype, device=x.device)
        grid = F.affine_grid(turn.expand(len(x), 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


@dataclass(frozen=True)
class Scale(Laddered):
    """Features times 1 + `by`: unchanged at the first client, all of it at the last, so that scale(1) doubles them.

    Of images it is the brightness. Nothing is clipped.

    grow   "linear": by i/(N-1) of it for client i = 0..N-1. "same": all of it for everyone.
    test   whether the test set is scaled as well.
    """

    by: float
    grow: Grow = "linear"
    test: bool = False

    def check(self) -> None:
        _check_by("scale", self.by)
        check_grow("scale", self.grow)

    def level(self, client: int, num_clients: int) -> float:
        return ladder(self.by, client, num_clients, self.grow)

    def apply(self, x: Tensor, reading: Reading, fitted: None = None) -> Tensor:
        return x * (1 + self.level(reading.client, reading.num_clients))


@dataclass(frozen=True)
class Contrast(Laddered):
    """Each image's distance from its own mean times 1 + `by`: unchanged at the first client, all of it at the last.

    contrast(-0.9) leaves the last client a tenth of the contrast. Nothing is clipped.

    grow   "linear": by i/(N-1) of it for client i = 0..N-1. "same": all of it for everyone.
    test   whether the test set is changed as well.
    """

    by: float
    grow: Grow = "linear"
    test: bool = False

    def check(self) -> None:
        _check_by("contrast", self.by)
        check_grow("contrast", self.grow)

    def level(self, client: int, num_clients: int) -> float:
        return ladder(self.by, client, num_clients, self.grow)

    def apply(self, x: Tensor, reading: Reading, fitted: None = None) -> Tensor:
        _image_size("contrast", x)
        by = self.level(reading.client, reading.num_clients)
        return x + (x - x.mean(dim=(1, 2, 3), keepdim=True)) * by


@dataclass(frozen=True)
class Blur(Laddered):
    """Images blurred by a Gaussian, from not at all at the first client to so many pixels (std) at the last.

    What lies outside is taken to be as the nearest pixel inside.

    grow   "linear": by i/(N-1) of it for client i = 0..N-1. "same": all of it for everyone.
    test   whether the test set is blurred as well.
    """

    sigma: float
    grow: Grow = "linear"
    test: bool = False

    def check(self) -> None:
        if not 0 <= self.sigma <= 100:
            raise BadInput(f"blur's sigma is a number of pixels from 0 to 100, not {self.sigma:g}.")
        check_grow("blur", self.grow)

    def level(self, client: int, num_clients: int) -> float:
        """The Gaussian's standard deviation in pixels."""
        return ladder(self.sigma, client, num_clients, self.grow)

    def apply(self, x: Tensor, reading: Reading, fitted: None = None) -> Tensor:
        h, w = _image_size("blur", x)
        sigma = self.level(reading.client, reading.num_clients)
        if sigma == 0:
            return x
        reach = math.ceil(3 * sigma)
        offsets = torch.arange(-reach, reach + 1, dtype=x.dtype, device=x.device)
        weights = torch.exp(-offsets.square() / (2 * sigma**2))
        weights /= weights.sum()
        # One channel after the other, first along columns, then along rows.
        padded = F.pad(x.reshape(-1, 1, h, w), [reach] * 4, mode="replicate")
        blurred = F.conv2d(F.conv2d(padded, weights.view(1, 1, -1, 1)), weights.view(1, 1, 1, -1))
        return blurred.view_as(x)


def _image_size(what: str, x: Tensor) -> tuple[int, int]:
    if x.dim() != 4:
        raise BadInput(f"{what} is for images, and these samples are rows of {math.prod(x.shape[1:]):,} values.")
    return x.shape[2], x.shape[3]


def _check_by(what: str, by: float) -> None:
    if not -1 < by < math.inf:
        raise BadInput(f"{what}'s by is a number above -1 (0 changes nothing, 1 doubles), not {by:g}.")
