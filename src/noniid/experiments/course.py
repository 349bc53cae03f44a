"""What is kept of a run: a row for each round, a state as tensors, what all rounds come to, how it ended."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noniid.algorithms import State
from noniid.engine import Diverged, Round, Stopped
from noniid.errors import BadInput
from noniid.experiments.prepare import Ready


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rounds come to; accuracy is the final round's, whatever came before."""
    judged = [row for row in rounds if row["accuracy"] is not None]
    samples = sum(row["train_samples"] for row in rounds)
    train_seconds = sum(row["train_seconds"] for row in rounds)
    best = max(judged, key=lambda row: row["accuracy"], default=None)  # the first of equals
    return {
        "rounds": len(rounds),
        "accuracy": judged[-1]["accuracy"] if judged else None,
        "best_accuracy": best["accuracy"] if best else None,
        "best_round": best["round"] if best else None,
        "worst_client_accuracy": judged[-1]["worst_client_accuracy"] if judged else None,
        "worst_decile_accuracy": judged[-1]["worst_decile_accuracy"] if judged else None,
        "bytes_per_client_round": rounds[-1]["bytes_per_client"] if rounds else None,
        "train_samples_per_second": samples / train_seconds if train_seconds else None,
        "seconds": sum(row["seconds"] for row in rounds),
        "peak_memory_mb": peak_memory_mb(),
    }


def peak_memory_mb() -> float:
    """Of this process so far; a maximum, so earlier runs in the same process count too."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def row_of(done: Round, ready: Ready, seconds: float) -> dict[str, Any]:
    worst = _worst_decile(done.evaluation.by_client(ready.mixes)) if done.evaluation else None
    return {
        "round": done.round,
        "accuracy": done.evaluation.accuracy if done.evaluation else None,
        "test_loss": done.evaluation.loss if done.evaluation else None,
        "train_loss": done.train_loss,
        "worst_client_accuracy": None if worst is None else float(worst[0]),
        "worst_decile_accuracy": None if worst is None else float(worst.mean()),
        "train_samples": done.train_samples,
        "train_seconds": done.train_seconds,
        "seconds": seconds,
        "bytes_per_client": done.bytes_per_client,
    }


def _worst_decile(accuracies: Tensor) -> Tensor:
    """The lowest tenth of the clients' accuracies [N], lowest first, without sorting the rest of a large population."""
    last = math.ceil(len(accuracies) / 10) - 1
    return torch.from_numpy(np.sort(np.partition(accuracies.numpy(), last)[: last + 1]))


def tensors_of(state: State) -> dict[str, Tensor]:
    server = {f"server.{name}": tensor for name, tensor in state.server.items()}
    memory = {f"memory.{name}": tensor for name, tensor in state.memory.items()}
    return {"w": state.w, **server, **memory}


def state_of(tensors: Mapping[str, Tensor], round: int) -> State:
    """The state that was kept as these tensors."""
    return State(tensors["w"], _part(tensors, "server."), _part(tensors, "memory."), round)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def ending(error: Exception) -> tuple[str, str]:
    """What a run that ended with this error is called, and why."""
    if isinstance(error, Stopped):
        return "stopped", "stopped by the user; the same command goes on from here"
    if isinstance(error, Diverged):
        return "diverged", str(error)
    return "failed", str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
