"""One step of several clients as one program: their losses, and the gradient of each.

Shapes: C clients, P values of a model, T of them trainable (they come first), B batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Batch
from noniid.algorithms.base import Tensors
from noniid.engine.bundle import Backward, Bundle, Program, Step
from noniid.engine.dense import Dense
from noniid.engine.descending import Descending
from noniid.engine.replica import Replica
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
            for n, chosen in step.by_length():
                if isinstance(chosen, slice):
                    return self._equal(bundle, step.x[:, :n], step.y[:, :n])
                part = bundle.chosen(chosen)
                loss[chosen] = self._equal(part, step.x[chosen, :n], step.y[chosen, :n])
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
            out = self.replica.called({**learned, **rest}, x)
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


def program_for(replica: Replica, algorithm: Algorithm) -> Program:
    """The fastest one that fits the model."""
    fits = replica.task.precision != "bf16" and Dense.fits(replica.model, replica.layout)
    program: Program = Dense(replica.layout, algorithm) if fits else Mapped(replica, algorithm)
    return Descending(replica, program) if Descending.fits(algorithm) else program
