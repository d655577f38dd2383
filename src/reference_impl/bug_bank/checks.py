"""The named checks of the bug bank: each tries a loss and its gradient on one kind of input. They know no bug.

Most checks need nothing but the loss itself: its own values, differenced, or a property that every CTC or RNN-T
gradient has. Those whose names say "reference" or "path sum" compare with this package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .. import ctc, rnnt
from .._softmax import log_softmax
from .._validation import check_lengths
from ..differences import GradientMismatch, check_gradient
from ..lattice import enumerate_paths
from ..semiring import LOG
from ..topology import ctc_lattice, rnnt_lattice

__all__ = ["CHECKS", "RIGHT", "Candidate", "Check", "over_batch"]


@dataclass(frozen=True)
class Candidate:
    """A loss under test.

    Parameters
    ----------
    loss : "ctc" | "rnnt"
    variable : "logits" | "log_probs"
        What the gradient is taken with respect to; log-probs need not be normalised.
    function : callable
        ``function(scores, targets, logit_lengths, target_lengths, *, blank=0) -> losses, backward``.
    tolerance : float
        How far off a right result may be: the default suits float64; take 1e-5 for a loss that computes in float32.
    """

    loss: str
    variable: str
    function: Callable
    tolerance: float = field(default=1e-9, kw_only=True)

    def __call__(self, scores, targets, *, blank=0):
        """Loss and gradient of one utterance without padding."""
        targets = np.asarray(targets, dtype=np.int64)
        losses, backward = self.function(scores[None], targets[None], np.array([len(scores)]),
                                         np.array([len(targets)]), blank=blank)
        return losses[0], backward(np.ones(1))[0]

    def gradient(self, scores, targets, *, blank=0):
        """The gradient alone, of one utterance: what :func:`reference_impl.diagnosis.diagnose` takes."""
        return self(scores, targets, blank=blank)[1]


def over_batch(one, loss):
    """A candidate's function, made from ``one(scores, targets, blank) -> (loss, gradient)`` for one utterance."""
    def function(scores, targets, logit_lengths, target_lengths, *, blank=0):
        check_lengths(logit_lengths, target_lengths, scores.shape[1], targets.shape[1], int(loss == "rnnt"))
        losses, gradient = np.zeros(len(scores)), np.zeros_like(scores)
        for b, (T, U) in enumerate(zip(logit_lengths, target_lengths, strict=True)):
            used = (b, slice(T)) if loss == "ctc" else (b, slice(T), slice(U + 1))
            losses[b], gradient[used] = one(scores[used], targets[b, :U], blank)

        def backward(upstream):
            scale = upstream.reshape(-1, *[1] * (gradient.ndim - 1))
            return np.multiply(gradient, scale, out=np.zeros_like(gradient), where=gradient != 0)

        return losses, backward

    return function


def _right(loss, variable):
    module = {"ctc": ctc, "rnnt": rnnt}[loss]

    def one(scores, targets, blank):
        if variable == "log_probs":
            return module.loss(scores, targets, blank=blank), module.grad_log_probs(scores, targets, blank=blank)
        return module.loss(log_softmax(scores), targets, blank=blank), module.grad_logits(scores, targets, blank=blank)

    return Candidate(loss, variable, over_batch(one, loss))


#: The right code, one candidate for each loss and variable.
RIGHT = tuple(_right(loss, variable) for loss in ("ctc", "rnnt") for variable in ("logits", "log_probs"))


@dataclass(frozen=True)
class Check:
    """A named check; ``applies`` and ``passes`` are asked about a :class:`Candidate`."""

    name: str
    applies: Callable[[Candidate], bool]
    passes: Callable[[Candidate], bool]

    def kills(self, candidate: Candidate) -> bool:
        """Whether the check applies and fails; to raise an error where an answer is due is to fail."""
        if not self.applies(candidate):
            return False
        try:
            with np.errstate(all="ignore"):
                return not self.passes(candidate)
        except (ArithmeticError, LookupError, RuntimeError, ValueError):
            return True


_CHECKS: list[Check] = []


def _check(name, loss=None, variable=None):
    def register(passes):
        _CHECKS.append(Check(name, lambda c: loss in (None, c.loss) and variable in (None, c.variable), passes))
        return passes
    return register


def _scores(candidate, T, U, V, *, seed=0):
    return np.random.default_rng(seed).normal(size=(T, V) if candidate.loss == "ctc" else (T, U + 1, V))


def _reference(candidate):
    return next(r for r in RIGHT if (r.loss, r.variable) == (candidate.loss, candidate.variable))


