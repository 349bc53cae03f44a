"""What happens to clients' updates on their way to the server: clipping, noise, compression, other weights.

Shapes: C clients in the wave, T trainable values that are sent.

A stack of wrappers, `clip(1) + topk(0.1)`, works with any algorithm: it changes what clients moved by, in its order,
after they have trained and before the algorithm's `update`. Statistics of the forward pass and what an algorithm
sends beside the model go as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from noniid.algorithms.base import Wave
from noniid.errors import BadInput
from noniid.rows import squared_norm
from noniid.spec import Registry, split_sum

FULL_BITS = 32  # of a number that nothing was done to


@dataclass(frozen=True)
class Sent:
    """The form in which an update of T values travels."""

    size: int  # T
    values: int  # how many of them are sent
    bits: int = FULL_BITS  # of each
    places: int = 0  # how many must be told where they belong, 4 bytes each
    scales: int = 0  # further numbers of 4 bytes

    @property
    def bytes(self) -> int:
        return math.ceil(self.values * self.bits / 8) + 4 * (self.places + self.scales)


@dataclass(frozen=True)
class Wrapper:
    """One thing that happens to updates. Subclasses are frozen dataclasses; the defaults do nothing."""

    weighs: ClassVar[bool] = False  # whether it gives weights

    def check(self) -> None:
        """Raise BadInput for values that make no sense."""

    def apply(self, moves: Tensor, draws: torch.Generator) -> Tensor:
        """The movements `[C, T]` as the server receives them. What is not a number must not become one."""
        return moves

    def weights(self, sizes: Tensor) -> Tensor:
        """Shares in the mean, [C]."""
        return sizes / sizes.sum()

    def sent(self, sent: Sent) -> Sent:
        """The form in which an update travels, given its form before this wrapper."""
        return sent


@dataclass(frozen=True)
class Clip(Wrapper):
    """No update is longer than `norm`: longer ones are shortened, their direction kept."""

    norm: float

    def check(self) -> None:
        if not 0 < self.norm < math.inf:
            raise BadInput(f"clip's norm is {self.norm:g}: give a number above 0.")

    def apply(self, moves: Tensor, draws: torch.Generator) -> Tensor:
        length = squared_norm(moves.double()).sqrt().unsqueeze(1)  # the square of a large number is no float32
        return moves * (self.norm / length.clamp(min=self.norm)).to(moves)


@dataclass(frozen=True)
class Gaussian(Wrapper):
    """Noise of the Gaussian mechanism: its deviation in the sum of all updates is `multiplier` times `norm`.

    Every client adds its share, so that the mean of C clients has the deviation multiplier norm / C, as if the server
    had added it to what it was told through a secure sum. That promises something only if no update is longer than
    `norm`, all count the same and nothing else happens to them: `uniform + clip(norm) + gaussian(multiplier, norm)`,
    with anything that compresses before `clip`.
    """

    multiplier: float
    norm: float = 1.0

    def check(self) -> None:
        if not (0 <= self.multiplier < math.inf and 0 < self.norm < math.inf):
            raise BadInput(
                f"gaussian takes a multiplier of 0 or more and a norm above 0, not {self.multiplier:g}, {self.norm:g}."
            )

    def apply(self, moves: Tensor, draws: torch.Generator) -> Tensor:
        share = self.multiplier * self.norm / len(moves) ** 0.5
        noise = torch.randn(moves.shape, generator=draws, device=draws.device)
        return moves + share * noise.to(moves)

    def sent(self, sent: Sent) -> Sent:
        return Sent(sent.size, sent.size)  # no value is left out, and none stays on a grid


@dataclass(frozen=True)
class TopK(Wrapper):
    """Only the largest `share` of an update's values is sent, each with its place; the others stay zero."""

    share: float

    def check(self) -> None:
        if not 0 < self.share <= 1:
            raise BadInput(f"topk's share is {self.share:g}: give a share of the values above 0, up to 1.")

    def apply(self, moves: Tensor, draws: torch.Generator) -> Tensor:
        places = moves.abs().topk(self._kept(moves.shape[1]), dim=1, sorted=False).indices
        return torch.zeros_like(moves).scatter(1, places, moves.gather(1, places))

    def sent(self, sent: Sent) -> Sent:
        kept = min(self._kept(sent.size), sent.values)
        return replace(sent, values=kept, places=kept if kept < sent.size else 0)

    def _kept(self, size: int) -> int:
        return max(1, round(self.share * size))


