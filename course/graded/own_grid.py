"""Assignment 4: a transducer whose first step, last step and labels of a frame are other than RNN-T's."""

from __future__ import annotations

from functools import partial

import numpy as np

from coursework.questions import ladders
from coursework.questions.question import Case
from coursework.questions.rnnt_inputs import scores
from coursework.questions.sealed import Own
from reference_impl import log_softmax
from reference_impl.lattice import Arc, Lattice, arc_posteriors, forward

from . import words

__all__ = ["QUESTIONS", "RULES", "grad_log_probs", "grad_logits", "lattice", "loss", "occupancy"]

#: Every rule of the family; each differs from the book's in all three places.
RULES = [{"first": first, "last": last, "most": most} for first in ("blank", "label") for last in ("label", "any frame")
         for most in (1, 2)]
_BOOK = {"first": "any", "last": "corner", "most": None}

_SAID = {
    ("first", "blank"): "The first step of every path is a blank.",
    ("first", "label"): "The first step of every path is a label.",
    ("last", "label"): "The last step of every path is the last label, written in the last frame: there is no blank "
                       "after it. An empty target has no path.",
    ("last", "any frame"): "When all labels are written, a blank may end the path in any frame $t$, and the frames "
                           "after $t$ are not read. In a frame before the last, a blank of the last row may also lead "
                           "to the next frame, as in the book: these are two paths.",
    ("most", 1): "A path writes at most one label in a frame.",
    ("most", 2): "A path writes at most two labels in a frame.",
}


def rules(rng):
    return RULES[rng.integers(len(RULES))]


def said(rule):
    anchors = [words.paths(_paths(T, U, rule), f"{T} frames and {U} labels") for T, U in ((3, 2), (4, 3))]
    return words.cell("Your transducer. What is not said here is as in the book.",
                      [_SAID[item] for item in rule.items()], anchors)


def _paths(T, U, rule):
    return round(np.exp(-loss(np.zeros((T, U + 1, 2)), np.ones(U, int), 0, rule)))


def lattice(shape, targets, blank, rule):
    """Nodes (t, u, labels written in this frame), and the arcs that a rule allows."""
    (T, rows, _), rule = shape, {**_BOOK, **rule}
    U = rows - 1
    most = rule["most"] or U
    nodes = [(t, u, n) for t in range(T) for u in range(rows) for n in range(min(u, most) + 1)]
    place = {node: i for i, node in enumerate([*nodes, "end"])}
    arcs = []

    def arc(source, target, symbol):
        allowed = "any" if source != (0, 0, 0) else rule["first"]
        kind = "blank" if symbol == blank else "label"
        if allowed in ("any", kind):
            arcs.append(Arc(place[source], place[target], (*source[:2], int(symbol))))

    for t, u, n in nodes:
        if t + 1 < T:
            arc((t, u, n), (t + 1, u, 0), blank)
        if u == U and (rule["last"] == "any frame" or rule["last"] == "corner" and t + 1 == T):
            arc((t, u, n), "end", blank)
        if u < U and n < most:
            if rule["last"] == "label" and (t, u) == (T - 1, U - 1):
                arc((t, u, n), "end", targets[u])
            else:
                arc((t, u, n), (t, u + 1, n + 1), targets[u])
    return Lattice((*nodes, "end"), tuple(arcs), tuple(shape))


def loss(log_probs, targets, blank, rule):
    graph = lattice(np.shape(log_probs), targets, blank, rule)
    return -float(forward(graph, graph.arc_weights(log_probs))[-1])


def occupancy(log_probs, targets, blank, rule):
    """The probability that a path reads an entry; 0 where there is no path."""
    graph = lattice(np.shape(log_probs), targets, blank, rule)
    return graph.occupancy(arc_posteriors(graph, graph.arc_weights(log_probs)))


def grad_log_probs(log_probs, targets, blank, rule):
    return -occupancy(log_probs, targets, blank, rule)


def grad_logits(logits, targets, blank, rule):
    return _merged(logits, targets, blank, rule)


def _merged(logits, targets, blank, rule, *, node=None, used=None):
    """Belief times the node's weight minus occupancy, each of them by some rule."""
    log_probs = log_softmax(logits)
    own = occupancy(log_probs, targets, blank, rule if used is None else used)
    weight = own.sum(-1, keepdims=True) if node is None else node(log_probs, targets, blank, rule)
    return np.exp(log_probs) * weight - own


