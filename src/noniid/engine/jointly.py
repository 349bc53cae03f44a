"""Several runs as rows of one program: seeds of one experiment, or cells that differ in an algorithm's numbers.

Each run keeps its own round loop, in a thread of its own, and its own state; only training is shared. A run that has a
wave to train waits until all others have one, too, or are through; then the clients of all train side by side. What
one run's program was given once for all its clients, its broadcast and its numbers, lies here in their rows.

Shapes: C clients of all waves together, P values of a model.
"""

from __future__ import annotations

import dataclasses
import functools
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from noniid.algorithms import Algorithm, Federation, Local, State, Wave
from noniid.engine.base import Engine
from noniid.engine.memory import Keeper
from noniid.engine.simulate import Round, Schedule, simulate

SHARED, NUMBER = "shared.", "number."  # under these names a row of memory holds what is one run's


class Cell(NamedTuple):
    """A run, ready to be simulated, on an engine of its own."""

    engine: Engine
    algorithm: Algorithm
    state: State
    federation: Federation
    schedule: Schedule
    keeper: Keeper | None = None


def simulate_each(cells: Sequence[Cell]) -> Iterator[tuple[int, Round | Exception]]:
    """The rounds of all cells with the place of each: of one as they come, of several side by side."""
    if len(cells) > 1:
        yield from simulate_together(cells)
        return
    for cell in cells:
        rounds = simulate(*cell)
        while True:
            try:
                done = next(rounds, None)
            except Exception as error:
                yield 0, error
                return
            if done is None:
                return
            yield 0, done


def simulate_together(cells: Sequence[Cell]) -> Iterator[tuple[int, Round | Exception]]:
    """What each cell's `simulate` gives, on a `Batched` engine each, with the cell's place: its rounds, or what it
    raised at last.

    A cell waits with its next round until its last one has been taken and the next item is asked for.
    """
    hub, told = _Hub(len(cells)), queue.Queue[tuple[int, Any, threading.Event]]()

    def live(place: int, cell: Cell) -> None:
        taken = threading.Event()
        try:
            for done in simulate(_Joined(cell.engine, hub, place), *cell[1:]):  # type: ignore[arg-type]
                taken.clear()
                told.put((place, done, taken))
                taken.wait()
            told.put((place, None, taken))
        except Exception as error:
            told.put((place, error, taken))
        finally:
            hub.leave()

    threads = [threading.Thread(target=live, args=each, daemon=True) for each in enumerate(cells)]
    for thread in threads:
        thread.start()
    left = len(cells)
    try:
        while left:
            place, item, taken = told.get()
            left -= not isinstance(item, Round)
            try:
                if item is not None:
                    yield place, item
            finally:
                taken.set()
    finally:
        if left:  # given up half way
            for cell in cells:
                cell.engine.stop.set()
        while left:
            _, item, taken = told.get()
            left -= not isinstance(item, Round)
            taken.set()
        for thread in threads:
            thread.join()


class _Joined:
    """An engine that trains its waves together with those of others."""

    def __init__(self, engine: Engine, hub: _Hub, place: int):
        self._engine, self._hub, self._place = engine, hub, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def train(self, algorithm: Algorithm, wave: Wave) -> Wave:
        return self._hub.train(_Part(self._place, self._engine, algorithm, wave))


@dataclass(eq=False)
class _Part:
    """A wave of one run, and what became of it."""

    place: int  # of the run among all
    engine: Any  # a Batched
    algorithm: Algorithm
    wave: Wave
    trained: Wave | None = None
    error: BaseException | None = None

    @functools.cached_property
    def kind(self) -> Any:
        """Parts of one kind can be trained as one wave."""
        task, wave = self.engine.task, self.wave
        alone = self.engine.walks(self.algorithm, wave) or self.engine.refusal(self.algorithm, wave) is not None
        if alone or not task.plain:
            return id(self)
        shapes = [(name, rows.shape[1:]) for rows in (wave.memory, wave.carried) for name, rows in sorted(rows.items())]
        shapes += [(name, value.shape) for name, value in sorted(wave.shared.items())]
        words = replace(self.algorithm, **dict.fromkeys(_numbers(self.algorithm), 0.0))
        samples = id(task.dataset.train.x)
        return samples, self.engine.layout, task.device, task.work.batch_size, repr(words), wave.optim, tuple(shapes)


class _Hub:
    """Where runs meet: whoever comes last trains for all."""

    def __init__(self, runs: int):
        self._runs, self._waiting, self._lock = runs, list[_Part](), threading.Condition()

    def train(self, part: _Part) -> Wave:
        with self._lock:
            self._waiting.append(part)
            self._go_if_all_are_here()
            self._lock.wait_for(lambda: part.trained is not None or part.error is not None)
        if part.error is not None:
            raise part.error
        assert part.trained is not None
        return part.trained

    def leave(self) -> None:
        with self._lock:
            self._runs -= 1
            self._go_if_all_are_here()

    def _go_if_all_are_here(self) -> None:
        if not self._waiting or len(self._waiting) < self._runs:
            return
        # Whoever comes first, the same engine leads: it has made recordings, and bits may depend on the rows' order.
        parts, self._waiting = sorted(self._waiting, key=lambda part: part.place), []
        try:
            for alike in _by_kind(parts):
                _train(alike)
        except BaseException as error:  # each run's own thread hands it on
            for part in parts:
                part.error = error
        self._lock.notify_all()


