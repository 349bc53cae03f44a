"""A file of the user's own, read: CSV, Parquet, npz or LIBSVM text; a folder is one of images."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noniid.data.dataset import SparseRows
from noniid.data.files import opened
from noniid.data.folder import read_folder
from noniid.data.raw import Asked, Raw, of_arrays, of_frame
from noniid.errors import BadInput

UNKNOWN = ["?", "NA", "N/A", "NaN", "nan", "null", "None", ""]  # what stands for a missing value in text
DENSE_WIDTH = 2_000  # LIBSVM rows up to this wide are kept dense


def read_file(path: Path, asked: Asked) -> Raw:
    """A sentence for whatever cannot be read."""
    if not path.exists():
        raise BadInput(f"there is no file {path}: give a data set's name (see `noniid data list`), or a file.")
    if path.is_dir():
        return read_folder(path, asked)
    if not path.stat().st_size:
        raise BadInput(f"{path} is empty.")
    reader = READERS.get(_suffix(path))
    if reader is None:
        raise BadInput(f"{path} is of no kind that can be read: give a name that ends in {', '.join(READERS)}.")
    with _readable(path):
        return reader(path, asked)


def _suffix(path: Path) -> str:
    """`.csv` of table.csv and of table.csv.gz."""
    return Path(path.name.lower().removesuffix(".gz").removesuffix(".bz2")).suffix


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Libraries tell of damage in a dozen ways; a user is told in one."""
    try:
        yield
    except BadInput:
        raise
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        IndexError,
        OverflowError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        what = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise BadInput(f"{path} cannot be read ({what[:100]}).") from None


def _csv(path: Path, asked: Asked) -> Raw:
    pandas = _pandas()
    with opened(path) as stream:
        separator = (
            "\t" if b"\t" in (first := stream.readline()) else ";" if first.count(b";") > first.count(b",") else ","
        )
    how = {"na_values": UNKNOWN, "keep_default_na": False, "skipinitialspace": True, "low_memory": False}
    with opened(path) as stream, warnings.catch_warnings():
        # A first row longer than the headings is a warning, and without index_col a different table.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            return of_frame(pandas.read_csv(stream, sep=separator, index_col=False, **how), asked, path.name)
        except pandas.errors.ParserWarning as error:
            raise ValueError(str(error)) from None


def _parquet(path: Path, asked: Asked) -> Raw:
    pandas = _pandas()
    try:
        return of_frame(pandas.read_parquet(path, engine="pyarrow"), asked, path.name)
    except ImportError:
        raise BadInput("Parquet files need pyarrow: pip install 'noniid[tables]'.") from None


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise BadInput("tables need pandas: pip install 'noniid[tables]'.") from None
    return pandas


def _npz(path: Path, asked: Asked) -> Raw:
    with np.load(path) as arrays:
        return of_arrays({name: arrays[name] for name in arrays.files}, asked, path.name)


def _libsvm(path: Path, asked: Asked) -> Raw:
    """`label column:value ...`, perhaps with `qid:client` behind the label; the label needs no name."""
    from sklearn.datasets import load_svmlight_file

    if asked.client not in (None, "qid"):
        raise BadInput(f"in LIBSVM text a client is written qid:NUMBER and called qid, not {asked.client!r}.")
    how: dict[str, Any] = {"dtype": np.float32, "query_id": True}
    with opened(path) as stream:
        x, y, qid = load_svmlight_file(stream, **how)
    if not len(y):
        raise BadInput(f"{path.name} has no rows.")
    if asked.client and not len(qid):
        raise BadInput(f"{path.name} has no qid: behind each label.")
    columns = {"qid": qid.astype(np.float64)} if asked.client else {}
    dense = x.shape[1] <= DENSE_WIDTH
    return Raw(torch.from_numpy(x.toarray()) if dense else SparseRows.of(x), y, columns)


READERS: dict[str, Callable[[Path, Asked], Raw]] = {
    ".csv": _csv, ".tsv": _csv, ".parquet": _parquet, ".npz": _npz, ".libsvm": _libsvm, ".svm": _libsvm,
}  # fmt: skip
