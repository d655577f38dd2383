"""Calibration: bins by a loop, intervals by the equation that defines them, temperatures by a grid."""

import math

import numpy as np
import pytest

from reference_impl import ctc, log_softmax
from reference_impl.decoding import (
    SMALLEST_DIFFERENCE,
    CTCPrefixScorer,
    best_path,
    brier_score,
    expected_calibration_error,
    fit_temperature,
    n_best,
    n_best_posteriors,
    reliability_bins,
)


@pytest.fixture
def answers():
    rng = np.random.default_rng(0)
    confidences = np.concatenate([rng.random(200) ** 2, [0.0, 0.3, 0.5, 1.0]])
    return confidences, rng.random(204) < confidences


@pytest.mark.parametrize("bins", [1, 4, 10, [0.0, 0.05, 0.5, 1.0]])
def test_bins_by_a_loop(answers, bins):
    confidences, correct = answers
    found = reliability_bins(confidences, correct, bins=bins)
    edges = [i / bins for i in range(bins + 1)] if isinstance(bins, int) else bins
    assert found.edges == pytest.approx(edges, rel=1e-15)
    error = 0
    for i in range(len(edges) - 1):
        inside = [j for j, c in enumerate(confidences) if found.edges[i] <= c < found.edges[i + 1]
                  or (i == len(edges) - 2 and c == edges[-1])]
        assert found.counts[i] == len(inside)
        assert found.mean_confidence[i] == pytest.approx(math.fsum(confidences[inside]) / len(inside), rel=1e-12)
        assert found.accuracy[i] == pytest.approx(sum(correct[inside].tolist()) / len(inside), rel=1e-12)
        error += len(inside) * abs(found.accuracy[i] - found.mean_confidence[i]) / len(confidences)
    assert expected_calibration_error(confidences, correct, bins=bins) == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("right, wrong", [(3, 7), (0, 5), (5, 0), (1, 0), (50, 50)])
@pytest.mark.parametrize("level, z", [(0.95, 1.959963984540054), (0.6826894921370859, 1.0)])
def test_intervals_by_their_equation(right, wrong, level, z):
    """At its ends the observed accuracy is z standard deviations away; nothing is outside [0, 1]."""
    correct = np.array([True] * right + [False] * wrong)
    found = reliability_bins(np.full(len(correct), 0.5), correct, bins=1, level=level)
    (low,), (high,), (accuracy,), N = found.low, found.high, found.accuracy, len(correct)
    assert 0 <= low <= accuracy <= high <= 1 and low < high
    for p in (low, high):
        # the square: near 0 and 1 the ends lie where a square root would lose half of the digits
        assert (accuracy - p) ** 2 == pytest.approx(z**2 * p * (1 - p) / N, rel=1e-9, abs=1e-15)


def test_empty_bins_and_no_answers():
    found = reliability_bins([0.1], [True], bins=2)
    assert found.counts.tolist() == [1, 0]
    assert np.isnan([found.mean_confidence[1], found.accuracy[1]]).all()
    assert (found.low[1], found.high[1]) == (0, 1)
    assert expected_calibration_error([0.1], [True], bins=2) == pytest.approx(0.9, rel=1e-12)
    assert reliability_bins([], [], bins=2).counts.tolist() == [0, 0]


def test_edges_belong_to_the_bin_above():
    assert reliability_bins([0.5, 1.0], [True, True], bins=2).counts.tolist() == [0, 2]
    assert reliability_bins([0.0, 0.25], [True, True], bins=4).counts.tolist() == [1, 1, 0, 0]


def test_rounding_above_1_counts_as_1():
    found = reliability_bins([1 + 1e-15], [True], bins=2)
    assert found.counts.tolist() == [0, 1] and found.mean_confidence[1] == 1
    assert brier_score([1 + 1e-15], [True]) == 0


def test_brier_score_is_smallest_for_the_truth():
    """Three of four are right: confidence 3/4 has the variance, 3/16, and any other more, by its distance squared."""
    correct = [True, True, True, False]
    assert brier_score([0.75] * 4, correct) == pytest.approx(3 / 16, rel=1e-12)
    for c in (0.0, 0.5, 0.9, 1.0):
        assert brier_score([c] * 4, correct) == pytest.approx(3 / 16 + (c - 0.75) ** 2, rel=1e-12)
    assert brier_score([1.0, 0.0], [True, False]) == 0


def test_within_a_bin_errors_cancel():
    confidences, correct = [0.6, 0.9] * 2, [True, True, False, True]
    assert expected_calibration_error(confidences, correct, bins=1) == pytest.approx(0, abs=1e-15)
    assert expected_calibration_error(confidences, correct, bins=5) == pytest.approx(0.1, rel=1e-12)


