"""From what a person asked for to complete experiments: defaults filled in, presets applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noniid import models, split
from noniid.algorithms import ALGORITHMS
from noniid.data import CATALOGUE
from noniid.engine import ENGINES
from noniid.errors import unknown
from noniid.experiments.experiment import Experiment
from noniid.experiments.grid import grid, read_seeds
from noniid.experiments.published import PRESETS
from noniid.optim import SGD

DEFAULT_MOMENTUM = 0.9


def experiments_of(
    data: str, splits: Sequence[str], algorithms: Sequence[str], seeds: str,
    protocol: Mapping[str, Any] | None = None, as_published: str | None = None, **given: Any,
) -> list[Experiment]:  # fmt: skip
    """The grid that was asked for. An option left at None takes the preset's protocol, then our default."""
    _check_data(data)
    asked = {**(protocol or {}), **{name: value for name, value in given.items() if value is not None}}
    optim = SGD(asked.pop("lr", 0.01), asked.pop("momentum", DEFAULT_MOMENTUM), asked.pop("weight_decay", 0.0))
    if "model" in asked:
        asked["model"] = models.parse(asked["model"])
    if asked.get("engine", "threads") not in ENGINES:
        raise unknown("engine", asked["engine"], ENGINES)
    recipes = [split.parse(text) for text in splits or ["dirichlet(0.5)"]]
    chosen = [ALGORITHMS.parse(text) for text in algorithms or ["fedavg"]]
    base = Experiment(data, recipes[0], optim=optim, **asked)
    made = grid(base, recipes, chosen, read_seeds(seeds))
    preset = PRESETS[as_published] if as_published else None
    return [preset(experiment) for experiment in made] if preset else made


def _check_data(name: str) -> None:
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
