import dataclasses

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.split import Dirichlet, Fcube, Iid, Labels, Noise, Quantity, Recipe, parse

PLACEMENTS = [
    Iid(),
    Fcube(),
    Labels(2),
    Labels(3, first="random"),
    Dirichlet(0.5),
    Dirichlet(0.1, 1, cap=False),
    Dirichlet(1 / 3, seed=2020),
    Quantity(0.5),
    Quantity(1e-3, min_size=128),
]
SHIFTS = [(), (Noise(0.1),), (Noise(0.1, "std", test=True), Noise(2.0))]


@pytest.mark.parametrize("shifts", SHIFTS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_text_and_back(placement, shifts):
    recipe = Recipe(placement, shifts)
    assert parse(str(recipe)) == recipe
    assert str(parse(str(recipe))) == str(recipe)
    assert hash(parse(str(recipe))) == hash(recipe)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("iid", "iid"),
        ("iid()", "iid"),
        ("noise(0.1)", "iid + noise(0.1)"),
        (" noise( sigma=0.1 )+dirichlet(beta=0.5, min_size=10)", "dirichlet(0.5) + noise(0.1)"),
        ("quantity(5e-1,min_size=1)", "quantity(0.5, min_size=1)"),
        ("labels(2, first=random)", "labels(2, first=random)"),
        ("labels(2, first=by-index)", "labels(2)"),
        ("dirichlet(0.5, seed=2020, cap=true)", "dirichlet(0.5, seed=2020)"),
        ("noise(0.2, std, true) + noise(0.1)", "iid + noise(0.2, scale=std, test=true) + noise(0.1)"),
    ],
)
def test_canonical_text(text, canonical):
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dirichlt(0.5)", "did you mean 'dirichlet'"),
        ("iid + niose(0.5)", "did you mean 'noise'"),
        ("zzz", "Known: by, dirichlet, fcube, iid, labels, noise, quantity, saved"),
        ("iid + labels(2)", r"iid and labels\(2\) both say who holds what: keep one"),
        ("labels", "labels needs k"),
        ("labels(two)", "labels's k is a whole number"),
        ("labels(2, first=last)", "by-index, random"),
        ("dirichlet(0.5, alpha=1)", "unknown parameter of dirichlet 'alpha'"),
        ("", "cannot read split ''"),
        ("iid +", "cannot read split ''"),
        ("iid + noise(0.1", "cannot read split"),
        ("noniid.nowhere:Split", "cannot import split"),
        ("noniid.split:Recipe", "neither a Placement nor a Shift"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(BadInput, match=message):
        print(parse(text))


def test_a_split_of_ones_own():
    text = f"{__name__}:Reverse(step=2)"
    recipe = parse(text)
    assert str(recipe) == f"{__name__}:Reverse(2)"
    assert parse(str(recipe)) == recipe
    assert recipe.make(np.zeros(5), 1, np.random.default_rng(0)).indices[0].tolist() == [4, 2, 0]


@dataclasses.dataclass(frozen=True)
class Reverse(Iid):
    step: int = 1

    def deal(self, labels, num_clients, draws):
        return np.array_split(np.arange(len(labels))[:: -self.step], num_clients)


def test_a_split_reports_what_it_dropped_and_carries_the_shifts():
    recipe = parse("labels(1) + noise(0.1)")
    split = recipe.make(np.arange(100) % 10, 4, np.random.default_rng(0))
    assert split.num_dropped == 60
    assert split.shifts == (Noise(0.1),)
