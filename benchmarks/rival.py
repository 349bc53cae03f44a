"""Frameworks that others wrote, as contenders: installed from PyPI into an environment each, driven from outside.

A rival trains in processes of its own (`rival_drivers/drive_NAME.py`), on data, clients and weights written to a
folder. It stays alive between rounds and trains one when it is told to, so that rivals can take turns; the clock is
ours, and starting up is over before it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import harness
from noniid.experiments.prepare import Ready
from rival_drivers.driver import FILES, checksum

HERE = Path(__file__).resolve().parent
HOMES = HERE / ".rivals"
DRIVERS = HERE / "rival_drivers"
START_SECONDS, ROUND_SECONDS = 180.0, 300.0


@dataclass(frozen=True)
class Rival:
    """How a framework is installed and started."""

    package: str  # names its environment and its driver
    title: str
    packages: tuple[str, ...]  # as PyPI has them
    mode: str = ""  # of the driver
    alone: tuple[str, ...] = ()  # without what they ask for
    launch: tuple[str, ...] = ()  # words between python and the driver
    note: str = ""  # what a reader of the table should know

    @property
    def name(self) -> str:
        return f"{self.package}-{self.mode}" if self.mode else self.package

    @property
    def home(self) -> Path:
        return HOMES / self.package

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def missing(self) -> str | None:
        """Why it cannot be run, if it cannot."""
        if (self.home / "installed").exists():
            return None
        failed = self.home / "failed"
        return failed.read_text().strip() if failed.exists() else "not installed: rivals.py --install"


FEDLAB = Rival(
    "fedlab", "FedLab, 1 process", ("numpy", "pandas", "scikit-learn", "pynvml", "munch", "tqdm"), "standalone",
    alone=("fedlab",),
    note="FedLab runs without torchvision, which only its image data sets use.",
)  # fmt: skip
BLAZEFL = Rival(
    "blazefl", "BlazeFL, threads", ("numpy", "tqdm"), "threads",
    alone=("--ignore-requires-python", "blazefl==2.0.3"),
    note="BlazeFL asks for Python 3.12, and for its threads one without the global lock; it runs on ours.",
)  # fmt: skip
RIVALS = (
    Rival("flower", "Flower", ("flwr[simulation]",), note="Flower looks for messages every 0.1 seconds."),
    Rival(
        "pfl", "pfl", ("pfl",),
        launch=("-m", "torch.distributed.run", "--standalone", "--nproc_per_node={cores}"),
        note="pfl trains with its own loop and takes a client's batches in the same order in every epoch.",
    ),
    FEDLAB,
    replace(FEDLAB, title="FedLab, processes", mode="processes", note=""),
    BLAZEFL,
    replace(BLAZEFL, title="BlazeFL, processes", mode="processes", note=""),
)  # fmt: skip
ABSENT = "Not on PyPI, and therefore not here: NIID-Bench's code, PFLlib, FL-bench."


def install(rival: Rival) -> None:
    """Makes the rival's environment anew, with our version of torch. A failure is kept as its reason."""
    shutil.rmtree(rival.home, ignore_errors=True)
    rival.home.mkdir(parents=True)
    pin = rival.home / "pin.txt"
    pin.write_text(f"torch=={torch.__version__.partition('+')[0]}\n")
    pip = [str(rival.python), "-m", "pip", "install", "--quiet"]
    steps = [
        [sys.executable, "-m", "venv", str(rival.home)],
        [*pip, "--constraint", str(pin), "torch", *rival.packages],
        *([[*pip, "--no-deps", *rival.alone]] if rival.alone else []),
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            (rival.home / "failed").write_text("not installed: " + last_line(done.stderr) + "\n")
            return
    (rival.home / "installed").write_text("")


def write_job(ready: Ready, folder: Path, model: str, cores: int) -> int:
    """All that a driver reads. Returns the checksum that it must answer with."""
    task = ready.task
    train, work = task.dataset.train, task.work
    arrays = [
        train.batch(torch.arange(len(train))).numpy(),
        train.y.numpy(),
        np.concatenate(task.split.indices).astype(np.int64),
        task.split.sizes.astype(np.int64),
        ready.w.numpy(),
    ]
    folder.mkdir(parents=True)
    for name, array in zip(FILES, arrays):
        np.save(folder / f"{name}.npy", array)
    optim = {name: getattr(work.optim, name) for name in ("lr", "momentum", "weight_decay")}
    settings = {
        "model": model,
        "num_classes": task.dataset.num_classes,
        "epochs": work.epochs,
        "batch_size": work.batch_size,
        "cohort": ready.federation.cohort,
        "cores": cores,
        "optim": optim,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return checksum(arrays)


class Process:
    """A rival at work: a contender like any other."""

    def __init__(self, command: list[str], folder: Path, name: str, expected: int):
        self._log = folder / f"{name}.log"
        self._given = folder / f"{name}-w.npy"
        own = {"PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                cwd=folder, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | own,
                start_new_session=True,
            )  # fmt: skip
        try:
            ready = self._answer(START_SECONDS)
            if ready["checksum"] != expected:
                raise harness.Unfair(f"{name} read other data than it was given")
        except BaseException:
            self.close()
            raise
        self.remark: str = ready["ready"]

    @classmethod
    def of(cls, rival: Rival, folder: Path, expected: int, cores: int) -> Process:
        words = [word.format(cores=cores) for word in rival.launch]
        driver = [str(DRIVERS / f"drive_{rival.package}.py"), *([rival.mode] if rival.mode else [])]
        return cls([str(rival.python), *words, *driver], folder, rival.name, expected)

    def round(self) -> int:
        """Trains one round; returns the number of steps of all clients."""
        self._say("round")
        return self._answer(ROUND_SECONDS)["steps"]

    @property
    def w(self) -> Tensor:
        self._say(f"weights {self._given}")
        self._answer(START_SECONDS)
        return torch.from_numpy(np.load(self._given))

    def close(self) -> None:
        """Asks it to end, and ends it if it does not."""
        if self._process.poll() is None:
            self._try(lambda: self._say("stop"))
            self._try(lambda: self._process.wait(20))
        self._try(lambda: os.killpg(self._process.pid, signal.SIGKILL))
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                self._try(pipe.close)

    def _say(self, order: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except OSError:
            raise harness.Broken(self._why()) from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line, which is all that a driver says at a time."""
        out = self._process.stdout
        assert out
        began = time.monotonic()
        if not select.select([out], [], [], seconds)[0]:
            raise harness.Broken(f"no answer in {time.monotonic() - began:.0f} seconds")
        line = out.readline()
        if not line:
            raise harness.Broken(self._why())
        return json.loads(line)

    def _why(self) -> str:
        return "ended: " + last_line(self._log.read_text(errors="replace"))

    @staticmethod
    def _try(act: Callable[[], Any]) -> None:
        with contextlib.suppress(OSError, harness.Broken, subprocess.TimeoutExpired):
            act()


def last_line(text: str) -> str:
    """The last error named, or the last thing said; cut to what fits into a table."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    errors = [line for line in lines if "Error: " in line or "ERROR: " in line]
    return ([*lines, *errors] or ["it said nothing"])[-1][:90]
