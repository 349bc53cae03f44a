"""What every shift keeps to: run over the registry; and what each of them does."""

import numpy as np
import pytest
import torch

from noniid.errors import BadInput
from noniid.seeds import Published
from noniid.split import (
    SHIFTS,
    Blur,
    Contrast,
    LabelNoise,
    Noise,
    Reading,
    Recipe,
    Rotate,
    Scale,
    Sizes,
    Standardise,
    Traits,
    parse,
)

# Usable instances of everything registered.
EXAMPLES = {
    "noise": [Noise(0.3), Noise(0.3, "std"), Noise(0.3, draw="frozen")],
    "rotate": [Rotate(90), Rotate(-30, "same")],
    "scale": [Scale(1), Scale(-0.5, "same")],
    "contrast": [Contrast(0.5), Contrast(-0.9, "same")],
    "blur": [Blur(1.5), Blur(0.5, "same")],
    "standardise": [Standardise(), Standardise("global"), Standardise("none")],
    "label_noise": [LabelNoise(0.5), LabelNoise(0.3, "next", "same")],
}
ALL = [shift for examples in EXAMPLES.values() for shift in examples]
N = 4
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 5, 400)
IMAGES = torch.from_numpy(RNG.random((400, 2, 6, 8), dtype=np.float32)) + torch.arange(2.0).view(1, 2, 1, 1)
TRAITS = Traits(LABELS, read=lambda index: IMAGES[index])


def make(shift, seed=0, draws=np.random.default_rng):
    shifts = parse(shift).shifts if isinstance(shift, str) else (shift,)
    return Recipe(Sizes("150,120,80,50"), shifts).make(TRAITS, None, draws(seed))


def read(split, client, index=None, seed=0, test=False):
    index = torch.as_tensor(split.indices[client] if index is None else index)
    reading = Reading(index, client, split.views, torch.Generator().manual_seed(seed), test)
    return split.shifted(IMAGES[index], reading)


def test_every_registered_shift_has_examples():
    assert set(EXAMPLES) == set(SHIFTS)
    assert {type(shift) for shift in ALL} == set(SHIFTS.values())


@pytest.mark.parametrize("draws", [np.random.default_rng, Published])
@pytest.mark.parametrize("shift", ALL, ids=SHIFTS.write)
def test_deterministic_and_without_side_effects(shift, draws):
    before, labels = IMAGES.clone(), LABELS.copy()
    split, again = make(shift, 3, draws), make(shift, 3, draws)
    for client in range(N):
        x = read(split, client)
        assert x.shape == IMAGES[split.indices[client]].shape and x.dtype == torch.float32
        assert torch.equal(x, read(again, client))
    assert torch.equal(IMAGES, before) and (labels == LABELS).all()
    assert (split.labels is None) == (not isinstance(shift, LabelNoise))
    assert split.labels is None or (split.labels == again.labels).all()


@pytest.mark.parametrize("shift", ALL, ids=SHIFTS.write)
def test_who_holds_what_does_not_change(shift):
    plain = Recipe(Sizes("150,120,80,50")).make(TRAITS, None, np.random.default_rng(5))
    assert all((a == b).all() for a, b in zip(plain.indices, make(shift, 5).indices, strict=True))


@pytest.mark.parametrize("shift", ALL, ids=SHIFTS.write)
def test_the_level_says_whether_anything_changes(shift):
    split = make(shift)
    for client in range(N):
        held = split.indices[client]
        same = torch.equal(read(split, client), IMAGES[held])
        if split.labels is not None:
            same = same and (split.labels[held] == LABELS[held]).all()
        assert same == (shift.level(client, N) == 0)


@pytest.mark.parametrize("shift", ALL, ids=SHIFTS.write)
def test_the_test_set_is_shifted_where_it_says_so(shift):
    split = make(shift)
    index = torch.arange(5)
    for client in range(N):
        x = read(split, client, index, test=True)
        assert torch.equal(x, IMAGES[:5]) == (not shift.on_test or shift.level(client, N) == 0)
    assert split.test_views == (N if shift.on_test and not shift.alike else 1)


