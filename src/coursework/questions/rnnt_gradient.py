"""Assignment 4: RNN-T's two recursions, and its gradient with respect to log-probs and to logits."""

from __future__ import annotations

from functools import partial
from math import comb

import numpy as np

from reference_impl import log_softmax, rnnt
from reference_impl.semiring import COUNT

from . import ladders
from .question import Case, Question
from .rnnt_inputs import blocked, utterances, with_logits

__all__ = ["QUESTIONS"]


# --- paths through an arc, counted by hand ---


def paths_through(T, U, t, u):
    """How many paths write label u in frame t."""
    scores, targets = np.zeros((T, U + 1, 2)), [1] * U
    reach, leave = (f(scores, targets, semiring=COUNT) for f in (rnnt.alpha, rnnt.beta))
    return int(reach[t, u] * leave[t, u + 1])


def _ways(frames, labels):
    """Ways over so many blanks and so many labels, in any order."""
    return comb(frames + labels, labels)


COUNT_MISTAKES = {
    "It is the number of all paths; count those through the arc.": lambda T, U, t, u: _ways(T - 1, U),
    "It is the number of paths through the node; some of them leave it by the blank.":
        lambda T, U, t, u: _ways(t, u) * _ways(T - 1 - t, U - u),
    "It is the number of paths that leave the node by the blank.":
        lambda T, U, t, u: _ways(t, u) * _ways(T - 2 - t, U - u),
    "It adds prefixes and suffixes; any prefix goes with any suffix, so multiply.":
        lambda T, U, t, u: _ways(t, u) + _ways(T - 1 - t, U - u - 1),
    "It is the number of ways to reach the arc; each goes on in several ways.": lambda T, U, t, u: _ways(t, u),
    "It is the number of ways to go on after the arc; each began in several ways.":
        lambda T, U, t, u: _ways(T - 1 - t, U - u - 1),
    "As if the last blank could be anywhere; it is the last step of every path.":
        lambda T, U, t, u: _ways(t, u) * _ways(T - t, U - u - 1),
}


def _distinct(**facts):
    answers = [paths_through(**facts), *(mistake(**facts) for mistake in COUNT_MISTAKES.values())]
    return len(set(answers)) == len(answers)


#: Grids and arcs for which every mistake gives another number.
ARCS = [facts for T in (4, 5, 6) for U in (3, 4, 5) for t in range(1, T - 1) for u in range(1, U - 1)
        if _distinct(**(facts := {"T": T, "U": U, "t": t, "u": u}))]


def arc_cases(rng):
    return [Case("number", facts=ARCS[rng.integers(len(ARCS))])]


# --- the recursions ---


def alpha(log_probs, targets, blank, *, ahead=False, label=-1, frame=0, first=True, own=False, weigh_blank=False,
          add=np.logaddexp):
    """The forward recursion, with a place for each thing that can go wrong in it."""
    T, rows = np.shape(log_probs)[:2]
    found = np.full((T, rows), -np.inf)
    found[0, 0] = log_probs[0, 0, blank] if own else 0.0
    for t, u in np.ndindex(T, rows):
        if t > 0:
            found[t, u] = add(found[t, u], found[t - 1, u] + log_probs[t - (not ahead), u, blank])
        if u > 0 and t >= frame and (t > 0 or first):
            symbol = blank if weigh_blank else targets[u + label]
            step = log_probs[t if ahead else t - frame, u - (not ahead), symbol]
            found[t, u] = add(found[t, u], found[t - frame, u - 1] + step)
    return found


def beta(log_probs, targets, blank, *, ahead=False, label=0, frame=0, last=True, end=True, leave=False,
         weigh_blank=False, add=np.logaddexp):
    """The backward recursion, with a place for each thing that can go wrong in it."""
    T, rows = np.shape(log_probs)[:2]
    found = np.full((T, rows), -np.inf)
    for t, u in reversed(list(np.ndindex(T, rows))):
        if t + 1 < T:
            found[t, u] = found[t + 1, u] + log_probs[t + ahead, u, blank]
        elif u + 1 == rows or leave:
            found[t, u] = log_probs[t, u, blank] if end else 0.0
        if u + 1 < rows and t + frame < T and (t + 1 < T or last):
            symbol = blank if weigh_blank else targets[u + label]
            step = log_probs[t + frame if ahead else t, u + ahead, symbol]
            found[t, u] = add(found[t, u], step + found[t + frame, u + 1])
    return found


