"""What holds on a GPU for every engine."""

from __future__ import annotations

import torch


def settle(device: str) -> None:
    """Of the ways to convolve those that give the same bits every time: cuDNN would pick by who comes first."""
    if torch.device(device).type == "cuda":
        torch.backends.cudnn.deterministic = True
