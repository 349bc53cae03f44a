"""The tables of NIID-Bench agree with themselves: counts, tallies, sizes, one table with another."""

from collections import Counter

import pytest

from noniid.papers import niid_bench
from noniid.papers.base import Cell, Claim, read_cells
from noniid.papers.niid_bench import ALGORITHMS, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TIMES_BEST, VERSIONS

CATEGORIES = ("label", "feature", "quantity", "iid")
Rows = dict[tuple[str, str], dict[str, float | None]]  # (data, split) -> algorithm -> accuracy


def claims_by_row(category: str, version: str) -> Rows:
    rows: Rows = {}
    for cell in TABLE_3:
        if cell.category == category:
            rows.setdefault((cell.data, cell.split), {})[cell.algorithm] = cell.claim(version).value
    return rows


def tally(rows: Rows) -> dict[str, int]:
    """How often each algorithm is the best of a row; rows with an unreadable cell are left out."""
    counts: Counter[str] = Counter()
    for row in rows.values():
        values = [value for value in row.values() if value is not None]
        if len(values) == len(row):
            counts.update(algorithm for algorithm in row if row[algorithm] == max(values))
    return {algorithm: counts[algorithm] for algorithm in ALGORITHMS}


def find(table: tuple[Cell, ...], data: str, split: str, algorithm: str) -> Cell:
    [cell] = [c for c in table if (c.data, c.split, c.algorithm) == (data, split, algorithm)]
    return cell


def test_every_cell_stands_once_with_both_versions():
    for table in (TABLE_3, TABLE_5):
        assert len({(cell.data, cell.split, cell.algorithm) for cell in table}) == len(table)
        assert all(tuple(version for version, _ in cell.claims) == VERSIONS for cell in table)
        assert len(set(table)) == len(table), "cells can be hashed"


def test_the_number_of_cells():
    rows = Counter(cell.category for cell in TABLE_3 if cell.algorithm == "fedavg")
    assert rows == {"label": 22, "feature": 6, "quantity": 7, "iid": 9}
    assert set(Counter(cell.algorithm for cell in TABLE_3).values()) == {44}
    assert (len(TABLE_2), len(TABLE_3), len(TABLE_4), len(TABLE_5)) == (9, 176, 16, 20)


def test_only_four_cells_of_version_1_are_unreadable():
    unreadable = [(c.data, c.split, c.algorithm) for c in TABLE_3 if c.claim("v1").value is None]
    assert unreadable == [
        ("covtype", "dirichlet(0.5)", "fednova"),
        ("mnist", "noise(0.1)", "fednova"),
        ("cifar10", "noise(0.1)", "scaffold"),
        ("cifar10", "noise(0.1)", "fednova"),
    ]
    assert all(cell.claim("v2").value is not None for cell in TABLE_3)


def test_only_fednova_differs_between_the_versions():
    readable = [cell for cell in TABLE_3 if cell.claim("v1").value is not None]
    assert {cell.algorithm for cell in readable if cell.claim("v1") != cell.claim("v2")} == {"fednova"}


def test_accuracies_are_percentages_with_a_spread():
    for cell in TABLE_3:
        for _, claim in cell.claims:
            if claim.value is None:
                assert claim.spread is None
            else:
                assert claim.spread is not None
                assert 0 <= claim.value <= 100
                assert 0 <= claim.spread <= 50


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_best_of_each_row_is_counted_as_version_2_counts(category: str):
    assert tally(claims_by_row(category, "v2")) == TIMES_BEST["v2", category]


@pytest.mark.parametrize("category", ["quantity", "iid"])
def test_the_best_of_each_row_is_counted_as_version_1_counts(category: str):
    assert tally(claims_by_row(category, "v1")) == TIMES_BEST["v1", category]


def test_version_1_feature_counts_leave_just_what_its_two_unreadable_rows_can_hold():
    """Counted 3/2/3/1 in the four complete rows, printed 4/3/5/2. MNIST's readable tie is worth one to each
    of the first three, so SCAFFOLD's fifth is CIFAR-10, and FedNova ties in one of the two rows."""
    rows = claims_by_row("feature", "v1")
    printed, counted = TIMES_BEST["v1", "feature"], tally(rows)
    assert counted == {"fedavg": 3, "fedprox": 2, "scaffold": 3, "fednova": 1}
    assert printed == {"fedavg": 3 + 1, "fedprox": 2 + 1, "scaffold": 3 + 2, "fednova": 1 + 1}
    assert [rows["mnist", "noise(0.1)"][algorithm] for algorithm in ALGORITHMS] == [99.1, 99.1, 99.1, None]


