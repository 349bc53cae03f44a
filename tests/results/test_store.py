"""The store: rows under keys, whole files, one process for a run, and refusals in one sentence."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from noniid.errors import BadInput
from noniid.results.store import STORE_VERSION, Store

KEY = "0123456789ab"
ROUND = {
    "accuracy": 0.5,
    "test_loss": 1.0,
    "train_loss": 1.5,
    "worst_client_accuracy": 0.25,
    "train_samples": 100,
    "train_seconds": 0.1,
    "seconds": 0.2,
    "bytes_per_client": 800.0,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def _sql(store: Store, text: str, *values: Any) -> list[Any]:
    with sqlite3.connect(store.folder / "runs.sqlite") as other:
        found = other.execute(text, values).fetchall()
    other.close()
    return found


@pytest.fixture
def living() -> Iterator[int]:
    """The number of a process that lives and is not this one."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process.pid
    process.communicate()


def _dead() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# Runs


def test_a_run_begins_and_ends(store: Store) -> None:
    assert store.find(KEY) is None
    store.begin(KEY, {"data": "digits", "rounds": 3}, {"torch": "2"})
    run = store.find(KEY)
    assert run is not None
    assert (run.status, run.reason, run.pid, run.ended) == ("running", None, os.getpid(), None)
    assert (run.experiment, run.setting, run.summary) == ({"data": "digits", "rounds": 3}, {"torch": "2"}, {})
    store.end(KEY, "diverged", {"accuracy": None}, "the loss is not finite")
    run = store.find(KEY)
    assert run is not None
    assert (run.status, run.reason, run.pid, run.summary) == (
        "diverged",
        "the loss is not finite",
        None,
        {"accuracy": None},
    )
    assert run.ended is not None and run.ended >= run.started


def test_beginning_again_forgets_how_it_ended_and_keeps_when_it_started(store: Store) -> None:
    store.begin(KEY, {}, {"workers": 1})
    first = store.find(KEY)
    store.end(KEY, "failed", {"rounds": 0}, "no such file")
    store.begin(KEY, {}, {"workers": 2})
    again = store.find(KEY)
    assert first is not None and again is not None
    assert (again.status, again.reason, again.summary, again.ended) == ("running", None, {}, None)
    assert (again.started, again.setting) == (first.started, {"workers": 2})


def test_runs_are_listed_oldest_first_and_survive_reopening(store: Store) -> None:
    for key in ("b", "c", "a"):
        store.begin(key, {}, {})
    store.close()
    again = Store(store.folder)
    assert [run.key for run in again.runs()] == ["b", "c", "a"]
    again.close()


def test_a_run_that_another_living_process_holds_is_refused(store: Store, living: int) -> None:
    store.begin(KEY, {}, {})
    _sql(store, "UPDATE runs SET pid = ?", living)
    assert store.begin(KEY, {}, {}) is False
    assert store.begin("other", {}, {}) is True  # the refusal has left no transaction behind
    found = store.find(KEY)
    assert found is not None and found.pid == living


def test_a_run_whose_process_died_is_claimed_anew(store: Store) -> None:
    store.begin(KEY, {}, {})
    _sql(store, "UPDATE runs SET pid = ?", _dead())
    store.begin(KEY, {}, {})
    found = store.find(KEY)
    assert found is not None and found.pid == os.getpid()


def test_an_ended_run_is_held_by_nobody(store: Store, living: int) -> None:
    store.begin(KEY, {}, {})
    store.end(KEY, "stopped", {})
    _sql(store, "UPDATE runs SET pid = ?", living)
    store.begin(KEY, {}, {})


# Rounds


def test_rounds_come_back_in_order_and_the_last_writing_counts(store: Store) -> None:
    store.begin(KEY, {}, {})
    for number in (2, 1, 3):
        store.add_round(KEY, {"round": number, **ROUND})
    store.add_round(KEY, {"round": 2, **ROUND, "accuracy": None})
    rows = store.rounds(KEY)
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert {name: rows[0][name] for name in ("round", *ROUND)} == {"round": 1, **ROUND}
    assert rows[1]["accuracy"] is None
    assert store.rounds("other") == []


def test_rounds_after_a_checkpoint_are_forgotten_for_that_run_only(store: Store) -> None:
    for key in ("a", "b"):
        store.begin(key, {}, {})
        for number in (1, 2, 3):
            store.add_round(key, {"round": number, **ROUND})
    store.forget_after("a", 1)
    assert [row["round"] for row in store.rounds("a")] == [1]
    assert [row["round"] for row in store.rounds("b")] == [1, 2, 3]