def _close(candidate, a, b, *, least=0.0):
    """To within the candidate's tolerance, or a larger one; a NaN is close to nothing."""
    tolerance = max(candidate.tolerance, least)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance))


def _agree(candidate, first, second):
    """Whether two (loss, gradient) pairs are the same."""
    return _close(candidate, first[0], second[0]) and _close(candidate, first[1], second[1])


def _matches_own_differences(candidate, T, targets, V, *, blank=0):
    """Along random directions, each of which sees every entry at once."""
    scores = _scores(candidate, T, len(targets), V)
    gradient = candidate(scores, targets, blank=blank)[1]
    for direction in np.random.default_rng(1).normal(size=(3, *scores.shape)):
        slope = np.array([(gradient * direction).sum()])
        try:
            check_gradient(lambda step, d=direction: float(candidate(scores + step[0] * d, targets, blank=blank)[0]),
                           slope, np.zeros(1), h=1e-3, noise=candidate.tolerance / 10)
        except GradientMismatch:
            return False
    return True


@_check("finite differences, one random case")
def _(candidate):
    return _matches_own_differences(candidate, 3, [1, 2], 4)


@_check("finite differences, repeated labels")
def _(candidate):
    return _matches_own_differences(candidate, 5, [1, 1, 2], 3)


@_check("finite differences, blank not 0")
def _(candidate):
    return _matches_own_differences(candidate, 3, [0, 2], 4, blank=1)


@_check("symmetric Jacobian")
def _(candidate):
    """A gradient's Jacobian is a Hessian. This needs no loss at all."""
    scores, targets, h = _scores(candidate, 3, 2, 4), [1, 2], np.cbrt(candidate.tolerance)
    v, w = np.random.default_rng(1).normal(size=(2, *scores.shape))

    def bend(along):
        return (candidate(scores + h * along, targets)[1] - candidate(scores - h * along, targets)[1]) / (2 * h)

    return _close(candidate, (bend(v) * w).sum(), (bend(w) * v).sum(), least=10 * h**2)


@_check("sums to 0 over V", variable="logits")
def _(candidate):
    return _close(candidate, candidate(_scores(candidate, 6, 3, 4), [1, 2, 2])[1].sum(-1), 0.0)


@_check("mass 1 in each frame or anti-diagonal", variable="log_probs")
def _(candidate):
    node = -candidate(_scores(candidate, 6, 3, 4), [1, 2, 2])[1].sum(-1)
    if candidate.loss == "ctc":
        return _close(candidate, node, 1.0)
    return all(_close(candidate, np.trace(node[:, ::-1], offset), 1.0) for offset in range(-5, 4))


@_check("a constant added to a row changes nothing", variable="logits")
def _(candidate):
    scores = _scores(candidate, 3, 2, 4)
    moved = scores + 2000.0 * np.random.default_rng(1).normal(size=scores.shape[:-1])[..., None]
    return _agree(candidate, candidate(scores, [1, 2]), candidate(moved, [1, 2]))


@_check("symbols renamed")
def _(candidate):
    scores, order = _scores(candidate, 3, 2, 4), np.array([2, 3, 0, 1])  # new symbol k was order[k]
    loss, gradient = candidate(scores, [1, 2])
    renamed = candidate(scores[..., order], np.argsort(order)[[1, 2]], blank=2)
    return _agree(candidate, (loss, gradient[..., order]), renamed)


@_check("time reversed", loss="ctc")
def _(candidate):
    scores = _scores(candidate, 4, 3, 4)
    loss, gradient = candidate(scores, [1, 1, 2])
    loss_reversed, reversed_gradient = candidate(scores[::-1].copy(), [2, 1, 1])
    return _agree(candidate, (loss, gradient), (loss_reversed, reversed_gradient[::-1]))


@_check("loss is the path sum, every small target")
def _(candidate):
    for U in range(3):
        for targets, T in itertools.product(itertools.product([1, 2], repeat=U), [1, 2, 3]):
            scores = _scores(candidate, T, U, 3)
            log_probs = log_softmax(scores) if candidate.variable == "logits" else scores
            lattice = {"ctc": ctc_lattice, "rnnt": rnnt_lattice}[candidate.loss](targets, T, 3)
            weights = lattice.arc_weights(log_probs)
            log_z = LOG.sum(LOG.product(weights[i] for i in path) for path in enumerate_paths(lattice))
            if not _close(candidate, candidate(scores, targets)[0], -log_z):
                return False
    return True


