"""Trajectories on the same softmax model where clients begin at models of different origin: RADFed and FedAsync.

Who gets which model is drawn, and the draws are taken as they come; what is made of them is worked out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import numpy as np

from noniid import seeds
from noniid.algorithms import Federation
from noniid.algorithms.fedasync import _draw
from tests.contract.golden import CLIENTS, SEED, Golden, Known, Row, alike
from tests.contract.golden_linear import gradient, visit


def order(round: int) -> list[int]:
    """The model that each of the three clients gets."""
    return [int(model) for model in seeds.stream(SEED, "update", round, 0).permutation(3)]


def _passed_on(models: list[Row], round: int, mu: float = 0.0) -> list[Row]:
    """The three models after every client has trained the one it got, near what it got."""
    got = order(round)
    return [visit(models[got[i]], i, mu) for i in CLIENTS]


def radfed(w: Row, mu: float = 0.0, alpha: float = 1.0) -> Iterator[Known]:
    """In every second round w <- alpha times the unweighted mean + (1 - alpha) w; in between, the mean is tested."""
    models = [w, w, w]
    for round in count(1):
        models = _passed_on(models, round, mu)
        if round % 2 == 0:
            w = alpha * alike(models) + (1 - alpha) * w
            models = [w, w, w]
        yield Known(w, tested=alike(models))


def radfed_a(w: Row) -> Iterator[Known]:
    """FedAdam's server, whose rounds are RADFed's aggregates."""
    models, m, v = [w, w, w], np.zeros_like(w), np.full_like(w, 1e-2)
    for round in count(1):
        models = _passed_on(models, round)
        if round % 2 == 0:
            d = alike(models) - w
            m, v = 0.9 * m + 0.1 * d, 0.5 * v + 0.5 * d**2
            w = w + 0.3 * m / (np.sqrt(v) + 1e-3)
            models = [w, w, w]
        yield Known(w, tested=alike(models))


def radfed_is(w: Row, share: Callable[[int], float]) -> Iterator[Known]:
    """RADFed, with scores p_k <- (1 - share) p_k + share |g_k|^2 at the model just trained, and at w to begin with.

    Everyone is drawn in every round, so that the scores decide nothing. A client's batches are all alike, so that
    the mean of their squared norms is that of one.
    """
    models = [w, w, w]
    scores = [gradient(w, i) @ gradient(w, i) for i in CLIENTS]
    for round in count(1):
        models = _passed_on(models, round)
        fresh = [gradient(models[i], i) @ gradient(models[i], i) for i in CLIENTS]
        scores = [(1 - share(round)) * scores[i] + share(round) * fresh[i] for i in CLIENTS]
        if round % 2 == 0:
            w = alike(models)
            models = [w, w, w]
        yield Known(w, tested=alike(models), memory={"score": np.reshape(scores, (3, 1))})


def arrivals(max_staleness: int) -> Iterator[list[tuple[int, int]]]:
    """Round after round, its three arrivals: client and staleness."""
    three = Federation(3, 3, random_model=NotImplemented)
    for round in count(1):
        drawn = _draw(seeds.stream(SEED, "pick", round), three, max_staleness, 3 * (round - 1))
        yield [(int(client), int(old)) for client, old in zip(*drawn)]


def fedasync(w: Row, trust: Callable[[int], float]) -> Iterator[Known]:
    """w <- (1 - a) w + a w_new, a = .6 trust(staleness), one arrival after the other; clients are held with rho = .5.

    A client that is `old` versions late began at the model of `old` arrivals before its own.
    """
    versions = [w]
    for three in arrivals(max_staleness=2):
        for client, old in three:
            new = visit(versions[-1 - old], client, mu=0.5)
            a = 0.6 * trust(old)
            versions.append((1 - a) * versions[-1] + a * new)
        yield Known(versions[-1])


GOLDEN: dict[str, Golden] = {
    "radfed(2)": radfed,
    "radfed_p(2, mu=0.5)": partial(radfed, mu=0.5),
    "radfed_m(2, alpha=0.6)": partial(radfed, alpha=0.6),
    "radfed_a(2, lr=0.3, beta2=0.5, v_init=1e-2)": radfed_a,
    "radfed_is(2, gamma=0.9)": partial(radfed_is, share=lambda round: 0.9),
    # The mean of the first score and those of all visits, of which there is one in every round.
    "radfed_is(2, gamma=none)": partial(radfed_is, share=lambda round: 1 / (round + 1)),
    "fedasync(0.6, rho=0.5, max_staleness=2)": partial(fedasync, trust=lambda old: 1),
    "fedasync(0.6, poly, a=0.5, rho=0.5, max_staleness=2)": partial(fedasync, trust=lambda old: (old + 1) ** -0.5),
    "fedasync(0.6, hinge, a=10, b=1, rho=0.5, max_staleness=2)": partial(
        fedasync, trust=lambda old: 1 if old <= 1 else 1 / (10 * (old - 1) + 1)
    ),
}
