"""Assignment 4: a transducer whose first step, last step and labels of a frame are other than RNN-T's."""

from __future__ import annotations

from functools import partial

import numpy as np

from coursework.questions import ladders
from coursework.questions.question import Case
from coursework.questions.rnnt_inputs import scores
from coursework.questions.sealed import Own
from reference_impl import log_softmax
from reference_impl.lattice import Arc, Lattice, arc_posteriors, enumerate_paths, forward

from . import words

__all__ = ["QUESTIONS", "RULES", "grad_log_probs", "grad_logits", "lattice", "loss", "occupancy"]

#: Every rule of the family; each differs from the book's in all three places.
RULES = [{"first": first, "last": last, "most": most} for first in ("blank", "label") for last in ("label", "any frame")
         for most in (1, 2)]
_BOOK = {"first": "any", "last": "corner", "most": None, "again": True}

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
    """Nodes (t, u, labels written in this frame), and the arcs that a rule allows.

    Without ``again`` in the rule, which is a mistake, labels are not counted again in each frame.
    """
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
            arc((t, u, n), (t + 1, u, 0 if rule["again"] else n), blank)
        if u == U and (rule["last"] == "any frame" or rule["last"] == "corner" and t + 1 == T):
            arc((t, u, n), "end", blank)
        if u < U and n < most:
            if rule["last"] == "label" and (t, u) == (T - 1, U - 1):
                arc((t, u, n), "end", targets[u])
            else:
                arc((t, u, n), (t, u + 1, n + 1), targets[u])
    return Lattice((*nodes, "end"), tuple(arcs), tuple(shape))


def arcs(log_probs, targets, blank, rule):
    """As the notebook asks for them: (from, to, entry), where a node is (t, u, labels in this frame) or "end"."""
    graph = lattice(np.shape(log_probs), targets, blank, rule)
    return [(graph.nodes[arc.source], graph.nodes[arc.target], arc.entry) for arc in graph.arcs]


def reached(log_probs, targets, blank, rule):
    """The log of the mass that reaches each node, by node, as the notebook asks for it."""
    graph = lattice(np.shape(log_probs), targets, blank, rule)
    return dict(zip(graph.nodes, map(float, forward(graph, graph.arc_weights(log_probs))), strict=True))


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


def _text(log_probs, targets, blank, rule):
    """All paths, as symbols, with their probabilities."""
    graph, found = lattice(np.shape(log_probs), targets, blank, rule), []
    for path in enumerate_paths(graph):
        entries = [graph.arcs[i].entry for i in path]
        mass = float(np.exp(sum(log_probs[entry] for entry in entries)))
        if mass:
            found.append((" ".join("∅" if entry[-1] == blank else str(entry[-1]) for entry in entries), mass))
    return found


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
        _case("no alignment", scores(rng, 1, 5), [a, b, c, a]),
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
        "It writes one label more in a frame than your rule allows.":
            lambda scores_, targets, blank, rule: of(scores_, targets, blank, {**rule, "most": rule["most"] + 1}),
        "It writes no more labels in the whole utterance than your rule allows in a frame: a blank leads to a new "
        "frame, in which they are counted again.": _but(of, again=False),
        "It takes symbol 0 for the blank, whatever `blank` is.":
            lambda scores_, targets, blank, rule: of(scores_, targets, 0, rule),
    }


def _in_order(mistakes):
    """Mistakes that take scores, targets, blank and rule, whatever the scores are called."""
    def called(mistake):
        return lambda *values, rule, **named: mistake(*values, *named.values(), rule)
    return {name: called(mistake) for name, mistake in mistakes.items()}


def _of_one_arc(log_probs, targets, blank, rule, *, after):
    """Each entry's occupancy from one of the arcs that read it: after the fewest labels in the frame, or the most."""
    graph, found = lattice(np.shape(log_probs), targets, blank, rule), np.zeros(np.shape(log_probs))
    posteriors = arc_posteriors(graph, graph.arc_weights(log_probs))
    order = range(len(graph.arcs)) if after == "most" else reversed(range(len(graph.arcs)))
    for i in order:
        found[graph.arcs[i].entry] = posteriors[i]
    return found


