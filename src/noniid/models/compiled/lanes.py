"""Vector instructions for layers.py: small products whose sums never leave the registers.

numba compiles loops; what decides over a product's speed, though, is that a dozen sums stay in registers while each
number that is loaded is used several times, and no loop over arrays says so. These few operations are therefore
written in the compiler's own language (LLVM's), each for one vector of neighbouring samples, a lane a sample.

Shapes: L lanes of a vector, M rows, J columns of a tile of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic


def _width() -> tuple[int, int]:
    """Lanes of a vector, and the rows of a tile whose sums fit into the registers beside what they are made of."""
    features = getattr(config, "CPU_FEATURES", None) or binding.get_host_cpu_features().flatten()
    if "+avx512f" in features:
        return 16, 4
    return (8, 2) if "+avx" in features else (4, 4 if "+neon" in features else 2)


LANES, ROWS = _width()
NOTHING_PASSES = 4  # code of a pooled value that is not positive; below it, which of the four won

_F32, _I64, _I32, _I8 = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)
_VECTOR, _CODES = ir.VectorType(_F32, LANES), ir.VectorType(_I8, LANES)
_at = types.int64  # a place in an array, or a distance
_operation: Any = intrinsic


def _typed(*kinds: Any) -> Callable[..., Any]:
    """An operation on arrays, places and tuples of them, from a function that emits its code."""

    def made(emit: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
            def given(kind: Any, value: Any) -> Any:
                if hasattr(kind, "types"):
                    return [given(*each) for each in zip(kind.types, cgutils.unpack_tuple(b, value), strict=True)]
                return (
                    context.make_array(kind)(context, b, value=value).data if isinstance(kind, types.Array) else value
                )

            result = emit(b, *map(given, signature.args, args))
            return context.get_dummy_value() if result is None else result

        return types.void(*kinds), generate

    return made


def _load(b: Any, array: Any, at: Any, kind: Any = _VECTOR) -> Any:
    value = b.load(b.bitcast(b.gep(array, [at]), kind.as_pointer()))
    value.align = kind.element.width // 8 if kind is _CODES else 4
    return value


def _store(b: Any, value: Any, array: Any, at: Any) -> None:
    stored = b.store(value, b.bitcast(b.gep(array, [at]), value.type.as_pointer()))
    stored.align = 1 if value.type == _CODES else 4


def _below(b: Any, width: Any, first: int) -> Any:
    """Which of the numbers from `first` on are within this width?"""
    places = ir.VectorType(_I64, LANES)
    whole = b.insert_element(ir.Constant(places, ir.Undefined), width, _I32(0))
    widths = _shuffled(b, whole, ir.Constant(places, ir.Undefined), [0] * LANES)
    return b.icmp_signed("<", ir.Constant(places, [first + lane for lane in range(LANES)]), widths)


def _store_some(b: Any, value: Any, array: Any, at: Any, mask: Any) -> None:
    to = b.bitcast(b.gep(array, [at]), _VECTOR.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [_VECTOR, to.type, _I32, mask.type])
    suffix = f"v{LANES}f32.p0" if to.type.is_opaque else f"v{LANES}f32.p0v{LANES}f32"
    b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.masked.store.{suffix}"), [value, to, _I32(4), mask])


def _all(kind: Any, value: float) -> Any:
    return ir.Constant(kind, [value] * LANES)


def _shuffled(b: Any, one: Any, other: Any, order: list[int]) -> Any:
    return b.shuffle_vector(one, other, ir.Constant(ir.VectorType(_I32, len(order)), order))


def _spread(b: Any, array: Any, at: Any) -> Any:
    """One number in all lanes."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    return _shuffled(b, b.insert_element(nothing, b.load(b.gep(array, [at])), _I32(0)), nothing, [0] * LANES)


def _added(b: Any, x: Any, y: Any, to: Any) -> Any:
    """x * y + to, rounded once where the processor can."""
    return b.fadd(b.fmul(x, y, flags=("contract",)), to, flags=("contract",))


