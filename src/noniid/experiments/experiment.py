"""An experiment: one complete, hashable value. What is not in it cannot change a number."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from noniid import models, split
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.wrappers import Stack
from noniid.engine import SAME_NUMBERS, Augment, BatchNorm, Precision
from noniid.models import MODELS, Model
from noniid.optim import OPTIMISERS, SGD, Optimiser
from noniid.split import Recipe

# Part of every key: raised when the same fields would no longer give the same numbers.
NUMBERS_VERSION = 1

DEFAULT_MODELS = {
    "digits": "two-nn",
    "fcube": "linear",
    "mnist": "simple-cnn",
    "fmnist": "simple-cnn",
    "cifar10": "simple-cnn",
    "svhn": "simple-cnn",
    "adult": "mlp",
    "rcv1": "mlp",
    "covtype": "mlp",
}


def default_model(data: str) -> Model:
    """The published model for a data set; a dense one for data we do not know."""
    return models.parse(DEFAULT_MODELS.get(data, "two-nn"))


def _later(default: Any) -> Any:
    """A field that came after keys were first given out. At its default it is no part of a run's record and key, so
    that runs from before it keep theirs."""
    return field(default=default, metadata={"later": True})


def _is_later(known: dataclasses.Field[Any]) -> bool:
    return bool(known.metadata.get("later"))


@dataclass(frozen=True)
class Experiment:
    """One run: what data, who holds it, which algorithm, how long, which seed."""

    data: str
    split: Recipe
    algorithm: Algorithm = FedAvg()  # noqa: RUF009 - frozen, like every field here
    model: Model = None  # type: ignore[assignment] - the data set's default
    clients: int | None = 10  # None: the split has a count of its own
    participation: float = 1.0
    rounds: int = 50
    epochs: int = 10
    batch: int = 64
    optim: Optimiser = SGD()  # noqa: RUF009
    augment: Augment = "none"
    draws: Literal["own", "published"] = "own"  # which random streams divide the data and make the split
    eval_every: int = 1
    seed: int = 0
    engine: str = "threads"
    device: str = "cpu"
    steps: int | None = _later(None)
    drop_last: bool = _later(False)
    keep_optim: bool = _later(False)
    lr_decay: float = _later(1.0)
    bn: BatchNorm = _later("average")  # noqa: RUF009
    wrap: Stack = _later(Stack())  # noqa: RUF009
    precision: Precision = _later("float32")  # noqa: RUF009

    def __post_init__(self) -> None:
        if self.model is None:  # pyright: ignore[reportUnnecessaryComparison]
            object.__setattr__(self, "model", default_model(self.data))
        if self.split.placement.own_count:  # whatever was asked for, so that one run has one key
            object.__setattr__(self, "clients", None)

    def record(self) -> dict[str, Any]:
        """Every field as text or number, ready for JSON, but later ones at their defaults; `from_record` undoes it."""
        fields = [f for f in dataclasses.fields(self) if not (_is_later(f) and getattr(self, f.name) == f.default)]
        return {f.name: _WRITERS.get(f.name, lambda v: v)(getattr(self, f.name)) for f in fields}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Experiment:
        return cls(**{name: _READERS.get(name, lambda v: v)(value) for name, value in record.items()})

    @property
    def key(self) -> str:
        """The run's identity: a hash of the complete experiment."""
        text = json.dumps([NUMBERS_VERSION, self.record()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_WRITERS: dict[str, Callable[[Any], str]] = {
    "split": str,
    "algorithm": ALGORITHMS.write,
    "model": MODELS.write,
    "optim": OPTIMISERS.write,
    "wrap": str,
    "engine": lambda name: str(SAME_NUMBERS.get(name, name)),
}
_READERS: dict[str, Callable[[str], Any]] = {
    "split": split.parse,
    "algorithm": ALGORITHMS.parse,
    "model": models.parse,
    "optim": OPTIMISERS.parse,
    "wrap": Stack.parse,
}
