"""noniid: federated learning when clients' data differ.

The public names below are loaded at their first use, so that `import noniid` and `noniid --help` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from noniid.algorithms import ALGORITHMS, Algorithm, Local, State, Update, Wave
    from noniid.data import Dataset, Samples, load, own_data
    from noniid.experiments.experiment import Experiment
    from noniid.experiments.request import request
    from noniid.experiments.runner import run
    from noniid.results.store import Store
    from noniid.results.table import lines
    from noniid.split import Recipe, Split
    from noniid.split import parse as parse_split

_HOMES = {
    "ALGORITHMS": "noniid.algorithms",
    "Algorithm": "noniid.algorithms",
    "Local": "noniid.algorithms",
    "State": "noniid.algorithms",
    "Update": "noniid.algorithms",
    "Wave": "noniid.algorithms",
    "Dataset": "noniid.data",
    "Samples": "noniid.data",
    "load": "noniid.data",
    "own_data": "noniid.data",
    "Experiment": "noniid.experiments.experiment",
    "request": "noniid.experiments.request",
    "run": "noniid.experiments.runner",
    "Store": "noniid.results.store",
    "lines": "noniid.results.table",
    "Recipe": "noniid.split",
    "Split": "noniid.split",
    "parse_split": "noniid.split:parse",
}

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Dataset",
    "Experiment",
    "Local",
    "Recipe",
    "Samples",
    "Split",
    "State",
    "Store",
    "Update",
    "Wave",
    "lines",
    "load",
    "own_data",
    "parse_split",
    "request",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'noniid' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
