"""Sources of evidence: functions whose results a check takes for computed, and the run of a test they belong to."""

from __future__ import annotations

import functools
import hashlib
import inspect
import numbers
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from .random_numbers import random_like

__all__ = ["computed", "no_source_while"]


@dataclass
class Run:
    """One run of a test: the real one (``scrambled`` is None), or one with a source that returns random numbers."""

    scrambled: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict = field(default_factory=dict)  # of real runs: key of a call -> (value, {source that it used: kind})
    using: list[dict[str, str]] = field(default_factory=list)  # the same of the calls that are going on
    calls: list[dict[str, object]] = field(default_factory=list)  # arguments of those that the test itself made
    checks: list[Compared] = field(default_factory=list)
    refused: str | None = None  # why no source may be called


@dataclass(frozen=True)
class Check:
    """The arguments of a call of ``check_equation``."""

    label: str
    lhs: Callable
    rhs: Callable
    cases: list[tuple]
    tolerance: float
    algebraic: Mapping[str, str]
    left_out: Mapping[str, str]

    def arguments(self) -> list[dict[str, object]]:
        """The cases by the names that the right side gives to them."""
        return [dict(inspect.signature(self.rhs).bind(*case).arguments) for case in self.cases]


@dataclass(frozen=True)
class Compared:
    """What a call of ``check_equation`` compared: whether all cases agreed, what the sides were and were made of."""

    check: Check
    agrees: bool
    numbers: list  # of each case: the two sides, and the arguments that they use
    sides: list[tuple]
    report: object  # an EquationReport, or None with random numbers


_run: Run | None = None


def running() -> Run | None:
    """The run that is going on, for ``check_equation`` to report to."""
    return _run


@contextmanager
def run_as(run):
    global _run
    before, _run = _run, run
    try:
        yield run
    finally:
        _run = before


def no_source_while(what: str):
    """A context in which calling a source is an error that says so, such as "while the tests are imported"."""
    return run_as(Run(refused=what))


def computed(function: Callable | None = None, *, kind: str = "enumeration", name: str | None = None) -> Callable:
    """Mark a function whose result a check takes for computed, as against numbers that are free to choose.

    Parameters
    ----------
    function : callable
        From numbers, arrays, strings, and lists, tuples and dicts of those, to the same. It depends on its arguments
        only, and changes nothing: within one test the same call is computed once.
    kind : str
        What sort of evidence it is, for the page of checks: "enumeration", "sympy", "exact difference".
    name : str, optional
        The source's name; by default the function's.

    Examples
    --------
    >>> @computed
    ... def total(y):
    ...     return sum(y)
    >>> total([2, 3])
    5
    """
    if function is None:
        return functools.partial(computed, kind=kind, name=name)
    source, signature = name or function.__name__, inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if _run is None:
            return function(*args, **kwargs)
        if _run.refused is not None:
            raise RuntimeError(f"{source} is called {_run.refused}")
        if _run.scrambled is None and not _run.using:
            _run.calls.append(dict(signature.bind(*args, **kwargs).arguments))
        _note({source: kind})
        key = key_of((function.__module__, function.__qualname__, args, kwargs))
        value = _value(key, lambda: function(*args, **kwargs))
        if _run.scrambled == source:
            return _another(value, random.Random(hashlib.sha256(repr(key).encode()).digest()))
        return _copy(value)

    return wrapper


def _value(key, compute):
    """The value of a call: as in a run without random numbers, unless it uses the source that is random now."""
    known, sources = _run.values.get(key, (None, None))
    if sources is not None and (_run.scrambled is None or _run.scrambled not in sources):
        _note(sources)
        return known
    _run.using.append({})
    try:
        value = compute()
    finally:
        sources = _run.using.pop()
    _note(sources)
    if _run.scrambled is None and _Unknown not in _flat(key):
        _run.values[key] = value, sources
    return value


def _note(sources):
    """The sources, {name: kind}, that a call used count for the test, and for the calls around it."""
    _run.kinds.update(sources)
    for used in _run.using:
        used.update(sources)


def _another(value, rng):
    """Random numbers of the same kind, which a few draws keep from being the same by chance."""
    for _ in range(8):
        drawn = random_like(value, rng)
        if key_of(drawn) != key_of(value):
            break
    return drawn


class _Unknown:
    """Stands in the key of a call for an argument that cannot be compared by value, such as a generator."""


#: What is inside of nothing else; 1 is not 1.0 here, and 0.0 is not -0.0.
_LEAVES = {
    int: lambda value: (int, value), bool: lambda value: (bool, value), str: lambda value: (str, value),
    float: lambda value: (float, repr(value)), type(None): lambda value: (None, value),
    Fraction: lambda value: (Fraction, value.numerator, value.denominator),
}


def key_of(value, inside=()):
    """A hashable stand-in that is equal for equal arguments. What is inside of itself, or of a library, is unknown."""
    kind = type(value)
    if kind in _LEAVES:
        return _LEAVES[kind](value)

    def inner(part):
        return _Unknown if any(part is each for each in inside) else key_of(part, (*inside, value))

    if hasattr(value, "free_symbols") or hasattr(value, "ring") or hasattr(value, "field"):  # of sympy
        return kind, value
    match value:
        case np.ndarray():
            parts = value.tobytes() if value.dtype != object else tuple(inner(each) for each in value.ravel().tolist())
            return "array", value.dtype.str, value.shape, parts
        case list() | tuple():
            return kind.__name__, tuple(inner(each) for each in value), inner(getattr(value, "__dict__", {}))
        case dict():
            return "dict", tuple((inner(k), inner(v)) for k, v in value.items())
        case str() | bytes() | numbers.Number() | np.generic():
            return kind.__name__, repr(value)
    if inspect.isfunction(value):  # what it does, and what it sees of the functions around it
        seen = [cell.cell_contents for cell in value.__closure__ or ()]
        return inner(value.__code__), inner(seen), inner(value.__defaults__), inner(value.__kwdefaults__)
    if inspect.iscode(value):
        return value.co_qualname, value.co_code, value.co_names, tuple(inner(each) for each in value.co_consts)
    if hasattr(value, "__dict__") and not callable(value) and "site-packages" not in _file_of(kind):
        return kind.__name__, inner(vars(value))
    return _Unknown


def _file_of(kind):
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or "site-packages"


def _flat(key):
    return [part for each in key for part in _flat(each)] if isinstance(key, tuple) else [key]


def _copy(value):
    return value.copy() if isinstance(value, np.ndarray | list | dict) else value
