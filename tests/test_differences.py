"""Finite differences: their orders of error, what check_gradient accepts and refuses, and exact differences."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from reference_impl import ctc, rnnt
from reference_impl.differences import (
    DEFAULT_STEP,
    GradientMismatch,
    central_difference,
    check_gradient,
    error_curve,
    exact_difference,
    random_integers,
)
from reference_impl.semiring import REAL


def curved(x):
    return float(np.exp(x[0]) * np.sin(x[1]) + x[0] * x[2] ** 3)


def curved_gradient(x):
    return np.array([np.exp(x[0]) * np.sin(x[1]) + x[2] ** 3, np.exp(x[0]) * np.cos(x[1]), 3 * x[0] * x[2] ** 2])


X = np.array([0.7, 0.4, -1.3])


class TestCentralDifference:
    def test_is_exact_for_quadratics(self):
        """No truncation error up to degree 2, whatever the step: only rounding is left."""
        for h in (1e-3, 1.0, 64.0):
            slope = central_difference(lambda x: float(3 * x[0] ** 2 - 5 * x[0] + 1), [2.0], h=h)
            assert slope == pytest.approx([7.0], rel=1e-9)

    def test_truncation_is_of_order_two(self):
        """Half the step, a quarter of the error."""
        errors = error_curve(curved, curved_gradient(X), X, [2e-2, 1e-2, 5e-3])
        np.testing.assert_allclose(errors[:-1] / errors[1:], 4, atol=0, rtol=0.01)

    def test_rounding_is_of_order_minus_one(self):
        """For small steps the error grows like 1 / h, and stays below eps |f| / h."""
        steps = np.array([1e-9, 1e-11, 1e-13])
        errors = error_curve(curved, curved_gradient(X), X, steps)
        assert (np.diff(errors) > 0).all()
        assert (errors < 4 * np.finfo(float).eps / steps).all()

    def test_default_step_is_near_the_best(self):
        """No step of the curve does better than the default by more than a factor of ten."""
        steps = np.logspace(-12, -1, 45)
        best = error_curve(curved, curved_gradient(X), X, steps).min()
        assert error_curve(curved, curved_gradient(X), X, [DEFAULT_STEP])[0] < 10 * max(best, 1e-12)

    def test_entries(self):
        """Those not asked for are NaN, and are never moved."""
        moved = []
        slope = central_difference(lambda x: moved.append(x != X) or curved(x), X, entries=[(1,)])
        assert np.isnan(slope).tolist() == [True, False, True]
        assert np.logical_or.reduce(moved).tolist() == [False, True, False]
        np.testing.assert_array_equal(error_curve(curved, curved_gradient(X), X, [1e-3], entries=[(1,)]),
                                      np.abs(central_difference(curved, X, h=1e-3) - curved_gradient(X))[[1]])

    def test_keeps_x_and_hands_out_copies(self):
        """A function that spoils its argument spoils nothing else."""
        x = X.copy()

        def spoils(x):
            value = curved(x)
            x[:] = 0
            return value

        np.testing.assert_array_equal(central_difference(spoils, x), central_difference(curved, X))
        np.testing.assert_array_equal(x, X)

    def test_step_as_it_really_was(self):
        """Where x + h is rounded, the quotient divides by what was added: a slope of 1 stays 1."""
        assert central_difference(lambda x: float(x[0]), [1e6], h=1e-9) == pytest.approx([1.0], rel=1e-15)

    @pytest.mark.parametrize(("x", "h", "message"), [
        ([1.0], 0.0, "h = 0.0; expected h > 0"), ([1.0], -1e-3, "h = -0.001; expected h > 0"),
        ([1.0], float("nan"), "h = nan; expected h > 0"),
        ([1e20], 1e-3, "h = 0.001; expected a step that moves x[0] = 1e+20"),
    ])
    def test_steps_that_make_no_sense(self, x, h, message):
        with pytest.raises(ValueError) as caught:
            central_difference(lambda x: float(x[0]), x, h=h)
        assert str(caught.value) == message


class TestCheckGradient:
    def test_accepts_the_right_gradient(self):
        result = check_gradient(curved, curved_gradient(X), X)
        assert result.entries == 3
        assert result.error <= result.tolerance < 1e-7

    def test_is_of_order_four(self):
        """Half the step, a sixteenth of the error: two central differences are combined."""
        errors = [check_gradient(curved, curved_gradient(X), X, h=h).error for h in (0.08, 0.04)]
        assert errors[0] / errors[1] == pytest.approx(16, rel=0.05)
        assert errors[1] < error_curve(curved, curved_gradient(X), X, [0.04])[0] / 100

    def test_tolerance_is_the_truncation_error_of_one_difference(self):
        """With a large step: the error that the plain central difference makes is forgiven, three times it is not."""
        h, exact = 0.05, curved_gradient(X)
        plain = central_difference(curved, X, h=h)
        check_gradient(curved, exact + 0.9 * (plain - exact), X, h=h)
        with pytest.raises(GradientMismatch):
            check_gradient(curved, exact + 3 * (plain - exact), X, h=h)

    @pytest.mark.parametrize("entry", range(3))
    @pytest.mark.parametrize("relative", [1e-6, -1e-6, 1e-2, 2.0])
    def test_refuses_one_entry_off_by_a_millionth(self, entry, relative):
        wrong = curved_gradient(X)
        wrong[entry] *= 1 + relative
        with pytest.raises(GradientMismatch, match=f"gradient\\[{entry}\\]"):
            check_gradient(curved, wrong, X)

    def test_names_the_worst_entry_and_both_values(self):
        with pytest.raises(GradientMismatch) as caught:
            check_gradient(lambda x: float(2 * x[0, 0] + 3 * x[1, 0]), [[2.5], [9.0]], [[0.0], [0.0]])
        assert str(caught.value).startswith("gradient[1, 0] = 9; finite differences give 3 (difference 6, tolerance ")

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_refuses_what_is_not_finite(self, value):
        wrong = curved_gradient(X)
        wrong[1] = value
        with pytest.raises(GradientMismatch, match="gradient\\[1\\]"):
            check_gradient(curved, wrong, X)

    def test_refuses_a_function_that_is_nan(self):
        with pytest.raises(GradientMismatch):
            check_gradient(lambda x: float("nan"), [0.0], [0.0])

    def test_looks_at_chosen_entries_only(self):
        wrong = curved_gradient(X)
        wrong[0] = 77
        assert check_gradient(curved, wrong, X, entries=[(1,), (2,)]).entries == 2
        with pytest.raises(GradientMismatch):
            check_gradient(curved, wrong, X, entries=[(0,)])

    def test_noise_of_single_precision(self):
        """An f rounded to float32 fails on its noise, and passes once that is declared."""
        def rounded(x):
            return float(np.float32(curved(x)))

        with pytest.raises(GradientMismatch):
            check_gradient(rounded, curved_gradient(X), X, h=1e-5)
        assert check_gradient(rounded, curved_gradient(X), X, h=1e-3, noise=1e-7).error < 1e-3

    @pytest.mark.parametrize(("gradient", "entries", "message"), [
        ([1.0], None, "gradient has shape (1,); expected (3,)"),
        (np.zeros(3), [], "the number of entries = 0; expected the number of entries >= 1"),
    ])
    def test_nothing_to_compare(self, gradient, entries, message):
        with pytest.raises(ValueError) as caught:
            check_gradient(curved, gradient, X, entries=entries)
        assert str(caught.value) == message

    @pytest.mark.parametrize("kind", [ctc, rnnt], ids=["ctc", "rnnt"])
    def test_on_the_losses(self, kind):
        """Both gradients of both losses pass; each passes for the other's variable by no chance."""
        scores = np.random.default_rng(0).normal(size=(4, 5) if kind is ctc else (4, 3, 5))
        check_gradient(lambda s: kind.loss(s, [2, 1]), kind.grad_log_probs(scores, [2, 1]), scores)
        with pytest.raises(GradientMismatch):
            check_gradient(lambda s: kind.loss(s, [2, 1]), kind.grad_logits(scores, [2, 1]), scores)


