"""Assignment 7: FastEmit's rule with respect to log-probs and to logits, and four witnesses that it is no gradient."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from reference_impl import log_softmax, rnnt

from . import ladders
from .question import Case, Question
from .rnnt_inputs import blocked, scores, utterances, with_logits

__all__ = ["QUESTIONS"]


def _lambda(rng):
    """Large enough to be seen in every digit that is compared, and never 1: then lambda and lambda^2 are the same."""
    return round(float(rng.uniform(0.2, 0.9)), 3)


def _with(case, **more):
    return Case(case.group, {**case.arguments, **more}, case.facts)


def _grids(rng):
    """Utterances, each with a lambda; with the last one it is 0."""
    cases = [_with(case, lam=_lambda(rng)) for case in utterances(rng)]
    return [*cases, Case("edges", {**cases[0].arguments, "log_probs": scores(rng, 5, 3), "lam": 0.0})]


# --- the rule ---


def occupancy(log_probs, targets, blank, blank_factor=1.0, label_factor=1.0):
    """The posteriors of blanks and of labels, each at its entry and with its factor."""
    found = rnnt.occupancy(log_probs, targets, blank=blank)
    factors = np.full(np.shape(log_probs)[-1], label_factor)
    factors[blank] = blank_factor
    return found * factors


def field(log_probs, targets, blank, lam):
    """v, what descent steps against, with respect to the log-probs."""
    return rnnt.grad_log_probs(log_probs, targets, blank=blank, fastemit_lambda=lam)


def field_logits(logits, targets, blank, lam):
    """w, the same with respect to the logits."""
    return rnnt.grad_logits(logits, targets, blank=blank, fastemit_lambda=lam)


def _factors(blank_factor, label_factor, sign=-1):
    """The rule with other factors, each a function of lambda."""
    return lambda log_probs, targets, blank, lam: (
        sign * occupancy(log_probs, targets, blank, blank_factor(lam), label_factor(lam)))


def _sides(belief, used, sign=1):
    """The softmax term minus the entries' own term; in each, a factor for the blanks and one for the labels.

    A factor is (constant, times lambda).
    """
    def found(logits, targets, blank, lam):
        log_probs = log_softmax(logits)
        believed, own = (occupancy(log_probs, targets, blank, *(one + more * lam for one, more in pair))
                         for pair in (belief, used))
        return sign * (np.exp(log_probs) * believed.sum(-1, keepdims=True) - own)
    return found


_NONE, _PLAIN, _MORE, _ADDED = (0, 0), (1, 0), (1, 1), (0, 1)


def _as_in_ctc(logits, targets, blank, lam):
    log_probs = log_softmax(logits)
    reached = rnnt.loss(log_probs, targets, blank=blank) < np.inf
    return reached * np.exp(log_probs) + field(log_probs, targets, blank, lam)


def _one(lam):
    return 1.0


def _one_and_lambda(lam):
    return 1.0 + lam


FIELD_MISTAKES = {
    "It is the gradient: lambda is not in it, or is a factor of every path alike.": _factors(_one, _one),
    "The factor stands at the blanks, too: that is the gradient, with a larger learning rate.":
        _factors(_one_and_lambda, _one_and_lambda),
    "The factor stands at the blanks, not at the labels.": _factors(_one_and_lambda, _one),
    "The factor is lambda; it is 1 + lambda.": _factors(_one, lambda lam: lam),
    "The factor is 1 - lambda: that makes labels late.": _factors(_one, lambda lam: 1.0 - lam),
    "The factor is the exponential of lambda; it is 1 + lambda.": _factors(_one, np.exp),
    "Its sign is wrong: descent steps against it, as against a gradient.": _factors(_one, _one_and_lambda, sign=1),
    "It is the rule with respect to the logits; here the log-probs are independent.":
        lambda log_probs, targets, blank, lam: (
            field(log_probs, targets, blank, lam)
            - np.exp(log_probs) * field(log_probs, targets, blank, lam).sum(-1, keepdims=True)),
    "It takes symbol 0 for the blank, whatever `blank` is.":
        lambda log_probs, targets, blank, lam: field(log_probs, targets, 0, lam),
}

LOGITS_MISTAKES = {
    "The softmax term lacks lambda: it is softmax times the sum of what stands at the node, 1 + lambda included.":
        _sides((_PLAIN, _PLAIN), (_PLAIN, _MORE)),
    "Lambda is in the softmax term only; the label's own posterior is multiplied, too.":
        _sides((_PLAIN, _MORE), (_PLAIN, _PLAIN)),
    "The factor stands at the blanks, too: that is the gradient, with a larger learning rate.":
        _sides((_MORE, _MORE), (_MORE, _MORE)),
    "In the softmax term the whole node is multiplied by 1 + lambda; that is for the label's posterior only.":
        _sides((_MORE, _MORE), (_PLAIN, _MORE)),
    "Lambda is not in it: it is the gradient.": _sides((_PLAIN, _PLAIN), (_PLAIN, _PLAIN)),
    "It is what lambda adds, without the gradient.": _sides((_NONE, _ADDED), (_NONE, _ADDED)),
    "The factor in it is lambda; it is 1 + lambda.": _sides((_PLAIN, _ADDED), (_PLAIN, _ADDED)),
    "The softmax term is missing: it is the rule with respect to the log-probs.":
        _sides((_NONE, _NONE), (_PLAIN, _MORE)),
    "The softmax term is not weighted by the node's posteriors: as in CTC, where every path comes by.": _as_in_ctc,
    "Its sign is wrong.": _sides((_PLAIN, _MORE), (_PLAIN, _MORE), sign=-1),
    "The logits are taken for log-probs: they have to be normalised first.":
        lambda logits, targets, blank, lam: (
            field(logits, targets, blank, lam)
            - np.exp(logits) * field(logits, targets, blank, lam).sum(-1, keepdims=True)),
    "It takes symbol 0 for the blank, whatever `blank` is.":
        lambda logits, targets, blank, lam: field_logits(logits, targets, 0, lam),
}


def logit_cases(rng):
    return [*(with_logits(case, rng) for case in _grids(rng)), _with(with_logits(blocked(rng), rng), lam=_lambda(rng))]


# --- a round trip ---


def _four_losses(log_probs, targets, blank, t, u, width, height):
    """At the corners (0, 0), (1, 0), (0, 1), (1, 1) of the rectangle."""
    found = []
    for q in (0.0, height):
        for p in (0.0, width):
            moved = np.array(log_probs)
            moved[t, u, blank] += p
            moved[t, u, targets[u]] += q
            found.append(rnnt.loss(moved, targets, blank=blank))
    return np.array(found)


#: What v integrates to along the sides, walked to the right or up: weights of the four losses; the label's have lambda.
_BOTTOM, _TOP = np.array([-1, 1, 0, 0]), np.array([0, 0, -1, 1])
_LEFT, _RIGHT = np.array([-1, 0, 1, 0]), np.array([0, -1, 0, 1])


def _walk(weights):
    """A walk along sides of the rectangle; ``weights`` is a function of what a label counts, 1 + lambda."""
    def found(log_probs, targets, blank, lam, t, u, width, height):
        return float(_four_losses(log_probs, targets, blank, t, u, width, height) @ weights(1 + lam))
    return found


round_trip = _walk(lambda label: _BOTTOM + label * _RIGHT - _TOP - label * _LEFT)


def trip_cases(rng):
    """Round the node that paths leave most often in both ways; and in one frame, where there is one path."""
    cases = []
    for T, targets, blank in ((4, [2, 1], 0), (3, [1, 1], 3), (5, [3], 0), (1, [1, 2], 0)):
        log_probs, targets = scores(rng, T, len(targets) + 1), rng.permutation(targets)
        e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
        t, u = (int(i) for i in np.unravel_index((e_blank[:, :-1] * e_label).argmax(), e_label.shape))
        width, height = (round(float(side), 2) for side in rng.permutation([rng.uniform(0.5, 1), rng.uniform(1.2, 2)]))
        cases.append(Case("one path" if T == 1 else "two ways", {
            "log_probs": log_probs, "targets": targets, "blank": blank, "lam": _lambda(rng), "t": t, "u": u,
            "width": width, "height": height}))
    return cases


# --- the Jacobian ---


def asymmetry(log_probs, targets, blank, lam, *, factor=lambda lam: -lam, logits=False):
    """d v(blank) / d log y(label) - d v(label) / d log y(blank) at every node with a label's arc."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    found = factor(lam) * e_blank[:, :-1] * e_label
    if logits:
        y = np.exp(np.asarray(log_probs)[:, :-1])
        found = found * (1 - y[..., blank] - y[:, np.arange(len(targets)), targets])
    return found


