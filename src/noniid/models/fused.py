"""A small network as one operation: convolutions with ReLU and pooling, then linear layers with ReLU between them.

On a CPU torch spends most of such a network's step on maps that pooling throws away, and on the way from one operation
to the next. Where numba is installed (`noniid[fast]`) compiled calls do it all (the folder `compiled`); everywhere
else, and for networks that they are not made for, torch does. Either way the result is torch's, up to the order in
which products are added.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

PIECE = 128  # samples whose activations stay in the cache

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
        from noniid.models import compiled
    except ImportError:
        return None
    return compiled


class Network(nn.Module):
    """Convolutions, each with ReLU and 2x2 pooling, then linear layers with ReLU between them."""

    def parts(self) -> Parts:
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, K] and features [B, F]."""
        parts = self.parts()
        plan = _plan(x, parts) if parts.convs else None  # torch's linear layers are as fast as their way through here
        return parts.by_torch(x) if plan is None else _Network.apply(x, plan, *parts.weights)  # type: ignore


class Parts(NamedTuple):
    convs: Sequence[Any]
    linears: Sequence[Any]
    shown: int = -1  # the linear layer whose inputs are the features

    @property
    def weights(self) -> list[Any]:
        return [tensor for layer in (*self.convs, *self.linears) for tensor in (layer.weight, layer.bias)]

    def by_torch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for conv in self.convs:
            x = F.max_pool2d(F.relu(conv(x)), 2)
        inputs = [x.flatten(1)]
        for linear in self.linears[:-1]:
            inputs.append(F.relu(linear(inputs[-1])))
        return self.linears[-1](inputs[-1]), inputs[self.shown]


