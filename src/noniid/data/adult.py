"""UCI's adult, encoded as the 123 binary columns of LIBSVM's a9a.

Every field becomes a block of columns of which at most one is 1: a category's own column, in the order of
adult.names, or the interval a number lies in. An unknown value (`?`) sets none.

Intervals are quintiles of the training data: the cut after k fifths is the value at position k n / 5 of the
sorted column, and a number belongs to the interval above a cut it equals. A cut that does not exceed the one
before moves up to the next value that occurs, so that there are always five intervals: 40 hours fill two
fifths, hence 35, 40, 41, 48. Capital gain and loss are split into none and some. Rows, intervals and the
number of ones (451,592 in training) agree with a9a wherever they were compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from noniid.data.dataset import Samples
from noniid.data.files import damaged, read_bytes
from noniid.data.tables import ADULT_WIDTH

_WORKCLASS = "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked"
_EDUCATION = (
    "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
    "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool"
)
_MARITAL = "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse"
_OCCUPATION = (
    "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners, "
    "Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv, "
    "Armed-Forces"
)
_RELATIONSHIP = "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried"
_RACE = "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black"
_COUNTRY = (
    "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, "
    "Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, "
    "Mexico, Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, "
    "Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
    "Holand-Netherlands"
)
_QUINTILES, _ANY = "quintiles", "none or some"

# (field, its categories or how its numbers are cut), in the order of the files and of the 123 columns
FIELDS = (
    ("age", _QUINTILES),
    ("workclass", _WORKCLASS),
    ("fnlwgt", _QUINTILES),
    ("education", _EDUCATION),
    ("education-num", _QUINTILES),
    ("marital-status", _MARITAL),
    ("occupation", _OCCUPATION),
    ("relationship", _RELATIONSHIP),
    ("race", _RACE),
    ("sex", "Female, Male"),
    ("capital-gain", _ANY),
    ("capital-loss", _ANY),
    ("hours-per-week", _QUINTILES),
    ("native-country", _COUNTRY),
)


def read_adult(paths: Sequence[Path]) -> tuple[Samples, Samples]:
    """adult.data and adult.test; class 1 earns more than 50K."""
    tables = [_read(path) for path in paths]
    cuts = {name: field_cuts(tables[0][name], how) for name, how in FIELDS if how in (_QUINTILES, _ANY)}
    train, test = (_encode(table, cuts) for table in tables)
    return train, test


def _read(path: Path) -> dict[str, np.ndarray]:
    """Each field as int64 [n]: a number, or a category's place in its list (-1 where unknown); `label`."""
    try:
        lines = read_bytes(path).decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise damaged(path, "it is not plain text") from None
    rows: list[list[str]] = []
    for i, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("|"):  # adult.test begins with a remark and ends with an empty line
            continue
        rows.append([value.strip() for value in line.split(",")])
        if len(rows[-1]) != len(FIELDS) + 1:
            raise damaged(path, f"line {i} has {len(rows[-1])} values, not {len(FIELDS) + 1}")
    if not rows:
        raise damaged(path, "it has no rows")
    *columns, incomes = zip(*rows, strict=True)
    table = {name: _codes(values, name, how, path) for (name, how), values in zip(FIELDS, columns, strict=True)}
    # adult.test's labels end in a dot
    table["label"] = _codes([income.removesuffix(".") for income in incomes], "income", "<=50K, >50K", path)
    return table


def _codes(values: Sequence[str], name: str, how: str, path: Path) -> np.ndarray:
    if how in (_QUINTILES, _ANY):
        try:
            return np.array([int(value) for value in values], np.int64)
        except ValueError as error:
            raise damaged(path, f"{name}: {error}") from None
    places = {category: i for i, category in enumerate(how.split(", "))}
    if name != "income":
        places["?"] = -1
    try:
        return np.array([places[value] for value in values], np.int64)
    except KeyError as error:
        raise damaged(path, f"{name} cannot be {error}") from None


def field_cuts(values: np.ndarray, how: str) -> list[float]:
    """The lowest number of each interval but the first."""
    if how == _ANY:
        return [1]
    ordered, distinct = np.sort(values), np.unique(values)
    cuts: list[float] = []
    for k in range(1, 5):
        cut = float(ordered[len(ordered) * k // 5])
        if cuts and cut <= cuts[-1]:
            above = distinct[distinct > cuts[-1]]
            cut = float(above[0]) if len(above) else np.inf
        cuts.append(cut)
    return cuts


def _encode(table: dict[str, np.ndarray], cuts: dict[str, list[float]]) -> Samples:
    num_rows = len(table["label"])
    x = np.zeros((num_rows, ADULT_WIDTH), np.float32)
    first = 0  # column of the field's block
    for name, how in FIELDS:
        if name in cuts:
            places, size = np.searchsorted(cuts[name], table[name], side="right"), len(cuts[name]) + 1
        else:
            places, size = table[name], how.count(",") + 1
        known = np.flatnonzero(places >= 0)
        x[known, first + places[known]] = 1
        first += size
    return Samples(torch.from_numpy(x), torch.from_numpy(table["label"]))