# --- what is frozen ---


def surrogate(log_probs, frozen_at, targets, blank, lam, *, v=field, frozen=True):
    """The sum of v, held at ``frozen_at``, times the log-probs."""
    slopes = v(frozen_at if frozen else log_probs, targets, blank, lam)
    used = slopes != 0
    return float((slopes[used] * np.asarray(log_probs)[used]).sum())


def _exchanged(log_probs, frozen_at, targets, blank, lam):
    return surrogate(frozen_at, log_probs, targets, blank, lam)


def surrogate_cases(rng):
    cases = []
    for case in utterances(rng):
        log_probs = case.arguments["log_probs"]
        moved = log_softmax(log_probs + rng.normal(size=log_probs.shape))
        cases.append(Case(case.group, {"log_probs": log_probs, "frozen_at": moved, **{
            name: value for name, value in case.arguments.items() if name != "log_probs"}, "lam": _lambda(rng)}))
    return cases


# --- which of them is a gradient ---


def field_kinds(rng):
    """Six fields: three are gradients, each for a reason of its own."""
    def of(T, U, V, lam, variable=None):
        return Case("fields", {"variable": variable or "vw"[rng.integers(2)], "T": int(T), "U": int(U), "V": int(V),
                               "lam": lam})

    def some(low):
        return rng.integers(low, 5)

    fields = [of(some(2), some(1), some(3), 0.0), of(1, some(1), some(3), _lambda(rng)),
              of(some(2), 0, some(3), _lambda(rng)), of(some(2), some(1), some(3), _lambda(rng), "v"),
              of(some(2), some(1), some(3), _lambda(rng), "w"), of(some(2), some(1), 2, _lambda(rng), "w")]
    return [fields[i] for i in rng.permutation(6)]