@_check("against the reference, one random case")
def _(candidate):
    scores = _scores(candidate, 4, 3, 5)
    return _agree(candidate, candidate(scores, [1, 2, 1]), _reference(candidate)(scores, [1, 2, 1]))


@_check("many labels, against the reference")
def _(candidate):
    """Twelve of them: what was written for a few may have a limit."""
    scores, targets = _scores(candidate, 16, 12, 4), [1, 2, 3, 2, 2, 1] * 2
    return _agree(candidate, candidate(scores, targets), _reference(candidate)(scores, targets))


@_check("through log_softmax, against the reference", variable="log_probs")
def _(candidate):
    logits = _scores(candidate, 4, 3, 5)
    gradient = candidate(log_softmax(logits), [1, 2, 1])[1]
    pulled_back = gradient - np.exp(log_softmax(logits)) * gradient.sum(-1, keepdims=True)
    module = {"ctc": ctc, "rnnt": rnnt}[candidate.loss]
    return _close(candidate, pulled_back, module.grad_logits(logits, [1, 2, 1]))


def _ragged(candidate, padding):
    """A batch of three ragged utterances, filled up with ``padding``; also each utterance alone."""
    utterances = [(3, [1, 2]), (5, [3]), (4, [2, 1, 3])]
    alone = [(_scores(candidate, T, len(labels), 4, seed=T), labels) for T, labels in utterances]
    scores = np.full((3, 5, 4) if candidate.loss == "ctc" else (3, 5, 4, 4), padding)
    targets = np.ones((3, 3), dtype=np.int64)
    for b, (used, labels) in enumerate(alone):
        scores[(b, *map(slice, used.shape))] = used
        targets[b, :len(labels)] = labels
    losses, backward = candidate.function(scores, targets, np.array([3, 5, 4]), np.array([2, 1, 3]))
    return losses, backward(np.ones(3)), alone


@_check("ragged batch, each utterance as if alone")
def _(candidate):
    losses, gradient, alone = _ragged(candidate, padding=0.5)
    expected = np.zeros_like(gradient)
    for b, (used, labels) in enumerate(alone):
        loss, expected[(b, *map(slice, used.shape))] = candidate(used, labels)
        if not _close(candidate, losses[b], loss):
            return False
    return _close(candidate, gradient, expected)


@_check("NaN in the padding")
def _(candidate):
    losses, gradient, _ = _ragged(candidate, padding=np.nan)
    return bool(np.isfinite(losses).all() and np.isfinite(gradient).all())


def _impossible(candidate, upstream):
    """Three different labels in a lattice without any alignment: too few frames, or a masked last blank."""
    scores = _scores(candidate, 2, 3, 4)
    if candidate.loss == "rnnt":
        scores[-1, -1, 0] = -np.inf
    losses, backward = candidate.function(scores[None], np.array([[1, 2, 3]]), np.array([2]), np.array([3]))
    return bool(losses[0] == np.inf and (backward(np.array([upstream])) == 0).all())


@_check("a batch of empty targets")
def _(candidate):
    """Only the blanks remain: each frame's, or those of the one row."""
    scores = np.stack([_scores(candidate, 3, 0, 4, seed=seed) for seed in range(2)])
    losses, backward = candidate.function(scores, np.zeros((2, 0), dtype=np.int64), np.array([3, 2]), np.zeros(2, int))
    log_probs = log_softmax(scores) if candidate.variable == "logits" else scores
    blanks = log_probs[..., 0].reshape(2, 3)
    expected = np.where(np.arange(3) < np.array([[3], [2]]), -blanks, 0.0).sum(1)
    return _close(candidate, losses, expected) and bool(np.isfinite(backward(np.ones(2))).all())


@_check("no frames: loss 0 or inf", loss="ctc")
def _(candidate):
    """The empty string spells the empty target, with probability 1, and no other."""
    return candidate(np.zeros((0, 3)), [])[0] == 0.0 and candidate(np.zeros((0, 3)), [1])[0] == np.inf


@_check("no alignment: loss inf, gradient 0")
def _(candidate):
    return _impossible(candidate, 1.0)


@_check("no alignment, upstream gradient inf")
def _(candidate):
    return _impossible(candidate, np.inf)


@_check("-inf masks act like very low scores")
def _(candidate):
    masked = _scores(candidate, 4, 2, 4)
    masked[1, ..., 2] = masked[2, ..., 3] = -np.inf
    return _agree(candidate, candidate(masked, [1, 2]), candidate(np.maximum(masked, -500.0), [1, 2]))


