"""Assignment 3: the occupancy, and the gradient of CTC with respect to log-probs and to logits."""

from __future__ import annotations

import numpy as np

from reference_impl import ctc
from reference_impl.conformance import ctc_mistakes

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


QUESTIONS = [
    Question("occupancy", {"different labels": 1.0, "equal labels": 0.5, "edges": 0.5}, utterances, _right_occupancy,
             ctc_mistakes.OCCUPANCY),
    Question("grad_log_probs", {"different labels": 0.5, "equal labels": 0.25, "edges": 0.25}, utterances,
             lambda log_probs, targets, blank: -_right_occupancy(log_probs, targets, blank),
             ctc_mistakes.GRAD_LOG_PROBS),
    Question("grad_logits", {"different labels": 0.25, "equal labels": 0.25, "edges": 0.25, "no alignment": 0.25},
             logit_cases, lambda logits, targets, blank: ctc.grad_logits(logits, targets, blank=blank),
             ctc_mistakes.GRAD_LOGITS),
]
