"""check_equation: an identity whose two sides are executed and compared, and whose right side is then mutated."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .mutants import mutants
from .sources import Check, Compared, key_of, running

__all__ = ["EquationError", "EquationReport", "agree", "check_equation", "zero_outside"]


class EquationError(AssertionError):
    """The sides differ, or a mutant of the right side was not noticed."""


@dataclass(frozen=True)
class EquationReport:
    """What :func:`check_equation` did: how many cases agreed, and how many mutants each kind of failure exposed.

    ``equivalent`` are those that mean the same as the right side, with the reasons; ``mutants`` counts all.
    """

    label: str
    cases: int
    by_value: int
    by_error: int
    equivalent: Mapping[str, str] = field(default_factory=dict)

    @property
    def mutants(self) -> int:
        return self.by_value + self.by_error + len(self.equivalent)


def check_equation(label: str, lhs: Callable, rhs: Callable, cases: Iterable[tuple], *, tolerance: float = 0.0,
                   equivalent: Mapping[str, str] | None = None, algebraic: Mapping[str, str] | None = None,
                   left_out: Mapping[str, str] | None = None) -> EquationReport:
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
    algebraic : mapping, optional
        Sources of evidence (see :func:`.computed`) whose numbers the identity does not depend on, by name, each with
        the reason; "no source" if both sides compute from free numbers. :func:`.examine` finds the sources, and what is
        declared in vain.
    left_out : mapping, optional
        Ends of ranges, and orders of two sizes, that no case has, each with the reason (see :class:`.Quantities`).
        :func:`.examine` finds them, and what is declared in vain.

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
    EquationReport(label='eq-squares', cases=1, by_value=11, by_error=0, equivalent={})
    """
    run = running()
    if run is not None and run.scrambled is not None:
        run.checks.append(_compared_at_random(Check(label, lhs, rhs, cases, tolerance, {}, {})))
        return EquationReport(label, 0, 0, 0)
    cases = list(cases)
    if not cases:
        raise EquationError(f"{label}: no case to check")
    check = Check(label, lhs, rhs, cases, tolerance, dict(algebraic or {}), dict(left_out or {}))
    sides = [(lhs(*case), rhs(*case)) for case in cases]
    for i, (left, right) in enumerate(sides):
        if not agree(left, right, tolerance):
            raise EquationError(f"{label}: the sides differ in case {i}: {left} against {right}")
    report = _mutated(check, [left for left, _ in sides], dict(equivalent or {}))
    if run is not None:
        run.checks.append(Compared(check, True, _numbers(check, cases, sides), sides, report))
    return report


def _mutated(check, expected, equivalent):
    label = check.label
    survivors, by_value, by_error, count = [], 0, 0, 0
    for description, mutant in mutants(check.rhs):
        count += 1
        outcome = _exposed(mutant, check.cases, expected, check.tolerance)
        by_value, by_error = by_value + (outcome == "value"), by_error + (outcome == "error")
        if outcome is None:
            survivors.append(description)
    if count == 0:
        raise EquationError(f"{label}: the right side has nothing to mutate")
    unnoticed = [description for description in survivors if description not in equivalent]
    if unnoticed:
        raise EquationError(f"{label}: no case notices " + "; ".join(unnoticed))
    stale = [description for description in equivalent if description not in survivors]
    if stale:
        raise EquationError(f"{label}: listed as equivalent, but not a surviving mutant: " + "; ".join(stale))
    return EquationReport(label, len(check.cases), by_value, by_error, equivalent)


def _compared_at_random(check):
    """Up to the first case that differs, or whose sides random numbers do not even allow to compute."""
    cases, sides = [], []
    for case in check.cases:
        try:
            sides.append((check.lhs(*case), check.rhs(*case)))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return Compared(check, False, [], [], None)
        if not agree(*sides[-1], check.tolerance):
            return Compared(check, False, [], [], None)
        cases.append(case)
    return Compared(check, True, _numbers(check, cases, sides), sides, None)


def _numbers(check, cases, sides):
    """Everything of the cases that the sides could see, so that a change shows."""
    used = [_used(side, len(cases[0])) for side in (check.lhs, check.rhs)] if cases else []
    return [key_of((pair, [case[i] for i in sorted({*used[0], *used[1]})]))
            for pair, case in zip(sides, cases, strict=True)]


def _used(function, count):
    """Places of the arguments that a function reads."""
    names = [p.name for p in inspect.signature(function).parameters.values()]
    loads = [each.argval for each in dis.get_instructions(function) if each.opname.startswith("LOAD_")]
    read = {name for loaded in loads for name in (loaded if isinstance(loaded, tuple) else (loaded,))}  # one, or two
    rest = next((i for i, p in enumerate(inspect.signature(function).parameters.values())
                 if p.kind is p.VAR_POSITIONAL), None)
    places = {i for i, name in enumerate(names) if name in read and i != rest}
    return places | (set(range(rest, count)) if rest is not None and names[rest] in read else set())


def agree(left, right, tolerance: float) -> bool:
    """Whether two sides are equal, or as close as ``tolerance`` allows."""
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
                agrees = agree(left, mutant(*case), tolerance)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            error = "error"
        else:
            if not agrees:
                return "value"
    return error


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
