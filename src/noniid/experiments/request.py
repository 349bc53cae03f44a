"""From what a person asked for to complete experiments: defaults filled in, presets applied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noniid import models, split
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.wrappers import Stack
from noniid.data import CATALOGUE, is_own, load_whole, natural_client, own_data
from noniid.engine import AUTO, ENGINES, Choice, choose, measured
from noniid.errors import BadInput, unknown
from noniid.experiments.experiment import Experiment
from noniid.experiments.grid import grid, read_seeds
from noniid.experiments.published import PRESETS
from noniid.optim import OPTIMISERS, SGD, Optimiser
from noniid.results.store import Store
from noniid.split import Recipe, Saved

DEFAULT_MOMENTUM = 0.9
OPTIM_FLAGS = ("lr", "momentum", "weight_decay")
OWN_FLAGS = ("label", "client", "test", "ignore")


def request(
    data: Any = "digits", splits: Sequence[str] = (), algorithms: Sequence[str | Algorithm] = (), seeds: str | int = 1,
    *, protocol: Mapping[str, Any] | None = None, as_published: str | None = None, **given: Any,
) -> list[Experiment]:  # fmt: skip
    """The grid that was asked for: every split with every algorithm and seed.

    `data` is a data set's name, or a file or what else `own_data` takes; then `given` may hold its label, client, test
    and ignore. Otherwise `given` are an experiment's other fields, lr, momentum and weight_decay, and the `store`;
    `optim` and `wrap` may be texts. What is left out, or None, takes the `protocol` of a paper, then our default. Under
    the engine `auto` a run that the `store` holds is the one asked for, whichever engine trained it.

    >>> [str(e.split) for e in request("digits", ["iid", "labels(2)"], rounds=3)]
    ['iid', 'labels(2)']
    """
    store = given.pop("store", None)
    data = known_data(data, **{name: given.pop(name) for name in OWN_FLAGS if name in given})
    asked = {**(protocol or {}), **{name: value for name, value in given.items() if value is not None}}
    optim = _optimiser(asked.pop("optim", None), {n: asked.pop(n) for n in OPTIM_FLAGS if n in asked})
    if "wrap" in asked:
        asked["wrap"] = Stack.parse(asked["wrap"]) if isinstance(asked["wrap"], str) else asked["wrap"]
    if "model" in asked:
        asked["model"] = models.parse(asked["model"])
    if asked.get("engine", AUTO) not in (AUTO, *ENGINES):
        raise unknown("engine", asked["engine"], (AUTO, *ENGINES))
    recipes = [_complete(split.parse(text)) for text in splits or [_default_split(data)]]
    chosen = [a if isinstance(a, Algorithm) else ALGORITHMS.parse(a) for a in algorithms or ["fedavg"]]
    _check_count(recipes, given.get("clients"))
    base = Experiment(data, Recipe(), optim=optim, **asked)
    made = grid(base, recipes, chosen, read_seeds(str(seeds)))
    preset = PRESETS[as_published] if as_published else None
    kept = Store(store) if store and Path(store).exists() else None
    return [_with_engine(preset(experiment) if preset else experiment, kept) for experiment in made]


def suited(experiment: Experiment) -> Choice:
    """The engine that suits an experiment's model and device, and why; of what is known no data are read for it."""
    if is_own(experiment.data):
        dataset = load_whole(experiment.data)
        shape, num_classes = dataset.input_shape, dataset.num_classes
    else:
        shape, num_classes = CATALOGUE[experiment.data].shape, CATALOGUE[experiment.data].num_classes
    module, device = models.fresh(experiment.model, shape, num_classes, 0), experiment.device
    return choose(module, device, lambda: measured(module, shape, num_classes, device, experiment.batch))


def _with_engine(experiment: Experiment, store: Store | None) -> Experiment:
    """An experiment is complete: it names the engine that `auto` stands for, and its key is that engine's.

    Engines agree but for rounding, so a stored run of another one is the answer, too: what was trained once is found
    again after an upgrade, or where the machine is now measured otherwise.
    """
    if experiment.engine != AUTO:
        return experiment
    named = [dataclasses.replace(experiment, engine=name) for name in ENGINES]
    stored = next((each for each in named if store and store.find(each.key)), None)
    return stored or dataclasses.replace(experiment, engine=suited(experiment).engine)


def _optimiser(asked: str | Optimiser | None, flags: Mapping[str, float]) -> Optimiser:
    """The one asked for, with what the flags say in place of its own; SGD with momentum if none is."""
    if asked is None:
        return dataclasses.replace(SGD(momentum=DEFAULT_MOMENTUM), **flags)
    optim = OPTIMISERS.parse(asked) if isinstance(asked, str) else asked
    foreign = sorted(set(flags) - {field.name for field in dataclasses.fields(optim)})
    if foreign:
        raise BadInput(f"{OPTIMISERS.name_of(optim)} has no {' or '.join(foreign)}: leave it out, or use sgd.")
    return dataclasses.replace(optim, **flags)


def known_data(
    data: Any, label: str | None = None, client: str | None = None, test: str | None = None, ignore: str | None = None
) -> str:
    """The name of a data set, or the whole text of data of one's own: a path, or what `own_data` takes or has made."""
    if isinstance(data, str) and data in CATALOGUE:
        if label or client or test or ignore:
            raise BadInput(f"{data} has its own labels and division: label, client, test and ignore are for files.")
        return data
    if isinstance(data, str) and is_own(data):
        return data
    if isinstance(data, str) and not (label or client or _is_path(data)):
        raise unknown("data set", data, CATALOGUE)
    return own_data(data, label, client, test="clients" if test == "clients" else "rows", ignore=ignore or "")


def _is_path(text: str) -> bool:
    return Path(text).exists() or Path(text).suffix != "" or "/" in text


def _default_split(data: str) -> str:
    """Clients as they are, where the data tell."""
    client = natural_client(data)
    return split.PLACEMENTS.write(split.By(client)) if client else "dirichlet(0.5)"


def _check_count(recipes: Sequence[Recipe], clients: int | None) -> None:
    if clients is not None and all(recipe.placement.own_count for recipe in recipes):
        names = " and ".join(split.PLACEMENTS.write(recipe.placement) for recipe in recipes)
        raise BadInput(f"how many clients there are is told by {names}: leave the number out.")


def _complete(recipe: Recipe) -> Recipe:
    """A saved split is told with its file's checksum: what changes there makes another run."""
    placement = recipe.placement
    return dataclasses.replace(recipe, placement=placement.completed()) if isinstance(placement, Saved) else recipe
