"""Which engine is faster here is measured once, kept, and counts only where it is clear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from noniid import engine, models
from noniid.engine import ENGINES, calibrate, choose
from noniid.experiments.request import request
from noniid.results.store import Store
from tests.cli import call

MLP = models.fresh(models.parse("mlp"), (20,), 4, 0)
CNN = models.fresh(models.parse("simple-cnn"), (1, 28, 28), 4, 0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NONIID_CALIBRATE", "1")
    monkeypatch.setenv("NONIID_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrate, "SECONDS", 0.0)
    return tmp_path / "cache" / calibrate.FILE


def test_each_engine_is_tried_and_the_answer_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engine.measured(MLP, (20,), 4, "cpu", 8)
    assert first is not None and set(first) == {"threads", "batched"} and all(rate > 0 for rate in first.values())
    monkeypatch.setattr(calibrate, "_measured", lambda *_: pytest.fail("measured again"))
    assert engine.measured(MLP, (20,), 4, "cpu", 8) == first
    assert list(json.loads(cache.read_text()).values()) == [first]


def test_another_model_batch_or_version_is_measured_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_measured", lambda *_: {"threads": 1.0, "batched": 2.0})
    for module, batch in ((MLP, 8), (MLP, 16), (nn.Linear(20, 4), 8), (MLP, 8)):
        engine.measured(module, (20,), 4, "cpu", batch)
    assert len(json.loads(cache.read_text())) == 3
    monkeypatch.setattr("noniid.__version__", "9.9")
    engine.measured(MLP, (20,), 4, "cpu", 8)
    assert len(json.loads(cache.read_text())) == 4


def test_a_spoilt_or_unwritable_cache_does_no_harm(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir()
    cache.write_text("{")
    assert engine.measured(MLP, (20,), 4, "cpu", 8)
    cache.unlink()
    cache.mkdir()
    assert engine.measured(MLP, (20,), 4, "cpu", 8)
    monkeypatch.setenv("NONIID_CALIBRATE", "0")
    assert engine.measured(MLP, (20,), 4, "cpu", 8) is None


def test_a_model_that_cannot_take_a_step_leaves_it_to_the_rule() -> None:
    assert engine.measured(nn.Linear(3, 4), (20,), 4, "cpu", 8) is None


@pytest.mark.parametrize(
    ("module", "rates", "taken"),
    [
        (MLP, {"threads": 100.0, "batched": 300.0}, "batched"),
        (MLP, {"threads": 110.0, "batched": 100.0}, "batched"),  # within noise
        (MLP, {"threads": 200.0, "batched": 100.0}, "threads"),
        (CNN, {"threads": 100.0, "batched": 120.0}, "threads"),
        (CNN, {"threads": 100.0, "batched": 130.0}, "batched"),
    ],
)
def test_only_a_clear_measurement_overrules_the_rule(module: nn.Module, rates: dict[str, float], taken: str) -> None:
    choice = choose(module, "cpu", lambda: rates)
    assert choice.engine == taken and choice.rates == rates
    assert all(f"{name} {rate:,.0f} samples/s" in choice.why for name, rate in rates.items())


def test_what_has_no_choice_is_not_measured() -> None:
    dropping = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1))
    assert choose(dropping, "cpu", lambda: pytest.fail("measured")).engine == "threads"


def test_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    engine.measured(MLP, (20,), 4, "cpu", 8)
    assert torch.equal(before, torch.get_rng_state())


def test_explain_shows_the_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_measured", lambda *_: {"threads": 5e5, "batched": 1e5})
    told = call("run", "--model", "mlp", "--engine", "auto", "--explain").stdout
    assert told.startswith("mlp on digits, cpu: threads. measured here: ") and "threads 500,000 samples/s" in told
    (line,) = call("run", "--model", "mlp", "--engine", "auto", "--explain", "--json").stdout.splitlines()
    assert json.loads(line)["samples_per_second"] == {"threads": 5e5, "batched": 1e5}


def test_a_stored_run_is_found_again_whatever_is_measured_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"model": "mlp", "rounds": 1, "epochs": 1, "engine": "auto", "store": tmp_path / "store"}
    monkeypatch.setattr(calibrate, "_measured", lambda *_: {"threads": 1.0, "batched": 3.0})
    (first,) = request("digits", **asked)
    assert first.engine == "batched" and not (tmp_path / "store").exists()
    Store(tmp_path / "store").begin(first.key, first.record(), {})
    monkeypatch.setattr(calibrate, "_measured", lambda *_: {"threads": 3.0, "batched": 1.0})
    monkeypatch.setattr("noniid.__version__", "9.9")
    again, other = request("digits", seeds=2, **asked)
    assert again == first and other.engine == "threads" in ENGINES
