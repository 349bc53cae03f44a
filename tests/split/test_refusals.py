"""Requests that cannot be met end at once, in one sentence that says what to change."""

import numpy as np
import pytest

from noniid.errors import BadInput
from noniid.seeds import Published
from noniid.split import Recipe, parse
from noniid.split import label as label_module
from noniid.split import quantity as quantity_module

LABELS = np.arange(1000) % 10


def refusal(text, num_clients=10, labels=LABELS, draws=None):
    with pytest.raises(BadInput) as caught:
        parse(text).make(labels, num_clients, draws or np.random.default_rng(0))
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message and len(message) < 200
    return message


@pytest.mark.parametrize(
    ("text", "num_clients", "message"),
    [
        ("iid", 0, "at least one client, not 0"),
        ("iid", -3, "at least one client, not -3"),
        ("fcube", 1001, "1,000 samples cannot be split over 1,001 clients: use fewer clients"),
        ("dirichlet(0)", 10, "beta is a number above 0, not 0"),
        ("dirichlet(-1)", 10, "beta is a number above 0, not -1"),
        ("dirichlet(nan)", 10, "beta is a number above 0, not nan"),
        ("dirichlet(inf)", 10, "beta is a number above 0, not inf"),
        ("dirichlet(1, min_size=0)", 10, "min_size is at least 1, not 0"),
        ("dirichlet(1, seed=-1)", 10, "seed is a whole number from 0"),
        ("dirichlet(1)", 101, "lower min_size or use fewer clients"),
        ("quantity(0)", 10, "quantity's beta is a number above 0"),
        ("quantity(1, min_size=-1)", 10, "min_size is at least 1"),
        ("quantity(1, min_size=11)", 100, "lower min_size or use fewer clients"),
        ("labels(0)", 10, "at least one label per client, not 0"),
        ("labels(11)", 10, "more labels than the 10 there are: lower k"),
        ("labels(1)", 1000 - 1, "clients empty: use fewer clients"),
        ("noise(-0.1)", 10, "sigma is a number from 0 up, not -0.1"),
        ("noise(nan)", 10, "sigma is a number from 0 up"),
    ],
)
def test_messages(text, num_clients, message):
    labels = LABELS if text != "labels(1)" else np.append(np.zeros(995, int), [1, 1, 2, 2, 3])
    assert message in refusal(text, num_clients, labels)


def test_constructing_is_never_an_error():
    for text in ("labels(-1)", "dirichlet(-1)", "quantity(0)", "noise(-1)"):
        assert str(parse(text)).endswith(text)


@pytest.mark.parametrize("labels", [np.array([0.5, 1.0, 0.0]), np.array([[0, 1], [1, 0]]), np.array([0, -1, 2])])
def test_labels_that_are_no_classes(labels):
    assert "class labels" in refusal("labels(1)", 1, labels)
    assert Recipe().make(labels, 1, np.random.default_rng(0)).num_clients == 1


class NoDraws:
    """Refusing must not need the run's stream."""

    def __getattr__(self, name):
        raise AssertionError(f"drew {name}")


@pytest.mark.parametrize("text", ["dirichlet(0.001)", "dirichlet(0.001, cap=false)", "dirichlet(0.001, seed=2020)"])
def test_a_hopeless_search_is_not_begun(text, monkeypatch):
    monkeypatch.setattr(label_module, "Published", lambda seed: NoDraws())
    labels = np.arange(60_000) % 10
    message = refusal(text, 1000, labels, NoDraws())
    assert "10 samples or more for 1,000 clients is out of reach" in message
    assert "raise beta, lower min_size or use fewer clients" in message


def test_a_hopeless_quantity_is_not_begun():
    class OnlyPermutes(NoDraws):
        def permutation(self, x):
            return np.arange(x)

    assert "out of reach" in refusal("quantity(0.01)", 1000, np.zeros(60_000, int), OnlyPermutes())


@pytest.mark.parametrize("text", ["dirichlet(0.05)", "quantity(0.05)"])
def test_an_unlucky_search_stops_after_its_attempts(text, monkeypatch):
    monkeypatch.setattr(label_module, "ATTEMPTS", 7)
    monkeypatch.setattr(quantity_module, "MOST_ATTEMPTS", 7)

    class Unlucky(Published):
        attempts = 0

        def dirichlet(self, alpha, /):
            self.attempts += 1
            return np.eye(len(alpha))[0]

    draws = Unlucky(0)
    assert "did not succeed in 7 draws: raise beta" in refusal(text, 4, np.zeros(2000, int), draws)
    assert draws.attempts == 7


@pytest.mark.parametrize("make_draws", [Published, np.random.default_rng])
def test_proportions_that_underflow_are_an_attempt_that_failed(make_draws, monkeypatch):
    """With a tiny beta all proportions may be 0, and the legacy draw itself 0/0: no warning, no crash."""
    monkeypatch.setattr(label_module, "ATTEMPTS", 20)
    monkeypatch.setattr(quantity_module, "MOST_ATTEMPTS", 20)
    for text in ("dirichlet(1e-9)", "dirichlet(1e-300, cap=false)", "quantity(1e-9)", "quantity(1e-300)"):
        assert "raise beta" in refusal(text, 3, np.arange(100) % 2, make_draws(0))


def test_the_refusal_is_not_too_eager():
    """Requests that succeed about once in a hundred attempts are worth the search."""
    labels = np.arange(50_000) % 10
    split = parse("dirichlet(0.1)").make(labels, 200, np.random.default_rng(0))
    assert split.sizes.min() >= 10
    split = parse("quantity(0.5)").make(labels, 50, np.random.default_rng(0))
    assert split.sizes.min() >= 10
