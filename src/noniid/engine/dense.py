"""Linear layers with ReLU between them, several clients side by side, differentiated by hand.

About thirty operations a step, where autograd under `torch.vmap` takes hundreds. Padding has no gradient, so batches
of all lengths go side by side. Samples lie along the last dimension, for a softmax over few classes is slow there.

Shapes: C clients, P values of a model, B batch, K classes, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid.algorithms import Algorithm, Batch, Output
from noniid.engine.bundle import Backward, Bundle, Step
from noniid.models.dense import DenseNet
from noniid.rows import Layout


class _Layer(NamedTuple):
    """Views of a bundle's models and gradients."""

    weight: Tensor  # [C, out, in]
    bias: Tensor  # [C, out, 1]
    weight_grad: Tensor
    bias_grad: Tensor


class _Head(NamedTuple):
    """What a loss says of logits and features."""

    loss: Tensor  # [C]
    logits_grad: Tensor  # [C, K, B]
    features_grad: Tensor | None = None  # [C, F, B]


@dataclass(frozen=True)
class Dense:
    """A `DenseNet` under any loss: the mean cross-entropy by hand, others through `torch.vmap` and autograd."""

    layout: Layout
    algorithm: Algorithm

    @staticmethod
    def fits(model: nn.Module, layout: Layout) -> bool:
        """A `DenseNet` as we made it: nothing frozen, shared or put in place of a layer."""
        if type(model) is not DenseNet or layout.num_trainable < layout.size:
            return False
        plain = all(type(layer) is nn.Linear and layer.bias is not None for layer in model.layers)
        return plain and len(layout.slots) == 2 * len(model.layers)

    def on(self, bundle: Bundle) -> Backward:
        layers = self._layers(bundle)
        usual = type(self.algorithm).loss is Algorithm.loss
        bundle = bundle._replace(local=bundle.local._replace(forward=self._forward))

        def backward(step: Step) -> Tensor:
            inputs = [step.x.flatten(2).mT]  # [C, in, B] of each layer
            for layer in layers[:-1]:
                inputs.append(torch.baddbmm(layer.bias, layer.weight, inputs[-1]).relu_())
            logits = torch.baddbmm(layers[-1].bias, layers[-1].weight, inputs[-1])
            head = _cross_entropy(logits, step) if usual else self._asked(bundle, logits, inputs[-1], step)
            d = head.logits_grad
            for i, layer in reversed(list(enumerate(layers))):
                torch.bmm(d, inputs[i].mT, out=layer.weight_grad)
                torch.sum(d, 2, keepdim=True, out=layer.bias_grad)
                if i:
                    d = torch.bmm(layer.weight.mT, d)
                    if head.features_grad is not None and i == len(layers) - 1:
                        d += head.features_grad
                    d = torch.ops.aten.threshold_backward(d, inputs[i], 0)
            return head.loss

        return backward

    def _asked(self, bundle: Bundle, logits: Tensor, features: Tensor, step: Step) -> _Head:
        """The algorithm's own loss, of batches of one length at a time: it may look at the whole batch."""
        head = _Head(logits.new_empty(len(logits)), torch.zeros_like(logits), torch.zeros_like(features))

        def one(out: Any, batch: Any, rows: Any) -> Tensor:
            w, start, memory = rows
            local = bundle.local._replace(w=w, start=start, memory=memory)
            return self.algorithm.loss(Output(*out), Batch(*batch), local)

        for n, chosen in step.by_length():
            local = bundle.local if isinstance(chosen, slice) else bundle.chosen(chosen).local
            out = [each[chosen, :, :n].mT.detach().requires_grad_() for each in (logits, features)]
            with torch.enable_grad():
                batch = step.x[chosen, :n], step.y[chosen, :n]
                loss = torch.vmap(one)(out, batch, (local.w, local.start, dict(local.memory)))
                gradients = torch.autograd.grad(loss.sum(), out, allow_unused=True, materialize_grads=True)
            head.loss[chosen] = loss.detach()
            for known, gradient in zip((head.logits_grad, head.features_grad), gradients, strict=True):
                assert known is not None
                known[chosen, :, :n] = gradient.mT
        return head

    @torch.no_grad()
    def _forward(self, row: Tensor, x: Tensor) -> Output:
        """As Replica's, without a module in between: row [P], x [B, ...]."""
        tensors = [view for _, view in self.layout.named(row)]
        x = x.flatten(1)
        for weight, bias in zip(tensors[:-2:2], tensors[1:-2:2], strict=True):
            x = F.relu(F.linear(x, weight, bias))
        return Output(F.linear(x, tensors[-2], tensors[-1]), x)

    def _layers(self, bundle: Bundle) -> list[_Layer]:
        w, g = (
            [rows[:, s.start : s.stop].view(-1, *s.shape) for s in self.layout.slots] for rows in (bundle.w, bundle.g)
        )
        return [
            _Layer(w[i], w[i + 1].unsqueeze(2), g[i], g[i + 1].unsqueeze(2))  # a weight, then its bias
            for i in range(0, len(w), 2)
        ]


def _cross_entropy(logits: Tensor, step: Step) -> _Head:
    """The mean over each batch; overwrites the logits' softmax."""
    label, weights = step.y.unsqueeze(1), step.weights.unsqueeze(1)
    log_p = logits.log_softmax(1)
    loss = (log_p.gather(1, label) * weights).sum((1, 2)).neg()
    minus_one = logits.new_full((1, 1, 1), -1.0).expand_as(label)
    return _Head(loss, log_p.exp_().scatter_add_(1, label, minus_one).mul_(weights))
