"""From a name to a data set: find its files or fetch them, read them, check the sizes, divide."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import torch

from noniid.data.catalogue import CATALOGUE
from noniid.data.dataset import Dataset, Samples
from noniid.data.entry import Divided, Entry, Layout
from noniid.data.files import cache_dir, download, make_folder
from noniid.data.own import is_own, load_own
from noniid.errors import BadInput, unknown
from noniid.seeds import Draws, stream

_TRAIN_SHARE = 0.75  # of the rows of a table that comes undivided


class Row(NamedTuple):
    """One line of the list of data sets."""

    name: str
    what: str
    train: int
    test: int
    shape: str
    classes: int
    here: bool  # nothing has to be downloaded


def load(name: str, draws: Draws | None = None) -> Dataset:
    """The data set of this name, downloaded if it is not in the cache.

    `draws` makes FCUBE's points and divides rcv1, covtype and data of one's own (see `own_data`); the other sets
    ignore it. Without it they come from the stream "division" of seed 0.

    >>> digits = load("digits")
    >>> len(digits.train), len(digits.test), digits.num_classes
    (1442, 355, 10)
    """
    draws = draws or stream(0, "division")
    if is_own(name):
        return load_own(name, draws)
    entry = _entry(name)
    if entry.draw:
        return _dataset(name, entry, entry.draw(draws))
    folder = cache_dir() / name
    layout = _present(entry, folder) or _fetched(name, entry, progress=True)
    return _dataset(name, entry, layout.read(_paths(layout, folder)), draws)


def fetch(name: str, progress: bool = True) -> Path:
    """Downloads what is missing; the folder that holds the files."""
    entry = _entry(name)
    folder = cache_dir() / name
    if entry.layouts and not _present(entry, folder):
        _fetched(name, entry, progress)
    return folder


def is_drawn(name: str) -> bool:
    """Whether the samples of train and test depend on `draws`.

    >>> is_drawn("rcv1"), is_drawn("mnist")
    (True, False)
    """
    return is_own(name) or _entry(name).drawn


def listing() -> list[Row]:
    """All data sets, one row each."""
    return [
        Row(name, e.title, e.num_train, e.num_test, _shape(e), e.num_classes, _is_here(e, cache_dir() / name))
        for name, e in CATALOGUE.items()
    ]


def info(name: str) -> dict[str, str]:
    """What there is to say about a data set, and about its files if they are here."""
    entry = _entry(name)
    folder = cache_dir() / name
    told = {
        "name": name,
        "what": entry.title,
        "kind": entry.kind,
        "train": f"{entry.num_train:,}",
        "test": f"{entry.num_test:,}",
        "shape": _shape(entry),
        "classes": str(entry.num_classes),
        "division": "drawn anew for each seed" if entry.drawn else "fixed",
        "license": entry.license,
        "homepage": entry.homepage,
    }
    files = [file for layout in entry.layouts for file in layout.files]
    if files:
        told["folder"] = str(folder)
        told["sources"] = "\n".join(url for file in files for url in file.urls)
        told["files"] = "\n".join(_found(entry, folder)) or f"not here; `fetch` gets them into {folder}"
    if _is_here(entry, folder):
        dataset = load(name)
        told["train counts"] = _class_counts(dataset.train, entry)
        told["test counts"] = _class_counts(dataset.test, entry)
        told["checksum"] = dataset.checksum
    return told


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    return CATALOGUE[name]


def _paths(layout: Layout, folder: Path) -> list[Path]:
    return [path for file in layout.files if (path := file.find(folder))]


def _present(entry: Entry, folder: Path) -> Layout | None:
    return next((each for each in entry.layouts if len(_paths(each, folder)) == len(each.files)), None)


def _is_here(entry: Entry, folder: Path) -> bool:
    return entry.draw is not None or _present(entry, folder) is not None


def _fetched(name: str, entry: Entry, progress: bool) -> Layout:
    """The first layout that can be downloaded whole."""
    folder = cache_dir() / name
    make_folder(folder)
    first_error = None
    # What somebody has begun to put there is completed rather than replaced.
    for layout in sorted(entry.layouts, key=lambda each: -len(_paths(each, folder))):
        if not all(file.urls for file in layout.files):
            continue
        try:
            for file in layout.files:
                if not file.find(folder):
                    download(file, folder, progress)
            return layout
        except BadInput as error:
            others = [file.name for file in layout.files if not file.find(folder)][1:]
            likewise = f", likewise {', '.join(others)}." if others else "."
            first_error = first_error or str(error).removesuffix(".") + likewise
    raise BadInput(f"{name}: {first_error}")


def _found(entry: Entry, folder: Path) -> list[str]:
    """One line for each file that is here."""
    verdict = {True: "the published bytes", False: "NOT the published bytes", None: "no published checksum"}
    layout = _present(entry, folder)
    found = [(file, file.find(folder)) for file in (layout.files if layout else ())]
    return [f"{path} ({verdict[file.is_original(path)]})" for file, path in found if path]


def _dataset(name: str, entry: Entry, read: Divided | Samples, draws: Draws | None = None) -> Dataset:
    if isinstance(read, Samples):
        assert draws is not None
        checksum, (train, test) = _checksum(read), _divide(read, draws)
    else:
        checksum, (train, test) = _checksum(*read), read
    dataset = Dataset(name, train, test, entry.num_classes, checksum)
    found, expected = (len(train), len(test)), (entry.num_train, entry.num_test)
    if found != expected or dataset.input_shape != entry.shape:
        raise BadInput(
            f"{cache_dir() / name} holds {found[0]:,} + {found[1]:,} samples of shape "
            f"{dataset.input_shape}, but {name} has {expected[0]:,} + {expected[1]:,} of shape "
            f"{entry.shape}: remove the files and fetch them again."
        )
    return dataset


def _divide(whole: Samples, draws: Draws) -> Divided:
    """A permutation of all rows; the first three quarters train."""
    order = torch.from_numpy(draws.permutation(len(whole)))
    num_train = int(_TRAIN_SHARE * len(whole))
    return whole.take(order[:num_train]), whole.take(order[num_train:])


def _checksum(*parts: Samples) -> str:
    digest = hashlib.sha256()
    for samples in parts:
        x = samples.x
        tensors = [x] if isinstance(x, torch.Tensor) else [x.indptr, x.columns, x.values]
        for tensor in [*tensors, samples.y]:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().data.cast("B"))
    return digest.hexdigest()[:32]


def _class_counts(samples: Samples, entry: Entry) -> str:
    counts = torch.bincount(samples.y, minlength=entry.num_classes).tolist()
    return "  ".join(f"{label}: {count:,} ({count / max(len(samples), 1):.2%})" for label, count in enumerate(counts))


def _shape(entry: Entry) -> str:
    return " x ".join(f"{size:,}" for size in entry.shape)
