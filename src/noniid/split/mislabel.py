"""Labels that clients got wrong.

N clients, n samples, K classes (the largest label plus one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.shift import Grow, Shift, check_grow, ladder
from noniid.split.traits import Ints


@dataclass(frozen=True)
class LabelNoise(Shift):
    """Training labels that are wrong, from none at the first client to this share of them, on average, at the last.

    Which ones is drawn once: a sample keeps its wrong label for the whole run. Who holds what, the skew that is shown
    and the test set go by the true labels.

    kind   what a wrong label becomes: "uniform", any of the others, or "next", the class after it (the first after
           the last).
    grow   "linear": i/(N-1) of the rate for client i = 0..N-1. "same": all of it for everyone.
    """

    rate: float
    kind: Literal["uniform", "next"] = "uniform"
    grow: Grow = "linear"

    def check(self) -> None:
        if not 0 <= self.rate <= 1:
            raise BadInput(f"label_noise's rate is a share from 0 to 1, not {self.rate:g}.")
        if self.kind not in ("uniform", "next"):
            raise BadInput(f"label_noise's kind is uniform or next, not {self.kind!r}.")
        check_grow("label_noise", self.grow)

    @property
    def on_test(self) -> bool:
        return False

    def level(self, client: int, num_clients: int) -> float:
        return ladder(self.rate, client, num_clients, self.grow)

    def relabel(self, labels: Ints, held: Sequence[Ints], draws: Draws) -> Ints:
        num_classes = int(labels.max()) + 1
        if num_classes < 2:
            raise BadInput("label_noise needs two classes or more: with one, no label can be wrong.")
        noisy = labels.astype(np.int64)
        for client, index in enumerate(held):
            whether, which = draws.random((2, len(index)))
            wrong = index[whether < self.level(client, len(held))]
            others = which[: len(wrong)] * (num_classes - 1) if self.kind == "uniform" else np.zeros(len(wrong))
            noisy[wrong] = (noisy[wrong] + 1 + others.astype(np.int64)) % num_classes
        return noisy
