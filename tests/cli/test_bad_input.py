"""Bad input ends in one sentence on stderr that says what to change; nothing but that, and never a traceback."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pooch
import pytest
import requests
import torch
from click.testing import Result

from noniid.experiments.request import request
from noniid.results.store import STORE_VERSION, Store
from tests.cli import TINY, call


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with an empty cache, a file where a folder is wanted, and no network."""

    def refuse(*_: object, **__: object) -> str:
        raise requests.exceptions.ConnectionError("refused")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    monkeypatch.setenv("NONIID_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("not a folder")
    return tmp_path


def sentence(told: Result) -> str:
    """The one sentence; click's own stands below a reminder of the usage."""
    assert told.exception is None or isinstance(told.exception, SystemExit), repr(told.exception)
    assert told.exit_code in (1, 2)
    assert told.stdout == ""
    lines = told.stderr.splitlines()
    if lines[0].startswith("Usage: noniid"):
        assert [line for line in lines[1:] if line][:-1] == [f"Try '{lines[0].split(' [')[0][7:]} --help' for help."]
        assert lines[-1].startswith("Error: ")
        return lines[-1]
    [only] = lines
    assert only.startswith("noniid: ")
    assert only.endswith((".", "?"))
    return only


# Values of flags of `run`: what is given, and a part of what is said.
RUN = [
    ("--data mnits", "did you mean 'mnist'?"),
    ("--data nothing-like-it", "Known: adult, cifar10, covtype, digits, fcube,"),
    ("--label y", "fcube has its own labels and division"),
    ("--data table.csv", "there is no file table.csv"),
    ("--data file --label y", "give a name that ends in .csv"),
    ("--data file(table.csv,label=y)", "there is no file table.csv"),
    ("--data memory(x,checksum=1)", "no data called 'x' in this process"),
    ("--test client", "is not one of 'rows', 'clients'"),
    ("--split by(writer)", "these data have no column 'writer', nor any other"),
    ("--split dirichlt(0.5)", "did you mean 'dirichlet'?"),
    ("--split dirichlet(0.5)+noize(1)", "did you mean 'noise'?"),
    ("--split dirichlet(0.5)+iid", "both say who holds what"),
    ("--split dirichlet(0.5", "write it as name or name(value, key=value)"),
    ("--split labels", "write labels(k)"),
    ("--split labels(two)", "k is a whole number"),
    ("--split dirichlet(0)", "beta is a number above 0, not 0"),
    ("--split dirichlet(-1)", "beta is a number above 0, not -1"),
    ("--split noise(-0.1)", "sigma is a number from 0 up"),
    ("--split labels(0)", "at least one label"),
    ("--split labels(3)", "more labels than the 2 there are: lower k"),
    ("--split dirichlet(0.001) --clients 1000", "lower min_size or use fewer clients"),
    ("--split dirichlet(0.001,min_size=1) --clients 1000", "raise beta, lower min_size or use fewer clients"),
    ("--clients 4001", "use fewer clients"),
    ("--clients 0", "clients is 0: give 1 or more"),
    ("--algorithm fedprx", "did you mean 'fedprox'?"),
    ("--algorithm fedprox(muu=1)", "unknown parameter of fedprox 'muu': did you mean 'mu'?"),
    ("--algorithm fedprox(much)", "mu is a number, not 'much'"),
    ("--algorithm fedprox(1,2)", "at most 1 values"),
    ("--algorithm fedprox(-1)", "give 0 (FedAvg) or more"),
    ("--algorithm scaffold(option=iii)", "did you mean 'ii'?"),
    ("--algorithm no.such.module:Thing", "cannot import"),
    ("--algorithm os:getcwd", "must be a frozen dataclass"),
    ("--model simple-cn", "did you mean 'simple-cnn'?"),
    ("--model simple-cnn", "use mlp or two-nn"),
    ("--model no.such.module:thing", "cannot import model"),
    ("--engine thread", "did you mean 'threads'?"),
    ("--engine autto", "did you mean 'auto'?"),
    ("--as-published niid-benc", "is not one of 'niid-bench', 'niid-bench-v1'"),
    ("--data digits --as-published niid-bench", "did not publish runs on digits"),
    ("--participation 0", "above 0, up to 1"),
    ("--participation 1.5", "above 0, up to 1"),
    ("--precision half", "is not one of 'float32', 'tf32', 'bf16'"),
    ("--precision tf32", "tf32 is how NVIDIA's GPUs multiply: use float32 or bf16"),
    ("--rounds 0", "rounds is 0: give 1 or more"),
    ("--rounds many", "not a valid integer"),
    ("--epochs 0", "epochs is 0: give 1 or more"),
    ("--batch 0", "batch is 0: give 1 or more"),
    ("--eval-every 0", "give 1 or more"),
    ("--lr -0.1", "learning rate of 0 or more"),
    ("--lr nan", "learning rate of 0 or more"),
    ("--momentum 1", "not including, 1"),
    ("--weight-decay -1", "give 0 or more"),
    ("--augment flip", "is not one of 'none', 'crop-flip'"),
    ("--seeds 0", "0 seeds would train nothing"),
    ("--seeds x", "a count, as 3, or a list"),
    ("--seeds -1", "whole numbers from 0"),
    ("--seeds ,", "at least one"),
    ("--device nonsense", "use cpu or cuda"),
    ("--workers 0", "workers is 0: give 1 or more"),
    ("--store file", "Give another place by --store"),
    ("--store file/below", "Give another place by --store"),
    ("--figure curves.doc", "ends in .png, .svg, .pdf"),
    ("--figure file/curves.png", "cannot write file/curves.png"),
    ("--figure nowhere/curves.png", "cannot write nowhere/curves.png"),
    ("--no-such-flag", "No such option"),
    ("surplus", "unexpected extra argument"),
]


@pytest.mark.parametrize(("given", "part"), RUN, ids=[given for given, _ in RUN])
def test_run(given: str, part: str) -> None:
    assert part in sentence(call("run", "--data", "fcube", "--rounds", 1, "--epochs", 1, *given.split()))


OTHERS = [
    ("split mnits iid", "did you mean 'mnist'?"),
    ("split fcube iidd", "did you mean 'iid'?"),
    ("split fcube iid --clients 0", "at least one client"),
    ("split fcube iid --clients 5000", "use fewer clients"),
    ("split fcube iid --seed -1", "whole numbers from 0"),
    ("split fcube iid --export x.doc", "a split is saved as .json, .npz, .parquet: not as 'x.doc'"),
    ("split fcube iid --export nowhere/x.json", "there is no folder nowhere"),
    ("split fcube gone.json", "there is no split file gone.json"),
    ("split fcube saved(gone.npz)", "there is no split file gone.npz"),
    ("split fcube iid --figure x.doc", "ends in .png, .svg, .pdf"),
    ("split fcube iid --figure file/x.png", "cannot write file/x.png"),
    ("split mnist iid", "cannot download train-images-idx3-ubyte.gz (no connection): get it from https://"),
    ("profile", "Missing argument"),
    ("profile mnits --split iid", "did you mean 'mnist'?"),
    ("profile fcube", "say who the clients of fcube are: --client COLUMN, or --split"),
    ("profile fcube --split iidd", "did you mean 'iid'?"),
    ("profile fcube --split iid --clients 1", "skew is between clients, and there is one"),
    ("profile table.csv --label y --client x", "there is no file table.csv"),
    ("recommend fcube", "say who the clients of fcube are"),
    ("recommend fcube --split fcube --algorithm fedprx", "did you mean 'fedprox'?"),
    ("recommend fcube --split fcube --rounds 0", "rounds is 0"),
    ("split table.csv", "there is no file table.csv"),
    ("data info mnits", "did you mean 'mnist'?"),
    ("data fetch mnits", "did you mean 'mnist'?"),
    ("data fetch", "Missing argument"),
    ("data fetch svhn", "put it into"),
    ("table niid-benc/3", "did you mean 'niid-bench'?"),
    ("table niid-bench", "Write niid-bench/2 or niid-bench/3"),
    ("table niid-bench/9", "Known: 2, 3, 4, 5"),
    ("table niid-bench/2", "no accuracies"),
    ("table niid-bench/3 --data mnits", "did you mean 'mnist'?"),
    ("table niid-bench/3 --split dirichlt*", "did you mean"),
    ("table niid-bench/3 --algorithm fedprx(1)", "did you mean 'fedprox'?"),
    ("table niid-bench/3 --data fcube --split dirichlet*", "there it has fcube, iid"),
    ("table niid-bench/3 --seeds 0", "0 seeds would train nothing"),
    ("table niid-bench/3 --version v3", "is not one of 'v1', 'v2'"),
    ("table niid-bench/3 --store file", "Give another place by --store"),
    ("show", "`noniid run` makes one"),
    ("show --store file", "`noniid run` makes one"),
    ("show --rounds", "--rounds goes with --csv"),
    ("show --status dome", "is not one of"),
    ("no-such-command", "No such command"),
]


@pytest.mark.parametrize(("given", "part"), OTHERS, ids=[given for given, _ in OTHERS])
def test_other_commands(given: str, part: str) -> None:
    assert part in sentence(call(*given.split()))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    assert "use --device cpu" in sentence(call("run", *TINY, "--device", "cuda"))


def test_data_whose_files_are_not_here_and_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "put it into" in sentence(call("run", "--data", "mnist", "--rounds", 1))
    monkeypatch.setenv("NONIID_DATA", "file/cache")
    assert "set NONIID_DATA to a folder that can be written" in sentence(call("run", "--data", "mnist", "--rounds", 1))


# A store with something in it


@pytest.fixture
def filled(here: Path) -> Path:
    """Two runs whose keys begin alike."""
    store, experiment = Store(here / "noniid-store"), request("fcube")[0].record()
    for key in ("abc1", "abd2"):
        store.begin(key, experiment, {})
        store.end(key, "done", {"rounds": 50, "accuracy": 0.5})
    store.close()
    return here


@pytest.mark.usefixtures("filled")
def test_keys_that_name_no_run_or_several() -> None:
    assert call("show", "abc").exit_code == 0
    assert "no runs in noniid-store begin with 'xyz'" in sentence(call("show", "xyz"))
    assert "2 runs in noniid-store begin with 'ab'" in sentence(call("show", "ab"))
    assert "2 runs in noniid-store begin with ''" in sentence(call("show", ""))


@pytest.mark.usefixtures("filled")
def test_exports_and_figures_that_cannot_be_written() -> None:
    assert "cannot write file/runs.csv" in sentence(call("show", "--csv", "file/runs.csv"))
    assert "ends in .png, .svg, .pdf" in sentence(call("show", "--figure", "runs.doc"))
    assert "cannot write file/runs.png" in sentence(call("show", "--figure", "file/runs.png"))
    assert "nothing to draw" in sentence(call("show", "--figure", "runs.png"))


def test_a_store_of_another_version_is_left_alone(here: Path) -> None:
    (here / "other").mkdir()
    with sqlite3.connect(here / "other" / "runs.sqlite") as other:
        other.execute(f"PRAGMA user_version={STORE_VERSION + 1}")
    other.close()
    for verb in (("run", *TINY), ("show",), ("table", "niid-bench/3", "--data", "fcube")):
        told = sentence(call(*verb, "--store", "other"))
        assert f"has format {STORE_VERSION + 1} and this noniid writes format {STORE_VERSION}" in told


def test_what_is_no_store_is_left_alone(here: Path) -> None:
    (here / "other").mkdir()
    (here / "other" / "runs.sqlite").write_bytes(b"something else entirely" * 100)
    assert "is not a noniid store" in sentence(call("show", "--store", "other"))


# Runs that diverge


def test_each_divergence_is_recorded_with_its_round() -> None:
    both = ("--data", "digits", "--lr", "1e9", "--rounds", 3, "--epochs", 1, "--algorithm", "fedavg",
            "--algorithm", "scaffold")  # fmt: skip
    told = call("run", *both)
    assert told.exit_code == 1
    assert told.stdout.count("1 diverged") == 2
    assert "of 2 runs: diverged in round" in told.stderr
    found = [json.loads(line) for line in call("show", "--json").stdout.splitlines()]
    assert [each["status"] for each in found] == ["diverged", "diverged"]
    assert all(each["reason"].startswith("diverged in round ") for each in found)
    again = call("run", *both)
    assert (again.exit_code, again.stdout) == (1, told.stdout), "a divergence is a result: it is not tried again"


def test_one_that_diverges_does_not_stop_the_others() -> None:
    told = call("run", *TINY, "--algorithm", "fedprox(1e9)", "--algorithm", "fedavg", "--json")
    bad, good = (json.loads(line) for line in told.stdout.splitlines())
    assert told.exit_code == 1
    assert (bad["status"], good["status"], good["rounds"]) == ("diverged", "done", 2)
    assert told.stderr.splitlines()[-1] == f"noniid: 1 of 2 runs: {bad['reason']}"


def test_one_that_fails_does_not_stop_the_others() -> None:
    told = call("run", *TINY, "--split", "labels(3)", "--seeds", 2)
    assert told.exit_code == 1
    assert "2 failed" in told.stdout
    assert told.stderr.count("\n") == 2, "once when it happens, once at the end, however many runs"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("--rounds 0", "rounds is 0"),
        ("--split dirichlet(0)", "beta"),
        ("--participation 0", "participation is 0"),
        ("--device nonsense", "unknown device"),
        ("--device meta", "unknown device"),
        ("--workers 0", "workers is 0"),
        ("--workers 0 --engine reference", "workers is 0"),
        ("--batch 100000000000000000000", "more than anyone"),
    ],
)
def test_what_needs_no_data_to_be_refused_is_not_stored(given: str, part: str, tmp_path: Path) -> None:
    result = call("run", "--data", "fcube", *given.split(), "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert part in sentence(result)
    assert not (tmp_path / "store").exists()


def test_augmenting_a_table_is_one_sentence(tmp_path: Path) -> None:
    result = call("run", "--data", "fcube", "--augment", "crop-flip", "--store", tmp_path / "store")
    assert "is for images" in sentence(result)
