"""Ctrl-C ends a run with one sentence, and the same command goes on to the same numbers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from noniid.results.store import Store
from tests.cli import TINY, call


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["threads", "ray"])
def test_ctrl_c_stops_and_the_same_command_goes_on(tmp_path: Path, engine: str) -> None:
    """A terminal tells everyone whom the command has started."""
    long = ("run", *TINY[:-4], "--rounds", 60, "--epochs", 1, "--algorithm", "scaffold", "--json", "--engine", engine)
    long = (*long, "--store")
    words = [sys.executable, "-m", "noniid", *map(str, long), str(tmp_path / "stopped")]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _wait_for_rounds(process, tmp_path / "stopped" / "runs.sqlite", 3)
            os.killpg(process.pid, signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, stderr) == (130, "Stopped. The same command goes on from here.\n")
    [stopped] = map(json.loads, stdout.splitlines())
    assert stopped["status"] == "stopped"
    assert 3 <= stopped["rounds"] < 60

    resumed = call(*long, tmp_path / "stopped")
    assert f"goes on after round {stopped['rounds']}" in resumed.stderr
    found, straight = json.loads(resumed.stdout), json.loads(call(*long, tmp_path / "straight").stdout)
    same = ("run", "status", "rounds", "accuracy", "best_accuracy", "best_round", "worst_client_accuracy")
    assert [found[name] for name in same] == [straight[name] for name in same]
    stores = (Store(tmp_path / "stopped"), Store(tmp_path / "straight"))
    courses = [[row["train_loss"] for row in store.rounds(found["run"])] for store in stores]
    assert courses[0] == courses[1]


def _wait_for_rounds(process: subprocess.Popen[str], path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if _rounds(path) >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"the run did not come to round {count}: {process.poll()}")


def _rounds(path: Path) -> int:
    """How many a store holds that another process may be about to make."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        try:
            return store.execute("SELECT count(*) FROM rounds").fetchone()[0]
        except sqlite3.OperationalError:
            return 0
