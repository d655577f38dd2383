"""What ports get wrong, by name: functions from one utterance to the wrong answer, for each field of the results.

CTC's mistakes are those of `ctc_mistakes.py`, which assignments ask about, too. RNN-T's are made by one recursion with
a place for each thing that can go wrong in it. Gradients that none of them explains are taken apart by
`diagnosis`, term by term.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import rnnt
from ..._softmax import log_softmax
from ...semiring import REAL
from .. import ctc_mistakes
from ..problem import LOSSES

__all__ = ["LENGTHS", "PADDING", "mistakes_of"]

#: Mistakes that a batch makes possible; whoever compares batches computes them.
PADDING = "It is right except in the padding, where the gradient should be 0."
LENGTHS = "The lengths are ignored: padded frames take part."


def mistakes_of(loss, field) -> dict:
    """Functions of a problem of one utterance, by the sentence that names the mistake."""
    found = dict(_OF_BOTH.get(field, {}))
    if loss == "ctc":
        return found | {name: _of_a_problem(field, mistake) for name, mistake in _CTC.get(field, {}).items()}
    return found | _RNNT.get(field, {})


# --- both losses ---


def _right(field, problem, log_probs=None, blank=None):
    module, blank = LOSSES[problem.loss], problem.blank if blank is None else blank
    if field == "grad_logits":
        return module.grad_logits(problem.logits, problem.targets, blank=blank)
    scores = log_softmax(problem.logits) if log_probs is None else log_probs
    return getattr(module, field)(scores, problem.targets, blank=blank)


def _unnormalised(field):
    """The field for logits that are taken for log-probs."""
    name = "grad_log_probs" if field == "grad_logits" else field
    return lambda problem: _right(name, problem, problem.logits)


def _over_frames(problem):
    if not np.isfinite(problem.logits).all():
        raise ValueError("it would be NaN, which says nothing")
    with np.errstate(all="ignore"):
        return problem.logits - np.logaddexp.reduce(problem.logits, axis=0, keepdims=True)


def _underflowing(problem):
    module, y = LOSSES[problem.loss], np.exp(log_softmax(problem.logits))
    return -np.log(float(module.Z(y, problem.targets, blank=problem.blank, semiring=REAL)))


def _overflowing(field, problem):
    """NaN where exp of a logit is inf; elsewhere nothing is wrong."""
    if problem.logits.max() < 709:
        raise ValueError("no logit is so large")
    return np.full(np.shape(problem.logits if field == "log_probs" else _right(field, problem)), np.nan)


def _blank_0(field, problem):
    if problem.blank == 0:
        raise ValueError("blank = 0; here that is no mistake")
    return _right(field, problem, blank=0)


def _everywhere(field):
    """Mistakes that show in every field."""
    return {
        "The blank is taken to be symbol 0.": partial(_blank_0, field),
        "exp of a large logit overflows; subtract the largest of the row from all of them first.":
            partial(_overflowing, field),
    }


_NOT_NORMALISED = "The logits are taken for log-probs; a softmax is missing."
_OF_BOTH = {
    "log_probs": {
        "They are the logits; a softmax is missing.": lambda problem: problem.logits,
        "They are probabilities, not their logarithms.": lambda problem: np.exp(log_softmax(problem.logits)),
        "They are normalised over the frames, not over the symbols.": _over_frames,
        "They are logarithms to base 2; nats are asked for.": lambda problem: log_softmax(problem.logits) / np.log(2),
        "exp of a large logit overflows; subtract the largest of the row from all of them first.":
            partial(_overflowing, "log_probs"),
    },
    "loss": {
        "It is 0 where no alignment exists (zero_infinity); there it is inf.":
            lambda problem: np.nan_to_num(_right("loss", problem), posinf=0.0),
        _NOT_NORMALISED: _unnormalised("loss"),
        "It is in bits; nats are asked for.": lambda problem: _right("loss", problem) / np.log(2),
        "Its sign is wrong: the loss is minus log Z.": lambda problem: -_right("loss", problem),
        "It is the probability, not minus its logarithm.": lambda problem: np.exp(-_right("loss", problem)),
        "It adds up probabilities, which underflow to 0; add their logarithms (log-sum-exp).": _underflowing,
        **_everywhere("loss"),
    },
    "log_alpha": {_NOT_NORMALISED: _unnormalised("log_alpha"), **_everywhere("log_alpha")},
    "log_beta": {_NOT_NORMALISED: _unnormalised("log_beta"), **_everywhere("log_beta")},
    "grad_log_probs": {
        "It is the gradient with respect to the logits.": partial(_right, "grad_logits"),
        "Its sign is wrong: the loss is minus log Z.": lambda problem: -_right("grad_log_probs", problem),
        **_everywhere("grad_log_probs"),
    },
    "grad_logits": {
        "The softmax term is missing: it is the gradient with respect to the log-probs.":
            partial(_right, "grad_log_probs"),
        "Its sign is wrong.": lambda problem: -_right("grad_logits", problem),
        _NOT_NORMALISED: _unnormalised("grad_logits"),
        **_everywhere("grad_logits"),
    },
}


# --- CTC ---

_CTC = {
    "log_alpha": ctc_mistakes.LOG_ALPHA,
    "log_beta": ctc_mistakes.LOG_BETA,
    "loss": {**ctc_mistakes.LOSS, **ctc_mistakes.LOSS_FROM_BETA},
    "grad_log_probs": ctc_mistakes.GRAD_LOG_PROBS,
    "grad_logits": ctc_mistakes.GRAD_LOGITS,
}


def _of_a_problem(field, mistake):
    """A mistake of CTC as a function of a problem."""
    def answer(problem):
        scores = problem.logits if field == "grad_logits" else log_softmax(problem.logits)
        return mistake(scores, problem.targets, problem.blank)
    return answer


# --- RNN-T ---


def _sweeps(problem, *, final=True, every_row=False, entered=False, shift=0, blank_for_label=False, diagonal=False,
            add=np.logaddexp):
    """Alpha, beta, the weights of blank and label arcs, and Z, with a place for each thing that can go wrong."""
    log_probs, blank, targets = log_softmax(problem.logits), problem.blank, problem.targets
    T, rows = log_probs.shape[:2]
    U = rows - 1
    labels = np.full(U, blank) if blank_for_label else np.roll(targets, -shift)
    no_emit, emit = log_probs[..., blank].copy(), log_probs[:, np.arange(U), labels]
    if entered:  # the arc reads the distribution of the node that it leads to
        no_emit[:-1] = log_probs[1:, :, blank]
        emit = log_probs[:, np.arange(U) + 1, labels]
    down = int(diagonal)  # a label takes a frame, as in the monotonic RNN-T
    alpha, beta = np.full((2, T + 1, rows + 1), -np.inf)
    for t in range(T):
        for u in range(rows):
            arriving = 0.0 if t == u == 0 else -np.inf
            if t:
                arriving = add(arriving, alpha[t - 1, u] + no_emit[t - 1, u])
            if u and t >= down:
                arriving = add(arriving, alpha[t - down, u - 1] + emit[t - down, u - 1])
            alpha[t, u] = arriving
    beta[T, U] = 0.0
    if every_row:
        beta[T] = 0.0
    for t in reversed(range(T)):
        for u in reversed(range(rows)):
            last = t == T - 1 and u == U
            leaving = beta[t + 1, u] + (0.0 if last and not final else no_emit[t, u])
            if u < U:
                leaving = add(leaving, emit[t, u] + beta[t + down, u + 1])
            beta[t, u] = leaving
    return alpha[:T, :rows], beta, no_emit, emit, labels


def _alpha(problem, **wrong):
    return _sweeps(problem, **wrong)[0]


def _beta(problem, **wrong):
    return _sweeps(problem, **wrong)[1][:-1, :-1]


def _loss(problem, **wrong):
    return -_sweeps(problem, **wrong)[1][0, 0]


def _occupancy(problem, **wrong):
    """What the recursion gives if it is right about everything else: the gradient of the wrong loss."""
    alpha, beta, no_emit, emit, labels = _sweeps(problem, **wrong)
    log_z, used = beta[0, 0], np.zeros(problem.logits.shape)
    down = int(wrong.get("diagonal", False))
    if log_z == -np.inf:
        return used
    e_blank = np.exp(alpha + no_emit + beta[1:, :-1] - log_z)
    if not wrong.get("final", True):
        e_blank[-1, -1] = 0.0
    used[..., problem.blank] = e_blank
    used[:, np.arange(len(labels)), labels] += np.exp(
        alpha[:, :-1] + emit + beta[down:len(alpha) + down, 1:-1] - log_z)
    return used


def _to_logits(problem, used):
    return np.exp(log_softmax(problem.logits)) * used.sum(-1, keepdims=True) - used


def _emphasis(problem, *, blanks=False, softmax=True):
    """FastEmit's direction with the factor in the wrong places."""
    plain = rnnt.occupancy(log_softmax(problem.logits), problem.targets, blank=problem.blank)
    used = plain * (1 + problem.fastemit_lambda)
    if not blanks:
        used[..., problem.blank] = plain[..., problem.blank]
    node = (used if softmax else plain).sum(-1, keepdims=True)
    return np.exp(log_softmax(problem.logits)) * node - used


