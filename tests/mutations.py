"""Small wrong changes of a source text, each of which some test should notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

# Where such a method is missing its parent's is called: FedAvg's, or one that does and refuses nothing.
HOOKS = {"init", "pick", "start", "loss", "grad", "after", "update", "evaluated", "traffic", "aggregated"}
HOOKS |= {"check", "apply", "weights", "sent", "effective_steps"}
TEXTS = {"Paper"}  # calls that hold nothing but texts
GUARDS = {"strict"}  # keywords that compute nothing

SIGNS: dict[type[ast.operator], ast.operator] = {ast.Add: ast.Sub(), ast.Sub: ast.Add()}
FACTORS: dict[type[ast.operator], ast.operator] = {ast.Mult: ast.Div(), ast.Div: ast.Mult(), ast.Pow: ast.Mult()}
COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(), ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(), ast.IsNot: ast.Is(), ast.In: ast.NotIn(), ast.NotIn: ast.In(),
}  # fmt: skip
# The same of tensors' methods.
SWAPPED = {"add": "sub", "sub": "add", "add_": "sub_", "mul_": "div_", "sum": "mean", "mean": "sum"}
ADDING = {"add", "sub", "add_", "addcmul_", "addcdiv_"}  # without which the tensor stays as it was
FADING = {"clone", "clamp", "abs", "sqrt", "sqrt_", "square", "sign", "floor", "double", "detach"}

Replacement = tuple[str, ast.expr | ast.stmt, ast.AST | None]  # what kind, of what, by what: None is nothing


class Mutant(NamedTuple):
    """One source text with one change."""

    kind: str
    line: int
    where: str  # the class and the function
    change: str
    source: str

    @property
    def shown(self) -> str:
        """The first changed line."""
        return self.source.splitlines()[self.line - 1].strip()


def mutants(source: str) -> list[Mutant]:
    """All mutants of a source text, by line.

    >>> [each.change for each in mutants("x = a - 2 * b")]
    ['a - 2 * b -> a', 'a - 2 * b -> -(2 * b)', 'a - 2 * b -> a + 2 * b', '2 * b -> 2 / b', '2 -> 3']
    """
    found = {each.source: each for each in _mutants(ast.parse(source), "", source)}
    found.pop(source, None)
    return sorted(found.values(), key=lambda each: each.line)


def _mutants(node: ast.AST, where: str, source: str) -> Iterator[Mutant]:
    """Of a node and of what it computes: no messages, annotations or decorators."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TEXTS:
        return
    if isinstance(node, ast.keyword) and node.arg in GUARDS:
        return
    below = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
        below = node.body if isinstance(node, ast.ClassDef) else [*node.args.defaults, *node.body]
    elif isinstance(node, ast.AnnAssign):
        below = [node.value] if node.value else []
    for kind, old, new in [*_of_expression(node), *_of_statement(node), *_of_dict(node, where)]:
        yield _mutant(source, kind, where, old, new)
    for child in below:
        yield from _mutants(child, where, source)


def _mutant(source: str, kind: str, where: str, old: ast.expr | ast.stmt, new: ast.AST | None) -> Mutant:
    before, after = ast.unparse(old), "pass" if new is None else ast.unparse(new)
    text = _spliced(source, old, after)
    if isinstance(new, ast.expr):
        bracketed = _spliced(source, old, f"({after})")
        text = text if _tree(text) == _tree(bracketed) else bracketed
    if isinstance(old, ast.FunctionDef):
        before = f"def {old.name}"
    return Mutant(kind, old.lineno, where, f"{before} -> {after}", text)


def _spliced(source: str, old: ast.expr | ast.stmt, new: str) -> str:
    """The text with a node's own text replaced; comments and layout stay."""
    assert old.end_lineno is not None
    lines = source.encode().splitlines(keepends=True)  # a node's columns count bytes
    before = b"".join([*lines[: old.lineno - 1], lines[old.lineno - 1][: old.col_offset]])
    after = b"".join([lines[old.end_lineno - 1][old.end_col_offset :], *lines[old.end_lineno :]])
    return (before + new.encode() + after).decode()


def _tree(text: str) -> str:
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return ""


def _of_statement(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.AugAssign(op=op) if type(op) in SIGNS:
            yield "sign", node, ast.AugAssign(node.target, SIGNS[type(op)], node.value)
            yield "term", node, None
        case ast.Expr(value=ast.Call()):
            yield "statement", node, None
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield "comparison", test, ast.UnaryOp(ast.Not(), test)
        case ast.ClassDef(bases=[base, *_]) if ast.unparse(base) not in ("ABC", "NamedTuple", "Protocol"):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name in HOOKS and not part.decorator_list:
                    yield "method", part, None


def _of_expression(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.BinOp():
            yield from _of_arithmetic(node)
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", node, node.operand
        case ast.UnaryOp(op=ast.Not()):
            yield "comparison", node, node.operand
        case ast.Compare():
            for i, op in enumerate(node.ops):
                ops = [*node.ops[:i], COMPARISONS[type(op)], *node.ops[i + 1 :]]
                yield "comparison", node, ast.Compare(node.left, ops, node.comparators)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "comparison", node, ast.BoolOp(other, node.values)
        case ast.Constant(value=bool(value)):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", node, ast.Constant(value + 1)
        case ast.Call():
            yield from _of_call(node)


def _of_dict(node: ast.AST, where: str) -> Iterator[Replacement]:
    if isinstance(node, ast.Dict) and where:  # no registry
        for i in range(len(node.keys)):
            yield "entry", node, ast.Dict(_without(node.keys, i), _without(node.values, i))


def _of_arithmetic(node: ast.BinOp) -> Iterator[Replacement]:
    op = type(node.op)
    if op in SIGNS:
        yield "term", node, node.left
        yield "term", node, node.right if op is ast.Add else ast.UnaryOp(ast.USub(), node.right)
        yield "sign", node, ast.BinOp(node.left, SIGNS[op], node.right)
    elif op in FACTORS:
        yield "factor", node, ast.BinOp(node.left, FACTORS[op], node.right)


def _of_call(node: ast.Call) -> Iterator[Replacement]:
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in GUARDS:
            yield "keyword", node, ast.Call(node.func, node.args, _without(node.keywords, i))
    if not isinstance(node.func, ast.Attribute):
        return
    name, tensor = node.func.attr, node.func.value
    if ast.unparse(tensor) in ("wave", "self"):  # their mean is no tensor's
        return
    if name in SWAPPED:
        func = ast.Attribute(tensor, SWAPPED[name], ast.Load())
        yield "sign" if name in ADDING else "factor", node, ast.Call(func, node.args, node.keywords)
    if name in ADDING:
        yield "term", node, node.args[0] if ast.unparse(tensor) == "torch" else tensor
    if name in FADING:
        yield "factor", node, tensor


def _without(values: list, i: int) -> list:
    return [*values[:i], *values[i + 1 :]]
