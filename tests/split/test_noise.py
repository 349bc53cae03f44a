import math

import numpy as np
import pytest
import torch

from noniid.errors import BadInput
from noniid.split import Noise, Reading


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def apply(noise, x, client, num_clients, rng, fitted=None, **more):
    return noise.apply(x, Reading(torch.arange(len(x)), client, num_clients, rng, **more), fitted)


@pytest.mark.parametrize("N", [1, 2, 10])
@pytest.mark.parametrize("sigma", [0.0, 0.1, 3.0])
def test_the_papers_variance(sigma, N):
    variances = [Noise(sigma).level(i, N) ** 2 for i in range(N)]
    assert variances == pytest.approx([sigma * i / N for i in range(1, N + 1)])


def test_the_codes_standard_deviation():
    levels = [Noise(0.1, scale="std").level(i, 10) for i in range(10)]
    assert levels == pytest.approx([0.1 * i / 9 for i in range(10)])
    assert levels[0] == 0 and levels[-1] == 0.1
    assert Noise(0.1, scale="std").level(0, 1) == 0


def test_whether_the_test_set_is_noisy():
    assert not Noise(0.1).on_test
    assert Noise(0.1, test=True).on_test


@pytest.mark.parametrize("scale", ["variance", "std"])
def test_what_is_added(scale):
    noise = Noise(0.1, scale)
    x = torch.rand(64, 1, 40, 40, generator=generator(1))
    before = x.clone()
    added = apply(noise, x, 3, 10, generator()) - x
    assert torch.equal(x, before)
    level = noise.level(3, 10)
    assert abs(added.mean().item()) < 5 * level / math.sqrt(x.numel())
    assert added.std().item() == pytest.approx(level, rel=0.02)
    assert added[0].std().item() == pytest.approx(level, rel=0.1)


def test_the_generator_decides():
    x = torch.zeros(8, 3)
    noise = Noise(0.1)
    rng = generator()
    first, second = apply(noise, x, 1, 4, rng), apply(noise, x, 1, 4, rng)
    assert torch.equal(first, apply(noise, x, 1, 4, generator()))
    assert not torch.equal(first, second)  # drawn anew at each reading
    assert not torch.equal(first, apply(noise, x, 1, 4, generator(1)))
    assert torch.allclose(apply(noise, x, 3, 4, generator()), first * math.sqrt(2))


def test_frozen_noise_is_a_samples_own():
    noise = Noise(0.1, draw="frozen")
    seed = noise.fit(lambda client: iter(()), 4, np.random.default_rng(0))
    assert seed == noise.fit(lambda client: iter(()), 4, np.random.default_rng(0))
    x = torch.zeros(6, 50, 40)
    first = apply(noise, x, 1, 4, generator(), seed)
    assert torch.equal(first, apply(noise, x, 1, 4, generator(9), seed))  # whatever is drawn beside it
    order = torch.tensor([4, 0, 2])
    some = noise.apply(x[:3], Reading(order, 1, 4, generator()), seed)
    assert torch.equal(some, first[order])
    assert len({float(each.sum()) for each in first}) == 6
    assert first.std().item() == pytest.approx(noise.level(1, 4), rel=0.03)
    assert not torch.equal(first, apply(noise, x, 1, 4, generator(), seed + 1))
    of_test = apply(noise, x, 1, 4, generator(), seed, test=True)
    assert not torch.equal(first, of_test)
    assert torch.equal(of_test, apply(noise, x, 1, 4, generator(3), seed, test=True))


def test_noise_drawn_anew_takes_nothing_from_the_split_stream():
    assert Noise(0.1).fit(lambda client: iter(()), 4, None) is None  # type: ignore[arg-type]


def test_no_noise_is_no_change():
    x = torch.rand(5, 2)
    assert torch.equal(apply(Noise(0.0), x, 2, 4, generator()), x)
    assert torch.equal(apply(Noise(1.0, "std"), x, 0, 4, generator()), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_type_stays(dtype):
    assert apply(Noise(0.1), torch.zeros(3, dtype=dtype), 0, 1, generator()).dtype == dtype


def test_refusals():
    with pytest.raises(BadInput, match=r"real-valued features, and these are torch\.int64"):
        apply(Noise(0.1), torch.zeros(3, dtype=torch.int64), 0, 1, generator())
    with pytest.raises(BadInput, match="sigma is a number from 0 up"):
        apply(Noise(-0.1), torch.zeros(3), 0, 1, generator())
    with pytest.raises(BadInput, match="variance or std"):
        Noise(0.1, "both").level(0, 1)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="noise's draw is anew or frozen, not 'once'"):
        Noise(0.1, draw="once").check()  # type: ignore[arg-type]
