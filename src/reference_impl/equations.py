"""check_equation: an identity whose two sides are executed and compared, and whose right side is then mutated.

A check that cannot fail shows nothing. So after the comparison every term and factor of the right side is dropped in
turn, every sign flipped, every index and bound shifted, and the comparison must fail each time. The right side is
an ordinary Python function that looks like the displayed equation; its mutants are made from its syntax tree.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["EquationError", "EquationReport", "check_equation", "mutants", "zero_outside"]


class EquationError(AssertionError):
    """The sides differ, or a mutant of the right side was not noticed."""


@dataclass(frozen=True)
class EquationReport:
    """What :func:`check_equation` did: how many cases agreed, and how many mutants each kind of failure exposed."""

    label: str
    cases: int
    by_value: int
    by_error: int

    @property
    def mutants(self) -> int:
        return self.by_value + self.by_error


def check_equation(label: str, lhs: Callable, rhs: Callable, cases: Iterable[tuple], *, tolerance: float = 0.0,
                   equivalent: Mapping[str, str] | None = None) -> EquationReport:
    """Show that ``lhs(*case) == rhs(*case)`` for every case, and that no mutant of ``rhs`` passes for it.

    Parameters
    ----------
    label : str
        The equation's label in the book.
    lhs, rhs : callable
        From the same arguments to a number, a ring element or an array. ``rhs`` is a ``def`` whose source is mutated.
    cases : iterable of tuples
        Arguments; each mutant has to fail on at least one of them.
    tolerance : float
        0 compares with ``==`` (fractions, integers, ring elements); else ``|l - r| <= tolerance * (1 + |l|)``.
    equivalent : mapping, optional
        Mutants that truly mean the same, by their description, each with the reason. One that is listed in vain fails.

    Returns
    -------
    EquationReport

    Raises
    ------
    EquationError
        Naming the first case that differs, or every mutant that survived.

    Examples
    --------
    >>> def right(a, k):
    ...     return sum(a[j] * a[j] for j in range(0, k))
    >>> check_equation("eq-squares", lambda a, k: np.dot(a[:k], a[:k]), right, [(np.array([2, 3, 5, 7]), 3)])
    EquationReport(label='eq-squares', cases=1, by_value=11, by_error=0)
    """
    cases = list(cases)
    if not cases:
        raise EquationError(f"{label}: no case to check")
    for i, case in enumerate(cases):
        left, right = lhs(*case), rhs(*case)
        if not _agree(left, right, tolerance):
            raise EquationError(f"{label}: the sides differ in case {i}: {left} against {right}")

    expected = [lhs(*case) for case in cases]
    survivors, by_value, by_error, count = [], 0, 0, 0
    for description, mutant in mutants(rhs):
        count += 1
        outcome = _exposed(mutant, cases, expected, tolerance)
        by_value, by_error = by_value + (outcome == "value"), by_error + (outcome == "error")
        if outcome is None:
            survivors.append(description)
    if count == 0:
        raise EquationError(f"{label}: the right side has nothing to mutate")
    equivalent = dict(equivalent or {})
    unnoticed = [description for description in survivors if description not in equivalent]
    if unnoticed:
        raise EquationError(f"{label}: no case notices " + "; ".join(unnoticed))
    stale = [description for description in equivalent if description not in survivors]
    if stale:
        raise EquationError(f"{label}: listed as equivalent, but not a surviving mutant: " + "; ".join(stale))
    return EquationReport(label, len(cases), by_value, by_error)


def _agree(left, right, tolerance):
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        return False
    if tolerance == 0:
        return bool(np.all(left == right))
    with np.errstate(invalid="ignore"):
        close = np.abs(left - right) <= tolerance * (1 + np.abs(left))
    return bool(np.all(close | ((left == right) & np.isinf(np.asarray(left, float)))))


def _exposed(mutant, cases, expected, tolerance):
    """How a mutant gives itself away: by a wrong "value", by an "error" only (an index out of range, say), or None."""
    error = None
    for case, left in zip(cases, expected, strict=True):
        try:
            with np.errstate(all="ignore"):
                agrees = _agree(left, mutant(*case), tolerance)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            error = "error"
        else:
            if not agrees:
                return "value"
    return error


def mutants(function: Callable) -> Iterator[tuple[str, Callable]]:
    """Every mutant of a function's source: (description, function).

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
    closure = inspect.getclosurevars(function)
    for slot, node in _slots(definition):
        for description, replacement in _replacements(node):
            if ast.unparse(replacement) == ast.unparse(node):  # 1 / x without its numerator is 1 / x
                continue
            slot(replacement)
            yield description, _compile(tree, function, closure)
            slot(node)


def _compile(tree, function, closure):
    namespace = {**function.__globals__, **closure.nonlocals}
    module = ast.fix_missing_locations(copy.deepcopy(tree))
    exec(compile(module, f"<mutant of {function.__name__}>", "exec"), namespace)  # our own source, one node changed
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


class zero_outside:
    """An array that reads as ``zero`` wherever an index falls outside it, as recursions are written on paper.

    Examples
    --------
    >>> a = zero_outside(np.array([[1, 2], [3, 4]]))
    >>> int(a[1, 0]), a[-1, 0], a[0, 2]
    (3, 0, 0)
    """

    def __init__(self, array, zero=0):
        self.array, self.zero = np.asarray(array), zero

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        inside = all(0 <= i < n for i, n in zip(index, self.array.shape, strict=True))
        return self.array[index] if inside else self.zero
