"""The folders are the diagram: every import points one way, wherever in a file it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import sizes

SOURCE = sizes.SOURCE
BASE = {"errors", "seeds", "spec", "rows", "optim"}
PARTS = {"data", "split", "models", "algorithms"}
ROOMS = BASE | PARTS | {"engine", "laws", "results", "experiments", "papers", "screens", "flags", "cli"}

# What a room may import, beside itself.
ALLOWED: dict[str, set[str]] = {
    **dict.fromkeys(BASE, BASE),
    **dict.fromkeys(PARTS, BASE),
    "engine": PARTS | BASE,
    "laws": {"engine"} | PARTS | BASE,
    "results": BASE,
    "experiments": {"engine", "results"} | PARTS | BASE,
    "papers": BASE,
    "screens": ROOMS - {"cli", "flags", "papers"},
    "flags": BASE,
    "cli": ROOMS,
    "": ROOMS,  # the package's own list of public names
}


class Import(NamedTuple):
    where: str
    room: str  # of the file that imports
    target: str  # the room imported; "" is the package itself


def _room(parts: tuple[str, ...]) -> str:
    """Of a path below the package: its first folder, or the file's own name."""
    first = parts[0].removesuffix(".py")
    return "" if first in ("__init__", "__main__") else first


def _package(path: Path) -> list[str]:
    """The dotted name of the package a file is in."""
    return ["noniid", *path.relative_to(SOURCE).parts[:-1]]


def _targets(node: ast.AST, path: Path) -> Iterator[str]:
    """Dotted names below noniid that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = _package(path)[: len(_package(path)) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        yield from (f"{module}.{alias.name}" for alias in node.names)


def _imports(source: str, path: Path) -> Iterator[Import]:
    room = _room(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(source)):
        for target in _targets(node, path):
            top, _, rest = target.partition(".")
            if top == "noniid":
                name = rest.partition(".")[0]
                where = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
                yield Import(where, room, name if name in ROOMS else "")


def _files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def _wrong(found: Import) -> bool:
    return bool(found.target) and found.target != found.room and found.target not in ALLOWED[found.room]


def test_every_import_points_down() -> None:
    found = [each for path in _files() for each in _imports(path.read_text(), path)]
    assert len(found) > 50
    assert not [f"{each.where} imports {each.target}" for each in found if _wrong(each)]


def test_every_file_is_in_a_room() -> None:
    rooms = {_room(path.relative_to(SOURCE).parts) for path in _files()}
    assert rooms <= ROOMS | {""}


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("split/label.py", "from noniid.data import load"),
        ("split/label.py", "from noniid import data"),
        ("split/label.py", "from ..data import load"),
        ("split/label.py", "import noniid.data.loading"),
        ("split/label.py", "def f():\n    from noniid.models import fresh"),
        ("results/store.py", "from noniid.engine import simulate"),
        ("algorithms/base.py", "if TYPE_CHECKING:\n    from noniid.engine import Engine"),
        ("rows.py", "from noniid.algorithms import State"),
        ("papers/base.py", "from noniid.experiments import published"),
        ("engine/task.py", "from noniid.experiments import runner"),
        ("experiments/runner.py", "from noniid import cli"),
    ],
)
def test_a_wrong_import_would_be_seen(file: str, line: str) -> None:
    assert any(_wrong(each) for each in _imports(line, SOURCE / file))


def test_the_package_itself_is_only_asked_for_its_version() -> None:
    for path in _files():
        tree = ast.parse(path.read_text())
        whole = [n for n in ast.walk(tree) if isinstance(n, ast.Import) and "noniid" in [a.name for a in n.names]]
        asked = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "noniid"
        }
        assert not whole or asked <= {"__version__"}, path


def test_importing_the_package_leaves_algorithms_free_of_the_rest() -> None:
    """What draws nothing but arrays needs neither torch nor a loader: `split` and `spec` are usable alone."""
    for name in ("errors.py", "spec.py"):
        tree = ast.parse((SOURCE / name).read_text())
        tops = {target.partition(".")[0] for node in ast.walk(tree) for target in _targets(node, SOURCE / name)}
        assert "torch" not in tops and "numpy" not in tops


# No pickle

UNSAFE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def test_no_pickle_is_imported_and_none_is_loaded_through_torch_or_numpy() -> None:
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text())):
            tops = {target.partition(".")[0] for target in _targets(node, path)}
            assert not tops & UNSAFE, f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
                called = ast.unparse(node.func)
                where = f"{path}:{node.lineno} {called}"
                assert called != "torch.load" or keywords.get("weights_only") == "True", where
                assert keywords.get("allow_pickle", "False") == "False", where


# Sizes


def test_no_file_and_no_function_is_too_long() -> None:
    assert not sizes.over(sizes.files(), sizes.MOST_FILE_LINES)
    assert not sizes.over(sizes.functions(), sizes.MOST_FUNCTION_LINES)
