"""What a file of the user's own holds, once it is read: columns, and which of them are label and client.

Shapes: n samples, c channels, h and w pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from noniid.data.dataset import SparseRows
from noniid.data.encode import Fields
from noniid.errors import BadInput, unknown


class Asked(NamedTuple):
    """The columns that are no features."""

    label: str | None
    client: str | None
    ignore: tuple[str, ...] = ()

    def found(self, there: Sequence[str], name: str) -> str:
        """The label's column: the one asked for, or `label`. Every other must be there too."""
        label = self.label or ("label" if "label" in there else None)
        if label is None:
            raise BadInput(f"say which column of {name} is the label, by --label: it has {_listed(there)}.")
        for kind, column in (("label", label), ("client", self.client), *(("ignored", each) for each in self.ignore)):
            if column is not None and column not in there:
                close = str(unknown(f"{kind} column", column, there)).partition("Known:")[0]
                raise BadInput(f"{close}{name} has {_listed(there)}.")
        if label in (self.client, *self.ignore):
            raise BadInput(f"column {label!r} is the label: it can be neither the client nor ignored.")
        return label


@dataclass(frozen=True, eq=False)
class Raw:
    """What a file holds: features not all numbers yet, labels not classes yet."""

    x: Fields | Tensor | SparseRows
    labels: np.ndarray  # [n]
    columns: Mapping[str, np.ndarray]  # [n] each: the client's, and those of a table that are text
    scale: float = 1.0


def of_frame(frame: Any, asked: Asked, name: str) -> Raw:
    """A pandas table: the label, the client and the ignored are taken out, all else are features."""
    if not len(frame):
        raise BadInput(f"{name} has no rows.")
    frame = frame.rename(columns=str)
    label = asked.found(list(frame.columns), name)
    fields = {column: _field(frame[column], column) for column in frame.columns if column not in asked.ignore}
    texts = {column: field for column, field in fields.items() if field.dtype == object or column == asked.client}
    x = {column: field for column, field in fields.items() if column not in (label, asked.client)}
    return Raw(x, fields[label], {column: field for column, field in texts.items() if column != label})


def _listed(names: Sequence[str], most: int = 12) -> str:
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _field(series: Any, name: str) -> np.ndarray:
    """float64 [n] with NaN, or texts [n] with None."""
    kind = series.dtype.kind if hasattr(series.dtype, "kind") else "O"
    if kind in "mM":
        raise BadInput(f"column {name!r} holds dates: ignore it, or turn it into numbers.")
    if kind in "biuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = series.isna().to_numpy()
    values = np.empty(len(series), object)
    values[:] = [None if gone else str(value) for gone, value in zip(missing, series, strict=True)]
    return values


def of_arrays(arrays: Mapping[str, np.ndarray], asked: Asked, name: str) -> Raw:
    """Named arrays of equal length: rows of numbers, one array of images, or single columns."""
    label = asked.found(list(arrays), name)
    lengths = {each: len(array) if array.ndim else 1 for each, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{each} {length:,}" for each, length in lengths.items())
        raise BadInput(f"the arrays of {name} have different lengths ({told}): each needs a row for every sample.")
    if not lengths[label]:
        raise BadInput(f"{name} has no rows.")
    rest = {e: a for e, a in arrays.items() if e not in (label, asked.client, *asked.ignore)}
    columns = {asked.client: _texts_or_numbers(arrays[asked.client])} if asked.client else {}
    labels = _texts_or_numbers(arrays[label])
    deep = [each for each, array in rest.items() if array.ndim > 2]
    if deep and len(rest) > 1:
        raise BadInput(
            f"{name} has images in {deep[0]!r} and other features beside them: ignore {_others(rest, deep[0])}."
        )
    if deep:
        x, scale = pictures(rest[deep[0]], name)
        return Raw(x, labels, columns, scale)
    fields = {}
    for each, array in rest.items():
        single = array.ndim == 1
        fields |= {each if single else f"{each}[{j}]": _texts_or_numbers(array if single else array[:, j])
                   for j in range(1 if single else array.shape[1])}  # fmt: skip
    return Raw(fields, labels, columns)


def _others(names: Mapping[str, Any], but: str) -> str:
    return ", ".join(name for name in names if name != but)


def _texts_or_numbers(array: np.ndarray) -> np.ndarray:
    if array.ndim != 1:
        raise BadInput(f"labels and clients are one value a sample, not {array.shape[1:]} of them.")
    return array.astype(str).astype(object) if array.dtype.kind in "USO" else array.astype(np.float64)


def pictures(array: np.ndarray, name: str) -> tuple[Tensor, float]:
    """Images [n, c, h, w], and what a pixel is divided by; channels may come last, or be left out if there is one."""
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4:
        raise BadInput(f"the images of {name} have shape {array.shape[1:]}: give (h, w), (h, w, c) or (c, h, w).")
    if array.shape[3] in (1, 3) and array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(array)), 255.0
    array = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(array).all():
        raise BadInput(f"the images of {name} hold values that are no numbers: mend them.")
    return torch.from_numpy(array), 1.0
