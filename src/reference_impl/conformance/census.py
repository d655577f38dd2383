"""Which alignments a loss counts: asked one at a time, with scores that allow a single one. It needs no gradient.

If every frame (in RNN-T every node on the way) gives all probability to one symbol, then Z is 1 for a string that is an
alignment of the target, and 0 for every other. What a loss returns instead says which alignments it forgets, counts
twice, or takes for ones of the target; and what these have in common says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .cases import Case
from .problem import Problem
from .subjects import Refused

__all__ = ["census", "floor"]

#: The score of what is not on the way: small enough to be nothing, and no mask.
_OFF = -60.0


@dataclass(frozen=True, eq=False)
class _Walk:
    """A string of symbols, or steps through the grid, that may be an alignment; ``kind`` of those that are none."""

    problem: Problem
    symbols: tuple[int, ...]
    count: int
    kind: str = ""

    def __str__(self):
        return " ".join("∅" if k == self.problem.blank else str(k) for k in self.symbols) or "no symbol"

    @property
    def of(self):
        labels = " ".join(map(str, self.problem.targets.tolist()))
        blank = f", blank {self.problem.blank}" if self.problem.blank else ""
        target = f"target {labels}" if labels else "empty target"
        return f"{target}, T = {len(self.problem.logits)}{blank}"


def census(judge) -> list[str]:
    """Sentences about alignments that are not counted as they should be.

    Parameters
    ----------
    judge : Judge

    Returns
    -------
    list of str
        With the smallest alignment that shows it in each; empty if all are counted right, or the loss does not answer.
    """
    walks = list(_ctc_walks() if judge.conventions.kind == "ctc" else _rnnt_walks())
    counted = [(walk, _counted(judge, walk)) for walk in walks]
    counted = [(walk, count) for walk, count in counted if count is not None]
    found = []
    missing = [(walk, count) for walk, count in counted if walk.count == 1 and count < 0.75]
    twice = [(walk, count) for walk, count in counted if walk.count == 1 and count > 1.5]
    extra = [(walk, count) for walk, count in counted if walk.count == 0 and count > 0.2]
    there = [walk for walk, count in counted if walk.count == 1 and count >= 0.75]
    for those, head in ((missing, "It leaves out alignments"), (twice, "It counts alignments more than once")):
        if those:
            walks = [walk for walk, _ in those]
            why = _in_common(walks, [walk for walk in there if walk not in walks])
            found.append((f"{head}{why}", *those[0]))
    for kind in dict.fromkeys(walk.kind for walk, _ in extra):
        first = next((walk, count) for walk, count in extra if walk.kind == kind)
        found.append((f"It counts strings that are not alignments: {kind}", *first))
    return [f"{sentence}, such as {walk} ({walk.of}): counted {_plain(count)}, right {walk.count}."
            for sentence, walk, count in found]


def _plain(count):
    """A count to three digits; what rounding leaves of nothing is 0."""
    return "0" if count < 1e-12 else f"{count:.3g}"


def _counted(judge, walk):
    """The mass that the loss gives to a walk; None if it does not answer, or answers with NaN.

    Of a walk that is none, a finite loss by which the conventions say that no alignment exists is no mass.
    """
    case = Case(walk.problem, judge.subject.precisions[0], 1e-6, 1e-6)
    try:
        loss = judge.subject.ask(case.problem).get("loss")
    except Refused:
        return None
    scale = judge.conventions.loss.of(walk.problem)[0]
    if loss is None or np.size(loss) != 1 or np.isnan(loss) or not scale:
        return None
    impossible = judge.conventions.impossible * scale
    if walk.count == 0 and np.isfinite(impossible) and np.isclose(np.ravel(loss)[0], impossible, rtol=1e-6, atol=1e-9):
        return 0.0
    return float(np.exp(-np.ravel(loss)[0] / scale))


def floor(judge) -> str:
    """What stands in the place of log 0: a sentence, empty if nothing does and an impossible target has a loss of inf.

    The only alignment of one frame has a probability of 0, and everything else on it 1.
    """
    shape = (1, 2) if judge.conventions.kind == "ctc" else (1, 2, 2)
    scores = np.zeros(shape)
    scores[(0, 1) if judge.conventions.kind == "ctc" else (0, 0, 1)] = -np.inf
    if judge.conventions.kind == "rnnt":
        scores[0, 1, 1] = -np.inf
    try:
        loss = judge.subject.ask(Problem("paths", "", scores, np.array([1]))).get("loss")
    except Refused:
        return ""
    if loss is None or np.size(loss) != 1 or not np.isfinite(loss).all():
        return ""
    given = float(np.ravel(loss)[0] / judge.conventions.loss.constant)
    if given < 1:
        return ""
    if given > 700:
        return f"A floor stands in place of -inf: an impossible step costs {given:.6g}."
    return (f"A probability of 0 counts as {np.exp(-given):.3g}: an epsilon is added to probabilities, as in log(p + "
            f"{np.exp(-given):.0e}), or a floor stands in place of -inf.")


# --- CTC ---


def _ctc_walks() -> Iterator[_Walk]:
    """All strings of up to three symbols, for targets of up to two labels; the blank first or last."""
    for blank, (a, b) in ((0, (1, 2)), (2, (1, 0))):
        for T, targets in itertools.product((1, 2, 3), ((), (a,), (a, a), (a, b), (b, a))):
            for symbols in itertools.product((blank, a, b), repeat=T):
                scores = np.full((T, 3), _OFF)
                scores[np.arange(T), symbols] = 0.0
                spelt = _collapsed(symbols, blank)
                yield _Walk(Problem("paths", "", scores, np.array(targets, dtype=np.int64), blank), symbols,
                            int(spelt == targets), _ctc_kind(spelt, targets))


def _collapsed(symbols, blank):
    return tuple(k for k, _ in itertools.groupby(symbols) if k != blank)


def _ctc_kind(spelt, targets):
    """Why a string is no alignment of the target."""
    if spelt == targets:
        return ""
    merged = tuple(k for k, _ in itertools.groupby(targets))
    if merged != targets and spelt == merged:
        return "two equal labels without a blank between them"
    if not spelt:
        return "nothing but blanks"
    if spelt == targets[:len(spelt)]:
        return "the last labels of the target are missing"
    if spelt == targets[len(targets) - len(spelt):]:
        return "the first labels of the target are missing"
    if spelt == targets[::-1]:
        return "the labels stand in reverse order"
    return "it spells another target"


_CTC_WORDS = {
    "that begin with a blank": lambda w: w.symbols[0] == w.problem.blank,
    "that begin with a label": lambda w: w.symbols[0] != w.problem.blank,
    "that end in a blank": lambda w: w.symbols[-1] == w.problem.blank,
    "that end in a label": lambda w: w.symbols[-1] != w.problem.blank,
    "in which a label follows another without a blank between them":
        lambda w: any(i != k and w.problem.blank not in (i, k) for i, k in itertools.pairwise(w.symbols)),
    "in which a label 0 follows another label without a blank between them":
        lambda w: any(i != k == 0 and w.problem.blank not in (i, k) for i, k in itertools.pairwise(w.symbols)),
    "with a blank between two labels": lambda w: any(k == w.problem.blank for k in _inside(w)),
    "with a label that lasts more than one frame":
        lambda w: any(i == k != w.problem.blank for i, k in itertools.pairwise(w.symbols)),
    "with a blank that lasts more than one frame":
        lambda w: any(i == k == w.problem.blank for i, k in itertools.pairwise(w.symbols)),
    "of targets with equal neighbours": lambda w: any(i == k for i, k in itertools.pairwise(w.problem.targets)),
    "of an empty target": lambda w: not len(w.problem.targets),
    "of a target": lambda w: bool(len(w.problem.targets)),
    "in as many frames as the target has labels": lambda w: len(w.symbols) == len(w.problem.targets),
    "in one frame": lambda w: len(w.symbols) == 1,
    "in more than one frame": lambda w: len(w.symbols) > 1,
    "with a blank that is not 0": lambda w: w.problem.blank != 0,
    "with a label 0": lambda w: 0 in w.problem.targets,
}


def _inside(walk):
    labels = [t for t, k in enumerate(walk.symbols) if k != walk.problem.blank]
    return walk.symbols[labels[0]:labels[-1]] if labels else ()


# --- RNN-T ---


def _rnnt_walks() -> Iterator[_Walk]:
    """All alignments of up to three frames and two labels, and walks that other rules would count."""
    for blank, (a, b) in ((0, (1, 2)), (2, (1, 0))):
        for T, targets in itertools.product((1, 2, 3), ((), (a,), (a, b), (a, a))):
            U = len(targets)
            for places in itertools.combinations(range(T + U - 1), U):
                steps = tuple("y" if i in places else "∅" for i in range(T + U - 1)) + ("∅",)
                yield _rnnt_walk(T, targets, blank, steps, 1)
                for i in range(T + U):  # one symbol of an alignment is impossible: nothing is left
                    said = ("the last blank is impossible" if i == T + U - 1 else
                            "one of its labels is impossible" if steps[i] == "y" else "one of its blanks is impossible")
                    yield _rnnt_walk(T, targets, blank, steps, 0, said, without=i)
            for u in range(U):  # leaving the grid before the last row
                for places in itertools.combinations(range(T + u - 1), u):
                    steps = tuple("y" if i in places else "∅" for i in range(T + u - 1)) + ("∅",)
                    yield _rnnt_walk(T, targets, blank, steps, 0, "a blank leaves the grid before the last label")
            if 0 < U <= T:
                for places in itertools.combinations(range(T), U):
                    steps = tuple("y" if t in places else "∅" for t in range(T))
                    yield _rnnt_walk(T, targets, blank, steps, 0, "a label takes a frame", diagonal=True)
        yield _entered(blank, a)


def _rnnt_walk(T, targets, blank, steps, count, kind="", *, diagonal=False, without=None):
    """A walk through the grid; ``diagonal`` if a label takes a frame, ``without`` the step that is impossible."""
    U = len(targets)
    scores = np.full((T, U + 1, 3), _OFF)
    others = [next(k for k in range(3) if k not in (blank, *targets[u:u + 1])) for u in range(U + 1)]
    scores[:, np.arange(U + 1), others] = 0.0  # off the way no arc has any mass
    t = u = 0
    symbols = []
    for i, step in enumerate(steps):
        symbol = blank if step == "∅" else targets[u]
        symbols.append(symbol)
        scores[t, u] = _OFF
        scores[t, u, others[u] if i == without else symbol] = 0.0
        u += step == "y"
        t += step == "∅" or diagonal
        t = min(t, T - 1)
    problem = Problem("paths", "", scores, np.array(targets, dtype=np.int64), blank)
    return _Walk(problem, tuple(symbols), count, kind)


def _entered(blank, label):
    """One frame and one label, whose probability stands where its arc leads to."""
    scores = np.full((1, 2, 3), _OFF)
    scores[0, 0, next(k for k in range(3) if k not in (blank, label))] = 0.0
    scores[0, 1, [blank, label]] = 0.0  # a half each, so that the two steps have a quarter
    problem = Problem("paths", "", scores, np.array([label]), blank)
    return _Walk(problem, (label, blank), 0, "a label is read at the node that it enters")


_RNNT_WORDS = {
    "that begin with a label": lambda w: w.symbols[0] != w.problem.blank,
    "that begin with a blank": lambda w: w.symbols[0] == w.problem.blank,
    "with a label in the last frame": lambda w: len(w.symbols) > 1 and w.symbols[-2] != w.problem.blank,
    "without a label in the last frame": lambda w: len(w.symbols) < 2 or w.symbols[-2] == w.problem.blank,
    "with two labels in one frame":
        lambda w: any(w.problem.blank not in pair for pair in itertools.pairwise(w.symbols)),
    "with a frame without a label":
        lambda w: any(set(pair) == {w.problem.blank} for pair in itertools.pairwise(w.symbols)),
    "with a label after a blank":
        lambda w: any(i == w.problem.blank != k for i, k in itertools.pairwise(w.symbols)),
    "of targets with equal labels": lambda w: len(set(w.problem.targets.tolist())) < len(w.problem.targets),
    "of targets with two labels that differ": lambda w: len(set(w.problem.targets.tolist())) > 1,
    "of targets with more than one label": lambda w: len(w.problem.targets) > 1,
    "of an empty target": lambda w: not len(w.problem.targets),
    "of a target": lambda w: bool(len(w.problem.targets)),
    "in one frame": lambda w: len(w.problem.logits) == 1,
    "in more than one frame": lambda w: len(w.problem.logits) > 1,
    "with a blank that is not 0": lambda w: w.problem.blank != 0,
    "with a label 0": lambda w: 0 in w.problem.targets,
}


# --- both ---


def _in_common(those, others) -> str:
    """Words that hold for all of those walks and for none of the others; empty if there are none."""
    words = _CTC_WORDS if those[0].problem.loss == "ctc" else _RNNT_WORDS
    for said, holds in words.items():
        if all(holds(walk) for walk in those) and not any(holds(walk) for walk in others):
            return f" {said}"
    both = itertools.combinations(words.items(), 2)
    for (first, holds), (second, also) in both:
        if all(holds(w) and also(w) for w in those) and not any(holds(w) and also(w) for w in others):
            return f" {first}, {second}"
    return "" if others else " of any target"
