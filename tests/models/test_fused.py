"""The compiled networks give torch's numbers, or stand aside."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from noniid.models import Descent, Walk, fused, plain_operations
from noniid.models.cnn import LeNet, WideCNN
from noniid.models.dense import DenseNet
from noniid.models.fused import Network, Parts
from noniid.optim import SGD
from noniid.rows import Layout


class Net(Network):
    """Any convolutions, then any widths."""

    def __init__(self, convs: Sequence[nn.Conv2d], widths: Sequence[int], shown: int = -1):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.linears = nn.ModuleList([nn.Linear(k, o) for k, o in itertools.pairwise(widths)])
        self.shown = shown

    def parts(self) -> Parts:
        return Parts([*self.convs], [*self.linears], self.shown)


def _drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _fresh(make: Any, seed: int = 0) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _all(net: nn.Module, x: Tensor, k: float = 0.3) -> list[Tensor]:
    """Logits, features, and the gradients of a function of both."""
    net.zero_grad()
    logits, features = net(x)
    (logits.square().mean() + k * features.square().mean()).backward()
    return [logits.detach(), features.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)]


def _equal(net: nn.Module, x: Tensor, **close: float) -> None:
    ours = _all(net, x)
    with plain_operations():
        theirs = _all(net, x)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        scale = float(other.abs().max()) or 1.0
        torch.testing.assert_close(one / scale, other / scale, **(close or {"rtol": 1e-4, "atol": 2e-5}))


def _whole(net: Network) -> None:
    """Sums of whole numbers are exact in any order, so that of equal values the same one wins."""
    with torch.no_grad():
        for parameter in (each for conv in net.parts().convs for each in conv.parameters()):
            parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=_drawn(1)))


def _compiles(net: Network, x: Tensor) -> bool:
    return fused._plan(x, net.parts()) is not None


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 3), st.integers(1, 9), st.integers(1, 7), st.integers(16, 22),
    st.integers(16, 22), st.sampled_from([0, 1, 2]), st.integers(0, 2),
)  # fmt: skip
def test_equals_torch(n: int, c: int, o: int, p: int, h: int, w: int, border: int, shown: int) -> None:
    """Batches of any size, maps of any shape (odd ones too), with and without borders."""
    convs = [_fresh(lambda: nn.Conv2d(c, o, 5, padding=border)), _fresh(lambda: nn.Conv2d(o, p, 5, padding=border))]
    size = [(((extent + 2 * border - 4) // 2) + 2 * border - 4) // 2 for extent in (h, w)]
    net = _fresh(lambda: Net(convs, (p * size[0] * size[1], 13, 9, 3), shown))
    x = torch.randint(-1, 2, (n, c, h, w), generator=_drawn(h)).float()
    _whole(net)
    assert _compiles(net, x)
    _equal(net, x)


@pytest.mark.parametrize(
    "shape", [(64, 1, 28, 28), (64, 3, 32, 32), (33, 3, 32, 32), (10, 1, 28, 28), (250, 1, 28, 28)]
)
@pytest.mark.parametrize("shown", ["fc2", "fc1", "conv"])
def test_equals_torch_at_the_sizes_that_are_trained(shape: tuple[int, ...], shown: Any) -> None:
    net = _fresh(lambda: LeNet(*shape[1:], 10, shown))
    _whole(net)
    _equal(net, torch.randint(-1, 2, shape, generator=_drawn(0)).float())


def test_equals_torch_for_many_maps_with_borders() -> None:
    net = _fresh(lambda: WideCNN(1, 28, 28, 10))
    _whole(net)
    _equal(net, torch.randint(-1, 2, (3, 1, 28, 28), generator=_drawn(0)).float())


# Gradients of the plain loss, and steps


NETS = {
    "table": ((123,), lambda: DenseNet((123, 32, 16, 8, 2))),
    "one layer": ((7,), lambda: DenseNet((7, 3))),
    "wide": ((64,), lambda: DenseNet((64, 200, 200, 10))),
    "image": ((1, 16, 16), lambda: LeNet(1, 16, 16, 10)),
    "borders": ((1, 8, 9), lambda: WideCNN(1, 8, 9, 4)),
}


def _bound(make: Any) -> tuple[nn.Module, Tensor, Tensor, Layout]:
    net = _fresh(make)
    layout = Layout.of(net)
    row, grad = layout.pack(net), torch.zeros(layout.size)
    layout.bind(net, row, grad)
    return net, row, grad, layout


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("most", [1, 10, 16, 64, 100])
def test_descents_are_torchs_gradients(name: str, most: int) -> None:
    """Several models at once, and batches of other lengths after longer ones: nothing is left over from before."""
    shape, make = NETS[name]
    net, row, grad, layout = _bound(make)
    classes = net.parts().linears[-1].out_features  # type: ignore[operator]
    lengths = [most, 1, max(1, most // 2)]
    x = torch.rand(3, most, *shape, generator=_drawn(1))
    y = torch.randint(0, classes, (3, most), generator=_drawn(2))
    rows = row + 0.1 * torch.randn(3, layout.size, generator=_drawn(3))
    grads = torch.full_like(rows, torch.nan)
    descent = Descent.of(net, x[0], row)
    assert descent is not None
    losses = descent(x, y, lengths, rows, grads)
    for c, n in enumerate(lengths):
        row.copy_(rows[c])
        grad.zero_()
        with plain_operations():
            loss = F.cross_entropy(net(x[c, :n])[0], y[c, :n])
            loss.backward()
        torch.testing.assert_close(losses[c], loss.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(grads[c], grad, rtol=1e-4, atol=1e-5 * float(grad.abs().max()))


SGDS = [SGD(0.1), SGD(0.1, 0.9), SGD(0.05, 0.9, 0.01), SGD(0.05, 0.5, 0.1, nesterov=True), SGD(0.1, 0.0, 0.1)]


@pytest.mark.parametrize("optim", SGDS, ids=str)
@pytest.mark.parametrize("name", ["table", "image"])
def test_walks_are_torchs_steps(name: str, optim: SGD) -> None:
    """Over bytes that are divided, in an order with a short last batch, twice with one momentum."""
    shape, make = NETS[name]
    net, row, grad, _ = _bound(make)
    classes = net.parts().linears[-1].out_features  # type: ignore[operator]
    x = torch.randint(0, 256, (50, *shape), generator=_drawn(1), dtype=torch.uint8)
    y = torch.randint(0, classes, (50,), generator=_drawn(2))
    walked, state, own_state = row.clone(), optim.init(row), optim.init(row)
    assert optim.as_sgd is not None
    walk = Walk(x, 255.0, y, 8, optim.as_sgd)
    descent = Descent.of(net, walk.first, row)
    assert descent is not None
    for turn in range(2):
        order = torch.randperm(50, generator=_drawn(3 + turn))[:45]
        total = descent.walk(walk, order, walked, own_state.get("momentum", walked))
        expected = 0.0
        for index in order.split(8):
            grad.zero_()
            with plain_operations():
                loss = F.cross_entropy(net(x[index] / 255)[0], y[index])
                loss.backward()
            with torch.no_grad():
                optim.step_(row, grad, state)
            expected += float(loss.detach())
        assert total == pytest.approx(expected, rel=1e-4)
        torch.testing.assert_close(walked, row, rtol=1e-3, atol=1e-5)
    for entry, value in state.items():
        torch.testing.assert_close(own_state[entry], value, rtol=1e-3, atol=1e-4)


# Ties, and what is no number


def _one(c: int, o: int, h: int) -> Net:
    size = (h - 4) // 2
    return _fresh(lambda: Net([nn.Conv2d(c, o, 5)], (o * size * size, 2)))


def test_of_equal_values_the_first_gets_the_gradient_as_in_torch() -> None:
    """Whole numbers add up exactly, so ties are ties in both, and sums do not depend on their order."""
    net = _one(1, 2, 8)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1.0)
        net.linears[0].weight.copy_(torch.arange(16.0).view(2, 8) - 7)
    x = torch.ones(2, 1, 8, 8)
    x[0, 0, 3, 3], x[1, 0, 7, 0] = 2, 3
    ours = _all(net, x, 0)
    with plain_operations():
        theirs = _all(net, x, 0)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_what_is_not_positive_passes_nothing() -> None:
    net = _one(2, 3, 8)
    with torch.no_grad():
        net.convs[0].weight.fill_(1.0)
        net.convs[0].bias.copy_(torch.tensor([-1.0, 0.0, 1.0]))
    ours = _all(net, torch.zeros(1, 2, 8, 8))
    assert torch.count_nonzero(ours[3]) == 1  # the biases': only the third's map is above 0
    _equal(net, torch.zeros(1, 2, 8, 8))


def test_what_is_not_a_number_is_passed_on_as_in_torch() -> None:
    net = _one(1, 1, 8)
    x = torch.zeros(3, 1, 8, 8)
    x[1, 0, 7, 7] = torch.nan  # reaches only the last place of the last window, of one image
    with torch.no_grad():
        features = net(x)[1]
        with plain_operations():
            assert torch.equal(features.isnan(), net(x)[1].isnan())
    assert features.isnan().sum() == 1


def test_a_loss_that_is_not_a_number_is_reported() -> None:
    net, row, _, _ = _bound(lambda: DenseNet((4, 3, 2)))
    x, grads = torch.full((1, 5, 4), torch.inf), torch.zeros(1, len(row))
    descent = Descent.of(net, x[0], row)
    assert descent is not None
    assert not descent(x, torch.zeros(1, 5, dtype=torch.int64), [5], row[None], grads).isfinite().any()


def test_labels_and_samples_out_of_bounds_are_errors() -> None:
    """As in torch: memory beside what is meant must not be touched."""
    net, row, _, _ = _bound(lambda: DenseNet((4, 3, 2)))
    x, y = torch.rand(6, 4), torch.tensor([0, 1, 0, 1, 0, 2])
    descent = Descent.of(net, x, row)
    assert descent is not None
    for wrong in (y, -y):
        with pytest.raises(IndexError, match="a label is none of the model's classes"):
            descent(x[None], wrong[None], [6], row[None], torch.zeros(1, len(row)))
    walk = Walk(x, 1.0, y.clamp(max=1), 3, (0.1, 0.0, 0.0, False))
    for order in ([0, 6], [-1, 0]):
        with pytest.raises(IndexError, match="a sample is none of the data set's"):
            descent.walk(walk, torch.tensor(order), row, row)


def test_lanes_without_a_sample_take_no_part() -> None:
    """Even where what is computed in them, of biases alone, is no number."""
    net, row, _, _ = _bound(lambda: DenseNet((1, 3, 2)))
    with torch.no_grad():
        row.zero_()
        net.layers[0].bias.fill_(3e38)  # type: ignore[index,union-attr]
        net.layers[0].weight.fill_(-3e38)  # type: ignore[index,union-attr]
    x, y, grads = torch.ones(1, 5, 1), torch.zeros(1, 5, dtype=torch.int64), torch.full((1, len(row)), torch.nan)
    descent = Descent.of(net, x[0], row)
    assert descent is not None
    assert descent(x, y, [5], row[None], grads).isfinite().all() and grads.isfinite().all()


# Standing aside


def _hooked() -> Net:
    net = _one(1, 2, 8)
    net.linears[0].register_forward_hook(lambda module, given, out: 2 * out)
    return net


@pytest.mark.parametrize(
    ("x", "net"),
    [
        (torch.rand(2, 1, 8, 8), lambda: Net([nn.Conv2d(1, 2, 3)], (18, 2))),
        (torch.rand(2, 1, 8, 8), lambda: Net([nn.Conv2d(1, 2, 5, padding=3)], (50, 2))),
        (torch.rand(2, 1, 8, 8), lambda: Net([nn.Conv2d(1, 2, 5, padding=1, padding_mode="circular")], (18, 2))),
        (torch.rand(2, 1, 16, 16), lambda: Net([nn.Conv2d(1, 2, 5, stride=2)], (18, 2))),
        (torch.rand(2, 1, 8, 8), lambda: Net([nn.Conv2d(1, 2, 5, bias=False)], (8, 2))),
        (torch.rand(2, 2, 8, 8), lambda: Net([nn.Conv2d(2, 2, 5, groups=2)], (8, 2))),
        (torch.rand(2, 1, 8, 8).double(), lambda: _one(1, 2, 8).double()),
        (torch.rand(8, 8, 1, 2).permute(3, 2, 0, 1), lambda: _one(1, 2, 8)),
        (torch.rand(2, 1, 8, 8).requires_grad_(), lambda: _one(1, 2, 8)),
        (torch.rand(2, 1, 8, 8), _hooked),
        (torch.rand(0, 1, 8, 8), lambda: _one(1, 2, 8)),
    ],
)
def test_stands_aside_for_others(x: Tensor, net: Any) -> None:
    made = net()
    assert not _compiles(made, x)
    with plain_operations():
        expected = made(x)[0]
    assert torch.equal(made(x)[0], expected)


def test_stands_aside_inside_transforms_and_under_autocast() -> None:
    net = _one(1, 2, 8)
    x = torch.rand(3, 2, 1, 8, 8, generator=_drawn(0))
    mapped = torch.vmap(net)(x)[0]
    torch.testing.assert_close(mapped, torch.stack([net(one)[0] for one in x]))
    with torch.autocast("cpu", torch.bfloat16):
        assert net(x[0])[0].dtype == torch.bfloat16


def test_a_model_whose_memory_is_not_one_row_in_order_does_not_descend() -> None:
    net, row, _, _ = _bound(lambda: DenseNet((4, 3, 2)))
    x = torch.rand(2, 4)
    assert Descent.of(net, x, row) is not None
    assert Descent.of(net, x, row.clone()) is None
    assert Descent.of(nn.Linear(4, 2), x, row) is None
    shared = DenseNet((4, 4, 4, 2))
    shared.layers[1] = shared.layers[0]
    assert Descent.of(shared, x, row) is None
    net.layers[0] = nn.Sequential(nn.Linear(4, 3))
    assert Descent.of(net, x, row) is None


def test_stands_aside_without_numba_and_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    net, row, _, _ = _bound(lambda: LeNet(1, 16, 16, 3))
    x = torch.rand(2, 1, 16, 16)
    with plain_operations():
        expected = net(x)[0]
        assert Descent.of(net, x, row) is None
    monkeypatch.setattr(fused, "kernels", lambda: None)
    assert torch.equal(net(x)[0], expected)
    assert Descent.of(net, x, row) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "features", "lanes"),
    [("haswell", "+avx,+avx2,+fma", 8), ("nehalem", "+sse,+sse2,+sse4.2", 4)],
)
def test_other_processors(cpu: str, features: str, lanes: int, tmp_path: Any) -> None:
    """Shorter vectors and fewer registers, as far as this processor can play another."""
    if os.uname().machine != "x86_64":
        pytest.skip("these are x86 processors")
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    names = "equals_torch or descents or walks or first_gets or not_positive or not_a_number"
    command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", names, "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    shown = subprocess.run(
        [sys.executable, "-c", "from noniid.models.compiled.emit import LANES; print(LANES)"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(shown.stdout) == lanes
