"""One step of several clients as one program: their losses, and the gradient of each.

Shapes: C clients, P values of a model, T of them trainable (they come first), B batch.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid.algorithms import Algorithm, Batch
from noniid.algorithms.base import Tensors
from noniid.engine.bundle import Backward, Bundle, Program, Step
from noniid.engine.convolve import Stacked
from noniid.engine.dense import Dense
from noniid.engine.descending import Descending
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
            if pads(self.replica, self.algorithm, step.x[0]):
                return self._equal(bundle, step.x, step.y, step.weights)
            loss = bundle.w.new_empty(len(step.lengths))
            for n, chosen in step.by_length():
                if isinstance(chosen, slice):
                    return self._equal(bundle, step.x[:, :n], step.y[:, :n])
                part = bundle.chosen(chosen)
                loss[chosen] = self._equal(part, step.x[chosen, :n], step.y[chosen, :n])
                bundle.g[chosen], bundle.w[chosen] = part.g, part.w
            return loss

        return backward

    def _equal(self, bundle: Bundle, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """Batches of one length, or filled up with samples that have no weight."""
        trainable, local = bundle.num_trainable, bundle.local
        slots = _slots(self.replica.layout, bundle.w)
        learned = {slot.name: rows.detach().requires_grad_() for slot, rows in slots if slot.stop <= trainable}
        # Each a tensor of its own: what batch_norm under vmap writes into a view of a row does not arrive.
        rest = {slot.name: rows.clone() for slot, rows in slots if slot.stop > trainable}

        def one(learned: Tensors, rest: Tensors, batch: Any, rows: Any) -> tuple[Tensor, Tensors]:
            (x, y, weight), (w, start, memory) = batch, rows
            out = self.replica.called({**learned, **rest}, x)
            if weights is not None:
                return F.cross_entropy(out.logits, y, reduction="none") @ weight, rest
            own = local._replace(w=w, start=start, memory=memory)
            return self.algorithm.loss(out, Batch(x, y), own), rest

        with torch.enable_grad(), Stacked() if bundle.w.is_cuda else nullcontext():
            batch = x, y, y if weights is None else weights
            loss, rest = torch.vmap(one)(learned, rest, batch, (bundle.w, local.start, dict(local.memory)))
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


def pads(replica: Replica, algorithm: Algorithm, x: Tensor) -> bool:
    """Whether batches may be filled up: the loss is the mean cross-entropy, and no sample sees the others of `x`."""
    return type(algorithm).loss is Algorithm.loss and separate(replica, x)


_KNOWN: WeakKeyDictionary[Replica, dict[bool, bool]] = WeakKeyDictionary()


def separate(replica: Replica, x: Tensor) -> bool:
    """Whether what a model says of a sample depends on this sample only, in its present mode.

    Tried with its values moved at random. BatchNorm that trains is known to mix, also where a weight of 0 hides it.
    """
    known, mode = _KNOWN.setdefault(replica, {}), replica.model.training
    if mode not in known:
        known[mode] = _tried_separate(replica, x)
    return known[mode]


@torch.no_grad()
def _tried_separate(replica: Replica, x: Tensor) -> bool:
    if type(replica.model) is DenseNet:
        return True
    norms = (nn.modules.batchnorm._NormBase,)
    if len(x) < 2 or any(isinstance(part, norms) and part.training for part in replica.model.modules()):
        return False
    moved, layout = replica.row.clone(), replica.layout
    noise = torch.randn(layout.num_trainable, generator=torch.Generator().manual_seed(0))
    moved[: layout.num_trainable] += 0.1 * noise.to(moved)  # statistics must stay statistics
    values = dict(layout.named(moved))
    together, alone = (replica.called(values, each) for each in (x, x[:1]))
    if not bool(torch.isfinite(together.logits).all()):
        return False
    pairs = [(together.logits[:1], alone.logits)]
    if together.features is not None and alone.features is not None:
        pairs.append((together.features[:1], alone.features))
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max())) for a, b in pairs)


def program_for(replica: Replica, algorithm: Algorithm, weighted: bool = False) -> Program:
    """The fastest one that fits the model; `weighted` where a step's weights may be any, not one over its length."""
    fits = replica.task.precision != "bf16" and Dense.fits(replica.model, replica.layout)
    program: Program = Dense(replica.layout, algorithm) if fits else Mapped(replica, algorithm)
    return Descending(replica, program) if not weighted and Descending.fits(replica, algorithm) else program
