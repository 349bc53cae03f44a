"""Data of the user's own, by a text that says all: `file(heart.csv, label=ill, client=ward, checksum=4f0e1d2c3b4a)`.

The checksum is part of the text, so that a file whose content has changed is other data and makes other runs.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from noniid.data.dataset import Dataset, Samples, SparseRows
from noniid.data.encode import classes, encode, plain
from noniid.data.folder import files
from noniid.data.held import Held, held
from noniid.data.raw import Asked, Raw
from noniid.data.readers import read_file
from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.spec import Registry

TEST_SHARE = 4  # one row of so many, or one client of so many, is for testing

TestBy = Literal["rows", "clients"]


@dataclass(frozen=True)
class Own:
    """What is asked of a file, or of data in memory.

    test      "rows": a quarter of every client's rows is for testing; "clients": all rows of a quarter of the clients.
    ignore    columns that are no features, between commas.
    """

    path: str
    label: str | None = None
    client: str | None = None
    test: TestBy = "rows"
    ignore: str = ""
    checksum: str = ""

    @property
    def asked(self) -> Asked:
        ignored = tuple(name.strip() for name in self.ignore.split(",") if name.strip())
        return Asked(self.label, self.client, ignored)


@dataclass(frozen=True)
class File(Own):
    """A file, or a folder of images."""


@dataclass(frozen=True)
class Memory(Own):
    """Something given from Python, under a name of its own; known in this process only."""


OWN: Registry[Own] = Registry("data", {"file": File, "memory": Memory})


def own_data(
    data: Any, label: str | None = None, client: str | None = None, *,
    test: TestBy = "rows", ignore: str = "", name: str = "",
) -> str:  # fmt: skip
    """The text that stands for data of one's own wherever a data set's name is asked for.

    `data` is a path, a Hugging Face `Dataset`, a torch `Dataset` of (input, label) or (input, label, client), a pandas
    table, or named numpy arrays. What is no path is kept in memory under `name`.

    >>> ages = {"age": np.arange(8.0), "ill": np.arange(8) % 2, "clinic": np.arange(8) // 4}
    >>> text = own_data(ages, label="ill", client="clinic", name="ages")
    >>> text.partition(", checksum")[0]
    'memory(ages, label=ill, client=clinic'
    """
    if isinstance(data, str | Path):
        given = File(str(data), label, client, test, ignore)
    else:
        given = Memory(held(data, name), label, client, test, ignore)
    return complete(given)


def complete(given: Own) -> str:
    """With the checksum of what is there now, and with nothing asked for that is not there."""
    if given.test == "clients" and given.client is None:
        raise BadInput("testing on clients needs to know them: say which column is the client, by --client.")
    told = replace(given, checksum=_checksum(given))
    _read(told)
    return OWN.write(told)


def is_own(text: str) -> bool:
    """Whether a text speaks of own data: `file(...)` or `memory(...)`.

    >>> is_own("file(heart.csv, label=ill)"), is_own("mnist")
    (True, False)
    """
    return text.partition("(")[0].strip() in OWN and "(" in text


def natural_client(text: str) -> str | None:
    """The column that tells clients apart, where own data have one."""
    return OWN.parse(text).client if is_own(text) else None


def load_own(text: str, draws: Draws) -> Dataset:
    """Read, divided by `draws`, and encoded."""
    given, raw = _complete_and_read(text)
    clients = _columns(raw, given)[given.client] if given.client else np.zeros(len(raw.labels), np.int64)
    train, test = divide(clients, given.test, draws)
    whole, num_classes = _samples(raw, given, train)
    parts = (whole.take(torch.from_numpy(train)), whole.take(torch.from_numpy(test)))
    return Dataset(text, *parts, num_classes, given.checksum)


def load_whole(text: str) -> Dataset:
    """All rows, in the order of the file, as both train and test: to be measured, not to be trained on."""
    given, raw = _complete_and_read(text)
    whole, num_classes = _samples(raw, given, np.arange(len(raw.labels)))
    return Dataset(text, whole, whole, num_classes, given.checksum)


def _complete_and_read(text: str) -> tuple[Own, Raw]:
    given = OWN.parse(text)
    given = given if given.checksum else OWN.parse(complete(given))
    return given, _read(given)


def _samples(raw: Raw, given: Own, train: np.ndarray) -> tuple[Samples, int]:
    """All rows, numbers measured by the rows `train`; and how many classes there are."""
    y, names = classes(raw.labels, given.label or "label")
    x = raw.x if isinstance(raw.x, torch.Tensor | SparseRows) else encode(raw.x, train)
    return Samples(x, y, raw.scale, _columns(raw, given)), len(names)


def _columns(raw: Raw, given: Own) -> dict[str, np.ndarray]:
    return {name: _as_column(values, name, given.client) for name, values in raw.columns.items()}


def _as_column(values: np.ndarray, name: str, client: str | None) -> np.ndarray:
    if name == client:
        return plain(values, f"client {name!r}")
    return np.array(["" if value is None else value for value in values], str) if values.dtype == object else values


def divide(clients: np.ndarray, test: TestBy, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Which rows train and which test, in their order in the file. clients [n]"""
    values, who = np.unique(clients, return_inverse=True)
    if test == "clients":
        if len(values) < 2:
            raise BadInput("testing on clients needs two or more of them: test on rows.")
        tested = draws.permutation(len(values))[: max(1, len(values) // TEST_SHARE)]
        is_test = np.isin(who, tested)
    else:
        is_test = np.zeros(len(who), bool)
        for client in range(len(values)):
            rows = np.flatnonzero(who == client)
            is_test[rows[draws.permutation(len(rows))[: len(rows) // TEST_SHARE]]] = True
    if not is_test.any():
        raise BadInput(
            f"no client has {TEST_SHARE} rows or more, and a quarter of them is for testing: test on clients."
        )
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


@functools.lru_cache(maxsize=2)
def _read(given: Own) -> Raw:
    """What has been read last stays: the seeds of a comparison share it."""
    if _checksum(given) != given.checksum:
        raise BadInput(
            f"{given.path} holds other data than when this run was asked for (checksum {given.checksum}, now "
            f"{_checksum(given)}): bring the old content back, or ask anew."
        )
    if isinstance(given, Memory):
        return _held(given).read(given.asked)
    return read_file(Path(given.path), given.asked)


def _checksum(given: Own) -> str:
    if isinstance(given, Memory):
        return _held(given).checksum
    path, digest = Path(given.path), hashlib.sha256()
    if path.is_dir():
        for file in files(path):
            digest.update(str(file.relative_to(path)).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    elif path.is_file():
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
    return digest.hexdigest()[:12]


def _held(given: Own) -> Held:
    found = Held.known.get(given.path)
    if found is None:
        raise BadInput(f"there is no data called {given.path!r} in this process: give it again by `own_data`.")
    return found