def _wrong_steps(recursion, one_too_early):
    """The mistakes which either recursion can make."""
    return {
        "It reads a step's log-prob at the node that the step leads to, not at the one that it leaves.":
            partial(recursion, ahead=True),
        "It reads the label of the row before, and the last label where there is none.":
            partial(recursion, label=one_too_early),
        "Its labels take a frame, as in CTC: here a label leads from (t, u) to (t, u + 1).":
            partial(recursion, frame=1),
        "It weighs the label's step by the blank's log-prob.": partial(recursion, weigh_blank=True),
        "It takes symbol 0 for the blank, whatever `blank` is.":
            lambda log_probs, targets, blank: recursion(log_probs, targets, 0),
        "It takes the better of two steps where it should add both (a maximum for a sum).":
            partial(recursion, add=np.maximum),
        "It adds logarithms where it should add probabilities.": partial(recursion, add=_sum_of_logs),
        "It returns probabilities, not their logarithms.":
            lambda *arguments, **named: np.exp(recursion(*arguments, **named)),
        "Frames and rows are exchanged: the shape is (U+1, T).":
            lambda *arguments, **named: recursion(*arguments, **named).T,
        "The last row is missing: there are U + 1, as many as the target has prefixes.":
            lambda *arguments, **named: recursion(*arguments, **named)[:, :-1],
    }


def _sum_of_logs(x, y):
    """Of those that are there."""
    return np.where(np.isinf(x), y, np.where(np.isinf(y), x, x + y))


def _plus_last_blank(log_probs, targets, blank):
    found = rnnt.log_alpha(log_probs, targets, blank=blank)
    found[-1, -1] += log_probs[-1, -1, blank]
    return found


ALPHA_MISTAKES = {
    **_wrong_steps(alpha, -2),
    "In frame 0 it takes blanks only; several labels may be written in one frame, the first one included.":
        partial(alpha, first=False),
    "It begins with a blank's log-prob; alpha(0, 0) is 1, whose logarithm is 0.": partial(alpha, own=True),
    "The last blank is in it; alpha ends at the last node, and the last blank leaves it.": _plus_last_blank,
    "It is beta: the way from the end, not from the beginning.":
        lambda log_probs, targets, blank: rnnt.log_beta(log_probs, targets, blank=blank),
}

BETA_MISTAKES = {
    **_wrong_steps(beta, -1),
    "The last blank is missing: beta(T-1, U) is its probability, not 1.": partial(beta, end=False),
    "It leaves the last frame in every row; that is done in the last row only, when all labels are written.":
        partial(beta, leave=True),
    "It has the ends of all rows, without the last blank; only the last node leads to the end, by its blank.":
        partial(beta, leave=True, end=False),
    "In the last frame it takes blanks only; labels may be written there, too.": partial(beta, last=False),
    "Its frames run backward: row 0 is the last frame.":
        lambda log_probs, targets, blank: beta(log_probs, targets, blank)[::-1],
    "It is alpha: the way from the beginning, not from the end.":
        lambda log_probs, targets, blank: rnnt.log_alpha(log_probs, targets, blank=blank),
}


# --- the gradient ---


def _is_lost(targets, u, once):
    """Whether label u stands once more in the target: before it, if the first one is kept, or else after it."""
    return u < len(targets) and targets[u] in (targets[:u] if once == "first" else targets[u + 1:])


def occupancy(log_probs, targets, blank, *, own=1, over_z=True, after_blank=(1, 0), after_label=(0, 1), end=True,
              leave=False, column=0, top=False, once=None):
    """Posteriors of the arcs, each at its entry, with a place for each thing that can go wrong in them."""
    T, rows = np.shape(log_probs)[:2]
    found = np.zeros(np.shape(log_probs))
    log_z = -rnnt.loss(log_probs, targets, blank=blank)
    if log_z == -np.inf:
        return found
    reach = rnnt.log_alpha(log_probs, targets, blank=blank)
    ends = np.full((T + 1, rows + 1), -np.inf)
    ends[:T, :rows] = rnnt.log_beta(log_probs, targets, blank=blank)
    if leave:
        ends[T, :rows] = 0.0
    ends[T, rows - 1] = 0.0 if end else -np.inf
    for t, u in np.ndindex(T, rows):
        steps = [(blank, blank, after_blank)]
        if u + 1 < rows:
            steps.append((targets[u], targets[(u + column) % len(targets)], after_label))
        elif top and len(targets):
            steps.append((targets[-1], targets[-1], (0, 0)))
        if once and _is_lost(targets, u, once):
            steps = steps[:1]
        for symbol, entry, (dt, du) in steps:
            # the last blank's step to the end is the one that no mistake about beta moves
            onward = ends[T, u] if symbol == blank and (t, u) == (T - 1, rows - 1) else ends[t + dt, u + du]
            step = sum([log_probs[t, u, symbol]] * own)
            found[t, u, entry] += np.exp(reach[t, u] + step + onward - over_z * log_z)
    return found