@pytest.mark.parametrize("shift", [s for s in ALL if s.alike], ids=SHIFTS.write)
def test_where_all_are_alike_all_see_the_same(shift):
    split = make(shift)
    first, *others = (read(split, client, np.arange(5)) for client in range(N))
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("shift", ALL, ids=SHIFTS.write)
def test_pooled_samples_stay_as_their_owners_have_them(shift):
    if shift == Noise(0.3) or shift == Noise(0.3, "std"):
        return  # drawn anew: other noise of the same strength, see tests/engine
    split = make(shift)
    pooled = split.pooled()
    x = read(pooled, 0)
    own = torch.cat([read(split, client) for client in range(N)])
    torch.testing.assert_close(x, own)
    index = torch.from_numpy(pooled.indices[0])
    y = pooled.relabelled(torch.from_numpy(LABELS)[index], index)
    assert y.tolist() == (LABELS if split.labels is None else split.labels)[index.numpy()].tolist()


def test_shifts_add_up_in_their_order():
    one = make("scale(1) + contrast(0.5)")
    x = IMAGES[one.indices[3]]
    by_hand = Contrast(0.5).apply(Scale(1).apply(x, _last()), _last())
    torch.testing.assert_close(read(one, 3), by_hand)


def _last():
    return Reading(torch.arange(1), N - 1, N, torch.Generator())


# Each of them


def test_a_quarter_turn_is_exact_on_any_shape():
    square = IMAGES[:3, :, :, :6]
    for degrees, turns in ((90, 1), (180, 2), (-90, 3), (360, 0), (450, 1)):
        turned = Rotate(degrees).apply(square, _last())
        torch.testing.assert_close(turned, torch.rot90(square, turns, (2, 3)), rtol=0, atol=2e-6)
    turned = Rotate(180).apply(IMAGES[:3], _last())
    torch.testing.assert_close(turned, IMAGES[:3].flip(2, 3), rtol=0, atol=2e-6)


def test_turning_keeps_lengths_on_an_oblong_image():
    """A point three pixels to the right of the centre lies three pixels above it after a quarter turn."""
    x = torch.zeros(1, 1, 9, 15)
    x[0, 0, 4, 10] = 1
    turned = Rotate(90).apply(x, _last())
    assert turned[0, 0, 1, 7] == pytest.approx(1, abs=1e-5) and turned.sum() == pytest.approx(1, abs=1e-5)


def test_four_clients_of_rotated_mnist():
    assert [Rotate(270).level(i, 4) for i in range(4)] == [0, 90, 180, 270]


def test_scale_and_contrast_by_hand():
    x = torch.tensor([1.0, 3.0]).view(1, 1, 1, 2)
    assert Scale(0.5).apply(x, _last()).flatten().tolist() == [1.5, 4.5]
    assert Contrast(-0.5).apply(x, _last()).flatten().tolist() == [1.5, 2.5]
    rows = torch.ones(2, 3)
    assert Scale(1, "same").apply(rows, _last()).tolist() == [[2.0] * 3] * 2


def test_blur_keeps_the_sum_and_has_the_width_asked_for():
    x = torch.zeros(1, 1, 41, 41)
    x[0, 0, 20, 20] = 1
    blurred = Blur(2).apply(x, _last())[0, 0]
    assert blurred.sum().item() == pytest.approx(1, abs=1e-4)
    offsets = torch.arange(-20.0, 21.0)
    for side in (blurred.sum(0), blurred.sum(1)):
        assert (side * offsets.square()).sum().sqrt().item() == pytest.approx(2, rel=0.03)
    flat = torch.full((1, 3, 4, 5), 0.7)
    torch.testing.assert_close(Blur(9).apply(flat, _last()), flat)


def test_standardised_clients_have_mean_0_and_deviation_1():
    split = make(Standardise())
    for client in range(N):
        x = read(split, client)
        torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(2), rtol=0, atol=1e-5)
        torch.testing.assert_close(x.std((0, 2, 3), correction=0), torch.ones(2), rtol=0, atol=1e-5)
    everything = torch.cat([read(make(Standardise("global")), client) for client in range(N)])
    torch.testing.assert_close(everything.mean((0, 2, 3)), torch.zeros(2), rtol=0, atol=1e-5)
    torch.testing.assert_close(everything.std((0, 2, 3), correction=0), torch.ones(2), rtol=0, atol=1e-5)


