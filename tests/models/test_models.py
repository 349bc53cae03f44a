"""Models: their sizes, what they return, how they begin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from noniid import models
from noniid.errors import BadInput
from noniid.models import MODELS, Imported, fresh
from noniid.rows import Layout

# name, input shape, classes, parameters, features
SIZES = [
    ("simple-cnn", (1, 28, 28), 10, 44_426, 84),
    ("simple-cnn", (3, 32, 32), 10, 62_006, 84),
    ("simple-cnn", (1, 16, 16), 4, 15_116, 84),
    ("simple-cnn(fc1)", (1, 28, 28), 10, 44_426, 120),
    ("simple-cnn(conv)", (3, 32, 32), 10, 62_006, 400),
    ("mcmahan-cnn", (1, 28, 28), 10, 1_663_370, 512),
    ("mcmahan-cnn", (3, 28, 28), 10, 1_664_970, 512),
    ("mcmahan-cnn", (1, 8, 8), 10, 32 * 26 + 64 * 801 + 512 * 257 + 10 * 513, 512),
    ("lstm", (1, 8, 8), 10, 4 * 64 * (8 + 64 + 2) + 65 * 10, 64),
    ("lstm(16, layers=2)", (3, 6, 5), 4, 4 * 16 * (15 + 16 + 2) + 4 * 16 * (16 + 16 + 2) + 17 * 4, 16),
    ("lstm(8)", (20,), 2, 4 * 8 * (1 + 8 + 2) + 9 * 2, 8),
    ("mlp", (123,), 2, 4_650, 8),
    ("mlp", (47_236,), 2, 1_512_266, 8),
    ("mlp", (54,), 2, 2_442, 8),
    ("mlp(torch)", (54,), 2, 2_442, 8),
    ("linear", (3,), 2, 8, 3),
    ("two-nn", (1, 28, 28), 10, 199_210, 200),
]
SMALL = [case for case in SIZES if case[1] != (47_236,)]


@pytest.mark.parametrize(("text", "shape", "classes", "parameters", "features"), SIZES)
def test_parameters_and_outputs(
    text: str, shape: tuple[int, ...], classes: int, parameters: int, features: int
) -> None:
    net = fresh(models.parse(text), shape, classes, seed=0)
    assert sum(p.numel() for p in net.parameters()) == parameters
    assert Layout.of(net).num_trainable == Layout.of(net).size == parameters
    logits, seen = net(torch.rand(5, *shape))
    assert (logits.shape, seen.shape) == ((5, classes), (5, features))


def test_an_lstm_reads_an_image_row_by_row() -> None:
    """Its features depend on the order of the rows, and the first rows alone give the state on the way."""
    net = fresh(models.parse("lstm(8)"), (2, 5, 3), 4, seed=0)
    x = torch.rand(6, 2, 5, 3)
    assert not torch.allclose(net(x)[1], net(x.flip(2))[1])
    steps = torch.stack([torch.cat([x[:, 0, row], x[:, 1, row]], 1) for row in range(5)], 1)
    torch.testing.assert_close(net(x)[1], net.lstm(steps)[0][:, -1])  # type: ignore[operator]


def test_every_registered_model_is_measured_above() -> None:
    assert {text.partition("(")[0] for text, *_ in SIZES} == set(MODELS) - {"import"}


@pytest.mark.parametrize(("text", "shape", "classes", "parameters", "features"), SMALL)
def test_same_seed_same_weights_and_global_randomness_untouched(
    text: str, shape: tuple[int, ...], classes: int, parameters: int, features: int
) -> None:
    def drawn(seed: int) -> torch.Tensor:
        net = fresh(models.parse(text), shape, classes, seed)
        return Layout.of(net).pack(net)

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = drawn(7)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first, drawn(7))
    assert not torch.equal(first, drawn(8))


def test_features_are_what_the_last_layer_sees_unless_another_layers_are_asked_for() -> None:
    for text, shape, classes, *_ in SMALL:
        if text in ("simple-cnn(fc1)", "simple-cnn(conv)"):
            continue
        net = fresh(models.parse(text), shape, classes, 0)
        logits, seen = net(torch.rand(3, *shape))
        last = [part for part in net.modules() if isinstance(part, nn.Linear)][-1]
        torch.testing.assert_close(last(seen), logits, rtol=1e-5, atol=1e-6)


def test_the_mlp_begins_as_published() -> None:
    net = fresh(models.parse("mlp"), (2_000,), 2, 0)
    first = next(part for part in net.modules() if isinstance(part, nn.Linear))
    assert float(first.weight.detach().std()) == pytest.approx(0.1, rel=0.02)
    assert abs(float(first.weight.detach().mean())) < 0.002
    for layer in (part for part in net.modules() if isinstance(part, nn.Linear)):
        assert bool((layer.bias == 0.1).all())


def test_the_mlp_can_begin_as_torch_does() -> None:
    net = fresh(models.parse("mlp(torch)"), (400,), 2, 0)
    first = next(part for part in net.modules() if isinstance(part, nn.Linear))
    assert float(first.weight.detach().abs().max()) <= 400**-0.5
    assert float(first.bias.detach().abs().max()) <= 400**-0.5


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 15, 32), (3, 32, 15), (54,), (28, 28)])
def test_an_input_too_small_for_convolutions_is_refused_in_one_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput) as caught:
        fresh(models.parse("simple-cnn"), shape, 10, 0)
    size = "x".join(map(str, shape))
    assert str(caught.value) == (
        f"simple-cnn needs images of at least 16x16, and these inputs are {size}: use mlp or two-nn."
    )


def test_a_module_is_copied_and_drawn_anew() -> None:
    given = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    given[1].running_mean.fill_(5.0)  # type: ignore[union-attr, operator]
    row = Layout.of(given).pack(given)
    a, b, c = (fresh(given, (3,), 2, seed) for seed in (1, 1, 2))
    layout = Layout.of(given)
    assert torch.equal(layout.pack(a), layout.pack(b))
    assert not torch.equal(layout.pack(a), layout.pack(c))
    assert torch.equal(row, layout.pack(given))
    assert not bool(a[1].running_mean.any())  # type: ignore[index]


# Models of one's own

OWN = """
from torch import nn

