"""Compiled passes for 5x5 convolutions with ReLU and 2x2 max-pooling, for CPUs.

The pooled map is a quarter of the convolution's, and only the winner of each window carries a gradient. So the
forward pass keeps the winners' places, and the backward pass visits winners only: a quarter of the multiplications
that a general convolution needs, and none of its large intermediate maps.

Shapes: n images, c channels in, o channels out, h and w of the input; `out`, `winner` and `grad` are pooled maps
[n, o, (h - 4) // 2, (w - 4) // 2]. numba compiles these at their first call and keeps the result on disk.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

NOTHING_PASSES = 4  # code of a window whose maximum is not positive
TAPS = 5

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def pool_rows(top: Any, bottom: Any, out: Any, winner: Any) -> None:
    """ReLU and 2x2 maximum of two rows. As in torch the first of equals wins, and NaN wins over all."""
    for j in range(len(out)):
        best, code = top[2 * j], 0
        value = top[2 * j + 1]
        if value > best or np.isnan(value):
            best, code = value, 1
        value = bottom[2 * j]
        if value > best or np.isnan(value):
            best, code = value, 2
        value = bottom[2 * j + 1]
        if value > best or np.isnan(value):
            best, code = value, 3
        if best <= 0:
            best, code = np.float32(0.0), NOTHING_PASSES
        out[j] = best
        winner[j] = code


@_compiled
def pool(x: Any, out: Any, winner: Any) -> None:
    """relu and max_pool2d(2) of planes [p, h, w]."""
    for p in range(out.shape[0]):
        for i in range(out.shape[1]):
            pool_rows(x[p, 2 * i], x[p, 2 * i + 1], out[p, i], winner[p, i])


@_compiled
def conv_pool(x: Any, weight: Any, bias: Any, out: Any, winner: Any) -> None:
    """Convolution, ReLU and pooling, two rows of the large map at a time.

    The innermost loops run along a row of the map with the five taps of a kernel row at once: five products for
    each number loaded and stored, and vectors of neighbours for the compiler.
    """
    columns = x.shape[3] - TAPS + 1
    rows = np.empty((2, columns), np.float32)
    top, bottom = rows[0], rows[1]
    for n in range(x.shape[0]):
        for o in range(out.shape[1]):
            for i in range(out.shape[2]):
                top[:] = bias[o]
                bottom[:] = bias[o]
                for c in range(x.shape[1]):
                    for r in range(TAPS + 1):
                        line = x[n, c, 2 * i + r]
                        if r < TAPS:
                            a, b, d, e, f = (weight[o, c, r, 0], weight[o, c, r, 1], weight[o, c, r, 2],
                                             weight[o, c, r, 3], weight[o, c, r, 4])  # fmt: skip
                            for j in range(columns):
                                top[j] += (
                                    a * line[j] + b * line[j + 1] + d * line[j + 2] + e * line[j + 3] + f * line[j + 4]
                                )
                        if r > 0:
                            a, b, d, e, f = (weight[o, c, r - 1, 0], weight[o, c, r - 1, 1], weight[o, c, r - 1, 2],
                                             weight[o, c, r - 1, 3], weight[o, c, r - 1, 4])  # fmt: skip
                            for j in range(columns):
                                bottom[j] += (
                                    a * line[j] + b * line[j + 1] + d * line[j + 2] + e * line[j + 3] + f * line[j + 4]
                                )
                pool_rows(top, bottom, out[n, o, i], winner[n, o, i])


@_compiled
def weight_gradient_of_one_channel(x: Any, grad: Any, winner: Any, grad_weight: Any, grad_bias: Any) -> None:
    """For images of one channel, whose own gradient nobody asks for."""
    for n in range(x.shape[0]):
        for o in range(grad.shape[1]):
            sums = grad_weight[o, 0]
            for i in range(grad.shape[2]):
                for j in range(grad.shape[3]):
                    code = winner[n, o, i, j]
                    if code != NOTHING_PASSES:
                        g = grad[n, o, i, j]
                        y, z = 2 * i + (code >> 1), 2 * j + (code & 1)
                        grad_bias[o] += g
                        for r in range(TAPS):
                            row = x[n, 0, y + r]
                            sums[r, 0] += g * row[z]
                            sums[r, 1] += g * row[z + 1]
                            sums[r, 2] += g * row[z + 2]
                            sums[r, 3] += g * row[z + 3]
                            sums[r, 4] += g * row[z + 4]


@_compiled
def gradients(x: Any, weight: Any, grad: Any, winner: Any, grad_weight: Any, grad_bias: Any, grad_x: Any) -> None:
    """All gradients. Images are turned channels-last, so that a row of 5 pixels is one run of 5c numbers."""
    num_out, channels, width = weight.shape[0], x.shape[1], x.shape[3] * x.shape[1]
    run = TAPS * channels
    weight_rows = np.ascontiguousarray(weight.transpose(0, 2, 3, 1)).reshape(num_out, TAPS, run)
    weight_sums = np.zeros((num_out, TAPS, run), np.float32)
    image = np.empty(x.shape[2] * width, np.float32)
    image_sums = np.empty_like(image)
    for n in range(x.shape[0]):
        image_sums[:] = 0
        for c in range(channels):
            for y in range(x.shape[2]):
                for z in range(x.shape[3]):
                    image[y * width + z * channels + c] = x[n, c, y, z]
        for o in range(num_out):
            for i in range(grad.shape[2]):
                for j in range(grad.shape[3]):
                    code = winner[n, o, i, j]
                    if code != NOTHING_PASSES:
                        g = grad[n, o, i, j]
                        place = (2 * i + (code >> 1)) * width + (2 * j + (code & 1)) * channels
                        grad_bias[o] += g
                        for r in range(TAPS):
                            own, taps, start = weight_sums[o, r], weight_rows[o, r], place + r * width
                            pixels, into = image[start : start + run], image_sums[start : start + run]
                            for t in range(run):
                                own[t] += g * pixels[t]
                            for t in range(run):
                                into[t] += g * taps[t]
        for c in range(channels):
            for y in range(x.shape[2]):
                for z in range(x.shape[3]):
                    grad_x[n, c, y, z] = image_sums[y * width + z * channels + c]
    grad_weight[:] = weight_sums.reshape(num_out, TAPS, TAPS, channels).transpose(0, 3, 1, 2)
