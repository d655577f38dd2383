"""Alpha and beta of one utterance, a row of states at a time: sums of paths or best paths. No alignment is read off.

The explicit recursions of :mod:`reference_impl.ctc` and ``rnnt`` define the same numbers, node by node. Here ``plus``
is the NumPy function that adds two log masses: ``np.logaddexp``, or ``np.maximum`` for best paths.
"""

from __future__ import annotations

import numpy as np

from .. import _validation
from ..ctc import extended_targets

__all__ = ["arriving", "ctc_alpha", "ctc_beta", "ctc_dead_frame", "ctc_problem", "leaving", "rnnt_alpha", "rnnt_beta",
           "rnnt_dead_frame", "rnnt_problem", "skip_penalty"]


def ctc_problem(log_probs, targets, blank):
    """Checked arguments of CTC: the emissions (T, S) of all states, the extended targets (S,), the labels (U,)."""
    log_probs = _validation.check_log_probs("log_probs", log_probs, 2, "(T, V)")
    blank = _validation.check_blank(blank, log_probs.shape[1])
    targets = _validation.check_targets(targets, log_probs.shape[1], blank)
    _validation.check_frames_for(targets, len(log_probs))
    extended = extended_targets(targets, blank=blank)
    return log_probs[:, extended], extended, targets


def skip_penalty(extended) -> np.ndarray:
    """0 for a state that a path may enter from two states below, past a blank; else ``-inf``: (S,).

    Examples
    --------
    >>> skip_penalty(np.array([0, 3, 0, 3, 0, 5, 0])).tolist()
    [-inf, -inf, -inf, -inf, -inf, 0.0, -inf]
    """
    penalty = np.full(len(extended), -np.inf)
    penalty[2:][extended[2:] != extended[:-2]] = 0.0
    return penalty


def arriving(alpha, penalty) -> np.ndarray:
    """What comes to each state from the state itself, from one below and from two below: (3, ..., S)."""
    masses = np.full((3, *alpha.shape), -np.inf)
    masses[0] = alpha
    masses[1, ..., 1:] = alpha[..., :-1]
    masses[2, ..., 2:] = alpha[..., :-2] + penalty[2:]
    return masses


def leaving(beta, penalty) -> np.ndarray:
    """The transpose: what each state finds in the state itself, in one above and in two above: (3, ..., S)."""
    masses = np.full((3, *beta.shape), -np.inf)
    masses[0] = beta
    masses[1, ..., :-1] = beta[..., 1:]
    masses[2, ..., :-2] = beta[..., 2:] + penalty[2:]
    return masses


def ctc_alpha(emissions, penalty, plus=np.logaddexp, entries=2) -> np.ndarray:
    """Log alpha (T, S), the emission at t included; a path begins in one of the first ``entries`` states."""
    alpha = np.full(emissions.shape, -np.inf)
    alpha[:1, :entries] = emissions[:1, :entries]
    for t in range(1, len(alpha)):
        alpha[t] = plus.reduce(arriving(alpha[t - 1], penalty)) + emissions[t]
    return alpha


def ctc_beta(emissions, penalty) -> np.ndarray:
    """Log beta (T, S), the emission at t excluded."""
    T, S = emissions.shape
    beta = np.full((T, S), -np.inf)
    beta[T - 1:, max(S - 2, 0):] = 0.0
    for t in reversed(range(T - 1)):
        beta[t] = np.logaddexp.reduce(leaving(emissions[t + 1] + beta[t + 1], penalty))
    return beta


def ctc_dead_frame(alpha) -> int:
    """Of a target without a path: the first frame after which no state is left that could be in time for the end."""
    T, S = alpha.shape
    t, s = np.indices(alpha.shape)
    return int(np.where(s >= S - 2 * (T - t), alpha, -np.inf).max(axis=1).argmin())


def rnnt_problem(log_probs, targets, blank):
    """Checked arguments of RNN-T: log-weights of the blank arcs (T, U+1) and label arcs (T, U); the labels (U,)."""
    log_probs = _validation.check_log_probs("log_probs", log_probs, 3, "(T, U+1, V)")
    _validation.check_at_least("T", log_probs.shape[0], 1)
    blank = _validation.check_blank(blank, log_probs.shape[2])
    targets = _validation.check_targets(targets, log_probs.shape[2], blank)
    _validation.check_rows("log_probs", log_probs.shape[1], len(targets))
    return log_probs[:, :, blank], log_probs[:, np.arange(len(targets)), targets], targets


def _diagonals(T, rows):
    """The nodes (t, u) of each anti-diagonal, which depend only on the one before."""
    for n in range(T + rows - 1):
        u = np.arange(max(0, n - T + 1), min(rows - 1, n) + 1)
        yield n - u, u


def rnnt_alpha(blanks, labels, plus=np.logaddexp) -> np.ndarray:
    """Log alpha (T, U+1), the step that leaves a node excluded."""
    T, rows = blanks.shape
    alpha = np.full((T + 1, rows + 1), -np.inf)  # node (t, u) at [t + 1, u + 1]: nothing arrives from the border
    by_blank, by_label = np.full((2, T, rows), -np.inf)
    by_blank[1:], by_label[:, 1:] = blanks[:-1], labels
    alpha[1, 1] = 0.0
    for t, u in list(_diagonals(T, rows))[1:]:
        alpha[t + 1, u + 1] = plus(alpha[t, u + 1] + by_blank[t, u], alpha[t + 1, u] + by_label[t, u])
    return alpha[1:, 1:]


def rnnt_dead_frame(alpha) -> int:
    """Of a target without a path: the last frame that any prefix reaches."""
    return int(np.flatnonzero((alpha > -np.inf).any(axis=1)).max())


def rnnt_beta(blanks, labels) -> np.ndarray:
    """Log beta (T, U+1), the step that leaves a node included; [0, 0] is log Z."""
    T, rows = blanks.shape
    beta = np.full((T + 1, rows + 1), -np.inf)
    beta[T, rows - 1] = 0.0  # the end, after the last blank
    by_label = np.full((T, rows), -np.inf)
    by_label[:, :-1] = labels
    for t, u in reversed(list(_diagonals(T, rows))):
        beta[t, u] = np.logaddexp(blanks[t, u] + beta[t + 1, u], by_label[t, u] + beta[t, u + 1])
    return beta[:-1, :-1]
