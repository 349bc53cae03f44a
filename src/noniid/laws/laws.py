"""What every algorithm must obey, whoever wrote it.

A law is a function of an algorithm: it returns when the law holds, raises Broken when it does not, and raises
DoesNotApply where the algorithm is one that the law says nothing about.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from noniid import seeds
from noniid.algorithms import Algorithm
from noniid.laws import problems
from noniid.laws.knobs import matters, numbers
from noniid.laws.watch import (
    CLOSE,
    COHORT,
    HOOKS,
    Broken,
    DoesNotApply,
    equal,
    fresh,
    guard,
    last,
    local,
    num_trainable,
    part,
    run,
    same,
    trained,
    with_hooks,
)  # fmt: skip
from noniid.optim import SGD

Law = Callable[[Algorithm], None]
LAWS: dict[str, Law] = {}
FAST = ("threads", "batched")


def law(function: Law) -> Law:
    """Enter a function into the book under its name in words."""
    LAWS[function.__name__.replace("_", " ")] = function
    return function


# Engines


@law
def the_fast_engines_equal_the_reference(algorithm: Algorithm) -> None:
    """Hooks say the same to threads on flat buffers, to clients stacked as rows, and to plain PyTorch one by one."""
    for cohort in (None, COHORT):
        slow = last(algorithm, cohort=cohort, engine="reference")
        for engine in FAST:
            fast = last(algorithm, cohort=cohort, engine=engine)
            same(fast, slow, f"the engines {engine} and reference end at different states", **CLOSE)


@law
def the_number_of_workers_does_not_matter(algorithm: Algorithm) -> None:
    """Not in a single bit."""
    for engine in FAST:
        one, several = (last(algorithm, workers=workers, engine=engine) for workers in (1, 3))
        same(one, several, f"one worker and three of engine {engine} end at different states")


@law
def the_same_seed_gives_the_same_bits(algorithm: Algorithm) -> None:
    """And another seed other numbers."""
    first, again, other = (last(algorithm, cohort=COHORT, seed=seed) for seed in (3, 3, 4))
    same(first, again, "two runs of one seed end at different states: a draw comes from elsewhere than `rng`")
    if torch.equal(algorithm.evaluated(first), algorithm.evaluated(other)):
        raise Broken("two seeds end at the same model")


@law
def a_resumed_run_equals_the_straight_one(algorithm: Algorithm) -> None:
    """All that survives a round is in State, as tensors."""
    straight = run(algorithm, rounds=4, cohort=COHORT)
    resumed = run(algorithm, rounds=4, cohort=COHORT, state=straight[1])
    same(straight[-1], resumed[-1], "stopped after round 2 and resumed, the run ends elsewhere: state is kept aside")
    for name, value in {**straight[-1].server, **straight[-1].memory}.items():
        if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Broken(f"the state's {name!r} is a {type(value).__name__}: only tensors can be kept")


@law
def global_random_state_is_left_alone(algorithm: Algorithm) -> None:
    """Neither torch's nor numpy's is drawn from."""
    task = problems.task(epochs=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        before = torch.get_rng_state(), str(np.random.get_state())
        last(algorithm, task=task)
        after = torch.get_rng_state(), str(np.random.get_state())
    if not torch.equal(before[0], after[0]) or before[1] != after[1]:
        raise Broken("a run moves the global generator: draw from `rng`")


# Hooks


@law
def hooks_leave_their_inputs_as_they_are(algorithm: Algorithm) -> None:
    """State in, state out: nothing is changed in place."""
    guarded = with_hooks(algorithm, {name: guard(name) for name in HOOKS})
    same(last(guarded, cohort=COHORT), last(algorithm, cohort=COHORT), "a run that is watched ends elsewhere")


@law
def steps_on_stacked_rows_equal_steps_on_each(algorithm: Algorithm) -> None:
    """`grad` and `after` are elementwise: they take one client's row and a whole wave's."""
    _, wave = trained(algorithm)
    for hook in ("grad", "after"):
        given = wave.start - wave.end if hook == "grad" else wave.end
        stacked = getattr(algorithm, hook)(given, local(wave, slice(None)))
        for i in range(len(wave.ids)):
            alone = getattr(algorithm, hook)(given[i], local(wave, i))
            equal(
                stacked[i], alone, f"`{hook}` of a wave is not `{hook}` of its clients one by one", rtol=1e-5, atol=1e-6
            )


@law
def an_update_changes_what_the_state_holds(algorithm: Algorithm) -> None:
    """It names entries of the state, of their shapes, and memory of the wave's clients only."""
    task = problems.for_algorithm(algorithm, problems.task())
    begun = algorithm.init(problems.initial(task), problems.federation(task))
    state, wave = trained(algorithm)
    update = algorithm.update(state, fresh(wave))
    if update.w.shape != state.w.shape:
        raise Broken(f"the new model has the shape {tuple(update.w.shape)}, the old one {tuple(state.w.shape)}")
    for kind, new, old in (("server", update.server, begun.server), ("memory", update.memory, begun.memory)):
        if set(new) - set(old):
            raise Broken(f"update gives {kind} entries that init does not: {', '.join(sorted(set(new) - set(old)))}")
    for name, rows in update.memory.items():
        if rows.shape != wave.memory[name].shape:
            raise Broken(f"update's memory {name!r} has the shape {tuple(rows.shape)}, not a row for each client")


