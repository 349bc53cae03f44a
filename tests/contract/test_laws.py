"""Laws of algorithms, for every registered one and every named value of it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid import seeds
from noniid.algorithms import ALGORITHMS, Algorithm, Federation, Local, State, Wave
from noniid.algorithms.base import no_forward
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.fedprox import FedProx
from noniid.algorithms.scaffold import Scaffold
from noniid.engine import Round, Task, begin
from noniid.optim import SGD
from noniid.rows import Layout
from noniid.split import Split
from tests.contract import problems
from tests.contract.variants import VARIANTS

CLOSE = {"rtol": 2e-4, "atol": 2e-5}
each_variant = pytest.mark.parametrize("text", VARIANTS)


@functools.cache
def _rounds(text: str, cohort: int | None = None) -> list[Round]:
    """Three rounds of one epoch, shared by the laws that only look at them."""
    return problems.run(ALGORITHMS.parse(text), problems.task(epochs=1), rounds=3, cohort=cohort)


def _w(algorithm: Algorithm, task: Task, **how: Any) -> Tensor:
    return problems.run(algorithm, task, **how)[-1].state.w


def _equal_split() -> Split:
    order = seeds.stream(0, "test split").permutation(120)
    return Split(tuple(order[start : start + 20] for start in range(0, 100, 20)))


# Knobs


# How each algorithm is turned off: its neutral value, on which federation, for how many rounds, how exactly.
NEUTRAL: dict[type[Algorithm], tuple[Mapping[str, Any], bool, int, Mapping[str, float]]] = {
    FedAvg: ({}, False, 2, {}),
    FedProx: ({"mu": 0.0}, False, 2, {}),
    Scaffold: ({}, False, 1, {}),  # all variates are equal at first, so nothing is corrected
    FedNova: ({}, True, 2, CLOSE),  # equal clients take equally many steps
}


@each_variant
def test_a_neutral_knob_gives_fedavg(text: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    knob, equal_clients, rounds, tolerance = NEUTRAL[type(algorithm)]
    neutral = replace(algorithm, **knob)
    if equal_clients:
        a, b = (_w(each, problems.task(split=_equal_split()), rounds=rounds) for each in (neutral, FedAvg()))
    else:
        a, b = (_rounds(each)[rounds - 1].state.w for each in (ALGORITHMS.write(neutral), "fedavg"))
    torch.testing.assert_close(a, b, **(tolerance or {"rtol": 0, "atol": 0}))


def test_every_algorithm_has_a_neutral_knob() -> None:
    assert set(NEUTRAL) == set(ALGORITHMS.values())


def test_no_two_variants_give_the_same_model() -> None:
    """Few of many clients, unequal, with momentum: wherever two values differ, the numbers do."""
    finals = {text: _rounds(text, 2)[-1].state.w for text in VARIANTS}
    same = [(a, b) for a in finals for b in finals if a < b and torch.allclose(finals[a], finals[b], atol=1e-6)]
    assert not same


def _numeric_fields() -> list[tuple[type[Algorithm], str]]:
    return [
        (cls, field.name)
        for cls in ALGORITHMS.values()
        for field in dataclasses.fields(cls)
        if typing.get_type_hints(cls)[field.name] in (int, float)
    ]


@pytest.mark.parametrize(("cls", "name"), _numeric_fields())
def test_a_large_knob_changes_the_result(cls: type[Algorithm], name: str) -> None:
    usual = cls()
    large = replace(usual, **{name: 10 * getattr(usual, name) + 1})
    a, b = (_rounds(ALGORITHMS.write(each))[-1].state.w for each in (usual, large))
    assert float((a - b).norm()) > 1e-3 * float(a.norm())


# One client


def _centralised(task: Task, rounds: int, mu: float) -> Tensor:
    """Plain SGD on all data; with `mu`, held near the model the round began with."""
    net, layout, optim = copy.deepcopy(task.model), Layout.of(task.model), task.work.optim
    net.train()
    for t in range(1, rounds + 1):
        stepper = torch.optim.SGD(net.parameters(), optim.lr, optim.momentum, weight_decay=optim.weight_decay)
        anchor = [p.detach().clone() for p in net.parameters()]
        for x, y in task.batches(0, t):
            stepper.zero_grad()
            loss = F.cross_entropy(net(x)[0], y)
            if mu:
                gap = [(p - a).square().sum() for p, a in zip(net.parameters(), anchor, strict=True)]
                loss = loss + mu / 2 * torch.stack(gap).sum()
            loss.backward()
            stepper.step()
    return layout.pack(net)


@functools.cache
def _alone(mu: float) -> Tensor:
    return _centralised(problems.task(split=Split((np.arange(60),))), 3, mu)


@each_variant
def test_one_client_is_centralised_sgd(text: str) -> None:
    algorithm = ALGORITHMS.parse(text)
    task = problems.task(split=Split((np.arange(60),)))
    expected = _alone(getattr(algorithm, "mu", 0.0))
    torch.testing.assert_close(_w(algorithm, task, rounds=3), expected, **CLOSE)


# Order, sizes, rates


@each_variant
def test_the_clients_order_does_not_matter(text: str) -> None:
    """Full batches, so that the streams of batches, which belong to a client's number, order nothing."""
    algorithm, split, order = (
        ALGORITHMS.parse(text),
        problems.unequal_split(problems.dataset()),
        [3, 0, 4, 1, 2],
    )
    permuted = Split(tuple(split.indices[i] for i in order))
    a, b = (problems.run(algorithm, problems.task(split=s, batch=1000), rounds=2)[-1].state for s in (split, permuted))
    torch.testing.assert_close(a.w, b.w, **CLOSE)
    for name, rows in a.memory.items():
        torch.testing.assert_close(rows[order], b.memory[name], **CLOSE)


