"""Vector instructions for layers.py: small products whose sums never leave the registers.

numba compiles loops; what decides over a product's speed, though, is that a dozen sums stay in registers while each
number that is loaded is used several times, and no loop over arrays says so. These few operations are therefore
written in the compiler's own language (LLVM's), each for one vector of neighbouring samples, a lane a sample.

Shapes: L lanes of a vector, M rows, J columns of a tile of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types

from noniid.models.compiled.emit import (
    CODES,
    I32,
    I64,
    LANES,
    NOTHING_PASSES,
    PLACE,
    VECTOR,
    added,
    below,
    everywhere,
    instruction,
    load,
    loop,
    shuffled,
    spread,
    store,
    store_some,
    typed,
)


def _products(b: Any, shape: tuple[int, int], given: Sequence[Any], sums: list[Any]) -> list[Any]:
    """sums[m, j] + sum over t of w[m, t] * x[taps[t] + jumps[j]], row by row."""
    (num_rows, num_columns), ((w, w_at, w_row, w_tap), x, x_at, taps, first, last, jumps) = shape, given
    rows = [b.add(w_at, b.mul(w_row, I64(m))) for m in range(num_rows)]

    def tap(t: Any, sums: list[Any]) -> list[Any]:
        base, far = b.add(x_at, b.load(b.gep(taps, [t]))), b.mul(t, w_tap)
        columns = [load(b, x, b.add(base, jump)) for jump in jumps]
        fresh: list[Any] = []
        for m, row in enumerate(rows):
            weight = spread(b, w, b.add(row, far))
            fresh += [added(b, each, weight, sums[m * num_columns + j]) for j, each in enumerate(columns)]
        return fresh

    return loop(b, first, last, sums, tap)


def product(num_rows: int, num_columns: int) -> Any:
    """out[m, j] = bias[m] + sum over t in [first, last) of w[m, t] * x[taps[t] + jumps[j]]; x and out hold vectors.

    w, bias and out are an array, a place in it, and the distances between rows and between columns. Of a row of out,
    as many numbers are written as `width` says.
    """

    @instruction
    def operation(
        typing: Any,
        w: Any,
        x: Any,
        x_at: Any,
        taps: Any,
        first: Any,
        last: Any,
        jumps: Any,
        bias: Any,
        out: Any,
        width: Any,
    ) -> Any:
        def emit(b: Any, *args: Any) -> None:
            given, (bias, bias_at, bias_row, _), (out, out_at, out_row, out_column), width = args[:7], *args[7:]
            rows = [I64(m) for m in range(num_rows)]
            starts = [spread(b, bias, b.add(bias_at, b.mul(bias_row, m))) for m in rows]
            sums = _products(b, (num_rows, num_columns), given, [each for each in starts for _ in range(num_columns)])
            masks = [below(b, width, j * LANES) for j in range(num_columns)]
            for place, each in enumerate(sums):
                m, j = divmod(place, num_columns)
                far = b.add(b.mul(out_row, rows[m]), b.mul(out_column, I64(j)))
                store_some(b, each, out, b.add(out_at, far), masks[j])

        return typed(w, x, PLACE, taps, PLACE, PLACE, jumps, bias, out, PLACE)(emit)

    return operation


def pooled_product(num_rows: int) -> Any:
    """The largest of a product's four columns plus a bias, if positive; and which it was.

    As in torch the first of equals wins, and NaN wins over all. out and codes are an array, a place in it and the
    distance between rows.
    """

    @instruction
    def operation(
        typing: Any, w: Any, x: Any, x_at: Any, taps: Any, last: Any, window: Any, bias_at: Any, out: Any, codes: Any
    ) -> Any:
        def emit(b: Any, *args: Any) -> None:
            w, x, x_at, taps, last, window, bias_at, (out, out_at, out_row), (codes, codes_at, codes_row) = args
            given = (w, x, x_at, taps, I64(0), last, window)
            sums = _products(b, (num_rows, 4), given, [everywhere(VECTOR, 0.0)] * (4 * num_rows))
            for m in range(num_rows):
                best, code = sums[4 * m], everywhere(CODES, 0)
                for q in range(1, 4):
                    value = sums[4 * m + q]
                    more = b.or_(b.fcmp_ordered(">", value, best), b.fcmp_unordered("uno", value, value))
                    best, code = b.select(more, value, best), b.select(more, everywhere(CODES, q), code)
                best = b.fadd(best, spread(b, w[0], b.add(bias_at, I64(m))))
                dead = b.fcmp_ordered("<=", best, everywhere(VECTOR, 0.0))
                best = b.select(dead, everywhere(VECTOR, 0.0), best)
                store(b, best, out, b.add(out_at, b.mul(out_row, I64(m))))
                code = b.select(dead, everywhere(CODES, NOTHING_PASSES), code)
                store(b, code, codes, b.add(codes_at, b.mul(codes_row, I64(m))))

        return typed(w, x, PLACE, taps, PLACE, window, PLACE, out, codes)(emit)

    return operation


def dots(num_rows: int, num_columns: int) -> Any:
    """sums[m, k] += over lines i and columns j of a[m a_row + i a_line + j L] * x[k x_row + i x_line + j L], vectors all.

    a and x are an array, a place in it, and the distances between rows and between lines.
    """

    @instruction
    def operation(typing: Any, sums: Any, sums_at: Any, a: Any, x: Any, lines: Any, columns: Any) -> Any:
        def emit(b: Any, sums: Any, sums_at: Any, a: Any, x: Any, lines: Any, columns: Any) -> None:
            (a, a_at, a_row, a_line), (x, x_at, x_row, x_line) = a, x
            places = [b.add(sums_at, I64(p * LANES)) for p in range(num_rows * num_columns)]
            a_rows = [b.add(a_at, b.mul(a_row, I64(m))) for m in range(num_rows)]
            x_rows = [b.add(x_at, b.mul(x_row, I64(k))) for k in range(num_columns)]

            def line(i: Any, carried: list[Any]) -> list[Any]:
                def column(j: Any, carried: list[Any]) -> list[Any]:
                    a_far, x_far = (b.add(b.mul(i, each), b.mul(j, I64(LANES))) for each in (a_line, x_line))
                    left = [load(b, a, b.add(each, a_far)) for each in a_rows]
                    right = [load(b, x, b.add(each, x_far)) for each in x_rows]
                    pairs = [(one, other) for one in left for other in right]
                    return [added(b, *pair, to) for pair, to in zip(pairs, carried, strict=True)]

                return loop(b, I64(0), columns, carried, column)

            found = loop(b, I64(0), lines, [load(b, sums, p) for p in places], line)
            for place, each in zip(places, found, strict=True):
                store(b, each, sums, place)

        return typed(sums, PLACE, a, x, PLACE, PLACE)(emit)

    return operation


@instruction
def unpool(typing: Any, g: Any, g_at: Any, codes: Any, codes_at: Any, wide: Any, wide_at: Any, line: Any, total: Any) -> Any:  # fmt: skip
    """The four values that a pooled one was chosen from: its gradient for the winner, 0 for the others.

    Adds to `total` what passes.
    """

    def emit(b: Any, *args: Any) -> None:
        g, g_at, codes, codes_at, wide, wide_at, line, total = args
        value, code, zero = load(b, g, g_at), load(b, codes, codes_at, CODES), everywhere(VECTOR, 0.0)
        for q in range(4):
            won = b.icmp_unsigned("==", code, everywhere(CODES, q))
            to = b.add(wide_at, I64(q % 2 * LANES))
            store(b, b.select(won, value, zero), wide, b.add(to, line) if q > 1 else to)
        dead = b.icmp_unsigned("==", code, everywhere(CODES, NOTHING_PASSES))
        store(b, b.fadd(load(b, total, I64(0)), b.select(dead, zero, value)), total, I64(0))

    return typed(g, PLACE, codes, PLACE, wide, PLACE, PLACE, total)(emit)


@instruction
def transpose(typing: Any, x: Any, x_at: Any, x_row: Any, out: Any, out_at: Any, out_row: Any) -> Any:
    """A square of L rows and L columns."""

    def emit(b: Any, x: Any, x_at: Any, x_row: Any, out: Any, out_at: Any, out_row: Any) -> None:
        rows = [load(b, x, b.add(x_at, b.mul(x_row, I64(i)))) for i in range(LANES)]
        half = LANES // 2
        low = [place for i in range(half) for place in (i, LANES + i)]
        high = [place + half for place in low]
        for _ in range(LANES.bit_length() - 1):  # shuffled like cards, as often as it takes
            rows = [shuffled(b, rows[i], rows[i + half], order) for i in range(half) for order in (low, high)]
        for i, row in enumerate(rows):
            store(b, row, out, b.add(out_at, b.mul(out_row, I64(i))))

    return typed(x, PLACE, PLACE, out, PLACE, PLACE)(emit)


@instruction
def total(typing: Any, x: Any, x_at: Any) -> Any:
    """The sum of one vector."""

    def emit(b: Any, x: Any, x_at: Any) -> Any:
        some, width = load(b, x, x_at), LANES
        while width > 1:
            width //= 2
            halves = ([*range(width)], [*range(width, 2 * width)])
            some = b.fadd(*(shuffled(b, some, some, half) for half in halves))
        return b.extract_element(some, I32(0))

    _, generate = typed(x, PLACE)(emit)
    return types.float32(x, PLACE), generate
