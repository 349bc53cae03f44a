"""How fast each engine trains a model here: measured once in well under a second, and kept in the cache folder.

What is measured depends on shapes only, so samples are drawn. The answer is kept by model, batch, device, machine and
versions: whoever asks again is told at once, and told the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import noniid
from noniid.algorithms import Federation
from noniid.algorithms.fedprox import FedProx
from noniid.data import Dataset, Samples, cache_dir
from noniid.engine.base import Engine
from noniid.engine.simulate import Schedule, begin, simulate
from noniid.engine.task import Task, Work
from noniid.optim import SGD
from noniid.rows import Layout
from noniid.split import Split

SWITCH = "NONIID_CALIBRATE"  # set to 0, nothing is measured
CLIENTS, BATCHES = 8, 4  # of a trial
TRIED = FedProx()  # it corrects gradients; where nothing happens between the steps, engines are alike
SECONDS = 0.12  # of each engine's trial, after a round that warms up
FILE = "engine-speed.json"

Rates = dict[str, float]  # training samples a second by engine


def rates(
    engines: dict[str, Callable[..., Engine]], module: nn.Module, shape: tuple[int, ...], num_classes: int,
    where: tuple[str, int],
) -> Rates | None:  # fmt: skip
    """Samples a second of each of these engines; `where` is the device and the batch size. None if switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    path, key = cache_dir() / FILE, _key(sorted(engines), module, (shape, num_classes), where)
    known = _read(path)
    if key not in known:
        try:
            known[key] = _measured(engines, module, shape, num_classes, where)
        except Exception:  # a model of one's own that cannot take a step will say so when it is trained
            return None
        _write(path, {**_read(path), key: known[key]})
    return known[key]


def _key(engines: list[str], module: nn.Module, *more: Any) -> str:
    """A model by what it is made of, a machine by its processors."""
    device = torch.device(more[-1][0])
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    machine = [platform.system(), platform.machine(), _processor(), os.cpu_count(), len(_allowed()), chip]
    made_of = [type(module).__qualname__, repr(module), Layout.of(module).size]
    text = json.dumps([noniid.__version__, torch.__version__, machine, made_of, engines, more])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _allowed() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _measured(
    engines: dict[str, Callable[..., Engine]], module: nn.Module, shape: tuple[int, ...], num_classes: int,
    where: tuple[str, int],
) -> Rates:  # fmt: skip
    task = _task(module, shape, num_classes, *where)
    return {name: _rate(start(task)) for name, start in engines.items()}


def _task(module: nn.Module, shape: tuple[int, ...], num_classes: int, device: str, batch: int) -> Task:
    number = CLIENTS * BATCHES * batch
    draws = torch.Generator().manual_seed(0)
    image = len(shape) == 3
    x = torch.randint(0, 256, (number, *shape), generator=draws, dtype=torch.uint8)
    samples = Samples(x if image else x / 255, torch.arange(number) % num_classes, 255.0 if image else 1.0)
    held = Split(tuple(np.split(np.arange(number), CLIENTS)))
    dataset = Dataset("trial", samples, samples, num_classes, "none")
    return Task(dataset, held, module, Work(1, batch, SGD(1e-6)), 0, device)


def _rate(engine: Engine) -> float:
    task = engine.task
    w = Layout.of(task.model).pack(task.model).to(task.device)
    members = Federation(CLIENTS, CLIENTS, lambda: w, None, engine.ask)
    never = Schedule(10**9, CLIENTS, 10**9)
    samples, began = 0, None
    try:
        for done in simulate(engine, TRIED, begin(TRIED, w, members), members, never):
            if torch.device(task.device).type == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            if began is None:  # the first one warms up
                began = now
                continue
            samples += done.train_samples
            if now - began > SECONDS:
                return samples / (now - began)
    finally:
        engine.close()
    raise AssertionError("an endless run ended")


def _read(path: Path) -> dict[str, Rates]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, rates: dict[str, Rates]) -> None:
    """At once or not at all; without a cache folder to write to, it is measured again next time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(rates, indent=1))
        draft.replace(path)