@each_variant
def test_a_learning_rate_of_zero_moves_no_parameter(text: str) -> None:
    task = problems.task(optim=SGD(0.0, 0.9, 1e-3), epochs=1)
    final = _w(ALGORITHMS.parse(text), task, rounds=2)
    trainable = Layout.of(task.model).num_trainable
    torch.testing.assert_close(final[:trainable], problems.initial(task)[:trainable])


@each_variant
def test_only_shares_of_the_data_count(text: str) -> None:
    algorithm, state, wave = _trained(text)
    scaled = wave._replace(sizes=wave.sizes * 7)
    torch.testing.assert_close(algorithm.update(state, wave).w, algorithm.update(state, scaled).w)


# Stacked rows


class Answers:
    """An `Ask` that needs no data: answers depend on the client's number only."""

    def __init__(self, ids: Tensor):
        self._ids = ids

    def loss(self, w: Tensor, /) -> Tensor:
        return self._ids + 1.0

    def grad(self, w: Tensor, /) -> Tensor:
        return torch.stack([_row(100 + int(i), w.shape[-1]) for i in self._ids])

    def features(self, w: Tensor, /) -> Tensor:
        return torch.stack([_row(200 + int(i), 3) for i in self._ids])


P, CLIENTS = 11, 6


def _row(seed: int, size: int = P) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def _part(wave: Wave, chosen: list[int]) -> Wave:
    """The same wave with only these of its clients, in this order."""
    rows = {
        name: getattr(wave, name)[chosen] for name in ("ids", "sizes", "steps", "staleness", "start", "end", "loss")
    }
    memory = {name: values[chosen] for name, values in wave.memory.items()}
    return wave._replace(**rows, memory=memory, ask=Answers(rows["ids"]))


@functools.cache
def _trained(text: str) -> tuple[Algorithm, State, Wave]:
    """A wave of four of six clients that has moved, over memory and server entries that are all different."""
    algorithm = ALGORITHMS.parse(text)
    state = begin(algorithm, _row(0), Federation(CLIENTS, 4, lambda: _row(1)))
    server = {name: _row(10 + i) for i, name in enumerate(state.server)}
    memory = {name: torch.stack([_row(20 + 10 * i + k) for k in range(CLIENTS)]) for i, name in enumerate(state.memory)}
    state = replace(state, server=server, memory=memory, round=1)
    ids = torch.tensor([0, 2, 3, 5])
    wave = Wave(
        ids=ids,
        sizes=torch.tensor([3, 10, 30, 7]),
        steps=torch.tensor([1, 2, 5, 3]),
        staleness=torch.zeros(4, dtype=torch.int64),
        start=state.w.expand(4, -1),
        end=torch.stack([_row(50 + i) for i in range(4)]),
        loss=torch.ones(4),
        shared={name: server[name] for name in algorithm.down},
        memory={name: rows[ids] for name, rows in memory.items()},
        optim=SGD(0.1, 0.9),
        rng=np.random.default_rng(0),
        ask=Answers(ids),
    )
    return algorithm, state, wave