def test_tables_are_standardised_by_column_and_constants_stay_finite():
    x = np.stack([np.arange(6.0), np.full(6, 7.0)], axis=1).astype(np.float32)
    traits = Traits(np.zeros(6, int), read=lambda index: x[index])
    split = parse("fcube + standardise").make(traits, 2, np.random.default_rng(0))
    reading = Reading(torch.arange(3, 6), 1, 2, torch.Generator())
    assert split.shifted(torch.from_numpy(x[3:]), reading).tolist() == [
        pytest.approx([-(1.5**0.5), 0]),
        pytest.approx([0, 0]),
        pytest.approx([1.5**0.5, 0]),
    ]


def test_standardising_undoes_what_came_before_it():
    alone, scaled = make(Standardise()), make("scale(3) + standardise")
    torch.testing.assert_close(read(scaled, 3), read(alone, 3), rtol=1e-4, atol=1e-4)
    noisy = make("noise(4) + standardise")
    assert noisy.fitted[1][3][1].mean() > 1.5  # the noise is in the deviation


@pytest.mark.parametrize("kind", ["uniform", "next"])
def test_wrong_labels(kind):
    labels = np.arange(40_000) % 4
    split = parse(f"iid + label_noise(0.6, {kind})").make(labels, 4, np.random.default_rng(0))
    for client, held in enumerate(split.indices):
        true, seen = labels[held], split.labels[held]
        assert (true != seen).mean() == pytest.approx(0.2 * client, abs=0.02)
        moved = (seen - true)[true != seen] % 4
        shares = np.bincount(moved, minlength=4) / max(len(moved), 1)
        expected = [0, 1, 0, 0] if kind == "next" else [0, 1 / 3, 1 / 3, 1 / 3]
        assert shares == pytest.approx(expected if client else [0] * 4, abs=0.03)
    assert split.counts(labels, 4).sum() == 40_000


def test_wrong_labels_twice():
    twice = make("label_noise(1, next, grow=same) + label_noise(1, next, grow=same)")
    assert (twice.labels == (LABELS + 2) % 5).all()


def test_a_dropped_sample_keeps_its_label():
    split = parse("sizes('50,50') + label_noise(1, grow=same)").make(LABELS, None, np.random.default_rng(0))
    dropped = np.setdiff1d(np.arange(400), np.concatenate(split.indices))
    assert (split.labels[dropped] == LABELS[dropped]).all()


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (Rotate(float("inf")), "rotate's degrees is a number, not inf"),
        (Rotate(1, "square"), "rotate's grow is linear or same, not 'square'"),  # type: ignore[arg-type]
        (Scale(-1), "scale's by is a number above -1 .*, not -1"),
        (Contrast(-2), "contrast's by is a number above -1 .*, not -2"),
        (Blur(-1), "blur's sigma is a number of pixels from 0 to 100, not -1"),
        (Standardise("clients"), "standardise is by client, global or none, not 'clients'"),  # type: ignore[arg-type]
        (LabelNoise(1.5), "label_noise's rate is a share from 0 to 1, not 1.5"),
        (LabelNoise(0.5, "previous"), "label_noise's kind is uniform or next"),  # type: ignore[arg-type]
        (LabelNoise(0.5, grow="up"), "label_noise's grow is linear or same, not 'up'"),  # type: ignore[arg-type]
    ],
)
def test_refusals(shift, message):
    with pytest.raises(BadInput, match=message):
        make(shift)


def test_what_does_not_suit_the_data():
    rows = torch.zeros(2, 54)
    for shift in (Rotate(90), Contrast(1), Blur(1)):
        with pytest.raises(BadInput, match="is for images, and these samples are rows of 54 values"):
            shift.apply(rows, _last())
    with pytest.raises(BadInput, match="looks at features and was given labels only"):
        parse("iid + standardise").make(LABELS, 3, np.random.default_rng(0))
    with pytest.raises(BadInput, match="label_noise needs two classes or more"):
        parse("iid + label_noise(0.1)").make(np.zeros(9, int), 3, np.random.default_rng(0))
