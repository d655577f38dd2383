"""Edit distance and error rates of labels or words, with bootstrap intervals. It decodes nothing; needs rapidfuzz.

An edit is a substitution, an insertion or a deletion, and each costs 1. A hypothesis is what a decoder read, and a
reference what it should have read; both are sequences of labels or of words, of any hashable kind. The package extra
``decoding`` installs what this file imports.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from .._validation import check_at_least, check_integers, check_real

__all__ = ["EditCounts", "ErrorRate", "edit_counts", "edit_distance", "error_rate", "label_error_rate"]


class EditCounts(NamedTuple):
    """How many edits of each kind turn a reference into a hypothesis."""

    substitutions: int
    insertions: int
    deletions: int


class ErrorRate(NamedTuple):
    """An error rate, its bootstrap interval, and what it was computed from.

    ``rate`` is the sum of ``counts`` divided by ``length``, the number of labels in all references. The interval goes
    from ``low`` to ``high``.
    """

    rate: float
    low: float
    high: float
    counts: EditCounts
    length: int


def edit_distance(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """The smallest number of edits that turns one sequence into the other (Levenshtein distance).

    Examples
    --------
    >>> edit_distance([1, 3], [1, 2, 3]), edit_distance("seven", "eleven")
    (1, 2)
    """
    return Levenshtein.distance(_listed("hypothesis", hypothesis), _listed("reference", reference))


def edit_counts(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> EditCounts:
    """Substitutions, insertions and deletions of one shortest way from the reference to the hypothesis.

    Their sum is the edit distance, and insertions minus deletions is the difference of the lengths. The split itself
    need not be unique: *ba* for *ab* is two substitutions, or an insertion and a deletion.

    Examples
    --------
    >>> edit_counts([1, 9, 3, 3], [1, 2, 3])
    EditCounts(substitutions=1, insertions=1, deletions=0)
    """
    # rapidfuzz edits its first argument into its second
    edits = Levenshtein.editops(_listed("reference", reference), _listed("hypothesis", hypothesis))
    kinds = [edit.tag for edit in edits]
    return EditCounts(kinds.count("replace"), kinds.count("insert"), kinds.count("delete"))


def error_rate(hypotheses: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]], *, groups=None,
               level=0.95, resamples=2000, seed=0) -> ErrorRate:
    """The error rate of many utterances together, with a percentile bootstrap interval.

    The rate is the number of edits in all utterances, divided by the number of labels in all references. For the
    interval, whole utterances are drawn with replacement, as many as there are, and the rate of each such draw is
    computed. With ``groups``, all utterances of a speaker are drawn together: they share the speaker's voice, so they
    are not independent, and an interval that ignores this is usually too narrow.

    The interval says how much the rate depends on the choice of utterances, or of speakers. It says nothing about
    another training run.

    Parameters
    ----------
    hypotheses, references : sequences of N sequences
        Of labels for a label error rate, of words for a word error rate.
    groups : sequence of N hashables, optional
        The speaker of each utterance. None: each utterance is a group of its own.
    level : float
        Coverage of the interval, between 0 and 1.
    resamples : int
    seed : int
        Of the generator that draws.

    Returns
    -------
    ErrorRate

    Raises
    ------
    ValueError
        If lengths differ, or if no reference has a label. Draws without a label have no rate and are left out.

    Examples
    --------
    >>> result = error_rate([[1, 2], [3]] * 20, [[1, 2, 2], [3]] * 20)
    >>> result.rate, result.counts
    (0.25, EditCounts(substitutions=0, insertions=0, deletions=20))
    >>> 0 < result.low < 0.25 < result.high < 1
    True
    """
    level = check_real("level", level, "0 < level < 1", lambda value: 0 < value < 1)
    resamples = check_at_least("resamples", resamples, 1)
    groups = range(len(references)) if groups is None else groups
    for name, each in (("hypotheses", hypotheses), ("groups", groups)):
        if len(each) != len(references):
            raise ValueError(f"{name} has length {len(each)}; expected {len(references)}, one for each reference")
    counts = [edit_counts(*pair) for pair in zip(hypotheses, references, strict=True)]
    length = _at_least_one("references", sum(map(len, references)))
    edits = _sums_of_groups(map(sum, counts), groups)
    labels = _sums_of_groups(map(len, references), groups)
    draws = np.random.default_rng(seed).integers(len(edits), size=(resamples, len(edits)))
    drawn_edits, drawn_labels = edits[draws].sum(1), labels[draws].sum(1)
    rates = drawn_edits[drawn_labels > 0] / drawn_labels[drawn_labels > 0]
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2]) if len(rates) else (np.nan, np.nan)
    totals = EditCounts(*(sum(kind) for kind in zip(*counts, strict=True)))
    return ErrorRate(sum(totals) / length, float(low), float(high), totals, length)


def _sums_of_groups(numbers, groups):
    sums = dict.fromkeys(groups, 0)
    for group, number in zip(groups, numbers, strict=True):
        sums[group] += number
    return np.array(list(sums.values()))


def label_error_rate(decoded, targets, target_lengths) -> float:
    """The error rate of a padded batch: edits from the targets to what was read, over the number of target labels.

    Parameters
    ----------
    decoded : list of B lists of labels
        What was read, as from :func:`.greedy.greedy_decode`.
    targets : (B, U) int array
    target_lengths : (B,) ints

    Returns
    -------
    float
        0 if all is right; it can exceed 1 if much too much was read.

    Raises
    ------
    ValueError
        If there is no target label.

    Examples
    --------
    >>> label_error_rate([[1, 2], [3]], np.array([[1, 2, 2], [3, 0, 0]]), np.array([3, 1]))
    0.25
    """
    target_lengths = check_integers("target_lengths", target_lengths, 1, "(B,)")
    edits = [edit_distance(read, true[:length])
             for read, true, length in zip(decoded, np.asarray(targets).tolist(), target_lengths, strict=True)]
    return sum(edits) / _at_least_one("target_lengths", int(target_lengths.sum()))


def _at_least_one(name, length):
    """What an error rate is divided by."""
    if length == 0:
        raise ValueError(f"{name} has no label in it; expected at least one, since their number divides the edits")
    return length


def _listed(name, sequence):
    """A sequence as rapidfuzz compares it: strings stay, and arrays become lists of Python ints."""
    if isinstance(sequence, str):
        return sequence
    if isinstance(sequence, np.ndarray):
        return check_integers(name, sequence, 1, "(U,)").tolist()
    return list(sequence)