@each_variant
@pytest.mark.parametrize("hook", ["grad", "after"])
def test_steps_of_stacked_rows_equal_steps_of_each(text: str, hook: str) -> None:
    algorithm, _, wave = _trained(text)
    w, g = wave.end, torch.stack([_row(70 + i) for i in range(4)])
    given = g if hook == "grad" else w

    def local(rows: Any) -> Local:
        memory = {name: values[rows] for name, values in wave.memory.items()}
        return Local(w[rows], wave.start[rows], wave.shared, memory, wave.optim, no_forward)

    stacked = getattr(algorithm, hook)(given, local(slice(None)))
    for i in range(4):
        torch.testing.assert_close(stacked[i], getattr(algorithm, hook)(given[i], local(i)), rtol=1e-6, atol=1e-7)


@each_variant
def test_a_clients_new_memory_does_not_depend_on_who_else_trains(text: str) -> None:
    algorithm, state, wave = _trained(text)
    together = algorithm.update(state, wave)
    for i in range(4):
        alone = algorithm.update(state, _part(wave, [i]))
        for name, rows in together.memory.items():
            torch.testing.assert_close(rows[i], alone.memory[name][0], rtol=1e-6, atol=1e-7)


@each_variant
def test_the_order_within_a_wave_does_not_matter_to_the_server(text: str) -> None:
    algorithm, state, wave = _trained(text)
    order = [2, 0, 3, 1]
    a, b = algorithm.update(state, wave), algorithm.update(state, _part(wave, order))
    torch.testing.assert_close(a.w, b.w, rtol=1e-5, atol=1e-6)
    for name, value in a.server.items():
        torch.testing.assert_close(value, b.server[name], rtol=1e-5, atol=1e-6)
    for name, rows in a.memory.items():
        torch.testing.assert_close(rows[order], b.memory[name], rtol=1e-5, atol=1e-6)


@each_variant
def test_what_an_update_names_is_what_the_state_holds(text: str) -> None:
    algorithm, state, wave = _trained(text)
    update = algorithm.update(state, wave)
    assert update.w.shape == state.w.shape
    assert set(update.server) <= set(state.server) and set(update.memory) <= set(state.memory)
    assert set(algorithm.down) <= set(state.server) and set(algorithm.up) <= set(state.memory)
    assert all(len(rows) == len(wave.ids) for rows in update.memory.values())


# Inputs are left as they are


def _tensors(thing: Any) -> list[Tensor]:
    """All tensors in a hook's arguments."""
    if isinstance(thing, Tensor):
        return [thing]
    if isinstance(thing, Mapping):
        return [tensor for value in thing.values() for tensor in _tensors(value)]
    if isinstance(thing, tuple):
        return [tensor for value in thing for tensor in _tensors(value)]
    if isinstance(thing, State):
        return _tensors((thing.w, thing.server, thing.memory))
    return []


def _guarded(name: str) -> Callable[..., Any]:
    def hook(self: Algorithm, *given: Any) -> Any:
        held = _tensors(given)
        before = [tensor.detach().clone() for tensor in held]
        result = getattr(type(self).__mro__[1], name)(self, *given)
        changed = [i for i, tensor in enumerate(held) if not torch.equal(tensor, before[i])]
        assert not changed, f"{name} changed its inputs"
        seen.add(name)
        return result

    return hook


HOOKS = ("init", "pick", "start", "loss", "grad", "after", "update")
seen: set[str] = set()


@each_variant
def test_hooks_leave_their_inputs_as_they_are(text: str) -> None:
    plain = ALGORITHMS.parse(text)
    guarded_class = type("Guarded", (type(plain),), {name: _guarded(name) for name in HOOKS})
    guarded = guarded_class(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)})
    seen.clear()
    watched = problems.run(guarded, problems.task(epochs=1), rounds=2, cohort=2)[-1].state
    assert seen == set(HOOKS)
    problems.same(watched, _rounds(text, 2)[1].state)