def is_gradient(variable, T, U, V, lam):
    """A gradient has one path, or no lambda."""
    return T == 1 or U == 0 or lam == 0


def _fields(of, problems):
    """Small cases with lambda 0, where the field is a gradient, and with lambda 1/2."""
    plain = of(ladders.GRADIENT, problems)

    def problems_of_both():
        return tuple(replace(problem, fastemit_lambda=lam) for problem in problems() for lam in (0.5, 0.0))

    def case_of(problem):
        return _with(plain.case_of(problem), lam=problem.fastemit_lambda)

    return replace(plain, problems=problems_of_both, case_of=case_of)


def _with_a_rectangle(problem):
    """Round the first node, with sides that differ."""
    return _with(_with_half(problem), t=0, u=0, width=1.0, height=2.0)


def _with_labels():
    return tuple(each for each in ladders.rnnt(most=12) if len(each.targets) and np.isfinite(each.logits).all())


def _frozen_at_equal(problem):
    """The scores of the problem, and equal ones for what is frozen."""
    given = dict(_with_half(problem).arguments)
    return Case("", {"log_probs": given.pop("log_probs"), "frozen_at": log_softmax(np.zeros(problem.logits.shape)),
                     **given})


def _with_half(problem):
    return _with(ladders.of_log_probs("", None).case_of(problem), lam=0.5)


