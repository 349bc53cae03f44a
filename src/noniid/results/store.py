"""The store: a folder with one SQLite file and the models beside it. Results are rows, failures are results.

Each run has a row under its key, a row per round, a checkpoint while it is under way and its final model afterwards
(safetensors; no pickle is ever written or read). Rounds are written before the checkpoint that covers them, so
whatever moment a process dies at, the checkpoint's round is the truth and later rows are dropped on resume.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noniid.errors import BadInput

STORE_VERSION = 2

_SCHEMA = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY,
    experiment TEXT NOT NULL,   -- JSON, complete
    status TEXT NOT NULL,       -- running, stopped, done, diverged or failed
    reason TEXT,                -- why not done
    summary TEXT,               -- JSON, once ended
    setting TEXT NOT NULL,      -- JSON: versions, workers, machine
    pid INTEGER,                -- of the process at work on it
    started REAL NOT NULL,
    ended REAL
);
CREATE TABLE rounds (
    key TEXT NOT NULL REFERENCES runs(key) ON DELETE CASCADE,
    round INTEGER NOT NULL,
    accuracy REAL, test_loss REAL, train_loss REAL, worst_client_accuracy REAL, worst_decile_accuracy REAL,
    train_samples INTEGER, train_seconds REAL, seconds REAL, bytes_per_client REAL,
    PRIMARY KEY (key, round)
) WITHOUT ROWID;
"""

# What makes a store of one format one of the next.
_STEPS = {1: "ALTER TABLE rounds ADD COLUMN worst_decile_accuracy REAL"}

ENDED = ("done", "diverged")


@dataclass(frozen=True)
class Run:
    """One row of the store."""

    key: str
    experiment: Mapping[str, Any]
    status: str
    reason: str | None
    summary: Mapping[str, Any]
    setting: Mapping[str, Any]
    pid: int | None
    started: float
    ended: float | None


class Store:
    """Opens the folder, makes it if it is not there."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        try:
            (self.folder / "models").mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.folder / "runs.sqlite", timeout=60, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._open()
        except (OSError, sqlite3.OperationalError) as error:
            raise BadInput(f"cannot write the store {self.folder}: {error}. Give another place by --store.") from None
        except sqlite3.DatabaseError:
            path = self.folder / "runs.sqlite"
            raise BadInput(f"{path} is not a noniid store: give another place by --store.") from None

    def _open(self) -> None:
        """Make the tables of a new store, in one transaction: of several processes one does, the others find them."""
        if self._version() == 0:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                if self._version() == 0 and not self._db.execute("SELECT name FROM sqlite_master").fetchall():
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version={STORE_VERSION}")
            finally:
                self._db.execute("COMMIT")
        self._renew()
        if self._version() != STORE_VERSION:
            raise BadInput(
                f"the store {self.folder} has format {self._version()} and this noniid writes format {STORE_VERSION}: "
                "give another place by --store."
            )
        self._wal()
        self._db.execute("PRAGMA synchronous=NORMAL")

    def _renew(self) -> None:
        """Bring a store of an older format up to this one; nothing in it is lost."""
        while self._version() in _STEPS:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                version = self._version()  # another process may have been faster
                if version in _STEPS:
                    self._db.execute(_STEPS[version])
                    self._db.execute(f"PRAGMA user_version={version + 1}")
            finally:
                self._db.execute("COMMIT")

    def _wal(self) -> None:
        """Readers and a writer side by side. The switch needs the file for itself for a moment, and does not wait."""
        for _ in range(100):
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError:  # another process is switching
                time.sleep(0.05)

    def _version(self) -> int:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def close(self) -> None:
        self._db.close()

    # Runs

    def find(self, key: str) -> Run | None:
        row = self._db.execute("SELECT * FROM runs WHERE key = ?", (key,)).fetchone()
        return _run(row) if row else None

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return [_run(row) for row in self._db.execute("SELECT * FROM runs ORDER BY started, key")]

    def begin(self, key: str, experiment: Mapping[str, Any], setting: Mapping[str, Any]) -> bool:
        """Claim a run, new or left unfinished; False while another living process holds it."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            run = self.find(key)
            if run and run.status == "running" and run.pid != os.getpid() and _alive(run.pid):
                self._db.execute("ROLLBACK")
                return False
            self._db.execute(
                "INSERT INTO runs (key, experiment, status, setting, pid, started) VALUES (?, ?, 'running', ?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET status = 'running', reason = NULL, summary = NULL, "
                "setting = excluded.setting, pid = excluded.pid, ended = NULL",
                (key, json.dumps(experiment), json.dumps(setting), os.getpid(), time.time()),
            )
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return True

    def end(self, key: str, status: str, summary: Mapping[str, Any], reason: str | None = None) -> None:
        self._db.execute(
            "UPDATE runs SET status = ?, reason = ?, summary = ?, pid = NULL, ended = ? WHERE key = ?",
            (status, reason, json.dumps(summary), time.time(), key),
        )

    # Rounds

    def add_round(self, key: str, values: Mapping[str, Any]) -> None:
        names = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        self._db.execute(f"INSERT OR REPLACE INTO rounds (key, {names}) VALUES (?, {marks})", (key, *values.values()))

    def rounds(self, key: str) -> list[dict[str, Any]]:
        found = self._db.execute("SELECT * FROM rounds WHERE key = ? ORDER BY round", (key,))
        return [{name: value for name, value in dict(row).items() if name != "key"} for row in found]

    def forget_after(self, key: str, round: int) -> None:
        self._db.execute("DELETE FROM rounds WHERE key = ? AND round > ?", (key, round))

    # Models

    def save(self, key: str, tensors: Mapping[str, Any], round: int) -> None:
        """Replace the run's tensors in one step: a reader finds the old file or the new one, both whole."""
        from safetensors.torch import save_file

        path = self._path(key)
        partial = path.with_suffix(".part")  # one process at a time holds a run
        try:
            save_file(
                {name: t.cpu().contiguous().clone() for name, t in tensors.items()},
                partial,
                metadata={"round": str(round)},
            )
            _on_disk(partial)
            partial.replace(path)
            _on_disk(path.parent)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error}.") from None

    def load(self, key: str) -> tuple[dict[str, Any], int] | None:
        """The run's tensors and the round they belong to."""
        from safetensors import SafetensorError, safe_open

        path = self._path(key)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
                return {name: file.get_tensor(name) for name in file.keys()}, int(file.metadata()["round"])  # noqa: SIM118
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise BadInput(f"{path} is damaged ({error}): delete it to train that run anew.") from None

    def memory_folder(self, key: str) -> Path:
        """Where what a run's clients remember is kept while it is under way, if a checkpoint cannot hold it."""
        return self.folder / "models" / f"{key}.memory"

    def _path(self, key: str) -> Path:
        return self.folder / "models" / f"{key}.safetensors"


def _run(row: sqlite3.Row) -> Run:
    values = dict(row)
    for name in ("experiment", "summary", "setting"):
        values[name] = json.loads(values[name] or "{}")
    return Run(**values)


def _on_disk(path: Path) -> None:
    """Wait until a file's contents, or a folder's names, would outlive a loss of power."""
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _alive(pid: int | None) -> bool:
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
