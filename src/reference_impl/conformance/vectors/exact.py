"""Right answers in 50 digits, for the vectors that the project ships, found in up to three ways that have to agree.

The explicit recursions give alpha and beta, the lattice engine the gradients, and where there are few enough alignments
both are compared with a sum over all of them. Needs mpmath. What a student is asked is answered in float64 instead.
"""

from __future__ import annotations

import mpmath
import numpy as np

from ... import ctc, rnnt
from ...lattice import arc_posteriors, enumerate_paths, forward
from ...semiring import COUNT, REAL
from ...topology import ctc_lattice, rnnt_lattice

__all__ = ["exact_answers"]

_DIGITS = 50
_SAME = mpmath.mpf(10) ** -40
#: Up to so many alignments are listed.
_FEW = 20_000


def exact_answers(problem) -> tuple[dict, int, list[str]]:
    """Answers for one utterance, correctly rounded; its number of alignments; the ways that agreed.

    Raises
    ------
    ArithmeticError
        If two ways do not agree to 40 digits.
    """
    with mpmath.workdps(_DIGITS):
        return _answers(problem)


def _answers(problem):
    module, builder = {"ctc": (ctc, ctc_lattice), "rnnt": (rnnt, rnnt_lattice)}[problem.loss]
    targets, blank = problem.targets, problem.blank
    y = _softmax(problem.logits)
    alpha = module.alpha(y, targets, blank=blank, semiring=REAL)
    beta = module.beta(y, targets, blank=blank, semiring=REAL)
    z = module.Z(y, targets, blank=blank, semiring=REAL)

    lattice = builder(targets, len(y), y.shape[-1], blank=blank)
    weights = lattice.arc_weights(y, REAL)
    used = lattice.occupancy(arc_posteriors(lattice, weights, REAL)) + mpmath.mpf(0)
    ways = ["recursion", "lattice"]
    _agree(problem, z, forward(lattice, weights, REAL)[-1])
    # also every frame's alpha times beta, or that of the first node, is Z
    _agree(problem, z, (alpha * beta)[0].sum() if problem.loss == "ctc" else beta[0, 0])
    count = int(forward(lattice, lattice.arc_weights(_log(y), COUNT), COUNT)[-1])
    if count <= _FEW:
        ways.append("enumeration")
        mass, uses = _enumerated(lattice, weights)
        _agree(problem, z, mass)
        for ours, theirs in zip(used.ravel(), uses.ravel(), strict=True):
            _agree(problem, ours * z, theirs)

    labels = np.zeros(used.shape, dtype=bool)
    if problem.fastemit_lambda:
        labels[:, np.arange(len(targets)), targets] = True
    used = np.where(labels, used * (1 + mpmath.mpf(problem.fastemit_lambda)), used)
    return {
        "log_probs": _floats(_log(y)), "loss": float(-mpmath.log(z)) if z else float("inf"),
        "grad_log_probs": _floats(-used), "grad_logits": _floats(y * used.sum(-1, keepdims=True) - used),
        "log_alpha": _floats(_log(alpha)), "log_beta": _floats(_log(beta)),
    }, count, ways


def _softmax(logits):
    """Probabilities (..., V) as numbers of 50 digits; a row of nothing but -inf has none."""
    peak = np.maximum(logits.max(-1, keepdims=True), -1e300)
    e = np.vectorize(lambda x: mpmath.exp(mpmath.mpf(float(x))), otypes=[object])(logits - peak)
    mass = e.sum(-1, keepdims=True)
    return e / np.where(mass == 0, mpmath.mpf(1), mass)


def _log(numbers):
    return np.vectorize(lambda x: mpmath.log(x) if x else mpmath.mpf("-inf"), otypes=[object])(numbers)


def _floats(numbers):
    return np.vectorize(float, otypes=[float])(numbers) + 0.0


def _enumerated(lattice, weights):
    """The mass of all paths, and of those through each entry, one path after the other."""
    mass, uses = mpmath.mpf(0), np.full(lattice.shape, mpmath.mpf(0), dtype=object)
    for path in enumerate_paths(lattice):
        weight = mpmath.fprod(weights[i] for i in path)
        mass += weight
        for i in path:
            if lattice.arcs[i].entry is not None:
                uses[lattice.arcs[i].entry] += weight
    return mass, uses


def _agree(problem, one, other):
    if abs(one - other) > _SAME * max(abs(one), abs(other)):
        raise ArithmeticError(f"{problem.id}: {one} and {other} should be the same")
