"""What is known about a data set before any of it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from noniid.data.dataset import Samples
from noniid.data.files import File
from noniid.seeds import Draws

Divided = tuple[Samples, Samples]  # train, test


@dataclass(frozen=True)
class Layout:
    """One set of files that hold the whole data set, and who reads them (in this order)."""

    files: tuple[File, ...]
    read: Callable[[Sequence[Path]], Divided | Samples]  # Samples: all rows, still to be divided


@dataclass(frozen=True)
class Entry:
    title: str
    kind: Literal["image", "table", "synthetic"]
    num_train: int
    num_test: int
    shape: tuple[int, ...]
    num_classes: int
    layouts: tuple[Layout, ...] = ()  # looked for, and downloaded, in this order
    draw: Callable[[Draws], Divided] | None = None  # instead of files: the samples are made
    drawn: bool = False  # who is in train and who in test depends on `draws`
    license: str = "not stated"
    homepage: str = ""
