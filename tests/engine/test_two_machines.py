"""Two Ray nodes on this machine, one of which dies in the middle of a wave; and a cluster that `ray start` started."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import TINY, call

DYING = """
    import os, sys, threading, time
    from pathlib import Path
    from dataclasses import dataclass

    from ray.cluster_utils import Cluster

    from noniid.algorithms.base import Algorithm
    from noniid.algorithms.fedavg import FedAvg
    from noniid.engine.connect import cluster
    from noniid.laws import problems

    folder = Path(sys.argv[1])

    @dataclass(frozen=True)
    class Slow(Algorithm):  # FedAvg, and tells who is at work
        def grad(self, g, local):
            (folder / os.environ["RAY_NODE_ID"] if "RAY_NODE_ID" in os.environ else folder / str(os.getpid())).touch()
            time.sleep(0.02)
            return g

    if __name__ == "__main__":
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        second = nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        os.environ["RAY_ADDRESS"] = nodes.address
        known = problems.run(FedAvg(), problems.task(), rounds=2)
        assert cluster().size == 2

        def die():
            while len(list(folder.iterdir())) < 2:  # both are at work
                time.sleep(0.01)
            nodes.remove_node(second, allow_graceful=False)

        threading.Thread(target=die, daemon=True).start()
        found = problems.run(Slow(), problems.task(), rounds=2, engine="ray")
        problems.same(known[-1].state, found[-1].state)
        print("same")
        nodes.shutdown()
"""


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Ray leaves word of what it starts, which is nobody else's business. The names of its sockets must be short."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    yield {**os.environ, "RAY_TMPDIR": folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_the_run_goes_on_when_a_node_dies(tmp_path: Path, environment: dict[str, str]) -> None:
    """And to the same bits, on what is left."""
    script, seen = tmp_path / "dying.py", tmp_path / "seen"
    script.write_text(textwrap.dedent(DYING))
    seen.mkdir()
    found = subprocess.run(
        [sys.executable, str(script), str(seen)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=environment,
    )
    assert "same" in found.stdout.split(), found.stdout + found.stderr
    assert len(list(seen.iterdir())) >= 2


@pytest.mark.slow
def test_the_command_joins_a_cluster_that_is_there(tmp_path: Path, environment: dict[str, str]) -> None:
    """As on several machines: the address is told by RAY_ADDRESS. (`ray stop` would stop everybody's.)"""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    start = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", f"--port={port}", "--num-cpus=2"]
    start += ["--include-dashboard=false", "--disable-usage-stats"]
    words = ["run", *map(str, TINY), "--json", "--engine", "ray", "--store"]
    address = f"127.0.0.1:{port}"
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as head:
        try:
            assert head.stdout and any("runtime started" in line for line in head.stdout)
            joined = _noniid(environment, *words, str(tmp_path / "a"), address=address)
            more = _noniid(environment, *words, str(tmp_path / "b"), "--workers", "3", address="")  # it has left word
        finally:
            head.terminate()
    gone = _noniid(environment, *words, str(tmp_path / "b"), address=address)
    own = _noniid(environment, *words, str(tmp_path / "b"), "--workers", "3", address="")
    assert (joined.returncode, joined.stderr) == (own.returncode, own.stderr) == (0, "")
    assert more.stderr.endswith("the Ray cluster has 2 processors: ask for as many workers, not 3.\n")
    assert gone.stderr.startswith(f"noniid: cannot reach a Ray cluster (nobody answers at {address}): ")
    assert len(gone.stderr.splitlines()) == 1
    accuracies = [
        json.loads(each.stdout)["accuracy"]
        for each in (joined, own, call("run", *TINY, "--json", "--store", tmp_path / "c"))
    ]
    assert len(set(accuracies)) == 1


def _noniid(environment: dict[str, str], *words: str, address: str) -> subprocess.CompletedProcess[str]:
    command, changed = [sys.executable, "-m", "noniid", *words], {**environment, "RAY_ADDRESS": address}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=changed)
