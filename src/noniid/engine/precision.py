"""In what precision the passes of a local step are computed.

Models, gradients, optimisers, the server's mean, what clients are asked and the evaluation are float32 throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args

import torch

from noniid.algorithms import Output
from noniid.models import plain_operations

# float32: IEEE, on a GPU too. tf32: a GPU's products round their factors to 10 bits of mantissa. bf16: products and
# convolutions take and give 16 bits, 7 of them mantissa.
Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Said(Protocol):
    """What a model, called with these arguments, says."""

    def __call__(self, model: Callable[..., Any], /, *arguments: Any) -> Output: ...


def said_in(precision: Precision, device: str) -> Said:
    """How to call a model in this precision; the answer is float32, and so is the loss."""
    if precision != "bf16":
        return lambda model, *arguments: Output.of(model(*arguments))
    kind = torch.device(device).type

    def said(model: Callable[..., Any], *arguments: Any) -> Output:
        # The compiled passes know float32 only, and would take no part.
        with plain_operations(), torch.autocast(kind, torch.bfloat16, cache_enabled=False):
            logits, features = Output.of(model(*arguments))
        return Output(logits.float(), None if features is None else features.float())

    return said


def set_gpu_products(precision: Precision) -> None:
    """For this process: torch alone would take tf32 for convolutions, whatever anyone asked for."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