@each_variant
def test_a_round_leaves_the_first_state_as_it_was(text: str) -> None:
    algorithm, task = ALGORITHMS.parse(text), problems.task(epochs=1, batch=64)
    state = begin(algorithm, problems.initial(task), problems.federation(task))
    before = [tensor.clone() for tensor in _tensors(state)]
    problems.run(algorithm, task, rounds=1, state=state)
    assert all(torch.equal(a, b) for a, b in zip(before, _tensors(state), strict=True))


# Memory, variates, bytes


@each_variant
def test_memory_of_clients_outside_the_wave_is_untouched(text: str) -> None:
    algorithm, task = ALGORITHMS.parse(text), problems.task()
    first = begin(algorithm, problems.initial(task), problems.federation(task, 2))
    states = [first, *(done.state for done in _rounds(text, 2))]
    for before, after in itertools.pairwise(states):
        rng = seeds.stream(task.seed, "pick", after.round)
        wave = algorithm.pick(before, problems.federation(task, 2), rng).ids.tolist()
        assert len(set(wave)) == 2
        for name, rows in after.memory.items():
            moved = (rows != before.memory[name]).any(1).nonzero().flatten().tolist()
            assert moved == wave


@pytest.mark.parametrize("text", [t for t in VARIANTS if t.startswith("scaffold") and "random" not in t])
def test_scaffolds_c_is_the_mean_of_all_c_i(text: str) -> None:
    """From zero, and with the mean over all clients, whoever takes part; over the cohort only if all do."""
    for cohort in (None,) if "cohort" in text else (None, 2):
        for done in _rounds(text, cohort):
            c, memory = done.state.server["c"], done.state.memory["c"]
            torch.testing.assert_close(c, memory.mean(0), rtol=1e-3, atol=1e-4)


def test_scaffold_sharing_by_cohort_breaks_that_invariant() -> None:
    """The departure of the published code, so that the law above cannot hold by accident."""
    state = _rounds("scaffold(share=cohort)", 2)[-1].state
    assert not torch.allclose(state.server["c"], state.memory["c"].mean(0), rtol=1e-2, atol=1e-3)


@each_variant
def test_bytes_are_the_model_both_ways_and_what_travels_with_it(text: str) -> None:
    values = Layout.of(problems.task().model).size
    model_and_variate = 2 if text.startswith("scaffold") else 1
    assert _rounds(text, 2)[0].bytes_per_client == 4 * 2 * values * model_and_variate


# An algorithm of one's own


@dataclass(frozen=True)
class Prox(Algorithm):
    mu: float = 0.01

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g + self.mu * (local.w - local.start)


@dataclass(frozen=True)
class Clipped(Algorithm):
    """Label smoothing, and steps that stay in a box: `loss` and `after`."""

    most: float = 0.05
    smooth: float = 0.1

    def loss(self, out: Any, batch: Any, local: Local) -> Tensor:
        return F.cross_entropy(out.logits, batch.y, label_smoothing=self.smooth)

    def after(self, w: Tensor, local: Local) -> Tensor:
        return local.start + (w - local.start).clamp(-self.most, self.most)


@pytest.mark.parametrize("engine", ["threads", "reference"])
def test_an_algorithm_of_ones_own_works_through_the_engines(engine: str) -> None:
    own = ALGORITHMS.parse(f"{__name__}:Prox(0.5)")
    assert own == Prox(0.5)
    built_in = _w(FedProx(0.5), problems.task(), engine=engine)
    torch.testing.assert_close(_w(own, problems.task(), engine=engine), built_in, **CLOSE)


def test_loss_and_after_of_ones_own_are_heard_by_both_engines() -> None:
    task = problems.task()
    a, b = (_w(Clipped(), task, rounds=1, engine=engine) for engine in ("threads", "reference"))
    torch.testing.assert_close(a, b, **CLOSE)
    trainable = Layout.of(task.model).num_trainable
    assert float((a - problems.initial(task))[:trainable].abs().max()) <= 0.05 + 1e-6
    assert not torch.allclose(a, _w(replace(Clipped(), smooth=0.0), task, rounds=1))


class LogitsOnly(nn.Module):
    """A model of one's own that gives no features."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, problems.NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1))


@each_variant
def test_a_model_that_gives_only_logits_will_do(text: str) -> None:
    task = problems.task(LogitsOnly(), epochs=1)
    assert float((_w(ALGORITHMS.parse(text), task, rounds=1) - problems.initial(task)).norm()) > 0
