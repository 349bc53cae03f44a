"""Published experiments as values: the cells of their tables, and the numbers they claim."""

from __future__ import annotations

from typing import Any

from noniid.errors import BadInput, unknown
from noniid.papers import niid_bench
from noniid.papers.base import Paper

PAPERS: dict[str, Paper] = {niid_bench.PAPER.name: niid_bench.PAPER}


def find_table(text: str) -> tuple[Paper, Any]:
    """`niid-bench/3` -> the paper and the rows of its table 3."""
    name, slash, number = text.partition("/")
    if name not in PAPERS:
        raise unknown("paper", name, PAPERS)
    paper = PAPERS[name]
    if not slash:
        raise BadInput(f"which table of {name}? Write {' or '.join(f'{name}/{key}' for key in paper.tables)}.")
    if number not in paper.tables:
        raise unknown(f"table of {name}", number, paper.tables)
    return paper, paper.tables[number]


__all__ = ["PAPERS", "Paper", "find_table"]
