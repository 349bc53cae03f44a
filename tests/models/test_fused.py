"""The compiled convolution passes give torch's numbers, or stand aside."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from noniid.models import fused, plain_operations


def _both(x: Tensor, conv: nn.Conv2d, g: Tensor | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """[out, grad x, grad weight, grad bias] of the fused operation, and of torch's three."""
    found = []
    for operation in (fused.conv_relu_pool, lambda x, conv: F.max_pool2d(F.relu(conv(x)), 2)):
        own = x.detach().clone().requires_grad_(x.requires_grad)
        conv.zero_grad()
        out = operation(own, conv)
        g = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)) if g is None else g
        out.backward(g)
        assert conv.weight.grad is not None and conv.bias is not None and conv.bias.grad is not None
        grad_x = own.grad if own.grad is not None else torch.zeros(())
        found.append([out.detach(), grad_x, conv.weight.grad.clone(), conv.bias.grad.clone()])
    return found[0], found[1]


def _conv(channels: int, num_out: int, seed: int = 0, **other: int) -> nn.Conv2d:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Conv2d(channels, num_out, 5, **other)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(6, 15), st.integers(6, 15), st.booleans())
def test_equals_torch(n: int, channels: int, num_out: int, h: int, w: int, input_grad: bool) -> None:
    x = torch.randn(n, channels, h, w, generator=torch.Generator().manual_seed(h)).requires_grad_(input_grad)
    for ours, torchs in zip(*_both(x, _conv(channels, num_out)), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 1, 28, 28), (64, 3, 32, 32), (64, 6, 12, 12), (33, 6, 14, 14)])
def test_equals_torch_at_the_sizes_that_are_trained(shape: tuple[int, ...]) -> None:
    x = torch.rand(*shape, generator=torch.Generator().manual_seed(0)).requires_grad_(shape[1] > 3)
    for ours, torchs in zip(*_both(x, _conv(shape[1], 6)), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-4)


def test_of_equal_values_the_first_gets_the_gradient_as_in_torch() -> None:
    """Whole numbers add up exactly, so ties are ties in both, and sums do not depend on their order."""
    x = torch.ones(2, 1, 8, 8, requires_grad=True)
    conv = _conv(1, 2)
    with torch.no_grad():
        conv.weight.fill_(1.0)
        conv.bias.zero_()  # type: ignore[union-attr]
    g = torch.arange(16.0).view(2, 2, 2, 2) - 7
    for ours, torchs in zip(*_both(x, conv, g), strict=True):
        assert torch.equal(ours, torchs)


def test_what_is_not_positive_passes_nothing() -> None:
    x = torch.zeros(1, 2, 8, 8, requires_grad=True)
    conv = _conv(2, 3)
    with torch.no_grad():
        conv.weight.fill_(1.0)
        conv.bias.copy_(torch.tensor([-1.0, 0.0, 1.0]))  # type: ignore[union-attr]
    g = torch.arange(12.0).view(1, 3, 2, 2)
    for ours, torchs in zip(*_both(x, conv, g), strict=True):
        assert torch.equal(ours, torchs)
    assert torch.count_nonzero(_both(x, conv, g)[0][3]) == 1


@pytest.mark.parametrize(
    ("x", "conv"),
    [
        (torch.rand(2, 1, 8, 8), nn.Conv2d(1, 2, 3)),
        (torch.rand(2, 1, 8, 8), nn.Conv2d(1, 2, 5, padding=2)),
        (torch.rand(2, 1, 16, 16), nn.Conv2d(1, 2, 5, stride=2)),
        (torch.rand(2, 1, 8, 8), nn.Conv2d(1, 2, 5, bias=False)),
        (torch.rand(2, 2, 8, 8), nn.Conv2d(2, 2, 5, groups=2)),
        (torch.rand(2, 1, 8, 8).double(), nn.Conv2d(1, 2, 5).double()),
        (torch.rand(8, 8, 1, 2).permute(3, 2, 0, 1), nn.Conv2d(1, 2, 5)),
    ],
)
def test_stands_aside_for_other_shapes(x: Tensor, conv: nn.Conv2d) -> None:
    assert not fused._fits(x, conv)
    assert torch.equal(fused.conv_relu_pool(x, conv), F.max_pool2d(F.relu(conv(x)), 2))


def test_stands_aside_inside_transforms() -> None:
    conv = _conv(1, 2)
    x = torch.rand(3, 2, 1, 8, 8)
    mapped = torch.vmap(lambda one: fused.conv_relu_pool(one, conv))(x)
    torch.testing.assert_close(mapped, torch.stack([F.max_pool2d(F.relu(conv(one)), 2) for one in x]))


def test_stands_aside_without_numba_and_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    x, conv = torch.rand(2, 1, 12, 12), _conv(1, 2)
    expected = F.max_pool2d(F.relu(conv(x)), 2)
    with plain_operations():
        assert torch.equal(fused.conv_relu_pool(x, conv), expected)
    monkeypatch.setattr(fused, "kernels", lambda: None)
    assert torch.equal(fused.conv_relu_pool(x, conv), expected)


def test_what_is_not_a_number_is_passed_on_as_in_torch() -> None:
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 7, 7] = torch.nan  # reaches only the last place of the last window
    conv = _conv(1, 1)
    assert torch.equal(fused.conv_relu_pool(x, conv).isnan(), F.max_pool2d(F.relu(conv(x)), 2).isnan())
    assert fused.conv_relu_pool(x, conv).isnan().sum() == 1
