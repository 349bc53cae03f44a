"""Clients that the data name themselves."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import By, Grouped, Iid, Recipe, Traits, parse

WRITERS = np.array(["bob"] * 5 + ["ann"] * 3 + ["eve"] * 1 + ["dan"] * 3 + ["bob"] * 2)
TRAITS = Traits(np.arange(14) % 2, {"writer": WRITERS, "year": np.arange(14) // 7})


def make(text, num_clients=None, seed=0):
    return parse(text).make(TRAITS, num_clients, np.random.default_rng(seed))


def test_one_client_a_value_in_their_order():
    split = make("by(writer)")
    assert [set(WRITERS[part]) for part in split.indices] == [{"ann"}, {"bob"}, {"dan"}, {"eve"}]
    assert split.indices[1].tolist() == [0, 1, 2, 3, 4, 12, 13]
    assert split.num_dropped == 0
    assert make("by(year)").num_clients == 2


def test_small_values_and_all_but_the_largest_are_left_out():
    assert make("by(writer, min_size=3)").sizes.tolist() == [3, 7, 3]
    split = make("by(writer, most=2)")
    assert split.sizes.tolist() == [3, 7] and split.num_dropped == 4  # of equals, the first
    assert make("by(writer, min_size=4, most=3)").num_clients == 1


def test_a_number_of_clients_that_was_asked_for_is_not_needed():
    assert make("by(writer)", 99).num_clients == 4
    with pytest.raises(BadInput, match="this split needs to be told for how many clients"):
        Iid().place(TRAITS, None, np.random.default_rng(0))


@pytest.mark.parametrize("num_clients", [1, 2, 3, 4])
def test_groups_of_values(num_clients):
    split = make("grouped(writer)", num_clients)
    values = [set(WRITERS[part]) for part in split.indices]
    assert sum(map(len, values)) == 4 and set.union(*values) == set(WRITERS)
    assert max(map(len, values)) - min(map(len, values)) <= 1
    assert split.num_dropped == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("by(writter)", "unknown column 'writter': did you mean 'writer'"),
        ("grouped(hospital)", "unknown column 'hospital': Known: writer, year"),
        ("by(writer, min_size=8)", "no writer has 8 samples or more, the largest has 7: lower min_size"),
        ("by(writer, min_size=0)", "by's min_size is at least 1, not 0"),
        ("by(writer, most=0)", "by's most is at least one client, or none for all, not 0"),
        ("grouped(writer)", "4 values of writer cannot be dealt over 5 clients: use fewer clients"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(BadInput, match=message):
        make(text, 5)


def test_bare_labels_have_no_columns():
    with pytest.raises(BadInput, match="these data have no column 'writer', nor any other"):
        Recipe(By("writer")).make(np.arange(5), None, np.random.default_rng(0))
    with pytest.raises(BadInput, match="no column 'writer'"):
        Recipe(Grouped("writer")).make(np.arange(5), 2, np.random.default_rng(0))
