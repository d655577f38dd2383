"""Assignment 3: the occupancy, and the gradient of CTC with respect to log-probs and to logits."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl import ctc, log_softmax
from reference_impl.conformance import ctc_mistakes

from . import ladders
from .ctc_inputs import scores, utterances
from .question import Case, Question

__all__ = ["QUESTIONS"]


def _with_logits(case, rng):
    """A case with logits in the place of log-probs: the same distributions, moved frame by frame."""
    log_probs = case.arguments["log_probs"]
    arguments = {"logits": log_probs + rng.normal(size=(len(log_probs), 1)), "targets": case.arguments["targets"],
                 "blank": case.arguments["blank"]}
    return Case(case.group, arguments)


def logit_cases(rng):
    cases = [_with_logits(case, rng) for case in utterances(rng)]
    a = int(rng.integers(1, 4))
    return [*cases, Case("no alignment", {"logits": scores(rng, 2), "targets": np.array([a, a]), "blank": 0})]


def _right_occupancy(log_probs, targets, blank):
    return ctc.occupancy(log_probs, targets, blank=blank)


def _grad_log_probs(log_probs, targets, blank):
    return -_right_occupancy(log_probs, targets, blank)


def _added_over(axis):
    """The softmax term with the occupancy added up over another axis."""
    def found(logits, targets, blank):
        log_probs = log_softmax(logits)
        used = _right_occupancy(log_probs, targets, blank)
        return np.exp(log_probs) * used.sum(axis, keepdims=True) - used
    return found


GRAD_LOGITS_MISTAKES = {
    **ctc_mistakes.GRAD_LOGITS,
    "The softmax term adds the occupancy up over the frames; add over the symbols of each frame (the wrong axis).":
        _added_over(0),
    "The softmax term adds the occupancy up over everything; add over the symbols of each frame.": _added_over(None),
}

QUESTIONS = [
    Question("occupancy", {"different labels": 1.0, "equal labels": 0.5, "edges": 0.5}, utterances, _right_occupancy,
             ctc_mistakes.OCCUPANCY, ladder=ladders.of_log_probs(ladders.GRADIENT, ladders.ctc, sign=-1.0)),
    Question("grad_log_probs", {"different labels": 0.5, "equal labels": 0.25, "edges": 0.25}, utterances,
             _grad_log_probs, ctc_mistakes.GRAD_LOG_PROBS,
             ladder=ladders.of_log_probs(ladders.GRADIENT, ladders.ctc), helpers={"occupancy": _right_occupancy}),
    Question("grad_logits", {"different labels": 0.25, "equal labels": 0.25, "edges": 0.25, "no alignment": 0.25},
             logit_cases, lambda logits, targets, blank: ctc.grad_logits(logits, targets, blank=blank),
             GRAD_LOGITS_MISTAKES,
             ladder=ladders.of_logits(ladders.GRADIENT, partial(ladders.ctc, impossible=True, logits=True)),
             helpers={"occupancy": _right_occupancy, "grad_log_probs": _grad_log_probs}),
]