class TestExactDifference:
    @pytest.mark.parametrize("kind", [ctc, rnnt], ids=["ctc", "rnnt"])
    def test_does_not_depend_on_the_step(self, kind):
        """Z is affine in each probability: steps of any size and sign give the same Fraction."""
        y = random_integers(np.random.default_rng(0), (4, 3) if kind is ctc else (4, 4, 3))
        mass = partial(kind.Z, targets=[1, 1, 2], semiring=REAL)
        for index in np.ndindex(y.shape):
            slopes = {exact_difference(mass, y, index, h) for h in (1, -10**30, Fraction(1, 7))}
            assert len(slopes) == 1

    def test_is_not_the_derivative_of_a_square(self):
        """Not affine: the quotient moves with the step, which is how one would notice."""
        x = np.array([3], dtype=object)
        assert exact_difference(lambda x: x[0] ** 2, x, (0,), 1) == 7
        assert exact_difference(lambda x: x[0] ** 2, x, (0,), 2) == 8

    def test_leaves_x_alone(self):
        x = np.array([3], dtype=object)
        exact_difference(lambda x: x[0], x, (0,), 1)
        assert x.tolist() == [3]

    def test_step_zero(self):
        with pytest.raises(ValueError, match="^h = 0; expected h != 0$"):
            exact_difference(lambda x: x[0], np.array([1], dtype=object), (0,), 0)


class TestRandomIntegers:
    def test_range_and_kind(self):
        """Python ints (no overflow when multiplied), both ends of the range included."""
        draws = random_integers(np.random.default_rng(0), (50, 40), bits=3)
        assert draws.shape == (50, 40)
        assert set(draws.flat) == set(range(1, 9))
        assert all(type(n) is int for n in draws.flat)
        large = random_integers(np.random.default_rng(0), (1000,))
        assert 2**60 < max(large) <= 2**61
        assert min(large) >= 1

    def test_at_least_one_bit(self):
        with pytest.raises(ValueError, match="^bits = 0; expected bits >= 1$"):
            random_integers(np.random.default_rng(0), (1,), bits=0)
