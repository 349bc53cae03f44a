"""`Ask` for all clients of a wave at once: their passes as stacked programs.

Under one model for all, samples of all clients go through it in large batches, and are summed by their owner. With a
model each, clients' batches lie side by side as they do in training; those with most samples come first, so that a
client that is through takes no further part.

Shapes: C clients, P values of a model, F features, L samples of each client that go together, n samples in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noniid.algorithms import Local, Output
from noniid.algorithms.base import no_forward
from noniid.algorithms.fedavg import FedAvg
from noniid.data import Samples
from noniid.engine.ask import Questions, features_of
from noniid.engine.bundle import Bundle, Step
from noniid.engine.programs import program_for, separate
from noniid.engine.replica import Replica
from noniid.engine.task import Task
from noniid.optim import SGD
from noniid.rows import squared_norm

LARGE = 32_768  # samples of a pass: enough to keep a GPU busy
CPU_LARGE = 512  # and no more than what stays in a CPU's cache

Map = Callable[[Callable[[Replica, Any], Any], Sequence[Any]], Any]


@dataclass(frozen=True)
class Means:
    """Where passes run, and what they need there."""

    task: Task
    samples: Samples  # resident on the task's device
    map: Map
    bytes_a_sample: int
    room: int  # bytes
    stacks: bool  # whether a model each is worth stacking

    def chunk(self, clients: int) -> int:
        """How many samples of each client go together."""
        on_cpu = self.samples.y.device.type == "cpu"
        most = CPU_LARGE if on_cpu else max(1, min(LARGE, self.room // self.bytes_a_sample))
        return most if on_cpu else max(1, most // clients)

    def questions(self, alone: Questions, ids: Tensor, clock: int) -> Together:
        return Together(self, alone, [int(i) for i in ids], clock)


class _Chunk(NamedTuple):
    """The next samples of clients in order of their sizes, as far as they have any left."""

    index: Tensor  # [C, L]
    inside: Tensor  # [C, L], 0 where a row is filled up
    lengths: list[int]


class Together:
    """See the module's text. What cannot be stacked is asked client by client."""

    def __init__(self, means: Means, alone: Questions, ids: list[int], clock: int):
        self._means, self._alone, self._ids, self._clock = means, alone, ids, clock
        self._task = means.task
        self._held = [np.asarray(self._task.split.indices[i]) for i in ids]

    def loss(self, w: Tensor, /) -> Tensor:
        def each(out: Output, y: Tensor) -> Tensor:
            return F.cross_entropy(out.logits, y, reduction="none").unsqueeze(-1)

        if not self._fits(w):
            return self._alone.loss(w)
        return self._mean(w, each).squeeze(1)

    def features(self, w: Tensor, /) -> Tensor:
        if not self._fits(w):
            return self._alone.features(w)
        return self._mean(w, lambda out, _: features_of(out))

    def batch_features(self, w: Tensor, /) -> Tensor:
        if not self._fits(w):
            return self._alone.batch_features(w)
        drawn = [self._task.drawn(i, self._clock) for i in self._ids]
        return self._mean(w, lambda out, _: features_of(out), drawn)

    def grad(self, w: Tensor, /) -> Tensor:
        if not self._fits(w, gradients=True):
            return self._alone.grad(w)
        return self._gradients(w, None, lambda c, _: 1 / len(self._held[c]), lambda g: g)

    def squared_grad_norm(self, w: Tensor, /) -> Tensor:
        if not self._fits(w, gradients=True):
            return self._alone.squared_grad_norm(w)
        batch = self._task.work.batch_size
        norms = self._gradients(w, batch, lambda _, n: 1 / n, lambda g: squared_norm(g).unsqueeze(1)).squeeze(1)
        return norms / torch.tensor([-(-len(own) // batch) for own in self._held], device=norms.device)

    def _fits(self, w: Tensor, gradients: bool = False) -> bool:
        """Whether these models may be asked together: gradients are each client's own even under one model."""
        if self._task.split.shifts or not (self._means.stacks or (_one_model(w) and not gradients)):
            return False
        few = torch.from_numpy(self._task.split.indices[self._ids[0]][:2].copy()).repeat(2)
        x = self._means.samples.batch(few.to(self._task.device))
        return all(self._means.map(lambda replica, _: separate(_evaluating(replica), x), [0]))

    # Means over samples

    @torch.no_grad()
    def _mean(
        self, w: Tensor, each: Callable[[Output, Tensor], Tensor], held: list[np.ndarray] | None = None
    ) -> Tensor:
        """The mean over each client's samples of what `each` says of a sample: [C, ...]."""
        held = held or self._held
        sums = self._under_one(w, each, held) if _one_model(w) else self._under_own(w, each, held)
        return sums / torch.tensor([[len(own)] for own in held], device=sums.device)

    def _under_one(self, w: Tensor, each: Any, held: list[np.ndarray]) -> Tensor:
        row, samples, device = w.reshape(-1, w.shape[-1])[0], self._means.samples, self._task.device
        owner = torch.repeat_interleave(torch.arange(len(held)), torch.tensor([len(own) for own in held])).to(device)
        index = torch.from_numpy(np.concatenate(held)).to(device)
        size = self._means.chunk(1)

        def some(replica: Replica, at: int) -> Tensor:
            _evaluating(replica).row.copy_(row)
            chosen, who = index[at : at + size], owner[at : at + size]
            said = each(Output.of(replica.model(samples.batch(chosen))), samples.y[chosen])
            mine = torch.arange(len(held), device=device).unsqueeze(1) == who  # a product adds in the same order always
            return mine.to(said) @ said

        with torch.no_grad():
            return torch.stack(list(self._means.map(torch.no_grad()(some), range(0, len(index), size)))).sum(0)

    def _under_own(self, w: Tensor, each: Any, held: list[np.ndarray]) -> Tensor:
        def some(replica: Replica, part: list[int]) -> Tensor:
            _evaluating(replica)
            values = {slot.name: w[part, slot.start : slot.stop].view(-1, *slot.shape) for slot in replica.layout.slots}
            total: Tensor | None = None
            for chunk in self._chunks([held[c] for c in part], None):
                n = len(chunk.index)
                mine = {name: rows[:n] for name, rows in values.items()}
                x, y = self._read(chunk.index)
                said = torch.vmap(lambda values, x, y: each(replica.called(values, x), y))(mine, x, y)
                sums = torch.einsum("cl,clf->cf", chunk.inside, said)
                total = sums.new_zeros(len(part), sums.shape[1]) if total is None else total
                total[:n] += sums
            assert total is not None
            return total

        return self._by_parts(torch.no_grad()(some), held)

    # Gradients

    @torch.no_grad()
    def _gradients(
        self, w: Tensor, size: int | None, weight: Callable[[int, int], float], of: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The sum over a client's batches of what `of` makes of a batch's gradients [C, P]."""
        rows = w.expand(len(self._ids), -1)

        def some(replica: Replica, part: list[int]) -> Tensor:
            _evaluating(replica)
            mine = rows[part].clone()
            local = Local(mine, mine, {}, {}, SGD(), no_forward)
            bundle = Bundle(replica.layout.num_trainable, mine, torch.zeros_like(mine), local, {})
            program, total = program_for(replica, FedAvg(), weighted=True), of(torch.zeros_like(mine))
            for chunk in self._chunks([self._held[c] for c in part], size):
                n = len(chunk.index)
                scale = torch.tensor([weight(c, k) for c, k in zip(part, chunk.lengths, strict=False)])
                now = bundle.first(n)
                x, y = self._read(chunk.index)
                weights = chunk.inside * scale.to(chunk.inside).unsqueeze(1)
                program.on(now)(Step(x, y, [chunk.index.shape[1]] * n, weights))
                total[:n] += of(now.g)
            return total

        return self._by_parts(torch.no_grad()(some), self._held)

    # Samples

    def _by_parts(self, some: Callable[[Replica, list[int]], Tensor], held: list[np.ndarray]) -> Tensor:
        """Clients dealt out by size to as many parts as work side by side."""
        order = sorted(range(len(held)), key=lambda c: -len(held[c]))
        parts = [part for part in (order[0::2], order[1::2]) if part] if self._task.device == "cpu" else [order]
        answers = list(self._means.map(some, parts))
        found = answers[0].new_empty(len(held), answers[0].shape[1])
        for part, answer in zip(parts, answers, strict=True):
            found[part] = answer
        return found

    def _chunks(self, held: list[np.ndarray], size: int | None) -> Iterator[_Chunk]:
        size = size or self._means.chunk(len(held))
        size = min(size, len(held[0]))
        for at in range(0, len(held[0]), size):
            now = [own[at : at + size] for own in held if len(own) > at]
            lengths = [len(own) for own in now]
            index = np.zeros((len(now), size), np.int64)
            for row, own in zip(index, now, strict=True):
                row[: len(own)], row[len(own) :] = own, own[-1]
            inside = torch.arange(size) < torch.tensor(lengths).unsqueeze(1)
            device = self._task.device
            yield _Chunk(torch.from_numpy(index).to(device), inside.to(torch.float32).to(device), lengths)

    def _read(self, index: Tensor) -> tuple[Tensor, Tensor]:
        samples = self._means.samples
        x = samples.batch(index.flatten())
        return x.view(*index.shape, *x.shape[1:]), samples.y[index]


def _one_model(w: Tensor) -> bool:
    return w.dim() == 1 or len(w) == 1 or w.stride(0) == 0


def _evaluating(replica: Replica) -> Replica:
    replica.model.eval()
    return replica
