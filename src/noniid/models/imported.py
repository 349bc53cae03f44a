"""A model of the user's own, by its import path."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass

from torch import nn

from noniid.errors import BadInput
from noniid.models.base import Model


@dataclass(frozen=True)
class Imported(Model):
    """`package.module:thing`, where thing(input_shape, num_classes) or thing() gives an nn.Module."""

    path: str

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        module_name, _, name = self.path.partition(":")
        try:
            thing = getattr(importlib.import_module(module_name), name)
        except (ImportError, AttributeError) as error:
            raise BadInput(f"cannot import model {self.path!r}: {error}.") from None
        wants_shape = len(inspect.signature(thing).parameters) >= 2
        made = thing(input_shape, num_classes) if wants_shape else thing()
        if not isinstance(made, nn.Module):
            raise BadInput(f"{self.path} gave a {type(made).__name__}: it must give a torch.nn.Module.")
        return made