def test_version_1_label_counts_are_unreadable_and_would_be_about_these():
    """covtype's dirichlet(0.5), the one incomplete row of 22, would add one to FedAvg or FedNova."""
    assert set(TIMES_BEST["v1", "label"].values()) == {None}
    counted = tally(claims_by_row("label", "v1"))
    assert counted == {"fedavg": 7, "fedprox": 10, "scaffold": 5, "fednova": 4}


PARAMETERS = {"mnist": 44_426, "cifar10": 62_006, "adult": 4_650, "rcv1": 1_512_266}


@pytest.mark.parametrize("cost", TABLE_4, ids=lambda cost: f"{cost.algorithm}-{cost.data}")
def test_megabytes_are_eleven_models_of_four_byte_parameters(cost):
    copies = 22 if cost.algorithm == "scaffold" else 11
    assert round(PARAMETERS[cost.data] * 4 * copies / 1e6, 2) == cost.megabytes


def test_every_algorithm_has_a_cost_on_each_data_set():
    seconds = {(cost.data, cost.algorithm): cost.seconds for cost in TABLE_4}
    assert seconds.keys() == {(data, algorithm) for data in PARAMETERS for algorithm in ALGORITHMS}
    assert seconds["cifar10", "fedprox"] == 233


def test_single_skews_of_table_5_repeat_table_3():
    single = [cell for cell in TABLE_5 if "+" not in cell.split]
    assert len(single) == 12
    for cell in single:
        twin = find(TABLE_3, cell.data, cell.split, cell.algorithm)
        assert (twin.category, twin.claim("v2").value) == (cell.category, cell.claim("v2").value)


def test_table_5_is_version_2_only_and_prints_no_spread():
    assert all(cell.claim("v1") == Claim(None) for cell in TABLE_5)
    assert all(cell.claim("v2").spread is None for cell in TABLE_5)
    assert find(TABLE_5, "cifar10", "dirichlet(0.5) + noise(0.1)", "scaffold").claim("v2").value == 67.8


def test_data_sizes_add_up():
    sizes = {size.data: size for size in TABLE_2}
    assert sizes.keys() == {cell.data for cell in TABLE_3}
    assert sizes["rcv1"].train + sizes["rcv1"].test == 20_242  # rows in the one file that is divided
    assert sizes["covtype"].train + sizes["covtype"].test == 581_012
    for data in ("mnist", "fmnist", "femnist"):
        assert sizes[data].features == 28 * 28


def test_only_ten_classes_are_dealt_two_or_three_a_client():
    dealt = {cell.data for cell in TABLE_3 if cell.split in ("labels(2)", "labels(3)")}
    assert {size.classes for size in TABLE_2 if size.data in dealt} == {10}


def test_protocols():
    protocols = {size.data: niid_bench.protocol(size.data) for size in TABLE_2}
    assert {data for data, p in protocols.items() if p.lr == 0.1} == {"rcv1"}
    assert {data for data, p in protocols.items() if p.num_clients == 4} == {"fcube"}
    assert {data for data, p in protocols.items() if p.augment == "crop-flip"} == {"cifar10"}
    assert {data for data, p in protocols.items() if p.model == "mlp"} == {"adult", "rcv1", "covtype"}
    assert {data for data, p in protocols.items() if p.model == "linear"} == {"fcube"}
    known = [(data, split) for data, p in protocols.items() for split, _ in p.mu_chosen]
    assert set(known) <= {(cell.data, cell.split) for cell in TABLE_3}
    assert all(mu in p.mu_grid for p in protocols.values() for _, mu in p.mu_chosen)
    assert protocols["cifar10"].best_mu("dirichlet(0.5)") == 0.001
    assert protocols["cifar10"].best_mu("iid") is None


def test_unknown_names_are_refused():
    with pytest.raises(KeyError):
        niid_bench.protocol("imagenet")
    with pytest.raises(KeyError):
        TABLE_3[0].claim("v3")


def test_the_paper_holds_its_tables():
    paper = niid_bench.PAPER
    assert paper.tables["3"] is TABLE_3
    assert set(paper.versions) == set(VERSIONS)
    assert paper.protocol("rcv1").lr == 0.1


def test_a_row_with_a_missing_column_is_refused():
    with pytest.raises(ValueError, match="zip"):
        read_cells("label\nmnist  iid  99.1±0.1  99.1±0.1", ALGORITHMS, VERSIONS)
    with pytest.raises(ValueError, match="zip"):
        read_cells("label\nmnist  iid  1|2|3", ("fedavg",), VERSIONS)
