"""A run's state between its rounds: written every few seconds, and brought back to the bit.

What clients remember goes into the checkpoint as long as it is little; more of it is kept in files of its own, so
that neither a round nor a checkpoint takes longer because more clients exist.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from noniid.algorithms import State
from noniid.engine import Carry, Engine, begin
from noniid.experiments.course import state_of, tensors_of
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready
from noniid.results.kept import Kept
from noniid.results.store import Store

KEPT_BYTES = 1 << 26  # of the rows of one name: what a checkpoint may take along, a tenth of a second's writing


class Checkpoints:
    """Those of one run."""

    def __init__(self, store: Store, experiment: Experiment):
        self._store, self._experiment = store, experiment
        self.kept = Kept(store.memory_folder(experiment.key))
        self._apart: set[str] = set()  # names of rows that are kept in files

    def resume(self, ready: Ready, engine: Engine) -> State:
        """The state of the last checkpoint, or the first one."""
        key, carry = self._experiment.key, Carry.of(engine.task, engine.layout)
        saved = self._store.load(key)
        self._store.forget_after(key, saved[1] if saved else 0)
        first = begin(self._experiment.algorithm, ready.w, ready.federation, carry)
        self._apart = {name for name, rows in first.memory.items() if rows.nbytes > KEPT_BYTES}
        if saved is None:
            self.kept.remove()
            return replace(first, memory={name: self._fresh(name, rows, ready) for name, rows in first.memory.items()})
        tensors, number = saved
        tensors = {name: tensor.to(self._experiment.device) for name, tensor in tensors.items()}
        known = state_of(tensors, number)
        memory = dict(known.memory)
        self._apart |= first.memory.keys() - memory.keys()
        for name in self._apart:
            if name in memory:  # of a version that kept no files
                memory[name] = self._fresh(name, memory[name], ready)
            else:
                memory[name] = self.kept.back(name, first.memory[name], number)
        self.kept.saved(number)
        return replace(known, memory={name: memory[name] for name in first.memory})

    def _fresh(self, name: str, rows: Tensor, ready: Ready) -> Tensor:
        visits = self._experiment.rounds * ready.federation.cohort
        return self.kept.begin(name, rows, visits) if name in self._apart else rows

    def save(self, state: State) -> None:
        """From now on this is the state that a killed run goes on from."""
        self.kept.sync()
        here = {name: rows for name, rows in state.memory.items() if name not in self._apart}
        self._store.save(self._experiment.key, tensors_of(replace(state, memory=here)), state.round)
        self.kept.saved(state.round)

    def drop(self) -> None:
        """Nobody will go on from here."""
        self.kept.remove()

    def finish(self, final: Tensor, round: int) -> None:
        """The run is done: its model, or its clients' models, are all that stays."""
        self._store.save(self._experiment.key, {"w": final}, round)
        self.drop()
