"""Lists what has grown large: `python -m tests.sizes`.

A file over 250 lines or a function over 40 is worth a look; the test beside this draws the line at 300 and 60.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "noniid"
FILE_LINES, FUNCTION_LINES = 250, 40
MOST_FILE_LINES, MOST_FUNCTION_LINES = 300, 60


class Size(NamedTuple):
    what: str
    lines: int


def files() -> Iterator[Size]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield Size(str(path.relative_to(SOURCE)), len(path.read_text().splitlines()))


def functions() -> Iterator[Size]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                where = f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
                yield Size(where, node.end_lineno - node.lineno + 1)


def over(sizes: Iterator[Size], most: int) -> list[str]:
    """The largest first."""
    large = sorted((size for size in sizes if size.lines > most), key=lambda size: -size.lines)
    return [f"{size.lines:5} {size.what}" for size in large]


if __name__ == "__main__":
    for kind, sizes, most in (("files", files(), FILE_LINES), ("functions", functions(), FUNCTION_LINES)):
        print(f"{kind} over {most} lines:")
        print("\n".join(over(sizes, most)) or "    none")
