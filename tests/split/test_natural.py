import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import By, parse

CLINIC = np.array(["north", "south", "north", "east", "south", "north"])


def made(num_clients=3, columns=None, text="by(clinic)"):
    columns = {"clinic": CLINIC} if columns is None else columns
    return parse(text).make(np.arange(6) % 2, num_clients, np.random.default_rng(0), columns)


def test_every_client_is_one_value_in_sorted_order():
    assert [part.tolist() for part in made().indices] == [[3], [0, 2, 5], [1, 4]]
    assert all(part.dtype == np.int64 for part in made().indices)
    assert By("clinic").num_clients({"clinic": CLINIC}) == 3


def test_numbers_are_sorted_as_numbers():
    split = made(columns={"clinic": np.array([10, 9, 10, 100, 9, 9])})
    assert [part.tolist() for part in split.indices] == [[1, 4, 5], [0, 2], [3]]


def test_as_text():
    assert str(parse("by(clinic) + noise(0.1)")) == "by(clinic) + noise(0.1)"
    assert parse("by('two words')").placement == By("two words")


@pytest.mark.parametrize(
    ("num_clients", "columns", "message"),
    [
        (5, {"clinic": np.arange(6) % 3}, r"by\(clinic\) makes 3 clients, not 5: do not say how many"),
        (3, {"klinic": CLINIC}, "unknown column to split by 'clinic': did you mean 'klinic'"),
        (3, {}, "needs data with columns, and these have none"),
        (1, {"clinic": np.full(6, "north")}, "is north in every row: that is a single client"),
    ],
)
def test_refused(num_clients, columns, message):
    with pytest.raises(BadInput, match=message):
        made(num_clients, columns)
