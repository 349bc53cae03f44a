"""Verdicts, and the words for them."""

import pytest

from noniid.results.compare import COLUMNS, ComparedCell, compare, judge, number, summarise, tally

CELL = ("fmnist", "iid", "fedavg")


def test_the_spread_is_that_of_a_sample():
    found = summarise([88.0, 89.0, 91.0])
    assert found.mean == pytest.approx(268 / 3)
    assert found.std == pytest.approx((((88 - 268 / 3) ** 2 + (89 - 268 / 3) ** 2 + (91 - 268 / 3) ** 2) / 2) ** 0.5)
    assert found.n == 3


def test_one_value_has_no_spread_and_none_have_no_mean():
    assert summarise([88.0]).std is None
    with pytest.raises(ValueError, match="at least one value"):
        summarise([])


@pytest.mark.parametrize(
    ("measured", "spread", "verdict"),
    [
        (89.1, 0.1, "within"),  # one point at least, whatever is claimed
        (87.1, 0.0, "within"),
        (89.11, 0.1, "above"),
        (87.09, None, "below"),
        (86.9, 0.6, "within"),  # twice the claimed spread, where that is more
        (86.89, 0.6, "below"),
        (98.0, 4.9, "above"),
        (97.9, 4.9, "within"),
    ],
)
def test_tolerance_is_a_point_or_twice_the_spread(measured: float, spread: float | None, verdict: str):
    found = judge([measured], 88.1, spread)
    assert found.verdict == verdict
    assert found.tolerance == max(1.0, 2 * (spread or 0))
    assert found.difference == pytest.approx(measured - 88.1)


def test_it_is_the_mean_that_is_judged():
    found = judge([70.0, 106.0], 88.1, 0.1)
    assert found.verdict == "within"
    assert found.mean == 88.0
    assert found.std == pytest.approx(18 * 2**0.5)


def test_without_a_claim_there_is_no_verdict():
    found = judge([88.0], None, None)
    assert (found.verdict, found.difference, found.tolerance) == ("no claim", None, None)
    assert compare(CELL, (None, None), [88.0]).row()[3:7] == ("-", "88.0", "-", "no claim")


def test_a_line_tells_both_numbers():
    line = compare(CELL, (88.1, 0.6), [88.0, 89.0, 90.0], note="mu=0.01 is ours")
    texts = dict(zip(COLUMNS, line.row(), strict=True))
    assert texts == {
        "data": "fmnist", "split": "iid", "algorithm": "fedavg", "claimed": "88.1 ± 0.6",
        "measured": "89.0 ± 1.0", "difference": "+0.9", "verdict": "within", "runs": "3",
        "note": "mu=0.01 is ours",
    }  # fmt: skip


def test_lost_runs_are_told_and_not_averaged():
    line = compare(CELL, (88.1, 0.6), [88.0], ["diverged", "not run", "diverged"])
    assert line.measured == "88.0; 2 diverged, 1 not run"
    assert (line.runs, line.verdict) == (1, "within")


def test_lost_runs_alone_are_no_measurement():
    line = compare(CELL, (10.0, 0.0), [], ["diverged"] * 3)
    assert (line.measured, line.verdict, line.difference, line.runs) == ("3 diverged", "no run", None, 0)
    assert compare(CELL, (10.0, 0.0), []).measured == "not run"


@pytest.mark.parametrize(("difference", "text"), [(-0.04, "+0.0"), (0.0, "+0.0"), (-0.06, "-0.1"), (None, "-")])
def test_no_difference_is_minus_nothing(difference: float | None, text: str):
    line = ComparedCell(*CELL, "88.1", "88.1", difference, "within", 1)
    assert line.row()[COLUMNS.index("difference")] == text


def test_numbers_have_one_decimal():
    assert number(9.95, 0.04) == "9.9 ± 0.0"  # 9.95 is a little less in binary
    assert number(100.0, None) == "100.0"


def test_verdicts_are_counted():
    lines = [compare(CELL, (88.1, 0.6), values) for values in ([50.0], [88.0], [88.5], [99.0], [])]
    assert tally(lines) == "2 within, 1 below, 1 above, 1 no run"
    assert tally([]) == ""
