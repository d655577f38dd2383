"""check_equation itself: what it compares, which mutants it makes, and that it reports what it should.

The book's own equations are checked in tests/equations/.
"""

from fractions import Fraction

import numpy as np
import pytest

from reference_impl.equations import EquationError, check_equation, mutants, zero_outside
from reference_impl.symbolic import ring_grid

SCALE = 3


def right(a, n):
    return sum(a[t] * a[t] for t in range(0, n)) - SCALE


def left(a, n):
    return int(np.dot(a[:n], a[:n])) - 3


CASES = [(np.array([2, 3, 5, 7]), 3), (np.array([1, 4, 9, 2]), 2)]


def descriptions(function):
    return [description for description, _ in mutants(function)]


class TestComparison:
    def test_reports_what_it_did(self):
        report = check_equation("eq-squares", left, right, CASES)
        assert (report.label, report.cases) == ("eq-squares", 2)
        assert report.mutants == len(descriptions(right)) == report.by_value + report.by_error

    def test_sides_that_differ(self):
        with pytest.raises(EquationError) as caught:
            check_equation("eq-squares", lambda a, n: left(a, n) + (n == 2), right, CASES)
        assert str(caught.value) == "eq-squares: the sides differ in case 1: 15 against 14"

    def test_tolerance_zero_is_exact(self):
        def third(x):
            return x / 3

        assert check_equation("eq-third", lambda x: x * Fraction(1, 3), third, [(Fraction(7),)]).cases == 1
        with pytest.raises(EquationError, match="the sides differ"):
            check_equation("eq-third", lambda x: x / 3 + 1e-15, third, [(1.0,)])

    def test_tolerance_is_relative_to_large_values(self):
        def square(x):
            return x * x

        check_equation("eq-square", lambda x: x**2 * (1 + 1e-10), square, [(1e6,)], tolerance=1e-9)
        with pytest.raises(EquationError, match="the sides differ"):
            check_equation("eq-square", lambda x: x**2 * (1 + 1e-8), square, [(1e6,)], tolerance=1e-9)

    @pytest.mark.parametrize("wrong", [np.nan, np.inf, np.zeros(3)], ids=["NaN", "inf", "shape"])
    def test_nan_inf_and_shapes_differ(self, wrong):
        def double(x):
            return 2 * x

        with pytest.raises(EquationError, match="the sides differ"):
            check_equation("eq-double", lambda x: wrong, double, [(np.ones(2),)], tolerance=1e-9)

    def test_equal_infinities_agree(self):
        def log_sum(x):
            return np.logaddexp(x[0], x[1])

        cases = [(np.array([-np.inf, -np.inf]),), (np.array([0.5, -1.0]),)]
        check_equation("eq-log-sum", lambda x: np.log(np.exp(x[0]) + np.exp(x[1])) if x[0] > -np.inf else -np.inf,
                       log_sum, cases, tolerance=1e-12)

    def test_polynomials(self):
        y = ring_grid("y", (3,))

        def power_rule(y):
            return 3 * y[1] ** 2 * y[2]

        check_equation("eq-power", lambda y: (y[1] ** 3 * y[2] + y[0]).diff(y[1]), power_rule, [(y,)])

    def test_no_case(self):
        with pytest.raises(EquationError, match="^eq-squares: no case to check$"):
            check_equation("eq-squares", left, right, [])


