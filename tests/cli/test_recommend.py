"""`noniid recommend`: the advice and the tournament, and what is said where they part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noniid.experiments.tournament import standings
from noniid.screens.recommend import conclusion
from tests.cli import call
from tests.experiments.test_tournament import runs

SHORT = ("--rounds", 2, "--epochs", 1)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    store = tmp_path_factory.mktemp("recommend") / "store"
    return ("recommend", "fcube", "--split", "fcube", "--clients", 4, *SHORT, "--seeds", 2, "--store", store)


def test_both_answers_are_told(asked: tuple[object, ...]) -> None:
    told = call(*asked)
    assert told.exit_code == 0, told.output
    text = " ".join(told.stdout.split())
    assert "measured: feature skew" in text
    assert "advised: scaffold (NIID-Bench v2, section V-A, finding 2)" in text
    assert "label skew? no; feature skew? yes; quantity skew? no" in text
    assert "tournament: linear, 2 rounds of 1 epochs, 2 seeds" in text
    for algorithm in ("fedavg", "fedprox", "scaffold", "fednova"):
        assert f" {algorithm} " in text
    assert "scaffold is advised" in text


def test_json_and_what_is_stored_already(asked: tuple[object, ...]) -> None:
    first = call(*asked, "--json")
    found = json.loads(first.stdout)
    assert set(found) == {"profile", "advice", "tournament", "best", "agreement"}
    assert found["advice"]["algorithm"] == "scaffold"
    assert found["best"] == found["tournament"][0]["algorithm"]
    assert [len(each["accuracies"]) for each in found["tournament"]] == [2] * 4
    assert found["agreement"] in ("agree", "tie", "disagree")
    again = call(*asked, "--json")
    assert (again.stdout, again.stderr) == (first.stdout, "")


def test_partial_participation_is_another_leaf(asked: tuple[object, ...]) -> None:
    found = json.loads(call(*asked, "--participation", 0.5, "--json").stdout)
    assert found["advice"]["algorithm"] == "fedprox"


def test_own_algorithms_and_own_data(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("x,y,c\n" + "".join(f"{i % 7},{i % 2},{'ab'[i % 3 == 0]}\n" for i in range(60)))
    told = call("recommend", path, "--label", "y", "--client", "c", *SHORT, "--seeds", 1, "--algorithm", "fedavg",
                "--algorithm", "fedprox(1)", "--store", tmp_path / "store", "--json")  # fmt: skip
    found = json.loads(told.stdout)
    assert {each["algorithm"] for each in found["tournament"]} == {"fedavg", "fedprox(1)"}


def test_an_algorithm_that_diverges_is_an_answer(tmp_path: Path) -> None:
    told = call("recommend", "fcube", "--split", "fcube", "--clients", 4, *SHORT, "--seeds", 1, "--algorithm", "fedavg",
                "--algorithm", "fedprox(1e9)", "--store", tmp_path / "store")  # fmt: skip
    assert told.exit_code == 0
    assert "1 did not finish" in told.stdout
    assert "diverged" in told.stderr


@pytest.mark.parametrize(
    ("accuracies", "agreed", "part"),
    [
        ({"scaffold": [0.9, 0.9], "fedavg": [0.8, 0.7]}, "agree", "Both agree: scaffold is advised, and best here."),
        ({"fedavg": [0.9, 0.8], "scaffold": [0.9, 0.8]}, "agree", "scaffold is advised, and none is better here."),
        ({"fedavg": [0.9, 0.8], "scaffold": [0.8, 0.8]}, "tie", "cannot tell them apart: scaffold is advised, fedavg is "
         "best here, by 5.0 points (p = 0.5). More seeds would tell."),
        ({"fedavg": [0.9], "scaffold": [0.8]}, "unknown", "by 10.0 points."),
        ({"fedavg": [0.9], "scaffold": [None]}, "disagree", "scaffold is advised and did not finish here; fedavg is best"),
        ({"scaffold": [None]}, "unknown", "no algorithm finished all its seeds"),
    ],
)  # fmt: skip
def test_what_is_said(accuracies: dict[str, list[float | None]], agreed: str, part: str) -> None:
    assert part in conclusion("scaffold", standings(runs(**accuracies)), agreed)
