"""Assignment 3: the gradient of a loss over the states of CTC whose symbols have weights, and with other ends."""

from __future__ import annotations

from functools import partial

import numpy as np

from coursework.questions import ladders
from coursework.questions.ctc_inputs import scores
from coursework.questions.question import Case
from coursework.questions.sealed import Own
from reference_impl import log_softmax

from . import chain, words

__all__ = ["QUESTIONS", "RULES"]

_BLANK, _LABEL = (0.25, 0.5, 0.75, 1.25, 1.5, 1.75), (0.5, 0.8, 1.2, 1.6, 2.0)
#: Every rule of the family. Two weights are never equal: then they would be one factor of all scores.
RULES = [{"start": start, "end": end, "blank_weight": blank, "label_weight": label} for start in ("blank", "label")
         for end in ("blank", "label") for blank in _BLANK for label in _LABEL if blank != label]

_SAID = {
    ("start", "blank"): "A path begins in the first blank, and nowhere else.",
    ("start", "label"): "A path begins in the first label, and nowhere else.",
    ("end", "blank"): "A path is complete in the last blank, and nowhere else.",
    ("end", "label"): "A path is complete in the last label, and nowhere else.",
}


def rules(rng):
    return RULES[rng.integers(len(RULES))]


def said(rule):
    """The weights are in the formula; that an occupancy gets one is for the student to find."""
    sentences = [_SAID["start", rule["start"]], _SAID["end", rule["end"]],
                 f"The score of a path is $\\sum_t w(\\pi_t) \\log y_t(\\pi_t)$ with $w(\\varnothing) = "
                 f"{rule['blank_weight']:g}$ for the blank and $w = {rule['label_weight']:g}$ for every label, and "
                 "$Z$ is the sum of $e^{\\text{score}}$ over all paths.",
                 "An empty target has one state, a blank, in which a path begins and is complete."]
    anchors = [words.paths(_paths(targets, 6, rule), f"the target *{text}* in 6 frames")
               for targets, text in (([1, 2, 1], "aba"), ([1, 1, 2], "aab"))]
    return words.cell("Your loss. What is not said here is as in the book.", sentences, anchors)


def _paths(targets, T, rule):
    return round(np.exp(-chain.loss(np.zeros((T, 3)), targets, 0, rule)))


def _case(group, log_probs, targets, blank=0):
    return Case(group, {"log_probs": log_probs, "targets": np.array(targets, dtype=np.int64), "blank": blank})


def cases(rng):
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    masked = scores(rng, 6)
    masked[2, [a, 0]] = -np.inf
    last = rng.permutation([0, 1, 2])  # the blank is symbol 3
    return [
        _case("different labels", scores(rng, 6), [a, b, c]),
        _case("different labels", scores(rng, 5), last[:2], 3),
        _case("equal labels", scores(rng, 7), [a, a, b]),
        _case("equal labels", scores(rng, 6), [a, b, a]),
        _case("edges", scores(rng, 3), []),
        _case("edges", scores(rng, 4), [b]),
        _case("edges", masked, [a, b]),
        _case("no alignment", scores(rng, 2), [a, a]),
        _case("no alignment", scores(rng, 2), [a, b, c]),
    ]


def logit_cases(rng):
    return [Case(case.group, {"logits": case.arguments["log_probs"] + rng.normal(size=(len(case.arguments["log_probs"]),
                                                                                       1)),
                              "targets": case.arguments["targets"], "blank": case.arguments["blank"]})
            for case in cases(rng)]


def _unweighted(rule):
    return {**rule, "blank_weight": 1.0, "label_weight": 1.0}


def _exchanged(rule):
    return {**rule, "blank_weight": rule["label_weight"], "label_weight": rule["blank_weight"]}


def _whole(rule):
    """The weights as an array of integers has them."""
    return {**rule, "blank_weight": int(rule["blank_weight"]), "label_weight": int(rule["label_weight"])}


def _same_when_whole(rule):
    """Whether weights without what stands after their points are no weights."""
    return _whole(rule) == _unweighted(rule)


def _only(holds, rule):
    """The rule; a ValueError, which says that there is no such mistake, if it does not hold."""
    if not holds:
        raise ValueError("another sentence says this")
    return rule


def _posteriors(log_probs, targets, blank, rule, *, alpha=None, beta=None, emission=0, over_z=True, keep_last=False):
    """Weights times occupancies, with a place for each thing that can go wrong in them; 0 where there is no path.

    ``alpha`` and ``beta`` are the rules of the two recursions, if they are others; ``emission`` is how often it is
    there too often.
    """
    found, log_z = np.zeros(np.shape(log_probs)), -chain.loss(log_probs, targets, blank, alpha or rule)
    if log_z == -np.inf:
        return found
    mass = (chain.log_alpha(log_probs, targets, blank, alpha or rule)
            + chain.log_beta(log_probs, targets, blank, beta or rule))
    if emission:
        scores = chain.weighted_emissions(log_probs, targets, blank, rule)
        mass = mass + np.where(np.isfinite(mass), emission * scores, 0.0)
    z, posterior = np.full(mass.shape[1], blank), np.exp(mass - over_z * log_z)
    z[1::2] = targets
    if keep_last:
        found.T[z] = posterior.T
    else:
        np.add.at(found.T, z, posterior.T)
    factor = np.full(found.shape[1], rule["label_weight"])
    factor[blank] = rule["blank_weight"]
    return factor * found


def _but(**options):
    return lambda log_probs, targets, blank, rule: -_posteriors(log_probs, targets, blank, rule, **options)


def _unweighted_in(recursion):
    return lambda log_probs, targets, blank, rule: -_posteriors(log_probs, targets, blank, rule,
                                                               **{recursion: _unweighted(rule)})


