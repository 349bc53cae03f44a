"""From an experiment to something that trains: the data loaded, divided and placed, the model drawn."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import noniid
from noniid import data, models, seeds
from noniid.algorithms import Federation, Output
from noniid.engine import Task, Work, cohort_size, mixes_of
from noniid.errors import BadInput
from noniid.experiments.check import check
from noniid.experiments.experiment import Experiment
from noniid.experiments.privacy import check_statistics
from noniid.rows import Layout
from noniid.split import Placement, Profile, Reading, Recipe, Split, Traits, labels_checksum, profile


class Ready(NamedTuple):
    """All that the round loop needs."""

    task: Task
    federation: Federation
    w: Tensor  # the initial model, [P]
    mixes: Tensor  # each client's shares of the labels, [N, K]


@dataclass(frozen=True)
class Placed:
    """A data set and who holds what of it."""

    dataset: data.Dataset
    split: Split
    placement: Placement

    @property
    def counts(self) -> np.ndarray:
        """Training samples by client and label, [N, K]."""
        return self.split.counts(self.dataset.train.y.numpy(), self.dataset.num_classes)

    def seen(self, client: int, index: np.ndarray) -> np.ndarray:
        """The inputs of these samples as the client that holds them sees them, shifted once."""
        chosen, noise = torch.from_numpy(index), seeds.torch_stream(0, "inputs to measure", client)
        reading = Reading(chosen, client, self.split.num_clients, noise)
        return self.split.shifted(self.dataset.train.batch(chosen), reading).numpy()

    def profile(self, features: bool = True, seed: int = 0) -> Profile:
        """The measured skew; that of features takes seconds."""
        labels, seen = self.dataset.train.y.numpy(), self.seen if features else None
        return profile(self.split, labels, self.dataset.num_classes, seeds.stream(seed, "profile"), seen)


def prepare(experiment: Experiment) -> Ready:
    """Raises BadInput with one sentence for whatever cannot be trained."""
    check(experiment)
    placed = place(experiment)
    dataset, seed = placed.dataset, experiment.seed

    def random_model(purpose: str = "another model") -> torch.nn.Module:
        number = seeds.integer(seed, purpose)
        return models.fresh(experiment.model, dataset.input_shape, dataset.num_classes, number)

    if experiment.augment != "none" and len(dataset.input_shape) != 3:
        raise BadInput(f"augment {experiment.augment} is for images, and {dataset.name} has none: use none.")
    module = random_model("model")
    layout = Layout.of(module)
    if not layout.num_trainable:
        raise BadInput("the model has no trainable parameters.")
    device = experiment.device
    pooled = experiment.algorithm.pooled
    clients = 1 if pooled else placed.split.num_clients
    federation = Federation(
        clients,
        cohort_size(clients, 1.0 if pooled else experiment.participation),
        lambda: layout.pack(random_model()).to(device),
        _num_features(module, dataset),
    )
    who = placed.split.pooled() if pooled else placed.split
    bn = experiment.algorithm.bn or experiment.bn
    if experiment.algorithm.only_mean:
        check_statistics(experiment.wrap, module, layout, bn)
    task = Task(dataset, who, module, _work(experiment), seed, device, bn, experiment.wrap, experiment.precision)
    return Ready(task, federation, layout.pack(module).to(device), mixes_of(placed.counts))


def _work(e: Experiment) -> Work:
    return Work(e.epochs, e.batch, e.optim, e.augment, e.steps, e.drop_last, e.keep_optim, e.lr_decay)


@torch.no_grad()
def _num_features(module: torch.nn.Module, dataset: data.Dataset) -> int | None:
    """How many features the model shows, if it shows them."""
    features = Output.of(copy.deepcopy(module).eval()(dataset.train.batch(torch.arange(1)))).features
    return None if features is None else features.shape[1]


def place(experiment: Experiment) -> Placed:
    """The experiment's data set, divided and split.

    With published draws one legacy stream serves the division and then the split, as one global state did in the
    published code; our own draws give each its stream.
    """
    if experiment.draws == "published":
        legacy = seeds.Published(experiment.seed)
        dataset = _load(experiment.data, None if not data.is_drawn(experiment.data) else experiment.seed, legacy)
        draws: seeds.Draws = legacy
    else:
        drawn = experiment.seed if data.is_drawn(experiment.data) else None
        dataset = _load_own(experiment.data, drawn)
        draws = seeds.stream(experiment.seed, "split")
    return _placed(dataset, experiment.split, experiment.clients, draws)


def place_whole(name: str, recipe: Recipe, clients: int | None, seed: int) -> Placed:
    """All rows of data of one's own, or what a data set trains on, split: to be measured, not to be trained on."""
    dataset = data.load_whole(name) if data.is_own(name) else _load_own(name, seed if data.is_drawn(name) else None)
    return _placed(dataset, recipe, clients or Experiment.clients, seeds.stream(seed, "split"))


def _placed(dataset: data.Dataset, recipe: Recipe, clients: int | None, draws: seeds.Draws) -> Placed:
    return Placed(dataset, recipe.make(_traits(dataset.train), clients, draws), recipe.placement)


def _traits(samples: data.Samples) -> Traits:
    return Traits(samples.y.numpy(), samples.columns, lambda index: samples.batch(torch.from_numpy(index)))


def provenance(e: Experiment, placed: Placed) -> dict[str, Any]:
    """Where index lists come from: enough to make them again, and to know the samples they speak of."""
    train = placed.dataset.train
    return {
        "noniid": noniid.__version__,
        "data": e.data,
        "data_checksum": placed.dataset.checksum,
        "division_seed": e.seed if data.is_drawn(e.data) else None,
        "split": str(e.split),
        "clients": placed.split.num_clients,
        "seed": e.seed,
        "draws": e.draws,
        "num_samples": len(train),
        "num_dropped": placed.split.num_dropped,
        "labels": labels_checksum(train.y.numpy()),
    }


def _load(name: str, seed: int | None, draws: seeds.Draws) -> data.Dataset:
    """Drawn data must advance the shared stream, so it cannot come from the cache."""
    return _load_own(name, None) if seed is None else data.load(name, draws)


@functools.lru_cache(maxsize=2)
def _load_own(name: str, seed: int | None) -> data.Dataset:
    """The last data sets stay loaded: the cells of a table mostly share one."""
    return data.load(name, None if seed is None else seeds.stream(seed, "division"))