def _case(group, log_probs, targets, blank=0):
    return Case(group, {"log_probs": log_probs, "targets": np.array(targets, dtype=np.int64), "blank": blank})


def cases(rng):
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    masked = scores(rng, 5, 3)
    masked[1, 0, 0] = masked[3, 1, b] = masked[0, 2, a] = -np.inf
    again = int(rng.integers(0, 3))  # the blank is symbol 3
    lost = scores(rng, 4, 2)
    lost[:, 0, a] = -np.inf
    return [
        _case("labels", scores(rng, 5, 4), [a, b, c]),
        _case("labels", scores(rng, 4, 3), [again, again], 3),
        _case("labels", scores(rng, 6, 5), [b, a, a, c]),
        _case("edges", scores(rng, 3, 1), []),
        _case("edges", scores(rng, 1, 2), [c]),
        _case("edges", masked, [a, b]),
        _case("no alignment", lost, [a]),
        _case("no alignment", scores(rng, 1, 4), [a, b, c]),
    ]


def logit_cases(rng):
    found = []
    for case in cases(rng):
        log_probs, targets, blank = case.arguments.values()
        moved = log_probs + rng.normal(size=(*log_probs.shape[:2], 1))
        found.append(Case(case.group, {"logits": moved, "targets": targets, "blank": blank}))
    return found


def _but(of, **change):
    return lambda scores_, targets, blank, rule: of(scores_, targets, blank, {**rule, **change})


def _mistakes(of):
    return {
        "It is RNN-T's: none of your rules is in it.":
            lambda scores_, targets, blank, rule: of(scores_, targets, blank, {}),
        "Its first step may be either, as in RNN-T.": _but(of, first="any"),
        "Its paths end as in RNN-T, by the blank of the last node.": _but(of, last="corner"),
        "It writes any number of labels in a frame, as RNN-T does.": _but(of, most=None),
        "It takes symbol 0 for the blank, whatever `blank` is.":
            lambda scores_, targets, blank, rule: of(scores_, targets, 0, rule),
    }


def _in_order(mistakes):
    """Mistakes that take scores, targets, blank and rule, whatever the scores are called."""
    def called(mistake):
        return lambda *values, rule, **named: mistake(*values, *named.values(), rule)
    return {name: called(mistake) for name, mistake in mistakes.items()}


def _one_everywhere(log_probs, targets, blank, rule):
    """As in CTC; 0 where there is no path."""
    return float(np.isfinite(loss(log_probs, targets, blank, rule)))


def _node_of_rnnt(log_probs, targets, blank, rule):
    return occupancy(log_probs, targets, blank, {}).sum(-1, keepdims=True)


_OF_LOG_PROBS = ladders.of_another_loss(partial(ladders.rnnt, impossible=True))
_OF_LOGITS = ladders.of_another_loss(partial(ladders.rnnt, impossible=True, logits=True), "logits")
_POINTS = {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}
QUESTIONS = [
    Own("own_loss", _POINTS, cases, loss, _in_order({
        **_mistakes(loss),
        "Its sign is wrong: the loss is minus log Z.": lambda *arguments: -loss(*arguments),
    }), ladder=_OF_LOG_PROBS, rules=rules, words=said),
    Own("own_grad_log_probs", _POINTS, cases, grad_log_probs, _in_order({
        **_mistakes(grad_log_probs),
        "Its sign is wrong: the loss is minus log Z.": occupancy,
        "It is the gradient with respect to the logits.": lambda log_probs, targets, blank, rule: (
            grad_logits(log_probs, targets, blank, rule)),
    }), ladder=_OF_LOG_PROBS, helpers={"own_loss": loss}, explored=False, rules=rules, words=said),
    Own("own_grad_logits", _POINTS, logit_cases, grad_logits, _in_order({
        "The softmax term is missing: it is the gradient with respect to the log-probs.":
            lambda logits, *others: -occupancy(log_softmax(logits), *others),
        "The softmax term is not weighted by the node's occupancy: as in CTC, where every path comes by.":
            partial(_merged, node=_one_everywhere),
        "The softmax term is weighted by RNN-T's node occupancy, not by that of your transducer.":
            partial(_merged, node=_node_of_rnnt),
        **_mistakes(grad_logits),
    }), ladder=_OF_LOGITS, helpers={"own_grad_log_probs": grad_log_probs}, explored=False,
        rules=rules, words=said),
]
