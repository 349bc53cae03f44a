"""The grammar: `parse` undoes `write`, and what cannot be read is refused in one sentence."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noniid import models, split
from noniid.algorithms import ALGORITHMS
from noniid.algorithms.wrappers import WRAPPERS
from noniid.errors import BadInput
from noniid.models import MODELS, Imported
from noniid.optim import OPTIMISERS
from noniid.spec import Registry, split_sum
from noniid.split import PLACEMENTS, SHIFTS


@dataclass(frozen=True)
class Thing:
    size: float = 0.5
    count: int = 3
    mode: Literal["slow", "by-index", "fast"] = "slow"
    on: bool = False
    limit: int | None = None
    text: str = ""
    label: str | None = None
    level: Literal[1, 2, 3] = 1


@dataclass(frozen=True)
class Smaller(Thing):
    """A user's own."""


@dataclass(frozen=True)
class Needy:
    path: str
    k: int


@dataclass(frozen=True)
class Stranger:
    """A frozen dataclass of no kind."""


@dataclass
class Soft:
    size: float = 0.5


class Bare(Thing):
    """Derived, but not decorated itself."""

    extra: int = 1


@dataclass(frozen=True)
class Abstract(Thing, ABC):
    @abstractmethod
    def act(self) -> None: ...


class Outer:
    @dataclass(frozen=True)
    class Inner(Thing):
        """Below another class."""


not_a_class = Thing()
THINGS: Registry[Thing] = Registry("thing", {"thing": Thing})
NEEDY: Registry[Needy] = Registry("needy thing", {"needy": Needy})
REGISTRIES: dict[str, Registry[Any]] = {
    "algorithm": ALGORITHMS,
    "model": MODELS,
    "optimiser": OPTIMISERS,
    "placement": PLACEMENTS,
    "shift": SHIFTS,
    "wrapper": WRAPPERS,
}
REGISTERED = [(registry, cls) for registry in REGISTRIES.values() for cls in registry.values()]

# Round trips


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if typing.get_origin(hint) is Literal:
        return st.sampled_from(typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of([st.none() if part is type(None) else _values(part) for part in typing.get_args(hint)])
    return st.from_type(hint) if hint is not float else st.floats(allow_nan=False)


def _instances(cls: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{field.name: _values(hints[field.name]) for field in dataclasses.fields(cls)})


@pytest.mark.parametrize(("registry", "cls"), REGISTERED, ids=lambda x: getattr(x, "__name__", ""))
@given(data=st.data())
def test_parse_undoes_write_for_every_registered_class(registry: Registry[Any], cls: type, data: st.DataObject) -> None:
    value = data.draw(_instances(cls))
    again = registry.parse(registry.write(value))
    assert again == value
    assert hash(again) == hash(value)
    assert registry.write(again) == registry.write(value)


@given(_instances(Thing))
def test_every_type_of_field_survives(value: Thing) -> None:
    assert THINGS.parse(THINGS.write(value)) == value


@given(st.floats(allow_nan=False))
def test_floats_survive_to_the_bit(number: float) -> None:
    again = THINGS.parse(THINGS.write(Thing(number))).size
    assert again.hex() == number.hex() or number == 0


@given(st.text(), st.none() | st.text())
def test_strings_survive_whatever_is_in_them(text: str, label: str | None) -> None:
    value = Thing(text=text, label=label)
    written = THINGS.write(value)
    assert THINGS.parse(written) == value
    assert split_sum(f"{written} + {written}") == [written, written]


@pytest.mark.parametrize("text", ["a, b", "f(x)", ")", "a=b", "none", "None", "x + y", "it's", '"', "\\", " ", ""])
def test_awkward_strings_survive_as_only_value(text: str) -> None:
    value = Needy(text, 2)
    assert NEEDY.parse(NEEDY.write(value)) == value
    assert THINGS.parse(THINGS.write(Thing(label=text))).label == text


def test_nan_survives() -> None:
    assert math.isnan(THINGS.parse(THINGS.write(Thing(math.nan))).size)


def test_a_path_stays_as_it_is_written() -> None:
    assert MODELS.write(Imported("package.module:thing")) == "import(package.module:thing)"
    assert models.parse("package.module:thing") == Imported("package.module:thing")


# Reading and writing


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("thing", Thing()),
        (" thing ( ) ", Thing()),
        ("thing(1)", Thing(1.0)),
        ("thing(1e-3)", Thing(0.001)),
        ("thing(inf)", Thing(math.inf)),
        ("thing(-inf, -4)", Thing(-math.inf, -4)),
        ("thing(1, 2, fast, true, 7, word)", Thing(1.0, 2, "fast", True, 7, "word")),
        ("thing(count=4, size=2)", Thing(2.0, 4)),
        ("thing(mode='by-index')", Thing(mode="by-index")),
        ('thing(mode="fast", on=TRUE)', Thing(mode="fast", on=True)),
        ("thing(limit=none)", Thing()),
        ("thing(limit=None, label='none')", Thing(label="none")),
        ("thing(text=f(a, b))", Thing(text="f(a, b)")),
        ("thing(text='a, b)')", Thing(text="a, b)")),
        ("thing(level=2)", Thing(level=2)),
    ],
)
def test_what_is_read(text: str, value: Thing) -> None:
    assert THINGS.parse(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Thing(), "thing"),
        (Thing(0.1), "thing(0.1)"),
        (Thing(1.0), "thing(1)"),
        (Thing(1e-3), "thing(0.001)"),
        (Thing(0.1 + 0.2), "thing(0.30000000000000004)"),
        (Thing(count=4, on=True), "thing(count=4, on=true)"),
        (Thing(text="two words"), "thing(text='two words')"),
    ],
)
def test_what_is_written(value: Thing, text: str) -> None:
    assert THINGS.write(value) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "cannot read thing '': write it as name or name(value, key=value)."),
        ("thing(1", "cannot read thing 'thing(1'"),
        ("thing(1))", "cannot read thing 'thing(1))'"),
        ("thing)1(", "cannot read thing 'thing)1('"),
        ("thing((1)", "cannot read thing"),
        ("thing(1)(2)", "cannot read thing"),
        ("thing(1) thing", "cannot read thing"),
        ("thin(1)", "unknown thing 'thin': did you mean 'thing'?"),
        ("thing(sise=1)", "unknown parameter of thing 'sise': did you mean 'size'?"),
        ("thing(big-size=1)", "unknown parameter of thing 'big-size'"),
        ("thing(1, size=2)", "thing is given size twice."),
        ("thing(one)", "thing's size is a number, not 'one'."),
        ("thing()(", "cannot read thing"),
        ("thing(count=1.5)", "thing's count is a whole number, not '1.5'."),
        ("thing(on=1)", "thing's on is true or false, not '1'."),
        ("thing(mode=quick)", "unknown value for thing's mode: 'quick'"),
        ("thing(level=4)", "unknown value for thing's level: '4'"),
        ("thing(limit=few)", "thing's limit is a whole number, not 'few'."),
        ("thing(1, 2, fast, true, 7, a, b, 1, 9)", "thing takes at most 8 values, not 9."),
        ("thing(,)", "thing's size is a number, not ''."),
    ],
)
def test_what_cannot_be_read(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        THINGS.parse(text)
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(".")


def test_a_field_without_a_default_is_asked_for() -> None:
    with pytest.raises(BadInput, match=r"^needy needs k: write needy\(k\)\.$"):
        NEEDY.parse("needy(word)")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a", ["a"]),
        ("a(1) + b(2)+c", ["a(1)", "b(2)", "c"]),
        ("a(1e+2) + b", ["a(1e+2)", "b"]),
        ("a(f(x + y) + z) + b", ["a(f(x + y) + z)", "b"]),
        ("a('+') + b(\"x + y\")", ["a('+')", 'b("x + y")']),
        ("a +", ["a", ""]),
    ],
)
def test_sums_are_split_at_top_level_only(text: str, terms: list[str]) -> None:
    assert split_sum(text) == terms


