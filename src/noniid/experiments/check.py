"""What can be refused before anything is loaded or stored."""

from __future__ import annotations

import torch

from noniid.engine import PRECISIONS, cohort_size
from noniid.errors import BadInput, unknown
from noniid.experiments.experiment import Experiment

MOST = 2**31  # of anything that is counted


def check(experiment: Experiment) -> None:
    """Raises BadInput with one sentence for values that no data could make sense of."""
    counted = ("rounds", "epochs", "batch", "eval_every", "clients")
    for name in counted[: -1 if experiment.split.placement.own_count else None]:
        value = getattr(experiment, name)
        if value is None:
            raise BadInput(f"{experiment.split} does not know how many clients there are: give {name}.")
        if value < 1:
            raise BadInput(f"{name} is {value}: give 1 or more.")
        if value > MOST:
            raise BadInput(f"{name} is {value:,}: that is more than anyone can wait for.")
    if experiment.steps is not None and not 1 <= experiment.steps <= MOST:
        raise BadInput(f"steps is {experiment.steps}: give 1 or more, or leave it out and say epochs.")
    if not 0 < experiment.lr_decay <= 1:
        raise BadInput(f"lr_decay is {experiment.lr_decay:g}: give a factor above 0, up to 1 (no decay).")
    _check_seed(experiment)
    cohort_size(experiment.clients or 1, experiment.participation)
    experiment.optim.check()
    experiment.wrap.check()
    experiment.split.placement.check()
    for shift in experiment.split.shifts:
        shift.check()
    _check_device(experiment.device)
    _check_precision(experiment)


def check_workers(workers: int | None) -> None:
    if workers is not None and workers < 1:
        raise BadInput(f"workers is {workers}: give 1 or more.")


def _check_seed(experiment: Experiment) -> None:
    most = 2**32 if experiment.draws == "published" else 2**63  # the legacy streams take 32 bits
    if not 0 <= experiment.seed < most:
        raise BadInput(f"seed is {experiment.seed}: give a whole number from 0 to below 2^{most.bit_length() - 1}.")


def _check_precision(experiment: Experiment) -> None:
    if experiment.precision not in PRECISIONS:
        raise unknown("precision", experiment.precision, PRECISIONS)
    if experiment.precision == "tf32" and not experiment.device.startswith("cuda"):
        raise BadInput("tf32 is how NVIDIA's GPUs multiply: use float32 or bf16, or --device cuda.")


def _check_device(device: str) -> None:
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise BadInput(f"unknown device {device!r}: use cpu or cuda.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"device {device!r} was asked for and torch sees no GPU here: use --device cpu.")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise BadInput(f"there is no device {device!r}: torch sees {torch.cuda.device_count()} GPUs.")
