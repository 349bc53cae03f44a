"""The public names: exactly these, each really there, and none loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import noniid

NAMES = [
    "ALGORITHMS", "Algorithm", "Dataset", "Experiment", "Local", "Recipe", "Samples", "Split", "State", "Store",
    "Update", "Wave", "lines", "load", "own_data", "parse_split", "request", "run",
]  # fmt: skip


def test_exactly_these() -> None:
    assert noniid.__all__ == NAMES
    assert set(noniid._HOMES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_there(name: str) -> None:
    assert getattr(noniid, name) is not None
    assert name in dir(noniid)


def test_no_other_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fedavg'"):
        noniid.fedavg  # type: ignore[attr-defined]  # noqa: B018


def test_neither_import_nor_help_loads_torch() -> None:
    code = "import sys, noniid.cli; print('torch' in sys.modules, 'numpy' in sys.modules, 'rich' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False", "False"]
