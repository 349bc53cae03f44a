"""A small network's passes and steps, each one compiled call.

Shapes: C clients, B samples in blocks of L lanes (`each` lanes in all), P weights of all layers, one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noniid.models.compiled.layers import (
    Grid,
    L,
    compiled,
    connect,
    connect_back,
    convolve,
    convolve_back,
    to_lanes,
    to_rows,
    with_border,
)
from noniid.models.compiled.plan import Room


@compiled
def inputs(i: int, linears: Any, num_convs: int, acts: Any, each: int) -> Grid:
    """Those of linear layer i, [k, blocks]: maps lie block by block, all else number by number."""
    k, at = linears[i, 0], linears[i, 2] * each
    return Grid(acts, at, L, k * L) if i == 0 and num_convs else Grid(acts, at, each, L)


@compiled
def onward(x: Any, num: int, weights: Any, convs: Any, linears: Any, room: Room):  # type: ignore[no-untyped-def]
    """Fills activations and codes; logits come last."""
    each, size = (num + L - 1) // L * L, len(x) // num
    for i in range(len(convs)):
        if convs[i, 3]:
            room.acts[convs[i, 6] * each : (convs[i, 6] + convs[i, 0] * convs[i, 1] * convs[i, 2]) * each] = 0
    if len(convs) and convs[0, 3]:
        with_border(x, num, convs[0, 0], convs[0, 1], convs[0, 2], convs[0, 3], room.acts)
    else:
        to_lanes(x, num, size, Grid(room.acts, 0, L, size * L) if len(convs) else Grid(room.acts, 0, each, L))
    for i in range(len(convs)):
        to = convs[i + 1, 6] if i + 1 < len(convs) else linears[0, 2]
        convolve(
            room.acts, convs[i, 6] * each, each // L, convs[i], weights, room.acts, to * each, room.codes, room.taps
        )
    for i in range(len(linears)):
        k, o, at, own = linears[i]
        a = inputs(i, linears, len(convs), room.acts, each)
        connect(a, each, k, o, weights, own, room.acts, (at + k) * each, i + 1 < len(linears), room.taps)


@compiled
def back(g_features: Any, shown: int, num: int, weights: Any, convs: Any, linears: Any, room: Room, grad: Any):  # type: ignore[no-untyped-def]
    """Gradients of all weights, from those of logits, in `room.d`, and of features (which may be empty: none)."""
    each, d, before = (num + L - 1) // L * L, room.d, room.before
    for i in range(len(linears) - 1, -1, -1):
        k, o, at, own = linears[i]
        a, stride = inputs(i, linears, len(convs), room.acts, each), (k + L - 1) // L * L
        asked = i > 0 or len(convs) > 0
        to_rows(a, each, k, room.rows, stride)
        towards = Grid(before, 0, a.row if asked else 0, a.column)
        connect_back(d, Grid(room.rows, 0, stride, L), num, each, k, o, weights, own, grad, towards, room.taps)
        if asked and i == shown and len(g_features):
            to_lanes(g_features, num, k, Grid(room.rows, 0, a.row, a.column))
            for place in range(each * k):
                before[place] += room.rows[place]
        if i > 0:
            for place in range(each * k):
                before[place] = np.float32(0) if room.acts[at * each + place] <= 0 else before[place]
        d, before = before, d
    for i in range(len(convs) - 1, -1, -1):
        towards = before if i > 0 else before[:0]
        at = convs[i, 6] * each
        convolve_back(d, room.codes, room.acts, at, each // L, convs[i], weights, grad, towards, room.taps, room.work)
        d, before = before, d


@compiled
def forward(
    x: Any, num: int, weights: Any, convs: Any, linears: Any, shown: int, room: Room, logits: Any, features: Any
):  # type: ignore[no-untyped-def]
    """What the network says of x: logits [B, K] and the inputs of the linear layer that is shown [B, F]."""
    onward(x, num, weights, convs, linears, room)
    each = (num + L - 1) // L * L
    k, o, at, _ = linears[-1]
    to_rows(Grid(room.acts, (at + k) * each, each, L), num, o, logits, o)
    to_rows(inputs(shown, linears, len(convs), room.acts, each), num, linears[shown, 0], features, linears[shown, 0])


@compiled
def backward(
    g: Any, g_features: Any, num: int, weights: Any, convs: Any, linears: Any, shown: int, room: Room, grad: Any
):  # type: ignore[no-untyped-def]
    """Gradients of all weights, from those of what `forward` gave."""
    to_lanes(g, num, linears[-1, 1], Grid(room.d, 0, (num + L - 1) // L * L, L))
    back(g_features, shown, num, weights, convs, linears, room, grad)


@compiled
def cross_entropy(logits: Any, at: int, num: int, num_classes: int, y: Any, d: Any) -> float:
    """The mean over a batch, and its gradient: logits and d are [K, each]."""
    loss, each = 0.0, (num + L - 1) // L * L
    d[: num_classes * each] = 0
    for n in range(num):
        if not 0 <= y[n] < num_classes:
            raise IndexError("a label is none of the model's classes")
        most = logits[at + n]
        for k in range(1, num_classes):
            most = max(most, logits[at + n + k * each])
        whole = np.float32(0)
        for k in range(num_classes):
            d[n + k * each] = np.exp(logits[at + n + k * each] - most)
            whole += d[n + k * each]
        share = np.float32(1) / (whole * np.float32(num))
        for k in range(num_classes):
            d[n + k * each] *= share
        d[n + y[n] * each] -= np.float32(1) / np.float32(num)
        loss += np.log(whole) + most - logits[at + n + y[n] * each]
    return loss / num


@compiled
def descend(x: Any, y: Any, num: int, weights: Any, convs: Any, linears: Any, room: Room, grad: Any) -> float:
    """The mean cross-entropy of a batch, x [B, size], and its gradient."""
    onward(x, num, weights, convs, linears, room)
    each = (num + L - 1) // L * L
    at = (linears[-1, 2] + linears[-1, 0]) * each
    loss = cross_entropy(room.acts, at, num, linears[-1, 1], y, room.d)
    back(room.acts[:0], -1, num, weights, convs, linears, room, grad)
    return loss


@compiled
def descend_all(x: Any, y: Any, lengths: Any, weights: Any, convs: Any, linears: Any, room: Room, grad: Any, loss: Any):  # type: ignore[no-untyped-def]
    """The same for clients: x [C, B, size], y [C, B], of which `lengths` [C] samples count; weights, grad [C, P]."""
    for c in range(len(lengths)):
        num = lengths[c]
        loss[c] = descend(x[c, :num].reshape(-1), y[c], num, weights[c], convs, linears, room, grad[c])


@compiled
def step(w: Any, g: Any, momentum: Any, sgd: Any):  # type: ignore[no-untyped-def]
    """SGD's step in place, as optim.SGD.step_."""
    lr, rho, decay, nesterov = np.float32(sgd[0]), np.float32(sgd[1]), np.float32(sgd[2]), sgd[3]
    if rho == 0:
        for p in range(len(w)):
            w[p] -= lr * (g[p] + decay * w[p])
    elif nesterov:
        for p in range(len(w)):
            d = g[p] + decay * w[p]
            momentum[p] = rho * momentum[p] + d
            w[p] -= lr * (d + rho * momentum[p])
    else:
        for p in range(len(w)):
            momentum[p] = rho * momentum[p] + (g[p] + decay * w[p])
            w[p] -= lr * momentum[p]


