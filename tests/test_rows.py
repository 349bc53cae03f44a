"""A model as a row, and the little algebra on rows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from noniid.rows import Layout, column, put, squared_norm, take, weighted_mean

SIZES = st.integers(1, 6)
WEIGHTS = st.lists(st.floats(0.01, 100), min_size=1, max_size=6)


class Norm(nn.Module):
    """BatchNorm: buffers of floats and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(2)
        self.last = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Shared(nn.Module):
    """One matrix in two places, one frozen layer, a parameter and a buffer at the top."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.frozen = nn.Linear(4, 4)
        self.frozen.requires_grad_(False)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.full((4,), 0.5))
        self.register_buffer("seen", torch.tensor(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x.flatten(1)[:, :4]))
        return self.scale * self.second(self.frozen(hidden)) + self.get_buffer("shift")


MODELS = {
    "norm": Norm,
    "shared": Shared,
    "dense": lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MODELS[request.param]()


def _inputs(model: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(5, *((1, 6, 6) if isinstance(model, Norm) else (4,)), generator=generator)


def _values(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


# Layout


def test_slots_tile_the_row_trainable_first(model: nn.Module) -> None:
    layout = Layout.of(model)
    assert [slot.start for slot in layout.slots] == [0, *(slot.stop for slot in layout.slots[:-1])]
    learned = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}
    assert [slot.name for slot in layout.slots[: len(learned)]] == list(learned)
    assert layout.num_trainable == sum(learned.values())
    assert {slot.name for slot in layout.slots} == set(_values(model))
    assert layout.size == sum(value.numel() for value in _values(model).values())


def test_a_shared_parameter_has_one_slot_and_frozen_ones_follow() -> None:
    layout = Layout.of(Shared())
    assert [slot.name for slot in layout.slots] == [
        "scale", "first.weight", "first.bias", "second.bias", "frozen.weight", "frozen.bias", "shift", "seen",
    ]  # fmt: skip
    assert layout.num_trainable == 1 + 16 + 4 + 4


def test_a_module_without_tensors_has_an_empty_layout() -> None:
    layout = Layout.of(nn.ReLU())
    assert (layout.size, layout.num_trainable, layout.pack(nn.ReLU()).shape) == (0, 0, (0,))


def test_pack_and_unpack_undo_each_other(model: nn.Module) -> None:
    layout = Layout.of(model)
    row = layout.pack(model)
    other = torch.arange(layout.size, dtype=torch.float32)
    layout.unpack(other, model)
    assert torch.equal(layout.pack(model), other)
    layout.unpack(row, model)
    assert torch.equal(layout.pack(model), row)


def test_pack_copies(model: nn.Module) -> None:
    layout = Layout.of(model)
    before = {name: value.clone() for name, value in _values(model).items()}
    layout.pack(model).fill_(7.0)
    assert all(torch.equal(value, before[name]) for name, value in _values(model).items())


def test_named_gives_views_in_the_models_shapes(model: nn.Module) -> None:
    layout = Layout.of(model)
    row = torch.zeros(layout.size)
    for name, view in layout.named(row):
        assert view.shape == _values(model)[name].shape
        view.fill_(1.0)
    assert bool((row == 1).all())


def test_counters_survive_up_to_two_to_the_24() -> None:
    net = Norm()
    net.norm.num_batches_tracked.fill_(2**24)  # type: ignore[union-attr]
    layout, other = Layout.of(net), Norm()
    layout.unpack(layout.pack(net), other)
    assert int(other.norm.num_batches_tracked) == 2**24  # type: ignore[arg-type]
    assert other.norm.num_batches_tracked.dtype == torch.int64  # type: ignore[union-attr]


def test_a_packed_row_asks_for_no_gradient(model: nn.Module) -> None:
    assert not Layout.of(model).pack(model).requires_grad


def _names(layout: Layout, places: Tensor) -> list[str]:
    """The names of the slots that these places fill, each in full."""
    assert places.dtype == torch.int64
    names = [slot.name for slot in layout.slots for _ in range(slot.start, slot.stop)]
    found = [names[int(place)] for place in places]
    assert len(set(places.tolist())) == len(found) == sum(name in found for name in names)
    return list(dict.fromkeys(found))


def test_batchnorms_places_are_none_its_statistics_or_all() -> None:
    statistics = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    net = Norm()
    layout = Layout.of(net)
    assert _names(layout, layout.norm_places(net, "average")) == []
    assert _names(layout, layout.norm_places(net, "keep-statistics-local")) == statistics
    assert _names(layout, layout.norm_places(net, "local")) == ["norm.weight", "norm.bias", *statistics]


@pytest.mark.parametrize("kept", ["average", "keep-statistics-local", "local"])
def test_without_batchnorm_it_has_no_places(kept: Any) -> None:
    net = Shared()
    assert _names(Layout.of(net), Layout.of(net).norm_places(net, kept)) == []


def test_a_batchnorm_that_is_the_whole_model_has_all_places() -> None:
    net = nn.BatchNorm1d(2)
    assert Layout.of(net).norm_places(net, "local").tolist() == list(range(2 + 2 + 2 + 2 + 1))


# bind


def _bound(model: nn.Module) -> tuple[nn.Module, Layout, Tensor, Tensor]:
    layout, own = Layout.of(model), copy.deepcopy(model)
    row, grad = layout.pack(model), torch.zeros(layout.size)
    layout.bind(own, row, grad)
    return own, layout, row, grad


def test_a_bound_module_computes_as_before(model: nn.Module) -> None:
    own, layout, row, _ = _bound(model)
    x = _inputs(model)
    assert torch.equal(own(x), model(x))
    assert torch.equal(layout.pack(own), row)  # the forward pass of BatchNorm has moved its statistics in both
    assert torch.equal(row, layout.pack(model))


def test_a_flat_update_moves_the_module(model: nn.Module) -> None:
    own, layout, row, _ = _bound(model)
    target = torch.randn(layout.size, generator=torch.Generator().manual_seed(3)).abs()
    row.copy_(target)
    layout.unpack(target, model)
    assert torch.equal(own.eval()(_inputs(model)), model.eval()(_inputs(model)))


def test_gradients_land_in_the_flat_buffer(model: nn.Module) -> None:
    own, layout, _, grad = _bound(model)
    own(_inputs(model)).square().sum().backward()
    model(_inputs(model)).square().sum().backward()
    for name, view in layout.named(grad):
        value = _values(model)[name]
        expected = value.grad if value.grad is not None else torch.zeros_like(view)
        assert torch.equal(view, expected), name
    assert bool(grad[: layout.num_trainable].any())


def test_flat_steps_equal_torchs_optimiser(model: nn.Module) -> None:
    own, layout, row, grad = _bound(model)
    steps = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(4):
        grad.zero_()
        own(_inputs(model)).square().mean().backward()
        with torch.no_grad():
            row[: layout.num_trainable].add_(grad[: layout.num_trainable], alpha=-0.1)
        steps.zero_grad()
        model(_inputs(model)).square().mean().backward()
        steps.step()
    torch.testing.assert_close(row, layout.pack(model))


def test_a_buffer_in_two_places_stays_one() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    net[1].running_mean = net[0].running_mean
    own, _, row, _ = _bound(net)
    row.fill_(5.0)
    assert own[0].running_mean is own[1].running_mean  # type: ignore[index]


# Means and norms


@given(WEIGHTS, st.randoms(use_true_random=False))
def test_the_mean_does_not_depend_on_the_order(weights: list[float], random) -> None:
    rows = torch.randn(len(weights), 7, generator=torch.Generator().manual_seed(0))
    order = list(range(len(weights)))
    random.shuffle(order)
    w = torch.tensor(weights)
    torch.testing.assert_close(weighted_mean(rows, w), weighted_mean(rows[order], w[order]), atol=1e-5, rtol=1e-4)


@given(WEIGHTS, st.floats(1e-3, 1e3))
def test_the_mean_does_not_depend_on_the_weights_scale(weights: list[float], factor: float) -> None:
    rows = torch.randn(len(weights), 7, generator=torch.Generator().manual_seed(0))
    w = torch.tensor(weights)
    torch.testing.assert_close(weighted_mean(rows, w), weighted_mean(rows, w * factor), atol=1e-5, rtol=1e-4)


@given(WEIGHTS)
def test_the_mean_is_linear_and_leaves_equal_rows_alone(weights: list[float]) -> None:
    rows = torch.randn(len(weights), 7, generator=torch.Generator().manual_seed(0))
    w = torch.tensor(weights)
    mean = weighted_mean(rows, w)
    torch.testing.assert_close(weighted_mean(2 * rows + 1, w), 2 * mean + 1, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weighted_mean(rows[:1].expand(len(weights), -1), w), rows[0])
    assert bool((mean <= rows.amax(0) + 1e-5).all() and (mean >= rows.amin(0) - 1e-5).all())


def test_the_mean_takes_whole_numbers_as_weights() -> None:
    rows = torch.tensor([[0.0, 2.0], [4.0, 6.0]])
    assert weighted_mean(rows, torch.tensor([1, 3])).tolist() == [3.0, 5.0]


def test_squared_norm_and_column_work_along_the_last_axis() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    assert squared_norm(rows).tolist() == [25.0, 1.0]
    assert float(squared_norm(rows[0])) == 25.0
    assert (rows / column(torch.tensor([1, 2]), rows)).tolist() == [[3.0, 4.0], [0.0, 0.5]]


# Memory


@given(st.integers(1, 8), SIZES, st.data())
def test_what_is_put_is_taken_and_the_rest_stays(n: int, p: int, data: st.DataObject) -> None:
    ids = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1)))
    memory = torch.arange(n * p, dtype=torch.float32).view(n, p)
    before, rows = memory.clone(), -torch.ones(len(ids), p)
    after = put(memory, ids, rows)
    assert torch.equal(take(after, ids), rows)
    others = torch.tensor([i for i in range(n) if i not in ids.tolist()], dtype=torch.int64)
    assert torch.equal(take(after, others), take(before, others))


def test_take_copies() -> None:
    memory = torch.zeros(3, 2)
    take(memory, torch.tensor([1])).fill_(1.0)
    assert not bool(memory.any())


def test_real_memory_is_written_in_place() -> None:
    memory = torch.zeros(4, 3)
    assert put(memory, torch.tensor([2]), torch.ones(1, 3)) is memory


@pytest.mark.parametrize("shape", [(3,), (), (2, 2)])
def test_an_expanded_memory_becomes_real_and_leaves_its_source_alone(shape: tuple[int, ...]) -> None:
    source = torch.zeros(shape)
    memory = source.expand(4, *shape)
    after = put(memory, torch.tensor([2]), torch.ones(1, *shape))
    assert not bool(source.any())
    assert not bool(memory.any())
    assert after.flatten(1).any(1).tolist() == [False, False, True, False] if shape else after.tolist() == [0, 0, 1, 0]
    assert put(after, torch.tensor([0]), torch.ones(1, *shape)) is after


@pytest.mark.parametrize("clients", [2, 3])
def test_few_clients_memory_becomes_real_too(clients: int) -> None:
    source = torch.zeros(5)
    after = put(source.expand(clients, -1), torch.tensor([1]), torch.ones(1, 5))
    assert not bool(source.any()) and after.sum(1).tolist() == [0.0, 5.0, 0.0][:clients]


def test_memory_without_columns_can_be_put() -> None:
    assert put(torch.zeros(0).expand(4, 0), torch.tensor([1]), torch.zeros(1, 0)).shape == (4, 0)