@_check("confident frames, against the reference")
def _(candidate):
    """Probabilities that are exactly 1 in floating point, along one right alignment."""
    scores = np.full(_scores(candidate, 4, 2, 3).shape, -800.0)
    path = ([(0, 1), (1, 0), (2, 2), (3, 0)] if candidate.loss == "ctc" else
            [(0, 0, 1), (0, 1, 0), (1, 1, 0), (2, 1, 2), (2, 2, 0), (3, 2, 0)])
    for entry in path:
        scores[entry] = 0.0
    return _agree(candidate, candidate(scores, [1, 2]), _reference(candidate)(scores, [1, 2]))


@_check("certain of the label, not of its frame, against the reference", loss="rnnt")
def _(candidate):
    """Two alignments of probability 1/2 each, but for the last blank: a loss of 6e-6, and a gradient as small.

    From alpha, log Z is log 1 minus the loss, from beta log 1/2 minus the loss plus log 2. Near log 1/2 floats of 32
    bits lie 2**-24 apart, and the loss is a hundred and a half of that: so in float32 the two differ by 2**-25.
    """
    scores = np.full((2, 2, 3), -800.0)
    for entry in [(0, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0)]:
        scores[entry] = 0.0
    scores[1, 1, 2] = np.log(np.expm1(100.5 * 2.0**-24))
    return _agree(candidate, candidate(scores, [1]), _reference(candidate)(scores, [1]))


@_check("log Z below -10000, against the reference")
def _(candidate):
    """As long utterances have, but in few frames, since another symbol takes the mass. float32 is off by 1e-3 here."""
    scores = _scores(candidate, 150, 2, 4)
    scores[..., 3] += 75.0
    scores = log_softmax(scores)
    loss, gradient = candidate(scores, [1, 2])
    expected = _reference(candidate)(scores, [1, 2])
    return (expected[0] > 1e4 and _close(candidate, loss / expected[0], 1.0, least=1e-6)
            and _close(candidate, gradient, expected[1], least=1e-6))


@_check("second backward equals the first")
def _(candidate):
    scores, half = _scores(candidate, 3, 2, 4), np.array([0.5])
    _, backward = candidate.function(scores[None], np.array([[1, 2]]), np.array([3]), np.array([2]))
    first = backward(half).copy()
    return _close(candidate, first, backward(half))


@_check("a gradient stays what it was when backward runs again")
def _(candidate):
    """Its owner keeps it; nobody else may write there."""
    scores = _scores(candidate, 3, 2, 4)[None]
    _, backward = candidate.function(scores, np.array([[1, 2]]), np.array([3]), np.array([2]))
    first = backward(np.array([0.5]))
    before = first.copy()
    backward(np.array([2.0]))
    return bool((first == before).all())


@_check("linear in the upstream gradient")
def _(candidate):
    def gradient(upstream):
        scores = _scores(candidate, 3, 2, 4)[None]
        return candidate.function(scores, np.array([[1, 2]]), np.array([3]), np.array([2]))[1](np.array([upstream]))
    return _close(candidate, gradient(-3.0), -3.0 * gradient(1.0))


@_check("arguments are left as they were")
def _(candidate):
    scores = _scores(candidate, 3, 2, 4)
    before = scores.copy()
    candidate(scores, [1, 2])
    return bool((scores == before).all())


def _refuses(candidate, targets):
    try:
        candidate(_scores(candidate, 3, 2, 4), targets)
    except ValueError:
        return True
    return False


@_check("a target equal to blank is refused")
def _(candidate):
    return _refuses(candidate, [1, 0])


@_check("a label outside [0, V) is refused")
def _(candidate):
    return _refuses(candidate, [1, 4]) and _refuses(candidate, [-1, 1])


@_check("a length outside its axis is refused")
def _(candidate):
    scores, targets = _scores(candidate, 3, 2, 4)[None], np.array([[1, 2]])
    for T, U in [(4, 2), (-1, 2), (3, 3), (3, -1)]:
        try:
            candidate.function(scores, targets, np.array([T]), np.array([U]))
        except ValueError:
            continue
        return False
    return True


@_check("a NaN is not swallowed")
def _(candidate):
    scores = _scores(candidate, 3, 2, 4)
    scores[(1, *[0] * (scores.ndim - 1))] = np.nan
    try:
        return bool(np.isnan(candidate(scores, [1, 2])[0]))
    except ValueError:
        return True


#: All checks, in the order of the matrix.
CHECKS = tuple(_CHECKS)