_LATTICES = {
    "The last blank is missing: a path leaves the grid by a blank at (T-1, U).": {"final": False},
    "An arc reads the distribution of the node that it leads to; it belongs to the node that it leaves.":
        {"entered": True},
    "It reads the label of another row: from row u the next label is targets[u].": {"shift": 1},
    "A label is weighed as a blank is.": {"blank_for_label": True},
    "A label takes a frame, as in the monotonic RNN-T; here it stays in the frame.": {"diagonal": True},
    "It takes the best way where it should add all of them (a maximum for a sum).": {"add": np.maximum},
    "Blanks leave the grid in every row of the last frame; only at u = U they may.": {"every_row": True},
}
_NO_ALPHA = ("final", "every_row")  # what alpha does not depend on
_RNNT = {
    "log_alpha": {
        **{name: partial(_alpha, **wrong) for name, wrong in _LATTICES.items() if not {*wrong} & {*_NO_ALPHA}},
        "Frames and rows are exchanged: the shape is (U+1, T).": lambda problem: _alpha(problem).T,
        "The node's own blank is in it; alpha is what arrives.":
            lambda problem: _alpha(problem) + log_softmax(problem.logits)[..., problem.blank],
        "It returns probabilities, not their logarithms.": lambda problem: np.exp(_alpha(problem)),
        "It is beta: the way from the end, not from the beginning.": _beta,
    },
    "log_beta": {
        **{name: partial(_beta, **wrong) for name, wrong in _LATTICES.items()},
        "Frames and rows are exchanged: the shape is (U+1, T).": lambda problem: _beta(problem).T,
        "It returns probabilities, not their logarithms.": lambda problem: np.exp(_beta(problem)),
        "It is alpha: the way from the beginning, not from the end.": _alpha,
    },
    "loss": {
        **{name: partial(_loss, **wrong) for name, wrong in _LATTICES.items()},
        "It is divided by the number of labels.":
            lambda problem: _right("loss", problem) / max(len(problem.targets), 1),
        "It is divided by the number of frames.": lambda problem: _right("loss", problem) / len(problem.logits),
    },
    "grad_log_probs": {
        **{name: lambda problem, wrong=wrong: -_occupancy(problem, **wrong) for name, wrong in _LATTICES.items()
           if "add" not in wrong},
        _NOT_NORMALISED: _unnormalised("grad_log_probs"),  # CTC's does not depend on it
        "FastEmit's lambda is ignored.": partial(_right, "grad_log_probs"),
        "FastEmit's factor is on the blanks, too; it belongs to the labels.":
            lambda problem: _right("grad_log_probs", problem) * (1 + problem.fastemit_lambda),
    },
    "grad_logits": {
        **{name: lambda problem, wrong=wrong: _to_logits(problem, _occupancy(problem, **wrong))
           for name, wrong in _LATTICES.items() if "add" not in wrong},
        "The softmax term is not multiplied by the node's occupancy, as in CTC, where that is 1.":
            lambda problem: np.exp(log_softmax(problem.logits)) - rnnt.occupancy(
                log_softmax(problem.logits), problem.targets, blank=problem.blank),
        "FastEmit's lambda is ignored.": partial(_right, "grad_logits"),
        "FastEmit's factor is on the blanks, too; it belongs to the labels.": partial(_emphasis, blanks=True),
        "FastEmit's factor is not in the softmax term; there the emphasised occupancies are added up.":
            partial(_emphasis, softmax=False),
    },
}
