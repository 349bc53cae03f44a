import math

import pytest
import torch

from noniid.errors import BadInput
from noniid.split import Noise


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


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
    added = noise.apply(x, 3, 10, generator()) - x
    assert torch.equal(x, before)
    level = noise.level(3, 10)
    assert abs(added.mean().item()) < 5 * level / math.sqrt(x.numel())
    assert added.std().item() == pytest.approx(level, rel=0.02)
    assert added[0].std().item() == pytest.approx(level, rel=0.1)


def test_the_generator_decides():
    x = torch.zeros(8, 3)
    noise = Noise(0.1)
    rng = generator()
    first, second = noise.apply(x, 1, 4, rng), noise.apply(x, 1, 4, rng)
    assert torch.equal(first, noise.apply(x, 1, 4, generator()))
    assert not torch.equal(first, second)  # drawn anew at each reading
    assert not torch.equal(first, noise.apply(x, 1, 4, generator(1)))
    assert torch.allclose(noise.apply(x, 3, 4, generator()), first * math.sqrt(2))


def test_no_noise_is_no_change():
    x = torch.rand(5, 2)
    assert torch.equal(Noise(0.0).apply(x, 2, 4, generator()), x)
    assert torch.equal(Noise(1.0, "std").apply(x, 0, 4, generator()), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_type_stays(dtype):
    assert Noise(0.1).apply(torch.zeros(3, dtype=dtype), 0, 1, generator()).dtype == dtype


def test_refusals():
    with pytest.raises(BadInput, match=r"real-valued features, and these are torch\.int64"):
        Noise(0.1).apply(torch.zeros(3, dtype=torch.int64), 0, 1, generator())
    with pytest.raises(BadInput, match="sigma is a number from 0 up"):
        Noise(-0.1).apply(torch.zeros(3), 0, 1, generator())
    with pytest.raises(BadInput, match="variance or std"):
        Noise(0.1, "both").level(0, 1)  # type: ignore[arg-type]
