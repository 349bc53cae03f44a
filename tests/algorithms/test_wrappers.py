"""Each wrapper by itself: what it does to movements, what it costs to send, what it refuses."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from noniid.algorithms import Wave
from noniid.algorithms.base import nobody_to_ask
from noniid.algorithms.wrappers import WRAPPERS, Clip, Gaussian, Power, Quantise, Sent, Stack, TopK, Uniform, Wrapper
from noniid.errors import BadInput
from noniid.optim import SGD

NONE_OWN = torch.empty(0, dtype=torch.int64)
ALL = [Clip(1.0), Gaussian(0.5), TopK(0.3), Quantise(4), Uniform(), Power(0.5)]
each_wrapper = pytest.mark.parametrize("wrapper", ALL, ids=WRAPPERS.write)
floats = st.floats(-1e6, 1e6, width=32)


def _draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _moves(clients: int = 3, values: int = 40, seed: int = 1) -> Tensor:
    return torch.randn(clients, values, generator=_draws(seed))


@st.composite
def _rows(draw: st.DrawFn) -> Tensor:
    clients, values = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    row = st.lists(floats, min_size=values, max_size=values)
    return torch.tensor(draw(st.lists(row, min_size=clients, max_size=clients)))


def _wave(moves: Tensor, statistics: int = 0) -> Wave:
    clients, values = moves.shape
    start = torch.randn(values + statistics, generator=_draws(7)).expand(clients, -1)
    end = start + torch.cat([moves, torch.ones(clients, statistics)], 1)
    numbers = torch.arange(1, clients + 1)
    return Wave(
        ids=numbers - 1,
        clock=numbers,
        sizes=numbers,
        weights=numbers / numbers.sum(),
        steps=numbers,
        staleness=torch.zeros_like(numbers),
        start=start,
        end=end,
        loss=torch.ones(clients),
        shared={},
        memory={},
        carried={},
        optim=SGD(0.1),
        rng=np.random.default_rng(0),
        ask=nobody_to_ask,  # type: ignore[arg-type]
        num_trainable=values,
        batch_size=8,
    )


def _applied(text: str, wave: Wave, own: Tensor = NONE_OWN, seed: int = 0) -> Wave:
    return Stack.parse(text).apply(wave, np.random.default_rng(seed), own)


# Every wrapper


def test_every_registered_wrapper_is_tried_here() -> None:
    assert [type(each) for each in ALL] == list(WRAPPERS.values())


@each_wrapper
@settings(max_examples=25, deadline=None)
@given(moves=_rows())
def test_shapes_stay_inputs_stay_and_equal_draws_give_equal_bits(wrapper: Wrapper, moves: Tensor) -> None:
    before = moves.clone()
    a, b = wrapper.apply(moves, _draws(5)), wrapper.apply(moves, _draws(5))
    assert torch.equal(moves, before) and torch.equal(a, b)
    assert a.shape == moves.shape and a.dtype == moves.dtype and bool(torch.isfinite(a).all())


@each_wrapper
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stays_none_and_harms_no_other_client(wrapper: Wrapper, bad: float) -> None:
    moves = _moves()
    fine = wrapper.apply(moves, _draws())
    moves[1, 7] = bad
    spoilt = wrapper.apply(moves, _draws())
    assert not torch.isfinite(spoilt[1]).all()
    assert torch.equal(spoilt[[0, 2]], fine[[0, 2]])


@each_wrapper
def test_an_update_of_zeros_stays_one_unless_noise_is_added(wrapper: Wrapper) -> None:
    moved = wrapper.apply(torch.zeros(2, 9), _draws())
    assert bool(moved.any()) == isinstance(wrapper, Gaussian)


@each_wrapper
def test_shares_are_positive_and_sum_to_one(wrapper: Wrapper) -> None:
    shares = wrapper.weights(torch.tensor([3, 10, 240]))
    assert bool((shares > 0).all()) and float(shares.sum()) == pytest.approx(1)


# clip


@settings(deadline=None)
@given(moves=_rows(), norm=st.floats(1e-3, 1e3))
def test_clip_bounds_lengths_and_keeps_directions(moves: Tensor, norm: float) -> None:
    clipped = Clip(norm).apply(moves, _draws())
    before, after = (rows.double().norm(dim=1) for rows in (moves, clipped))
    assert bool((after <= norm * (1 + 1e-5)).all())
    short = before <= norm
    assert torch.equal(clipped[short], moves[short])
    torch.testing.assert_close(after[~short], torch.full_like(after[~short], norm), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        clipped.double() * before[:, None], moves.double() * after[:, None], rtol=1e-4, atol=1e-3
    )


def test_clip_shortens_what_is_too_long_to_square() -> None:
    torch.testing.assert_close(Clip(5.0).apply(torch.tensor([[3e30, 4e30]]), _draws()), torch.tensor([[3.0, 4.0]]))


# gaussian


def test_the_mean_of_noisy_updates_has_the_noise_of_the_mechanism() -> None:
    clients, values, norm, multiplier = 8, 200_000, 3.0, 0.7
    noise = Gaussian(multiplier, norm).apply(torch.zeros(clients, values), _draws())
    of_the_sum = noise.sum(0).std()
    assert float(of_the_sum) == pytest.approx(multiplier * norm, rel=0.01)
    assert float(noise.mean(0).std()) == pytest.approx(multiplier * norm / clients, rel=0.01)
    assert abs(float(noise.mean())) < 0.01 and float(torch.corrcoef(noise[:2])[0, 1]) == pytest.approx(0, abs=0.01)


def test_a_lone_clients_noise_is_all_of_it() -> None:
    noise = Gaussian(2.0, 0.5).apply(torch.zeros(1, 200_000), _draws())
    assert float(noise.std()) == pytest.approx(1.0, rel=0.01)


# topk


@settings(deadline=None)
@given(moves=_rows(), share=st.floats(0.01, 1.0))
def test_topk_keeps_the_largest(moves: Tensor, share: float) -> None:
    values = moves.shape[1]
    kept = max(1, round(share * values))
    sparse = TopK(share).apply(moves, _draws())
    for before, after in zip(moves, sparse, strict=True):
        left = after != 0
        assert int(left.sum()) <= kept and torch.equal(after[left], before[left])
        largest = before.abs().sort(descending=True).values[:kept]
        assert torch.equal(after.abs().sort(descending=True).values[:kept], largest)


def test_topk_of_equal_values_keeps_no_more_than_its_share() -> None:
    sparse = TopK(0.25).apply(torch.full((2, 8), -3.0), _draws())
    assert (sparse != 0).sum(1).tolist() == [2, 2] and bool(((sparse == 0) | (sparse == -3)).all())


def test_topk_of_everything_changes_nothing() -> None:
    moves = _moves()
    assert torch.equal(TopK(1.0).apply(moves, _draws()), moves)


# quantise


@settings(deadline=None)
@given(moves=_rows(), bits=st.integers(2, 16))
def test_quantised_values_lie_on_the_grid_next_to_what_they_were(moves: Tensor, bits: int) -> None:
    most = 2 ** (bits - 1) - 1
    rounded = Quantise(bits).apply(moves, _draws(3)).double()
    step = (moves.abs().amax(1, keepdim=True) / most).double()
    small = torch.finfo(torch.float32).tiny
    levels = rounded / step.clamp(min=small)
    ordinary = (step > 1e-30).expand_as(levels)
    torch.testing.assert_close(levels[ordinary], levels[ordinary].round(), rtol=1e-6, atol=1e-6)
    assert bool((levels.abs() <= most * (1 + 1e-5)).all())
    assert bool(((rounded - moves.double()).abs() <= step.clamp(min=small) * (1 + 1e-3)).all())
    assert bool((rounded[moves == 0] == 0).all())


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantising_is_right_on_average(bits: int) -> None:
    row = torch.tensor([1.0, -0.73, 0.1, 1e-3, 0.0, -1.0, 0.5, 0.999])
    times = 40_000
    rounded = Quantise(bits).apply(row.expand(times, -1), _draws())
    step = 1 / (2 ** (bits - 1) - 1)
    error = (rounded.double().mean(0) - row.double()).abs()
    assert bool((error <= 5 * step / 2 / times**0.5 + 1e-7).all())


@pytest.mark.parametrize("bits", [2, 9, 16])
def test_what_is_on_the_grid_stays_there(bits: int) -> None:
    most = 2 ** (bits - 1) - 1
    row = torch.arange(-most, most + 1.0) * 0.25  # a step without rounding error
    assert torch.equal(Quantise(bits).apply(row.expand(20, -1), _draws()), row.expand(20, -1))


def test_a_grid_has_no_more_values_than_its_bits_tell_apart() -> None:
    for bits in (2, 3, 5):
        assert len(Quantise(bits).apply(torch.linspace(-1, 1, 5_000)[None], _draws()).unique()) == 2**bits - 1


# weights


def test_powers_lie_between_uniform_and_sizes() -> None:
    sizes = torch.tensor([1, 4, 16])
    even, usual = Uniform().weights(sizes), Wrapper().weights(sizes)
    torch.testing.assert_close(Power(0.0).weights(sizes), even)
    torch.testing.assert_close(Power(1.0).weights(sizes).float(), usual, rtol=0, atol=0)
    torch.testing.assert_close(Power(0.5).weights(sizes), torch.tensor([1, 2, 4], dtype=torch.float64) / 7)
    assert bool(torch.isfinite(Power(10.0).weights(torch.tensor([1, 2**31 - 1]))).all())


def test_a_stack_weighs_as_its_one_weighing_wrapper_says_wherever_it_stands() -> None:
    sizes = torch.tensor([1, 3])
    assert Stack.parse("clip(1) + topk(0.5)").weights(sizes).tolist() == [0.25, 0.75]
    for text in ("uniform + clip(1)", "clip(1) + uniform"):
        assert Stack.parse(text).weights(sizes).tolist() == [0.5, 0.5]


# Stacks


def test_wrappers_act_in_their_order() -> None:
    wave = _wave(torch.tensor([[3.0, 4.0, 0.0, 0.0]]))
    moved = {text: _applied(text, wave) for text in ("clip(1) + topk(0.25)", "topk(0.25) + clip(1)")}
    first, second = ((each.end - each.start)[0].tolist() for each in moved.values())
    assert first == pytest.approx([0, 0.8, 0, 0], abs=1e-6)
    assert second == pytest.approx([0, 1.0, 0, 0], abs=1e-6)


def test_noise_comes_after_the_clipping_it_is_measured_for() -> None:
    wave = _wave(100 * _moves(2, 50_000))
    both = _applied("uniform + clip(2) + gaussian(0.5, 2)", wave)
    clipped = _applied("clip(2)", wave)
    noise = both.end - clipped.end
    assert float(noise.std()) == pytest.approx(0.5 * 2 / 2**0.5, rel=0.02)


def test_a_sparse_update_stays_sparse_when_it_is_quantised() -> None:
    wave = _wave(_moves(4, 100))
    ended = _applied("topk(0.1) + quantise(4)", wave)
    assert bool(((ended.end != wave.start).sum(1) <= 10).all()) and bool((ended.end != wave.start).any())


NEUTRAL = ["", "uniform", "clip(1e6)", "topk(1)", "uniform + clip(1e6) + gaussian(0, norm=1e6)", "power(1) + topk(1)"]


@pytest.mark.parametrize("text", NEUTRAL)
def test_what_is_not_changed_arrives_to_the_bit(text: str) -> None:
    wave = _wave(_moves() * torch.tensor([[1e-6], [1.0], [1e3]]), statistics=3)
    assert torch.equal(_applied(text, wave).end, wave.end)


@pytest.mark.parametrize("text", ["clip(0.1)", "uniform + clip(1) + gaussian(1)", "topk(0.1)", "quantise(2)"])
def test_statistics_and_what_stays_with_the_client_are_left_alone(text: str) -> None:
    wave = _wave(_moves(3, 10), statistics=4)
    end = wave.end.clone()
    ended = _applied(text, wave, own=torch.tensor([2, 3, 11]))
    alone = [2, 3, *range(10, 14)]
    assert torch.equal(ended.end[:, alone], end[:, alone]) and not torch.equal(ended.end, end)
    assert torch.equal(wave.end, end)
    without = wave._replace(start=wave.start[:, [0, 1, *range(4, 14)]], end=end[:, [0, 1, *range(4, 14)]])
    expected = _applied(text, without._replace(num_trainable=8))
    assert torch.equal(ended.end[:, [0, 1, *range(4, 10)]], expected.end[:, :8])


def test_nothing_to_send_is_nothing_to_change() -> None:
    wave = _wave(_moves(2, 3))
    for text in ("topk(0.1) + quantise(4)", "clip(1)"):
        assert torch.equal(_applied(text, wave, own=torch.arange(3)).end, wave.end)


def test_a_diverged_client_is_still_seen_behind_any_stack() -> None:
    moves = _moves()
    moves[2, 0] = math.nan
    for text in ("clip(1)", "topk(0.05)", "quantise(2)", "topk(0.1) + quantise(4) + clip(1)"):
        assert bool(torch.isnan(_applied(text, _wave(moves)).end[2]).any())


# Bytes, by hand: 1001 values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 4 * 1001),
        ("clip(1)", 4 * 1001),
        ("uniform", 4 * 1001),
        ("topk(0.1)", 100 * (4 + 4)),
        ("topk(1)", 4 * 1001),
        ("topk(0.9999)", 4 * 1001),  # all of them after all: places need not be told
        ("topk(1e-9)", 4 + 4),
        ("quantise(4)", 501 + 4),
        ("quantise(16)", 2002 + 4),
        ("topk(0.1) + quantise(4)", 50 + 4 * 100 + 4),
        ("quantise(4) + topk(0.1)", 50 + 4 * 100 + 4),
        ("topk(0.1) + topk(0.5)", 100 * (4 + 4)),
        ("quantise(8) + quantise(4)", 501 + 4),
        ("topk(0.1) + quantise(4) + clip(1)", 50 + 4 * 100 + 4),
        ("topk(0.1) + uniform + clip(1) + gaussian(1)", 4 * 1001),  # noise leaves no zero
    ],
)
def test_bytes(text: str, expected: int) -> None:
    assert Stack.parse(text).bytes_up(1001) == expected


@settings(deadline=None)
@given(moves=_rows(), share=st.floats(0.01, 1.0))
def test_no_more_values_are_sent_than_are_paid_for(moves: Tensor, share: float) -> None:
    size = moves.shape[1]
    paid = TopK(share).sent(Sent(size, size))
    assert int((TopK(share).apply(moves, _draws()) != 0).sum(1).max()) <= paid.values
    assert paid.places in (0, paid.values) and (paid.places or paid.values == size)


# Texts


@pytest.mark.parametrize("text", ["", *(WRAPPERS.write(each) for each in ALL if not isinstance(each, Gaussian))])
def test_a_stack_reads_what_it_writes(text: str) -> None:
    for full in (text, "uniform + topk(0.1) + clip(0.05) + gaussian(0.1, norm=0.05)"):
        assert str(Stack.parse(full)) == full and Stack.parse(str(Stack.parse(full))) == Stack.parse(full)


REFUSED = {
    "clip": "clip needs norm",
    "clip(0)": "clip's norm is 0: give a number above 0.",
    "clip(nan)": "clip's norm is nan",
    "clip(inf)": "clip's norm is inf",
    "clip(x)": "clip's norm is a number, not 'x'",
    "clip(1, 2)": "clip takes at most 1 values",
    "clip(1) +": "cannot read wrapper ''",
    "clip(1": "cannot read wrapper 'clip(1'",
    "klip(1)": "unknown wrapper 'klip': did you mean 'clip'?",
    "topk(0)": "topk's share is 0",
    "topk(1.1)": "topk's share is 1.1",
    "topk(nan)": "topk's share is nan",
    "quantise(1)": "quantise's bits are 1",
    "quantise(17)": "quantise's bits are 17",
    "quantise(4.5)": "quantise's bits is a whole number, not '4.5'",
    "power": "power needs exponent",
    "power(-1)": "power's exponent is -1",
    "power(nan)": "power's exponent is nan",
    "power(11)": "power's exponent is 11",
    "uniform + power(0.5)": "clients are weighed by uniform and by power(0.5): keep one of them.",
    "uniform + uniform": "clients are weighed by uniform and by uniform",
    "uniform + clip(1) + gaussian(-1)": "gaussian takes a multiplier of 0 or more",
    "uniform + clip(1) + gaussian(1, 0)": "gaussian takes a multiplier of 0 or more",
    "uniform + clip(1) + gaussian(nan)": "gaussian takes a multiplier of 0 or more",
    "gaussian(1)": "put a clip of the same norm right before it",
    "uniform + gaussian(1)": "put a clip of the same norm right before it",
    "uniform + clip(0.05) + gaussian(1)": "gaussian's norm is 1: put a clip of the same norm right before it.",
    "uniform + clip(1) + quantise(4) + gaussian(1)": "put a clip of the same norm right before it",
    "uniform + clip(1) + gaussian(1) + topk(0.1)": "gaussian promises nothing for what topk(0.1) makes of it",
    "uniform + clip(1) + gaussian(1) + gaussian(1)": "gaussian promises nothing for what gaussian(1) makes of it",
    "clip(1) + gaussian(1)": "add uniform",
    "power(0.5) + clip(1) + gaussian(1)": "add uniform",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_are_one_sentence(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        Stack.parse(text)
    sentence = str(refused.value)
    assert REFUSED[text] in sentence and sentence.endswith(".") and "\n" not in sentence


def test_noise_may_stand_anywhere_among_weights() -> None:
    parts = ["uniform", "clip(1) + gaussian(0.5)"]
    for order in itertools.permutations(parts):
        assert Stack.parse(" + ".join(order)).noise == Gaussian(0.5)
    assert Stack.parse("clip(1) + uniform + gaussian(0.5)").noise == Gaussian(0.5)
    assert Stack.parse("clip(1)").noise is None


# A wrapper of one's own


@dataclass(frozen=True)
class Sign(Wrapper):
    """Every value is sent as its sign, one bit each, with one scale."""

    def apply(self, moves: Tensor, draws: torch.Generator) -> Tensor:
        return moves.sign() * moves.abs().mean(1, keepdim=True)

    def sent(self, sent: Sent) -> Sent:
        return replace(sent, bits=1, scales=1)


def test_a_wrapper_of_ones_own_works_in_a_stack() -> None:
    stack: Any = Stack.parse(f"clip(1) + {__name__}:Sign")
    assert stack.wrappers == (Clip(1.0), Sign()) and stack.bytes_up(1000) == 125 + 4
    ended = stack.apply(_wave(_moves()), np.random.default_rng(0), NONE_OWN)
    assert len((ended.end - ended.start)[0].abs().mul(1e4).round().unique()) == 1
