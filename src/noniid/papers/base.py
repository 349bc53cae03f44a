"""A published experiment as values: the cells of its tables, the numbers claimed, the settings behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Claim:
    """One printed number.

    `value` is None where there is no number to hold anyone to: the version does not print it, or its text
    is unreadable at that place.
    """

    value: float | None  # as printed; accuracies in percent
    spread: float | None = None  # what follows the ±; None where nothing does


@dataclass(frozen=True)
class Cell:
    """One cell of a table of results: what is run, and what each version of the paper claims for it."""

    data: str
    split: str
    algorithm: str
    category: str  # the block of the table it stands in
    claims: tuple[tuple[str, Claim], ...]  # (version, claim), one for every version of the paper

    def claim(self, version: str) -> Claim:
        return dict(self.claims)[version]


@dataclass(frozen=True)
class DataSize:
    """What a paper says a data set looks like."""

    data: str
    train: int
    test: int
    features: int
    classes: int


@dataclass(frozen=True)
class Cost:
    """What a paper says one round costs."""

    data: str
    algorithm: str
    seconds: float
    megabytes: float  # 10^6 bytes, everything sent in the round


@dataclass(frozen=True)
class Protocol:
    """The settings behind a paper's numbers on one data set."""

    model: str
    augment: str
    lr: float
    momentum: float
    weight_decay: float
    batch_size: int
    epochs: int
    rounds: int
    num_clients: int
    participation: float
    metric: str
    seeds: tuple[int, ...]
    mu_grid: tuple[float, ...]  # FedProx's mu: the best of these is what the tables print
    mu_chosen: tuple[tuple[str, float], ...] = ()  # (split, mu) where the choice is known

    def settings(self) -> dict[str, str | float | int]:
        """The settings by the names that an experiment is asked for with."""
        return {
            "model": self.model, "augment": self.augment, "lr": self.lr, "momentum": self.momentum,
            "weight_decay": self.weight_decay, "batch": self.batch_size, "epochs": self.epochs,
            "rounds": self.rounds, "clients": self.num_clients, "participation": self.participation,
        }  # fmt: skip

    def best_mu(self, split: str) -> float | None:
        """The mu behind FedProx's number on this split, or None where nobody told."""
        return dict(self.mu_chosen).get(split)


@dataclass(frozen=True)
class Paper:
    """One paper: `tables` by the number it prints above them, `versions` by our short name for each."""

    name: str
    title: str
    versions: Mapping[str, str] = field(hash=False)
    tables: Mapping[str, tuple[Cell, ...] | tuple[DataSize, ...] | tuple[Cost, ...]] = field(hash=False)
    protocol: Callable[[str], Protocol]  # data set -> settings


def read_claims(token: str, versions: tuple[str, ...]) -> tuple[tuple[str, Claim], ...]:
    """`98.9±0.1` speaks for every version, `a|b` for one each; `?` is unreadable, `-` is not printed.

    >>> read_claims("?|70.1±0.2", ("v1", "v2"))
    (('v1', Claim(value=None, spread=None)), ('v2', Claim(value=70.1, spread=0.2)))
    """
    given = token.split("|")
    texts = given * len(versions) if len(given) == 1 else given
    return tuple((version, _claim(text)) for version, text in zip(versions, texts, strict=True))


def _claim(text: str) -> Claim:
    if text in ("?", "-"):
        return Claim(None)
    value, _, spread = text.partition("±")
    return Claim(float(value), float(spread) if spread else None)


def read_rows(text: str) -> Iterator[list[str]]:
    """The columns of every line; two or more spaces part them."""
    return (re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines())


def read_cells(text: str, algorithms: tuple[str, ...], versions: tuple[str, ...]) -> tuple[Cell, ...]:
    """A table as text -> its cells. A line of one column opens a category; others are data, split, claims."""
    cells, category = [], ""
    for row in read_rows(text):
        if len(row) == 1:
            category = row[0]
            continue
        data, split, *tokens = row
        cells += [
            Cell(data, split, algorithm, category, read_claims(token, versions))
            for algorithm, token in zip(algorithms, tokens, strict=True)
        ]
    return tuple(cells)
