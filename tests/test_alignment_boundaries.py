"""Errors of boundaries: numbers that can be checked by hand, and bootstrap intervals against all draws."""

import re
from itertools import product

import numpy as np
import pytest

from reference_impl.alignment import boundary_accuracy, boundary_errors, span_times

ERRORS = [np.array([0.02, -0.01, 0.5]), np.array([-0.06]), np.array([]), np.array([0.1, 0.0])]


def test_values():
    found = {name: estimate.value for name, estimate in boundary_accuracy(ERRORS, draws=1).items()}
    assert found == pytest.approx({
        "bias": 0.55 / 6, "mean absolute": 0.69 / 6, "median absolute": 0.04,
        "within 0.02": 3 / 6, "within 0.05": 3 / 6, "within 0.1": 5 / 6}, abs=1e-15)


def test_a_bias_has_its_sign():
    errors = boundary_errors([[1.5, 2.5]], [[1.25, 2.25]])
    assert boundary_accuracy(errors)["bias"] == (0.25, 0.25, 0.25), "too late"
    assert boundary_accuracy([-each for each in errors])["bias"].value == -0.25


def test_tolerances_are_met_at_their_ends():
    """0.52 - 0.5 is a little more than 0.02 in floating point."""
    assert 0.52 - 0.5 > 0.02
    assert boundary_accuracy(boundary_errors([[0.52]], [[0.5]]), draws=1)["within 0.02"].value == 1


def test_the_bootstrap_draws_whole_utterances():
    """Against all 4^4 draws, of which each is as probable: the percentiles of many draws are near theirs."""
    def mean(draw):
        return np.concatenate([ERRORS[i] for i in draw]).mean()

    every = np.array([mean(draw) for draw in product(range(4), repeat=4) if set(draw) != {2}])
    found = boundary_accuracy(ERRORS, level=0.8, draws=2000, tolerances=[])["bias"]
    for end, share in ((found.low, 0.1), (found.high, 0.9)):  # 2000 draws: 3 standard errors of a share are 0.02
        assert np.mean(every < end - 1e-12) - 0.02 < share < np.mean(every <= end + 1e-12) + 0.02


def test_the_same_table_each_time():
    assert boundary_accuracy(ERRORS, draws=5) == boundary_accuracy(ERRORS, draws=5)
    assert boundary_accuracy(ERRORS, draws=5) != boundary_accuracy(ERRORS, draws=5, rng=np.random.default_rng(1))


def test_the_share_of_intervals_that_cover():
    """Of 80 experiments with 30 utterances each, 80 % intervals of the mean cover the truth in about 80 %.

    Errors are alike within an utterance: an interval that took each for independent would cover it in 43 %.
    """
    rng, covered = np.random.default_rng(0), 0
    for _ in range(80):
        errors = [rng.normal(0.01) + 0.1 * rng.normal(size=5) for _ in range(30)]
        found = boundary_accuracy(errors, level=0.8, draws=60, tolerances=[])["bias"]
        covered += found.low <= 0.01 <= found.high
    assert 0.66 < covered / 80 < 0.93  # 3 standard errors of 0.045


def test_span_times():
    starts, ends = span_times([0, 3], [2, 3], 0.25)
    assert starts.tolist() == [0, 0.75] and ends.tolist() == [0.75, 1.0]
    assert boundary_errors([], []) == []


@pytest.mark.parametrize("call, error, says", [
    (lambda: span_times([0], [0], 0), ValueError, "frame_seconds = 0; expected a finite number > 0"),
    (lambda: span_times([0], [0, 1], 0.02), ValueError, "last has shape (2,); expected (1,)"),
    (lambda: boundary_errors([[0.1]], []), ValueError, "predicted has 1 utterances; expected 0, as many as true"),
    (lambda: boundary_errors([[0.1], [0.1]], [[0.1], [0.1, 0.2]]), ValueError,
     "predicted[1] has shape (1,); expected (2,)"),
    (lambda: boundary_errors([[0.1, np.nan]], [[0.1, 0.2]]), ValueError,
     "predicted[0][1] = nan; expected a finite number"),
    (lambda: boundary_errors([[0.1]], [[np.inf]]), ValueError, "true[0][0] = inf; expected a finite number"),
    (lambda: boundary_errors([0.1], [0.1]), ValueError, "true[0] has shape (); expected 1 axis (N,)"),
    (lambda: boundary_accuracy([]), ValueError, "errors has 0 utterances without any boundary"),
    (lambda: boundary_accuracy([[0.1]], level=1), ValueError, "level = 1; expected 0 < level < 1"),
    (lambda: boundary_accuracy([[0.1]], draws=0), ValueError, "draws = 0; expected draws >= 1"),
    (lambda: boundary_accuracy([[0.1]], tolerances=[-1]), ValueError,
     "tolerances[0] = -1; expected a finite number >= 0"),
    (lambda: boundary_accuracy([[0.1]], rng=0), TypeError, "rng = 0; expected a numpy Generator"),
])
def test_errors_name_argument_value_and_rule(call, error, says):
    with pytest.raises(error, match=re.escape(says)):
        call()
