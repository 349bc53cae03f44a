"""A model of the user's own, by its import path."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn

from noniid.errors import BadInput
from noniid.models.base import Model


def is_model(path: str) -> bool:
    """Whether a path names a `Model` class, which is a spec like ours, and not just something that makes modules."""
    try:
        thing = find(path)
    except BadInput:
        return False
    return isinstance(thing, type) and issubclass(thing, Model)


def find(path: str) -> Any:
    """What stands at `package.module:thing`."""
    module_name, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"cannot import model {path!r}: {error}.") from None


@dataclass(frozen=True)
class Imported(Model):
    """`package.module:thing`, where thing(input_shape, num_classes) or thing() gives an nn.Module."""

    path: str

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        thing = find(self.path)
        wants_shape = len(inspect.signature(thing).parameters) >= 2
        made = thing(input_shape, num_classes) if wants_shape else thing()
        if not isinstance(made, nn.Module):
            raise BadInput(f"{self.path} gave a {type(made).__name__}: it must give a torch.nn.Module.")
        return made
