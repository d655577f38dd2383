"""Converters between alpha/beta conventions, and the rescaled recursions, against the explicit ones."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from reference_impl import ctc, log_softmax
from reference_impl.as_published.ctc_conventions import CONVENTIONS, convert, rescaled_alpha, rescaled_beta
from reference_impl.differences import random_integers
from reference_impl.semiring import REAL

TARGETS = ([1, 1, 2], [1, 2], [], [2, 2], [1])


def log_probs_of(T, seed=0):
    return log_softmax(np.random.default_rng(seed).normal(size=(T, 3)))


def emission(log_probs, targets):
    return log_probs[:, ctc.extended_targets(targets)]


@pytest.mark.parametrize("targets", TARGETS, ids=str)
@pytest.mark.parametrize(("source", "target"), list(product(CONVENTIONS, repeat=2)))
def test_mass_through_each_state(source, target, targets):
    """Whatever the convention, alpha beta with the emission counted once is the mass through the state."""
    log_probs = log_probs_of(5)
    thesis = ctc.log_alpha(log_probs, targets), ctc.log_beta(log_probs, targets)
    there = convert(*thesis, log_probs, targets, source="thesis", target=source)
    a, b = convert(*there, log_probs, targets, source=source, target=target)
    counted_once = a + b + {"2006": -1, "thesis": 0, "arcs": 0}[target] * emission(log_probs, targets)
    np.testing.assert_allclose(counted_once, sum(thesis), rtol=0, atol=1e-12)
    back = convert(a, b, log_probs, targets, source=target, target="thesis")
    np.testing.assert_allclose(back, thesis, rtol=0, atol=1e-12)


def test_who_contains_the_emission():
    """One frame, one state that counts: alpha and beta are the emission or 1."""
    log_probs = np.log([[0.25, 0.75]])
    values = {}
    thesis = ctc.log_alpha(log_probs, [1]), ctc.log_beta(log_probs, [1])
    for name in CONVENTIONS:
        a, b = convert(*thesis, log_probs, [1], source="thesis", target=name)
        values[name] = [round(float(np.exp(x[0, 1])), 12) for x in (a, b)]
    assert values == {"2006": [0.75, 0.75], "thesis": [0.75, 1.0], "arcs": [1.0, 0.75]}


def test_a_masked_emission_gives_no_nan():
    log_probs = log_probs_of(4)
    log_probs[1, 1] = -np.inf
    thesis = ctc.log_alpha(log_probs, [1, 2]), ctc.log_beta(log_probs, [1, 2])
    for source, target in product(CONVENTIONS, repeat=2):
        a, b = convert(*convert(*thesis, log_probs, [1, 2], source="thesis", target=source), log_probs, [1, 2],
                       source=source, target=target)
        assert not np.isnan(a).any() and not np.isnan(b).any()
        assert (a + b)[1, 1] == -np.inf


@pytest.mark.parametrize("rescaled", [rescaled_alpha, rescaled_beta])
@pytest.mark.parametrize("targets", TARGETS, ids=str)
@pytest.mark.parametrize("T", [1, 2, 3, 5])
def test_rescaled_exactly(rescaled, targets, T):
    """The scales multiply to Z if pruned; if not, with the mass that stands at the right end; frames are proportional
    to those of the unscaled variables wherever nothing is pruned."""
    y = random_integers(np.random.default_rng(1), (T, 3), bits=8) / Fraction(7)
    z = ctc.Z(y, targets, semiring=REAL)
    _, scale = rescaled(y, targets)
    assert np.prod(scale) == z
    hat, scale = rescaled(y, targets, prune=False)
    ends = hat[-1, -2:] if rescaled is rescaled_alpha else hat[0, :2]
    assert np.prod(scale) * ends.sum() == z
    plain = ctc.alpha(y, targets, semiring=REAL)
    if rescaled is rescaled_beta:
        plain = ctc.beta(y, targets, semiring=REAL) * y[:, ctc.extended_targets(targets)]
    for frame, unscaled in zip(hat, plain, strict=True):
        assert sum(frame) == 1
        assert (frame * sum(unscaled) == unscaled).all()


def test_pruning_leaves_only_states_that_can_end():
    hat, _ = rescaled_alpha(np.full((3, 3), 1 / 3), [1, 2])
    assert (hat[0] > 0).tolist() == [True, True, False, False, False]
    assert (hat[1] > 0).tolist() == [False, True, True, True, False]
    assert (hat[2] > 0).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rescaled_in_the_dtype_of_the_probabilities(dtype):
    for rescaled in rescaled_alpha, rescaled_beta:
        hat, scale = rescaled(np.full((3, 3), 0.25, dtype=dtype), [1, 2])
        assert hat.dtype == scale.dtype == dtype


def test_no_alignment():
    for rescaled in rescaled_alpha, rescaled_beta:
        hat, scale = rescaled(np.full((2, 3), 1 / 3), [1, 1])
        assert scale.prod() == 0 and np.isfinite(hat).all()


def test_bad_arguments():
    log_probs = log_probs_of(2)
    a = ctc.log_alpha(log_probs, [1])
    with pytest.raises(ValueError, match="source = '2007'; expected one of '2006', 'thesis', 'arcs'"):
        convert(a, a, log_probs, [1], source="2007", target="arcs")
    with pytest.raises(ValueError, match=r"log_beta has shape \(1, 3\); expected \(2, 3\)"):
        convert(a, a[:1], log_probs, [1], source="2006", target="arcs")
    with pytest.raises(ValueError, match=r"probs\[1, 0\] = -0.5; expected a finite number >= 0"):
        rescaled_alpha(np.array([[0.5, 0.5], [-0.5, 1.5]]), [1])
    with pytest.raises(ValueError, match=r"probs\[0, 1\] = nan; expected a finite number >= 0"):
        rescaled_alpha(np.array([[0.5, np.nan]]), [1])
    with pytest.raises(ValueError, match=r"targets\[0\] = 0; expected a label other than blank = 0"):
        rescaled_beta(np.full((2, 2), 0.5), [0])
