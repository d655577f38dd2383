"""What random numbers in place of computed ones tell about a check: of the examiner itself, not of the book."""

import random
from fractions import Fraction

import numpy as np
import pytest
import sympy

from reference_impl.duals import Dual
from reference_impl.equations import (
    EquationError,
    Quantities,
    check_equation,
    computed,
    examine,
    mutants,
    no_source_while,
    random_like,
    zero_outside,
)
from reference_impl.symbolic import field_grid, ring_grid

Y = np.array([Fraction(2), Fraction(3), Fraction(5)], dtype=object)


@computed
def total(y):
    return sum(y)


@computed(kind="exact difference", name="slopes")
def derivative_of_total(y):
    return [k + total(y + 1) - total(y) - len(y) for k in range(len(y))]  # 0, 1, 2, ...


@computed
def members(y):
    return [[0], [1], [0, 1, 2]][: len(y)]


@computed
def mass(y):
    return sum((sum(y[i] for i in each) for each in members(y)), Fraction(0))


def outcomes(check):
    (examined,) = examine(check)
    return examined.outcomes


def share(z, y, k):
    return y[k] / z


class TestExamine:
    def test_evidence(self):
        """One side adds up, the other has the computed total."""
        def check():
            check_equation("eq-share", lambda z, y, k: y[k] / (y[0] + y[1] + y[2]), share,
                           [(total(Y), zero_outside(Y), k) for k in range(3)])

        assert outcomes(check) == {"total": "differ"}

    def test_a_tautology_is_found(self):
        """Shares of any total add up to one, if it is the total of the shares."""
        def check(**options):
            def rhs(shares, n):
                return sum(shares[k] for k in range(0, n))

            z = total(Y)
            shares = zero_outside([y / z for y in Y][:-1] + [1 - sum(y / z for y in Y[:-1])], zero=7)
            check_equation("eq-one", lambda shares, n: 1, rhs, [(shares, 3)], **options)

        with pytest.raises(EquationError, match="^eq-one: the sides agree whatever total returns$"):
            examine(check)
        declared = {"total": "the last share is what the others leave"}
        assert outcomes(lambda: check(algebraic=declared)) == {"total": "agree"}

    def test_what_is_declared_in_vain(self):
        def check():
            check_equation("eq-share", lambda z, y, k: y[k] / 10, share, [(total(Y), zero_outside(Y), 0)],
                           algebraic={"total": "no", "nothing": "no such source"})

        with pytest.raises(EquationError) as caught:
            examine(check)
        assert str(caught.value) == "; ".join(
            f"eq-share: declared algebraic, but the sides do not agree whatever {source} returns"
            for source in ("total", "nothing"))

    def test_a_check_without_a_source_says_why(self):
        """Whatever it compares, nothing could be made random; and a declaration in vain is found."""
        def check(*sources, **declared):
            def rhs(y, k):
                return y[k] + y[k]

            numbers = [*sources, *Y]
            check_equation("eq-twice", lambda y, k: 2 * y[k], rhs, [(Y, k) for k in range(len(Y))], **declared)
            return numbers

        with pytest.raises(EquationError, match="^eq-twice: no source of computed numbers matters to it; mark what"):
            examine(check)
        with pytest.raises(EquationError, match="^eq-twice: no source of computed numbers matters to it"):
            examine(lambda: check(total(Y)))  # called, and used by neither side
        declared = {"algebraic": {"no source": "arithmetic of free numbers"}}
        (examined,) = examine(lambda: check(total(Y), **declared))
        assert examined.outcomes == {"total": "unused"}

        def with_source():
            check_equation("eq-share", lambda z, y, k: y[k] / (y[0] + y[1] + y[2]), share,
                           [(total(Y), zero_outside(Y), k) for k in range(3)], **declared)

        with pytest.raises(EquationError, match="^eq-share: declared to have no source, but total is one$"):
            examine(with_source)

    def test_one_source_at_a_time(self):
        """Two routes to one number are evidence of both."""
        def check():
            def rhs(z, steps):
                return steps[1] + 3 * steps[2] + 3

            check_equation("eq-two", lambda z, steps: z, rhs, [(total(Y), derivative_of_total(Y))])

        assert outcomes(check) == {"total": "differ", "slopes": "differ"}

    def test_a_source_inside_another(self):
        """The lists that a mass adds up are random for it, too, and known values are not taken for it then."""
        def check():
            def rhs(m, y):
                return 2 * y[0] + 2 * y[1] + y[2]

            check_equation("eq-mass", lambda m, y: m, rhs, [(mass(Y), Y)])

        assert outcomes(check) == {"mass": "differ", "members": "differ"}

    def test_what_no_side_reads_is_unused(self):
        def check():
            z = total(Y)
            check_equation("eq-share", lambda z, y, k, _: y[k] / 10, lambda_free, [(10, Y, k, z) for k in range(3)],
                           algebraic={"no source": "the total is not read"})

        def lambda_free(z, y, k, unread):
            return y[k] / z

        assert outcomes(check) == {"total": "unused"}

    def test_a_constant_on_both_sides_has_not_been_unused(self):
        """Both sides are 1 for any numbers: that shows in what they read."""
        def check():
            def rhs(z, w):
                return z / w

            z = total(Y)
            check_equation("eq-one", lambda z, w: 1, rhs, [(z, z)])

        with pytest.raises(EquationError, match="whatever total returns"):
            examine(check)

    def test_closures_count(self):
        """What a side reads from around it shows in its value."""
        def check():
            z = total(Y)

            def rhs(k):
                return Y[k] / z

            check_equation("eq-share", lambda k: Y[k] / z, rhs, [(0,), (1,)])

        with pytest.raises(EquationError, match="whatever total returns"):
            examine(check)

    def test_several_checks_in_one_test(self):
        def check():
            z = total(Y)
            check_equation("eq-first", lambda z, y, k: y[k] / 10, share, [(z, Y, 0)])
            check_equation("eq-second", lambda z, y, k: y[k] / z, share, [(z, Y, 0)])

        with pytest.raises(EquationError, match="^eq-second: the sides agree whatever total returns$"):
            examine(check)

    def test_an_error_on_the_way(self):
        """Random numbers may break the making of the cases: then the check was not blind to them."""
        def check():
            assert total(Y) == 10
            check_equation("eq-share", lambda z, y, k: y[k] / 10, share, [(10, Y, 0)])

        assert outcomes(check) == {"total": "AssertionError"}

    def test_sides_that_differ_are_told_as_ever(self):
        with pytest.raises(EquationError, match="the sides differ"):
            examine(lambda: check_equation("eq-share", lambda z, y, k: z, share, [(total(Y), Y, 0)]))

    def test_the_mutants_are_tried_once(self):
        """In the real run only: the others are for the evidence."""
        with pytest.raises(EquationError, match="no case notices"):
            examine(lambda: check_equation("eq-share", lambda z, y, k: 0, share, [(total(Y), Y * 0, 0)]))

    def test_a_call_is_computed_once(self):
        calls = []

        @computed
        def counted(y):
            calls.append(y)
            return sum(y)

        def check():
            z = counted(Y) + counted(Y) - counted([2, 3, 5])
            assert counted([2, 3, 5.0]) is not counted([2, 3, 5])
            check_equation("eq-share", lambda z, y, k: y[k] / 10, share, [(z, Y, k) for k in range(3)])

        assert outcomes(check) == {"counted": "differ"}
        assert len(calls) == 3  # those of the real run
        assert counted(Y) == 10 and len(calls) == 4  # nothing is kept afterwards

    def test_results_may_be_changed_by_who_gets_them(self):
        @computed
        def squares(n):
            return np.arange(n) ** 2.0

        def check():
            first = squares(3)
            first[2] = 5.0
            check_equation("eq-share", lambda z, y, k: 2.0, share, [(2.0, zero_outside(squares(3), zero=7), 2)])

        assert outcomes(check) == {"squares": "differ"}

    def test_sources_of_the_same_name_are_told_apart(self):
        """What one returned to an earlier test is not taken for what another returns."""
        def first():
            @computed
            def total(y):
                return 5

            return total

        def second():
            @computed
            def total(y):
                return 7

            return total

        def sides(total):
            def rhs(z, n):
                return z * n

            def check():
                check_equation("eq-n", lambda z, n: total(Y) * n, rhs, [(total(Y), 3)], algebraic={"total": "both"})

            (examined,) = examine(check, known=known)
            return examined.compared.sides

        known = {}
        assert [sides(total()) for total in (first, second)] == [[(15, 15)], [(21, 21)]]

    def test_functions_as_arguments(self):
        """Told apart by what they do and see; of what cannot be told apart nothing is remembered."""
        @computed
        def slope(f, x):
            return f(x + 1) - f(x)

        def check():
            def rhs(a, b):
                return a + 2 * b - 4

            first, second = slope(lambda x: 3 * x, 1), slope(lambda x: 2 * x, 1)
            check_equation("eq-slopes", lambda a, b: 3, rhs, [(first, second)])

        assert outcomes(check) == {"slope": "differ"}


