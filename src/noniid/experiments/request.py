"""From what a person asked for to complete experiments: defaults filled in, presets applied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from noniid import models, split
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.wrappers import Stack
from noniid.data import CATALOGUE
from noniid.engine import AUTO, ENGINES, Choice, choose
from noniid.errors import BadInput, unknown
from noniid.experiments.experiment import Experiment
from noniid.experiments.grid import grid, read_seeds
from noniid.experiments.published import PRESETS
from noniid.optim import OPTIMISERS, SGD, Optimiser

DEFAULT_MOMENTUM = 0.9
OPTIM_FLAGS = ("lr", "momentum", "weight_decay")


def request(
    data: str = "digits", splits: Sequence[str] = (), algorithms: Sequence[str | Algorithm] = (), seeds: str | int = 1,
    *, protocol: Mapping[str, Any] | None = None, as_published: str | None = None, **given: Any,
) -> list[Experiment]:  # fmt: skip
    """The grid that was asked for: every split with every algorithm and seed.

    `given` are an experiment's other fields, and lr, momentum and weight_decay; `optim` and `wrap` may be texts. What
    is left out, or None, takes the `protocol` of a paper, then our default.

    >>> [str(e.split) for e in request("digits", ["iid", "labels(2)"], rounds=3)]
    ['iid', 'labels(2)']
    """
    _check_data(data)
    asked = {**(protocol or {}), **{name: value for name, value in given.items() if value is not None}}
    optim = _optimiser(asked.pop("optim", None), {n: asked.pop(n) for n in OPTIM_FLAGS if n in asked})
    if "wrap" in asked:
        asked["wrap"] = Stack.parse(asked["wrap"]) if isinstance(asked["wrap"], str) else asked["wrap"]
    if "model" in asked:
        asked["model"] = models.parse(asked["model"])
    if asked.get("engine", AUTO) not in (AUTO, *ENGINES):
        raise unknown("engine", asked["engine"], (AUTO, *ENGINES))
    recipes = [split.parse(text) for text in splits or ["dirichlet(0.5)"]]
    chosen = [a if isinstance(a, Algorithm) else ALGORITHMS.parse(a) for a in algorithms or ["fedavg"]]
    base = Experiment(data, recipes[0], optim=optim, **asked)
    made = grid(base, recipes, chosen, read_seeds(str(seeds)))
    preset = PRESETS[as_published] if as_published else None
    return [_with_engine(preset(experiment) if preset else experiment) for experiment in made]


def suited(experiment: Experiment) -> Choice:
    """The engine that suits an experiment's model and device, and why; no data are read for it."""
    entry = CATALOGUE[experiment.data]
    return choose(models.fresh(experiment.model, entry.shape, entry.num_classes, 0), experiment.device)


def _with_engine(experiment: Experiment) -> Experiment:
    """An experiment is complete: it names the engine that `auto` stands for, and its key is that engine's."""
    if experiment.engine != AUTO:
        return experiment
    return dataclasses.replace(experiment, engine=suited(experiment).engine)


def _optimiser(asked: str | Optimiser | None, flags: Mapping[str, float]) -> Optimiser:
    """The one asked for, with what the flags say in place of its own; SGD with momentum if none is."""
    if asked is None:
        return dataclasses.replace(SGD(momentum=DEFAULT_MOMENTUM), **flags)
    optim = OPTIMISERS.parse(asked) if isinstance(asked, str) else asked
    foreign = sorted(set(flags) - {field.name for field in dataclasses.fields(optim)})
    if foreign:
        raise BadInput(f"{OPTIMISERS.name_of(optim)} has no {' or '.join(foreign)}: leave it out, or use sgd.")
    return dataclasses.replace(optim, **flags)


def _check_data(name: str) -> None:
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