@dataclass(frozen=True)
class Quantise(Wrapper):
    """Values are rounded at random to multiples of a step, up or down so that they are right on average.

    The step is such that a client's largest value is 2^(bits - 1) - 1 of them; that value is sent along. Zero is on
    the grid, so what was zero stays zero.
    """

    bits: int = 8

    def check(self) -> None:
        if not 2 <= self.bits <= 16:
            raise BadInput(f"quantise's bits are {self.bits}: give a whole number from 2 to 16.")

    def apply(self, moves: Tensor, draws: torch.Generator) -> Tensor:
        most = 2 ** (self.bits - 1) - 1
        step = (moves.abs().amax(1, keepdim=True) / most).clamp(min=torch.finfo(moves.dtype).tiny)
        below = (moves / step).floor()
        coin = torch.rand(moves.shape, generator=draws, device=draws.device).to(moves)
        return step * (below + (coin < moves / step - below)).clamp(-most, most)

    def sent(self, sent: Sent) -> Sent:
        return replace(sent, bits=self.bits, scales=1)


@dataclass(frozen=True)
class Uniform(Wrapper):
    """All clients of a wave count the same, whatever they hold."""

    weighs: ClassVar[bool] = True

    def weights(self, sizes: Tensor) -> Tensor:
        return torch.full((len(sizes),), 1 / len(sizes), dtype=torch.float64)


@dataclass(frozen=True)
class Power(Wrapper):
    """Clients count by a power of their size: 1 is as usual, 0 is uniform, 0.5 lies between."""

    exponent: float

    weighs: ClassVar[bool] = True

    def check(self) -> None:
        if not 0 <= self.exponent <= 10:
            raise BadInput(f"power's exponent is {self.exponent:g}: give a number from 0 (uniform) to 10.")

    def weights(self, sizes: Tensor) -> Tensor:
        powers = sizes.double() ** self.exponent
        return powers / powers.sum()


WRAPPERS: Registry[Wrapper] = Registry(
    "wrapper",
    {"clip": Clip, "gaussian": Gaussian, "topk": TopK, "quantise": Quantise, "uniform": Uniform, "power": Power},
)


@dataclass(frozen=True)
class Stack:
    """Wrappers in their order.

    >>> print(Stack.parse("topk(0.1)+quantise(4)")), Stack.parse("topk(0.1)+quantise(4)").bytes_up(1000)
    topk(0.1) + quantise(4)
    (None, 454)
    """

    wrappers: tuple[Wrapper, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Stack:
        """`clip(1) + topk(0.1)`; an empty text is an empty stack."""
        stack = cls(tuple(WRAPPERS.parse(term) for term in split_sum(text)) if text.strip() else ())
        stack.check()
        return stack

    def __str__(self) -> str:
        return " + ".join(map(WRAPPERS.write, self.wrappers))

    @property
    def noise(self) -> Gaussian | None:
        """The wrapper that makes updates private."""
        return next((each for each in self.wrappers if isinstance(each, Gaussian)), None)

    def check(self) -> None:
        for wrapper in self.wrappers:
            wrapper.check()
        weighing = [WRAPPERS.write(each) for each in self.wrappers if each.weighs]
        if len(weighing) > 1:
            raise BadInput(f"clients are weighed by {' and by '.join(weighing)}: keep one of them.")
        if self.noise:
            self._check_noise(self.noise)

    def _check_noise(self, noise: Gaussian) -> None:
        """Noise is measured for the sum of clipped updates that all count the same, and for nothing else."""
        changing = [each for each in self.wrappers if not each.weighs]
        if changing[-1] is not noise:
            last = WRAPPERS.write(changing[-1])
            raise BadInput(f"gaussian promises nothing for what {last} makes of it: put clip and gaussian last.")
        if changing[-2:-1] != [Clip(noise.norm)]:
            raise BadInput(f"gaussian's norm is {noise.norm:g}: put a clip of the same norm right before it.")
        if not any(isinstance(each, Uniform) for each in self.wrappers):
            raise BadInput("gaussian's noise is measured for clients that all count the same: add uniform.")

    def weights(self, sizes: Tensor) -> Tensor:
        """Every client's share in the mean, [C]."""
        return next((each for each in self.wrappers if each.weighs), Wrapper()).weights(sizes)

    def apply(self, wave: Wave, rng: np.random.Generator, own: Tensor) -> Wave:
        """The wave as the server sees it; values in the places `own` are not sent. What is not changed stays exact."""
        if all(each.weighs for each in self.wrappers):
            return wave
        places = torch.arange(wave.num_trainable, device=wave.end.device)
        places = places[~torch.isin(places, own.to(places))]
        if not len(places):
            return wave
        draws = torch.Generator().manual_seed(int(rng.integers(2**62)))
        start, end = wave.start[:, places], wave.end[:, places]
        moved = arrived = end - start
        for wrapper in self.wrappers:
            arrived = wrapper.apply(arrived, draws)
        end = torch.where(arrived == moved, end, start + arrived)
        return wave._replace(end=wave.end.index_copy(1, places, end))

    def bytes_up(self, values: int) -> int:
        """What sending an update of so many values costs."""
        sent = Sent(values, values)
        for wrapper in self.wrappers:
            sent = wrapper.sent(sent)
        return sent.bytes
