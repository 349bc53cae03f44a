"""What `auto` stands for where nothing is measured: by model and device."""

from __future__ import annotations

import pytest
from torch import nn

from noniid import models
from noniid.engine import ENGINES, choose
from noniid.experiments.request import request

CHOICES = [
    ("mlp", (20,), "cpu", "batched"),
    ("two-nn", (1, 28, 28), "cpu", "batched"),
    ("linear", (20,), "cpu", "batched"),
    ("simple-cnn", (1, 28, 28), "cpu", "threads"),
    ("mcmahan-cnn", (1, 28, 28), "cpu", "threads"),
    ("simple-cnn", (1, 28, 28), "cuda", "batched"),
    ("mlp", (20,), "cuda:1", "batched"),
    ("lstm", (1, 28, 28), "cpu", "threads"),
    ("lstm", (1, 28, 28), "cuda", "threads"),
]


@pytest.mark.parametrize(("model", "shape", "device", "engine"), CHOICES)
def test_the_engine_that_suits(model: str, shape: tuple[int, ...], device: str, engine: str) -> None:
    choice = choose(models.fresh(models.parse(model), shape, 4, 0), device)
    assert choice.engine == engine in ENGINES and choice.why


def test_a_module_of_ones_own_is_stacked_on_a_gpu_only() -> None:
    own = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    assert [choose(own, device).engine for device in ("cpu", "cuda")] == ["threads", "batched"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_dropout_is_not_stacked(device: str) -> None:
    assert choose(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Linear(4, 2)), device).engine == "threads"


def test_auto_is_resolved_before_a_run_has_a_key() -> None:
    auto, named = (request("digits", model="mlp", engine=engine) for engine in ("auto", "batched"))
    assert auto == named and auto[0].key == named[0].key
    (image,) = request("fmnist", engine="auto")
    assert image.record()["engine"] == "threads"
    assert request("digits")[0].engine == "threads"