class Net(nn.Module):
    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.last = nn.Linear(input_shape[0], num_classes)

    def forward(self, x):
        return self.last(x)

def plain():
    return nn.Linear(6, 3)

def wrong(input_shape, num_classes):
    return "a net"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_models.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    return "own_models"


@pytest.mark.parametrize("name", ["Net", "plain"])
def test_a_model_of_ones_own_is_found_by_its_path(own: str, name: str) -> None:
    model = models.parse(f"{own}:{name}")
    assert model == MODELS.parse(MODELS.write(model)) == Imported(f"{own}:{name}")
    a, b, c = (fresh(model, (6,), 3, seed) for seed in (1, 1, 2))
    layout = Layout.of(a)
    assert layout.size == 21
    assert a(torch.rand(4, 6)).shape == (4, 3)
    assert torch.equal(layout.pack(a), layout.pack(b))
    assert not torch.equal(layout.pack(a), layout.pack(c))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("wrong", "own_models:wrong gave a str: it must give a torch.nn.Module."),
        (
            "missing",
            "cannot import model 'own_models:missing': module 'own_models' has no attribute 'missing'.",
        ),
    ],
)
def test_what_gives_no_module_is_refused(own: str, path: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        fresh(models.parse(f"{own}:{path}"), (6,), 3, 0)
    assert str(caught.value) == sentence


def test_a_path_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(BadInput, match="^cannot import model 'nowhere:Net': No module named 'nowhere'"):
        fresh(models.parse("nowhere:Net"), (6,), 3, 0)


def test_a_model_class_of_ones_own_round_trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny_models.py").write_text(
        "from dataclasses import dataclass\nfrom torch import nn\nfrom noniid.models import Model\n\n"
        "@dataclass(frozen=True)\nclass Tiny(Model):\n    width: int = 3\n\n"
        "    def module(self, input_shape, num_classes):\n        return nn.Linear(self.width, num_classes)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for text in ("tiny_models:Tiny", "tiny_models:Tiny(5)"):
        model = models.parse(text)
        assert MODELS.write(model) == text
        assert models.parse(MODELS.write(model)) == model
        assert isinstance(fresh(model, (3,), 2, 0), torch.nn.Linear)
