"""Joins what is said of wrong answers with one reason, so that a report says it once. It looks for no cause.

`explaining.py` has a sentence for each wrong answer by itself, and some of these follow from others: where a mistake
makes the loss infinite, the gradient is NaN, and what a mask does to the loss, it does to the gradient.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from .census import floor
from .families import LOSS_ALONE
from .judging import LOG_OF_0, MASK, NO_ALIGNMENT, UNUSED_MASK, UPSTREAM

__all__ = ["joined"]


def joined(said, judge) -> list[tuple]:
    """Pairs of a sentence and a wrong answer, in the same order, with fewer sentences."""
    said = _numbers_aside(said)
    said = _gradients_of_losses(_floors(said, judge))
    return _nan_of_both(_reasons_of_nan(said))


def _numbers_aside(said):
    """One sentence for another shape, whatever the sizes, and for errors that differ in numbers alone."""
    first, found = {}, []
    for sentence, each in said:
        if each.field == "error":
            sentence = first.setdefault(re.sub(r"\d+", "", sentence), sentence)
        elif np.shape(each.given) != np.shape(each.right) and not each.case.refusal:
            sentence = first.setdefault(each.field, sentence)
        found.append((sentence, each))
    return found


def _floors(said, judge):
    """If it was found out what stands in the place of log 0, that is why impossible utterances have a finite loss."""
    finite = [each for sentence, each in said if sentence == each.complaint and each.field == "loss" and _flips(each)]
    measured = floor(judge) if finite else ""
    named = next((sentence for sentence, _ in said if measured and sentence.startswith(measured)), "")
    return [(named if named and any(each is one for one in finite) else sentence, each) for sentence, each in said]


def _gradients_of_losses(said):
    """Where a mistake makes a possible utterance impossible, or the reverse, the gradient goes with the loss."""
    of_losses = {each.case.id: sentence for sentence, each in said if each.field == "loss" and _flips(each)
                 and sentence != each.complaint and not sentence.startswith(LOSS_ALONE)}
    return [(of_losses.get(each.case.id, sentence) if each.field == "gradient" and sentence == each.complaint
             else sentence, each) for sentence, each in said]


def _flips(wrong):
    """Whether a number is infinite that should not be, or finite."""
    return (np.shape(wrong.given) == np.shape(wrong.right)
            and bool((np.isinf(wrong.given) != np.isinf(wrong.right)).any()))


def _reasons_of_nan(said):
    """Of NaN with several reasons that one that all of it has: any mask, used or not; no alignment, whatever upstream.

    Of utterances without a mask nothing is learned from those with one, and the reverse. If most of it is without a
    reason that can be seen, so is all of it.
    """
    sentences = {(sentence, _is_masked(each)) for sentence, each in said}
    often = Counter(text for sentence, each in said for text in (sentence, sentence[:len(_nan(each))]))
    found = []
    for sentence, each in said:
        masked, nan = _is_masked(each), _nan(each)
        if sentence.startswith(nan) and 2 * often[nan + LOG_OF_0] > often[nan]:
            sentence = nan + LOG_OF_0
        if sentence == nan + UPSTREAM and (nan + NO_ALIGNMENT, masked) in sentences:
            sentence = nan + NO_ALIGNMENT
        if masked and (nan + UNUSED_MASK, True) in sentences and sentence in (nan + MASK, nan + NO_ALIGNMENT):
            sentence = nan + UNUSED_MASK
        found.append((sentence, each))
    return found


def _nan(wrong):
    return f"The {wrong.field} is NaN"


def _is_masked(wrong):
    return bool(np.isneginf(wrong.case.problem.logits).any())


def _nan_of_both(said):
    """Where loss and gradient are NaN in the same cases for the same reason, one sentence says so.

    An utterance without frames has no gradient that could be NaN.
    """
    cases = {}
    for sentence, each in said:
        if each.case.problem.logits.size:
            cases.setdefault(sentence, set()).add(each.case.id)
    found = []
    for sentence, each in said:
        reason = sentence.removeprefix(_nan(each))
        loss, gradient = (cases.get(f"The {field} is NaN{reason}") for field in ("loss", "gradient"))
        found.append((f"Loss and gradient are NaN{reason}" if loss and loss == gradient else sentence, each))
    return found
