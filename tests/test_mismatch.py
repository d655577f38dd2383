"""Two values of log Z compared as programs compare them: numbers by hand, and a bound with its two terms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reference_impl.as_published.mismatch import mismatch, mismatch_bound, sure_of_labels
from reference_impl.semiring import LOG, LOG32

HALF, NEVER = math.log(0.5), -math.inf


def label_in_either_frame(delta):
    """Two frames and a label that comes in either; only the last blank costs something."""
    return np.array([[[HALF, HALF], [0.0, NEVER]], [[NEVER, 0.0], [-delta, NEVER]]])


def test_agree_without_rounding():
    """In float64 the two are one, and it is minus the loss."""
    a, b, rho = mismatch(label_in_either_frame(0.5), [1], semiring=LOG)
    assert a == pytest.approx(-0.5, abs=1e-15) and b == pytest.approx(-0.5, abs=1e-15) and rho < 1e-15


def test_the_last_blank_is_lost_by_beta():
    """log(1/2) - 1e-8 is log(1/2) in float32, so log Z is -1e-8 by alpha, 0 by beta, and the one nearer to 0 divides;
    in float64, nothing is lost."""
    a, b, rho = mismatch(label_in_either_frame(1e-8), [1])
    assert a == np.float32(-1e-8) and b == 0 and rho == np.inf
    assert mismatch(label_in_either_frame(1e-8), [1], semiring=LOG).rho < 1e-7
    assert mismatch(label_in_either_frame(1e-5), [1]).rho > 1e-3 > mismatch(label_in_either_frame(1e-3), [1]).rho > 0


@pytest.mark.parametrize("delta", [0.0, math.inf])
def test_a_nan_where_both_are_0_or_no_path_exists(delta):
    assert np.isnan(mismatch(label_in_either_frame(delta), [1]).rho)


def test_another_blank_and_label():
    """The same numbers under other names."""
    moved = np.full((2, 2, 4), NEVER)
    moved[..., [3, 1]] = label_in_either_frame(1e-4)
    assert mismatch(moved, [1], blank=3) == mismatch(label_in_either_frame(1e-4), [1])
    assert mismatch_bound(moved, [1], blank=3) == mismatch_bound(label_in_either_frame(1e-4), [1])


def test_the_type_is_that_of_the_semiring():
    half = replace(LOG32, name="log, float16", zero=np.float16(-np.inf), one=np.float16(0), dtype=np.float16,
                   read=np.float16)
    log_probs = np.full((2, 2, 2), HALF)
    assert [mismatch(log_probs, [1], semiring=each).from_alpha.dtype for each in (half, LOG32, LOG)] == [
        np.float16, np.float32, np.float64]


def test_the_bound_by_hand():
    """One path: only the length counts. Two paths of mass 1/4: H = log 2 and the loss is 2 log 2."""
    assert mismatch_bound(np.array([[[-1.0, NEVER]]]), []) == 2 * 2.0**-23
    assert mismatch_bound(np.full((2, 2, 2), HALF), [1]) == pytest.approx(7.5 * 2.0**-23, rel=1e-12)


def test_sure_of_labels():
    """Blank and next label get the margin; in the last frame the blank loses it while a label is left."""
    logits = sure_of_labels(np.random.default_rng(0), [2, 2], 3, 4, margin=50.0, noise=1.0)
    raised = np.abs(logits) > 25
    assert raised[:, :2].nonzero()[2].tolist() == 6 * [0, 2] and raised[:, 2].nonzero()[1].tolist() == 3 * [0]
    assert (logits[-1, :2, 0] < -25).all() and (logits[raised] < -25).sum() == 2
    assert not sure_of_labels(np.random.default_rng(0), [2, 2], 3, 4, margin=0.0, noise=0.0).any()
