"""Compiled layers: 5x5 convolutions with ReLU and 2x2 pooling, and linear layers; forward and backward.

Sixteen samples (or as many as the processor's vectors hold) go side by side, each in its own lane, so that every
operation on a sample is one on a vector, whatever the shape of a layer. A map of the size that is pooled away is
never written by the forward pass; the backward pass makes it of the winners' places, an image at a time.

Shapes: B samples in blocks of L lanes; a convolution takes c maps of h x w, their border of zeros included, and gives
o of them; a linear layer takes k numbers and gives o. All arrays are flat. Maps are [blocks, c, h, w, L]; between linear
layers numbers are [k, blocks, L]. Weights are as torch keeps them, each before its bias.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from noniid.models.compiled.emit import LANES, ROWS
from noniid.models.compiled.lanes import dots, pooled_product, product, total, transpose, unpool

L = LANES
TAPS = 5  # of a kernel's row
WINDOW = TAPS * TAPS
NO_BIAS = np.zeros(1, np.float32)

compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
_wide, _wide_three, _wide_one = product(ROWS, 4), product(3, 4), product(1, 4)
_narrow, _narrow_one = product(2 * ROWS, 1), product(1, 1)
_pooled, _pooled_three, _pooled_one = pooled_product(ROWS), pooled_product(3), pooled_product(1)
_dots_two, _dots_one = dots(2, TAPS), dots(1, TAPS)


class Grid(NamedTuple):
    """Numbers, or vectors, in a flat array: [i, j] is at `at + i * row + j * column`."""

    array: Any
    at: int
    row: int
    column: int


@compiled
def tile_rows(n: int, most: int) -> int:
    """How many of n rows go together; a last tile that does not fit is moved back, and does some twice."""
    if most == 4 and n % 4 and n % 3 == 0:
        return 3
    return most if n >= most else 1


@compiled
def multiply_tile(
    rows: int, columns: int, w: Grid, x: Grid, taps: Any, first: int, last: int, bias: Grid, out: Grid, width: int
):  # type: ignore[no-untyped-def]
    """lanes.product for the shapes it is compiled for."""
    if columns == 4:
        jumps = (0, x.column, 2 * x.column, 3 * x.column)
        if rows == ROWS:
            _wide(w, x.array, x.at, taps, first, last, jumps, bias, out, width)
        elif rows == 3:
            _wide_three(w, x.array, x.at, taps, first, last, jumps, bias, out, width)
        else:
            _wide_one(w, x.array, x.at, taps, first, last, jumps, bias, out, width)
    elif rows == 1:
        _narrow_one(w, x.array, x.at, taps, first, last, (0,), bias, out, width)
    else:
        _narrow(w, x.array, x.at, taps, first, last, (0,), bias, out, width)


@compiled
def multiply(w: Grid, x: Grid, bias: Grid, out: Grid, num_rows: int, num_taps: int, width: int, taps: Any):  # type: ignore[no-untyped-def]
    """out[m, j] = bias[m] + sum over t of w[m, t] * x[t, j]; those of x and out are vectors, a row of them `width` wide."""
    for t in range(num_taps):
        taps[t] = t * x.row
    j, num_columns = 0, (width + L - 1) // L
    while j < num_columns:
        columns = 4 if width - j * L > 3 * L else 1
        rows = tile_rows(num_rows, ROWS) if columns == 4 else (2 * ROWS if num_rows >= 2 * ROWS else 1)
        right = Grid(x.array, x.at + j * x.column, x.row, x.column)
        for first in range(0, num_rows, rows):
            m = min(first, num_rows - rows)
            left = Grid(w.array, w.at + m * w.row, w.row, w.column)
            start = Grid(bias.array, bias.at + m * bias.row, bias.row, 0)
            to = Grid(out.array, out.at + m * out.row + j * out.column, out.row, out.column)
            multiply_tile(rows, columns, left, right, taps, 0, num_taps, start, to, width - j * L)
        j += columns


@compiled
def to_lanes(x: Any, num: int, size: int, out: Grid):  # type: ignore[no-untyped-def]
    """[B, size] -> out[size, blocks], vectors of samples; lanes without a sample hold zeros."""
    for b in range((num + L - 1) // L):
        here = min(L, num - b * L)
        done = size // L * L if here == L else 0
        for k in range(0, done, L):
            transpose(x, b * L * size + k, size, out.array, out.at + b * out.column + k * out.row, out.row)
        for k in range(done, size):
            at = out.at + b * out.column + k * out.row
            for lane in range(here):
                out.array[at + lane] = x[(b * L + lane) * size + k]
            for lane in range(here, L):
                out.array[at + lane] = 0


@compiled
def to_rows(a: Grid, num: int, size: int, out: Any, stride: int):  # type: ignore[no-untyped-def]
    """The other way round, to [B, stride], of which `size` are filled."""
    for b in range((num + L - 1) // L):
        here = min(L, num - b * L)
        done = size // L * L if here == L else 0
        for k in range(0, done, L):
            transpose(a.array, a.at + b * a.column + k * a.row, a.row, out, b * L * stride + k, stride)
        for n in range(here):
            for k in range(done, size):
                out[(b * L + n) * stride + k] = a.array[a.at + b * a.column + k * a.row + n]


@compiled
def with_border(x: Any, num: int, c: int, h: int, w: int, border: int, out: Any):  # type: ignore[no-untyped-def]
    """[B, c, h - 2 border, w - 2 border] -> the insides of maps whose borders are zero already."""
    inner_h, inner_w = h - 2 * border, w - 2 * border
    for n in range(num):
        for plane in range(c):
            for i in range(inner_h):
                at = ((((n // L) * c + plane) * h + i + border) * w + border) * L + n % L
                for j in range(inner_w):
                    out[at + j * L] = x[((n * c + plane) * inner_h + i) * inner_w + j]


@compiled
def convolve(a: Any, a_at: int, blocks: int, conv: Any, weights: Any, out: Any, out_at: int, codes: Any, taps: Any):  # type: ignore[no-untyped-def]
    """Convolution, ReLU and pooling; the maps get the next layer's border."""
    c, h, w, _, o, border, _, code, own = conv
    tall, broad = (h - 4) // 2, (w - 4) // 2
    num_taps, line = c * WINDOW, (broad + 2 * border) * L
    plane = (tall + 2 * border) * line
    for t in range(num_taps):
        taps[t] = ((t // WINDOW * h + t // TAPS % TAPS) * w + t % TAPS) * L
    window = (0, L, w * L, w * L + L)
    rows = tile_rows(o, ROWS)
    for b in range(blocks):
        for first in range(0, o, rows):
            m = min(first, o - rows)
            left, bias = Grid(weights, own + m * num_taps, num_taps, 1), own + o * num_taps + m
            for i in range(tall):
                for j in range(broad):
                    x_at = a_at + (b * c * h * w + 2 * i * w + 2 * j) * L
                    to = (out, out_at + (b * o + m) * plane + (i + border) * line + (j + border) * L, plane)
                    won = (codes, code * blocks * L + (((b * o + m) * tall + i) * broad + j) * L, tall * broad * L)
                    if rows == ROWS:
                        _pooled(left, a, x_at, taps, num_taps, window, bias, to, won)
                    elif rows == 3:
                        _pooled_three(left, a, x_at, taps, num_taps, window, bias, to, won)
                    else:
                        _pooled_one(left, a, x_at, taps, num_taps, window, bias, to, won)


@compiled
def widen(d: Any, codes: Any, b: int, blocks: int, conv: Any, wide: Any, line: int, grad: Any):  # type: ignore[no-untyped-def]
    """One block's gradients of the large maps, four columns of zeros to their left, and those of the biases."""
    c, h, w, _, o, _, _, code, own = conv
    tall, broad = (h - 4) // 2, (w - 4) // 2
    some = np.empty(L, np.float32)
    for plane in range(o):
        some[:] = 0
        for i in range(tall):
            for j in range(broad):
                at = (((b * o + plane) * tall + i) * broad + j) * L
                to = (plane * 2 * tall + 2 * i) * line + (2 * j + 4) * L
                unpool(d, at, codes, code * blocks * L + at, wide, to, line, some)
        place = own + o * c * WINDOW + plane
        grad[place] = total(some, 0) + (grad[place] if b else np.float32(0))


@compiled
def convolve_back(
    d: Any,
    codes: Any,
    a: Any,
    a_at: int,
    blocks: int,
    conv: Any,
    weights: Any,
    grad: Any,
    before: Any,
    taps: Any,
    work: Any,
):  # type: ignore[no-untyped-def]
    """Gradients of weights and biases; where `before` holds anything, into it those of the inputs, without border."""
    c, h, w, _, o, _, _, _, own = conv
    high, broad, line = (h - 4) // 2 * 2, (w - 4) // 2 * 2, (w + 4) * L
    sums = work[: (o + 1) // 2 * c * 2 * WINDOW * L]  # [o / 2, c, 5, 2, 5, L]
    wide = work[len(sums) : len(sums) + o * high * line]
    turned = work[len(sums) + len(wide) :]
    sums[:], wide[:] = 0, 0
    if len(before):
        turn(conv, weights, high, line, turned, taps)
    for b in range(blocks):
        widen(d, codes, b, blocks, conv, wide, line, grad)
        for of in range(0, o, 2):
            for place in range(c * TAPS):
                at = (of // 2 * c * TAPS + place) * 2 * TAPS * L
                left = (wide, of * high * line + 4 * L, high * line, line)
                right = (a, a_at + ((b * c + place // TAPS) * h + place % TAPS) * w * L, L, w * L)
                if of + 1 < o:
                    _dots_two(sums, at, left, right, high, broad)
                else:
                    _dots_one(sums, at, left, right, high, broad)
        if len(before):
            convolve_inputs(wide, line, high, turned, taps, b, conv, before)
    for place in range(o * c * WINDOW):
        s, r, plane, of = place % TAPS, place // TAPS % TAPS, place // WINDOW % c, place // (WINDOW * c)
        grad[own + place] = total(sums, ((((of // 2 * c + plane) * TAPS + r) * 2 + of % 2) * TAPS + s) * L)


@compiled
def turn(conv: Any, weights: Any, high: int, line: int, turned: Any, taps: Any):  # type: ignore[no-untyped-def]
    """Weights as [5, o, 5, c], and where their gradients lie: the rows that reach a line of the input are neighbours."""
    c, _, _, _, o, _, _, _, own = conv
    for t in range(o * WINDOW):
        r, of, s = t // (o * TAPS), t // TAPS % o, t % TAPS
        taps[t] = (of * high - r) * line - s * L
        for plane in range(c):
            turned[t * c + plane] = weights[own + ((of * c + plane) * TAPS + r) * TAPS + s]


@compiled
def convolve_inputs(wide: Any, line: int, high: int, turned: Any, taps: Any, b: int, conv: Any, before: Any):  # type: ignore[no-untyped-def]
    """One block's gradients of a convolution's inputs, four neighbours at a time."""
    c, h, w, border, o, _, _, _, _ = conv
    inner_h, inner_w = h - 2 * border, w - 2 * border
    rows, plane, a_row = tile_rows(c, ROWS), inner_h * inner_w * L, o * TAPS
    for first in range(0, c, rows):
        m = min(first, c - rows)
        for i in range(inner_h):
            y = i + border
            r0, r1 = max(0, y - high + 1), min(TAPS, y + 1)
            for start in range(0, inner_w, 4):
                j = min(start, inner_w - 4)
                x = Grid(wide, y * line + (j + border + 4) * L, 0, L)
                out = Grid(before, (b * c + m) * plane + (i * inner_w + j) * L, plane, L)
                multiply_tile(
                    rows, 4, Grid(turned, m, 1, c), x, taps, r0 * a_row, r1 * a_row, Grid(NO_BIAS, 0, 0, 0), out, 4 * L
                )


@compiled
def connect(
    a: Grid, each: int, k: int, o: int, weights: Any, own: int, out: Any, out_at: int, positive: bool, taps: Any
):  # type: ignore[no-untyped-def]
    """A linear layer, and ReLU: a[k, blocks] -> out [o, each]."""
    bias, to = Grid(weights, own + o * k, 1, 0), Grid(out, out_at, each, L)
    multiply(Grid(weights, own, k, 1), a, bias, to, o, k, each, taps)
    if positive:
        for place in range(out_at, out_at + each * o):
            out[place] = np.float32(0) if out[place] <= 0 else out[place]


@compiled
def connect_back(
    d: Any, rows: Grid, num: int, each: int, k: int, o: int, weights: Any, own: int, grad: Any, before: Grid, taps: Any
):  # type: ignore[no-untyped-def]
    """Gradients of weights and bias, of d [o, each] and inputs `rows` [num, k]; those of the inputs if asked."""
    none = Grid(NO_BIAS, 0, 0, 0)
    multiply(Grid(d, 0, each, 1), rows, none, Grid(grad, own, k, L), o, num, k, taps)
    for m in range(o):
        some = np.float32(0)
        for b in range(0, each, L):
            some += total(d, m * each + b)
        grad[own + o * k + m] = some
    if before.row:
        multiply(Grid(weights, own, 1, k), Grid(d, 0, each, L), none, before, k, o, each, taps)
