"""Convolutions of several clients side by side, on a GPU: patches laid out once, and products of matrices.

Under `torch.vmap` a convolution becomes one of as many groups as clients, and cuDNN takes most groups one after the
other. Small kernels over small images are bound by memory: laying out their patches costs less than that.

Shapes: C clients, B batch, N = C x B, I channels in and O out, H x W an image, K x K a kernel, L places it fits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class Stacked(TorchFunctionMode):
    """Inside, the plain convolutions of a model that is mapped over clients are taken as products of patches."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {**dict(zip(_NAMES, args, strict=False)), **(kwargs or {})} if func is torch.conv2d else {}
        if not given or not _fits(given):
            return func(*args, **(kwargs or {}))
        out = _Conv.apply(given["input"], given["weight"], *_pair(given.get("padding", 0)))
        bias = given.get("bias")
        return out if bias is None else out + bias[:, None, None]


_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _fits(given: dict[str, Any]) -> bool:
    """Neither strided, dilated nor grouped."""
    plain = _pair(given.get("stride", 1)) == (1, 1) and _pair(given.get("dilation", 1)) == (1, 1)
    padded = given.get("padding", 0)
    return plain and given.get("groups", 1) == 1 and not isinstance(padded, str) and given["input"].dim() == 4


class _Conv(torch.autograd.Function):
    """One client's: alone it is torch's, under `vmap` all clients' together."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, *padding: int) -> Tensor:
        return F.conv2d(x, weight, padding=padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, weight: Tensor, *padding: int) -> tuple[Tensor, int]:
        x, weight = (
            each.unsqueeze(0).expand(info.batch_size, *each.shape) if at is None else each.movedim(at, 0)
            for each, at in ((x, in_dims[0]), (weight, in_dims[1]))
        )
        return _StackedConv.apply(x, weight, *padding)[0], 0


class _StackedConv(torch.autograd.Function):
    """x [C, B, I, H, W] and weight [C, O, I, K, K] -> [C, B, O, ...], and the patches."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, *padding: int) -> tuple[Tensor, Tensor]:
        (c, b, *_), (_, o, _, kh, kw) = x.shape, weight.shape
        image = x.flatten(0, 1)
        if any(padding):
            image = F.pad(image, (padding[1], padding[1], padding[0], padding[0]))
        seen = image.unfold(2, kh, 1).unfold(3, kw, 1)  # [N, I, h, w, K, K]
        h, w = seen.shape[2:4]
        patches = seen.permute(0, 1, 4, 5, 2, 3).reshape(c * b, -1, h * w)
        return torch.bmm(_for_each(weight, b), patches).view(c, b, o, h, w), patches

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, *padding = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(weight, output[1])
        ctx.image, ctx.padding = x.shape[-2:], tuple(padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        weight, patches = ctx.saved_tensors
        (c, b, o), kernel = grad.shape[:3], weight.shape[-2:]
        d = grad.reshape(c * b, o, -1)
        of_weight = torch.bmm(d, patches.mT).view(c, b, -1).sum(1).view_as(weight)
        of_x = None
        if ctx.needs_input_grad[0]:
            spread = torch.bmm(_for_each(weight, b).mT, d)
            of_x = _image_of(spread.view(c * b, -1, *kernel, *grad.shape[-2:]), ctx.image, ctx.padding)
            of_x = of_x.view(c, b, *of_x.shape[1:])
        return of_x, of_weight, *[None] * len(ctx.padding)


def _image_of(patches: Tensor, image: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    """The sum of patches [N, I, K, K, h, w] where they came from: torch's fold does the same three times slower."""
    (kh, kw), (n, i) = patches.shape[2:4], patches.shape[:2]
    h, w = image[0] + 2 * padding[0], image[1] + 2 * padding[1]
    seen = patches.permute(0, 1, 4, 5, 2, 3)  # [N, I, h, w, K, K]
    rows = torch.ops.aten.unfold_backward(seen, [n, i, seen.shape[2], w, kh], 3, kw, 1)
    whole = torch.ops.aten.unfold_backward(rows, [n, i, h, w], 2, kh, 1)
    return whole[:, :, padding[0] : h - padding[0], padding[1] : w - padding[1]].contiguous()


def _for_each(weight: Tensor, batch: int) -> Tensor:
    """Every sample's own copy of its client's kernels: [N, O, I x K x K]."""
    return weight.flatten(2).repeat_interleave(batch, 0)