def node_occupancy(log_probs, targets, blank):
    return rnnt.occupancy(log_probs, targets, blank=blank).sum(-1, keepdims=True)


#: What can be wrong with the posteriors of arcs.
WRONG_ARCS = {
    "The step's own log-prob is missing: that is the gradient with respect to the probabilities.": {"own": 0},
    "The step's own log-prob is in it twice; neither alpha nor the beta behind the step has it.": {"own": 2},
    "It is not divided by Z (minus log Z is missing): the gradient of -Z, not of -log Z.": {"over_z": False},
    "It reads beta at the node that a step leaves, not at the one that it leads to.":
        {"after_blank": (0, 0), "after_label": (0, 0)},
    "It reads the label's beta at the wrong node: a label leads to (t, u + 1), and stays in its frame.":
        {"after_label": (1, 1)},
    "It reads the label's beta at the node that the label leaves; it leads to (t, u + 1).": {"after_label": (0, 0)},
    "It reads the blank's beta at the node that the blank leaves; it leads to (t + 1, u).": {"after_blank": (0, 0)},
    "It exchanges the two steps' betas: a blank leads to (t + 1, u), a label to (t, u + 1).":
        {"after_blank": (0, 1), "after_label": (1, 0)},
    "The last blank is missing: every path uses it.": {"end": False},
    "Blanks of the last frame leave it in every row; that is done in the last row only.": {"leave": True},
    "It stands in the column of the next row's label.": {"column": 1},
    "It writes a label in the last row; none is left there.": {"top": True},
    "A label that occurs twice has its entries in its first row only; each row has its own.": {"once": "first"},
    "A label that occurs twice has its entries in its last row only; each row has its own.": {"once": "last"},
}


def _v(log_probs, targets, blank, **options):
    return -occupancy(log_probs, targets, blank, **options)


def _probabilities(function):
    """What this function of log-probs says of logits."""
    return lambda logits, targets, blank: function(log_softmax(logits), targets, blank)


def _carried(**options):
    """Through log-softmax."""
    def found(log_probs, targets, blank):
        used = occupancy(log_probs, targets, blank, **options)
        return np.exp(log_probs) * used.sum(-1, keepdims=True) - used
    return _probabilities(found)


def _merged(believed=1, used=-1, **options):
    """Belief times node occupancy, and occupancy, each with a factor."""
    def found(log_probs, targets, blank):
        belief = np.exp(log_probs) * node_occupancy(log_probs, targets, blank)
        return believed * belief + used * occupancy(log_probs, targets, blank, **options)
    return _probabilities(found)


def _as_in_ctc(log_probs, targets, blank, *, always=False):
    reached = always or rnnt.loss(log_probs, targets, blank=blank) < np.inf
    return reached * np.exp(log_probs) - occupancy(log_probs, targets, blank)


def _of_one_arc(kept):
    """The softmax term weighted by the posterior of one of the two arcs."""
    def found(log_probs, targets, blank):
        used = occupancy(log_probs, targets, blank)
        weight = used[..., blank] if kept == "blank" else used.sum(-1) - used[..., blank]
        return np.exp(log_probs) * weight[..., None] - used
    return _probabilities(found)


def _added_over(axis):
    """The softmax term with the occupancy added up over another axis."""
    def found(log_probs, targets, blank):
        used = occupancy(log_probs, targets, blank)
        return np.exp(log_probs) * used.sum(axis, keepdims=True) - used
    return _probabilities(found)


def _on_arcs_only(log_probs, targets, blank):
    """The softmax term at the entries of arcs only."""
    used = occupancy(log_probs, targets, blank)
    is_arc = np.zeros(used.shape, dtype=bool)
    is_arc[..., blank] = is_arc[:, np.arange(len(targets)), targets] = True
    return is_arc * np.exp(log_probs) * used.sum(-1, keepdims=True) - used


