"""Engines: `train(algorithm, wave) -> wave`, and the round loop around it."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from noniid.engine.base import Engine
from noniid.engine.batched import Batched
from noniid.engine.calibrate import Rates, rates
from noniid.engine.carry import Carry
from noniid.engine.choice import AUTO, Choice, choose
from noniid.engine.device import settle
from noniid.engine.evaluate import Evaluation, evaluate, mixes_of
from noniid.engine.jointly import Cell, simulate_each, simulate_together
from noniid.engine.on_ray import OnRay
from noniid.engine.precision import PRECISIONS, Precision, set_gpu_products
from noniid.engine.reference import Reference
from noniid.engine.replica import Stopped
from noniid.engine.simulate import Diverged, Round, Schedule, begin, cohort_size, simulate
from noniid.engine.task import Augment, BatchNorm, Task, Work
from noniid.engine.threads import Threads
from noniid.errors import unknown

ENGINES: dict[str, Callable[..., Engine]] = {
    "threads": Threads,
    "batched": Batched,
    "ray": OnRay,
    "reference": Reference,
}

# Engines whose numbers are another's to the bit: a run of theirs is that one's run, and is never trained twice.
SAME_NUMBERS = {"ray": "threads"}


def measured(module: nn.Module, shape: tuple[int, ...], num_classes: int, device: str, batch: int) -> Rates | None:
    """Samples a second of the engines that `auto` chooses from, on this machine; None where that is switched off."""
    candidates: dict[str, Callable[..., Engine]] = {"threads": Threads, "batched": Batched}
    return rates(candidates, module, shape, num_classes, (device, batch))


def start_engine(name: str, task: Task, workers: int | None = None) -> Engine:
    """An engine by name; close it when done."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    set_gpu_products(task.precision)
    settle(task.device)
    return ENGINES[name](task, workers)


__all__ = [
    "AUTO",
    "ENGINES",
    "PRECISIONS",
    "SAME_NUMBERS",
    "Augment",
    "BatchNorm",
    "Batched",
    "Carry",
    "Cell",
    "Choice",
    "Diverged",
    "Engine",
    "Evaluation",
    "OnRay",
    "Precision",
    "Reference",
    "Round",
    "Schedule",
    "Stopped",
    "Task",
    "Threads",
    "Work",
    "begin",
    "choose",
    "cohort_size",
    "evaluate",
    "measured",
    "mixes_of",
    "simulate",
    "simulate_each",
    "simulate_together",
    "start_engine",
]
