"""Do the tests hold the algorithms? Small mistakes are made in their files, one at a time, and some test must fail.

    python -m tests.mutants [FILE ...] [--jobs 1] [--most 25 | --all] [--match TEXT] [--list] [--verbose]

Each mutant is tried in a process of its own on a copy of the package; the working tree is only read.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutations import Mutant, mutants

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/noniid")
GOAL = 0.95
SECONDS = 60  # of one test, after which a mutant counts as noticed: it hangs
IMPORTED_ONCE = (
    "torch._dynamo",
    "scipy.optimize",
    "sklearn.datasets",
    "hypothesis.strategies",
    "pytest",
    "tqdm",
    "rich",
)

# The tests that a mutant must pass to survive, the telling ones first. An algorithm's have its name in their own.
CONTRACT = [
    "tests/contract/test_golden.py",
    "tests/contract/test_gaps.py",
    "tests/reference/test_twins.py",
    "tests/contract/test_relations.py",
    "tests/contract/test_laws.py",
    "tests/contract/test_wrapped.py",
]
NAMES = {"adaptive": "fedadagrad or fedadam or fedyogi or radfed_a", "base": "", "bounds": "local or centralised"}
FAULT = "fault"  # begins a note that says nothing of the mutant
SLOW = "every_knob"  # minutes, and it only asks whether numbers move
TESTS = {
    "optim": ["tests/test_optim.py", CONTRACT[0]],
    "rows": ["tests/test_rows.py"],
    "wrappers": ["tests/algorithms", CONTRACT[-1]],
}

# What no test can notice: file; place, change; reason.
EQUIVALENT: dict[str, dict[str, str]] = {
    "base": {"State: 0 -> 1": "whatever an algorithm's `init` says, the round loop begins at round 0"},
    "radfed": {
        "RADFedIS.pick: state.memory['score'].squeeze(1).double() -> state.memory['score'].squeeze(1)": (
            "odds in single precision differ in the seventh digit: no draw shows it"
        ),
        "RADFedIS.pick: score.sum() -> score.mean()": "how nearly never a client without any gradient is drawn",
    },
    "rows": {"column: -1 -> 1": "a number for each client is [C]: its last new dimension is the second"},
    "wrappers": {
        "Gaussian.apply: torch.randn(moves.shape, generator=draws, device=draws.device) -> "
        "torch.randn(moves.shape, generator=draws)": "these draws are made on the CPU, the default",
    },
}

WORKER: list[Path] = []  # the copy that this process works on


class Task(NamedTuple):
    file: Path  # inside the package
    mutant: Mutant | None  # None: the file as it is


class Fate(NamedTuple):
    killer: str  # the test that failed first; empty: none did
    seconds: float


class Row(NamedTuple):
    """What became of a file's mutants."""

    file: Path
    fates: dict[Mutant, Fate]
    equivalent: list[Mutant]

    @property
    def survivors(self) -> list[Mutant]:
        return [mutant for mutant, fate in self.fates.items() if not fate.killer]


def key(mutant: Mutant) -> str:
    return f"{mutant.where}: {mutant.change}"


def sample(found: Sequence[Mutant], most: int | None) -> Sequence[Mutant]:
    """Some of them at even distances, the same ones every time."""
    if most is None or len(found) <= most:
        return found
    first = random.Random(0).random()
    return [found[int((first + i) * len(found) / most)] for i in range(most)]


def arguments(file: Path) -> list[str]:
    """Which tests pytest is to run."""
    if file.stem in TESTS:
        return TESTS[file.stem]
    name = NAMES.get(file.stem, file.stem)
    return [*CONTRACT, "-k", f"({name}) and not {SLOW}" if name else f"not {SLOW}"]


# One mutant


