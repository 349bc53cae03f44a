"""How instructions on vectors are written for LLVM: `b` is the builder whose code grows, all else values in that code.

Shapes: L lanes of a vector.
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

F32, I64, I32, I8 = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)
VECTOR, CODES = ir.VectorType(F32, LANES), ir.VectorType(I8, LANES)
PLACE = types.int64  # a place in an array, or a distance
instruction: Any = intrinsic


def typed(*kinds: Any) -> Callable[..., Any]:
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


def load(b: Any, array: Any, at: Any, kind: Any = VECTOR) -> Any:
    value = b.load(b.bitcast(b.gep(array, [at]), kind.as_pointer()))
    value.align = kind.element.width // 8 if kind is CODES else 4
    return value


def store(b: Any, value: Any, array: Any, at: Any) -> None:
    stored = b.store(value, b.bitcast(b.gep(array, [at]), value.type.as_pointer()))
    stored.align = 1 if value.type == CODES else 4


def below(b: Any, width: Any, first: int) -> Any:
    """Which of the numbers from `first` on are within this width?"""
    places = ir.VectorType(I64, LANES)
    whole = b.insert_element(ir.Constant(places, ir.Undefined), width, I32(0))
    widths = shuffled(b, whole, ir.Constant(places, ir.Undefined), [0] * LANES)
    return b.icmp_signed("<", ir.Constant(places, [first + lane for lane in range(LANES)]), widths)


def store_some(b: Any, value: Any, array: Any, at: Any, mask: Any) -> None:
    to = b.bitcast(b.gep(array, [at]), VECTOR.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, to.type, I32, mask.type])
    suffix = f"v{LANES}f32.p0" if to.type.is_opaque else f"v{LANES}f32.p0v{LANES}f32"
    b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.masked.store.{suffix}"), [value, to, I32(4), mask])


def everywhere(kind: Any, value: float) -> Any:
    return ir.Constant(kind, [value] * LANES)


def shuffled(b: Any, one: Any, other: Any, order: list[int]) -> Any:
    return b.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(order)), order))


def spread(b: Any, array: Any, at: Any) -> Any:
    """One number in all lanes."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    return shuffled(b, b.insert_element(nothing, b.load(b.gep(array, [at])), I32(0)), nothing, [0] * LANES)


def added(b: Any, x: Any, y: Any, to: Any) -> Any:
    """x * y + to, rounded once where the processor can."""
    return b.fadd(b.fmul(x, y, flags=("contract",)), to, flags=("contract",))


def loop(b: Any, first: Any, last: Any, sums: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """`sums = body(t, sums)` for t from `first` up to `last`, the sums in registers."""
    before = b.block
    head, inside, end = (b.append_basic_block(name) for name in ("head", "inside", "end"))
    b.branch(head)
    b.position_at_end(head)
    t, carried = b.phi(I64), [b.phi(each.type) for each in sums]
    b.cbranch(b.icmp_signed("<", t, last), inside, end)
    b.position_at_end(inside)
    after = body(t, carried)
    for phi, start, stepped in zip([t, *carried], [first, *sums], [b.add(t, I64(1)), *after], strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(stepped, b.block)
    b.branch(head)
    b.position_at_end(end)
    return carried
