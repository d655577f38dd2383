"""sympy objects for the derivations: grids of symbols, path sums, derivatives. Polynomial rings, never ``simplify``.

A ring of polynomials with integer coefficients has exact, canonical elements: two sides are equal if and only if
``==`` says so, thousands of times faster than simplifying expressions. The explicit recursions and the lattice engine
run on these elements unchanged, through the ``REAL`` semiring. Nothing here knows a loss.
"""

from __future__ import annotations

import numpy as np
import sympy
from sympy.polys.fields import field
from sympy.polys.rings import ring

from ._validation import check_at_least
from .lattice import Lattice, enumerate_paths
from .semiring import REAL

__all__ = ["field_grid", "path_sum", "ring_grid", "softmax", "target_patterns", "to_expr"]


def _names(name, shape):
    return [name + "".join(f"_{i}" for i in index) for index in np.ndindex(*shape)]


def _as_array(generators, shape):
    grid = np.empty(shape, dtype=object)
    for index, generator in zip(np.ndindex(*shape), generators, strict=True):
        grid[index] = generator
    return grid


def ring_grid(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A grid of independent symbols: an object array whose entries generate the ring Z[name_0_0, name_0_1, ...].

    Examples
    --------
    >>> y = ring_grid("y", (2, 2))
    >>> z = y[0, 0] * y[1, 1] + y[0, 1] * y[1, 1]
    >>> z.diff(y[0, 0]) == y[1, 1], z.diff(y[0, 1]) * y[0, 1]
    (True, y_0_1*y_1_1)
    """
    return _as_array(ring(_names(name, shape), sympy.ZZ)[1:], shape)


def field_grid(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As :func:`ring_grid`, in the field of rational functions: the entries can also be divided.

    Examples
    --------
    >>> x = field_grid("x", (2,))
    >>> (x[0] / (x[0] + x[1])).diff(x[0]) == x[1] / (x[0] + x[1]) ** 2
    True
    """
    return _as_array(field(_names(name, shape), sympy.ZZ)[1:], shape)


def softmax(x: np.ndarray) -> np.ndarray:
    """``x / x.sum(-1)``: the softmax of logits z in terms of x = e^z, so that d/dz = x d/dx stays rational.

    Examples
    --------
    >>> x = field_grid("x", (2,))
    >>> softmax(x)[0]
    x_0/(x_0 + x_1)
    """
    return x / x.sum(axis=-1, keepdims=True)


def path_sum(lattice: Lattice, entries: np.ndarray):
    """Z by brute force: the product of the entries of each path, summed over all enumerated paths.

    Examples
    --------
    >>> from reference_impl.topology import rnnt_lattice
    >>> path_sum(rnnt_lattice([1], 2, 2), ring_grid("y", (2, 2, 2)))
    y_0_0_0*y_1_0_1*y_1_1_0 + y_0_0_1*y_0_1_0*y_1_1_0
    """
    weights = lattice.arc_weights(entries, REAL)
    return REAL.sum(REAL.product(weights[i] for i in path) for path in enumerate_paths(lattice))


def target_patterns(length: int, *, first_label: int = 1) -> list[list[int]]:
    """Every target of the given length up to renaming its labels: all patterns of repeats.

    Examples
    --------
    >>> target_patterns(3)
    [[1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [1, 2, 3]]
    """
    patterns = [[]]
    for _ in range(check_at_least("length", length, 0)):
        patterns = [[*p, label] for p in patterns for label in range(first_label, max(p, default=first_label - 1) + 2)]
    return patterns


def to_expr(element) -> sympy.Expr:
    """An element of a ring or field as an ordinary sympy expression, to look at."""
    return element.as_expr() if hasattr(element, "as_expr") else sympy.sympify(element)
