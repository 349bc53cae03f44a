"""Commands that do what they say: tables for people, JSON lines for scripts, and nothing trained twice."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from noniid.results.store import Store
from noniid.results.table import FIELDS
from tests.cli import TINY, call

ALGORITHMS = ("--algorithm", "fedavg", "--algorithm", "scaffold")
PROMISED = (
    "run", "data", "split", "clients", "algorithm", "seed", "status", "rounds", "accuracy", "best_accuracy",
    "best_round", "worst_client_accuracy", "bytes_per_client_round", "train_samples_per_second", "seconds",
    "peak_memory_mb",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms, trained once for all tests here."""
    folder = tmp_path_factory.mktemp("cli") / "store"
    trained = call("run", *TINY, *ALGORITHMS, "--store", folder)
    assert trained.exit_code == 0, trained.stderr
    return folder


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def numbers(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["run"], each["accuracy"], each["best_accuracy"], each["seconds"]) for each in found]


# run


def test_run_ends_with_a_table(store: Path) -> None:
    told = call("run", *TINY, *ALGORITHMS, "--store", store)
    assert (told.exit_code, told.stderr) == (0, "")
    assert "fcube, fcube, 4 clients, 2 rounds, linear, 1 seed" in told.stdout
    rows = [line.split()[0] for line in told.stdout.splitlines() if "%" in line]
    assert rows == ["fedavg", "scaffold"]


def test_json_is_a_line_for_each_run_and_nothing_else(tmp_path: Path) -> None:
    asked = ("run", *TINY, "--algorithm", "fedavg", "--seeds", "2", "--json", "--store", tmp_path / "store")
    first = call(*asked)
    found = records(first.stdout)
    assert [(each["algorithm"], each["seed"], each["status"]) for each in found] == [
        ("fedavg", 0, "done"),
        ("fedavg", 1, "done"),
    ]
    for each in found:
        assert set(PROMISED) <= set(each) == set(FIELDS)
        assert (each["data"], each["split"], each["clients"], each["rounds"]) == ("fcube", "fcube", 4, 2)
        assert all(each[name] is not None for name in PROMISED)
        assert all(0 <= each[name] <= 1 for name in PROMISED if name.endswith("accuracy"))
        assert each["bytes_per_client_round"] == 2 * 4 * 8  # a linear model of 3 x 2 weights and 2 biases, both ways
    second = call(*asked)
    assert second.stdout == first.stdout, "what the store holds is not trained again"
    assert second.stderr == ""


def test_a_grid_may_grow(store: Path) -> None:
    more = call("run", *TINY, *ALGORITHMS, "--algorithm", "fednova", "--store", store, "--json")
    assert [each["algorithm"] for each in records(more.stdout)] == ["fedavg", "scaffold", "fednova"]
    again = call("run", *TINY, *ALGORITHMS, "--store", store, "--json")
    assert numbers(records(again.stdout)) == numbers(records(more.stdout))[:2]


def test_run_draws(store: Path, tmp_path: Path) -> None:
    told = call("run", *TINY, *ALGORITHMS, "--store", store, "--figure", tmp_path / "curves.svg")
    assert told.exit_code == 0
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")