QUESTIONS = [
    Question("field_log_probs", {"labels": 1.0, "edges": 0.5}, _grids, field, FIELD_MISTAKES,
             ladder=_fields(ladders.of_log_probs, ladders.rnnt)),
    Question("field_logits", {"labels": 1.5, "edges": 0.5, "no alignment": 0.5}, logit_cases, field_logits,
             LOGITS_MISTAKES,
             ladder=_fields(ladders.of_logits, partial(ladders.rnnt, impossible=True, logits=True)),
             helpers={"field_log_probs": field}),
    Question("round_trip", {"two ways": 1.5, "one path": 0.5}, trip_cases, round_trip, {
        "Its sign is wrong: walk counter-clockwise, first to the right, along v; the labels have the factor.":
            _walk(lambda label: -_BOTTOM - label * _RIGHT + _TOP + label * _LEFT),
        "It is 0: that is so for a gradient, and lambda is missing.": _walk(lambda label: 0 * _BOTTOM),
        "Lambda is missing in front of the four losses.": _walk(lambda label: _BOTTOM + 2 * _RIGHT - _TOP - 2 * _LEFT),
        "The factor is 1 + lambda; the 1 belongs to the gradient, which adds nothing round a loop.":
            _walk(lambda label: label * (_RIGHT - _LEFT)),
        "It is one way, to the right and then up; a loop comes back.":
            _walk(lambda label: _BOTTOM + label * _RIGHT),
        "It is the right side of the rectangle alone.": _walk(lambda label: label * _RIGHT),
        "All sides are walked to the right or up; the top is walked to the left, and the left side down.":
            _walk(lambda label: _BOTTOM + label * _RIGHT + _TOP + label * _LEFT),
        "The sides are exchanged: the blank's log-prob moves by `width`, the label's by `height`.":
            lambda log_probs, targets, blank, lam, t, u, width, height: (
                round_trip(log_probs, targets, blank, lam, t, u, height, width)),
    }, tolerance=1e-6, ladder=ladders.Ladder(_with_labels, _with_a_rectangle)),
    Question("asymmetry", {"labels": 1.5, "edges": 0.5}, _grids, asymmetry, {
        "Its sign is wrong, or the two derivatives are exchanged.": partial(asymmetry, factor=lambda lam: lam),
        "Lambda is missing.": partial(asymmetry, factor=lambda lam: -1.0),
        "It is the first derivative alone, that of the blank's entry by the label's log-prob.":
            partial(asymmetry, factor=_one),
        "It is the second derivative alone, that of the label's entry by the blank's log-prob.":
            partial(asymmetry, factor=_one_and_lambda),
        "It is the sum of the two derivatives; take their difference.":
            partial(asymmetry, factor=lambda lam: 2.0 + lam),
        "The field in it has the factor lambda; it is 1 + lambda.": partial(asymmetry, factor=lambda lam: 1 - lam),
        "It is the antisymmetric part, half the difference.": partial(asymmetry, factor=lambda lam: -lam / 2),
        "It is the asymmetry with respect to the logits.": partial(asymmetry, logits=True),
        "It is twice as large: divide by 2 h, the distance of the two points.":
            partial(asymmetry, factor=lambda lam: -2 * lam),
        "It is 0: that is so for a gradient, and lambda is missing.": partial(asymmetry, factor=lambda lam: 0.0),
    }, tolerance=1e-6, ladder=ladders.Ladder(partial(ladders.rnnt, most=12), _with_half),
             helpers={"field_log_probs": field}),
    Question("surrogate", {"labels": 0.5, "edges": 0.5}, surrogate_cases, surrogate, {
        "Nothing is frozen: the posteriors are those of `log_probs`, not of `frozen_at`.":
            partial(surrogate, frozen=False),
        "The two are exchanged: the posteriors are held at `frozen_at`, and the logs are those of `log_probs`.":
            _exchanged,
        "Everything is frozen, the logs too: nothing is left to differentiate.":
            lambda log_probs, frozen_at, targets, blank, lam: surrogate(frozen_at, frozen_at, targets, blank, lam),
        "Lambda is not in it.": partial(surrogate, v=_factors(_one, _one)),
        "The factor stands at the blanks, too.": partial(surrogate, v=_factors(_one_and_lambda, _one_and_lambda)),
        "The factor is lambda; it is 1 + lambda.": partial(surrogate, v=_factors(_one, lambda lam: lam)),
        "Its sign is wrong: descent has to lower it.": partial(surrogate, v=_factors(_one, _one_and_lambda, sign=1)),
        "It is the loss, minus log Z.": lambda log_probs, frozen_at, targets, blank, lam: (
            rnnt.loss(log_probs, targets, blank=blank)),
    }, ladder=ladders.Ladder(_with_labels, _frozen_at_equal), helpers={"field_log_probs": field}),
    Question("is_a_gradient", {"fields": 1.0}, field_kinds, is_gradient, {
        "None of them: but where there is one path, or lambda is 0, the field is a gradient.":
            lambda variable, T, U, V, lam: False,
        "All of them: but FastEmit has no loss where a path may go two ways.": lambda variable, T, U, V, lam: True,
        "The answers are the wrong way round: True is for a gradient.":
            lambda variable, T, U, V, lam: not is_gradient(variable, T, U, V, lam),
        "With lambda = 0 the field is the gradient of the loss.":
            lambda variable, T, U, V, lam: T == 1 or U == 0,
        "With one frame there is one path, and v is a constant: the gradient of a linear function.":
            lambda variable, T, U, V, lam: lam == 0 or U == 0,
        "Without labels there is one path, and lambda multiplies nothing.":
            lambda variable, T, U, V, lam: lam == 0 or T == 1,
        "It is one for lambda = 0 only: but where there is one path, the field is a gradient, too.":
            lambda variable, T, U, V, lam: lam == 0,
        "Log-softmax does not repair it: w is no gradient either, where a path may go two ways.":
            lambda variable, T, U, V, lam: variable == "w" or is_gradient(variable, T, U, V, lam),
        "With two symbols log-softmax repairs it within a node, not between nodes.":
            lambda variable, T, U, V, lam: V == 2 or is_gradient(variable, T, U, V, lam),
    }),
]
