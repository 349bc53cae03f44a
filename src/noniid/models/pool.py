"""ReLU and 2x2 max-pooling as one operation.

torch's max_pool2d takes about a third of a LeNet step on a CPU. Where numba is installed (`noniid[fast]`),
one compiled pass does both and gives torch's results to the bit: a maximum and a comparison round nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

NOTHING_PASSES = 4  # code of a window whose maximum is not positive


def relu_pool(x: Tensor) -> Tensor:
    """max_pool2d(relu(x), 2): `[B, C, H, W]` -> `[B, C, H // 2, W // 2]`."""
    traced = torch._C._functorch.is_functorch_wrapped_tensor(x)  # pyright: ignore
    fits = x.device.type == "cpu" and x.dtype == torch.float32 and not traced and x.is_contiguous()
    if not fits or kernels() is None:
        return F.max_pool2d(F.relu(x), 2)
    return _ReluPool.apply(x)  # type: ignore[no-any-return]


class _ReluPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        b, c, h, w = x.shape
        out = x.new_empty(b, c, h // 2, w // 2)
        winner = torch.empty(b, c, h // 2, w // 2, dtype=torch.uint8)
        forward, _ = kernels()  # type: ignore[misc]
        forward(x.detach().numpy().reshape(b * c, h, w), out.numpy().reshape(b * c, h // 2, w // 2),
                winner.numpy().reshape(b * c, h // 2, w // 2))  # fmt: skip
        ctx.save_for_backward(winner)
        ctx.shape = x.shape
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (winner,) = ctx.saved_tensors
        b, c, h, w = ctx.shape
        out = grad.new_empty(b, c, h, w)
        _, backward = kernels()  # type: ignore[misc]
        backward(grad.contiguous().numpy().reshape(b * c, h // 2, w // 2),
                 winner.numpy().reshape(b * c, h // 2, w // 2), out.numpy().reshape(b * c, h, w))  # fmt: skip
        return out


@functools.cache
def kernels() -> tuple[Callable[..., None], Callable[..., None]] | None:
    """The compiled passes, or None without numba."""
    try:
        import numba
    except ImportError:
        return None

    # `v != v` is true of NaN alone: as in torch it wins its window, and a diverged model cannot look healthy.
    @numba.njit(nogil=True, cache=True, error_model="numpy")
    def forward(x: Any, out: Any, winner: Any) -> None:
        planes, rows, columns = out.shape
        for p in range(planes):
            for i in range(rows):
                top, bottom = x[p, 2 * i], x[p, 2 * i + 1]
                for j in range(columns):
                    best, code = top[2 * j], 0
                    if top[2 * j + 1] > best or top[2 * j + 1] != top[2 * j + 1]:
                        best, code = top[2 * j + 1], 1
                    if bottom[2 * j] > best or bottom[2 * j] != bottom[2 * j]:
                        best, code = bottom[2 * j], 2
                    if bottom[2 * j + 1] > best or bottom[2 * j + 1] != bottom[2 * j + 1]:
                        best, code = bottom[2 * j + 1], 3
                    if best <= 0:
                        best, code = 0.0, NOTHING_PASSES
                    out[p, i, j] = best
                    winner[p, i, j] = code

    @numba.njit(nogil=True, cache=True, error_model="numpy")
    def backward(grad: Any, winner: Any, out: Any) -> None:
        planes, rows, columns = grad.shape
        out[:] = 0
        for p in range(planes):
            for i in range(rows):
                for j in range(columns):
                    code = winner[p, i, j]
                    if code != NOTHING_PASSES:
                        out[p, 2 * i + (code >> 1), 2 * j + (code & 1)] = grad[p, i, j]

    return forward, backward