class TestRandomLike:
    @pytest.mark.parametrize("value", [3, 2.5, np.float32(2.5), np.int64(4), Fraction(1, 3), 1 + 2j, True,
                                       np.array([[1, 0], [3, 4]]), np.array([Fraction(1), Fraction(0)], dtype=object)],
                             ids=str)
    def test_shape_and_type(self, value):
        found = random_like(value, random.Random(0))
        assert type(found) is type(value) and np.shape(found) == np.shape(value)
        assert np.array_equal(found, random_like(value, random.Random(0)))

    def test_ring_and_field_elements_and_expressions(self):
        for value in (ring_grid("y", (2,))[0], field_grid("x", (2,))[0] / 3, sympy.Symbol("s") ** 2):
            found = random_like(value, random.Random(0))
            assert isinstance(found, type(value) if not isinstance(value, sympy.Basic) else sympy.Basic)
            assert found != value

    def test_other_libraries_fractions_and_dual_numbers(self):
        for value in (sympy.QQ(1, 3), Dual(Fraction(1, 3), 2)):
            found = random_like(value, random.Random(0))
            assert type(found) is type(value) and found != value

    def test_collections(self):
        assert random_like({"a": (1, "b", None)}, random.Random(0))["a"][1:] == ("b", None)

    def test_paths_are_counted_wrongly(self):
        assert random_like([[0, 1], [2, 3]], random.Random(0)) in ([[0, 1], [2, 3], [0, 1]], [[0, 1], [2, 3], [2, 3]])

    def test_a_type_of_its_own_says_how(self):
        class Log:
            def random_like(self, rng):
                return "like a logarithm"

        class Other:
            pass

        assert random_like(Log(), random.Random(0)) == "like a logarithm"
        with pytest.raises(TypeError, match=r"^no random number is like a Other; give it a method random_like\(rng\)$"):
            random_like(Other(), random.Random(0))


