"""The one grammar for things with parameters: `dirichlet(0.5) + noise(0.1)`, `fedprox(mu=1)`, `sgd(0.1)`.

A spec is the text of a frozen dataclass: its registered name, then the fields that are not at their defaults.
The command line, files, the store and the reports all speak it, and `parse` undoes `write`. A string with
anything but letters, digits and `_.:/-` is quoted; within, a backslash stands before quotes and backslashes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import operator
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar, Union

from noniid.errors import BadInput, unknown

T = TypeVar("T")

_ITEM = re.compile(r"\s*(\w[\w.:-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_ARGUMENT = re.compile(r"(?:([\w.-]+)\s*=)?(.*)", re.DOTALL)
_BARE = re.compile(r"[\w.:/-]+")


class Registry(Mapping[str, type[T]], Generic[T]):
    """Names for frozen dataclasses of one kind."""

    def __init__(self, kind: str, classes: Mapping[str, type[T]]):
        self.kind = kind
        self._classes = dict(classes)
        self._names = {cls: name for name, cls in classes.items()}
        self._base = _shared_base(list(classes.values()))

    def __getitem__(self, name: str) -> type[T]:
        return self._classes[name]

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
        if not match or not _balanced(match.group(2) or ""):
            raise BadInput(f"cannot read {self.kind} {text!r}: write it as name or name(value, key=value).")
        name, arguments = match.groups()
        return _build(self._class(name), name, arguments or "")

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

    def _class(self, name: str) -> type[T]:
        if ":" in name:
            return self._own_class(name)
        if name not in self:
            raise unknown(self.kind, name, self)
        return self[name]

    def _own_class(self, path: str) -> type[T]:
        module_name, _, attribute = path.partition(":")
        try:
            cls = operator.attrgetter(attribute)(importlib.import_module(module_name))
        except (ImportError, AttributeError) as error:
            raise BadInput(f"cannot import {self.kind} {path!r}: {error}.") from None
        if not (_is_frozen_dataclass(cls) and issubclass(cls, self._base)) or inspect.isabstract(cls):
            root = "" if self._base is object else f" derived from {self._base.__name__}"
            raise BadInput(f"{self.kind} {path!r} must be a frozen dataclass{root}.")
        return cls


def split_sum(text: str) -> list[str]:
    """The terms of `a(1) + b(2)`, at top level only.

    >>> split_sum("dirichlet(0.5) + noise(1e+2)")
    ['dirichlet(0.5)', 'noise(1e+2)']
    """
    return [term.strip() for term in _split(text, "+")]


def _shared_base(classes: list[type]) -> type:
    """The dataclass that all of a kind derive from, if there is one."""
    roots = [
        root
        for root in (classes[0].__mro__ if classes else ())
        if dataclasses.is_dataclass(root) and all(root in cls.__mro__ for cls in classes)
    ]
    return roots[-1] if roots else object


def _is_frozen_dataclass(thing: Any) -> bool:
    """Decorated itself: a subclass that only inherits the decoration would hide its own fields."""
    parameters = vars(thing).get("__dataclass_params__") if isinstance(thing, type) else None
    return parameters is not None and parameters.frozen


def _masked(text: str) -> str:
    """The text with its quoted parts blanked out, so that places in it stay the same."""
    return _QUOTED.sub(lambda quoted: "_" * len(quoted.group()), text)


def _balanced(text: str) -> bool:
    depth = 0
    for char in _masked(text):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def _split(text: str, separator: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for i, char in enumerate(_masked(text)):
        depth += (char == "(") - (char == ")")
        if char == separator and depth == 0:
            terms.append(text[start:i])
            start = i + 1
    return [*terms, text[start:]]


def _build(cls: type[T], name: str, arguments: str) -> T:
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given = _arguments(fields, name, arguments)
    hints = typing.get_type_hints(cls)
    for field in fields.values():
        no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if no_default and field.name not in given:
            raise BadInput(f"{name} needs {field.name}: write {name}({field.name}).")
    return cls(**{key: _read_value(raw, hints[key], f"{name}'s {key}") for key, raw in given.items()})


def _arguments(fields: Mapping[str, Any], name: str, arguments: str) -> dict[str, str]:
    """Each argument's text, by the field it is for."""
    given: dict[str, str] = {}
    terms = _split(arguments, ",") if arguments.strip() else []
    for i, term in enumerate(terms):
        match = _ARGUMENT.fullmatch(term.strip())
        assert match is not None
        key, raw = match.groups()
        if key is None:
            if i >= len(fields):
                raise BadInput(f"{name} takes at most {len(fields)} values, not {len(terms)}.")
            key = list(fields)[i]
        if key not in fields:
            raise unknown(f"parameter of {name}", key, fields)
        if key in given:
            raise BadInput(f"{name} is given {key} twice.")
        given[key] = raw.strip()
    return given


def _write_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value.lower() != "none" else _quoted(value)
    return "none" if value is None else f"{value:g}" if _survives_g(value) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _unquoted(raw: str) -> str:
    return re.sub(r"\\(.)", r"\1", raw[1:-1], flags=re.DOTALL) if _QUOTED.fullmatch(raw) else raw


def _survives_g(value: Any) -> bool:
    return isinstance(value, float) and float(f"{value:g}") == value


def _read_value(raw: str, hint: Any, what: str) -> Any:
    if typing.get_origin(hint) in (Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if raw.lower() == "none" else _read_value(raw, options[0], what)
    text = _unquoted(raw)
    if typing.get_origin(hint) is Literal:
        options = {str(option): option for option in typing.get_args(hint)}
        if text not in options:
            raise unknown(f"value for {what}:", text, options)
        return options[text]
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
