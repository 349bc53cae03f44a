"""Operations are counted as one would by hand, and every part of a step is there."""

from __future__ import annotations

import doctest
from contextlib import ExitStack

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import flops
import roofline
from noniid import models
from noniid.data import CATALOGUE
from noniid.experiments.prepare import prepare
from noniid.models.fused import plain_operations
from setting import experiment

SHAPES = [("simple-cnn", (1, 28, 28)), ("simple-cnn", (3, 32, 32)), ("mcmahan-cnn", (1, 28, 28)), ("mlp", (123,))]


def test_the_example_is_right():
    tried = doctest.testmod(flops)
    assert tried.attempted and not tried.failed


def test_lenet_by_hand():
    module = models.parse("simple-cnn").module((1, 28, 28), 10)
    met = flops.layers(module, torch.zeros(1, 1, 28, 28))
    by_hand = [2 * 25 * 6 * 24 * 24, 2 * 6 * 25 * 16 * 8 * 8, 2 * 256 * 120, 2 * 120 * 84, 2 * 84 * 10]
    assert [layer.forward for layer in met] == by_hand
    assert flops.per_sample(met) == 3 * sum(by_hand) - by_hand[0]


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_the_count_is_torchs_own(name: str, shape: tuple[int, ...]):
    module, x = models.parse(name).module(shape, 10), torch.zeros(1, *shape)
    with FlopCounterMode(display=False) as counter, plain_operations():
        module(x)[0].sum().backward()
    assert flops.per_sample(flops.layers(module, x)) == counter.get_total_flops()


def test_every_layer_is_timed_forward_and_backward():
    try:
        ready = prepare(experiment(quick=True))
    finally:
        CATALOGUE.pop("generated-tenth", None)
    lines = {line.what.removeprefix("cnn: "): line for line in roofline.parts("cnn", ready)}
    layers = [f"{layer} {way}" for layer in ("conv1", "conv2", "fc1", "fc2", "fc3") for way in ("forward", "backward")]
    assert list(lines) == ["batch", *layers, "loss and its gradient", "optimiser"]
    for line in lines.values():
        line.call()
        line.call()


def test_the_ceiling_counts_what_every_core_does():
    with ExitStack() as closing:
        lines = list(roofline.ceiling(2, closing))
        assert [(line.what, line.cores) for line in lines] == [
            (what, cores) for cores in (1, 2) for what in ("matrix product", "triad")
        ]
        one, _, two, _ = [line.flop for line in lines]
        assert one == 2 * roofline.GEMM**3 and two == 2 * one
        assert lines[3].bytes == 2 * lines[1].bytes


def test_shares_are_of_the_rate_on_as_many_cores_and_of_one_step():
    line = roofline.Line("round of x", 2, lambda: None, flop=4_000_000, steps=4)
    shown = roofline.row(line, 0.002, {1: 1e9, 2: 4e9}, 0.001)
    assert shown == ("round of x", 2, 1.0, 500.0, 2.0, None, 0.5, None)
    part = roofline.row(roofline.Line("x: part", 1, lambda: None, bytes=1_000), 0.0001, {1: 1e9, 2: 4e9}, 0.001)
    assert part == ("x: part", 1, None, pytest.approx(100.0), None, pytest.approx(0.01), None, pytest.approx(0.1))
