"""One model in flat memory, and one client's local training on it.

Shapes: P values of a model, T of them trainable (they come first).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from noniid.algorithms import Algorithm, Batch, Local, Output, Wave
from noniid.algorithms.base import OPTIM
from noniid.engine.task import Task
from noniid.rows import Layout


class Stopped(Exception):
    """The run was asked to stop; the state of the last full round stands."""


class Replica:
    """A copy of the model whose tensors are views of one row, its gradients views of another.

    So an optimiser's step, a proximal term or a control variate is one operation on `[P]`, whatever the number of
    layers, and loading a client's model is one copy.
    """

    def __init__(self, model: nn.Module, layout: Layout, device: str):
        self.model = copy.deepcopy(model).to(device)
        self.layout = layout
        self.row = torch.zeros(layout.size, device=device)
        self.grad = torch.zeros(layout.size, device=device)
        layout.bind(self.model, self.row, self.grad)
        self._places = _places(self.model)

    def called(self, values: Mapping[str, Tensor], x: Tensor) -> Output:
        """What the module says of `x` with these values, by name, in place of its own."""
        named = {place: values[name] for place, name in self._places.items()}
        return Output.of(torch.func.functional_call(self.model, named, (x,), tie_weights=False))

    @torch.no_grad()
    def forward(self, row: Tensor, x: Tensor) -> Output:
        """What the model with these values says of `x` in evaluation mode, for algorithms that compare models."""
        training = self.model.training
        self.model.eval()
        out = self.called(dict(self.layout.named(row)), x)
        self.model.train(training)
        return out

    def train(
        self, algorithm: Algorithm, wave: Wave, i: int, task: Task, stopped: Callable[[], bool]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Train client `i` of the wave; its model is left in `self.row`.

        Returns the mean loss of its steps and the optimiser's state after them.
        """
        kind, trainable = type(algorithm), self.layout.num_trainable
        corrects, adjusts = kind.grad is not Algorithm.grad, kind.after is not Algorithm.after
        self.row.copy_(wave.start[i])
        self.model.train()
        memory = {name: rows[i] for name, rows in wave.memory.items()}
        local = Local(self.row, wave.start[i], wave.shared, memory, wave.optim, self.forward)
        optim, w = wave.optim, self.row[:trainable]
        state = carried_state(wave, i) or optim.init(w)
        total, steps = torch.zeros((), device=self.row.device), 0
        for batch in task.batches(int(wave.ids[i]), int(wave.clock[i])):
            if stopped():
                raise Stopped
            loss = self._backward(algorithm, batch, local)
            with torch.no_grad():
                g = algorithm.grad(self.grad, local) if corrects else self.grad
                optim.step_(w, g[:trainable], state)
                if adjusts:  # buffers are the forward pass's own
                    w.copy_(algorithm.after(self.row, local)[:trainable])
            total += loss
            steps += 1
        return total / max(steps, 1), state

    def _backward(self, algorithm: Algorithm, batch: Batch, local: Local) -> Tensor:
        self.grad.zero_()
        loss = algorithm.loss(Output.of(self.model(batch.x)), batch, local)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


def _places(model: nn.Module) -> dict[str, str]:
    """Where each named tensor stands, every module counted once.

    A tensor may stand in several modules, and a module in several places. `functional_call` would find the first by
    itself, but does not give back what it swapped in the second.
    """
    names = {id(tensor): name for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    return {
        f"{path}.{own}".lstrip("."): names[id(tensor)]
        for path, module in model.named_modules()
        for own, tensor in [*module._parameters.items(), *module._buffers.items()]
        if tensor is not None
    }


def carried_state(wave: Wave, i: int) -> dict[str, Tensor]:
    """The optimiser's state that client `i` brought along, as its own copy; empty if none is kept."""
    return {name.removeprefix(OPTIM): rows[i].clone() for name, rows in wave.carried.items() if name.startswith(OPTIM)}


def with_carried_states(wave: Wave, states: Sequence[dict[str, Tensor]]) -> Wave:
    """The wave with what its clients' optimisers came to, where that is kept."""
    kept = [name for name in wave.carried if name.startswith(OPTIM)]
    fresh = {name: torch.stack([state[name.removeprefix(OPTIM)] for state in states]) for name in kept}
    return wave._replace(carried={**wave.carried, **fresh})