def test_settings_arrive(tmp_path: Path) -> None:
    settings = (
        "--data", "digits", "--split", "labels(3)", "--clients", 5, "--participation", 0.4, "--rounds", 2,
        "--epochs", 1, "--batch", 32, "--lr", 0.05, "--momentum", 0.5, "--weight-decay", 0.001, "--eval-every", 2,
        "--model", "linear", "--engine", "reference", "--device", "cpu", "--seeds", "4,", "--workers", 1,
    )  # fmt: skip
    [found] = records(call("run", *settings, "--json", "--store", tmp_path / "store").stdout)
    wanted = {
        "data": "digits", "split": "labels(3)", "clients": 5, "participation": 0.4, "rounds": 2, "epochs": 1,
        "batch": 32, "optim": "sgd(0.05, momentum=0.5, weight_decay=0.001)", "eval_every": 2, "model": "linear",
        "engine": "reference", "device": "cpu", "seed": 4, "augment": "none", "draws": "own",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


def test_published_settings_give_way_to_options(tmp_path: Path) -> None:
    asked = ("--data", "fcube", "--split", "fcube", "--as-published", "niid-bench", "--rounds", 1, "--epochs", 1)
    [found] = records(call("run", *asked, "--json", "--store", tmp_path / "store").stdout)
    assert (found["clients"], found["draws"], found["rounds"]) == (4, "published", 1)
    assert found["optim"] == "sgd(momentum=0.9, weight_decay=1e-05)"


# show


def test_show_lists_and_filters(store: Path) -> None:
    everything = records(call("show", "--store", store, "--json").stdout)
    assert {"fedavg", "scaffold"} <= {each["algorithm"] for each in everything}
    for flag, value, count in (("--algorithm", "scaff*", 1), ("--status", "done", len(everything)),
                               ("--status", "failed", 0), ("--data", "digits", 0)):  # fmt: skip
        assert len(records(call("show", "--store", store, "--json", flag, value).stdout)) == count, (flag, value)
    told = call("show", "--store", store)
    assert told.exit_code == 0
    assert all(each["run"] in told.stdout for each in everything)


def test_show_one_by_the_beginning_of_its_key(store: Path) -> None:
    [found] = records(call("show", "--store", store, "--json", "--algorithm", "scaffold").stdout)
    told = call("show", found["run"][:8], "--store", store)
    assert f"run {found['run']}: done" in told.stdout
    for part in ("algorithm", "scaffold", "worst_client_accuracy", "torch", "accuracy by round"):
        assert part in told.stdout
    assert records(call("show", found["run"][:8], "--store", store, "--json").stdout) == [found]


def test_show_exports_runs_and_rounds(store: Path, tmp_path: Path) -> None:
    told = call("show", "--store", store, "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(told.stdout)))
    assert tuple(rows[0]) == FIELDS
    assert {row["algorithm"] for row in rows} >= {"fedavg", "scaffold"}
    call("show", "--store", store, "--csv", tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_text() == told.stdout
    rounds = call("show", "--store", store, "--csv", "-", "--rounds", "--algorithm", "fedavg")
    course = list(csv.DictReader(io.StringIO(rounds.stdout)))
    assert [row["round"] for row in course] == ["1", "2"]
    [run] = {row["run"] for row in course}
    [whole] = [row for row in rows if row["run"] == run]
    assert course[-1]["accuracy"] == whole["accuracy"]


def test_show_draws_and_exports_at_once(store: Path, tmp_path: Path) -> None:
    told = call("show", "--store", store, "--figure", tmp_path / "a.png", "--csv", tmp_path / "a.csv")
    assert (told.exit_code, told.stdout) == (0, "")
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert (tmp_path / "a.csv").exists()


# split and data


def test_split_counts_for_people_and_for_scripts(tmp_path: Path) -> None:
    asked = ("split", "digits", "labels(2) + noise(0.1)", "--clients", 5)
    told = call(*asked, "--figure", tmp_path / "split.png")
    assert told.exit_code == 0
    assert "digits, labels(2) + noise(0.1), 5 clients" in told.stdout
    assert "C-score" in told.stdout
    assert (tmp_path / "split.png").stat().st_size > 1000
    found = json.loads(call(*asked, "--json").stdout)
    assert [len(row) for row in found["counts"]] == [10] * 5
    assert sum(found["sizes"]) == sum(map(sum, found["counts"])) <= 1442
    assert all(sum(count > 0 for count in row) == 2 for row in found["counts"])
    assert [each["shift"] for each in found["shifts"]] == ["noise(0.1)"]


def test_split_is_that_of_the_run_with_this_seed() -> None:
    def counts(*more: object) -> list[list[int]]:
        return json.loads(call("split", "digits", "dirichlet(0.5)", "--json", *more).stdout)["counts"]

    assert counts() == counts("--seed", 0) != counts("--seed", 1)
    published = ("--as-published", "niid-bench")
    assert counts(*published) == counts(*published, "--seed", 1) != counts()  # its trials share one partition


def test_data() -> None:
    listed = json.loads(call("data", "list", "--json").stdout)
    assert {"digits", "fcube", "mnist", "adult"} <= {row["name"] for row in listed}
    assert "handwritten digits" in call("data", "list").stdout
    told = call("data", "info", "digits")
    assert "1,442" in told.stdout
    assert json.loads(call("data", "info", "digits", "--json").stdout)["classes"] == "10"


def test_data_that_needs_no_files_is_fetched_by_doing_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONIID_DATA", str(tmp_path / "cache"))
    told = call("data", "fetch", "digits", "fcube")
    assert (told.exit_code, told.stdout) == (0, "digits: nothing to download\nfcube: nothing to download\n")
    assert not (tmp_path / "cache").exists()


# table


def test_a_dry_run_lists_cells_and_trains_nothing(tmp_path: Path) -> None:
    told = call("table", "niid-bench/3", "--data", "fcube", "--dry-run", "--json", "--store", tmp_path / "store")
    cells = records(told.stdout)
    assert [(cell["split"], cell["algorithm"]) for cell in cells] == [
        (split, algorithm) for split in ("fcube", "iid") for algorithm in ("fedavg", "fedprox", "scaffold", "fednova")
    ]
    assert all((cell["stored"], cell["wanted"]) == (0, 3) and cell["seconds"] > 0 for cell in cells)
    assert cells[0]["claimed"] == "99.8 ± 0.2"
    assert not Store(tmp_path / "store").runs()


@pytest.mark.slow
def test_a_cell_is_measured_beside_its_claim(tmp_path: Path) -> None:
    one = ("--data", "fcube", "--split", "fcube", "--algorithm", "fedavg", "--seeds", 1, "--store", tmp_path / "store")
    told = call("table", "niid-bench/3", *one, "--json")
    [cell] = records(told.stdout)
    assert (told.exit_code, cell["claimed"], cell["verdict"], cell["runs"]) == (0, "99.8 ± 0.2", "within", 1)
    shown = call("table", "niid-bench/3", *one)
    assert "1 within" in shown.stdout
    [planned] = records(call("table", "niid-bench/3", *one, "--dry-run", "--json").stdout)
    assert (planned["stored"], planned["seconds"]) == (1, 0)


# Which engine


def test_explain_says_why_and_trains_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    told = call("run", "--model", "mlp", "--engine", "auto", "--explain", "--seeds", 3, "--store", store)
    assert (told.exit_code, told.stderr) == (0, "") and not store.exists()
    assert told.stdout.startswith("mlp on digits, cpu: batched. ") and told.stdout.count("\n") == 1
    asked = call("run", "--model", "mlp", "--explain", "--store", store)
    assert "mlp on digits, cpu: threads. batched would suit it: " in asked.stdout
    (line,) = call("run", "--data", "fmnist", "--explain", "--json").stdout.splitlines()
    assert json.loads(line)["suited"] == json.loads(line)["engine"] == "threads"


def test_a_run_on_a_cluster_is_the_run_of_threads(store: Path, tmp_path: Path) -> None:
    told = call("run", "--engine", "ray", "--explain").stdout
    assert told.startswith(
        "two-nn on digits, cpu: ray, which is threads on the workers of a cluster. batched would suit"
    )
    spread = call("run", *TINY, *ALGORITHMS, "--engine", "ray", "--workers", 2, "--json", "--store", tmp_path)
    assert spread.exit_code == 0
    assert all("round" in line for line in spread.stderr.splitlines())  # progress, where it takes long
    known = call("run", *TINY, *ALGORITHMS, "--json", "--store", store)
    without_seconds = [[each[:3] for each in numbers(records(found.stdout))] for found in (spread, known)]
    assert without_seconds[0] == without_seconds[1] and len(without_seconds[0]) == 2


def test_the_engine_of_auto_is_the_runs_own(tmp_path: Path) -> None:
    command = ("run", "--model", "mlp", "--rounds", 1, "--epochs", 1, "--store", tmp_path, "--json", "--engine")
    first, again = (json.loads(call(*command, engine).stdout) for engine in ("auto", "batched"))
    assert first["run"] == again["run"] and first["engine"] == "batched"
