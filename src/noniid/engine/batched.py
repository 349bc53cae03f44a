"""Clients as one program: the rows of several clients are stepped together, as one `[C, P]`.

A step of a small dense model is mostly the interpreter's time; clients that take their steps together pay it once.
A wave is cut into bundles of clients, by a rule that knows nothing of workers, and threads take the bundles: the
numbers are the same to the bit for any number of workers. What cannot be stacked trains client by client, on the
same threads.

Shapes: C clients, P values of a model, T of them trainable (they come first).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from threading import Event
from typing import Any, TypeVar

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Ask, Wave
from noniid.engine.ask import Questions
from noniid.engine.bundle import Bundle, Stepper, bundle_of
from noniid.engine.dense import Dense
from noniid.engine.programs import program_for
from noniid.engine.recorded import Recorder
from noniid.engine.replica import Replica, Stopped, with_carried_states
from noniid.engine.stackable import Stackable
from noniid.engine.steps import Visit, resident, steps
from noniid.engine.task import Task
from noniid.engine.threads import Threads
from noniid.engine.together import Means
from noniid.engine.walk import walk_of

T = TypeVar("T")


class Batched:
    """See the module's text."""

    note = ""

    def __init__(self, task: Task, workers: int | None = None):
        self.task = task
        self._threads = Threads(task, workers)
        self.layout, self.workers, self.stop = self._threads.layout, self._threads.workers, Event()
        self._samples = resident(task.dataset.train, task.device) if not task.split.shifts else task.dataset.train
        self._stackable = Stackable(task, self.layout)
        on_gpu = torch.device(task.device).type == "cuda"
        self._recorder = Recorder(task, Replica(task, self.layout), self._samples) if on_gpu else None
        first = task.dataset.train.batch(torch.arange(1)).to(task.device)
        self._descends = Replica(task, self.layout).descent(first) is not None

    def refusal(self, algorithm: Algorithm, wave: Wave) -> str | None:
        """Why these clients train one by one; None where they train as one program."""
        return self._stackable.refusal(algorithm, wave)

    def walks(self, algorithm: Algorithm, wave: Wave) -> bool:
        """Whether visits of these clients are compiled as a whole: they pay for no step what stacking would share."""
        walk = walk_of(algorithm, wave.optim, self.task) if self._descends else None
        return walk is not None and walk.bare

    def train(self, algorithm: Algorithm, wave: Wave, tasks: Sequence[Task] | None = None) -> Wave:
        """`tasks` are given where clients of several runs train side by side: each client's own."""
        walks = tasks is None and self.walks(algorithm, wave)
        reason = None if walks else self.refusal(algorithm, wave)
        if reason:
            self.note = f"clients train one by one: {reason}"
        if walks or reason:
            self._threads.stop = self.stop  # whichever is ours by now
            return self._threads.train(algorithm, wave)
        end, loss = torch.empty_like(wave.start), torch.empty(len(wave.ids))
        states: list[dict[str, Tensor]] = [{} for _ in wave.ids]

        def train_some(replica: Replica, chosen: list[int]) -> None:
            bundle = bundle_of(replica, wave, chosen)
            loss[chosen] = self._train(replica, algorithm, bundle, _visits(wave, chosen, tasks)).to(loss)
            end[chosen] = bundle.w
            for c, i in enumerate(chosen):
                states[i] = {name: rows[c] for name, rows in bundle.state.items()}

        self._side_by_side(train_some, self._stackable.bundles(wave))
        return with_carried_states(wave._replace(end=end, loss=loss), states)

    @torch.no_grad()
    def _train(self, replica: Replica, algorithm: Algorithm, bundle: Bundle, visits: list[Visit]) -> Tensor:
        """All steps of these visits, those with most steps first; the mean loss of each, [C]."""
        if self._recorder and self._recorder.can(algorithm):
            loss = self._recorder.train(algorithm, bundle, visits, self.stop.is_set)
            if loss is not None:
                return loss
            self.note = f"steps are not recorded as CUDA graphs: {self._recorder.failures[repr(algorithm)]}"
        replica.model.train()
        total, program = torch.zeros(len(visits), device=bundle.w.device), program_for(replica, algorithm)
        stepper = Stepper(algorithm, bundle, program)
        for step in steps(self.task, self._samples, visits):
            if self.stop.is_set():
                raise Stopped
            active = len(step.lengths)
            if active < len(stepper.bundle.w):
                stepper = Stepper(algorithm, bundle.first(active), program)
            total[:active] += stepper(step)
        return total / torch.tensor([visit.steps for visit in visits], device=total.device)

    def ask(self, ids: Tensor, clock: int = 0) -> Ask:
        return self._means.questions(Questions(self, ids, clock), ids, clock)

    @functools.cached_property
    def _means(self) -> Means:
        judge, task = self._stackable, self.task
        dense = Dense.fits(task.model, self.layout)
        stacks = dense or self._recorder is not None
        return Means(task, self._samples, self._side_by_side, judge.bytes_a_sample, judge.room(), stacks)

    def _side_by_side(self, function: Callable[[Replica, T], Any], items: Sequence[T]) -> Iterable[Any]:
        """On a GPU one after the other: it has one queue."""
        if self._recorder is None:
            return self.map(function, items)
        return [function(self._recorder.replica, item) for item in items]

    def map(self, function: Callable[[Replica, T], Any], items: Sequence[T]) -> Iterable[Any]:
        return self._threads.map(function, items)

    def close(self) -> None:
        self._threads.close()
        if self._recorder:
            self._recorder.close()


def _visits(wave: Wave, chosen: list[int], tasks: Sequence[Task] | None) -> list[Visit]:
    ids, clock, steps = wave.ids.tolist(), wave.clock.tolist(), wave.steps.tolist()
    return [Visit(ids[i], clock[i], steps[i], tasks[i] if tasks else None) for i in chosen]
