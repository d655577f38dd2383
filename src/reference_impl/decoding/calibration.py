"""Are answers right as often as their confidences say? Reliability, Brier score, temperature. No model is run here.

The functions take two arrays of N entries: a confidence in [0, 1] for each string, word or label that was read, and
whether it was right. Where the confidences came from does not matter; :mod:`.confidence` has some. One that exceeds 1
by rounding counts as 1.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from .._validation import check_at_least, check_finite, check_real

__all__ = ["ReliabilityBins", "brier_score", "expected_calibration_error", "fit_temperature", "reliability_bins"]


class ReliabilityBins(NamedTuple):
    """The data of a reliability diagram; all arrays but the first have one entry for each bin.

    ``edges`` (bins + 1,) are the bounds of the bins. ``counts`` is the number of confidences in a bin,
    ``mean_confidence`` their mean, and ``accuracy`` the share of right answers; both are NaN in an empty bin. An
    interval for the accuracy goes from ``low`` to ``high``, from 0 to 1 in an empty bin.
    """

    edges: np.ndarray
    counts: np.ndarray
    mean_confidence: np.ndarray
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray


def reliability_bins(confidences, correct, *, bins=10, level=0.95) -> ReliabilityBins:
    """Sort confidences into bins, and compare their mean with the share of right answers.

    The interval of a bin is Wilson's for a proportion. It holds the probabilities p for which the observed accuracy is
    at most z standard deviations, each ``sqrt(p (1 - p) / count)``, away from p. It stays inside [0, 1], and does not
    shrink to a point if a few answers happen to be all right. It assumes that answers are independent, and the words of
    one utterance are not.

    Parameters
    ----------
    confidences : (N,) floats in [0, 1]
    correct : (N,) bools
    bins : int, or (bins + 1,) rising floats
        Number of bins of equal width between 0 and 1, or their edges; all confidences must lie between the first edge
        and the last. A confidence on an edge belongs to the bin above it, and on the last edge to the last bin.
    level : float
        Coverage of the intervals, between 0 and 1.

    Returns
    -------
    ReliabilityBins

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> found = reliability_bins([0.1, 0.3, 0.9, 0.9], [False, False, True, False], bins=2)
    >>> found.counts.tolist(), found.mean_confidence.tolist(), found.accuracy.tolist()
    ([2, 2], [0.2, 0.9], [0.0, 0.5])
    >>> found.low.round(3).tolist(), found.high.round(3).tolist()
    ([0.0, 0.095], [0.658, 0.905])
    """
    confidences, correct = _checked(confidences, correct)
    level = check_real("level", level, "0 < level < 1", lambda value: 0 < value < 1)
    edges = np.linspace(0, 1, check_at_least("bins", bins, 1) + 1) if np.ndim(bins) == 0 else _checked_edges(bins)
    if len(confidences) and not edges[0] <= confidences.min() <= confidences.max() <= edges[-1]:
        raise ValueError(f"bins = {edges.tolist()}; expected edges around all confidences, which lie between "
                         f"{confidences.min()} and {confidences.max()}")
    at = np.minimum(np.searchsorted(edges, confidences, side="right") - 1, len(edges) - 2)
    counts, total, right = (np.bincount(at, weights, len(edges) - 1) for weights in (None, confidences, correct))
    some = np.maximum(counts, 1)
    mean, accuracy = (np.where(counts > 0, sums / some, np.nan) for sums in (total, right))
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (right + z**2 / 2) / (counts + z**2)
    half = z * np.sqrt(right * (counts - right) / some + z**2 / 4) / (counts + z**2)
    low, high = np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
    return ReliabilityBins(edges, counts, mean, accuracy, low, high)


def expected_calibration_error(confidences, correct, *, bins=10) -> float:
    """The mean distance between confidence and accuracy of a bin, bins weighted by their counts.

    Two warnings. Even perfect confidences have an error above 0, since the accuracy of a few answers is noisy. And the
    error depends on the bins: within a bin, answers that are too sure and answers that are not sure enough cancel.

    Parameters
    ----------
    confidences, correct, bins
        As for :func:`reliability_bins`; N >= 1.

    Examples
    --------
    >>> round(expected_calibration_error([0.1, 0.3, 0.9, 0.9], [False, False, True, False], bins=2), 12)
    0.3
    """
    found = reliability_bins(confidences, correct, bins=bins)
    share = found.counts / check_at_least("N", int(found.counts.sum()), 1)
    used = found.counts > 0
    return float(share[used] @ np.abs(found.accuracy - found.mean_confidence)[used])


def brier_score(confidences, correct) -> float:
    """The mean of (confidence - correct)^2: 0 is perfect, and always saying 1/2 gives 1/4.

    Its expectation is smallest for the true probabilities. So it needs no bins, and rewards both calibration and the
    ability to tell right from wrong.

    Examples
    --------
    >>> round(brier_score([0.1, 0.9, 0.9], [False, True, False]), 12)
    0.276666666667
    """
    confidences, correct = _checked(confidences, correct)
    check_at_least("N", len(confidences), 1)
    return float(np.mean((confidences - correct) ** 2))


def fit_temperature(loss: Callable[[float], float], *, low=0.1, high=10.0, steps=40) -> float:
    """The temperature between two bounds with the smallest loss on validation data, by golden-section search.

    ``loss`` decides where the temperature enters. It may divide the logits, and then all sweeps are done again,

    ``lambda tau: np.mean([ctc.loss(log_softmax(z / tau), y) for z, y in validation])``

    or it may divide the log-masses of an n-best list (:func:`.confidence.n_best_posteriors`). The two differ. A
    temperature on a list keeps the order of its strings. A temperature on logits keeps the best symbol of each frame,
    and so the best path, but it changes the sums over paths in different proportions, so another string can become the
    best one.

    The search goes over log(temperature) and narrows the interval by a factor of 0.618 in each step. It finds the
    minimum if the loss falls up to it and rises after it. Otherwise it may find a local minimum, so look at the curve.

    Parameters
    ----------
    loss : callable
        From a temperature to a number, such as the mean of minus the log of the probability of what was said.
    low, high : float
        Bounds, 0 < low < high.
    steps : int
        Evaluations after the first four; 40 steps narrow the default bounds to a relative width of 2e-8.

    Returns
    -------
    float
        The temperature with the smallest loss among all that were tried, bounds included.

    Examples
    --------
    >>> round(fit_temperature(lambda tau: (np.log(tau) - np.log(2)) ** 2), 5)
    2.0
    """
    low = check_real("low", low, "a finite number > 0", lambda value: value > 0)
    high = check_real("high", high, f"a finite number > low = {low}", lambda value: value > low)
    tried = {}

    def tried_at(x):  # between 0, the lower bound, and 1, the upper one
        temperature = low ** (1 - x) * high**x
        value = tried[temperature] = loss(temperature)
        if np.isnan(value):
            raise ValueError(f"loss({temperature}) = {value}; expected a number")
        return value

    left, right, ratio = 0.0, 1.0, (5**0.5 - 1) / 2
    tried_at(left), tried_at(right)
    inner, outer = right - ratio * (right - left), left + ratio * (right - left)
    at_inner, at_outer = tried_at(inner), tried_at(outer)
    for _ in range(check_at_least("steps", steps, 0)):
        if at_inner <= at_outer:  # the minimum lies left of the outer point, which becomes the right end
            right, outer, at_outer = outer, inner, at_inner
            inner = right - ratio * (right - left)
            at_inner = tried_at(inner)
        else:
            left, inner, at_inner = inner, outer, at_outer
            outer = left + ratio * (right - left)
            at_outer = tried_at(outer)
    return min(tried, key=tried.get)


def _checked(confidences, correct):
    """Both as float64 arrays."""
    confidences = np.asarray(confidences)
    confidences = check_finite("confidences", confidences, (confidences.size,))
    for i in np.flatnonzero((confidences < 0) | (confidences > 1 + 1e-9))[:1]:
        raise ValueError(f"confidences[{i}] = {confidences[i]}; expected 0 <= confidence <= 1")
    correct = np.asarray(correct)
    if correct.dtype != bool and correct.size:
        raise TypeError(f"correct has dtype {correct.dtype}; expected bool")
    if correct.shape != confidences.shape:
        raise ValueError(f"correct has shape {correct.shape}; expected {confidences.shape}, one for each confidence")
    return np.minimum(confidences, 1.0), correct.astype(np.float64)


def _checked_edges(edges):
    edges = np.asarray(edges)
    edges = check_finite("bins", edges, (edges.size,))
    if len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ValueError(f"bins = {edges.tolist()}; expected at least two edges, rising")
    return edges
