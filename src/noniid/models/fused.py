"""Convolution, ReLU and 2x2 max-pooling as one operation.

On a CPU these three are nearly all of a small CNN's step. Where numba is installed (`noniid[fast]`) compiled
passes do them together (kernels.py); everywhere else, and for shapes the passes are not made for, torch does.
Either way the result is torch's, up to the order in which products are added.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextlib.contextmanager
def plain_operations() -> Iterator[None]:
    """Inside, torch does everything: for judging the compiled passes."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


@functools.cache
def kernels() -> ModuleType | None:
    """The compiled passes, or None without numba."""
    try:
        from noniid.models import kernels as compiled
    except ImportError:
        return None
    return compiled


def conv_relu_pool(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """max_pool2d(relu(conv(x)), 2)."""
    if _plain.get() or not _fits(x, conv) or kernels() is None:
        return F.max_pool2d(F.relu(conv(x)), 2)
    return _ConvReluPool.apply(x, conv.weight, conv.bias)  # type: ignore[no-any-return]


def _fits(x: Tensor, conv: nn.Conv2d) -> bool:
    """Unpadded 5x5 convolutions of contiguous float32 on the CPU, outside torch.func's transforms."""
    plain_shape = conv.kernel_size == (5, 5) and conv.stride == (1, 1) and conv.dilation == (1, 1)
    plain_shape = plain_shape and conv.padding == (0, 0) and conv.groups == 1 and conv.bias is not None
    tensors = (x, conv.weight)
    return plain_shape and all(
        t.device.type == "cpu" and t.dtype == torch.float32 and t.is_contiguous() and not _is_wrapped(t)
        for t in tensors
    )


def _is_wrapped(tensor: Tensor) -> bool:
    """Inside vmap or grad a tensor stands for many, and has no memory of its own."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # type: ignore[attr-defined]


class _ConvReluPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[override]
        passes = _compiled()
        n, channels, h, w = x.shape
        shape = (n, weight.shape[0], (h - 4) // 2, (w - 4) // 2)
        out, winner = torch.empty(shape), np.empty(shape, np.uint8)
        if channels == 1:
            passes.conv_pool(_array(x), _array(weight), _array(bias), out.numpy(), winner)
        else:  # with many channels torch's convolution is a matrix product, and fast
            wide = F.conv2d(x, weight, bias)
            passes.pool(wide.numpy().reshape(-1, h - 4, w - 4), _planes(out.numpy()), _planes(winner))
        ctx.save_for_backward(x, weight)
        ctx.winner = winner
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        passes = _compiled()
        x, weight = ctx.saved_tensors
        g = grad.contiguous().numpy()
        grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros(len(weight))
        sums = grad_weight.numpy(), grad_bias.numpy()
        if x.shape[1] == 1 and not ctx.needs_input_grad[0]:
            passes.weight_gradient_of_one_channel(_array(x), g, ctx.winner, *sums)
            return None, grad_weight, grad_bias
        grad_x = torch.empty_like(x)
        passes.gradients(_array(x), _array(weight), g, ctx.winner, *sums, grad_x.numpy())
        return grad_x, grad_weight, grad_bias


def _compiled() -> Any:
    return kernels()


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _planes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, *array.shape[2:])
