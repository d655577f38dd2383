"""Names for wrong answers: what people get wrong, computed for the same input and compared with what came back.

Mistakes with a name come from four places: those of ports to other languages (`mistakes`), the bank of planted bugs,
the ways in which a batch goes wrong, and, for what none of these explains, whole families of mistakes (`families/`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ..bug_bank import BUGS
from .conventions import Conventions, scaled
from .families import answers
from .problem import Problem
from .subjects import Refused, candidate_subject
from .vectors.mistakes import LENGTHS, PADDING, mistakes_of

__all__ = ["explanations", "families"]

_UPSTREAM = "The upstream gradient is ignored."
#: Of utterances with no more scores, what all mistakes lead to is kept for a while.
_KEPT = 200


def explanations(problem, field, conventions: Conventions, given, *, only=None) -> Iterator[tuple[str, np.ndarray]]:
    """Sentences, each with the answer that it would lead to under the conventions; ``given`` is what came back.

    ``field`` is "loss", "gradient", "log_alpha" or "log_beta"; ``only`` the sentences that are looked at.
    """
    for name, answer in _hypotheses(problem, field, conventions, given):
        if only is None or name in only:
            try:
                with np.errstate(all="ignore"):
                    yield name, answer()
            except (ArithmeticError, LookupError, ValueError, Refused):
                continue  # this mistake has no answer here


def _hypotheses(problem, field, conventions, given):
    for name, mistake in mistakes_of(conventions.kind, _field(field, conventions)).items():
        yield name, partial(_everywhere, mistake, problem, field, conventions)
    if field in ("loss", "gradient"):
        for bug, subject in _bank(conventions.kind):
            if field == "loss" or bug.variable == conventions.variable:
                name = f"As in the planted bug “{bug.name}”: {bug.mechanism}"
                yield name, partial(_planted, subject, problem, field, conventions)
        if problem.is_batch:
            yield LENGTHS, partial(_lengths_ignored, problem, field, conventions)
        if problem.is_batch and field == "gradient":
            yield PADDING, partial(_padding_left, problem, conventions, given)
        if problem.upstream is not None and field == "gradient":
            yield _UPSTREAM, lambda: conventions.expected(replace(problem, upstream=None))["gradient"]


def families(problem, field, conventions: Conventions, *, only=None) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Sentences of `families/`, each with the answers to which the mistake may lead under the conventions.

    An utterance of a batch about which a mistake says nothing is right.
    """
    variable = conventions.variable
    each = [(place, _by_sentence(replace(one, blank=conventions.blank_of(one)), field, variable, only))
            for place, one in problem.utterances()]
    rights, factors = None, _factors(problem, conventions)
    for sentence in dict.fromkeys(name for _, found in each for name in found):
        if any(sentence not in found for _, found in each) and rights is None:
            rights = [_right_one(replace(one, blank=conventions.blank_of(one)), field, variable)
                      for _, one in problem.utterances()]
        values = [(place, found.get(sentence) or [right]) for (place, found), right in
                  zip(each, rights or [None] * len(each), strict=True)]
        yield sentence, [_together([(place, those[min(i, len(those) - 1)]) for place, those in values], problem, field,
                                   conventions, factors) for i in range(max(len(those) for _, those in values))]


def _by_sentence(one, field, variable, only):
    if only is None and one.logits.size <= _KEPT:
        return _all(one.logits.tobytes(), one.logits.dtype.str, one.logits.shape, tuple(one.targets.tolist()),
                    one.blank, one.fastemit_lambda, variable)[field]
    return {sentence: values for sentence, about, values in answers(one, variable, only=only, field=field)
            if about == field}


@functools.lru_cache(maxsize=16)
def _all(scores, dtype, shape, targets, blank, fastemit_lambda, variable):
    """All sentences by field: a search asks for those of loss and of gradient, and asks again in float32."""
    one = Problem("", "", np.frombuffer(scores, dtype).reshape(shape).copy(), np.array(targets, dtype=np.int64), blank,
                  fastemit_lambda=fastemit_lambda)
    found = {"loss": {}, "gradient": {}}
    for sentence, field, values in answers(one, variable):
        found[field][sentence] = values
    return found


def _right_one(one, field, variable):
    conventions = Conventions(one.loss, variable=variable)
    return conventions.expected(one)[field]


def _field(field, conventions):
    return f"grad_{conventions.variable}" if field == "gradient" else field


def _everywhere(mistake, problem, field, conventions):
    """A mistake made in every utterance, and what a loss with these conventions makes of it."""
    return _together([(place, np.asarray(mistake(replace(one, blank=conventions.blank_of(one))), dtype=np.float64))
                      for place, one in problem.utterances()], problem, field, conventions)


def _together(each, problem, field, conventions, factors=None):
    """Values of all utterances, (place, value), as the conventions return them."""
    if field not in ("loss", "gradient"):
        return each[0][1]
    if field == "loss":
        return _combined(np.array([value for _, value in each]), problem, conventions)
    factors = _factors(problem, conventions) if factors is None else factors
    if not problem.is_batch:
        return scaled(factors[0], each[0][1])
    found = np.zeros(problem.logits.shape)
    for factor, (place, value) in zip(factors, each, strict=True):
        found[place] = scaled(factor, value)
    return found


def _combined(losses, problem, conventions):
    """Losses (B,), each -log Z or what a mistake makes of it, as the conventions return them."""
    losses = losses * conventions.loss.of(problem)
    return losses.sum() if conventions.total else losses if problem.is_batch else losses[0]


def _factors(problem, conventions):
    factors = conventions.gradient.of(problem)
    if problem.upstream is None:
        return factors
    return factors * (np.ravel(problem.upstream)[0] if conventions.total else problem.upstream)


@functools.cache
def _bank(kind):
    return [(bug, candidate_subject(bug)) for bug in BUGS if bug.loss == kind]


def _planted(subject, problem, field, conventions):
    """What a bug of the bank returns, and what a loss with these conventions makes of it."""
    subject = replace(subject, scores=conventions.inputs)
    factors = _factors(problem, conventions)
    found = subject.ask(replace(problem, upstream=factors if problem.is_batch else None))
    if field == "gradient":
        return found["gradient"] if problem.is_batch else factors[0] * found["gradient"]
    return _combined(np.atleast_1d(found["loss"]), problem, conventions)


def _lengths_ignored(problem, field, conventions):
    frames = np.full(len(problem.logits), problem.logits.shape[1])
    return conventions.expected(replace(problem, logit_lengths=frames))[field]


def _padding_left(problem, conventions, given):
    """The right answer with what was given in padding."""
    right = conventions.expected(problem)["gradient"]
    if np.shape(given) != right.shape:
        raise ValueError("another shape")
    left = np.array(given)
    for place, _ in problem.utterances():
        left[place] = right[place]
    return left
