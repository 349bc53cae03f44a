"""ReLU and pooling in one pass: torch's results, forward and backward, to the bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from noniid.models import pool
from noniid.models.pool import relu_pool

HAS_NUMBA = pool.kernels() is not None
INFINITY, NAN = float("inf"), float("nan")


def _plain(x: Tensor) -> Tensor:
    return F.max_pool2d(F.relu(x), 2)


def _both(x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(output, gradient of the input) of the plain operations and of the fused one, for one random seed."""
    answers = []
    for operation in (_plain, relu_pool):
        leaf = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        out = operation(leaf)
        generator = torch.Generator().manual_seed(9)
        out.backward(torch.randn(out.shape, generator=generator).to(out.dtype))
        assert leaf.grad is not None
        answers.append((out.detach(), leaf.grad))
    return answers[0], answers[1]


def _same_bits(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _assert_equal(x: Tensor) -> None:
    (out, grad), (fused_out, fused_grad) = _both(x)
    torch.testing.assert_close(fused_out, out, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(fused_grad, grad, rtol=0, atol=0, equal_nan=True)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 11), st.integers(2, 11), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_any_shape(b: int, c: int, h: int, w: int, seed: int) -> None:
    x = torch.randn(b, c, h, w, generator=torch.Generator().manual_seed(seed))
    (out, grad), (fused_out, fused_grad) = _both(x)
    assert _same_bits(fused_out, out)
    assert _same_bits(fused_grad, grad)


@given(st.lists(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0, INFINITY, -INFINITY]), min_size=36, max_size=36))
@settings(max_examples=80, deadline=None)
def test_ties_zeros_and_infinities(values: list[float]) -> None:
    _assert_equal(torch.tensor(values).view(1, 1, 6, 6))


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, NAN]), min_size=16, max_size=16))
@settings(max_examples=80, deadline=None)
def test_nan_passes_as_through_torch(values: list[float]) -> None:
    """A diverged model must not look healthy behind a pooling layer."""
    _assert_equal(torch.tensor(values).view(1, 1, 4, 4))


def test_nothing_positive_gives_zero_and_no_gradient() -> None:
    x = -torch.rand(2, 3, 4, 4)
    (_, _), (out, grad) = _both(x)
    assert not bool(out.any()) and not bool(grad.any())


def test_of_equals_the_first_gets_the_gradient() -> None:
    x = torch.ones(1, 1, 2, 2, requires_grad=True)
    relu_pool(x).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (2, 3, 5, 4), (2, 3, 24, 24), (1, 2, 2, 7), (0, 3, 6, 6)])
def test_odd_sizes_drop_the_last_row_and_column(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    _assert_equal(x)
    assert relu_pool(x).shape == (*shape[:2], shape[2] // 2, shape[3] // 2)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(2, 3),
        lambda x: x[:, ::2],
        lambda x: x[..., 1:],
        lambda x: x[1:],
    ],
    ids=["channels-last", "transposed", "every other channel", "without a column", "without a sample"],
)
def test_any_strides(view) -> None:
    x = view(torch.randn(4, 4, 8, 8, generator=torch.Generator().manual_seed(0)))
    _assert_equal(x)


def test_any_strides_of_the_gradient() -> None:
    grads = []
    for operation in (_plain, relu_pool):
        x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        operation(x).transpose(2, 3).flatten().cumsum(0).sum().backward()
        assert x.grad is not None
        grads.append(x.grad)
    assert torch.equal(grads[0], grads[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_go_through_torch(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 7, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    _assert_equal(x)
    assert relu_pool(x).dtype == dtype


def test_the_input_is_left_as_it_is() -> None:
    x = torch.randn(2, 2, 5, 5)
    before = x.clone()
    _both(x)
    relu_pool(x)
    assert torch.equal(x, before)


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
def test_float32_takes_the_compiled_pass_and_without_numba_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    compiled = relu_pool(x)
    assert "ReluPool" in type(compiled.grad_fn).__name__
    monkeypatch.setattr(pool, "kernels", lambda: None)
    plain = relu_pool(x)
    assert "MaxPool2D" in type(plain.grad_fn).__name__
    assert torch.equal(compiled, plain)


def test_under_vmap_torchs_own_operations_run() -> None:
    x = torch.randn(3, 2, 1, 4, 4)
    assert torch.equal(torch.func.vmap(relu_pool)(x), torch.stack([_plain(part) for part in x]))


def test_gradcheck_in_double_precision() -> None:
    x = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(relu_pool, (x,))
