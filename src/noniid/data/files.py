"""Where data files lie, how they get there, and how their bytes are read.

A set's files live in <cache>/<name>/. A file already there is used without the network, compressed or not and
under any of its usual names; one that is missing is downloaded, checked and only then given its name.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib.util
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noniid.errors import BadInput

_GZIP, _BZ2 = b"\x1f\x8b", b"BZh"


@dataclass(frozen=True)
class File:
    """One file of a data set: how the download is called, where it comes from, and what it must be."""

    name: str
    urls: tuple[str, ...] = ()  # mirrors, in the order in which they are tried
    digest: str | None = None  # of the download, "sha256:..." or "md5:..."
    others: tuple[str, ...] = ()  # further names its content may have, looked for first
    content_md5: str | None = None  # of the content once unpacked, where the original's is known

    def find(self, folder: Path) -> Path | None:
        """The file under the first of its names that is there."""
        return next((folder / n for n in (*self.others, self.name) if (folder / n).is_file()), None)

    def is_original(self, path: Path) -> bool | None:
        """Whether these are the published bytes, however wrapped; None where those are not known."""
        if self.content_md5:
            with opened(path) as stream:
                return hashlib.file_digest(stream, "md5").hexdigest() == self.content_md5
        if self.digest and path.name == self.name:
            kind, _, expected = self.digest.partition(":")
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, kind).hexdigest() == expected
        return None


def cache_dir() -> Path:
    """$NONIID_DATA, or ~/.cache/noniid."""
    return Path(os.environ.get("NONIID_DATA") or "~/.cache/noniid").expanduser()


def make_folder(folder: Path) -> None:
    """The folder, or a sentence that says that it cannot be written."""
    probe = folder / f".writable-{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadInput(
            f"cannot write to {folder} ({error.strerror or error}): set NONIID_DATA to a folder that can be written."
        ) from None


def download(file: File, folder: Path, progress: bool = True) -> Path:
    """The file from the first mirror that gives it. pooch writes under a temporary name and renames when the
    checksum is right, so nobody ever sees half a file."""
    import pooch

    make_folder(folder)
    pooch.get_logger().setLevel("ERROR")
    bar = progress and importlib.util.find_spec("tqdm") is not None  # pooch refuses to load without it
    reason = "it has no public download"
    for url in file.urls:
        try:
            return Path(pooch.retrieve(url, file.digest, file.name, folder, progressbar=bar))
        except (
            OSError,
            ValueError,
        ) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
            reason = _reason(error)
    sources = " or ".join(file.urls) or "its owner"
    raise BadInput(f"cannot download {file.name} ({reason}): get it from {sources} and put it into {folder}.")


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError) and "hash" in str(error):
        return "what came has the wrong checksum"
    if "ConnectionError" in type(error).__name__ or "Timeout" in type(error).__name__:
        return "no connection"
    return " ".join(str(error).split())[:120] or type(error).__name__


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A file's content, unpacked if it is gzip or bzip2. Its first bytes tell, not its name: browsers unpack
    downloads and keep the name. Damage met on the way is a BadInput that names the file."""
    try:
        with path.open("rb") as raw:
            start = raw.read(3)
        open_it = gzip.open if start.startswith(_GZIP) else bz2.open if start.startswith(_BZ2) else Path.open
        with open_it(path, "rb") as stream:
            yield stream
    except BadInput:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, str(error) or "it cannot be unpacked") from None


def read_bytes(path: Path) -> bytes:
    with opened(path) as stream:
        return stream.read()


def damaged(path: Path, what: str) -> BadInput:
    """The one sentence for a file that is not what it should be."""
    return BadInput(f"{path} is damaged or not the right file ({what}): remove it and fetch it again.")
