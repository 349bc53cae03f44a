"""A table's columns as a model sees them, and labels as classes.

Shapes: n rows, d inputs after encoding. A field is a column as it was read: float64 [n] where missing is NaN, or texts
[n] where missing is None.

A number becomes its distance from the mean of the training rows in their standard deviations; a missing one becomes 0,
the mean, and a column that lacks any gets a second input, 1 where it is missing. A text is a category: an input each,
and none of them is 1 where it is missing. Which inputs there are follows from all rows, so that every division of a
table fits one model; means and deviations follow from the training rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from noniid.errors import BadInput

Fields = Mapping[str, np.ndarray]

MOST_CATEGORIES = 1_000  # of one column; beyond it is a name or a number in disguise
MOST_CLASSES = 1_000
MOST_INPUTS = 100_000


def encode(fields: Fields, train: np.ndarray) -> Tensor:
    """All rows as float32 [n, d]; `train` are the rows whose means and deviations count.

    >>> age, sex = np.array([20.0, 40.0, np.nan]), np.array(["f", "m", None], object)
    >>> encode({"age": age, "sex": sex}, np.array([0, 1, 2])).tolist()
    [[-1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]]
    """
    if not fields:
        raise BadInput("there is no column left to learn from: a table needs at least one beside label and client.")
    blocks = [_category(name, f) if f.dtype == object else _number(name, f, train) for name, f in fields.items()]
    num_inputs = sum(block.shape[1] for block in blocks)
    if num_inputs > MOST_INPUTS:
        raise BadInput(
            f"the table's columns become {num_inputs:,} inputs, and {MOST_INPUTS:,} is the most: ignore some."
        )
    return torch.from_numpy(np.concatenate(blocks, axis=1))


def _number(name: str, field: np.ndarray, train: np.ndarray) -> np.ndarray:
    """[n, 1], or [n, 2] where some are missing."""
    missing = np.isnan(field)
    if np.isinf(field).any():
        raise BadInput(f"column {name!r} holds infinite numbers: mend them or leave them empty.")
    known = field[train][~missing[train]]
    mean, deviation = (known.mean(), known.std()) if len(known) else (0.0, 1.0)
    # A column that is constant but for rounding is constant.
    scale = deviation if deviation > 1e-12 * max(abs(mean), 1) else 1.0
    inputs = np.where(missing, 0.0, (field - mean) / scale)
    return np.stack([inputs, missing] if missing.any() else [inputs], axis=1).astype(np.float32)


def _category(name: str, field: np.ndarray) -> np.ndarray:
    """An input for each text that occurs, in alphabetical order, [n, categories]."""
    known = np.array([value is not None for value in field])
    categories, place = np.unique(field[known].astype(str), return_inverse=True)
    if len(categories) > MOST_CATEGORIES:
        raise BadInput(
            f"column {name!r} is text with {len(categories):,} different values, and {MOST_CATEGORIES:,} is the most: "
            "ignore it, or turn it into numbers."
        )
    inputs = np.zeros((len(field), len(categories)), np.float32)
    inputs[np.flatnonzero(known), place] = 1
    return inputs


def classes(labels: np.ndarray, name: str) -> tuple[Tensor, list[str]]:
    """int64 [n], counted from 0 in the order of the labels, and what each class was called.

    >>> classes(np.array(["ill", "well", "ill"]), "state")
    (tensor([0, 1, 0]), ['ill', 'well'])
    """
    values, place = np.unique(plain(labels, f"label {name!r}"), return_inverse=True)
    if values.dtype.kind == "f":
        raise BadInput(f"label {name!r} is no class: it holds numbers such as {values[values % 1 != 0][0]:g}.")
    if len(values) == 1:
        raise BadInput(f"label {name!r} is {values[0]} in every row: there is nothing to learn.")
    if len(values) > min(MOST_CLASSES, max(2, len(labels) / 2)):
        raise BadInput(
            f"label {name!r} is no class: it takes {len(values):,} different values in {len(labels):,} rows."
        )
    return torch.from_numpy(place.astype(np.int64)), [str(value) for value in values]


def plain(values: np.ndarray, what: str) -> np.ndarray:
    """Labels or clients, [n]: as whole numbers where all are, as texts otherwise; none may be missing."""
    if values.dtype == object:
        missing = np.array([value is None for value in values], bool)
        values = values if missing.any() else values.astype(str)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if missing.any():
        raise BadInput(f"{what} is missing in {missing.sum():,} of {len(values):,} rows: fill it in, or remove them.")
    if values.dtype.kind == "f" and (values % 1 == 0).all():
        return values.astype(np.int64)
    return values
