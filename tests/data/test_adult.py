from __future__ import annotations

import numpy as np
import pytest

from noniid.data import adult
from noniid.errors import BadInput

# Invented people, in the format of adult.data.
ROW = (
    "{age}, {work}, {weight}, Bachelors, {years}, Divorced, Sales, Wife, White, Female, {gain}, 0, {hours}, "
    "{land}, {income}"
)
DEFAULTS = {
    "age": 30,
    "work": "Private",
    "weight": 100,
    "years": 9,
    "gain": 0,
    "hours": 40,
    "land": "United-States",
    "income": "<=50K",
}


def row(**changes):
    return ROW.format(**DEFAULTS | changes)


def write(folder, train, test):
    (folder / "adult.data").write_text("\n".join(train) + "\n\n")
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + ".\n".join(test) + ".\n\n")
    return [folder / "adult.data", folder / "adult.test"]


def ones(samples, i):
    """The columns that are 1, counted from 1 as in a9a."""
    return (samples.x[i].nonzero().flatten() + 1).tolist()


def test_columns_of_one_row(tmp_path):
    train = [row(age=age, income=">50K" if age > 40 else "<=50K") for age in (20, 30, 40, 50, 60)]
    test = [row(age=19, gain=5, land="Holand-Netherlands", work="?", income=">50K"), row(age=99, land="?")]
    train, test = adult.read_adult(write(tmp_path, train, test))
    assert train.x.shape == (5, 123)
    assert (train.y.tolist(), test.y.tolist()) == ([0, 0, 0, 1, 1], [1, 0])
    # age, Private, fnlwgt, Bachelors, years, Divorced, Sales, Wife, White, Female, gain, loss, hours, US;
    # in a column with one value only, that value is the cut below the second interval
    assert ones(train, 0) == [1, 6, 15, 19, 36, 41, 50, 61, 67, 72, 74, 76, 79, 83]
    assert [ones(train, i)[0] for i in range(5)] == [1, 2, 3, 4, 5]
    assert ones(test, 0) == [1, 15, 19, 36, 41, 50, 61, 67, 72, 75, 76, 79, 123]  # `?` sets no column
    assert ones(test, 1) == [5, 6, 15, 19, 36, 41, 50, 61, 67, 72, 74, 76, 79]


def test_cuts():
    even = np.arange(10)
    assert adult.field_cuts(even, adult._QUINTILES) == [2, 4, 6, 8]
    # 40 hours fill the second and third fifth: the third cut moves up
    hours = np.array([20, 20, 40, 40, 40, 40, 45, 45, 60, 60])
    assert adult.field_cuts(hours, adult._QUINTILES) == [40, 45, 60, np.inf]
    assert adult.field_cuts(np.zeros(5), adult._QUINTILES) == [0, np.inf, np.inf, np.inf]
    assert adult.field_cuts(even, adult._ANY) == [1]


def test_blocks_fill_the_123_columns():
    sizes = [
        5 if how == adult._QUINTILES else 2 if how == adult._ANY else how.count(",") + 1 for _, how in adult.FIELDS
    ]
    assert sizes == [5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41]
    assert sum(sizes) == 123


@pytest.mark.parametrize(
    "bad",
    [
        row()[:-9],
        row()[:-1],
        row() + ", 7",
        row(age="x"),
        row(work="Gardener"),
        row(income="?"),
        row(land="Trinadad"),
        row(work="Priv\u00e9"),
    ],
)
def test_damaged(tmp_path, bad):
    with pytest.raises(BadInput, match=r"adult\.data is damaged or not the right file"):
        adult.read_adult(write(tmp_path, [row(), bad], [row()]))
    with pytest.raises(BadInput, match=r"adult\.test is damaged or not the right file"):
        adult.read_adult(write(tmp_path, [row()], [row(), bad]))


def test_empty(tmp_path):
    with pytest.raises(BadInput, match=r"adult\.data .*no rows"):
        adult.read_adult(write(tmp_path, [], [row()]))