def copied(tree: Path, place: Path) -> Path:
    """The package and its tests."""
    for folder in ("src", "tests"):
        shutil.copytree(tree / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy2(tree / "pyproject.toml", place)
    return place


def try_out(place: Path, task: Task) -> Fate:
    """Runs the tests on the copy at `place` with the mutant in it."""
    path, note, begun = place / PACKAGE / task.file, place / "note", time.monotonic()
    original, times = path.read_text(), path.stat()
    note.write_text("")
    if task.mutant:
        path.write_text(task.mutant.source)
    pid = os.fork()
    if not pid:
        _run_tests(place, task.file, note)
    try:
        crashed = _waited_for(pid)
    finally:
        path.write_text(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what was compiled before still holds
    killer = note.read_text() or crashed
    if killer.startswith(FAULT):
        raise RuntimeError(f"{task.file}: {killer}")
    return Fate(killer, time.monotonic() - begun)


def _waited_for(pid: int) -> str:
    """Why a process that said nothing is gone; empty if all went well."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return f"more than {SECONDS} seconds"
    return f"a crash ({status})" if status else ""


class _First:
    """Notes what fails first, and lets no test take longer than it may."""

    def __init__(self, note: Path):
        self.note = note

    def pytest_runtest_logstart(self) -> None:
        signal.alarm(SECONDS)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.pytest_collectreport(report)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.note.read_text():
            self.note.write_text(report.nodeid)


def _calm_hypothesis() -> None:
    """The same examples every time, no deadlines, and no search for the smallest example."""
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutants", derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("mutants")


def _run_tests(place: Path, file: Path, note: Path) -> None:
    """In the process that is forked for it, and ends with it."""
    try:
        signal.alarm(SECONDS)
        os.chdir(place)
        output = os.open(place / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.dont_write_bytecode = True
        _calm_hypothesis()
        for name in [name for name in sys.modules if name.partition(".")[0] in ("noniid", "tests")]:
            del sys.modules[name]
        sys.path[:0] = [str(place / "src"), str(place)]
        usual = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "-o", "addopts="]
        status = int(importlib.import_module("pytest").main([*usual, *arguments(file)], plugins=[_First(note)]))
        seen = getattr(sys.modules.get("noniid"), "__file__", str(place))
        if not seen.startswith(str(place)):
            note.write_text(f"{FAULT}: the tests saw {seen}, which is not the copy")
        elif status not in (0, 1, 2):
            note.write_text(f"{FAULT}: pytest ended with {status}: {(place / 'output').read_text()[-500:]}")
        os._exit(status)
    except BaseException as error:
        note.write_text(f"{FAULT}: {error!r}")
        os._exit(1)


# All mutants


def begin(tree: Path, places: Any) -> None:
    """What each worker does first: it has a copy of its own."""
    WORKER.append(copied(tree, Path(tempfile.mkdtemp(dir=places))))
    compileall.compile_dir(WORKER[0], quiet=1)
    for name in IMPORTED_ONCE:
        with suppress(ImportError):
            importlib.import_module(name)


def work(task: Task) -> Fate:
    return try_out(WORKER[0], task)


def mutated(tree: Path, names: Sequence[str]) -> dict[Path, list[Mutant]]:
    """The files that are asked for, inside the package, and all their mutants."""
    inside = tree / PACKAGE
    paths = [*sorted((inside / "algorithms").glob("*.py")), inside / "rows.py", inside / "optim.py"]
    wanted = {Path(name).stem for name in names} or {path.stem for path in paths}
    if unknown := wanted - {path.stem for path in paths}:
        raise SystemExit(f"no mutants are made of {', '.join(sorted(unknown))}")
    found = {path.relative_to(inside): mutants(path.read_text()) for path in paths if path.stem in wanted}
    return {file: each for file, each in found.items() if each}


def tried(file: Path, chosen: Sequence[Mutant], pool: Any, verbose: bool) -> Row:
    """The fate of a file's mutants; its own tests must pass without any."""
    known = EQUIVALENT.get(file.stem, {})
    heard = [mutant for mutant in chosen if key(mutant) not in known]
    (plain,) = pool.map(work, [Task(file, None)])
    if plain.killer:
        raise SystemExit(f"{file}: {plain.killer} fails without a mutant")
    fates: dict[Mutant, Fate] = {}
    for mutant, fate in zip(heard, pool.imap(work, [Task(file, mutant) for mutant in heard]), strict=True):
        fates[mutant] = fate
        if verbose:
            print(
                f"{fate.seconds:5.1f} s  {mutant.line:4} {key(mutant)}\n         {fate.killer or 'SURVIVED'}",
                flush=True,
            )
    return Row(file, fates, [mutant for mutant in chosen if key(mutant) in known])


def line(name: str, rows: Sequence[Row]) -> str:
    """
    >>> line("all", [])
    'all                      0      0        0   100.0 %          0'
    """
    tried = sum(len(row.fates) for row in rows)
    survived = sum(len(row.survivors) for row in rows)
    share = 100 * (tried - survived) / (tried or 1) if tried else 100
    equivalent = sum(len(row.equivalent) for row in rows)
    return f"{name:18} {tried:7} {tried - survived:6} {survived:8} {share:7.1f} % {equivalent:10}"


def report(rows: Sequence[Row]) -> None:
    print(f"\n{'file':18} mutants killed survived     share equivalent")
    for row in rows:
        print(line(row.file.name, [row]))
    print(line("all", rows))
    for row in rows:
        for mutant in row.survivors:
            print(f"\nsurvived: {PACKAGE / row.file}:{mutant.line}: {key(mutant)}\n    {mutant.shown}")
    for row in rows:
        for mutant in row.equivalent:
            print(f"\nequivalent: {PACKAGE / row.file}:{mutant.line}: {key(mutant)}")
            print(f"    {EQUIVALENT[row.file.stem][key(mutant)]}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="such as fedprox.py; all, if none is named")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--most", type=int, default=25, help="of each file")
    parser.add_argument("--all", action="store_true", help="every mutant of each file")
    parser.add_argument("--match", default="", help="only those whose place or change contains this")
    parser.add_argument("--list", action="store_true", help="show them, try none")
    parser.add_argument("--verbose", action="store_true", help="say of each what noticed it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        tree = copied(ROOT, Path(place) / "tree")  # what is edited meanwhile changes nothing
        found = mutated(tree, asked.files)
        chosen = {
            file: sample([each for each in every if asked.match in key(each)], None if asked.all else asked.most)
            for file, every in found.items()
        }
        if asked.list:
            for file, some in chosen.items():
                print(*(f"{PACKAGE / file}:{each.line}: {each.kind}: {key(each)}" for each in some), sep="\n")
            return 0
        rows: list[Row] = []
        with multiprocessing.get_context("fork").Pool(asked.jobs, begin, (tree, place)) as pool:
            for file, some in chosen.items():
                rows.append(tried(file, some, pool, asked.verbose))
                print(line(file.name, rows[-1:]), flush=True)
        report(rows)
    tried_out = sum(len(row.fates) for row in rows)
    return int(sum(len(row.survivors) for row in rows) > (1 - GOAL) * tried_out)


if __name__ == "__main__":
    sys.exit(main())
