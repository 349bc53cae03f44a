"""`noniid profile`: what kind of skew real and made clients have, told with its evidence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from noniid.experiments.prepare import place_whole
from noniid.screens.skew import client_names
from noniid.split import parse
from tests.cli import call


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    """Three wards of 60 rows: one measures the pulse ten beats higher, another has mostly the ill."""
    rng = np.random.default_rng(0)
    rows = []
    for ward, (offset, share) in {"a": (0, 0.2), "b": (25, 0.2), "c": (0, 0.8)}.items():
        for _ in range(60):
            ill = rng.random() < share
            rows.append(f"{70 + 10 * ill + offset + 5 * rng.normal():.1f},{rng.normal():.2f},{int(ill)},{ward}")
    path = tmp_path / "wards.csv"
    path.write_text("\n".join(["pulse,luck,ill,ward", *rows]) + "\n")
    return path


def test_silos_are_told_with_evidence(wards: Path) -> None:
    told = call("profile", wards, "--label", "ill", "--client", "ward")
    assert told.exit_code == 0, told.output
    text = " ".join(told.stdout.split())
    assert "wards.csv, by(ward): 3 clients, 180 samples, 2 classes" in text
    assert "verdict: mixed: label and feature skew" in text
    assert re.search(r"label skew yes total variation 0\.\d\d, by chance 0\.\d\d \(p = 0\.001\)", text)
    assert re.search(
        r"feature skew yes a model tells whose a sample is for \d\d %, by chance \d\d % \(p = 0.005\)", text
    )
    assert "quantity skew no Gini of sizes 0.00" in text
    for name in "abc":
        assert re.search(rf"^ {name} +60 +2 +0\.\d\d", told.stdout, re.MULTILINE)


def test_json_holds_the_numbers_of_each_client(wards: Path) -> None:
    asked = ("profile", wards, "--label", "ill", "--client", "ward", "--json")
    found = json.loads(call(*asked).stdout)
    assert (found["verdict"], found["kinds"]) == ("mixed", ["label", "feature"])
    assert found["label"]["p"] <= 0.01 < found["quantity"]["p"]
    assert [each["client"] for each in found["clients"]] == ["a", "b", "c"]
    assert max(found["clients"], key=lambda each: each["told"])["client"] == "b"
    assert max(found["clients"], key=lambda each: each["total_variation"])["client"] == "c"
    assert found["summary"]["num_samples"] == 180  # nothing is held out
    assert found == json.loads(call(*asked).stdout)


@pytest.mark.parametrize(
    ("split", "verdict"), [("iid", "none"), ("dirichlet(0.3)", "label"), ("quantity(0.5)", "quantity")]
)
def test_splits_of_known_data(split: str, verdict: str) -> None:
    found = json.loads(call("profile", "digits", "--split", split, "--json").stdout)
    assert found["verdict"] == verdict
    assert len(found["clients"]) == 10


def test_fcubes_blocks_differ_in_features_alone() -> None:
    found = json.loads(call("profile", "fcube", "--split", "fcube", "--clients", 4, "--json").stdout)
    assert found["verdict"] == "feature"
    assert found["feature"]["telling"]["value"] > 0.9


def test_clients_are_called_as_in_the_file(wards: Path) -> None:
    whole = place_whole(f"file({wards}, label=ill)", parse("by(ward)"), None, 0)
    assert client_names(whole) == ["a", "b", "c"]
    assert client_names(place_whole("fcube", parse("iid"), 2, 0)) == ["0", "1"]


def test_split_tells_features_where_asked() -> None:
    asked = ("split", "digits", "noise(0.5)")
    plain, more = call(*asked).stdout, call(*asked, "--features").stdout
    assert "label skew" in plain and "feature skew" not in plain
    assert "feature skew   yes" in more
    assert "other distances" in plain
    found = json.loads(call(*asked, "--features", "--json").stdout)
    assert found["profile"]["verdict"] == "feature"
    assert [len(values) for values in found["by_client"].values()] == [10] * 6
