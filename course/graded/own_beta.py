"""Assignment 2: the backward variable of a machine that differs from CTC in four places, with the emission in it."""

from __future__ import annotations

from functools import partial

import numpy as np

from coursework.questions import ladders
from coursework.questions.ctc_inputs import scores
from coursework.questions.question import Case
from coursework.questions.sealed import Own

from . import chain, words

__all__ = ["QUESTIONS", "RULES"]

#: Every rule of the family; each differs from the book's in all four places.
RULES = [{"start": start, "end": end, "skip": skip, "hold": hold} for start in ("blank", "label")
         for end in ("blank", "label") for skip in ("never", "always") for hold in ("blanks", "labels")]

_SAID = {
    ("start", "blank"): "A path begins in the first blank, and nowhere else.",
    ("start", "label"): "A path begins in the first label, and nowhere else.",
    ("end", "blank"): "A path is complete in the last blank, and nowhere else.",
    ("end", "label"): "A path is complete in the last label, and nowhere else.",
    ("skip", "never"): "No state may be skipped: a step stays, or leads to the next state.",
    ("skip", "always"): "A blank between two labels may always be skipped, between two equal labels as well.",
    ("hold", "blanks"): "A blank may last several frames. A label lasts exactly one: its state cannot be kept.",
    ("hold", "labels"): "A label may last several frames. A blank lasts exactly one: its state cannot be kept.",
}


def rules(rng):
    return RULES[rng.integers(len(RULES))]


def said(rule):
    sentences = [_SAID[item] for item in rule.items()]
    sentences.append("An empty target has one state, a blank, in which a path begins and is complete.")
    anchors = [words.paths(_paths(targets, 7, rule), f"the target *{text}* in 7 frames")
               for targets, text in (([1, 2, 1], "aba"), ([1, 1, 2], "aab"))]
    return words.cell("Your machine. What is not said here is as in the book.", sentences, anchors)


def _paths(targets, T, rule):
    return round(np.exp(-chain.loss(np.zeros((T, 3)), targets, 0, rule)))


def _case(group, log_probs, targets, blank=0):
    return Case(group, {"log_probs": log_probs, "targets": np.array(targets, dtype=np.int64), "blank": blank})


def beta_cases(rng):
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    masked = scores(rng, 6)
    masked[2, [a, 0]] = -np.inf
    last = rng.permutation([0, 1, 2])  # the blank is symbol 3
    return [
        _case("different labels", scores(rng, 7), [a, b, c]),
        _case("different labels", scores(rng, 5), last[:2], 3),
        _case("equal labels", scores(rng, 7), [a, a]),
        _case("equal labels", scores(rng, 8), [b, a, a]),
        _case("edges", scores(rng, 1), []),
        _case("edges", scores(rng, 3), [b]),
        _case("edges", masked, [a, b]),
    ]


def loss_cases(rng):
    cases = [_case("edges" if case.group == "edges" else "labels", *case.arguments.values())
             for case in beta_cases(rng)]
    a = int(rng.integers(1, 4))
    return [*cases, _case("no alignment", scores(rng, 1), [a, a]), _case("no alignment", scores(rng, 2), [a, a, a])]


def own_log_beta(log_probs, targets, blank, rule):
    return chain.log_beta(log_probs, targets, blank, rule, emission=True)


def _but(name, value, of):
    """The answer for a rule that is as in the book in one place."""
    return lambda log_probs, targets, blank, rule: of(log_probs, targets, blank, {**rule, name: value})


#: No mistake of beta, which does not know where a path begins.
_BEGINS = "It begins in either of the first two states, as in the book."


def _mistakes(of):
    return {
        "It is the book's: none of the rules of your machine is in it.":
            lambda log_probs, targets, blank, rule: of(log_probs, targets, blank, {}),
        _BEGINS: _but("start", "both", of),
        "It is complete in either of the last two states, as in the book.": _but("end", "both", of),
        "It skips as in the book: the blank between two labels that differ.": _but("skip", "book", of),
        "Blanks and labels both last, as in the book.": _but("hold", "both", of),
        "It takes symbol 0 for the blank, whatever `blank` is.":
            lambda log_probs, targets, blank, rule: of(log_probs, targets, 0, rule),
    }


QUESTIONS = [
    Own("own_log_beta", {"different labels": 2.0, "equal labels": 1.0, "edges": 1.0}, beta_cases, own_log_beta, {
        "The emission of frame t is not in it, as in the book; your machine has it in.":
            lambda log_probs, targets, blank, rule: chain.log_beta(log_probs, targets, blank, rule),
        "The emission of frame t is in it twice.": lambda log_probs, targets, blank, rule: (
            own_log_beta(log_probs, targets, blank, rule) + chain.emissions(log_probs, targets, blank)),
        **{name: mistake for name, mistake in _mistakes(own_log_beta).items() if name != _BEGINS},
        "It returns probabilities, not their logarithms.":
            lambda log_probs, targets, blank, rule: np.exp(own_log_beta(log_probs, targets, blank, rule)),
    }, ladder=ladders.of_another_loss(ladders.ctc, paths=chain.paths), rules=rules, words=said),
    Own("own_loss", {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}, loss_cases, chain.loss, {
        **_mistakes(chain.loss),
        "Its sign is wrong: the loss is minus log Z.":
            lambda log_probs, targets, blank, rule: -chain.loss(log_probs, targets, blank, rule),
        "The emission of frame 0 is in it twice: your beta has it already.":
            lambda log_probs, targets, blank, rule: chain.loss(
                np.concatenate([2 * log_probs[:1], log_probs[1:]]), targets, blank, rule),
    }, ladder=ladders.of_another_loss(partial(ladders.ctc, impossible=True), paths=chain.paths),
        helpers={"own_log_beta": own_log_beta}, explored=False, rules=rules, words=said),
]
