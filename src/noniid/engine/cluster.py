"""The workers of a Ray cluster, and messages to whoever is free.

A worker that is lost is replaced, and what it had in hand goes to others. Nothing is kept by a worker that could not
be sent again.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

import torch

import noniid
from noniid.engine.hand import Greeting, Hand
from noniid.engine.replica import Stopped
from noniid.engine.threads import default_workers
from noniid.errors import BadInput

AHEAD = 2  # messages that a worker has in hand, so that it need not wait for the next one
LOSSES = 4  # workers that may be lost over one message
STARTS = 4  # workers that may in a row fail to start
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 120.0  # without a single worker

Message = list[int]
Part = Callable[[Message], Any]


@dataclass(eq=False)
class Worker:
    actor: Any
    greeting: Any  # a reference to its first answer; None once that is here
    pid: int = 0
    in_hand: int = 0


class _Sent(NamedTuple):
    worker: Worker
    message: Message


class Cluster:
    """See the module's text. Workers outlive the engines that use them."""

    def __init__(self, ray: Any, cpus: float, joined: bool):
        self._ray, self._joined = ray, joined
        self.size = max(1, int(cpus)) if joined else default_workers()
        self.workers: list[Worker] = []
        self._numbers = itertools.count(1)
        self._failed_starts = 0
        # On a cluster of our own we ask for as many as we like; elsewhere Ray finds each a free processor.
        self._actor = ray.remote(num_cpus=1 if joined else 0, max_restarts=0, concurrency_groups={"aside": 1})(Hand)

    def ensure(self, workers: int) -> None:
        """At least so many workers, being started if need be."""
        if self._joined and workers > self.size:
            raise BadInput(f"the Ray cluster has {self.size} processors: ask for as many workers, not {workers}.")
        while len(self.workers) < workers:
            self.workers.append(self._start())

    def put(self, value: Any) -> Any:
        """A reference to the value, which each machine fetches once."""
        return self._ray.put(value)

    def work(
        self, job: Any, messages: Iterable[Message], part: Part, workers: int, stop: Event | None = None,
        ahead: int = AHEAD,
    ) -> Iterator[tuple[Message, Any]]:  # fmt: skip
        """Messages and their answers, as they come. A mutable sequence of messages may be added to meanwhile.

        With `stop` set what is under way is broken off, what comes of it is still told, and then Stopped is raised.
        """
        waiting = messages if isinstance(messages, MutableSequence) else list(messages)
        going = _Work(self, next(self._numbers), (self.put(job),), part, waiting, workers, ahead)
        try:
            while waiting or going.sent:
                if stop and stop.is_set() and not going.stopped:
                    going.stop()
                going.send()
                yield from going.receive()
            if going.stopped:
                raise Stopped
        finally:
            going.close()

    def answer(self, reference: Any) -> Any:
        """What a worker answered; what it raised is raised here as if it had happened here."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def wait(self, references: list[Any]) -> list[Any]:
        """Those that are answered, after a moment at most."""
        return self._ray.wait(references, num_returns=1, timeout=POLL_SECONDS, fetch_local=False)[0]

    def replace(self, lost: Worker) -> None:
        """Another worker in its stead, unless that was done already."""
        if lost in self.workers:
            self.workers[self.workers.index(lost)] = self._start()
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(lost.actor)

    def welcome(self, worker: Worker) -> None:
        """A worker that has started may work, if it is the same noniid as here."""
        try:
            greeting: Greeting = self._ray.get(worker.greeting)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise BadInput(f"workers of the Ray cluster do not start: {last_line(error)}") from None
            self.replace(worker)
            return
        for name, here, there in (
            ("noniid", noniid.__version__, greeting.noniid),
            ("torch", torch.__version__, greeting.torch),
        ):
            if here.partition("+")[0] != there.partition("+")[0]:
                raise BadInput(f"{greeting.machine} has {name} {there} and here it is {here}: install the same there.")
        worker.greeting, worker.pid, self._failed_starts = None, greeting.pid, 0

    @property
    def losses(self) -> tuple[type[Exception], ...]:
        return (self._ray.exceptions.RayError,)

    def _start(self) -> Worker:
        actor = self._actor.options(scheduling_strategy="SPREAD").remote(self._ray.get)
        return Worker(actor, actor.greet.remote())


class _Work:
    """One job's messages on their way."""

    def __init__(  # noqa: PLR0913, PLR0917
        self, cluster: Cluster, number: int, job: tuple[Any], part: Part, waiting: MutableSequence[Message],
        workers: int, ahead: int,
    ):  # fmt: skip
        self._cluster, self._number, self._job, self._part = cluster, number, job, part
        self._waiting, self._workers, self._ahead = waiting, workers, ahead
        self.sent: dict[Any, _Sent] = {}
        self.stopped = False
        self._lost: collections.Counter[tuple[int, ...]] = collections.Counter()
        self._last_seen = time.monotonic()

    def send(self) -> None:
        """Fill the hands of those that have started, the emptiest first."""
        ready = [worker for worker in self._cluster.workers[: self._workers] if worker.greeting is None]
        while self._waiting and ready:
            worker = min(ready, key=lambda each: each.in_hand)
            if worker.in_hand >= self._ahead:
                break
            message = self._waiting.pop(0)
            reference = worker.actor.work.remote(self._number, self._job, self._part(message))
            self.sent[reference] = _Sent(worker, message)
            worker.in_hand += 1

    def receive(self) -> Iterator[tuple[Message, Any]]:
        """Answers that have come by now; waits a moment for the first."""
        starting = {worker.greeting: worker for worker in self._cluster.workers[: self._workers] if worker.greeting}
        for reference in self._cluster.wait([*self.sent, *starting]):
            self._last_seen = time.monotonic()
            if reference in starting:
                self._cluster.welcome(starting[reference])
            else:
                yield from self._received(reference)
        if not self.sent and time.monotonic() - self._last_seen > PATIENCE_SECONDS:
            raise BadInput(
                f"no worker of the Ray cluster has started for {PATIENCE_SECONDS:.0f} s: see `ray status`; "
                "the same command goes on from here."
            )

    def _received(self, reference: Any) -> Iterator[tuple[Message, Any]]:
        worker, message = self.sent.pop(reference)
        worker.in_hand -= 1
        try:
            answer = self._cluster.answer(reference)
        except self._cluster.losses as error:
            self._cluster.replace(worker)
            self._lost[tuple(message)] += 1
            if self._lost[tuple(message)] >= LOSSES:
                yield message, BadInput(f"{LOSSES} workers were lost over the same clients: {last_line(error)}")
            elif not self.stopped:
                self._waiting.insert(0, message)
            return
        del self._lost[tuple(message)]  # a cell that gets on may lose as many again
        yield message, answer

    def stop(self) -> None:
        """Nothing more is sent, and what is under way is broken off."""
        self.stopped = True
        self._waiting.clear()
        for worker in {sent.worker for sent in self.sent.values()}:
            worker.actor.stop.options(concurrency_group="aside").remote(self._number)

    def close(self) -> None:
        """Whatever is still under way is nobody's any more: the workers' hands are free."""
        self.stop()
        for sent in self.sent.values():
            sent.worker.in_hand -= 1
        self.sent.clear()


def last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2].strip()
