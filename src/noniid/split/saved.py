"""A split as a file, JSON, npz or Parquet: index lists, and where they come from.

N clients, n samples.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement, Split
from noniid.split.traits import Ints, Traits

Contents = tuple[list[Ints], dict[str, Any]]  # indices by client; provenance


@dataclass(frozen=True)
class Saved(Placement):
    """The index lists of a file that `noniid split --export` or `save` has written; shifts are added to it as ever.

    checksum    of the file's content, filled in when a run is asked for, so that a changed file is another run.
    """

    own_count: ClassVar[bool] = True
    path: str
    checksum: str = ""

    def count(self, traits: Traits, asked: int | None) -> int:
        return len(self._contents()[0])

    def completed(self) -> Saved:
        """With the checksum of the file as it is now."""
        return replace(self, checksum=_checksum(Path(self.path)))

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> list[Ints]:
        indices, provenance = self._contents()
        known = provenance.get("labels")
        if known is not None and known != labels_checksum(traits.labels):
            made = provenance.get("data", "other data")
            raise BadInput(f"{self.path} was made for other samples than these (for {made}): export it for these.")
        if max((int(part.max()) for part in indices if len(part)), default=-1) >= len(traits):
            raise BadInput(f"{self.path} names samples beyond the {len(traits):,} there are: export it for these.")
        return [part.copy() for part in indices]

    def _contents(self) -> Contents:
        path = Path(self.path)
        found = _checksum(path)
        if self.checksum and found != self.checksum:
            raise BadInput(f"{path} holds another split than when this run was asked for: bring it back, or ask anew.")
        return _load(path, found)


def labels_checksum(labels: np.ndarray) -> str:
    """Tells one data set and division from another.

    >>> labels_checksum(np.array([0, 1])) == labels_checksum(np.array([0, 1], np.uint8))
    True
    """
    return hashlib.sha256(np.ascontiguousarray(labels, np.int64).tobytes()).hexdigest()[:12]


def save(split: Split, path: Path | str, provenance: Mapping[str, Any] | None = None) -> None:
    """Writes the index lists, with what is known of them; the ending of `path` says how."""
    path = Path(path)
    writer, _ = _form(path)
    try:
        writer(path, [np.asarray(part, np.int64) for part in split.indices], json.dumps(dict(provenance or {})))
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}.") from None


def load_saved(path: Path | str) -> tuple[Split, dict[str, Any]]:
    """The split of a file, without shifts, and its provenance."""
    path = Path(path)
    indices, provenance = _load(path, _checksum(path))
    return Split(tuple(part.copy() for part in indices), num_dropped=int(provenance.get("num_dropped", 0))), provenance


def is_saved(text: str) -> bool:
    """Whether a text is the path of a file that a split can be saved in."""
    return Path(text).suffix.lower() in _FORMS


def check_form(path: Path | str) -> None:
    """Before anything is computed, not after."""
    _form(Path(path))
    if not Path(path).parent.is_dir():
        raise BadInput(f"cannot write {path}: there is no folder {Path(path).parent}.")


def _checksum(path: Path) -> str:
    if not path.is_file():
        raise BadInput(f"there is no split file {path}: `noniid split --export` makes one.")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:12]


@functools.lru_cache(maxsize=4)
def _load(path: Path, checksum: str) -> Contents:
    _, reader = _form(path)
    try:
        indices, provenance = reader(path)
        held = np.concatenate([*indices, np.empty(0, np.int64)])
        told = json.loads(provenance)
    except BadInput:
        raise
    # What libraries raise on damaged files: pyarrow's errors are ValueErrors and OSErrors too.
    except (ValueError, TypeError, KeyError, AttributeError, OSError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path} is not a saved split ({' '.join(str(error).split())[:80]}): export it again.") from None
    if not len(held) or held.min() < 0 or len(np.unique(held)) != len(held):
        raise BadInput(f"{path} is not a split: it needs samples, counted from 0, and each in one client's hands only.")
    return indices, told


def _form(path: Path) -> tuple[Callable[[Path, list[Ints], str], None], Callable[[Path], tuple[list[Ints], str]]]:
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise BadInput(f"a split is saved as {', '.join(_FORMS)}: not as {path.name!r}.")
    return form


def _write_json(path: Path, indices: list[Ints], provenance: str) -> None:
    rows = ",\n".join(json.dumps(part.tolist()) for part in indices)
    path.write_text(f'{{"provenance": {provenance},\n"indices": [\n{rows}\n]}}\n', encoding="utf-8")


def _read_json(path: Path) -> tuple[list[Ints], str]:
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    return [_whole(np.asarray(part)) for part in content["indices"]], json.dumps(content.get("provenance", {}))


def _whole(part: np.ndarray) -> Ints:
    if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
        raise ValueError("indices are lists of whole numbers")
    return part.astype(np.int64)


def _write_npz(path: Path, indices: list[Ints], provenance: str) -> None:
    ends = np.cumsum([len(part) for part in indices], dtype=np.int64)
    np.savez_compressed(path, indices=np.concatenate(indices), ends=ends, provenance=np.array(provenance))


def _read_npz(path: Path) -> tuple[list[Ints], str]:
    with np.load(path) as arrays:
        parts = np.split(arrays["indices"], arrays["ends"])
        if len(parts.pop()):
            raise ValueError("samples are left over behind the last client")
        return [_whole(part) for part in parts], str(arrays["provenance"])


def _write_parquet(path: Path, indices: list[Ints], provenance: str) -> None:
    arrow = _arrow("pyarrow")
    client = np.repeat(np.arange(len(indices)), [len(part) for part in indices])
    table = arrow.table({"client": client, "index": np.concatenate(indices)})
    _arrow("pyarrow.parquet").write_table(table.replace_schema_metadata({"noniid": provenance}), path)


def _read_parquet(path: Path) -> tuple[list[Ints], str]:
    table = _arrow("pyarrow.parquet").read_table(path)
    client, index = (_whole(table[name].to_numpy()) for name in ("client", "index"))
    order = np.argsort(client, kind="stable")
    parts = np.split(index[order], np.cumsum(np.bincount(client))[:-1])
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    return parts, metadata.get(b"noniid", b"{}").decode()


def _arrow(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise BadInput("Parquet files need pyarrow: pip install 'noniid[tables]'.") from None


_FORMS = {
    ".json": (_write_json, _read_json),
    ".npz": (_write_npz, _read_npz),
    ".parquet": (_write_parquet, _read_parquet),
}
