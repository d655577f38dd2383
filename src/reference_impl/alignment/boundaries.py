"""How far predicted times of boundaries lie from the true ones, with bootstrap intervals. It aligns nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._validation import check_at_least, check_finite, check_integers, check_real, check_weights

__all__ = ["Estimate", "boundary_accuracy", "boundary_errors", "span_times"]


class Estimate(NamedTuple):
    """A number computed from all utterances, and the ends of its bootstrap interval."""

    value: float
    low: float
    high: float


def span_times(first, last, frame_seconds) -> tuple[np.ndarray, np.ndarray]:
    """Spans of frames as times: from the beginning of the first frame to the end of the last, in seconds.

    Parameters
    ----------
    first, last : (N,) ints
        Frames, both part of the span, as in :class:`.BestPath`.
    frame_seconds : float
        What a frame of the log-probs stands for, above 0.

    Returns
    -------
    starts, ends : (N,) float64 arrays

    Examples
    --------
    >>> span_times([0, 5], [4, 5], 0.02)
    (array([0. , 0.1]), array([0.1 , 0.12]))
    """
    frame_seconds = check_real("frame_seconds", frame_seconds, "a finite number > 0", lambda value: value > 0)
    first, last = check_integers("first", first, 1, "(N,)"), check_integers("last", last, 1, "(N,)")
    check_weights("last", last, first.shape)
    return first * frame_seconds, (last + 1) * frame_seconds


def boundary_errors(predicted, true) -> list[np.ndarray]:
    """Predicted less true times, utterance by utterance: above 0 for a boundary that was put too late.

    Parameters
    ----------
    predicted, true : sequences of (N,) arrays
        Times of the same boundaries, one array for each utterance, seconds. Boundaries that one of them lacks, such as
        those of words passed over, are for the caller to leave out, and to count.

    Returns
    -------
    list of (N,) float64 arrays

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> boundary_errors([[0.5, 1.25], [0.25]], [[0.25, 1.25], [0.5]])
    [array([0.25, 0.  ]), array([-0.25])]
    """
    predicted, true = list(predicted), list(true)
    if len(predicted) != len(true):
        raise ValueError(f"predicted has {len(predicted)} utterances; expected {len(true)}, as many as true")
    errors = []
    for i, (ours, theirs) in enumerate(zip(predicted, true, strict=True)):
        theirs = np.asarray(theirs, float)
        if theirs.ndim != 1:
            raise ValueError(f"true[{i}] has shape {theirs.shape}; expected 1 axis (N,)")
        errors.append(check_finite(f"predicted[{i}]", ours, theirs.shape) - check_finite(f"true[{i}]", theirs,
                                                                                         theirs.shape))
    return errors


def boundary_accuracy(errors, *, tolerances=(0.02, 0.05, 0.1), level=0.95, draws=1000, rng=None) -> dict[str, Estimate]:
    """Bias, mean and median absolute error, and shares within tolerances, with bootstrap intervals over utterances.

    All boundaries count alike, whatever their utterance. The bootstrap draws whole utterances with replacement, because
    errors of the same utterance are not independent: as many as there are, ``draws`` times, and takes the percentiles.

    Parameters
    ----------
    errors : sequence of (N,) arrays
        As :func:`boundary_errors` returns them, seconds; at least one boundary in all.
    tolerances : sequence of floats
        Seconds, at least 0; compared with a margin of 1e-9.
    level : float
        Of the intervals, between 0 and 1.
    draws : int
        At least 1.
    rng : numpy Generator, optional
        None: one with the seed 0, so that a table is the same each time.

    Returns
    -------
    dict of Estimate
        "bias" (mean error, above 0 for late), "mean absolute", "median absolute" in seconds; "within 0.02" and so on
        as shares. The interval is NaN to NaN if no draw has any boundary.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> accuracy = boundary_accuracy([np.array([0.01, -0.03]), np.array([0.04])], tolerances=[0.03])
    >>> {name: round(estimate.value, 4) for name, estimate in accuracy.items()}
    {'bias': 0.0067, 'mean absolute': 0.0267, 'median absolute': 0.03, 'within 0.03': 0.6667}
    >>> [round(end, 4) for end in accuracy["bias"][1:]]
    [-0.01, 0.04]
    """
    level = check_real("level", level, "0 < level < 1", lambda value: 0 < value < 1)
    draws = check_at_least("draws", draws, 1)
    rng = np.random.default_rng(0) if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng = {rng!r}; expected a numpy Generator, such as np.random.default_rng(0)")
    tolerances = [check_real(f"tolerances[{i}]", each, "a finite number >= 0", lambda value: value >= 0)
                  for i, each in enumerate(tolerances)]
    errors = [check_finite(f"errors[{i}]", each, np.shape(each)).reshape(-1) for i, each in enumerate(errors)]
    pooled = np.concatenate([np.zeros(0), *errors])
    if len(pooled) == 0:
        raise ValueError(f"errors has {len(errors)} utterances without any boundary; expected at least one boundary")

    values = _statistics(pooled, tolerances)
    drawn = []
    for _ in range(draws):
        pick = rng.integers(len(errors), size=len(errors))
        sample = np.concatenate([errors[i] for i in pick])
        if len(sample):
            drawn.append(list(_statistics(sample, tolerances).values()))
    tail = 100 * (1 - level) / 2
    ends = np.percentile(drawn, [tail, 100 - tail], axis=0).T if drawn else np.full((len(values), 2), np.nan)
    return {name: Estimate(value, float(low), float(high))
            for (name, value), (low, high) in zip(values.items(), ends, strict=True)}


def _statistics(errors, tolerances):
    distances = np.abs(errors)
    values = {"bias": errors.mean(), "mean absolute": distances.mean(), "median absolute": np.median(distances)}
    values |= {f"within {each:g}": (distances <= each + 1e-9).mean() for each in tolerances}
    return {name: float(value) for name, value in values.items()}
