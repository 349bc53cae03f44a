"""A folder of images: what each shows is told by the folders it lies in, or by a table beside them.

Shapes: n images, c channels, h and w pixels.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from noniid.data.raw import Asked, Raw, pictures
from noniid.errors import BadInput

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
TABLE = "metadata.csv"
FILE_COLUMN = "file_name"
MOST_BYTES = 8 << 30


def read_folder(folder: Path, asked: Asked) -> Raw:
    """FOLDER/label/image, FOLDER/client/label/image, or metadata.csv: file_name and any columns."""
    paths, columns = _told_by_table(folder) if (folder / TABLE).is_file() else _told_by_folders(folder)
    if not paths:
        raise BadInput(f"there are no images in {folder}: it needs files that end in {', '.join(SUFFIXES)}.")
    label = asked.found(list(columns), str(folder))
    x, scale = pictures(_pixels(paths), str(folder))
    return Raw(x, columns.pop(label), columns, scale)


def files(folder: Path) -> Iterator[Path]:
    """All that a data set of images is read from, in order."""
    table = folder / TABLE
    yield from [table] if table.is_file() else []
    yield from sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def _told_by_folders(folder: Path) -> tuple[list[Path], dict[str, np.ndarray]]:
    paths = list(files(folder))
    depths = {len(path.relative_to(folder).parts) for path in paths}
    if len(depths) > 1 or depths - {2, 3}:
        raise BadInput(
            f"the images of {folder} lie at different depths or too deep: give FOLDER/label/image, "
            f"FOLDER/client/label/image, or a {TABLE} with a column {FILE_COLUMN}."
        )
    names = ("client", "label") if depths == {3} else ("label",)
    parts = [path.relative_to(folder).parts for path in paths]
    return paths, {name: np.array([each[i] for each in parts], object) for i, name in enumerate(names)}


def _told_by_table(folder: Path) -> tuple[list[Path], dict[str, np.ndarray]]:
    try:
        with (folder / TABLE).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, restval="", restkey=""))
    except (ValueError, csv.Error, OSError) as error:
        raise BadInput(f"{folder / TABLE} cannot be read ({error}).") from None
    names = list(rows[0]) if rows else []
    if FILE_COLUMN not in names:
        raise BadInput(f"{folder / TABLE} has no column {FILE_COLUMN}, or no rows.")
    paths = [folder / row[FILE_COLUMN] for row in rows]
    gone = [path for path in paths if not path.is_file()]
    if gone:
        raise BadInput(f"{folder / TABLE} names {len(gone):,} files that are not there, as {gone[0].name}.")
    columns = {name: np.array([row[name] or None for row in rows], object) for name in names if name != FILE_COLUMN}
    return paths, columns


def _pixels(paths: list[Path]) -> np.ndarray:
    """uint8 [n, h, w] if all are grey, [n, h, w, 3] otherwise."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise BadInput("images need Pillow: pip install 'noniid[images]'.") from None
    arrays = []
    for path in paths:
        try:
            with Image.open(path) as image:
                arrays.append(as_array(image))
        except (UnidentifiedImageError, OSError, ValueError):
            raise BadInput(f"{path} is not an image that can be read: mend or remove it.") from None
    return stacked(arrays)


def as_array(image: Any) -> np.ndarray:
    """Grey images stay grey, all others become red, green and blue."""
    grey = image.mode in ("1", "L", "I", "I;16", "F")
    return np.asarray(image.convert("L" if grey else "RGB"), np.uint8)


def stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """One array of images of one size; grey ones among colours become grey colours."""
    sizes = {array.shape[:2] for array in arrays}
    if len(sizes) > 1:
        (low, *_), (*_, high) = sorted(sizes), sorted(sizes)
        raise BadInput(f"images differ in size, as {low[0]} x {low[1]} and {high[0]} x {high[1]}: make them one size.")
    if arrays[0].size * len(arrays) > MOST_BYTES:
        raise BadInput(f"{len(arrays):,} images of this size do not fit into memory: make them smaller.")
    if len({array.ndim for array in arrays}) > 1:
        arrays = [array if array.ndim == 3 else np.repeat(array[..., None], 3, axis=2) for array in arrays]
    return np.stack(arrays)
