"""Dual numbers, covariances, and what is a mean over paths, against enumeration and finite differences.

Second derivatives of the torch losses are in test_torch_impl.py.
"""

from fractions import Fraction

import numpy as np
import pytest
import torch
from implementations import EXACT, KINDS, LATTICE, TORCH, TORCH_VARIANTS, random_scores
from variants import VARIANTS

from reference_impl import ctc, lattice_loss, log_softmax, rnnt
from reference_impl.differences import central_difference
from reference_impl.duals import LOG_DUAL, Dual, LogDual, duals
from reference_impl.lattice import arc_posteriors, enumerate_paths, forward, random_lattice
from reference_impl.second_order import (
    entropy,
    expectation,
    expectation_grad_log_probs,
    hvp_log_probs,
    hvp_logits,
    posterior_tangents,
)
from reference_impl.semiring import REAL
from reference_impl.topology import ctc_lattice, rnnt_lattice

every_loss = pytest.mark.parametrize("name", [*KINDS, *VARIANTS])


def fractions(rng, shape):
    return np.frompyfunc(lambda n: Fraction(int(n), 97), 1, 1)(rng.integers(1, 97, shape))


def lattice_of(name, targets=(1, 1, 2), T=5, V=3):
    if name in KINDS:
        return LATTICE[name](list(targets), T, V, blank=0)
    return VARIANTS[name].lattice(list(targets), T, V, 0)


def groups_of(name, V=3):
    return VARIANTS[name].groups(V) if name in TORCH_VARIANTS else None


def paths_and_shares(lattice, scores):
    """Uses of each entry by each path, (paths, *shape), and the paths' posteriors and log-weights."""
    uses, log_weights = [], []
    for path in enumerate_paths(lattice):
        use = np.zeros(lattice.shape)
        for i in path:
            if lattice.arcs[i].entry is not None:
                use[lattice.arcs[i].entry] += 1
        uses.append(use)
        log_weights.append((use * np.where(use > 0, scores, 0)).sum())
    log_weights = np.array(log_weights)
    return np.array(uses), np.exp(log_weights - np.logaddexp.reduce(log_weights)), log_weights


class TestDuals:
    def test_arithmetic(self):
        """Derivatives of products, quotients and differences, exactly; plain numbers are constants."""
        x, y = Dual(Fraction(2), Fraction(1)), Dual(Fraction(3), Fraction(5))
        assert x + y == Dual(5, 6) and x - y == Dual(-1, -4) and x * y == Dual(6, 13)
        assert x / y == Dual(Fraction(2, 3), Fraction(3 - 10, 9))
        assert 1 + x == x + 1 == Dual(3, 1) and 3 * x == x * 3 == Dual(6, 3)
        assert 1 - x == Dual(-1, -1) and 1 / x == Dual(Fraction(1, 2), Fraction(-1, 4))
        assert x != Dual(2, 0) and Dual(2) == 2 and Dual(2, 1) != 2

    def test_semiring_of_logarithms(self):
        """The same as the real one, taken through the logarithm: mean = tangent / value."""
        rng = np.random.default_rng(0)
        for _ in range(20):
            a, b = (Dual(*rng.normal(size=2)) for _ in range(2))
            a, b = Dual(abs(a.value), a.tangent), Dual(abs(b.value), b.tangent)
            for real, log in ((a + b, LOG_DUAL.plus(*map(log_dual, (a, b)))),
                              (a * b, LOG_DUAL.times(*map(log_dual, (a, b))))):
                assert log.log_mass == pytest.approx(np.log(real.value), abs=1e-14)
                assert log.mean == pytest.approx(real.tangent / real.value, rel=1e-12)

    def test_nothing_is_neutral(self):
        a, zero = LogDual(-1.0, 3.0), LOG_DUAL.zero
        assert LOG_DUAL.plus(a, zero) == LOG_DUAL.plus(zero, a) == LOG_DUAL.times(a, LOG_DUAL.one) == a
        assert LOG_DUAL.plus(zero, zero).log_mass == LOG_DUAL.times(a, zero).log_mass == -np.inf

    @pytest.mark.parametrize("module", [ctc, rnnt])
    def test_explicit_recursions_run_on_them(self, module):
        """Z and its derivative by the papers' lines: Z's tangent is sum of dZ/dy times the direction, exactly."""
        rng, targets = np.random.default_rng(1), [1, 1]
        shape = (4, 3) if module is ctc else (4, 3, 3)
        probs, direction = fractions(rng, shape), fractions(rng, shape)
        numbers = duals(probs, direction)
        z = module.Z(numbers, targets, semiring=REAL)
        lattice = (ctc_lattice if module is ctc else rnnt_lattice)(targets, 4, 3)
        weights = lattice.arc_weights(probs, REAL)
        expected = forward(lattice, weights, REAL)[-1]
        occupancy = lattice.occupancy(arc_posteriors(lattice, weights, REAL))
        assert z == Dual(expected, (occupancy / probs * direction).sum() * expected)


def log_dual(number):
    return LogDual(np.log(number.value), number.tangent / number.value)


