"""A file of the user's own, from the command line: clients as they are, tested by rows or by clients."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import noniid
from noniid.split import load_saved
from tests.cli import call

SHORT = ("--rounds", 1, "--epochs", 1, "--json")
WARDS = 5


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five wards of 20 rows."""
    rng = np.random.default_rng(0)
    path = tmp_path / "wards.csv"
    rows = [f"{rng.normal():.3f},{rng.choice(['a', 'b', '?'])},{i % 2},ward {i % WARDS}" for i in range(100)]
    path.write_text("\n".join(["pulse,kind,ill,ward", *rows]) + "\n")
    return path


def trained(*arguments: object) -> list[dict[str, object]]:
    told = call("run", *SHORT, *arguments)
    assert told.exit_code == 0, told.output
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_every_client_is_one_value(table: Path, tmp_path: Path) -> None:
    asked = ("--data", table, "--label", "ill", "--client", "ward", "--store", tmp_path / "store")
    [found] = trained(*asked)
    assert (found["clients"], found["split"]) == (WARDS, "by(ward)")
    assert str(found["data"]).startswith("file(")
    assert trained(*asked) == [found], "what the store holds is not trained again"
    table.write_text(table.read_text().replace("ward 0", "ward 1"))
    [other] = trained(*asked)
    assert other["run"] != found["run"] and other["clients"] == WARDS - 1


def test_whole_clients_may_be_tested_on(table: Path, tmp_path: Path) -> None:
    asked = ("--data", table, "--label", "ill", "--client", "ward", "--test", "clients", "--seeds", 2)
    found = trained(*asked, "--store", tmp_path / "store")
    assert [each["clients"] for each in found] == [WARDS - 1] * 2


def test_other_splits_and_their_clients(table: Path, tmp_path: Path) -> None:
    asked = ("--data", table, "--label", "ill", "--client", "ward", "--store", tmp_path / "store")
    assert [each["clients"] for each in trained(*asked, "--split", "by(kind)", "--split", "iid")] == [3, 10]


def test_split_shows_natural_clients(table: Path) -> None:
    found = json.loads(call("split", table, "--label", "ill", "--client", "ward", "--json").stdout)
    assert found["sizes"] == [15] * WARDS


def test_a_number_of_clients_where_the_data_say_it(table: Path) -> None:
    told = call("split", table, "--label", "ill", "--client", "ward", "--clients", 3)
    expected = "noniid: how many clients there are is told by by(ward): leave the number out.\n"
    assert (told.exit_code, told.stderr) == (2, expected)


def test_one_value_is_no_federation(table: Path) -> None:
    table.write_text("\n".join(line.rpartition(",")[0] + ",ward" for line in table.read_text().splitlines()))
    told = call("split", table, "--label", "ill", "--client", "ward")
    assert told.exit_code == 2 and "that is a single client" in told.stderr


def test_an_engine_is_chosen_for_own_data_too(table: Path) -> None:
    asked = ("--data", table, "--label", "ill", "--client", "ward", "--model", "mlp", "--engine", "auto")
    assert json.loads(call("run", *asked, "--explain", "--json").stdout)["engine"] == "batched"


# Saved splits


@pytest.mark.parametrize("form", ["json", "npz", "parquet"])
def test_a_saved_split_is_a_split(form: str, tmp_path: Path) -> None:
    file = tmp_path / f"split.{form}"
    asked = ("split", "digits", "dirichlet(0.5)", "--clients", 4, "--seed", 2)
    told = json.loads(call(*asked, "--export", file, "--json").stdout)
    again = json.loads(call("split", "digits", file, "--json").stdout)
    assert again["counts"] == told["counts"]
    _, provenance = load_saved(file)
    known = {name: provenance[name] for name in ("data", "split", "clients", "seed", "num_samples", "noniid")}
    assert known == {"data": "digits", "split": "dirichlet(0.5)", "clients": 4, "seed": 2, "num_samples": 1442,
                     "noniid": noniid.__version__}  # fmt: skip
    other = call("split", "fcube", file)
    assert (other.exit_code, other.stderr) == (
        2, f"noniid: {file} was made for other samples than these (for digits): export it for these.\n"
    )  # fmt: skip


def test_a_run_on_a_saved_split_equals_the_run_it_came_from(tmp_path: Path) -> None:
    call("split", "digits", "labels(2)", "--clients", 5, "--export", tmp_path / "split.npz")
    asked = ("--data", "digits", "--store", tmp_path / "store", "--model", "linear")
    [one] = trained(*asked, "--split", "labels(2)", "--clients", 5)
    [other] = trained(*asked, "--split", tmp_path / "split.npz")
    assert (one["accuracy"], one["clients"]) == (other["accuracy"], other["clients"])
    assert "checksum=" in str(other["split"])


# Figures


@pytest.mark.parametrize(
    ("data", "kind"),
    [("digits", "counts"), ("digits", "population"), ("digits", "bubbles"), ("digits", "sizes"), ("digits", "examples"),
     ("fcube", "points"), ("digits", "tsne"), ("fcube", "tsne")],
)  # fmt: skip
def test_every_kind_of_figure(data: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "split.png"
    told = call("split", data, "iid + noise(0.1)", "--clients", 4, "--figure", file, "--kind", kind, "--json")
    assert told.exit_code == 0, told.output
    assert file.stat().st_size > 5000


@pytest.mark.parametrize(
    ("data", "kind", "part"), [("digits", "points", "three dimensions"), ("fcube", "examples", "fcube has none")]
)
def test_figures_that_these_data_do_not_have(data: str, kind: str, part: str, tmp_path: Path) -> None:
    told = call("split", data, "iid", "--figure", tmp_path / "a.png", "--kind", kind)
    assert (told.exit_code, told.stdout) == (2, "")
    assert part in told.stderr