def _added_over(axis):
    """The softmax term with the occupancy added up over another axis."""
    def found(logits, targets, blank, rule):
        log_probs = log_softmax(logits)
        used = occupancy(log_probs, targets, blank, rule)
        return np.exp(log_probs) * used.sum(axis, keepdims=True) - used
    return found


def _not_normalised(logits, targets, blank, rule):
    used = occupancy(logits, targets, blank, rule)
    return np.exp(logits) * used.sum(-1, keepdims=True) - used


def _one_everywhere(log_probs, targets, blank, rule):
    """As in CTC; 0 where there is no path."""
    return float(np.isfinite(loss(log_probs, targets, blank, rule)))


def _node_of_rnnt(log_probs, targets, blank, rule):
    return occupancy(log_probs, targets, blank, {}).sum(-1, keepdims=True)


_OF_LOG_PROBS = ladders.of_another_loss(partial(ladders.rnnt, impossible=True), paths=_text)
_OF_LOGITS = ladders.of_another_loss(partial(ladders.rnnt, impossible=True, logits=True), "logits", _text)
#: What the notebook asks for beside the loss.
_AIDS = {"own_loss": {"own_arcs": arcs, "own_forward": reached}}
_POINTS = {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}
QUESTIONS = [
    Own("own_loss", _POINTS, cases, loss, _in_order({
        **_mistakes(loss),
        "Its sign is wrong: the loss is minus log Z.": lambda *arguments: -loss(*arguments),
    }), ladder=_OF_LOG_PROBS, rules=rules, words=said),
    Own("own_grad_log_probs", _POINTS, cases, grad_log_probs, _in_order({
        **_mistakes(grad_log_probs),
        "Its sign is wrong: the loss is minus log Z.": occupancy,
        "Of the arcs that read an entry, which differ in the labels before them in the frame, it counts that after "
        "the fewest; add all of them up.": lambda *arguments: -_of_one_arc(*arguments, after="fewest"),
        "Of the arcs that read an entry, which differ in the labels before them in the frame, it counts that after "
        "the most; add all of them up.": lambda *arguments: -_of_one_arc(*arguments, after="most"),
        "It is the gradient with respect to the logits.": lambda log_probs, targets, blank, rule: (
            grad_logits(log_probs, targets, blank, rule)),
    }), ladder=_OF_LOG_PROBS, helpers={"own_loss": loss}, aids=_AIDS, explored=False,
        rules=rules, words=said),
    Own("own_grad_logits", _POINTS, logit_cases, grad_logits, _in_order({
        "The softmax term is missing: it is the gradient with respect to the log-probs.":
            lambda logits, *others: -occupancy(log_softmax(logits), *others),
        "The softmax term is not weighted by the node's occupancy: as in CTC, where every path comes by.":
            partial(_merged, node=_one_everywhere),
        "The softmax term is weighted by RNN-T's node occupancy, not by that of your transducer.":
            partial(_merged, node=_node_of_rnnt),
        "The softmax term adds the occupancy up over the rows; add over the symbols of each node (the wrong axis).":
            _added_over(1),
        "The softmax term adds the occupancy up over the frames; add over the symbols of each node (the wrong axis).":
            _added_over(0),
        "The softmax term adds the occupancy up over everything; add over the symbols of each node.":
            _added_over(None),
        "The logits are taken for log-probs: they have to be normalised first.": _not_normalised,
        "Its sign is wrong.": lambda *arguments: -grad_logits(*arguments),
        **_mistakes(grad_logits),
    }), ladder=_OF_LOGITS, helpers={"own_grad_log_probs": grad_log_probs}, aids=_AIDS, explored=False,
        rules=rules, words=said),
]
