"""Mutants of a function: every term and factor dropped in turn, every sign flipped, every index and bound shifted.

They are made from the syntax tree of the function's source.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator

__all__ = ["mutants"]


def mutants(function: Callable) -> Iterator[tuple[str, Callable]]:
    """Every mutant of a function's source: (description, function). Of several that read alike, each says which it is.

    Examples
    --------
    >>> def f(a, t):
    ...     return a[t - 1] * 2 - a[t]
    >>> for description, mutant in mutants(f):
    ...     print(description)
    flip sign: a[t - 1] * 2 - a[t] -> -(a[t - 1] * 2 - a[t])
    drop term: a[t - 1] * 2 - a[t] -> a[t - 1] * 2
    drop term: a[t - 1] * 2 - a[t] -> -a[t]
    flip sign: a[t - 1] * 2 - a[t] -> a[t - 1] * 2 + a[t]
    drop factor: a[t - 1] * 2 -> a[t - 1]
    drop factor: a[t - 1] * 2 -> 2
    shift index: a[t] -> a[t + 1]
    shift index: a[t] -> a[t - 1]
    shift index: a[t - 1] -> a[t - 1 + 1]
    shift index: a[t - 1] -> a[t - 1 - 1]
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise TypeError(f"rhs = {function!r}; expected a function made with def")
    definition.decorator_list = []
    closure, seen = inspect.getclosurevars(function), Counter()
    for slot, node in _slots(definition):
        for description, replacement in _replacements(node):
            if ast.unparse(replacement) == ast.unparse(node):  # 1 / x without its numerator is 1 / x
                continue
            slot(replacement)
            seen[description] += 1
            if seen[description] > 1:
                description += f" ({seen[description]})"
            yield description, _compile(tree, function, closure)
            slot(node)


def _compile(tree, function, closure):
    namespace = {**function.__globals__, **closure.nonlocals}
    code = compile(ast.fix_missing_locations(tree), f"<mutant of {function.__name__}>", "exec")
    exec(code, namespace)  # our own source, one node changed
    return namespace[function.__name__]


def _slots(root):
    """Each expression below the body of a function that may be mutated, with a setter for its place in the tree."""
    for parent in ast.walk(ast.Module(body=root.body, type_ignores=[])):
        for name, value in ast.iter_fields(parent):
            for i, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, ast.expr) and not getattr(child, "inside_index", False):
                    if isinstance(parent, ast.Return):
                        child.is_returned = True
                    if isinstance(child, ast.Subscript):  # an index is shifted as a whole, not taken apart
                        for part in ast.walk(child.slice):
                            part.inside_index = isinstance(part, ast.BinOp | ast.UnaryOp)
                    if isinstance(child, ast.Call) and _is_range(child):
                        for part in child.args:
                            for inner in ast.walk(part):
                                inner.inside_index = isinstance(inner, ast.BinOp | ast.UnaryOp)

                    def put(node, parent=parent, name=name, value=value, i=i):
                        if isinstance(value, list):
                            value[i] = node
                        else:
                            setattr(parent, name, node)

                    yield put, child


def _is_range(call):
    return isinstance(call.func, ast.Name) and call.func.id == "range"


def _shifted(node, by):
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(1))


def _replacements(node):
    """(description, replacement) for one expression."""
    def describe(kind, replacement):
        return f"{kind}: {ast.unparse(node)} -> {ast.unparse(replacement)}", replacement

    if getattr(node, "is_returned", False) and not isinstance(node, ast.UnaryOp | ast.Tuple):
        yield describe("flip sign", ast.UnaryOp(ast.USub(), node))
    match node:
        case ast.BinOp(left, ast.Add(), right):
            yield describe("drop term", left)
            yield describe("drop term", right)
            yield describe("flip sign", ast.BinOp(left, ast.Sub(), right))
        case ast.BinOp(left, ast.Sub(), right):
            yield describe("drop term", left)
            yield describe("drop term", ast.UnaryOp(ast.USub(), right))
            yield describe("flip sign", ast.BinOp(left, ast.Add(), right))
        case ast.BinOp(left, ast.Mult(), right):
            yield describe("drop factor", left)
            yield describe("drop factor", right)
        case ast.BinOp(left, ast.Div(), right):
            yield describe("drop factor", left)
            yield describe("drop factor", ast.BinOp(ast.Constant(1), ast.Div(), right))
        case ast.BinOp(left, ast.Pow(), right):
            yield describe("drop exponent", left)
            yield describe("shift exponent", ast.BinOp(left, ast.Pow(), _shifted(right, +1)))
        case ast.UnaryOp(ast.USub(), operand):
            yield describe("flip sign", operand)
        case ast.Compare(left, [ast.Eq()], right):
            yield describe("negate", ast.Compare(left, [ast.NotEq()], right))
        case ast.Compare(left, [ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()] as operators, [right]):
            for by in (+1, -1):
                yield describe("shift bound", ast.Compare(left, operators, [_shifted(right, by)]))
        case ast.Subscript(value, index, context):
            for new_index in _shifted_index(index):
                yield describe("shift index", ast.Subscript(value, new_index, context))
        case ast.Call(function, arguments, []) if _is_range(node):
            for i, argument in enumerate(arguments):
                for by in (+1, -1):
                    shifted = [*arguments[:i], _shifted(argument, by), *arguments[i + 1:]]
                    yield describe("shift bound", ast.Call(function, shifted, []))


def _shifted_index(index):
    match index:
        case ast.Tuple(elements, context):
            for i, element in enumerate(elements):
                for shifted in _shifted_index(element):
                    yield ast.Tuple([*elements[:i], shifted, *elements[i + 1:]], context)
        case ast.Slice(lower, upper, step):
            if lower is not None:
                yield from (ast.Slice(_shifted(lower, by), upper, step) for by in (+1, -1))
            if upper is not None:
                yield from (ast.Slice(lower, _shifted(upper, by), step) for by in (+1, -1))
        case ast.Constant(value) if not isinstance(value, int):  # None and ... are no indices
            return
        case _:
            yield from (_shifted(index, by) for by in (+1, -1))
