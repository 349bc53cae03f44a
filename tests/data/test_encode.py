from __future__ import annotations

import numpy as np
import pytest
import torch

from noniid.data.encode import MOST_CATEGORIES, MOST_CLASSES, classes, encode
from noniid.errors import BadInput

ALL = np.arange(4)


def texts(*values):
    return np.array(values, object)


def test_numbers_are_measured_by_the_training_rows_alone():
    x = encode({"a": np.array([1.0, 3.0, 100.0])}, np.array([0, 1]))
    assert x.dtype == torch.float32
    assert x.flatten().tolist() == [-1.0, 1.0, 98.0]  # mean 2, deviation 1


def test_a_missing_number_is_the_mean_and_says_so():
    x = encode({"a": np.array([1.0, np.nan, 3.0])}, np.arange(3))
    assert x.tolist() == [[-1, 0], [0, 1], [1, 0]]


def test_the_inputs_do_not_depend_on_the_division():
    fields = {"a": np.array([1.0, 2.0, np.nan, 4.0]), "b": texts("x", "y", None, "z")}
    widths = {encode(fields, train).shape for train in (np.array([0, 1]), np.array([2]), ALL)}
    assert widths == {(4, 2 + 3)}


def test_categories_are_one_input_each_and_a_missing_one_is_none():
    x = encode({"b": texts("red", None, "blue", "red")}, ALL)
    assert x.tolist() == [[0, 1], [0, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize("value", [0.0, 5.0, 1e9 + 0.1])
def test_a_constant_column_is_zero(value):
    x = encode({"a": np.full(4, value), "b": np.arange(4.0)}, ALL)
    assert x[:, 0].tolist() == [0, 0, 0, 0]


def test_a_column_of_which_training_knows_nothing():
    assert encode({"a": np.array([np.nan, np.nan, 7.0])}, np.array([0, 1])).tolist() == [[0, 1], [0, 1], [7, 0]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "no column left to learn from"),
        ({"a": np.array([1.0, np.inf])}, "column 'a' holds infinite numbers"),
        ({"name": texts(*map(str, range(MOST_CATEGORIES + 1)))}, "column 'name' is text with 1,001 different values"),
    ],
)
def test_refused(fields, message):
    with pytest.raises(BadInput, match=message):
        encode(fields, np.array([0]))


@pytest.mark.parametrize(
    ("labels", "expected", "names"),
    [
        (np.array([3.0, 1.0, 3.0, 1.0]), [1, 0, 1, 0], ["1", "3"]),
        (np.array([-1, 1, 1, -1]), [0, 1, 1, 0], ["-1", "1"]),
        (texts("no", "yes", "no", "no"), [0, 1, 0, 0], ["no", "yes"]),
        (np.array([True, False, False, True]), [1, 0, 0, 1], ["False", "True"]),
    ],
)
def test_classes(labels, expected, names):
    found, called = classes(labels, "y")
    assert (found.tolist(), found.dtype, called) == (expected, torch.int64, names)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([1.0, np.nan]), "label 'y' is missing in 1 of 2 rows"),
        (texts("a", None, None), "label 'y' is missing in 2 of 3 rows"),
        (np.array([0.5, 1.0, 2.0]), "label 'y' is no class: it holds numbers such as 0.5"),
        (texts("a", "a"), "label 'y' is a in every row"),
        (texts(*"abcdef"), "label 'y' is no class: it takes 6 different values in 6 rows"),
        (np.arange(3 * MOST_CLASSES) % (MOST_CLASSES + 1), "it takes 1,001 different values in 3,000 rows"),
    ],
)
def test_labels_that_are_no_classes(labels, message):
    with pytest.raises(BadInput, match=message):
        classes(labels, "y")
