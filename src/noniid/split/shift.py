"""What a client does to what it holds: the interface of all shifts, and how they grow from client to client.

N clients, n samples, B of them read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.traits import Ints

if TYPE_CHECKING:
    import torch

Grow = Literal["linear", "same"]
# A client's training data in batches, as the shifts before this one leave them.
Batches = Callable[[int], Iterator["torch.Tensor"]]


@dataclass(frozen=True, eq=False)
class Reading:
    """Which samples are on their way to a model, and whose they are."""

    index: torch.Tensor  # [B]
    client: int
    num_clients: int
    generator: torch.Generator  # for what is drawn anew at every reading
    test: bool = False  # samples of the test set, not of the training data


class Shift(ABC):
    """What a client does to its features or labels. Subclasses are frozen dataclasses.

    When `on_test`, the test set's features are shifted too: the evaluation set is then N copies of it, the i-th
    shifted as client i's data are; or one, if all clients are shifted alike.
    """

    @property
    @abstractmethod
    def on_test(self) -> bool: ...

    @property
    def alike(self) -> bool:
        """Whether all clients are shifted in the same way."""
        return False

    @abstractmethod
    def level(self, client: int, num_clients: int) -> float:
        """How strongly client `client` (from 0) is shifted; 0 leaves its samples as they are."""

    def fit(self, batches: Batches, num_clients: int, draws: Draws) -> Any:
        """What `apply` must know of the clients' data, or is drawn once and for all. Called when the split is made."""
        return None

    def apply(self, x: torch.Tensor, reading: Reading, fitted: Any = None) -> torch.Tensor:
        """The shifted batch [B, ...]; `x` itself is left alone. Called anew each time a batch is read."""
        return x

    def relabel(self, labels: Ints, held: Sequence[Ints], draws: Draws) -> Ints:
        """The labels that clients train with, [n], where client i holds the samples held[i]. Called when the split is
        made: a label that is changed stays changed."""
        return labels

    def check(self) -> None:  # noqa: B027
        """Raise BadInput for field values that make no sense."""


class Laddered(Shift):
    """A shift with the fields `grow`, how it grows from client to client, and `test`, whether of the test set too."""

    grow: Grow
    test: bool

    @property
    def on_test(self) -> bool:
        return self.test

    @property
    def alike(self) -> bool:
        return self.grow == "same"


def ladder(most: float, client: int, num_clients: int, grow: Grow) -> float:
    """From nothing for the first client to `most` for the last in equal steps; or `most` for all.

    >>> [ladder(90, i, 4, "linear") for i in range(4)], ladder(90, 0, 1, "linear"), ladder(90, 0, 4, "same")
    ([0.0, 30.0, 60.0, 90.0], 0.0, 90)
    """
    # A lone client is the first of the ladder, not the last.
    return most if grow == "same" else most * client / max(num_clients - 1, 1)


def check_grow(what: str, grow: str) -> None:
    if grow not in ("linear", "same"):
        raise BadInput(f"{what}'s grow is linear or same, not {grow!r}.")