class TestMutants:
    def test_a_blind_case_is_named(self):
        """With a[1] = 0 nobody sees that its term is gone."""
        def two_terms(a):
            return a[0] + a[1]

        with pytest.raises(EquationError) as caught:
            check_equation("eq-sum", lambda a: 5, two_terms, [(np.array([5, 0]),)])
        assert str(caught.value).startswith("eq-sum: no case notices drop term: a[0] + a[1] -> a[0]; "
                                            "flip sign: a[0] + a[1] -> a[0] - a[1]")
        check_equation("eq-sum", lambda a: a.sum(), two_terms, [(np.array([5, 3]),)])

    def test_one_case_that_notices_is_enough(self):
        def two_terms(a):
            return a[0] + a[1]

        check_equation("eq-sum", lambda a: a.sum(), two_terms, [(np.array([5, 0]),), (np.array([0, 3]),)])

    def test_equivalent_mutants_need_a_reason_and_must_survive(self):
        def padded(a):
            return a[0] * 1

        drop = "drop factor: a[0] * 1 -> a[0]"
        with pytest.raises(EquationError, match="no case notices"):
            check_equation("eq-one", lambda a: a[0], padded, [(np.array([5, 3]),)])
        check_equation("eq-one", lambda a: a[0], padded, [(np.array([5, 3]),)], equivalent={drop: "a factor of 1"})
        with pytest.raises(EquationError) as caught:
            check_equation("eq-one", lambda a: a[0], padded, [(np.array([5, 3]),)],
                           equivalent={drop: "a factor of 1", "drop term: x": "no such thing"})
        assert str(caught.value) == "eq-one: listed as equivalent, but not a surviving mutant: drop term: x"

    def test_nothing_to_mutate(self):
        def constant():
            x = 3
            return x, x

        with pytest.raises(EquationError, match="has nothing to mutate"):
            check_equation("eq-three", lambda: (3, 3), constant, [()])

    def test_only_a_def_has_a_source_to_mutate(self):
        with pytest.raises(TypeError, match="expected a function made with def"):
            list(mutants(lambda a: a + 1))  # noqa: E731

    @pytest.mark.parametrize("expression", ["a[t] + a[u]", "a[t] - a[u]", "a[t] * a[u]", "a[t] / a[u]", "-a[t] + a[u]",
                                            "a[t] ** 2", "a[t] * (t == u)", "a[t] * (u <= t)"])
    def test_every_kind_of_expression_is_mutated(self, expression, tmp_path, monkeypatch):
        """No mutant equals the function, and all are different functions."""
        (tmp_path / "written.py").write_text(f"def f(a, t, u):\n    return {expression}\n")
        monkeypatch.syspath_prepend(tmp_path)
        written = {}
        exec(compile((tmp_path / "written.py").read_text(), str(tmp_path / "written.py"), "exec"), written)
        a = np.array([2.0, 3.0, 5.0, 7.0, 11.0])
        places = [(1, 1), (2, 1), (1, 2), (3, 2), (2, 3)]

        def values(f):
            return tuple(f(a, t, u) for t, u in places)

        made = list(mutants(written["f"]))
        assert len(made) >= 3
        assert values(written["f"]) not in [values(mutant) for _, mutant in made]
        assert len({description for description, _ in made}) == len(made)

    def test_shifted_indices_of_grids_and_slices(self):
        def grid(a, t, u):
            return a[t, u + 1][0:2]

        found = {d.split(": ", 1)[1] for d in descriptions(grid) if d.startswith("shift index")}
        assert found == {f"a[t, u + 1][0:2] -> {new}" for new in (
            "a[t, u + 1][0 + 1:2]", "a[t, u + 1][0 - 1:2]", "a[t, u + 1][0:2 + 1]", "a[t, u + 1][0:2 - 1]")} | {
            f"a[t, u + 1] -> {new}" for new in (
                "a[t + 1, u + 1]", "a[t - 1, u + 1]", "a[t, u + 1 + 1]", "a[t, u + 1 - 1]")}

    def test_bounds_of_sums_are_shifted(self):
        found = {d for d in descriptions(right) if d.startswith("shift bound")}
        assert found == {f"shift bound: range(0, n) -> range({bounds})"
                         for bounds in ("0 + 1, n", "0 - 1, n", "0, n + 1", "0, n - 1")}

    def test_closures_and_globals_are_seen(self):
        """The right side may use names from around it."""
        offset = 10

        def shifted(a):
            return a[0] + offset - SCALE

        report = check_equation("eq-closure", lambda a: a[0] + 7, shifted, [(np.array([1, 2]),), (np.array([4, 8]),)])
        assert report.mutants >= 6

    def test_the_function_itself_is_not_changed(self):
        before = right(*CASES[0])
        list(mutants(right))
        assert right(*CASES[0]) == before == left(*CASES[0])

    def test_mutants_that_fail_by_error_count(self):
        """An index out of range exposes a mutant, too; it is counted apart."""
        def last(a):
            return a[1]

        report = check_equation("eq-last", lambda a: a[1], last, [(np.array([5, 3]),)])
        assert (report.by_value, report.by_error) == (2, 1)

    def test_other_errors_are_not_swallowed(self):
        """Only what a wrong index or number raises is taken for a failed mutant."""
        class Broken(Exception):
            pass

        def fragile(a):
            return picky(a[0] + 1)

        def picky(value):
            if value != 6:
                raise Broken
            return value

        with pytest.raises(Broken):
            check_equation("eq-fragile", lambda a: 6, fragile, [(np.array([5, 3]),)])


def test_zero_outside():
    """Reads as on paper: 0 before the first and after the last, with no wrapping round."""
    a = zero_outside(np.arange(1, 7).reshape(2, 3))
    assert [a[t, u] for t, u in [(0, 0), (1, 2), (-1, 0), (2, 0), (0, -1), (0, 3)]] == [1, 6, 0, 0, 0, 0]
    assert zero_outside([5.0], zero=-np.inf)[1] == -np.inf
    assert zero_outside([5.0])[0] == 5.0
    with pytest.raises(ValueError):
        a[0]
