"""The one grammar for things with parameters: `dirichlet(0.5) + noise(0.1)`, `fedprox(mu=0.01)`, `sgd(0.1)`.

A spec is the text of a frozen dataclass: its registered name, then the fields that differ from their defaults.
The command line, files, the store and the reports all speak it, and `parse` undoes `write`.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar, Union

from noniid.errors import BadInput, unknown

T = TypeVar("T")

_ITEM = re.compile(r"\s*([A-Za-z0-9][\w.:-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


class Registry(Mapping[str, type[T]], Generic[T]):
    """Names for frozen dataclasses of one kind."""

    def __init__(self, kind: str, classes: Mapping[str, type[T]]):
        self.kind = kind
        self._classes = dict(classes)
        self._names = {cls: name for name, cls in classes.items()}

    def __getitem__(self, name: str) -> type[T]:
        try:
            return self._classes[name]
        except KeyError:
            raise unknown(self.kind, name, self._classes) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def name_of(self, value: T) -> str:
        """The name a value's class is registered under; for a user's own class, `module:Class`."""
        cls = type(value)
        return self._names.get(cls) or f"{cls.__module__}:{cls.__qualname__}"

    def parse(self, text: str) -> T:
        """`name(args)` -> an instance."""
        match = _ITEM.fullmatch(text)
        if not match:
            raise BadInput(f"cannot read {self.kind} {text!r}: write it as name or name(value, key=value).")
        name, arguments = match.groups()
        cls = self._own_class(name) if ":" in name else self[name]
        return _build(cls, name, arguments or "")

    def write(self, value: T) -> str:
        """An instance -> its shortest text: fields at their defaults are left out."""
        name = self.name_of(value)
        parts: list[str] = []
        for i, field in enumerate(dataclasses.fields(value)):  # type: ignore[arg-type]
            current = getattr(value, field.name)
            if field.default is not dataclasses.MISSING and current == field.default:
                continue
            shown = _write_value(current)
            parts.append(shown if i == 0 else f"{field.name}={shown}")
        return f"{name}({', '.join(parts)})" if parts else name

    def _own_class(self, path: str) -> type[T]:
        import importlib

        module_name, _, attribute = path.partition(":")
        try:
            return getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise BadInput(f"cannot import {self.kind} {path!r}: {error}.") from None


def split_sum(text: str) -> list[str]:
    """The terms of `a(1) + b(2)`, at top level only.

    >>> split_sum("dirichlet(0.5) + noise(1e+2)")
    ['dirichlet(0.5)', 'noise(1e+2)']
    """
    return [term.strip() for term in _split(text, "+")]


def _split(text: str, separator: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == separator and depth == 0:
            terms.append(text[start:i])
            start = i + 1
    return [*terms, text[start:]]


def _build(cls: type[T], name: str, arguments: str) -> T:
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    given: dict[str, Any] = {}
    terms = [a.strip() for a in _split(arguments, ",")] if arguments.strip() else []
    for i, term in enumerate(terms):
        key, equals, raw = (part.strip() for part in term.partition("="))
        if not equals:
            if i >= len(fields):
                raise BadInput(f"{name} takes at most {len(fields)} values, not {len(terms)}.")
            key, raw = list(fields)[i], key
        if key not in fields:
            raise unknown(f"parameter of {name}", key, fields)
        if key in given:
            raise BadInput(f"{name} is given {key} twice.")
        given[key] = _read_value(raw, hints[key], f"{name}'s {key}")
    for field in fields.values():
        no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if no_default and field.name not in given:
            raise BadInput(f"{name} needs {field.name}: write {name}({field.name}).")
    return cls(**given)


def _write_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else f"{value:g}" if _survives_g(value) else str(value)


def _survives_g(value: Any) -> bool:
    return isinstance(value, float) and float(f"{value:g}") == value


def _read_value(raw: str, hint: Any, what: str) -> Any:
    text = raw.strip().strip("'\"")
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if text.lower() == "none" else _read_value(text, options[0], what)
    if origin is Literal:
        if text not in typing.get_args(hint):
            raise unknown(f"value for {what}:", text, typing.get_args(hint))
        return text
    if hint is bool:
        if text.lower() not in ("true", "false"):
            raise BadInput(f"{what} is true or false, not {text!r}.")
        return text.lower() == "true"
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            kind = "a whole number" if hint is int else "a number"
            raise BadInput(f"{what} is {kind}, not {text!r}.") from None
    return text