class Source(NamedTuple):
    """All samples: inputs [N, size], what they are divided by, labels [N]."""

    x: Any
    scale: float
    y: Any


class Batch(NamedTuple):
    """Room for the samples of a step: inputs [B * size], labels [B]."""

    x: Any
    y: Any


@compiled
def gathered(source: Source, order: Any, into: Batch):  # type: ignore[no-untyped-def]
    """These of the samples, as a batch."""
    size = source.x.shape[1]
    for n in range(len(order)):
        own = order[n]
        if not 0 <= own < len(source.x):
            raise IndexError("a sample is none of the data set's")
        into.y[n] = source.y[own]
        for k in range(size):
            into.x[n * size + k] = np.float32(source.x[own, k]) / np.float32(source.scale)


@compiled
def look(source: Source, order: Any, into: Batch, w: Any, convs: Any, linears: Any, room: Room, grad: Any) -> float:
    """`descend` for these samples."""
    num = len(order)
    gathered(source, order, into)
    return descend(into.x[: num * source.x.shape[1]], into.y, num, w, convs, linears, room, grad)


@compiled
def walk(source: Source, order: Any, batch: int, into: Batch, w: Any, convs: Any, linears: Any, room: Room, grad: Any, momentum: Any, sgd: Any) -> float:  # fmt: skip
    """Steps of SGD over these samples, a batch each; the sum of their losses."""
    total = 0.0
    for first in range(0, len(order), batch):
        total += look(source, order[first : first + batch], into, w, convs, linears, room, grad)
        step(w, grad, momentum, sgd)
    return total