class TestPosteriorTangents:
    def test_are_covariances(self):
        """On any lattice, exactly: Cov(uses the arc, sum of the direction along the path)."""
        rng = np.random.default_rng(2)
        for _ in range(5):
            lattice = random_lattice(rng, 5, 5)
            w, v = fractions(rng, len(lattice.arcs)), fractions(rng, len(lattice.arcs))
            posteriors = arc_posteriors(lattice, duals(w, w * v), REAL)
            paths = list(enumerate_paths(lattice))
            masses = [np.prod(w[list(path)]) for path in paths]
            shares = [mass / sum(masses) for mass in masses]
            sums = [sum(v[list(path)]) for path in paths]
            mean = sum(p * s for p, s in zip(shares, sums, strict=True))
            for i, number in enumerate(posteriors):
                with_arc = [(p, s) for p, s, path in zip(shares, sums, paths, strict=True) if i in path]
                assert number == Dual(sum(p for p, _ in with_arc), sum(p * (s - mean) for p, s in with_arc))
            logs = posterior_tangents(lattice, np.log(w.astype(float)), v.astype(float))
            for log, real in zip(logs, ("value", "tangent"), strict=True):
                np.testing.assert_allclose(log, [float(getattr(n, real)) for n in posteriors], rtol=0, atol=EXACT)

    def test_nothing_without_a_path(self):
        lattice = rnnt_lattice([1], 2, 2)
        weights = lattice.arc_weights(np.full((2, 2, 2), -np.inf))
        for each in posterior_tangents(lattice, weights, np.ones(len(weights))):
            assert (each == 0).all()

    def test_masks(self):
        """An arc of no weight has no posterior, and does not move."""
        lattice, rng = rnnt_lattice([1, 2], 4, 3), np.random.default_rng(3)
        scores = rng.normal(size=lattice.shape)
        scores[1, 1] = scores[0, 0, 1] = -np.inf
        uses, shares, _ = paths_and_shares(lattice, scores)
        direction = rng.normal(size=lattice.shape)
        sums = (uses * direction).sum((1, 2, 3))
        expected = ((shares * (sums - shares @ sums))[:, None, None, None] * uses).sum(0)
        np.testing.assert_allclose(hvp_log_probs(lattice, scores, direction), -expected, rtol=0, atol=EXACT)

    def test_long_paths(self):
        """A thousand frames: masses are far below the smallest float, and the mean is still right."""
        T, lattice = 1000, rnnt_lattice([], 1000, 2)
        log_probs, values = np.full((T, 1, 2), -50.0), np.zeros((T, 1, 2))
        values[..., 0] = np.arange(T)[:, None]
        assert expectation(lattice, log_probs, values) == T * (T - 1) / 2


@every_loss
class TestHessian:
    def test_against_finite_differences(self, name):
        """Of the first derivatives, in both variables, along a random direction."""
        lattice, rng = lattice_of(name), np.random.default_rng(4)
        scores, direction = rng.normal(size=(2, *lattice.shape))
        for gradient, product, options in (
                (lattice_loss.grad_log_probs, hvp_log_probs, {}),
                (lattice_loss.grad_logits, hvp_logits, {"groups": groups_of(name)})):
            moved = np.array([gradient(lattice, scores + h * direction, **options) for h in (1e-5, -1e-5)])
            np.testing.assert_allclose(product(lattice, scores, direction, **options), (moved[0] - moved[1]) / 2e-5,
                                       rtol=0, atol=1e-9)

    def test_is_symmetric_and_blind_to_shifts(self, name):
        lattice, rng = lattice_of(name), np.random.default_rng(5)
        scores, v, w = rng.normal(size=(3, *lattice.shape))
        for product, options in ((hvp_log_probs, {}), (hvp_logits, {"groups": groups_of(name)})):
            assert (w * product(lattice, scores, v, **options)).sum() == pytest.approx(
                (v * product(lattice, scores, w, **options)).sum(), rel=1e-10)
        shift = np.broadcast_to(rng.normal(size=(*lattice.shape[:-1], 1)), lattice.shape)
        if groups_of(name) is None:
            np.testing.assert_allclose(hvp_logits(lattice, scores, shift), 0, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", TORCH)
def test_torch(name):
    """Double backward, in both variables."""
    lattice, rng = lattice_of(name), np.random.default_rng(6)
    scores, direction = random_scores(rng, name, 5, 3, 3), random_scores(rng, name, 5, 3, 3)
    arguments = torch.tensor([[1, 1, 2]]), torch.tensor([5]), torch.tensor([3])
    for inputs, product, options in (("log_probs", hvp_log_probs, {}),
                                     ("logits", hvp_logits, {"groups": groups_of(name)})):
        z = torch.tensor(scores[None], requires_grad=True)
        gradient, = torch.autograd.grad(TORCH[name](z, *arguments, inputs=inputs), z, create_graph=True)
        ours, = torch.autograd.grad(gradient, z, torch.tensor(direction[None]))
        np.testing.assert_allclose(ours[0], product(lattice, scores, direction, **options), rtol=0, atol=EXACT)


@every_loss
class TestMeans:
    def test_against_enumeration(self, name):
        lattice, rng = lattice_of(name), np.random.default_rng(7)
        scores, values = rng.normal(size=(2, *lattice.shape))
        uses, shares, log_weights = paths_and_shares(lattice, scores)
        sums = (uses * values).reshape(len(uses), -1).sum(1)
        assert expectation(lattice, scores, values) == pytest.approx(shares @ sums, rel=1e-12)
        assert entropy(lattice, scores) == pytest.approx(-(shares @ np.log(shares)), rel=1e-12)
        assert entropy(lattice, log_softmax(scores)) >= 0

    def test_gradient(self, name):
        lattice, rng = lattice_of(name), np.random.default_rng(8)
        scores, values = rng.normal(size=(2, *lattice.shape))
        numeric = central_difference(lambda x: expectation(lattice, x, values), scores)
        np.testing.assert_allclose(expectation_grad_log_probs(lattice, scores, values), numeric, rtol=0, atol=1e-8)


def test_no_path_has_no_mean():
    lattice, scores = rnnt_lattice([1], 2, 2), np.full((2, 2, 2), -np.inf)
    assert np.isnan(expectation(lattice, scores, np.zeros((2, 2, 2)))) and np.isnan(entropy(lattice, scores))
    assert (expectation_grad_log_probs(lattice, scores, np.ones((2, 2, 2))) == 0).all()