def test_another_connection_reads_while_this_one_writes(store: Store) -> None:
    assert _sql(store, "PRAGMA journal_mode") == [("wal",)]
    store.begin(KEY, {}, {})
    reader = Store(store.folder)
    store._db.execute("BEGIN IMMEDIATE")
    assert [run.key for run in reader.runs()] == [KEY]
    store._db.execute("ROLLBACK")
    reader.close()


# Models


def test_tensors_come_back_to_the_bit_with_their_round(store: Store) -> None:
    assert store.load(KEY) is None
    tensors = {"w": torch.randn(5), "memory.c": torch.randn(7).expand(3, -1), "count": torch.tensor(3)}
    store.save(KEY, tensors, 4)
    found = store.load(KEY)
    assert found is not None
    loaded, number = found
    assert number == 4 and loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert loaded["memory.c"].stride(0) == 7  # every client has a row of its own again


def test_saving_replaces_the_file_in_one_step(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(KEY, {"w": torch.zeros(3)}, 1)
    replaced: list[tuple[Path, Path]] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        found = store.load(KEY)  # whole and old until the very last moment
        assert found is not None and found[1] == 1
        replaced.append((self, target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    store.save(KEY, {"w": torch.ones(3)}, 2)
    found = store.load(KEY)
    assert found is not None and found[1] == 2
    assert len(replaced) == 1
    assert [path.name for path in (store.folder / "models").iterdir()] == [f"{KEY}.safetensors"]


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x10\0\0\0\0\0\0\0{}", None])
def test_a_damaged_model_file_is_refused_in_one_sentence(store: Store, content: bytes | None) -> None:
    path = store.folder / "models" / f"{KEY}.safetensors"
    store.save(KEY, {"w": torch.zeros(1000)}, 1)
    path.write_bytes(path.read_bytes()[:500] if content is None else content)
    with pytest.raises(BadInput, match=r"is damaged \(.*\): delete it to train that run anew\.$"):
        store.load(KEY)


def test_a_model_file_of_another_maker_is_refused(store: Store) -> None:
    from safetensors.torch import save_file

    save_file({"w": torch.zeros(2)}, store.folder / "models" / f"{KEY}.safetensors")
    with pytest.raises(BadInput, match="is damaged"):
        store.load(KEY)


# Places that are no store


def test_a_store_of_an_older_format_is_brought_up_to_this_one(store: Store) -> None:
    store.begin(KEY, {}, {})
    store.add_round(KEY, {"round": 1, **ROUND})
    _sql(store, "ALTER TABLE rounds DROP COLUMN worst_decile_accuracy")
    _sql(store, "PRAGMA user_version=1")
    again = Store(store.folder)
    assert again.rounds(KEY)[0]["accuracy"] == ROUND["accuracy"]
    again.add_round(KEY, {"round": 2, **ROUND, "worst_decile_accuracy": 0.5})
    assert [row["worst_decile_accuracy"] for row in again.rounds(KEY)] == [None, 0.5]


@pytest.mark.parametrize("version", [STORE_VERSION + 1, 99])
def test_a_store_of_another_version_is_refused(store: Store, version: int) -> None:
    _sql(store, f"PRAGMA user_version={version}")
    with pytest.raises(BadInput, match=f"has format {version} and this noniid writes format {STORE_VERSION}"):
        Store(store.folder)


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "runs.sqlite") as other:
        other.execute("CREATE TABLE birds (name TEXT)")
    other.close()
    with pytest.raises(BadInput, match="give another place by --store"):
        Store(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").write_text("birds\n" * 100)
    with pytest.raises(BadInput, match=r"runs\.sqlite is not a noniid store: give another place by --store\.$"):
        Store(tmp_path)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"^cannot write the store .*Give another place by --store\.$"):
        Store(tmp_path / "file" / "store")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "runs.sqlite").mkdir()
    with pytest.raises(BadInput, match="^cannot write the store"):
        Store(tmp_path / "taken")


def test_a_model_that_cannot_be_written_is_told_in_one_sentence(store: Store) -> None:
    path = store.folder / "models" / f"{KEY}.safetensors"
    path.mkdir()
    with pytest.raises(BadInput, match=f"^cannot write .*{KEY}"):
        store.save(KEY, {"w": torch.zeros(2)}, 1)


def test_many_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    def opens(number: int) -> int:
        Store(tmp_path / str(number // 6)).close()
        return number

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(opens, range(30))) == list(range(30))


def test_a_foreign_database_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(BadInput, match="has format 0"):
        Store(tmp_path)
    assert path.read_bytes() == before
