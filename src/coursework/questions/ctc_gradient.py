"""Assignment 3: the occupancy, and the gradient of CTC with respect to log-probs and to logits."""

from __future__ import annotations

import numpy as np

from reference_impl import ctc, log_softmax

from .ctc_alpha import extended
from .ctc_inputs import scores, utterances
from .question import Case, Question

__all__ = ["QUESTIONS"]


def occupancy(log_probs, targets, blank, *, assign=False, power=0, over_z=True, best=False):
    """Sums of alpha beta over the states of each symbol, with a place for each thing that can go wrong."""
    z = extended(targets, blank)
    log_mass = ctc.log_alpha(log_probs, targets, blank=blank) + ctc.log_beta(log_probs, targets, blank=blank)
    log_z = -ctc.loss(log_probs, targets, blank=blank)
    emitted = np.where(np.isfinite(log_mass), np.asarray(log_probs)[:, z], 0)
    with np.errstate(invalid="ignore"):  # NaN where there is no alignment
        log_mass = log_mass - (log_z if over_z else 0) + power * emitted
    if best:
        log_mass = np.where(log_mass == log_mass.max(axis=1, keepdims=True), 0.0, -np.inf)
    found = np.zeros(np.shape(log_probs))
    for s, symbol in enumerate(z):
        found[:, symbol] = np.exp(log_mass[:, s]) + (0 if assign else found[:, symbol])
    return found


def _softmax(logits):
    return np.exp(log_softmax(logits))


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


def _left_over(logits, targets, blank):
    return _softmax(logits) - np.nan_to_num(occupancy(log_softmax(logits), targets, blank))


def _right_occupancy(log_probs, targets, blank):
    return ctc.occupancy(log_probs, targets, blank=blank)


def _sides(of_belief, of_occupancy, **options):
    """Belief and occupancy, each with a factor."""
    return lambda logits, targets, blank: (
        of_belief * _softmax(logits) + of_occupancy * occupancy(log_softmax(logits), targets, blank, **options))


def _divided(log_probs, targets, blank):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -occupancy(log_probs, targets, blank) / np.exp(log_probs)


QUESTIONS = [
    Question("occupancy", {"different labels": 2.0, "equal labels": 2.0, "edges": 1.0}, utterances, _right_occupancy, {
        "It keeps the last state of a symbol; the blank, or a label that occurs twice, stands at several states.":
            lambda *a, **k: occupancy(*a, **k, assign=True),
        "The emission is in it twice: alpha has it already, and beta has not.":
            lambda *a, **k: occupancy(*a, **k, power=1),
        "It is divided by the probability of the symbol: then it is a derivative with respect to that.":
            lambda *a, **k: occupancy(*a, **k, power=-1),
        "It is not divided by Z.": lambda *a, **k: occupancy(*a, **k, over_z=False),
        "It is the best state of each frame, not the probability of each.":
            lambda *a, **k: occupancy(*a, **k, best=True),
        "Its sign is wrong: an occupancy is a probability.": lambda *a, **k: -occupancy(*a, **k),
        "It is the softmax, what the network says; the occupancy is what the target says.":
            lambda log_probs, targets, blank: np.exp(log_probs),
    }),
    Question("grad_log_probs", {"different labels": 1.0, "equal labels": 0.5, "edges": 0.5}, utterances,
             lambda log_probs, targets, blank: -_right_occupancy(log_probs, targets, blank), {
        "Its sign is wrong: the loss is minus log Z.": occupancy,
        "It is the gradient with respect to the logits.":
            lambda log_probs, targets, blank: np.exp(log_probs) - occupancy(log_probs, targets, blank),
        "It is the gradient with respect to the probabilities: divided by each of them.": _divided,
        "It is not divided by Z: the gradient of -Z, not of -log Z.":
            lambda *a, **k: -occupancy(*a, **k, over_z=False),
        "It keeps the last state of a symbol; the blank, or a label that occurs twice, stands at several states.":
            lambda *a, **k: -occupancy(*a, **k, assign=True),
    }),
    Question("grad_logits", {"different labels": 1.0, "equal labels": 1.0, "edges": 0.5, "no alignment": 0.5},
             logit_cases, lambda logits, targets, blank: ctc.grad_logits(logits, targets, blank=blank), {
        "The softmax term is missing: it is the gradient with respect to the log-probs.": _sides(0, -1),
        "Its sign is wrong.": _sides(-1, 1),
        "The occupancy is missing.": _sides(1, 0),
        "The occupancy has the wrong sign.": _sides(1, 1),
        "The emission is in the occupancy twice.": _sides(1, -1, power=1),
        "The occupancy keeps the last state of a symbol only.": _sides(1, -1, assign=True),
        "The logits are taken for log-probs: they have to be normalised first.":
            lambda logits, targets, blank: np.exp(logits) - occupancy(logits, targets, blank),
        "Where there is no alignment it is not 0: the softmax term is left.":
            _left_over,
    }),
]
