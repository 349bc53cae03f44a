"""Random crops and flips of whole batches."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

PAD = 4


def crop_flip(x: Tensor, generator: torch.Generator) -> Tensor:
    """Reflect-pad by 4, crop back at a random place, flip left-right half of the time: `[B, C, H, W]`.

    Every image gets its own place and coin, by one gather for the whole batch.
    """
    b, _, h, w = x.shape
    padded = F.pad(x, (PAD, PAD, PAD, PAD), mode="reflect")
    top = torch.randint(0, 2 * PAD + 1, (b, 1), generator=generator)
    left = torch.randint(0, 2 * PAD + 1, (b, 1), generator=generator)
    flip = torch.rand((b, 1), generator=generator) < 0.5
    rows = top + torch.arange(h)
    columns = left + torch.where(flip, torch.arange(w - 1, -1, -1), torch.arange(w))
    image = torch.arange(b)[:, None, None]
    return padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