def _loop(b: Any, first: Any, last: Any, sums: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """`sums = body(t, sums)` for t from `first` up to `last`, the sums in registers."""
    before = b.block
    head, inside, end = (b.append_basic_block(name) for name in ("head", "inside", "end"))
    b.branch(head)
    b.position_at_end(head)
    t, carried = b.phi(_I64), [b.phi(each.type) for each in sums]
    b.cbranch(b.icmp_signed("<", t, last), inside, end)
    b.position_at_end(inside)
    after = body(t, carried)
    for phi, start, stepped in zip([t, *carried], [first, *sums], [b.add(t, _I64(1)), *after], strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(stepped, b.block)
    b.branch(head)
    b.position_at_end(end)
    return carried


def _products(b: Any, shape: tuple[int, int], given: Sequence[Any], sums: list[Any]) -> list[Any]:
    """sums[m, j] + sum over t of w[m, t] * x[taps[t] + jumps[j]], row by row."""
    (num_rows, num_columns), ((w, w_at, w_row, w_tap), x, x_at, taps, first, last, jumps) = shape, given
    rows = [b.add(w_at, b.mul(w_row, _I64(m))) for m in range(num_rows)]

    def tap(t: Any, sums: list[Any]) -> list[Any]:
        base, far = b.add(x_at, b.load(b.gep(taps, [t]))), b.mul(t, w_tap)
        columns = [_load(b, x, b.add(base, jump)) for jump in jumps]
        fresh: list[Any] = []
        for m, row in enumerate(rows):
            weight = _spread(b, w, b.add(row, far))
            fresh += [_added(b, each, weight, sums[m * num_columns + j]) for j, each in enumerate(columns)]
        return fresh

    return _loop(b, first, last, sums, tap)


def product(num_rows: int, num_columns: int) -> Any:
    """out[m, j] = bias[m] + sum over t in [first, last) of w[m, t] * x[taps[t] + jumps[j]]; x and out hold vectors.

    w, bias and out are an array, a place in it, and the distances between rows and between columns. Of a row of out,
    as many numbers are written as `width` says.
    """

    @_operation
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
            rows = [_I64(m) for m in range(num_rows)]
            starts = [_spread(b, bias, b.add(bias_at, b.mul(bias_row, m))) for m in rows]
            sums = _products(b, (num_rows, num_columns), given, [each for each in starts for _ in range(num_columns)])
            masks = [_below(b, width, j * LANES) for j in range(num_columns)]
            for place, each in enumerate(sums):
                m, j = divmod(place, num_columns)
                far = b.add(b.mul(out_row, rows[m]), b.mul(out_column, _I64(j)))
                _store_some(b, each, out, b.add(out_at, far), masks[j])

        return _typed(w, x, _at, taps, _at, _at, jumps, bias, out, _at)(emit)

    return operation


def pooled_product(num_rows: int) -> Any:
    """The largest of a product's four columns plus a bias, if positive; and which it was.

    As in torch the first of equals wins, and NaN wins over all. out and codes are an array, a place in it and the
    distance between rows.
    """

    @_operation
    def operation(
        typing: Any, w: Any, x: Any, x_at: Any, taps: Any, last: Any, window: Any, bias_at: Any, out: Any, codes: Any
    ) -> Any:
        def emit(b: Any, *args: Any) -> None:
            w, x, x_at, taps, last, window, bias_at, (out, out_at, out_row), (codes, codes_at, codes_row) = args
            given = (w, x, x_at, taps, _I64(0), last, window)
            sums = _products(b, (num_rows, 4), given, [_all(_VECTOR, 0.0)] * (4 * num_rows))
            for m in range(num_rows):
                best, code = sums[4 * m], _all(_CODES, 0)
                for q in range(1, 4):
                    value = sums[4 * m + q]
                    more = b.or_(b.fcmp_ordered(">", value, best), b.fcmp_unordered("uno", value, value))
                    best, code = b.select(more, value, best), b.select(more, _all(_CODES, q), code)
                best = b.fadd(best, _spread(b, w[0], b.add(bias_at, _I64(m))))
                dead = b.fcmp_ordered("<=", best, _all(_VECTOR, 0.0))
                best = b.select(dead, _all(_VECTOR, 0.0), best)
                _store(b, best, out, b.add(out_at, b.mul(out_row, _I64(m))))
                code = b.select(dead, _all(_CODES, NOTHING_PASSES), code)
                _store(b, code, codes, b.add(codes_at, b.mul(codes_row, _I64(m))))

        return _typed(w, x, _at, taps, _at, window, _at, out, codes)(emit)

    return operation


def dots(num_rows: int, num_columns: int) -> Any:
    """sums[m, k] += over lines i and columns j of a[m a_row + i a_line + j L] * x[k x_row + i x_line + j L], vectors all.

    a and x are an array, a place in it, and the distances between rows and between lines.
    """

    @_operation
    def operation(typing: Any, sums: Any, sums_at: Any, a: Any, x: Any, lines: Any, columns: Any) -> Any:
        def emit(b: Any, sums: Any, sums_at: Any, a: Any, x: Any, lines: Any, columns: Any) -> None:
            (a, a_at, a_row, a_line), (x, x_at, x_row, x_line) = a, x
            places = [b.add(sums_at, _I64(p * LANES)) for p in range(num_rows * num_columns)]
            a_rows = [b.add(a_at, b.mul(a_row, _I64(m))) for m in range(num_rows)]
            x_rows = [b.add(x_at, b.mul(x_row, _I64(k))) for k in range(num_columns)]

            def line(i: Any, carried: list[Any]) -> list[Any]:
                def column(j: Any, carried: list[Any]) -> list[Any]:
                    a_far, x_far = (b.add(b.mul(i, each), b.mul(j, _I64(LANES))) for each in (a_line, x_line))
                    left = [_load(b, a, b.add(each, a_far)) for each in a_rows]
                    right = [_load(b, x, b.add(each, x_far)) for each in x_rows]
                    pairs = [(one, other) for one in left for other in right]
                    return [_added(b, *pair, to) for pair, to in zip(pairs, carried, strict=True)]

                return _loop(b, _I64(0), columns, carried, column)

            found = _loop(b, _I64(0), lines, [_load(b, sums, p) for p in places], line)
            for place, each in zip(places, found, strict=True):
                _store(b, each, sums, place)

        return _typed(sums, _at, a, x, _at, _at)(emit)

    return operation


@_operation
def unpool(typing: Any, g: Any, g_at: Any, codes: Any, codes_at: Any, wide: Any, wide_at: Any, line: Any, total: Any) -> Any:  # fmt: skip
    """The four values that a pooled one was chosen from: its gradient for the winner, 0 for the others.

    Adds to `total` what passes.
    """

    def emit(b: Any, *args: Any) -> None:
        g, g_at, codes, codes_at, wide, wide_at, line, total = args
        value, code, zero = _load(b, g, g_at), _load(b, codes, codes_at, _CODES), _all(_VECTOR, 0.0)
        for q in range(4):
            won = b.icmp_unsigned("==", code, _all(_CODES, q))
            to = b.add(wide_at, _I64(q % 2 * LANES))
            _store(b, b.select(won, value, zero), wide, b.add(to, line) if q > 1 else to)
        dead = b.icmp_unsigned("==", code, _all(_CODES, NOTHING_PASSES))
        _store(b, b.fadd(_load(b, total, _I64(0)), b.select(dead, zero, value)), total, _I64(0))

    return _typed(g, _at, codes, _at, wide, _at, _at, total)(emit)


@_operation
def transpose(typing: Any, x: Any, x_at: Any, x_row: Any, out: Any, out_at: Any, out_row: Any) -> Any:
    """A square of L rows and L columns."""

    def emit(b: Any, x: Any, x_at: Any, x_row: Any, out: Any, out_at: Any, out_row: Any) -> None:
        rows = [_load(b, x, b.add(x_at, b.mul(x_row, _I64(i)))) for i in range(LANES)]
        half = LANES // 2
        low = [place for i in range(half) for place in (i, LANES + i)]
        high = [place + half for place in low]
        for _ in range(LANES.bit_length() - 1):  # shuffled like cards, as often as it takes
            rows = [_shuffled(b, rows[i], rows[i + half], order) for i in range(half) for order in (low, high)]
        for i, row in enumerate(rows):
            _store(b, row, out, b.add(out_at, b.mul(out_row, _I64(i))))

    return _typed(x, _at, _at, out, _at, _at)(emit)


@_operation
def total(typing: Any, x: Any, x_at: Any) -> Any:
    """The sum of one vector."""

    def emit(b: Any, x: Any, x_at: Any) -> Any:
        some, width = _load(b, x, x_at), LANES
        while width > 1:
            width //= 2
            halves = ([*range(width)], [*range(width, 2 * width)])
            some = b.fadd(*(_shuffled(b, some, some, half) for half in halves))
        return b.extract_element(some, _I32(0))

    _, generate = _typed(x, _at)(emit)
    return types.float32(x, _at), generate