def _front(log_probs, targets, blank, front, inside):
    """Weights of one rule in front of the occupancy of another."""
    unit = chain.occupancy(log_probs, targets, blank, inside)
    factor = np.full(unit.shape[1], front["label_weight"])
    factor[blank] = front["blank_weight"]
    return -factor * unit


#: What can be wrong with the gradient with respect to the log-probs: functions of the answer's arguments.
V_MISTAKES = {
    "It is the book's: none of your rules is in it.":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(log_probs, targets, blank, {}),
    "It begins in either of the first two states, as in the book.":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(log_probs, targets, blank,
                                                                     {**rule, "start": "both"}),
    "It is complete in either of the last two states, as in the book.":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(log_probs, targets, blank,
                                                                     {**rule, "end": "both"}),
    "The weights are missing, in the paths and in front of the occupancy.":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(
            log_probs, targets, blank, _only(not _same_when_whole(rule), _unweighted(rule))),
    "The weights are all 1: they are missing, or what stands after their points is lost (an array of integers).":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(
            log_probs, targets, blank, _only(_same_when_whole(rule), _unweighted(rule))),
    "The weights are in the paths, and missing in front of the occupancy: d score / d log y is w.":
        lambda log_probs, targets, blank, rule: -chain.occupancy(log_probs, targets, blank, rule),
    "The weights are in front of the occupancy, and missing in the scores of the paths.":
        lambda log_probs, targets, blank, rule: _front(log_probs, targets, blank, rule, _unweighted(rule)),
    "The weights are in alpha, and missing in beta: every step of both has a score.": _unweighted_in("beta"),
    "The weights are in beta, and missing in alpha: every step of both has a score.": _unweighted_in("alpha"),
    "The weights are whole numbers: what stands after their points is lost (an array of integers).":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(
            log_probs, targets, blank, _only(not _same_when_whole(rule), _whole(rule))),
    "It takes symbol 0 for the blank, whatever `blank` is.":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(log_probs, targets, 0, rule),
    "It keeps the last state of a symbol; the blank, or a label that occurs twice, stands at several states.":
        _but(keep_last=True),
    "The score of frame t is missing from the posterior: alpha or beta has to have it, once.": _but(emission=-1),
    "The score of frame t is in the posterior twice: in alpha and in beta.": _but(emission=1),
    "It is not divided by Z: the gradient of -Z, not of -log Z.": _but(over_z=False),
    "The weights of blank and labels are exchanged.":
        lambda log_probs, targets, blank, rule: chain.grad_log_probs(log_probs, targets, blank, _exchanged(rule)),
    "Its sign is wrong: the loss is minus log Z.":
        lambda log_probs, targets, blank, rule: -chain.grad_log_probs(log_probs, targets, blank, rule),
}


def _carried(v):
    """Through log-softmax."""
    def found(logits, targets, blank, rule):
        log_probs = log_softmax(logits)
        first = v(log_probs, targets, blank, rule)
        return first - np.exp(log_probs) * first.sum(axis=1, keepdims=True)
    return found


def _added_over(axis):
    """Through a log-softmax with its sum over another axis."""
    def found(logits, targets, blank, rule):
        log_probs = log_softmax(logits)
        v = chain.grad_log_probs(log_probs, targets, blank, rule)
        return v - np.exp(log_probs) * v.sum(axis=axis, keepdims=True)
    return found


def _belief_of_1(logits, targets, blank, rule):
    log_probs = log_softmax(logits)
    v = chain.grad_log_probs(log_probs, targets, blank, rule)
    return np.exp(log_probs) * bool(v.any()) + v


def _weighted_belief(logits, targets, blank, rule):
    """The softmax term with a weight for each symbol, not for the frame."""
    log_probs = log_softmax(logits)
    v = chain.grad_log_probs(log_probs, targets, blank, rule)
    factor = np.full(v.shape[1], rule["label_weight"])
    factor[blank] = rule["blank_weight"]
    return factor * np.exp(log_probs) * bool(v.any()) + v


_POINTS = {"different labels": 1.5, "equal labels": 0.5, "edges": 0.5, "no alignment": 0.5}
QUESTIONS = [
    Own("own_grad_log_probs", _POINTS, cases, chain.grad_log_probs, V_MISTAKES,
        ladder=ladders.of_another_loss(partial(ladders.ctc, impossible=True), paths=chain.paths, mass="e^score"),
        rules=rules, words=said),
    Own("own_grad_logits", _POINTS, logit_cases, chain.grad_logits, {
        "Its softmax term is belief, as in the book; here a frame's weighted occupancies do not add up to 1.":
            _belief_of_1,
        "Its softmax term has a weight for each symbol; it is the sum over the frame that is weighted.":
            _weighted_belief,
        "Its softmax term adds up over the frames; add over the symbols of each frame (the wrong axis).":
            _added_over(0),
        "Its softmax term adds up over everything; add over the symbols of each frame.": _added_over(None),
        "The softmax term is missing: it is the gradient with respect to the log-probs.":
            lambda logits, targets, blank, rule: chain.grad_log_probs(log_softmax(logits), targets, blank, rule),
        "The logits are taken for log-probs: they have to be normalised first.":
            lambda logits, targets, blank, rule: (
                (v := chain.grad_log_probs(logits, targets, blank, rule)) - np.exp(logits) * v.sum(1, keepdims=True)),
        **{name: _carried(v) for name, v in V_MISTAKES.items()},
    }, ladder=ladders.of_another_loss(partial(ladders.ctc, impossible=True, logits=True), "logits", chain.paths,
                                      "e^score"),
        helpers={"own_grad_log_probs": chain.grad_log_probs}, explored=False, rules=rules, words=said),
]
