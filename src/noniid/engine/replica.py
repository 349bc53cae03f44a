"""One model in flat memory, and one client's local training on it.

Shapes: P values of a model, T of them trainable (they come first).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from noniid.algorithms import Algorithm, Batch, Local, Output, Wave
from noniid.algorithms.base import OPTIM
from noniid.engine.precision import said_in
from noniid.engine.task import Task
from noniid.engine.walk import walk_of
from noniid.models import Descent, Walk
from noniid.rows import Layout

UNSTOPPABLE = 64  # steps of a visit in compiled code

Stop = Callable[[], bool]


class Stopped(Exception):
    """The run was asked to stop; the state of the last full round stands."""


class Replica:
    """A copy of the model whose tensors are views of one row, its gradients views of another.

    So an optimiser's step, a proximal term or a control variate is one operation on `[P]`, whatever the number of
    layers, and loading a client's model is one copy.
    """

    def __init__(self, task: Task, layout: Layout):
        self.task = task
        self.model = copy.deepcopy(task.model).to(task.device)
        self.layout = layout
        self.row = torch.zeros(layout.size, device=task.device)
        self.grad = torch.zeros(layout.size, device=task.device)
        layout.bind(self.model, self.row, self.grad)
        self._places = _places(self.model)
        self._descents: dict[torch.Size, Descent | None] = {}
        self._other: Descent | None = None
        self.said = said_in(task.precision, task.device)

    def called(self, values: Mapping[str, Tensor], x: Tensor) -> Output:
        """What the module says of `x` with these values, by name, in place of its own."""
        named = {place: values[name] for place, name in self._places.items()}
        return self.said(lambda: torch.func.functional_call(self.model, named, (x,), tie_weights=False))

    @torch.no_grad()
    def forward(self, row: Tensor, x: Tensor) -> Output:
        """What the model with these values says of `x` in evaluation mode."""
        if descent := self._comparing(x):
            return Output(*descent.judge(x, row))
        training = self.model.training
        self.model.eval()
        out = self.called(dict(self.layout.named(row)), x)
        self.model.train(training)
        return out

    @torch.no_grad()
    def judge(self, x: Tensor) -> Output:
        """What the model as it is says of `x` in evaluation mode, in float32."""
        if descent := self.descent(x):
            return Output(*descent.judge(x, self.row))
        return Output.of(self.model.eval()(x))

    def train(
        self, algorithm: Algorithm, wave: Wave, i: int, task: Task, stopped: Stop
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Train client `i` of the wave; its model is left in `self.row`.

        Returns the mean loss of its steps and the optimiser's state after them.
        """
        self.row.copy_(wave.start[i])
        self.model.train()
        memory = {name: rows[i] for name, rows in wave.memory.items()}
        local = Local(self.row, wave.start[i], wave.shared, memory, wave.optim, self.forward)
        state = carried_state(wave, i) or wave.optim.init(self.row[: self.layout.num_trainable])
        client, clock = int(wave.ids[i]), int(wave.clock[i])
        walk = walk_of(algorithm, wave.optim, task)
        if walk and (descent := self.descent(walk.first)):
            visit = self._walk(algorithm, descent, walk, task.epochs(client, clock), local, state)
        else:
            visit = self._steps(algorithm, task.batches(client, clock), local, state)
        total, steps = torch.zeros((), device=self.row.device), 0
        for loss, count in visit:
            total, steps = total + loss, steps + count
            if stopped():
                raise Stopped
        return total / max(steps, 1), state

    def _steps(
        self, algorithm: Algorithm, batches: Iterator[Batch], local: Local, state: dict[str, Tensor]
    ) -> Iterator[tuple[Tensor | float, int]]:
        """The loss of each."""
        for batch in batches:
            loss = self._backward(algorithm, batch, local)
            self._move(algorithm, local, lambda w, g: local.optim.step_(w, g, state))
            yield loss, 1

    def _walk(
        self, algorithm: Algorithm, descent: Descent, walk: Walk, epochs: Iterator[Tensor], local: Local,
        state: dict[str, Tensor],
    ) -> Iterator[tuple[Tensor | float, int]]:  # fmt: skip
        """The sum of the losses of some steps, and how many."""
        momentum = state.get("momentum", self.row)
        for epoch in epochs:
            if walk.bare:
                for order in epoch.split(walk.batch * UNSTOPPABLE):
                    yield descent.walk(walk, order, self.row, momentum), -(-len(order) // walk.batch)
                continue
            for order in epoch.split(walk.batch):
                loss = descent.look(walk, order, self.row, self.grad)
                self._move(algorithm, local, lambda w, g: walk.step(w, g, momentum))
                yield loss, 1

    @torch.no_grad()
    def _move(self, algorithm: Algorithm, local: Local, step: Callable[[Tensor, Tensor], None]) -> None:
        """A step along the gradient as the algorithm corrects it."""
        kind, trainable = type(algorithm), self.layout.num_trainable
        g = algorithm.grad(self.grad, local) if kind.grad is not Algorithm.grad else self.grad
        w = self.row[:trainable]
        step(w, g[:trainable])
        if kind.after is not Algorithm.after:  # buffers are the forward pass's own
            w.copy_(algorithm.after(self.row, local)[:trainable])

    def _backward(self, algorithm: Algorithm, batch: Batch, local: Local) -> Tensor:
        if descent := self.descent(batch.x):
            return self._descend(descent, algorithm, batch, local)
        self.grad.zero_()
        loss = algorithm.loss(self.said(self.model, batch.x), batch, local)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _descend(self, descent: Descent, algorithm: Algorithm, batch: Batch, local: Local) -> Tensor:
        """Autograd for what the loss makes of logits and features, compiled code for the rest."""
        if type(algorithm).loss is Algorithm.loss:
            return descent(batch.x[None], batch.y[None], [len(batch.y)], self.row[None], self.grad[None])[0]
        out = [said.requires_grad_() for said in descent.forward(batch.x, self.row)]
        loss = algorithm.loss(Output(*out), batch, local)
        g, g_features = torch.autograd.grad(loss, out, allow_unused=True)
        descent.backward(torch.zeros_like(out[0]) if g is None else g, g_features, self.row, self.grad)
        return loss.detach()

    def descent(self, x: Tensor) -> Descent | None:
        """A way to the plain loss's gradient without autograd, for inputs of this shape; None without one."""
        if x.shape[1:] not in self._descents:
            able = self.task.precision != "bf16"
            self._descents[x.shape[1:]] = Descent.of(self.model, x, self.row) if able else None
        return self._descents[x.shape[1:]]

    def _comparing(self, x: Tensor) -> Descent | None:
        """Another, for between a forward and a backward pass of the first its memory must not be touched."""
        if self._other is None and self.descent(x):
            self._other = Descent.of(self.model, x, self.row)
        return self._other if self.descent(x) else None


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