@law
def memory_of_other_clients_is_untouched(algorithm: Algorithm) -> None:
    """Only clients that train change what they remember."""
    states = run(algorithm, rounds=3, cohort=COHORT)
    task = problems.for_algorithm(algorithm, problems.task(epochs=1))
    for before, after in itertools.pairwise(states):
        if not after.memory:
            raise DoesNotApply("it has no memory")
        members = problems.federation(task, COHORT)
        wave = algorithm.pick(before, members, seeds.stream(task.seed, "pick", after.round)).ids.tolist()
        for name, rows in after.memory.items():
            moved = (rows != before.memory[name]).flatten(1).any(1).nonzero().flatten().tolist()
            if not set(moved) <= set(wave):
                raise Broken(f"memory {name!r} changed of clients {sorted(set(moved) - set(wave))}, who did not train")


# Invariances


@law
def the_order_within_a_wave_does_not_matter(algorithm: Algorithm) -> None:
    """Clients of a wave are a set."""
    if algorithm.ordered:
        raise DoesNotApply("its clients arrive one after the other")
    state, wave = trained(algorithm)
    order = list(reversed(range(len(wave.ids))))
    a, b = (algorithm.update(state, fresh(each)) for each in (wave, part(wave, order)))
    equal(a.w, b.w, "the clients in reverse order give another model", **CLOSE)
    for name, rows in a.memory.items():
        equal(rows[order], b.memory[name], f"the clients in reverse order remember other {name!r}", **CLOSE)
    for name, value in a.server.items():
        rows = value.shape[0] == len(order) and value.dim() == 2  # a row for each client of the wave
        if not (
            torch.allclose(value, b.server[name], **CLOSE) or (rows and torch.allclose(value[order], b.server[name]))
        ):
            raise Broken(f"the clients in reverse order give another {name!r} on the server")


@law
def only_shares_of_the_sizes_count(algorithm: Algorithm) -> None:
    """Seven times the data everywhere is the same federation."""
    state, wave = trained(algorithm)
    scaled = wave._replace(sizes=wave.sizes * 7)
    a, b = (algorithm.update(state, fresh(each)).w for each in (wave, scaled))
    equal(a, b, "with all sizes times seven the model is another", rtol=1e-5, atol=1e-6)


@law
def a_learning_rate_of_zero_moves_nothing(algorithm: Algorithm) -> None:
    """Clients that stand still give the server nothing to learn from."""
    task = problems.task(optim=SGD(0.0, 0.9, 1e-3), epochs=1)
    trainable = num_trainable(task)
    begun, ended = problems.initial(task), last(algorithm, task=task, rounds=2)
    moved = (algorithm.evaluated(ended)[..., :trainable] - begun[:trainable]).abs().max()
    if float(moved) > 1e-5:
        raise Broken(f"parameters move by {float(moved):.2g} though no client does")


@law
def statistics_stay_statistics(algorithm: Algorithm) -> None:
    """BatchNorm's running variance is never extrapolated below zero, however long the server's steps."""
    task = problems.task(epochs=1)
    trainable = num_trainable(task)
    for state in run(algorithm, task=task, rounds=4):
        variance = algorithm.evaluated(state)[..., trainable + 3 : trainable + 6]
        if not bool((variance >= 0).all()):
            raise Broken("a running variance fell below zero: use wave.with_mean_statistics")


@law
def every_knob_changes_something(algorithm: Algorithm) -> None:
    """A parameter that moves no number is a parameter that is not heard."""
    switches = [
        field.name for field in dataclasses.fields(algorithm) if isinstance(getattr(algorithm, field.name), bool)
    ]
    for name in [*numbers(algorithm), *switches]:
        if not matters(algorithm, name):
            raise Broken(f"no value of {name} changes the result")
