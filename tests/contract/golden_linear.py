"""Trajectories of the softmax model W x + b, for algorithms in which every client begins at the global model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tests.contract.golden import CLIENTS, LR, STEPS, D, Golden, K, Known, Row, X, alike, by_size, errors, walked

# The weights [K, D], row after row, then the biases [K].
START = np.concatenate([np.linspace(-0.3, 0.4, K * D), [0.1, 0.0, -0.2]])


def _errors(w: Row, i: int) -> Row:
    return errors(w[: K * D].reshape(K, D) @ X[i] + w[K * D :], i)


def gradient(w: Row, i: int) -> Row:
    """Of -log softmax(W x + b)_y at client i's sample: (softmax - onehot) x^T and softmax - onehot."""
    p = _errors(w, i)
    return np.concatenate([np.outer(p, X[i]).ravel(), p])


def loss(w: Row, i: int) -> float:
    logits = w[: K * D].reshape(K, D) @ X[i] + w[K * D :]
    return float(np.log(np.exp(logits).sum()) - logits[i])  # client i's label is i


def visit(w: Row, i: int, mu: float = 0.0, shift: Row | float = 0.0) -> Row:
    """Client i's model after its steps from w along g + mu (model - w) + shift."""
    return walked(w, STEPS[i], lambda model: gradient(model, i) + mu * (model - w) + shift)


def fedavg(w: Row) -> Iterator[Known]:
    while True:
        w = by_size(visit(w, i) for i in CLIENTS)
        yield Known(w)


def fedprox(w: Row) -> Iterator[Known]:
    while True:
        w = by_size(visit(w, i, mu=0.5) for i in CLIENTS)
        yield Known(w)


# One unit gradient in 1, 2, 3 steps with momentum .9 moves 1, 2.9, 5.61 in units of lr.
COUNTS = [1.0, 1 + 1.9, 1 + 1.9 + 2.71]


def scaffold(w: Row) -> Iterator[Known]:
    """Option (ii): c_i <- c_i - c + (w - w_i) / (K lr), c the mean of all three."""
    c, own = np.zeros_like(w), [np.zeros_like(w) for _ in CLIENTS]
    while True:
        ends = [visit(w, i, shift=c - own[i]) for i in CLIENTS]
        own = [own[i] - c + (w - ends[i]) / (COUNTS[i] * LR) for i in CLIENTS]
        c, w = alike(own), by_size(ends)
        yield Known(w, memory={"c": own})


def fednova(w: Row) -> Iterator[Known]:
    p = [2 / 12, 4 / 12, 6 / 12]
    effective = sum(p[i] * COUNTS[i] for i in CLIENTS)
    while True:
        w = w - effective * sum(p[i] * (w - visit(w, i)) / COUNTS[i] for i in CLIENTS)
        yield Known(w)


def fedavgm(w: Row, nesterov: bool) -> Iterator[Known]:
    """v <- .9 v + D, then w <- w - v as the paper prints it, or w - (D + .9 v), where D = w - the mean."""
    v = np.zeros_like(w)
    while True:
        d = w - by_size(visit(w, i) for i in CLIENTS)
        v = 0.9 * v + d
        w = w - (d + 0.9 * v) if nesterov else w - v
        yield Known(w)


def fedadagrad(w: Row) -> Iterator[Known]:
    """No first moment: w <- w + lr D / (sqrt v + tau)."""
    v = np.full_like(w, 1e-2)
    while True:
        d = by_size(visit(w, i) for i in CLIENTS) - w
        v = v + d**2
        w = w + 0.3 * d / (np.sqrt(v) + 1e-3)
        yield Known(w)


def fedadam(w: Row) -> Iterator[Known]:
    m, v = np.zeros_like(w), np.full_like(w, 1e-2)
    while True:
        d = by_size(visit(w, i) for i in CLIENTS) - w
        m, v = 0.9 * m + 0.1 * d, 0.5 * v + 0.5 * d**2
        w = w + 0.3 * m / (np.sqrt(v) + 1e-3)
        yield Known(w)


def fedyogi(w: Row) -> Iterator[Known]:
    """v moves by the same amount wherever it is, towards d^2."""
    m, v = np.zeros_like(w), np.full_like(w, 1e-2)
    while True:
        d = by_size(visit(w, i) for i in CLIENTS) - w
        m, v = 0.9 * m + 0.1 * d, np.where(v > d**2, v - 0.5 * d**2, v + 0.5 * d**2)
        w = w + 0.3 * m / (np.sqrt(v) + 1e-3)
        yield Known(w)


def qfedavg(w: Row) -> Iterator[Known]:
    """q = 1: D = F g and h = |g|^2 + F / lr, where g = (w - w_k) / lr."""
    while True:
        f = [loss(w, i) for i in CLIENTS]
        g = [(w - visit(w, i)) / LR for i in CLIENTS]
        w = w - sum(f[i] * g[i] for i in CLIENTS) / sum(g[i] @ g[i] + f[i] / LR for i in CLIENTS)
        yield Known(w)


def qfedavg_of_rfedavg(w: Row) -> Iterator[Known]:
    """q = 1, L = 1: D = F (w - w_k), and its own square, F^2 and all, goes into h = |D|^2 + F."""
    while True:
        f = [loss(w, i) for i in CLIENTS]
        d = [f[i] * (w - visit(w, i)) for i in CLIENTS]
        w = w - sum(d) / sum(d[i] @ d[i] + f[i] for i in CLIENTS)
        yield Known(w)


def feddyn(w: Row) -> Iterator[Known]:
    """Along g - l + .1 (model - w); l <- l - .1 (w_k - w); h <- h - .1 mean(w_k - w); w <- mean(w_k) - h / .1."""
    h, own = np.zeros_like(w), [np.zeros_like(w) for _ in CLIENTS]
    while True:
        ends = [visit(w, i, mu=0.1, shift=-own[i]) for i in CLIENTS]
        own = [own[i] - 0.1 * (ends[i] - w) for i in CLIENTS]
        h = h - 0.1 * (alike(ends) - w)
        w = alike(ends) - h / 0.1
        yield Known(w, memory={"l": own})


def alone(w: Row) -> Iterator[Known]:
    """The server's model stays where it was, for nobody sends it anything."""
    models = [w, w, w]
    while True:
        models = [visit(models[i], i) for i in CLIENTS]
        yield Known(w, tested=np.stack(models), memory={"w": models})


def centralised(w: Row) -> Iterator[Known]:
    """Two steps a round on the mean of all twelve samples."""
    while True:
        w = walked(w, 2, lambda model: by_size(gradient(model, i) for i in CLIENTS))
        yield Known(w)


GOLDEN: dict[str, Golden] = {
    "fedavg": fedavg,
    "fedbn": fedavg,  # the model has no BatchNorm
    "fedprox(0.5)": fedprox,
    "scaffold": scaffold,
    "fednova": fednova,
    "fedavgm(0.9)": partial(fedavgm, nesterov=True),
    "fedavgm(0.9, nesterov=false)": partial(fedavgm, nesterov=False),
    # A rate and a decay at which four rounds show what becomes of m and v.
    "fedadagrad(lr=0.3, v_init=1e-2)": fedadagrad,
    "fedadam(lr=0.3, beta2=0.5, v_init=1e-2)": fedadam,
    "fedyogi(lr=0.3, beta2=0.5, v_init=1e-2)": fedyogi,
    "qfedavg(1.0)": qfedavg,
    "qfedavg(1.0, variant=rfedavg-code)": qfedavg_of_rfedavg,
    "feddyn(0.1)": feddyn,
    "local": alone,
    "centralised": centralised,
}
