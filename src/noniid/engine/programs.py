"""One step of several clients as one program: their losses, and the gradient of each.

Shapes: C clients, P values of a model, T of them trainable (they come first), B batch, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from noniid.algorithms import Algorithm, Batch, Output
from noniid.algorithms.base import Tensors
from noniid.engine.bundle import Backward, Bundle, Program, Step
from noniid.engine.replica import Replica
from noniid.models.dense import DenseNet
from noniid.rows import Layout, Slot


@dataclass(frozen=True)
class Mapped:
    """Any module and any loss that `torch.vmap` can map over clients.

    Batches of different lengths take turns, equal ones side by side: a module or a loss may look at the whole batch.
    """

    replica: Replica
    algorithm: Algorithm

    def on(self, bundle: Bundle) -> Backward:
        def backward(step: Step) -> Tensor:
            loss = bundle.w.new_empty(len(step.lengths))
            for length in sorted(set(step.lengths)):
                if step.lengths.count(length) == len(step.lengths):
                    return self._equal(bundle, step.x[:, :length], step.y[:, :length])
                chosen = torch.tensor([c for c, n in enumerate(step.lengths) if n == length], device=loss.device)
                part = bundle.chosen(chosen)
                loss[chosen] = self._equal(part, step.x[chosen, :length], step.y[chosen, :length])
                bundle.g[chosen], bundle.w[chosen] = part.g, part.w
            return loss

        return backward

    def _equal(self, bundle: Bundle, x: Tensor, y: Tensor) -> Tensor:
        trainable, local = bundle.num_trainable, bundle.local
        slots = _slots(self.replica.layout, bundle.w)
        learned = {slot.name: rows.detach().requires_grad_() for slot, rows in slots if slot.stop <= trainable}
        # Each a tensor of its own: what batch_norm under vmap writes into a view of a row does not arrive.
        rest = {slot.name: rows.clone() for slot, rows in slots if slot.stop > trainable}

        def one(learned: Tensors, rest: Tensors, x: Tensor, y: Tensor, rows: Any) -> tuple[Tensor, Tensors]:
            w, start, memory = rows
            out = Output.of(functional_call(self.replica.model, {**learned, **rest}, (x,)))
            own = local._replace(w=w, start=start, memory=memory)
            return self.algorithm.loss(out, Batch(x, y), own), rest

        with torch.enable_grad():
            loss, rest = torch.vmap(one)(learned, rest, x, y, (bundle.w, local.start, dict(local.memory)))
            gradients = torch.autograd.grad(
                loss.sum(), list(learned.values()), allow_unused=True, materialize_grads=True
            )
        bundle.g[:, :trainable] = torch.cat([each.reshape(len(loss), -1) for each in gradients], 1)
        if rest:
            bundle.w[:, trainable:] = torch.cat([each.reshape(len(loss), -1) for each in rest.values()], 1)
        return loss.detach()


def _slots(layout: Layout, rows: Tensor) -> list[tuple[Slot, Tensor]]:
    """Views of models [C, P]."""
    return [(slot, rows[:, slot.start : slot.stop].view(-1, *slot.shape)) for slot in layout.slots]


class _Layer(NamedTuple):
    """Views of a bundle's models and gradients."""

    weight: Tensor  # [C, out, in]
    bias: Tensor  # [C, out, 1]
    weight_grad: Tensor
    bias_grad: Tensor


@dataclass(frozen=True)
class Dense:
    """Linear layers with ReLU between them under the mean cross-entropy, differentiated by hand.

    About thirty operations a step, where autograd under `vmap` takes hundreds. Padding weighs nothing, so batches of
    all lengths go side by side. Samples lie along the last dimension, for a softmax over few classes is slow there.
    """

    layout: Layout

    def on(self, bundle: Bundle) -> Backward:
        layers = self._layers(bundle)
        minus_one = bundle.w.new_full((1, 1, 1), -1.0)

        def backward(step: Step) -> Tensor:
            inputs = [step.x.flatten(2).mT]  # [C, in, B] of each layer
            for layer in layers[:-1]:
                inputs.append(torch.baddbmm(layer.bias, layer.weight, inputs[-1]).relu_())
            log_p = torch.baddbmm(layers[-1].bias, layers[-1].weight, inputs[-1]).log_softmax(1)  # [C, K, B]
            label, weights = step.y.unsqueeze(1), step.weights.unsqueeze(1)
            loss = (log_p.gather(1, label) * weights).sum((1, 2)).neg()
            d = log_p.exp_().scatter_add_(1, label, minus_one.expand_as(label)).mul_(weights)
            for i, layer in reversed(list(enumerate(layers))):
                torch.bmm(d, inputs[i].mT, out=layer.weight_grad)
                torch.sum(d, 2, keepdim=True, out=layer.bias_grad)
                if i:
                    d = torch.ops.aten.threshold_backward(torch.bmm(layer.weight.mT, d), inputs[i], 0)
            return loss

        return backward

    def _layers(self, bundle: Bundle) -> list[_Layer]:
        w, g = ({slot.name: view for slot, view in _slots(self.layout, rows)} for rows in (bundle.w, bundle.g))
        names = [
            (slot.name, slot.name.replace("weight", "bias")) for slot in self.layout.slots if "weight" in slot.name
        ]
        return [_Layer(w[a], w[b].unsqueeze(2), g[a], g[b].unsqueeze(2)) for a, b in names]


def program_for(replica: Replica, algorithm: Algorithm) -> Program:
    """The fastest one that fits the model and the loss."""
    usual = type(algorithm).loss is Algorithm.loss
    layout = replica.layout
    if usual and type(replica.model) is DenseNet and layout.num_trainable == layout.size:
        return Dense(layout)
    return Mapped(replica, algorithm)
