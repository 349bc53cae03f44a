"""The judge: clients one after the other, in plain PyTorch.

Nothing here is shared with the fast engines: parameters are a dictionary, gradients come from `autograd.grad`,
steps from `torch.optim`. Slow, and meant to be read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from threading import Event
from typing import Any, TypeVar

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Ask, Local, Output, Wave
from noniid.engine.ask import Questions
from noniid.engine.precision import said_in
from noniid.engine.randomness import Turns
from noniid.engine.replica import Replica, Stopped, carried_state, with_carried_states
from noniid.engine.task import Task
from noniid.engine.torch_optim import Stepper
from noniid.models import plain_operations
from noniid.rows import Layout

T = TypeVar("T")


class Reference:
    """See the module's text."""

    workers = 1
    note = ""

    def __init__(self, task: Task, workers: int | None = None):
        self.task = task
        self.layout = Layout.of(task.model)
        self.stop = Event()
        self._turns = Turns(task)
        self._model = copy.deepcopy(task.model).to(task.device)
        self._said = said_in(task.precision, task.device)
        self._replica = Replica(task, self.layout)

    def train(self, algorithm: Algorithm, wave: Wave) -> Wave:
        trained: list[tuple[Tensor, Tensor, dict[str, Tensor]]] = []
        for i, client in enumerate(wave.ids.tolist()):
            with self._turns.of(client, int(wave.clock[i])), plain_operations():
                trained.append(self._train_one(algorithm, wave, i))
        end, loss, states = zip(*trained, strict=True)
        return with_carried_states(wave._replace(end=torch.stack(end), loss=torch.stack(loss).cpu()), states)

    def _train_one(self, algorithm: Algorithm, wave: Wave, i: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        trainable = self.layout.num_trainable
        row = wave.start[i].clone()
        weights = torch.nn.Parameter(row[:trainable].clone())
        stepper = Stepper(wave.optim, weights, carried_state(wave, i))
        memory = {name: rows[i] for name, rows in wave.memory.items()}
        losses: list[Tensor] = []
        for batch in self.task.batches(int(wave.ids[i]), int(wave.clock[i])):
            if self.stop.is_set():
                raise Stopped
            local = Local(row, wave.start[i], wave.shared, memory, wave.optim, self._forward)
            values = {name: view.clone() for name, view in self.layout.named(row)}
            learned = [values[slot.name].requires_grad_() for slot in self._learned()]
            self._model.train()
            out = self._said(torch.func.functional_call, self._model, values, (batch.x,))
            loss = algorithm.loss(out, batch, local)
            gradients = torch.autograd.grad(loss, learned, allow_unused=True, materialize_grads=True)
            g = torch.zeros_like(row)
            g[:trainable] = torch.cat([gradient.flatten() for gradient in gradients])
            stepper.step(algorithm.grad(g, local)[:trainable].detach().clone())
            moved = torch.cat([weights.detach(), *self._rest(values)])
            weights.data = algorithm.after(moved, local._replace(w=moved))[:trainable].detach().clone()
            row = torch.cat([weights.detach(), moved[trainable:]])
            losses.append(loss.detach())
        return row, torch.stack(losses).mean(), stepper.state()

    def ask(self, ids: Tensor, clock: int = 0) -> Ask:
        return Questions(self, ids, clock)

    def map(self, function: Callable[[Replica, T], Any], items: Sequence[T]) -> Iterable[Any]:
        return [function(self._replica, item) for item in items]

    def close(self) -> None:
        pass

    @torch.no_grad()
    def _forward(self, row: Tensor, x: Tensor) -> Output:
        self._model.eval()
        return self._said(torch.func.functional_call, self._model, dict(self.layout.named(row)), (x,))

    def _learned(self):
        return [slot for slot in self.layout.slots if slot.stop <= self.layout.num_trainable]

    def _rest(self, values: dict[str, Tensor]) -> list[Tensor]:
        """Buffers, as the forward pass has left them."""
        rest = self.layout.slots[len(self._learned()) :]
        return [values[slot.name].detach().flatten() for slot in rest]
