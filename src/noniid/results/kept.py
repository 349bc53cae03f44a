"""What clients remember, in files: too much for a checkpoint to hold, and perhaps for the machine's memory.

A name's rows lie in one file, mapped into memory and overwritten in place; a row of zeros takes no room before it is
first written. What leads back to the last checkpoint are notes: before a row is overwritten for the first time after
a checkpoint, what it was is appended to a file named after that checkpoint's round. Whatever moment a process dies
at, rows and notes together are the checkpoint's memory, and a checkpoint costs nothing but forgetting the notes.

Shapes: N clients, C of them in a wave.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from noniid.errors import BadInput

BLOCK = 1 << 26  # bytes of rows written at once


class _Map(NamedTuple):
    whole: mmap.mmap
    row_bytes: int


class Kept:
    """The files of one run, in a folder of their own."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._maps: dict[str, _Map] = {}
        self._round: int | None = None  # of the last checkpoint
        self._noted: dict[str, np.ndarray] = {}  # by name, bool [N]: whose rows of that checkpoint are noted

    def begin(self, name: str, first: Tensor, may_train: int) -> Tensor:
        """A file with these rows [N, ...], often one row for all. At most `may_train` clients will write theirs."""
        zero = _is_zero(first)
        self._check_room(first.nbytes if not zero else first.nbytes // len(first) * min(may_train, len(first)))
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            file.truncate(first.nbytes)
        rows = self._mapped(name, first)
        each = max(1, BLOCK // max(1, first.nbytes // len(first)))
        for start in range(0, 0 if zero else len(first), each):
            rows[start : start + each] = first[start : start + each]
        return rows

    def back(self, name: str, like: Tensor, round: int) -> Tensor:
        """The rows of the checkpoint of this round, of the shape of `like`."""
        path = self._path(name)
        if not path.exists() or path.stat().st_size != like.nbytes:
            checkpoint = self._folder.with_suffix(".safetensors")
            raise BadInput(f"{path} is missing or damaged: delete {checkpoint} to train that run anew.")
        rows, notes = self._mapped(name, like), self._notes(name, round)
        for ids, old in _read(notes, like):
            rows[ids] = old
        self._maps[name].whole.flush()
        notes.unlink(missing_ok=True)  # all rows are the checkpoint's again
        return rows

    def fetch(self, name: str, ids: Tensor) -> None:
        """These clients' rows are about to be read: those on the disk are asked for together, not page by page."""
        if name in self._maps and hasattr(mmap, "MADV_WILLNEED"):
            whole, each = self._maps[name]
            for start in (ids * each).tolist():
                first = start // mmap.PAGESIZE * mmap.PAGESIZE
                whole.madvise(mmap.MADV_WILLNEED, first, start + each - first)

    def note(self, name: str, ids: Tensor, rows: Tensor) -> None:
        """These clients' rows are about to be overwritten, and this is what they are."""
        if name not in self._maps or self._round is None:  # without a checkpoint a run begins anew
            return
        fresh = ~self._noted[name][ids.numpy()]
        if fresh.any():
            new = torch.from_numpy(fresh)
            count, whose, what = np.int64(fresh.sum()), ids[new], rows[new.to(rows.device)].cpu()
            with self._notes(name, self._round).open("ab") as file:
                file.writelines([count.tobytes(), whose.numpy().data, what.numpy().data])
                _sync(file)
            self._noted[name][whose.numpy()] = True

    def sync(self) -> None:
        """A checkpoint is about to be written: what it stands on must be on the disk before it."""
        for whole, _ in self._maps.values():
            whole.flush()

    def saved(self, round: int) -> None:
        """The checkpoint of this round stands; those before it are nobody's way back."""
        self._round = round
        for known in self._noted.values():
            known[:] = False
        for path in self._folder.glob("*.notes"):
            path.unlink()

    def remove(self) -> None:
        """The run has ended, or begins anew."""
        self._maps.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _mapped(self, name: str, like: Tensor) -> Tensor:
        self._noted[name] = np.zeros(len(like), np.bool_)
        with self._path(name).open("r+b") as file:
            whole = mmap.mmap(file.fileno(), 0)
        if hasattr(mmap, "MADV_RANDOM"):
            whole.madvise(mmap.MADV_RANDOM)  # what lies beside a row will not be wanted next
        self._maps[name] = _Map(whole, like.nbytes // len(like))
        return torch.frombuffer(whole, dtype=like.dtype).view(like.shape)

    def _check_room(self, need: int) -> None:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder.parent).free
        if need > free:
            raise BadInput(
                f"what clients remember takes up to {need / 1e9:,.1f} GB, and {self._folder.parent} has room for "
                f"{free / 1e9:,.1f}: give a larger place by --store, or fewer clients."
            )

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.rows"

    def _notes(self, name: str, round: int) -> Path:
        return self._folder / f"{name}.{round}.notes"


def _read(path: Path, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Notes, one wave after the other. One that was not written to its end is left out: its rows were not touched."""
    if not path.exists():
        return
    each = like.nbytes // len(like)
    with path.open("rb") as file:
        while len(count := file.read(8)) == 8:
            n = int(np.frombuffer(count, np.int64)[0])
            ids, rows = bytearray(file.read(8 * n)), bytearray(file.read(each * n))
            if len(rows) < each * n:
                return
            old = torch.frombuffer(rows, dtype=like.dtype).view(n, *like.shape[1:])
            yield torch.frombuffer(ids, dtype=torch.int64), old


def _sync(file: IO[bytes]) -> None:
    """Wait until the disk has it: nothing that is written later may be there before."""
    file.flush()
    os.fsync(file.fileno())


def _is_zero(rows: Tensor) -> bool:
    """To the bit: a file's holes are read as zeros without a sign."""
    distinct = rows[:1] if rows.stride(0) == 0 else rows
    return not bool(distinct.contiguous().view(torch.uint8).any())
