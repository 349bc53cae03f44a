"""The Ray cluster of this process: joined where one runs, else started here."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noniid.engine.cluster import Cluster, last_line
from noniid.errors import BadInput

PROBE_SECONDS = 3.0

_known: list[Cluster] = []


def cluster(workers: int | None = None) -> Cluster:
    """This process's cluster with at least so many workers, by default with one for each processor."""
    try:
        import ray
    except ImportError:
        raise BadInput("the ray engine needs the package ray: pip install 'noniid[ray]'.") from None
    if not _known or not ray.is_initialized():
        _known[:] = [_connected(ray)]
    _known[0].ensure(workers or _known[0].size)
    return _known[0]


def _connected(ray: Any) -> Cluster:
    """To RAY_ADDRESS, or what `ray start` has started here, or a cluster of our own."""
    joined = ray.is_initialized()
    if not joined:
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # what matters is raised
        with _same_signals():
            joined = _begun(ray)
    return Cluster(ray, ray.cluster_resources().get("CPU", 1), joined)


def _begun(ray: Any) -> bool:
    """Whether there was a cluster to join."""
    quiet = {"log_to_driver": False, "configure_logging": False}
    told = os.environ.get("RAY_ADDRESS", "")
    joins = told not in ("", "auto", "local") or (told != "local" and _left_here())
    try:
        if told.startswith("ray://"):
            raise ValueError("noniid runs on a machine of the cluster, not as a client of it")
        if told not in ("", "auto", "local"):
            _probe(told)
        # Whoever joins cannot say how many processors there are; on our own we ask for as many as we like.
        ray.init(**quiet) if joins else ray.init("local", num_cpus=0, include_dashboard=False, **quiet)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise BadInput(
            f"cannot reach a Ray cluster ({last_line(error)}): see docs/many-machines.md, or unset RAY_ADDRESS to have "
            "one started here."
        ) from None
    return joins


def _left_here() -> bool:
    """Whether the cluster that `ray start` has left word of is alive: Ray would wait minutes for one that is not."""
    word = Path(os.environ.get("RAY_TMPDIR") or "/tmp", "ray", "ray_current_cluster")
    try:
        _probe(word.read_text().strip())
    except (OSError, ValueError):
        return False
    return True


def _probe(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise ValueError(f"{address!r} is no address: give host:port")
    try:
        socket.create_connection((host, int(port)), PROBE_SECONDS).close()
    except OSError:
        raise ConnectionError(f"nobody answers at {address}") from None


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Ray takes over SIGTERM; who asks us to stop wants the state of the last round kept."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread: nothing was taken over
            signal.signal(signal.SIGTERM, before)