GRID = Quantities({"y": "T, U + 1", "labels": "U", "S": "2 U + 1", "T": "T"}, {
    "T = 1": lambda T: T == 1,
    "a weight of 0": (lambda y: (y == 0).any(), lambda labels: False),
    "t = T - 1": lambda t, T: t == T - 1,
})


class TestRanges:
    """Sizes that coincide, and ends that are not among the cases."""

    @staticmethod
    def findings(cases, **options):
        def rhs(y, labels, t):
            return y[t, 0] * 2

        try:
            examine(lambda: check_equation("eq-grid", lambda y, labels, t: y[t, 0] + y[t, 0], rhs, cases, **options,
                                           algebraic={"no source": "its ranges are in question"}), GRID)
        except EquationError as error:
            return str(error).split("; ")
        return []

    def test_all_there(self):
        y = np.arange(1, 13).reshape(2, 6)
        zero = y[:, :2].copy()
        zero[1, 1] = 0
        assert not self.findings([(zero, [1], 1), (y[:1, :3], [1, 1], 0)])

    def test_coinciding_sizes(self):
        y = np.arange(4).reshape(2, 2)
        assert self.findings([(y, [1], 1), (y[:1], [1], 0)]) == ["eq-grid: no case has T < U"]

    def test_a_missing_end(self):
        y = np.array([[3, 1], [5, 1]])
        found = self.findings([(y, [1], 0)])
        assert found == [f"eq-grid: no case has {end}" for end in ["T < U", "T = 1", "a weight of 0", "t = T - 1"]]

    def test_left_out_with_a_reason(self):
        y, reasons = np.array([[3, 1], [5, 1]]), dict.fromkeys(["T < U", "T = 1", "a weight of 0"], "it is 2")
        assert self.findings([(y, [1], 1)], left_out=reasons) == []
        assert self.findings([(y, [1], 1)], left_out=reasons | {"U < T": "in vain", "no such": "in vain"}) == [
            "eq-grid: left out in vain: U < T", "eq-grid: left out in vain: no such"]

    def test_shapes_are_compared(self):
        y = np.ones((2, 2), dtype=int)
        with pytest.raises(EquationError, match="^eq-s: labels has U = 2, but y has U = 1$"):
            self.sizes_of(y, [1, 1])
        with pytest.raises(EquationError, match=r"^eq-s: y has shape \(2,\), not \(T, U \+ 1\)$"):
            self.sizes_of(y[0], [1])

    @staticmethod
    def sizes_of(y, labels):
        def rhs(y, labels):
            return 1 + 1

        examine(lambda: check_equation("eq-s", lambda y, labels: 2, rhs, [(y, labels)],
                                       algebraic={"no source": "its shapes are in question"}), GRID)

    def test_factors_and_numbers(self):
        assert GRID.sizes({"S": 7}) == {"U": 3}
        assert Quantities({"a": "N - 1, 2"}).sizes({"a": np.zeros((4, 2))}) == {"N": 5}
        with pytest.raises(ValueError, match="S has shape"):
            GRID.sizes({"S": 4})
        with pytest.raises(ValueError, match="expected a letter, with a factor and a summand"):
            Quantities({"a": "N * M"}).sizes({"a": np.zeros(3)})

    def test_what_the_cases_do_not_have_is_looked_for_in_the_calls_of_sources(self):
        @computed
        def last(y, labels):
            return y[-1, 0]

        def check():
            def rhs(z):
                return z * 1

            inputs = [(np.array([[2, 0]]), [1]), (np.array([[3], [5]]), []), (np.array([[3, 1, 1]]), [1, 2])]
            check_equation("eq-last", lambda z: z, rhs, [(last(y, labels),) for y, labels in inputs],
                           equivalent={"drop factor: z * 1 -> z": "times 1"}, algebraic={"last": "z is z"})

        (examined,) = examine(check, GRID)
        assert examined.coverage.sizes == {"T": [1, 2], "U": [0, 1, 2]}
        assert examined.coverage.covered == ["T < U", "U < T", "T = 1", "a weight of 0"]


def test_mutants_that_read_alike_are_told_apart():
    def rhs(a, b):
        return (a + b) * (a + b)

    descriptions = [description for description, _ in mutants(rhs)]
    assert len(set(descriptions)) == len(descriptions)
    assert "drop term: a + b -> a" in descriptions and "drop term: a + b -> a (2)" in descriptions


def test_no_source_is_called_where_nobody_looks():
    with no_source_while("while the tests are imported"), pytest.raises(RuntimeError, match="^total is called while"):
        total(Y)
