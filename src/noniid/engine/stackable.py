"""What can train as one program, why the rest cannot, and how many clients at once.

Shapes: C clients of a wave, P values of a model.
"""

from __future__ import annotations

import functools
import math
import warnings

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Batch, Local, Output, Wave
from noniid.engine.bundle import Step, bundle_of
from noniid.engine.programs import program_for
from noniid.engine.randomness import draws
from noniid.engine.replica import Replica
from noniid.engine.task import Task
from noniid.models import plain_operations
from noniid.rows import Layout

ROWS = 6  # a client's model, its start, gradient and momentum, and what a step makes on the way
CPU_BYTES = 4 << 20  # of a bundle: larger ones are not faster
CPU_PARTS = 2  # of a wave at least, so that two cores have something to do; a number of workers must not decide it
GPU_SHARE = 0.25  # of a GPU's memory


class Stackable:
    """Answers for one task."""

    def __init__(self, task: Task, layout: Layout):
        self._task, self._layout = task, layout
        self._draws = draws(task)
        self._on_cpu = torch.device(task.device).type == "cpu"
        self._refusals: dict[str, str | None] = {}

    def refusal(self, algorithm: Algorithm, wave: Wave) -> str | None:
        """Why these clients cannot train as one program; None if they can."""
        if self._draws:
            return "the model draws random numbers of its own, and each client needs its own"
        kind = repr(algorithm)  # with its named values: some may take a loss where others do not
        if kind not in self._refusals:
            self._refusals[kind] = self._try(algorithm, wave)
        return self._refusals[kind]

    def _try(self, algorithm: Algorithm, wave: Wave) -> str | None:
        """One step of two clients together, and of the first of them alone."""
        replica = Replica(self._task, self._layout)
        x, y = self._few()
        replica.model.train()
        bundle = bundle_of(replica, wave, [0, len(wave.ids) - 1])
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.filterwarnings("error", "There is a performance drop")  # vmap would take a loop instead
                together = program_for(replica, algorithm).on(bundle)(_twice(x, y))[0]
        except Exception as error:  # whatever a user's code raises: alone it may work, or will say so itself
            reason = str(error).partition("\n")[0]
            return f"torch.vmap cannot map the model or the loss over clients: {reason}"
        memory = {name: rows[0] for name, rows in wave.memory.items()}
        local = Local(wave.start[0], wave.start[0], wave.shared, memory, wave.optim, replica.forward)
        replica.row.copy_(wave.start[0])
        alone = algorithm.loss(replica.said(replica.model, x), Batch(x, y), local)
        said, known = (torch.cat([loss.reshape(1), row[self._layout.num_trainable :]])
                       for loss, row in ((together, bundle.w[0]), (alone, replica.row)))  # fmt: skip
        close = 5e-2 if self._task.precision == "bf16" else 1e-3
        if not torch.allclose(said, known, rtol=close, atol=close / 100, equal_nan=True):
            return "under torch.vmap the model or the loss comes to something else than alone"
        return None

    def _few(self) -> tuple[Tensor, Tensor]:
        index = torch.from_numpy(self._task.split.indices[0][:2]).repeat(2)  # at least two, for BatchNorm
        train, device = self._task.dataset.train, self._task.device
        return train.batch(index).to(device), train.y[index].to(device)

    def bundles(self, wave: Wave) -> list[list[int]]:
        """The clients of a wave in parts of about equal work that there is room for, each with most steps first."""
        longest_first = torch.argsort(wave.steps, descending=True, stable=True).tolist()
        clients = len(longest_first)
        parts = math.ceil(clients / max(1, self.room() // self.bytes_a_client))
        if self._on_cpu:
            parts = max(parts, min(CPU_PARTS, clients))
        return [longest_first[i::parts] for i in range(parts)]

    def room(self) -> int:
        """Bytes that a bundle may take."""
        if self._on_cpu:
            return CPU_BYTES
        return int(GPU_SHARE * torch.cuda.get_device_properties(self._task.device).total_memory)

    @property
    def bytes_a_client(self) -> int:
        """Its rows and its batches."""
        return 4 * ROWS * self._layout.size + self.bytes_a_sample * self._task.work.batch_size

    @functools.cached_property
    def bytes_a_sample(self) -> int:
        """Itself, and what it becomes on its way through the model until that is differentiated."""
        x, _ = self._few()
        kept = [x.nbytes]

        def count(tensor: Tensor) -> Tensor:
            kept.append(tensor.nbytes)
            return tensor

        replica = Replica(self._task, self._layout)
        with plain_operations(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            Output.of(replica.model.train()(x))
        return sum(kept) // len(x)


def _twice(x: Tensor, y: Tensor) -> Step:
    """The same batch for two clients."""
    n = len(y)
    weights = torch.full((2, n), 1 / n, device=x.device)
    return Step(x.expand(2, *x.shape), y.expand(2, n), [n, n], weights)
