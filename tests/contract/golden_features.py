"""Trajectories for algorithms that compare features, which must depend on the model: logits V (U x), features U x."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from tests.contract.golden import CLIENTS, STEPS, D, Golden, K, Known, Row, X, by_size, errors, walked

F = 2
# U [F, D], row after row, then V [K, F].
START = np.concatenate([[0.6, -0.4, 0.3, 0.8], np.linspace(-0.5, 0.6, K * F)])

Pull = Callable[[Row], Row]  # features in; the gradient in them of what is added to the cross-entropy out


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.empty(F, D))
        self.v = nn.Parameter(torch.empty(K, F))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = x @ self.u.T
        return features @ self.v.T, features


def features(w: Row, i: int) -> Row:
    """Of client i's sample, so their mean over its data and over every batch of it, too."""
    return w[: F * D].reshape(F, D) @ X[i]


def _gradient(w: Row, i: int, pull: Pull) -> Row:
    """dV = e z^T and dU = (V^T e + pull(z)) x^T, where z = U x and e = softmax - onehot."""
    z, v = features(w, i), w[F * D :].reshape(K, F)
    e = errors(v @ z, i)
    return np.concatenate([np.outer(v.T @ e + pull(z), X[i]).ravel(), np.outer(e, z).ravel()])


def free(z: Row) -> Row:
    return np.zeros_like(z)


def visit(w: Row, i: int, pull: Pull = free) -> Row:
    return walked(w, STEPS[i], lambda model: _gradient(model, i, pull))


def fedavg(w: Row) -> Iterator[Known]:
    while True:
        w = by_size(visit(w, i) for i in CLIENTS)
        yield Known(w)


def drawn_to(target: Row) -> Pull:
    """Of lam |z - target|^2 with lam = .5; the target is a constant."""
    return lambda z: 2 * 0.5 * (z - target)


def drawn_to_others(delta: list[Row], i: int) -> Pull:
    """Of lam 1/(N-1) sum_j |z - delta_j|^2 over the two others, equation (5), term by term."""
    j, k = {0, 1, 2} - {i}
    return lambda z: 0.5 / 2 * (2 * (z - delta[j]) + 2 * (z - delta[k]))


def rfedavg(w: Row) -> Iterator[Known]:
    """delta_k from the client's own model at the end of its last round; in the first round nobody has sent one."""
    pulls = [free, free, free]
    while True:
        ends = [visit(w, i, pulls[i]) for i in CLIENTS]
        delta = [features(ends[i], i) for i in CLIENTS]
        pulls = [drawn_to_others(delta, i) for i in CLIENTS]
        w = by_size(ends)
        yield Known(w, memory={"delta": delta})


def rfedavg_plus(w: Row) -> Iterator[Known]:
    """delta_k from the new global model; the server sends each client the mean of the two others'."""
    pulls = [free, free, free]
    while True:
        w = by_size(visit(w, i, pulls[i]) for i in CLIENTS)
        delta = [features(w, i) for i in CLIENTS]
        pulls = [drawn_to((sum(delta) - delta[i]) / 2) for i in CLIENTS]
        yield Known(w, memory={"delta": delta})


def rfedavg_plus_as_published(w: Row) -> Iterator[Known]:
    """The code sends delta when a round begins, the first one too, and all clients get the mean of all three."""
    while True:
        everyone = drawn_to(sum(features(w, i) for i in CLIENTS) / 3)
        w = by_size(visit(w, i, everyone) for i in CLIENTS)
        yield Known(w)


def _cosine(z: Row, other: Row) -> tuple[float, Row]:
    """z.o / (|z| |o|), and its gradient in z: (o/|o| - cosine z/|z|) / |z|."""
    length, unit = np.sqrt(z @ z), other / np.sqrt(other @ other)
    cosine = z @ unit / length
    return cosine, (unit - cosine * z / length) / length


def contrast(near: Row, far: Row, mu: float, temperature: float) -> Pull:
    """Of -mu log(e^(s/T) / (e^(s/T) + e^(p/T))) = mu log(1 + e^((p-s)/T)): mu sigmoid((p-s)/T) (p' - s') / T."""

    def pull(z: Row) -> Row:
        (s, ds), (p, dp) = _cosine(z, near), _cosine(z, far)
        return mu / (1 + np.exp((s - p) / temperature)) * (dp - ds) / temperature

    return pull


def moon(w: Row, mu: float, temperature: float) -> Iterator[Known]:
    """Drawn to the features of the model received, pushed from those of the client's own last one."""
    last = [w, w, w]
    while True:
        pulls = [contrast(features(w, i), features(last[i], i), mu, temperature) for i in CLIENTS]
        last = [visit(w, i, pulls[i]) for i in CLIENTS]
        w = by_size(last)
        yield Known(w, memory={"last": last})


GOLDEN: dict[str, Golden] = {
    "fedavg": fedavg,
    "rfedavg(0.5)": rfedavg,
    "rfedavg_plus(0.5)": rfedavg_plus,
    "rfedavg_plus(0.5, delta=batch, others=cohort, itself=included)": rfedavg_plus_as_published,
    "moon(2, temperature=0.4)": partial(moon, mu=2, temperature=0.4),
}