LOG_PROBS_MISTAKES = {
    **{name: partial(_v, **options) for name, options in WRONG_ARCS.items()},
    "Its sign is wrong: the loss is minus log Z.": occupancy,
    "It is the gradient with respect to the logits; here the log-probs are independent.":
        lambda log_probs, targets, blank: (
            np.exp(log_probs) * node_occupancy(log_probs, targets, blank) - occupancy(log_probs, targets, blank)),
    "It takes symbol 0 for the blank, whatever `blank` is.":
        lambda log_probs, targets, blank: _v(log_probs, targets, 0),
}

LOGITS_MISTAKES = {
    "The softmax term is missing: it is the gradient with respect to the log-probs.": _merged(0, -1),
    "The softmax term is not weighted by the node's occupancy: as in CTC, where every path comes by.":
        _probabilities(_as_in_ctc),
    "The softmax term is not weighted by the node's occupancy, and not 0 where there is no alignment.":
        _probabilities(partial(_as_in_ctc, always=True)),
    "The softmax term is weighted by the blank's posterior alone; the node's occupancy has the label's, too.":
        _of_one_arc("blank"),
    "The softmax term is weighted by the label's posterior alone; the node's occupancy has the blank's, too.":
        _of_one_arc("label"),
    "The softmax term is missing at symbols that no path uses; the softmax moves them all.":
        _probabilities(_on_arcs_only),
    "The softmax term adds the occupancy up over the rows; add over the symbols of each node (the wrong axis).":
        _added_over(1),
    "The softmax term adds the occupancy up over the frames; add over the symbols of each node (the wrong axis).":
        _added_over(0),
    "The softmax term adds the occupancy up over everything; add over the symbols of each node.": _added_over(None),
    "The occupancy is missing.": _merged(1, 0),
    "The occupancy has the wrong sign.": _merged(1, 1),
    "Its sign is wrong.": _merged(-1, 1),
    "The logits are taken for log-probs: they have to be normalised first.":
        lambda logits, targets, blank: (
            np.exp(logits) * node_occupancy(logits, targets, blank) - occupancy(logits, targets, blank)),
    "It takes symbol 0 for the blank, whatever `blank` is.":
        lambda logits, targets, blank: _merged()(logits, targets, 0),
    **{name: _carried(**options) for name, options in WRONG_ARCS.items()},
    **{f"{name} (The softmax term is right.)": _merged(**options) for name, options in WRONG_ARCS.items()
       if "column" not in options},  # the sum over the symbols is the same
}


def _log_alpha(log_probs, targets, blank):
    return rnnt.log_alpha(log_probs, targets, blank=blank)


def _log_beta(log_probs, targets, blank):
    return rnnt.log_beta(log_probs, targets, blank=blank)


def _grad_log_probs(log_probs, targets, blank):
    return rnnt.grad_log_probs(log_probs, targets, blank=blank)


def gradient_cases(rng):
    return [*utterances(rng), blocked(rng)]


def logit_cases(rng):
    return [with_logits(case, rng) for case in gradient_cases(rng)]


QUESTIONS = [
    Question("paths_through_an_arc", {"number": 0.5}, arc_cases, paths_through, COUNT_MISTAKES),
    Question("log_alpha", {"labels": 0.25, "edges": 0.25}, utterances, _log_alpha, ALPHA_MISTAKES,
             ladder=ladders.of_log_probs(ladders.LOG_ALPHA, ladders.rnnt)),
    Question("log_beta", {"labels": 0.25, "edges": 0.25}, utterances, _log_beta, BETA_MISTAKES,
             ladder=ladders.of_log_probs(ladders.LOG_BETA, ladders.rnnt)),
    Question("grad_log_probs", {"labels": 0.5, "edges": 0.25, "no alignment": 0.25}, gradient_cases, _grad_log_probs,
             LOG_PROBS_MISTAKES,
             ladder=ladders.of_log_probs(ladders.GRADIENT, partial(ladders.rnnt, impossible=True)),
             helpers={"log_alpha": _log_alpha, "log_beta": _log_beta}),
    Question("grad_logits", {"labels": 1.0, "edges": 0.25, "no alignment": 0.25}, logit_cases,
             lambda logits, targets, blank: rnnt.grad_logits(logits, targets, blank=blank), LOGITS_MISTAKES,
             ladder=ladders.of_logits(ladders.GRADIENT, partial(ladders.rnnt, impossible=True, logits=True)),
             helpers={"log_alpha": _log_alpha, "log_beta": _log_beta, "grad_log_probs": _grad_log_probs}),
]
