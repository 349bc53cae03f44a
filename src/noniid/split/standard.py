"""Features brought to mean 0 and standard deviation 1, by what each client can know. [RADFed, Table III]

N clients, B samples, d features of a table, c channels of an image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.shift import Batches, Reading, Shift

LEAST_STD = 1e-6  # a feature that does not vary is not blown up


@dataclass(frozen=True)
class Standardise(Shift):
    """Every feature of a table, or channel of an image, minus its mean and divided by its standard deviation.

    by     "client": those of the client's own training data, so that equal samples look different to each of them;
           RADFed's COVCLS-L and COVFEAT-L. "global": those of all clients' training data (its -G). "none": as is.
    test   whether the test set is standardised as well, by each client's numbers or by the global ones.

    What the shifts before this one do is in those numbers: scale(1) + standardise is standardise.
    """

    by: Literal["client", "global", "none"] = "client"
    test: bool = True

    def check(self) -> None:
        if self.by not in ("client", "global", "none"):
            raise BadInput(f"standardise is by client, global or none, not {self.by!r}.")

    @property
    def on_test(self) -> bool:
        return self.test

    @property
    def alike(self) -> bool:
        return self.by != "client"

    def level(self, client: int, num_clients: int) -> float:
        """Whether at all: 0 or 1."""
        return float(self.by != "none")

    def fit(self, batches: Batches, num_clients: int, draws: Draws) -> list[tuple[Tensor, Tensor]]:
        """Mean and standard deviation for each client, or one for all."""
        if self.by == "none":
            return []
        moments = [_moments(batches, client) for client in range(num_clients)]
        if self.by == "global":
            count, total, squares = zip(*moments)
            moments = [(sum(count), torch.stack(total).sum(0), torch.stack(squares).sum(0))]
        return [_mean_and_std(*each) for each in moments]

    def apply(self, x: Tensor, reading: Reading, fitted: list[tuple[Tensor, Tensor]] | None = None) -> Tensor:
        if not fitted:
            return x
        mean, std = fitted[reading.client if self.by == "client" else 0]
        return (x - mean.to(x)) / std.to(x)


def _moments(batches: Batches, client: int) -> tuple[int, Tensor, Tensor]:
    """How many values a client has of each feature, their sum and the sum of their squares, [d] or [c, 1, 1]."""
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for x in batches(client):
        x = x.double()
        over = [0, 2, 3] if x.dim() == 4 else [0]
        count += x.numel() // x[0].numel() * (x[0, 0].numel() if x.dim() == 4 else 1)
        total = total + x.sum(over, keepdim=True)[0]
        squares = squares + x.square().sum(over, keepdim=True)[0]
    return count, total, squares


def _mean_and_std(count: int, total: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    mean = total / count
    std = (squares / count - mean.square()).clamp(min=0).sqrt()
    return mean, torch.where(std > LEAST_STD, std, 1.0)