class Descent:
    """The mean cross-entropy's gradient, and steps along it, in one call and without autograd.

    Its memory is kept from call to call: a thread needs one of its own.
    """

    def __init__(self, plan: Any):
        self.plan, self._layers = plan, (plan.convs, plan.linears)
        self._batch = 0  # what there is room for
        self._room: Any = None
        self._inputs: Any = None

    @classmethod
    def of(cls, model: nn.Module, x: Tensor, row: Tensor) -> Descent | None:
        """For this network and inputs like x [B, ...]; None where torch is to do it. `row` is the model's memory."""
        parts = model.parts() if isinstance(model, Network) else None
        plan = _plan(x, parts) if parts else None
        if parts is None or plan is None or not _together(parts.weights, row):
            return None
        return cls(plan)

    def __call__(self, x: Tensor, y: Tensor, lengths: Sequence[int], rows: Tensor, grads: Tensor) -> Tensor:
        """Losses [C]; x [C, B, ...], y [C, B], rows and grads [C, P]; of a batch its length counts."""
        self._make_room(y.shape[1])
        loss, x, y = torch.empty(len(rows)), x.contiguous().view(*y.shape, -1), y.contiguous()
        counts = np.array(lengths)
        _compiled().descend_all(
            x.numpy(), y.numpy(), counts, rows.numpy(), *self._layers, self._room, grads.numpy(), loss.numpy()
        )
        return loss

    def forward(self, x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """What the model with these values [P] says of x [B, ...]: logits and features."""
        self._make_room(len(x))
        _, num_classes, num_features = self.plan.sizes
        logits, features = torch.empty(len(x), num_classes), torch.empty(len(x), num_features)
        _compiled().forward(
            _flat(x), len(x), row.numpy(), *self._layers, self.plan.shown, self._room, _flat(logits), _flat(features)
        )
        return logits, features

    def judge(self, x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward`, of any number of samples; nothing can go back from it."""
        logits, features = zip(*(self.forward(piece, row) for piece in x.split(PIECE)), strict=True)
        return torch.cat(logits), torch.cat(features)

    def backward(self, g: Tensor, g_features: Tensor | None, row: Tensor, grad: Tensor) -> None:
        """Into `grad` [P] the gradient of a function of what the last call of `forward` gave, from that of its own."""
        others = np.empty(0, np.float32) if g_features is None else _flat(g_features.contiguous())
        _compiled().backward(
            _flat(g.contiguous()),
            others,
            len(g),
            row.numpy(),
            *self._layers,
            self.plan.shown,
            self._room,
            grad.numpy(),
        )

    def look(self, walk: Walk, order: Tensor, row: Tensor, grad: Tensor) -> float:
        """The loss of these samples, and its gradient."""
        self._make_room(walk.batch)
        return _compiled().look(  # type: ignore[no-any-return]
            walk.source, order.numpy(), self._inputs, row.numpy(), *self._layers, self._room, grad.numpy()
        )

    def walk(self, walk: Walk, order: Tensor, row: Tensor, momentum: Tensor) -> float:
        """Steps of SGD on `row` [P] over samples in this order, a batch each; the sum of their losses."""
        self._make_room(walk.batch)
        return _compiled().walk(  # type: ignore[no-any-return]
            walk.source, order.numpy(), walk.batch, self._inputs, row.numpy(), *self._layers, self._room,
            self._grad, momentum.numpy(), walk.sgd,
        )  # fmt: skip

    @functools.cached_property
    def _grad(self) -> np.ndarray:
        return torch.empty(self.plan.num_weights).numpy()

    def _make_room(self, batch: int) -> None:
        if batch > self._batch:
            self._batch, self._room = batch, self.plan.room(batch)
            x, y = torch.empty(batch * self.plan.sizes[0]).numpy(), np.empty(batch, np.int64)
            self._inputs = _compiled().Batch(x, y)


@dataclass(frozen=True)
class Walk:
    """What the steps of a client's visits have in common."""

    x: Tensor  # [N, ...], of all samples
    scale: float  # what inputs are divided by
    y: Tensor  # [N]
    batch: int
    sgd: tuple[float, float, float, bool]  # learning rate, momentum, weight decay, Nesterov's or not
    bare: bool = True  # nothing happens between the steps

    @functools.cached_property
    def source(self) -> Any:
        return _compiled().Source(self.x.view(len(self.x), -1).numpy(), self.scale, self.y.numpy())

    def step(self, row: Tensor, grad: Tensor, momentum: Tensor) -> None:
        _compiled().step(row.numpy(), grad.contiguous().numpy(), momentum.numpy(), self.sgd)

    @property
    def first(self) -> Tensor:
        """A batch of one sample."""
        return self.x[:1] / self.scale


def _plan(x: Tensor, parts: Parts) -> Any:
    """How compiled code does it; None where it is not to."""
    if _plain.get() or kernels() is None or any(map(_changed, (*parts.convs, *parts.linears))):
        return None
    if not _readable(x, parts.weights):
        return None
    described = _described(tuple(x.shape[1:]), parts)
    return kernels().plan(*described, parts.shown % len(parts.linears)) if described else None  # type: ignore


def _together(weights: Sequence[Tensor], row: Tensor) -> bool:
    """Are these, one after the other, all of this row?"""
    ends = list(itertools.accumulate(weight.numel() for weight in weights))
    starts = [row.data_ptr() + 4 * end for end in (0, *ends[:-1])]
    return ends[-1] == row.numel() and [weight.data_ptr() for weight in weights] == starts


def _readable(x: Tensor, weights: Sequence[Any]) -> bool:
    """Is all of it plain memory that compiled code can read?"""
    if x.requires_grad or torch.is_autocast_enabled("cpu") or not len(x):
        return False
    for tensor in (x, *weights):
        if tensor is None or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            return False
        if not tensor.is_contiguous() or torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # type: ignore
            return False  # inside vmap or grad a tensor stands for many, and has no memory of its own
    return True


def _described(shape: tuple[int, ...], parts: Parts) -> tuple[Any, ...] | None:
    """The network as compiled.plan takes it, for inputs of this shape; None where it is of another kind."""
    made: list[Any] = []
    for conv in parts.convs:
        usual = conv.kernel_size == (5, 5) and conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1
        if not usual or conv.padding not in ((0, 0), (1, 1), (2, 2)) or conv.padding_mode != "zeros" or len(shape) != 3:
            return None
        each = _compiled().Convolution(*shape, conv.padding[0], conv.out_channels)
        if conv.in_channels != each.channels or min(each.pooled) < 1 or (made and each.width < 4):
            return None
        made.append(each)
        shape = (conv.out_channels, *each.pooled)
    widths = (math.prod(shape), *(linear.out_features for linear in parts.linears))
    fits = all(linear.in_features == width for linear, width in zip(parts.linears, widths, strict=False))
    return (tuple(made), widths) if fits else None


def _changed(layer: nn.Module) -> bool:
    """Is it a layer of another kind, or has somebody hung something on it?"""
    usual = type(layer) is nn.Linear or type(layer) is nn.Conv2d
    return not usual or bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


class _Network(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Any, *weights: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        descent = Descent(plan)  # with memory of its own: another call may come before this one goes back
        ctx.save_for_backward(*weights)
        ctx.set_materialize_grads(False)
        ctx.descent, ctx.num = descent, len(x)
        return descent.forward(x, _row(weights))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_features: Tensor | None) -> Any:  # type: ignore[override]
        descent, weights = ctx.descent, ctx.saved_tensors
        ours = torch.zeros(ctx.num, descent.plan.sizes[1]) if g is None else g
        grad = torch.empty(descent.plan.num_weights)
        descent.backward(ours, g_features, _row(weights), grad)
        parts = grad.split([weight.numel() for weight in weights])
        return None, None, *(part.view(weight.shape) for part, weight in zip(parts, weights, strict=True))


def _row(weights: Sequence[Tensor]) -> Tensor:
    """All of them as one."""
    return torch.cat([weight.detach().flatten() for weight in weights])


def _compiled() -> Any:
    return kernels()


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy().reshape(-1)
