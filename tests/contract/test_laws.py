"""The laws of `noniid check`: every registered algorithm obeys them, and each law catches what breaks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from noniid import laws
from noniid.algorithms import ALGORITHMS, Algorithm, Federation, Local, Paper, State, Update, Wave
from noniid.laws import LAWS, DoesNotApply
from tests.contract.problems import FAST
from tests.contract.variants import DEFAULTS, VARIANTS

KNOBS = "every knob changes something"


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("name", [name for name in LAWS if name != KNOBS])
def test_every_variant_obeys(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On all engines, also on one that `noniid check` does not start for a look at an algorithm."""
    monkeypatch.setattr("noniid.laws.laws.FAST", FAST)
    try:
        LAWS[name](ALGORITHMS.parse(text))
    except DoesNotApply as reason:
        assert (name, str(reason)) in {
            ("memory of other clients is untouched", "it has no memory"),
            ("the order within a wave does not matter", "its clients arrive one after the other"),
        }


@pytest.mark.parametrize("text", DEFAULTS)
def test_every_knob_is_heard(text: str) -> None:
    """By itself, or beside some named value or another knob."""
    LAWS[KNOBS](ALGORITHMS.parse(text))


# Algorithms that break one law


@dataclass(frozen=True)
class Sound(Algorithm):
    """A little of everything, and nothing wrong."""

    mu: float = 0.5
    paper: ClassVar[Paper] = Paper("a test", "nobody", 2026, "https://example.org")

    def init(self, w: Tensor, federation: Federation) -> State:
        return State(w, server={"v": w.new_zeros(w.shape)}, memory={"seen": w.new_zeros(federation.num_clients, 1)})

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g + self.mu * (local.w - local.start)

    def update(self, state: State, wave: Wave) -> Update:
        v = 0.5 * state.server["v"] + wave.movement()
        w = wave.with_mean_statistics(state.w + v)
        return Update(w, server={"v": v}, memory={"seen": wave.memory["seen"] + 1})


@dataclass(frozen=True)
class DrawsGlobally(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(w=wave.mean() + 0.1 * torch.randn(wave.end.shape[1]))


COUNTER: list[float] = [0.0]


@dataclass(frozen=True)
class KeepsStateAside(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        COUNTER[0] += 1
        return super().update(state, wave)._replace(w=wave.mean() * (1 + 0.01 * COUNTER[0]))


@dataclass(frozen=True)
class ChangesItsInput(Sound):
    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g.add_(local.w - local.start)


@dataclass(frozen=True)
class MixesRows(Sound):
    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g + 0.1 * (local.w - local.start).sum().tanh()


@dataclass(frozen=True)
class InventsEntries(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(server={"new": state.w})


@dataclass(frozen=True)
class ForgetsOthers(Sound):
    """Its memory is one row for all, changed through the back door."""

    def start(self, state: State, wave: Wave) -> Wave:
        if state.memory["seen"].stride(0):
            state.memory["seen"].add_(1)
        return super().start(state, wave)


@dataclass(frozen=True)
class PrefersTheFirst(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(w=wave.end[0])


@dataclass(frozen=True)
class CountsSizes(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(w=wave.mean() / (1 + 0.01 * float(wave.sizes.sum())))


@dataclass(frozen=True)
class MovesByItself(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(w=0.9 * wave.mean())


@dataclass(frozen=True)
class ExtrapolatesStatistics(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(w=state.w + 8 * wave.movement())


@dataclass(frozen=True)
class DeafToAKnob(Sound):
    unheard: float = 1.0


@dataclass(frozen=True)
class IgnoresTheSeed(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        return super().update(state, wave)._replace(w=torch.full_like(state.w, 0.1))


@dataclass(frozen=True)
class DrawsFromNumpy(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        np.random.random()
        return super().update(state, wave)


@dataclass(frozen=True)
class Stumbles(Sound):
    def update(self, state: State, wave: Wave) -> Update:
        raise KeyError("oh")


CULPRITS: dict[str, type[Algorithm]] = {
    "the same seed gives the same bits": DrawsGlobally,
    "a resumed run equals the straight one": KeepsStateAside,
    "global random state is left alone": DrawsFromNumpy,
    "hooks leave their inputs as they are": ChangesItsInput,
    "steps on stacked rows equal steps on each": MixesRows,
    "an update changes what the state holds": InventsEntries,
    "memory of other clients is untouched": ForgetsOthers,
    "the order within a wave does not matter": PrefersTheFirst,
    "only shares of the sizes count": CountsSizes,
    "a learning rate of zero moves nothing": MovesByItself,
    "statistics stay statistics": ExtrapolatesStatistics,
    "every knob changes something": DeafToAKnob,
}


@pytest.mark.parametrize("name", CULPRITS)
def test_a_law_catches_who_breaks_it(name: str) -> None:
    with pytest.raises(laws.Broken):
        LAWS[name](CULPRITS[name]())


def test_a_sound_algorithm_obeys_all() -> None:
    assert [verdict for verdict in laws.check(Sound()) if verdict.holds is not True] == []


def test_two_seeds_must_differ() -> None:
    with pytest.raises(laws.Broken, match="two seeds"):
        LAWS["the same seed gives the same bits"](IgnoresTheSeed())


@dataclass(frozen=True)
class HeardByThreadsOnly(Sound):
    def loss(self, out: Any, batch: Any, local: Local) -> Tensor:
        in_thread = threading.current_thread() is not threading.main_thread()
        usual: Callable[..., Tensor] = super().loss
        return usual(out, batch, local) * (1.0 if in_thread else 2.0)


def test_engines_that_differ_are_noticed() -> None:
    with pytest.raises(laws.Broken, match="the engines threads and reference end"):
        LAWS["the fast engines equal the reference"](HeardByThreadsOnly())


@dataclass(frozen=True)
class MixesClients(Sound):
    """Over some trainable values: one by one both engines say the same."""

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g + 0.1 * (local.w - local.start)[..., :9].sum().tanh()


def test_hooks_that_mix_stacked_clients_are_noticed() -> None:
    with pytest.raises(laws.Broken, match="the engines batched and reference end"):
        LAWS["the fast engines equal the reference"](MixesClients())


@dataclass(frozen=True)
class CountsWorkers(Sound):
    def loss(self, out: Any, batch: Any, local: Local) -> Tensor:
        name = threading.current_thread().name
        usual: Callable[..., Tensor] = super().loss
        return usual(out, batch, local) * (1.0 if name.endswith("_0") else 1.5)


def test_workers_that_matter_are_noticed() -> None:
    with pytest.raises(laws.Broken, match="one worker and three of engine threads"):
        for _ in range(5):  # one thread may happen to do all the work
            LAWS["the number of workers does not matter"](CountsWorkers())


def test_what_a_hook_raises_is_a_broken_law_and_not_a_crash() -> None:
    verdicts = list(laws.check(Stumbles()))
    assert len(verdicts) == len(LAWS) and all(not verdict.holds for verdict in verdicts)
    assert "KeyError: 'oh'" in verdicts[0].why


def test_every_law_has_a_culprit() -> None:
    beside = {"the fast engines equal the reference", "the number of workers does not matter"}
    assert set(CULPRITS) | beside == set(LAWS)
