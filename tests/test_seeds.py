"""One seed, named independent streams."""

from __future__ import annotations

import itertools
import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from noniid.seeds import Published, integer, stream, torch_stream

NAMES = ("batches", "inputs", "pick", "split", "model", "update")
SEEDS = st.integers(0, 2**63)
KEYS = st.lists(st.integers(0, 2**31), max_size=3).map(tuple)


def _draw(generator: np.random.Generator) -> list[int]:
    return generator.integers(1 << 62, size=4).tolist()


@given(SEEDS, st.sampled_from(NAMES), KEYS)
def test_the_same_name_is_the_same_stream(seed: int, purpose: str, keys: tuple[int, ...]) -> None:
    assert _draw(stream(seed, purpose, *keys)) == _draw(stream(seed, purpose, *keys))


def test_streams_of_different_seeds_purposes_and_keys_differ() -> None:
    names = itertools.product(range(5), NAMES, [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)])
    draws = [tuple(_draw(stream(seed, purpose, *keys))) for seed, purpose, keys in names]
    assert len(set(draws)) == len(draws)


def test_the_order_of_keys_counts() -> None:
    assert _draw(stream(0, "batches", 1, 2)) != _draw(stream(0, "batches", 2, 1))


def test_a_draw_in_one_stream_moves_no_other() -> None:
    alone = _draw(stream(0, "batches", 1, 0))
    other, mine = stream(0, "batches", 1, 1), stream(0, "batches", 1, 0)
    other.random(1000)
    assert _draw(mine) == alone


def test_neither_global_generator_is_used_or_moved() -> None:
    before = np.random.get_state()[1].copy(), random.getstate(), torch.get_rng_state()  # type: ignore[index]
    stream(0, "a").random(10)
    torch.rand(3, generator=torch_stream(0, "a"))
    integer(0, "a")
    Published(0).shuffle(np.arange(9))
    Published(0).integers(5)
    assert np.array_equal(before[0], np.random.get_state()[1])  # type: ignore[index]
    assert before[1] == random.getstate()
    assert torch.equal(before[2], torch.get_rng_state())


@given(SEEDS, st.sampled_from(NAMES), KEYS)
def test_integers_fit_a_torch_seed(seed: int, purpose: str, keys: tuple[int, ...]) -> None:
    assert 0 <= integer(seed, purpose, *keys) < 1 << 63


def test_torch_streams_follow_the_same_names() -> None:
    def draw(*name: int) -> list[float]:
        return torch.rand(3, generator=torch_stream(0, "inputs", *name)).tolist()

    assert draw(1, 2) == draw(1, 2)
    assert draw(1, 2) != draw(2, 1)


def test_streams_are_numpys_own_and_stay_what_they_were() -> None:
    """By numpy's documented construction: stored results stand only as long as this does."""
    sequence = np.random.SeedSequence(7, spawn_key=(_crc32("batches"), 3, 1))
    assert _draw(stream(7, "batches", 3, 1)) == _draw(np.random.Generator(np.random.PCG64(sequence)))


def _crc32(text: str) -> int:
    """Bit by bit, from the polynomial."""
    crc = 0xFFFFFFFF
    for byte in text.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_published_draws_are_the_two_legacy_generators() -> None:
    ours, theirs, python = Published(2020), np.random.RandomState(2020), random.Random(2020)
    assert ours.permutation(20).tolist() == theirs.permutation(20).tolist()
    assert ours.integers(10) == python.randint(0, 9)
    assert ours.dirichlet([0.5] * 4).tolist() == theirs.dirichlet([0.5] * 4).tolist()
    mine, other = np.arange(30), np.arange(30)
    ours.shuffle(mine)
    theirs.shuffle(other)
    assert mine.tolist() == other.tolist()
    assert ours.random((2, 3)).tolist() == [[python.random() for _ in range(3)] for _ in range(2)]
    assert [ours.integers(7) for _ in range(9)] == [python.randint(0, 6) for _ in range(9)]
