"""Data given from Python: kept in memory under a name, and read like a file.

n samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noniid.data.folder import as_array, stacked
from noniid.data.raw import Asked, Raw, of_arrays, of_frame
from noniid.errors import BadInput


@dataclass(frozen=True, eq=False)
class Held:
    """A pandas table, or named arrays."""

    content: Any
    checksum: str

    known: ClassVar[dict[str, Held]] = {}  # by name, in this process

    def read(self, asked: Asked) -> Raw:
        if isinstance(self.content, Mapping):
            return of_arrays(self.content, asked, "the data")
        return of_frame(self.content, asked, "the data")


def held(data: Any, name: str = "") -> str:
    """Keeps data; the name under which it is known: the one given, or one made of its checksum."""
    content = _content(data)
    checksum = _checksum(content)
    name = name or f"data-{checksum[:6]}"
    Held.known[name] = Held(content, checksum)
    return name


def _content(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(name): np.asarray(array) for name, array in data.items()}
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return data
    if hasattr(data, "features") and hasattr(data, "to_pandas"):
        return _of_hugging_face(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _of_torch(data)
    raise BadInput(
        f"{type(data).__name__} is no data: give a path, a pandas table, named arrays, a Hugging Face Dataset, or a "
        "torch Dataset with a length."
    )


def _of_hugging_face(data: Any) -> Any:
    """A table, or where a column holds images, arrays."""
    images = [name for name, feature in data.features.items() if type(feature).__name__ == "Image"]
    if not images:
        return data.with_format(None).to_pandas()
    plain = data.with_format(None)
    others = [name for name in data.column_names if name not in images]
    pixels = {name: stacked([as_array(image) for image in plain[name]]) for name in images}
    return {**pixels, **{name: np.asarray(plain[name]) for name in others}}


def _of_torch(data: Any) -> dict[str, np.ndarray]:
    """Called x, label and, where there is a third part, client."""
    if not len(data):
        raise BadInput("the torch Dataset has no samples.")
    rows = [data[i] for i in range(len(data))]
    widths = {len(row) if isinstance(row, tuple | list) else 1 for row in rows}
    if widths not in ({2}, {3}):
        raise BadInput("a torch Dataset gives (input, label) or (input, label, client) for each sample.")
    inputs, *others = zip(*rows, strict=True)
    arrays = [as_array(x) if hasattr(x, "convert") else np.asarray(x) for x in inputs]
    x = stacked(arrays) if hasattr(inputs[0], "convert") else _stack(arrays)
    named = zip(("label", "client"), others, strict=False)
    return {"x": x, **{name: np.array([_scalar(value) for value in values]) for name, values in named}}


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        (one, other, *_) = sorted(shapes)
        raise BadInput(f"inputs differ in shape, as {one} and {other}: give them one shape.")
    return np.stack(arrays)


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _checksum(content: Any) -> str:
    digest = hashlib.sha256()
    arrays = content if isinstance(content, Mapping) else {name: content[name].to_numpy() for name in content.columns}
    for name, array in arrays.items():
        array = array.astype(str) if array.dtype == object else np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:12]
