"""Tables made from exported runs say what the exports say."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from noniid.results.table import FIELDS
from tests import generated_runs
from tests.generated_docs import table
from tests.generated_runs import NOTHING

RUN = {"status": "done", "seed": "0", "draws": "own", "epochs": "10", "bytes_per_client_round": "2000.0"}


def export(root: Path, name: str, runs: dict[str, tuple[dict[str, str], list[float]]]) -> Path:
    """As `noniid show --csv` writes runs, and with --rounds their rounds: every other one is evaluated."""
    (root / name).mkdir()
    with (root / name / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for key, (run, accuracies) in runs.items():
            values = {
                "accuracy": accuracies[-1],
                "best_accuracy": max(accuracies),
                "best_round": "4",
                "seconds": "61.4",
            }
            writer.writerow(RUN | values | {"run": key, "worst_decile_accuracy": "0.25"} | run)
    with (root / name / "rounds.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "round", "accuracy"])
        for key, (_, accuracies) in runs.items():
            for i, accuracy in enumerate(accuracies):
                writer.writerows([[key, 2 * i + 1, ""], [key, 2 * i + 2, accuracy]])
    return root


@pytest.mark.parametrize("name", ["family", "scaffold", "rfedavg", "radfed"])
def test_without_exports_there_is_nothing(name: str, tmp_path: Path) -> None:
    assert getattr(generated_runs, name)(table, tmp_path) == NOTHING


def test_an_export_of_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "family").mkdir()
    for name in ("runs.csv", "rounds.csv"):
        (tmp_path / "family" / name).write_text("run,accuracy\n")
    with pytest.raises(ValueError, match="export it again"):
        generated_runs.family(table, tmp_path)


def test_family_shows_all_but_the_variants_and_tells_other_work(tmp_path: Path) -> None:
    runs: dict[str, Any] = {
        "a": ({"algorithm": "fedavg"}, [0.1, 0.2, 0.8, 0.6]),
        "b": ({"algorithm": "fedavg", "epochs": "1"}, [0.5]),
        "c": ({"algorithm": "scaffold(variates=random-net)"}, [0.5]),
        "d": ({"algorithm": "scaffold", "draws": "published"}, [0.5]),
        "e": ({"algorithm": "moon", "status": "diverged"}, [0.5, 0.7]),
    }
    lines = generated_runs.family(table, export(tmp_path, "family", runs)).splitlines()
    assert lines[2] == "| `fedavg` | 60.00 | 42.50 ± 28.61 | 80.00 (4) | 25.00 | 2.0 | 61 |"
    assert lines[3].startswith("| `moon` (diverged in round 5) | 70.00 ")
    assert "one local epoch" in lines[5] and lines[9].startswith("| `fedavg` | 50.00 ") and len(lines) == 10


def test_scaffold_is_sorted_from_the_paper_to_the_code(tmp_path: Path) -> None:
    runs: dict[str, Any] = {
        "a": (
            {"algorithm": "scaffold(variates=random-net, share=cohort, correct=after-step)", "status": "diverged"},
            [0.1],
        ),
        "b": ({"algorithm": "scaffold(share=cohort)"}, [0.5]),
        "c": ({"algorithm": "scaffold"}, [0.6, 0.7]),
        "d": ({"algorithm": "fedavg"}, [0.6]),
    }
    _, _, *rows = generated_runs.scaffold(table, export(tmp_path, "family", runs)).splitlines()
    assert rows == [
        "| zero | all | gradient | 70.00 | 65.00 ± 5.00 | 70.00 (4) |",
        "| zero | cohort | gradient | 50.00 | 50.00 ± 0.00 | 50.00 (4) |",
        "| random-net | cohort | after-step | diverged in round 3 | 10.00 ± 0.00 | 10.00 (4) |",
    ]


def test_rfedavg_is_compared_where_all_runs_have_been(tmp_path: Path) -> None:
    runs: dict[str, Any] = {
        "a": ({"algorithm": "fedavg"}, [0.0, 0.1, 0.2, 0.2, 0.2, 0.2, 0.9]),
        "b": ({"algorithm": "rfedavg_plus"}, [0.0, 0.2, 0.3, 0.3, 0.3, 0.3]),
    }
    _, _, base, plus, _, words = generated_runs.rfedavg(table, export(tmp_path, "rfedavg", runs)).splitlines()
    assert base == "| `fedavg` | 97.07 ± 0.34 | 18.00 ± 4.00 | +0.00 | +0.00 |"
    assert plus == "| `rfedavg_plus` | 98.02 ± 0.03 | 28.00 ± 4.00 | +0.95 | +10.00 |"
    assert words == "Percent, mean ± standard deviation of rounds 8 to 12."


def test_radfed_is_shown_at_the_same_rounds(tmp_path: Path) -> None:
    runs: dict[str, Any] = {
        "a": ({"algorithm": "fedavg"}, [i / 100 for i in range(35)]),
        "b": ({"algorithm": "radfed"}, [0.5] * 32),
    }
    head, _, first, second = generated_runs.radfed(table, export(tmp_path, "radfed", runs)).splitlines()
    assert head == "| algorithm | round 60 | round 64 | last 5 seen: mean ± std |"
    assert (first, second) == (
        "| `fedavg` | 29.00 | 31.00 | 29.00 ± 1.41 |",
        "| `radfed` | 50.00 | 50.00 | 50.00 ± 0.00 |",
    )