def _by_kind(parts: list[_Part]) -> list[list[_Part]]:
    kinds: dict[Any, list[_Part]] = {}
    for part in parts:
        kinds.setdefault(part.kind, []).append(part)
    return list(kinds.values())


def _train(parts: list[_Part]) -> None:
    """As one wave, or where a hook cannot take its numbers as tensors one after the other."""
    together = parts if len(parts) > 1 else []
    try:
        for part, wave in zip(together, _trained(together), strict=True):
            part.trained = wave
    except (TypeError, ValueError, RuntimeError):
        together = []
    for part in [] if together else parts:
        try:
            part.trained = part.engine.train(part.algorithm, part.wave)
        except Exception as error:
            part.error = error


def _trained(parts: list[_Part]) -> list[Wave]:
    if not parts:
        return []
    lead, names = parts[0], _differing([part.algorithm for part in parts])
    waves = [_in_rows(part, names) for part in parts]
    joint = waves[0]._replace(
        **{name: torch.cat([getattr(wave, name) for wave in waves]) for name in _PER_CLIENT},
        memory=_joined([wave.memory for wave in waves]), carried=_joined([wave.carried for wave in waves]), shared={},
    )  # fmt: skip
    tasks = [part.engine.task for part in parts for _ in part.wave.ids]
    ended = lead.engine.train(_joint(lead.algorithm), joint, tasks)
    cuts = [len(part.wave.ids) for part in parts]
    ends, losses = ended.end.split(cuts), ended.loss.split(cuts)
    carried = [
        {name: rows.split(cuts)[at] for name, rows in ended.carried.items()} for at in range(len(parts))
    ]  # fmt: skip
    return [
        part.wave._replace(end=end.clone(), loss=loss, carried=own)
        for part, end, loss, own in zip(parts, ends, losses, carried, strict=True)
    ]


_PER_CLIENT = ("ids", "clock", "sizes", "weights", "steps", "staleness", "start", "end", "loss")


def _joined(memories: Sequence[Any]) -> dict[str, Tensor]:
    return {name: torch.cat([memory[name] for memory in memories]) for name in memories[0]}


def _differing(algorithms: Sequence[Algorithm]) -> list[str]:
    """The numbers in which these algorithms differ."""
    first = algorithms[0]
    return [name for name in _numbers(first) if len({getattr(each, name) for each in algorithms}) > 1]


def _in_rows(part: _Part, names: Sequence[str]) -> Wave:
    """The wave with what its run broadcasts, and these of its algorithm's numbers, as rows of memory."""
    wave, clients = part.wave, len(part.wave.ids)
    rows = {SHARED + name: value.expand(clients, *value.shape) for name, value in wave.shared.items()}
    for name in names:
        rows[NUMBER + name] = wave.start.new_full((clients, 1), float(getattr(part.algorithm, name)))
    return wave._replace(memory={**wave.memory, **rows})


def _numbers(algorithm: Algorithm) -> list[str]:
    """The fields that are plain numbers: whole ones and switches decide what is done, not how much."""
    return [field.name for field in dataclasses.fields(algorithm) if type(getattr(algorithm, field.name)) is float]


def _joint(algorithm: Algorithm) -> Algorithm:
    return _joint_kind(type(algorithm))(algorithm)


@functools.cache
def _joint_kind(kind: type[Algorithm]) -> Any:
    """An algorithm whose hooks read their run's broadcast and numbers from their rows; those not overridden stay so."""

    def hook(name: str) -> Any:
        def asked(self: Any, *arguments: Any) -> Any:
            *given, local = arguments
            inner, own = _unpacked(self.inner, local, scalars=name == "loss")
            return getattr(inner, name)(*given, own)

        return asked

    mine = {
        name: hook(name) for name in ("loss", "grad", "after") if getattr(kind, name) is not getattr(Algorithm, name)
    }
    made = type(f"Joint{kind.__name__}", (Algorithm,), {"__annotations__": {"inner": Algorithm}, **mine})
    return dataclass(frozen=True)(made)


def _unpacked(algorithm: Algorithm, local: Local, scalars: bool) -> tuple[Algorithm, Local]:
    memory = {name: rows for name, rows in local.memory.items() if not name.startswith((SHARED, NUMBER))}
    shared = {name.removeprefix(SHARED): rows for name, rows in local.memory.items() if name.startswith(SHARED)}
    numbers = {
        name.removeprefix(NUMBER): rows.squeeze(-1) if scalars else rows
        for name, rows in local.memory.items()
        if name.startswith(NUMBER)
    }
    return replace(algorithm, **numbers), local._replace(memory=memory, shared=shared)