def test_temperature_of_ctc_against_a_grid():
    """Strings drawn from the model at temperature 2: the fit is as good as the best of a grid, and nearer to 2 than to
    1 and 4."""
    rng = np.random.default_rng(6)
    validation = []
    for _ in range(60):
        logits = 3 * rng.normal(size=(2, 3))
        symbols = [rng.choice(3, p=np.exp(frame)) for frame in log_softmax(logits / 2)]
        validation.append((logits, list(best_path(np.log(np.eye(3)[symbols] + 1e-300))[0])))

    def loss(temperature):
        return np.mean([ctc.loss(log_softmax(logits / temperature), labels) for logits, labels in validation])

    fitted = fit_temperature(loss, low=0.5, high=8, steps=12)
    grid = np.exp(np.linspace(np.log(0.5), np.log(8), 17))
    assert loss(fitted) <= min(map(loss, grid))
    assert 2**0.5 < fitted < 2**1.5


def test_temperature_of_an_n_best_list():
    """Two strings, 9 to 1; the first is right three times in four: the odds should be 3, the square root of 9."""
    log_masses = np.log([0.09, 0.01])

    def loss(temperature):
        first, second = n_best_posteriors(log_masses, temperature=temperature)
        return -(3 * np.log(first) + np.log(second)) / 4

    assert fit_temperature(loss) == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("loss, wanted", [(lambda tau: tau, 0.25), (lambda tau: -tau, 4.0), (lambda tau: 0.0, 0.25)])
def test_a_minimum_at_a_bound(loss, wanted):
    assert fit_temperature(loss, low=0.25, high=4.0) == pytest.approx(wanted, rel=1e-6)


def test_steps_and_bounds():
    asked = []
    fit_temperature(lambda tau: asked.append(tau) or abs(tau - 1), low=0.2, high=3.0, steps=7)
    assert len(asked) == 4 + 7 and all(0.2 <= tau <= 3.0 for tau in asked)


def test_temperature_in_the_frames_changes_the_string():
    """The best path stays; the best string is the label at 1, and nothing at 1/3. A list keeps its order."""
    strings = {}
    for temperature in (1 / 3, 1.0, 3.0):
        log_probs = log_softmax(SMALLEST_DIFFERENCE.logits / temperature)
        assert best_path(log_probs)[0] == ()
        strings[temperature] = n_best(CTCPrefixScorer(log_probs))[0][0]
        posteriors = n_best_posteriors(np.log([5 / 9, 4 / 9]), temperature=temperature)
        assert posteriors[0] > posteriors[1]
    assert strings == {1 / 3: (), 1.0: (1,), 3.0: (1,)}


@pytest.mark.parametrize("call, kind, says", [
    (lambda: reliability_bins([0.5, 1.5], [True, True]), ValueError, r"confidences\[1\] = 1.5; expected 0 <= conf"),
    (lambda: reliability_bins([-0.1], [True]), ValueError, r"confidences\[0\] = -0.1; expected 0 <= confidence <= 1"),
    (lambda: brier_score([np.nan], [True]), ValueError, r"confidences\[0\] = nan; expected a finite number"),
    (lambda: brier_score([0.5], [1]), TypeError, "correct has dtype int64; expected bool"),
    (lambda: brier_score([0.5], [True, False]), ValueError, r"correct has shape \(2,\); expected \(1,\), one for each"),
    (lambda: brier_score([], []), ValueError, "N = 0; expected N >= 1"),
    (lambda: expected_calibration_error([], []), ValueError, "N = 0; expected N >= 1"),
    (lambda: reliability_bins([0.5], [True], bins=0), ValueError, "bins = 0; expected bins >= 1"),
    (lambda: reliability_bins([0.5], [True], bins=[0.0, 0.0, 1.0]), ValueError, r"bins = \[0.0, 0.0, 1.0\]; expected"),
    (lambda: reliability_bins([0.5], [True], bins=[0.6, 1.0]), ValueError, "bins = .*; expected edges around all"),
    (lambda: reliability_bins([0.5], [True], level=0.0), ValueError, "level = 0.0; expected 0 < level < 1"),
    (lambda: fit_temperature(lambda tau: 0.0, low=0.0), ValueError, "low = 0.0; expected a finite number > 0"),
    (lambda: fit_temperature(lambda tau: 0.0, low=2.0, high=1.0), ValueError, "high = 1.0; expected a finite num"),
    (lambda: fit_temperature(lambda tau: np.nan), ValueError, r"loss\(0.1\) = nan; expected a number"),
])
def test_bad_arguments(call, kind, says):
    with pytest.raises(kind, match=f"^{says}"):
        call()
