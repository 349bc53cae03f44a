"""Placements that say how much each client holds."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import Growing, Lognormal, Quantity, Sizes, Zipf, parse


def sizes(placement, num_clients, n=10_000, seed=0):
    return [len(part) for part in placement.place(np.zeros(n, int), num_clients, np.random.default_rng(seed))]


def test_zipf_by_hand():
    assert sizes(Zipf(1), 3, 110) == [60, 30, 20]
    assert sizes(Zipf(2), 2, 100) == [80, 20]


@pytest.mark.parametrize("n", [99, 1_000, 54_321])
@pytest.mark.parametrize(("rule", "grow"), [("linear", lambda i: i), ("square", np.square), ("exponential", np.exp)])
def test_as_flowers_partitioners(rule, grow, n):
    """Shares rounded down, what is left to the last one."""
    units = grow(np.arange(1.0, 5.0))
    expected = (units / units.sum() * n).astype(int)
    expected[-1] += n - expected.sum()
    assert sizes(Growing(rule), 4, n) == expected.tolist()


def test_a_growth_that_leaves_clients_empty_says_so():
    with pytest.raises(BadInput, match="leaves 38 of 50 clients empty"):
        sizes(Growing("exponential"), 50, 100_000)


def test_exact_sizes():
    split = parse("sizes('600, 300,100')").make(np.zeros(1_200, int), None, np.random.default_rng(0))
    assert split.sizes.tolist() == [600, 300, 100] and split.num_dropped == 200
    assert str(parse(str(parse("sizes('600, 300,100')")))) == "sizes('600, 300,100')"


def test_lognormal_sizes():
    assert np.ptp(sizes(Lognormal(0), 10)) <= 2
    q = Lognormal(0.8).shares(200_000, np.random.default_rng(0))
    assert np.log(q).std() == pytest.approx(0.8, rel=0.01)
    assert np.isfinite(Lognormal(1e4).shares(5, np.random.default_rng(0))).all()
    assert max(sizes(Lognormal(1.5), 50)) > 5 * np.median(sizes(Lognormal(1.5), 50))
    assert min(sizes(Lognormal(1.5, 20), 50)) >= 20


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Zipf(0), "zipf's a is a number above 0, not 0"),
        (Growing("cubic"), "growing's rule is linear, square or exponential, not 'cubic'"),  # type: ignore[arg-type]
        (Sizes("3,0"), "sizes are whole numbers from 1 up with commas between them, not '3,0'"),
        (Sizes("3;4"), "sizes are whole numbers from 1 up"),
        (Sizes(""), "sizes are whole numbers from 1 up"),
        (Sizes("9000,1001"), "sizes add up to 10,001, and there are 10,000 samples: lower them"),
        (Lognormal(-1), "lognormal's sigma is a number from 0 up, not -1"),
        (Lognormal(1, 0), "lognormal's min_size is at least 1"),
        (Lognormal(40), "lognormal.40. with 10 samples or more for 10 clients .*: lower sigma, lower min_size or use"),
        (Quantity(0.001), "raise beta, lower min_size or use fewer clients"),
    ],
)
def test_refusals(placement, message, monkeypatch):
    monkeypatch.setattr("noniid.split.quantity.MOST_ATTEMPTS", 50)
    with pytest.raises(BadInput, match=message):
        sizes(placement, 10)
