"""sympy grids, path sums and target patterns: that they are what they are called."""

import numpy as np
import pytest
import sympy

from reference_impl import ctc, rnnt
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, path_sum, ring_grid, softmax, target_patterns, to_expr
from reference_impl.topology import ctc_lattice, rnnt_lattice


def test_grids_are_independent_symbols():
    y = ring_grid("y", (2, 3))
    assert y.shape == (2, 3)
    assert [str(entry) for entry in y.flat] == ["y_0_0", "y_0_1", "y_0_2", "y_1_0", "y_1_1", "y_1_2"]
    for i, a in enumerate(y.flat):
        for j, b in enumerate(y.flat):
            assert a.diff(b) == (1 if i == j else 0)


def test_field_elements_divide():
    x = field_grid("x", (2, 2))
    assert (x[0, 0] / x[1, 1]) * x[1, 1] == x[0, 0]


def test_softmax_has_the_jacobian_of_softmax():
    """x d/dx of x_k / sum x is y_k (delta - y_j)."""
    x = field_grid("x", (3,))
    y = softmax(x)
    assert sum(y) == 1
    for j in range(3):
        for k in range(3):
            assert x[j] * y[k].diff(x[j]) == y[k] * ((1 if j == k else 0) - y[j])


@pytest.mark.parametrize("targets", [[], [1], [1, 1], [1, 2]])
def test_path_sum_is_what_the_recursions_compute(targets):
    y = ring_grid("y", (3, 3))
    assert path_sum(ctc_lattice(targets, 3, 3), y) == ctc.Z(y, targets, semiring=REAL)
    y = ring_grid("y", (3, len(targets) + 1, 3))
    assert path_sum(rnnt_lattice(targets, 3, 3), y) == rnnt.beta(y, targets, semiring=REAL)[0, 0]


def test_path_sum_of_no_path():
    assert path_sum(ctc_lattice([1, 1], 2, 2), ring_grid("y", (2, 2))) == 0


@pytest.mark.parametrize(("length", "bell_number"), list(enumerate([1, 1, 2, 5, 15, 52, 203])))
def test_target_patterns_are_set_partitions(length, bell_number):
    """One for each way to say which labels are equal; each names its labels in order of appearance."""
    patterns = target_patterns(length)
    assert len(patterns) == bell_number
    assert len({tuple(p) for p in patterns}) == bell_number
    for pattern in patterns:
        first_seen = list(dict.fromkeys(pattern))
        assert first_seen == list(range(1, len(first_seen) + 1))


def test_target_patterns_from_another_label():
    assert target_patterns(2, first_label=4) == [[4, 4], [4, 5]]
    with pytest.raises(ValueError, match="^length = -1; expected length >= 0$"):
        target_patterns(-1)


def test_to_expr():
    y = ring_grid("y", (2,))
    assert to_expr(y[0] * y[1] + 2) == sympy.Symbol("y_0") * sympy.Symbol("y_1") + 2
    assert to_expr(softmax(field_grid("x", (2,)))[0]) == sympy.sympify("x_0 / (x_0 + x_1)")
    assert to_expr(3) == sympy.Integer(3)
    assert isinstance(to_expr(np.int64(3).item()), sympy.Integer)
