"""`noniid split` from start to end: the table, what is measured, the file and the picture that were asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from noniid.errors import BadInput
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Placed, place, provenance
from noniid.results.figures import split_figure
from noniid.results.pictures import (
    bubbles_figure,
    cube_figure,
    examples_figure,
    population_figure,
    sizes_figure,
    tsne_figure,
)
from noniid.screens.session import check_figure
from noniid.screens.skew import show_evidence
from noniid.screens.split import show_split, split_json
from noniid.screens.words import console
from noniid.seeds import stream
from noniid.split import check_form, looked_at, save

MOST_EXAMPLES = (4, 7)  # images, clients


@dataclass(frozen=True)
class Wanted:
    """What is to be shown, and written."""

    as_json: bool = False
    show_all: bool = False
    features: bool = False
    export: str | None = None
    figure: str | None = None
    kind: str = "counts"


def show_placed(experiment: Experiment, wanted: Wanted) -> None:
    """Who would hold what: exactly the split that `noniid run` trains on with these clients and this seed."""
    if wanted.figure:
        check_figure(wanted.figure)
    if wanted.export:
        check_form(wanted.export)
    placed = place(experiment)
    labels, num_classes = placed.dataset.train.y.numpy(), placed.dataset.num_classes
    title = f"{experiment.data}, {experiment.split}, {placed.split.num_clients} clients"
    # Files first: a picture that these data do not have is refused before anything is said, and whoever reads only
    # the beginning of what is said has them all the same.
    if wanted.figure:
        draw(placed, title, wanted.figure, wanted.kind, experiment.seed)
    if wanted.export:
        save(placed.split, wanted.export, provenance(experiment, placed))
    profile = placed.profile(wanted.features, experiment.seed) if placed.split.num_clients > 1 else None
    if wanted.as_json:
        print(json.dumps(split_json(placed.split, labels, num_classes, profile)))
    else:
        show_split(console(), title, placed.split, labels, num_classes, wanted.show_all)
        if profile is not None:
            show_evidence(console(), profile)


def draw(placed: Placed, title: str, file: str, kind: str, seed: int) -> None:
    """One picture of a split."""
    if kind == "counts":
        split_figure(placed.counts, title, file)
    elif kind == "population":
        population_figure(placed.counts, title, file)
    elif kind == "bubbles":
        bubbles_figure(placed.counts, title, file)
    elif kind == "sizes":
        sizes_figure(placed.split.sizes, title, file)
    elif kind == "points":
        _draw_points(placed, title, file)
    elif kind == "tsne":
        _draw_plane(placed, title, file, seed)
    else:
        _draw_examples(placed, title, file)


def _draw_points(placed: Placed, title: str, file: str) -> None:
    if placed.dataset.input_shape != (3,):
        raise BadInput(f"points are drawn in three dimensions, as fcube's: {placed.dataset.name} has other inputs.")
    split = placed.split
    seen = np.empty((len(placed.dataset.train), 3), np.float32)
    for client, index in enumerate(split.indices):
        seen[index] = placed.seen(client, index)
    cube_figure(seen, placed.dataset.train.y.numpy(), split.indices, title, file)


def _draw_plane(placed: Placed, title: str, file: str, seed: int) -> None:
    """The same samples as the measure of feature skew looks at, as their clients see them."""
    shape = placed.dataset.input_shape
    held = looked_at(placed.split, int(np.prod(shape)), stream(seed, "plane"))
    rows = np.concatenate([placed.seen(client, index).reshape(len(index), -1) for client, index in held.items()])
    clients = np.repeat(list(held), [len(index) for index in held.values()])
    tsne_figure(rows, clients, f"{title}, t-SNE of {len(rows):,} samples", file, seed)


def _draw_examples(placed: Placed, title: str, file: str) -> None:
    """One image of each of the first classes, as the first to the last client would see it."""
    if len(placed.dataset.input_shape) != 3:
        raise BadInput(f"examples are images, and {placed.dataset.name} has none: choose another kind of figure.")
    split, most_images, most_clients = placed.split, *MOST_EXAMPLES
    classes, first = np.unique(placed.dataset.train.y.numpy(), return_index=True)
    index = first[:most_images]
    clients = np.unique(np.linspace(0, split.num_clients - 1, most_clients).round().astype(int))
    images = np.stack([placed.seen(int(client), index) for client in clients], axis=1)
    names = [f"client {client}" + _levels(placed, int(client)) for client in clients]
    examples_figure(images, [f"class {k}" for k in classes[:most_images]], names, title, file)


def _levels(placed: Placed, client: int) -> str:
    levels = [shift.level(client, placed.split.num_clients) for shift in placed.split.shifts]
    return "\n" + ", ".join(f"{level:.2g}" for level in levels) if levels else ""
