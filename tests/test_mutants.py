"""The mutants: which are made of a text, which are not, and that one of an algorithm is noticed."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import CONTRACT, EQUIVALENT, PACKAGE, ROOT, SECONDS, TESTS, arguments, key, mutated, sample
from tests.mutations import mutants


def _changes(source: str) -> set[str]:
    return {each.change for each in mutants(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b", {"a + b -> a", "a + b -> b", "a + b -> a - b"}),
        ("x = a - b", {"a - b -> a", "a - b -> -b", "a - b -> a + b"}),
        ("x = a * b", {"a * b -> a / b"}),
        ("x = a / b", {"a / b -> a * b"}),
        ("x = a**b", {"a ** b -> a * b"}),
        ("x = -a", {"-a -> a"}),
        ("x = a < b", {"a < b -> a <= b"}),
        ("x = a == b", {"a == b -> a != b"}),
        ("x = a < b <= c", {"a < b <= c -> a <= b <= c", "a < b <= c -> a < b < c"}),
        ("x = a and b", {"a and b -> a or b"}),
        ("x = not a", {"not a -> a"}),
        ("x = 0", {"0 -> 1"}),
        ("x = 0.5", {"0.5 -> 1.5"}),
        ("x = True", {"True -> False"}),
        ("x += y", {"x += y -> x -= y", "x += y -> pass"}),
        ("x = a if b else c", {"b -> not b"}),
        ("x = f(a, k=b)", {"f(a, k=b) -> f(a)"}),
        ("x = a.clone()", {"a.clone() -> a"}),
        ("x = g.add(w, alpha=m)", {f"g.add(w, alpha=m) -> {new}" for new in ("g.add(w)", "g.sub(w, alpha=m)", "g")}),
        ("f()", {"f() -> pass"}),
        ("def f():\n    return {'a': b, 'c': d}", {f"{{'a': b, 'c': d}} -> {new}" for new in ("{'c': d}", "{'a': b}")}),
        ("class A(B):\n    def update(self):\n        return w", {"def update -> pass"}),
    ],
)  # fmt: skip
def test_what_is_made_of_a_text(source: str, expected: set[str]) -> None:
    assert _changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""1 + 1"""',
        "def f(x: A | B) -> list[int]:\n    '''not a * b'''\n    return x",
        "x: Literal[1]",
        "paper = Paper('a + b', 2021)",
        "raise BadInput(f'{a + b}' + c)",
        "assert a is not None",
        "x = f'{a + b}'",
        "x = zip(a, b, strict=True)",
        "class A:\n    def update(self):\n        return w",  # there is no parent whose it could be
        "KINDS = {'a': A}",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert _changes(source) == set()


def test_a_mutant_is_the_text_with_one_expression_changed() -> None:
    source = 'def f(x):\n    """é."""\n    return é(x) * (x - 2)  # why\n'
    made = {each.change: each for each in mutants(source)}
    one = made["x - 2 -> x + 2"]
    assert one.source == source.replace("-", "+") and one.shown == "return é(x) * (x + 2)  # why"
    assert (one.line, one.where, one.kind) == (3, "f", "sign")
    assert all(compile(each.source, "mutant", "exec") for each in made.values())


def test_brackets_come_where_they_are_needed() -> None:
    made = {each.change: each.source for each in mutants("x = a * -b**2\ny = a ** b ** c")}
    assert made["b ** 2 -> b * 2"].startswith("x = a * -(b * 2)\n")
    assert made["a ** b ** c -> a * b ** c"].endswith("y = a * b ** c")


def test_a_sample_is_even_and_the_same_every_time() -> None:
    found = mutants("\n".join(f"x{i} = -a" for i in range(100)))
    some = sample(found, 10)
    assert some == sample(found, 10) and len(set(some)) == 10
    assert {b.line - a.line for a, b in itertools.pairwise(some)} == {10}
    assert sample(found, None) == sample(found, 100) == found


def test_every_mutant_is_python_and_every_named_test_is_there() -> None:
    for file, found in mutated(ROOT, []).items():
        assert all(compile(each.source, str(file), "exec") for each in found)
        assert arguments(file)
    assert all((ROOT / path).exists() for path in [*CONTRACT, *(path for each in TESTS.values() for path in each)])


def test_what_is_said_to_be_equivalent_can_be_made() -> None:
    made = {file.stem: {key(each) for each in found} for file, found in mutated(ROOT, []).items()}
    assert not {f"{name}: {each}" for name, known in EQUIVALENT.items() for each in known if each not in made[name]}


@pytest.mark.slow
def test_a_missing_term_is_noticed_and_the_working_tree_is_left_alone() -> None:
    path = Path(ROOT / PACKAGE / "algorithms" / "fedprox.py")
    before = path.read_bytes(), path.stat().st_mtime_ns
    change = "local.w - local.start -> -local.start"
    command = [sys.executable, "-m", "tests.mutants", "fedprox.py", "--match", change, "--verbose"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10 * SECONDS, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"FedProx.grad: {change}\n" in ended.stdout and "test_golden.py::" in ended.stdout
    assert ended.stdout.splitlines()[-1].split() == ["all", "1", "1", "0", "100.0", "%", "0"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
