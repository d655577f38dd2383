"""What a loss is asked about to be graded: the test vectors, and what they cannot ask. It knows no right answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .problem import Problem
from .vectors.document import TOLERANCES
from .vectors.problems import GROUPS as VECTOR_GROUPS
from .vectors.problems import problems

__all__ = ["AFTERWARDS", "GROUPS", "LENGTHS", "Case", "cases"]

#: Frames of the long utterances, by the loss; an RNN-T target has a third of them as labels, CTC's a fifth.
LENGTHS = {"ctc": (10, 100, 300), "rnnt": (10, 30, 60)}
#: The group that has no cases of its own: what every case leaves behind, whether its numbers are right or not.
AFTERWARDS = "afterwards"
#: What the cases of a group are there for, in the order of a report.
GROUPS = {
    **VECTOR_GROUPS,
    "accuracy": "Longer utterances, in each precision.",
    "upstream": "Upstream gradients that differ, are negative, 0, or inf where no alignment exists.",
    AFTERWARDS: "After any case: scores and targets are unchanged, and a second backward pass returns the same "
                "gradient, in memory of its own.",
    "bad input": "Invalid labels and lengths, NaN and inf. The right answer is an error, or NaN in that utterance "
                 "alone.",
}
#: The distance from 1 to the next number.
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
#: The seed of the public test vectors.
_SEED = 20061


@dataclass(frozen=True)
class Case:
    """A problem, the precision in which it is asked, and what is allowed.

    ``refusal``: an error is the right answer, and so is a NaN for the utterances in ``bad``; ``may_refuse``: it is as
    good as the right numbers. ``loss`` and ``gradient`` are what an answer may be off by: relative, and absolute.
    """

    problem: Problem
    precision: str
    loss: float
    gradient: float
    refusal: bool = False
    bad: tuple[int, ...] = ()
    may_refuse: bool = False

    @property
    def id(self):
        return self.problem.id

    @property
    def group(self):
        return self.problem.group


def cases(kind, precisions=("float64",), *, seed=_SEED) -> list[Case]:
    """All cases of a loss: the test vectors in the first precision, long utterances in every one.

    Examples
    --------
    >>> found = cases("rnnt")
    >>> found[0].id, found[-1].id
    ('labels/one-label', 'bad input/T-above-its-axis')
    """
    first = precisions[0]
    found = [_case(problem, first) for problem in problems(kind, np.random.default_rng(seed))]
    found += [_case(problem, first) for problem in
              (_many_labels(kind), _far_label(kind), *_more_labels(kind), _label_zero(kind), *_rows_apart(kind),
               *_certain(kind))]
    if kind == "ctc":
        found += [_case(problem, first, may_refuse=True) for problem in _no_frames()]
    found.append(_case(_Batch(kind)("batch", "as-long-as-its-axes"), first))
    found += [_long(kind, T, precision) for precision in precisions for T in LENGTHS[kind]]
    found += [_case(problem, first) for problem in _upstream(kind)]
    return found + [_case(problem, first, refusal=True, bad=bad) for problem, bad in _bad(kind)]


def _case(problem, precision, **more):
    allowed = TOLERANCES["float64" if precision == "float64" else "float32"]
    coarser = _EPS[precision] / _EPS["float32"] if precision in ("float16", "bfloat16") else 1.0
    return Case(problem, precision, min(coarser * allowed["loss"]["relative"], 0.1),
                min(coarser * allowed["grad_logits"]["absolute"], 0.1), **more)


def _many_labels(kind):
    """Twelve of them: what was written for a few may have a limit."""
    shape = (16, 4) if kind == "ctc" else (16, 13, 4)
    return Problem("labels", "twelve-labels", np.round(64 * np.random.default_rng(12).normal(size=shape)) / 64,
                   np.array([1, 2, 3, 2, 2, 1] * 2))


def _far_label(kind):
    """A label that takes more than a byte, in a vocabulary that has it."""
    shape = (3, 310) if kind == "ctc" else (3, 3, 310)
    return Problem("labels", "label-300", np.round(64 * np.random.default_rng(15).normal(size=shape)) / 64,
                   np.array([300, 44]))


def _more_labels(kind):
    """In RNN-T a frame may have several labels, so that there may be more of them than frames; in CTC it may not."""
    if kind == "rnnt":
        yield Problem("labels", "more-labels-than-frames",
                      np.round(64 * np.random.default_rng(16).normal(size=(2, 5, 4))) / 64, np.array([1, 2, 2, 3]))


def _label_zero(kind):
    """A label 0 right after another label, where the blank is not 0, and no room for a blank between them."""
    shape = (2, 4) if kind == "ctc" else (2, 3, 4)
    return Problem("blank", "label-0-after-another", np.round(64 * np.random.default_rng(13).normal(size=shape)) / 64,
                   np.array([2, 0]), 3)


def _rows_apart(kind):
    """A constant in all scores of a frame, or of a node, changes nothing, however large it is."""
    scores = np.round(64 * np.random.default_rng(14).normal(size=(4, 4) if kind == "ctc" else (4, 3, 4))) / 64
    lifted = scores.copy()
    lifted[1] += 1000.0
    yield Problem("numerics", "one-frame-near-1000", lifted, np.array([1, 2]))
    lowered = scores.copy()
    lowered[2 if kind == "ctc" else (2, 1)] -= 1000.0
    yield Problem("numerics", "one-row-near-minus-1000", lowered, np.array([1, 2]))


def _certain(kind):
    """Probabilities that are 1 in floating point; in RNN-T also two alignments of 1/2 each, and a loss of 6e-6.

    There log Z from beta is log 1/2 plus log 2 minus the loss. Near log 1/2 floats of 32 bits lie 2**-24 apart, and the
    loss is a hundred and a half of that, so that in float32 the two log Z differ.
    """
    shape = (4, 3) if kind == "ctc" else (4, 3, 3)
    scores = np.full(shape, -800.0)
    for entry in ([(0, 1), (1, 0), (2, 2), (3, 0)] if kind == "ctc" else
                  [(0, 0, 1), (0, 1, 0), (1, 1, 0), (2, 1, 2), (2, 2, 0), (3, 2, 0)]):
        scores[entry] = 0.0
    yield Problem("numerics", "one-alignment-has-all", scores, np.array([1, 2]))
    if kind == "rnnt":
        scores = np.full((2, 2, 3), -800.0)
        for entry in [(0, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0)]:
            scores[entry] = 0.0
        scores[1, 1, 2] = np.log(np.expm1(100.5 * 2.0**-24))
        yield Problem("numerics", "certain-of-the-label-not-of-its-frame", scores, np.array([1]))


def _no_frames():
    """The empty string spells the empty target, with probability 1, and no other."""
    return [Problem("short", "no-frames-empty-target", np.zeros((0, 3)), np.array([], dtype=np.int64)),
            Problem("no alignment", "no-frames", np.zeros((0, 3)), np.array([1]))]


def _long(kind, T, precision):
    """The tolerance is what rounding alpha and beta, logarithms of the size of the loss, in every frame adds up to."""
    rng = np.random.default_rng(T)
    U, V = (T // 5, 8) if kind == "ctc" else (T // 3, 6)
    scores = rng.normal(size=(T, V) if kind == "ctc" else (T, U + 1, V))
    problem = Problem("accuracy", f"{precision}-{T}-frames", scores.astype(np.float32), rng.integers(1, V, U))
    steps = T if kind == "ctc" else T + U
    eps = _EPS[precision]
    allowed = 8 * eps * np.sqrt(steps) * steps * np.log(V)
    return Case(problem, precision, max(allowed, 8 * eps), max(allowed, 8 * eps))


class _Batch:
    """Draws batches of two utterances."""

    def __init__(self, kind):
        self.kind, self.rng = kind, np.random.default_rng(3)

    def __call__(self, group, name, sizes=((5, [1, 2]), (4, [3])), V=4, **more):
        T, U = max(T for T, _ in sizes), max(len(labels) for _, labels in sizes)
        shape = (len(sizes), T, V) if self.kind == "ctc" else (len(sizes), T, U + 1, V)
        targets = np.ones((len(sizes), U), dtype=np.int64)
        for b, (_, labels) in enumerate(sizes):
            targets[b, :len(labels)] = labels
        lengths = {"logit_lengths": np.array([T for T, _ in sizes]),
                   "target_lengths": np.array([len(labels) for _, labels in sizes])}
        return Problem(group, name, np.round(64 * self.rng.normal(size=shape)) / 64, targets, **{**lengths, **more})


def _upstream(kind):
    draw = _Batch(kind)
    impossible = draw("upstream", "inf-where-no-alignment-exists", ((2, [1, 2, 3]), (4, [3])),
                      upstream=np.array([np.inf, 1.0]))
    if kind == "rnnt":
        impossible.logits[0, 1, 3, 0] = -np.inf
    return [draw("upstream", "of-each-its-own", upstream=np.array([0.5, 3.0])),
            draw("upstream", "negative", upstream=np.array([-2.0, -0.25])),
            draw("upstream", "zero", upstream=np.array([0.0, 1.0])), impossible]


def _bad(kind):
    """Problems that are none, and which utterances are affected."""
    draw = _Batch(kind)

    def with_label(label, name):
        problem = draw("bad input", name)
        problem.targets[0, 1] = label
        return problem

    def with_score(score, name):
        problem = draw("bad input", name)
        problem.logits[(0, 1, *[0] * (problem.logits.ndim - 2))] = score
        return problem

    found = [with_label(4, "label-is-V"), with_label(-1, "label-is-minus-1"), with_label(0, "label-is-the-blank"),
             with_score(np.nan, "NaN"), with_score(np.inf, "inf")]
    alone = [replace(one, name=one.name.partition(",")[0] + "-alone") for each in found
             for _, one in each.utterances()[:1]]
    lengths = [draw("bad input", "U-above-its-axis", target_lengths=np.array([3, 1])),
               draw("bad input", "T-above-its-axis", logit_lengths=np.array([6, 4]))]
    return [(each, ()) for each in alone] + [(each, (0,)) for each in found + lengths]