# A mapping


@pytest.mark.parametrize("registry", REGISTRIES.values(), ids=REGISTRIES)
def test_a_registry_is_a_mapping(registry: Registry[Any]) -> None:
    names = list(registry)
    assert len(registry) == len(names) == len(set(registry.values()))
    assert all(name in registry and registry.get(name) is registry[name] for name in names)
    assert "nothing" not in registry
    assert registry.get("nothing") is None
    with pytest.raises(KeyError):
        registry["nothing"]


# Classes of one's own


@pytest.mark.parametrize("own", [Smaller(0.25, count=9), Outer.Inner(text="x, y")])
def test_a_class_of_ones_own_is_named_by_its_place(own: Thing) -> None:
    text = THINGS.write(own)
    assert text.startswith(f"{__name__}:{type(own).__qualname__}(")
    assert THINGS.parse(text) == own


@pytest.mark.parametrize("name", ["Stranger", "Soft", "Bare", "Abstract", "not_a_class", "pytest", "Literal"])
def test_what_is_no_frozen_dataclass_of_the_kind_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        THINGS.parse(f"{__name__}:{name}(1)")
    assert str(caught.value) == f"thing '{__name__}:{name}' must be a frozen dataclass derived from Thing."


@pytest.mark.parametrize("path", ["noniid.nowhere:Thing", f"{__name__}:Nothing", f"{__name__}:Outer.Nothing"])
def test_what_is_not_there_cannot_be_imported(path: str) -> None:
    with pytest.raises(BadInput, match="^cannot import thing"):
        THINGS.parse(path)


@pytest.mark.parametrize("kind", ["algorithm", "model", "optimiser"])
@pytest.mark.parametrize("path", [f"{__name__}:Thing", "math:pi", "collections:OrderedDict", f"{__name__}:Soft"])
def test_every_kind_refuses_what_is_not_of_it(kind: str, path: str) -> None:
    with pytest.raises(BadInput, match=f"^{kind} '{path}' must be a frozen dataclass derived from"):
        REGISTRIES[kind].parse(path)


@pytest.mark.parametrize("path", [f"{__name__}:Thing", "math:pi", f"{__name__}:Soft"])
def test_a_split_refuses_what_is_not_of_it(path: str) -> None:
    with pytest.raises(BadInput, match="must be a frozen dataclass|neither a Placement nor a Shift"):
        split.parse(path)
