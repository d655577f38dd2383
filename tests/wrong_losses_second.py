"""Twenty more wrong losses, each with one mistake and its cause in a sentence: test data, no test, and no right loss.

They were written from the equations, without a look at the mistakes that the kit knows. ``function(scores, targets, *,
blank)`` returns loss and gradient of one utterance in float64, and each writes the loss in a way of its own. Apart from
the mistake each is right on every legal input: masked entries, impossible and empty targets, and no frames for CTC.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["WRONG", "Loss"]


@dataclass(frozen=True)
class Loss:
    """A wrong loss, and what a grader should find.

    ``variable`` says what the scores are, and what the gradient is with respect to; any of the phrases ``says``, in a
    diagnosis in lower case, shows that it names the cause.
    """

    name: str
    kind: str
    variable: str
    function: Callable
    cause: str
    says: tuple[str, ...]


# CTC


def labels_scattered_without_adding(scores, targets, *, blank):
    """Blank states and label states in arrays of their own."""
    T, V = scores.shape
    U = len(targets)
    occupancy = np.zeros((T, V))
    if T == 0:
        return (np.inf if U else 0.0), occupancy
    peak = scores.max(axis=1, keepdims=True)
    shifted = scores - np.where(np.isneginf(peak), 0.0, peak)
    mass = np.exp(shifted).sum(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.where(mass > 0, mass, 1.0))
    on_blank = log_probs[:, blank]
    on_label = log_probs[:, targets]
    differs = np.ones(U, dtype=bool)
    differs[1:] = targets[1:] != targets[:-1]

    alpha_blank = np.full((T, U + 1), -np.inf)
    alpha_label = np.full((T, U), -np.inf)
    alpha_blank[0, 0] = on_blank[0]
    alpha_label[0, :1] = on_label[0, :1]
    for t in range(1, T):
        label_before = np.concatenate([[-np.inf], alpha_label[t - 1]])
        alpha_blank[t] = np.logaddexp(alpha_blank[t - 1], label_before) + on_blank[t]
        arriving = np.logaddexp(alpha_label[t - 1], alpha_blank[t - 1, :-1])
        skipping = np.where(differs, label_before[:-1], -np.inf)
        alpha_label[t] = np.logaddexp(arriving, skipping) + on_label[t]

    beta_blank = np.full((T, U + 1), -np.inf)
    beta_label = np.full((T, U), -np.inf)
    beta_blank[-1, -1] = 0.0
    beta_label[-1, -1:] = 0.0
    for t in range(T - 2, -1, -1):
        via_blank = beta_blank[t + 1] + on_blank[t + 1]
        via_label = beta_label[t + 1] + on_label[t + 1]
        beta_blank[t] = np.logaddexp(via_blank, np.append(via_label, -np.inf))
        skipping = np.append(np.where(differs, via_label, -np.inf)[1:], -np.inf)[:U]
        beta_label[t] = np.logaddexp(np.logaddexp(via_label, via_blank[1:]), skipping)

    log_z = np.logaddexp.reduce(np.concatenate([alpha_blank[-1, -1:], alpha_label[-1, -1:]]))
    if log_z == -np.inf:
        return np.inf, np.zeros((T, V))
    occupancy[:, blank] = np.exp(alpha_blank + beta_blank - log_z).sum(axis=1)
    occupancy[:, targets] += np.exp(alpha_label + beta_label - log_z)
    return -log_z, np.exp(log_probs) - occupancy


def first_scale_dropped(scores, targets, *, blank):
    """alpha and beta are normalised in each frame; the loss is the sum of what was divided out."""
    T, V = scores.shape
    if T == 0:
        return (np.inf if len(targets) else 0.0), np.zeros((T, V))
    peak = scores.max(axis=-1, keepdims=True)
    peak[peak == -np.inf] = 0.0
    mass = np.exp(scores - peak).sum(axis=-1, keepdims=True)
    log_probs = scores - peak - np.log(np.where(mass == 0, 1.0, mass))
    extended = np.full(2 * len(targets) + 1, blank)
    extended[1::2] = targets
    S = len(extended)
    emission = log_probs[:, extended]
    no_skip = np.full(S, -np.inf)
    no_skip[2:][extended[2:] != extended[:-2]] = 0.0
    infeasible = np.inf, np.zeros((T, V))

    def normalised(row):
        scale = np.logaddexp.reduce(row)
        return (row if scale == -np.inf else row - scale), scale

    def shifted(row, by):
        moved = np.full(S, -np.inf)
        if by > 0:
            moved[by:] = row[:-by]
        else:
            moved[:by] = row[-by:]
        return moved

    alpha = np.full((T, S), -np.inf)
    alpha[0, :2] = emission[0, :2]
    alpha[0], scale = normalised(alpha[0])
    log_likelihood = 0.0
    for t in range(1, T):
        row = np.logaddexp(alpha[t - 1], shifted(alpha[t - 1], 1))
        row = np.logaddexp(row, shifted(alpha[t - 1], 2) + no_skip if S > 1 else -np.inf)
        alpha[t], scale = normalised(row + emission[t])
        log_likelihood += scale
    log_likelihood += np.logaddexp.reduce(alpha[-1, -2:])
    if log_likelihood == -np.inf or np.isneginf(alpha[-1, -2:]).all():
        return infeasible

    beta = np.full((T, S), -np.inf)
    beta[-1, -2:] = 0.0
    for t in range(T - 2, -1, -1):
        following = beta[t + 1] + emission[t + 1]
        row = np.logaddexp(following, shifted(following, -1))
        row = np.logaddexp(row, shifted(following + no_skip, -2) if S > 1 else -np.inf)
        beta[t], _ = normalised(row)

    gamma = alpha + beta
    gamma = np.exp(gamma - np.logaddexp.reduce(gamma, axis=1, keepdims=True))
    occupancy = np.zeros((T, V))
    for s, symbol in enumerate(extended):
        occupancy[:, symbol] += gamma[:, s]
    return -log_likelihood, np.exp(log_probs) - occupancy


def length_check_counts_all_duplicates(scores, targets, *, blank):
    """An HMM with a matrix of transitions."""
    T, V = scores.shape
    labels = [int(label) for label in targets]
    repeats = len(labels) - len(set(labels))
    if T < len(labels) + repeats:
        return math.inf, np.zeros((T, V))
    if T == 0:
        return 0.0, np.zeros((T, V))
    with np.errstate(divide="ignore", invalid="ignore"):
        probs = np.exp(scores - scores.max(axis=1, keepdims=True))
        log_probs = scores - scores.max(axis=1, keepdims=True) - np.log(probs.sum(axis=1, keepdims=True))
    log_probs = np.where(np.isnan(log_probs), -np.inf, log_probs)

    states = [blank]
    for label in labels:
        states += [label, blank]
    S = len(states)
    transition = np.full((S, S), -np.inf)
    for s in range(S):
        transition[s, s] = 0.0
        if s + 1 < S:
            transition[s, s + 1] = 0.0
        if s + 2 < S and states[s + 2] not in (blank, states[s]):
            transition[s, s + 2] = 0.0
    initial = np.where(np.arange(S) < 2, 0.0, -np.inf)
    final = np.where(np.arange(S) >= S - 2, 0.0, -np.inf)

    observed = log_probs[:, states]
    forward = [initial + observed[0]]
    for t in range(1, T):
        forward.append(np.logaddexp.reduce(forward[-1][:, None] + transition, axis=0) + observed[t])
    backward = [final]
    for t in range(T - 1, 0, -1):
        backward.insert(0, np.logaddexp.reduce(transition + (observed[t] + backward[0])[None, :], axis=1))
    log_z = np.logaddexp.reduce(forward[-1] + final)
    if np.isneginf(log_z):
        return math.inf, np.zeros((T, V))
    posterior = np.exp(np.array(forward) + np.array(backward) - log_z)
    membership = np.zeros((S, V))
    membership[np.arange(S), states] = 1.0
    return -float(log_z), np.exp(log_probs) - posterior @ membership


def band_one_too_narrow(scores, targets, *, blank):
    """Loops over the states that can be on a path, and two rows of beta."""
    T, V = scores.shape
    U = len(targets)
    S = 2 * U + 1
    gradient = np.zeros((T, V))
    if T == 0:
        return (math.inf if U else 0.0), gradient
    labels = [blank if s % 2 == 0 else int(targets[s // 2]) for s in range(S)]
    alpha = np.full((T, S), -np.inf)
    alpha[0, 0] = scores[0, blank]
    if U > 0:
        alpha[0, 1] = scores[0, labels[1]]
    for t in range(1, T):
        start = max(0, S - 2 * (T - t))
        end = min(S, 2 * t + 1)
        for s in range(start, end):
            total = alpha[t - 1, s]
            if s >= 1:
                total = np.logaddexp(total, alpha[t - 1, s - 1])
            if s >= 3 and s % 2 == 1 and labels[s] != labels[s - 2]:
                total = np.logaddexp(total, alpha[t - 1, s - 2])
            alpha[t, s] = total + scores[t, labels[s]]
    log_z = alpha[T - 1, S - 1]
    if U > 0:
        log_z = np.logaddexp(log_z, alpha[T - 1, S - 2])
    if log_z == -np.inf:
        return math.inf, gradient

    beta = np.full(S + 2, -np.inf)
    beta[max(0, S - 2):S] = 0.0
    for t in range(T - 1, -1, -1):
        for s in range(S):
            gradient[t, labels[s]] -= np.exp(alpha[t, s] + beta[s] - log_z)
        leaving = np.full(S + 2, -np.inf)
        for s in range(S):
            leaving[s] = beta[s] + scores[t, labels[s]]
        beta = np.full(S + 2, -np.inf)
        for s in range(S):
            beta[s] = np.logaddexp(leaving[s], leaving[s + 1])
            if s % 2 == 1 and s + 2 < S and labels[s] != labels[s + 2]:
                beta[s] = np.logaddexp(beta[s], leaving[s + 2])
    return -float(log_z), gradient


def skip_reads_the_updated_row(scores, targets, *, blank):
    """One sweep for alpha, and again, on the utterance read backwards, for beta."""
    T, V = scores.shape
    if T == 0:
        return (np.inf if len(targets) else 0.0), np.zeros((T, V))
    extended = np.array([blank, *(symbol for label in targets for symbol in (label, blank))])

    def sweep(emission, symbols):
        skips = symbols[2:] != symbols[:-2]
        row = np.full(len(symbols), -np.inf)
        row[:2] = 0.0
        row += emission[0]
        rows = [row.copy()]
        for frame in emission[1:]:
            before = row
            row[1:] = np.logaddexp(row[1:], row[:-1])
            row[2:] = np.where(skips, np.logaddexp(row[2:], before[:-2]), row[2:])
            row += frame
            rows.append(row.copy())
        return np.array(rows)

    emission = scores[:, extended]
    alpha = sweep(emission, extended)
    beta = sweep(emission[::-1, ::-1], extended[::-1])[::-1, ::-1]
    log_z = np.logaddexp.reduce(alpha[-1, -2:])
    gradient = np.zeros((T, V))
    if log_z == -np.inf:
        return np.inf, gradient
    once = np.where(np.isneginf(emission), 0.0, emission)
    np.add.at(gradient.T, extended, -np.exp(alpha + beta - once - log_z).T)
    return -log_z, gradient


def divided_by_emission_once_more(scores, targets, *, blank):
    """The formulas of a paper, one by one."""
    T, V = scores.shape
    U = len(targets)
    if T == 0:
        return (np.inf if U else 0.0), np.zeros((T, V))
    highest = np.max(scores, axis=1)
    highest = np.where(np.isfinite(highest), highest, 0.0)[:, None]
    y = np.exp(scores - highest)
    normaliser = y.sum(axis=1, keepdims=True)
    normaliser[normaliser == 0] = 1.0
    y = y / normaliser
    log_y = scores - highest - np.log(normaliser)

    blanked = [blank] * (2 * U + 1)
    blanked[1::2] = targets.tolist()
    L = len(blanked)

    # alpha_t(s): the prefix, frame t with it
    log_alpha = np.full((T, L), -np.inf)
    for t in range(T):
        for s in range(L):
            if t == 0:
                inner = 0.0 if s <= 1 else -np.inf
            else:
                inner = np.logaddexp(log_alpha[t - 1, s], log_alpha[t - 1, s - 1] if s > 0 else -np.inf)
                if s > 1 and blanked[s] != blank and blanked[s - 2] != blanked[s]:
                    inner = np.logaddexp(inner, log_alpha[t - 1, s - 2])
            log_alpha[t, s] = inner + log_y[t, blanked[s]]

    # beta_t(s): the suffix from frame t + 1
    log_beta = np.full((T, L), -np.inf)
    for t in range(T - 1, -1, -1):
        for s in range(L - 1, -1, -1):
            if t == T - 1:
                log_beta[t, s] = 0.0 if s >= L - 2 else -np.inf
                continue
            inner = log_beta[t + 1, s] + log_y[t + 1, blanked[s]]
            if s + 1 < L:
                inner = np.logaddexp(inner, log_beta[t + 1, s + 1] + log_y[t + 1, blanked[s + 1]])
            if s + 2 < L and blanked[s] != blank and blanked[s + 2] != blanked[s]:
                inner = np.logaddexp(inner, log_beta[t + 1, s + 2] + log_y[t + 1, blanked[s + 2]])
            log_beta[t, s] = inner

    log_p = np.logaddexp.reduce(log_alpha[-1, -2:])
    if log_p == -np.inf:
        return np.inf, np.zeros((T, V))
    # sum over the places lab(k) of alpha beta, divided by y
    log_sums = np.full((T, V), -np.inf)
    for s, k in enumerate(blanked):
        log_sums[:, k] = np.logaddexp(log_sums[:, k], log_alpha[:, s] + log_beta[:, s])
    reached = log_sums > -np.inf
    log_sums[reached] -= log_y[reached]
    with np.errstate(over="ignore"):
        return -log_p, y - np.exp(log_sums - log_p)


def diagonal_of_the_softmax(scores, targets, *, blank):
    """Two columns of padding on the left for alpha, on the right for beta."""
    T, V = scores.shape
    S = 2 * len(targets) + 1
    if T == 0:
        return (np.inf if S > 1 else 0.0), np.zeros((T, V))
    top = np.maximum(scores.max(-1, keepdims=True), np.finfo(np.float64).min)
    with np.errstate(over="ignore"):
        raised = np.exp(scores - top)
        total = np.maximum(raised.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
        y, log_y = raised / total, scores - top - np.log(total)
    symbols = np.full(S, blank, dtype=np.intp)
    symbols[1::2] = targets
    emitted = log_y[:, symbols]
    jump = np.zeros(S + 2, dtype=bool)
    jump[2:S] = symbols[2:] != symbols[:-2]

    alpha = np.full((T, S + 2), -np.inf)
    alpha[0, 2:4] = emitted[0, :2]
    for t in range(1, T):
        row = alpha[t - 1]
        ways = [row[2:], row[1:-1], np.where(jump[:S], row[:-2], -np.inf)]
        alpha[t, 2:] = np.logaddexp.reduce(ways, axis=0) + emitted[t]
    beta = np.full((T, S + 2), -np.inf)
    beta[-1, max(S - 2, 0):S] = 0.0
    for t in reversed(range(T - 1)):
        row = beta[t + 1].copy()
        row[:S] += emitted[t + 1]
        ways = [row[:-2], row[1:-1], np.where(jump[2:], row[2:], -np.inf)]
        beta[t, :S] = np.logaddexp.reduce(ways, axis=0)

    log_z = np.logaddexp.reduce(alpha[-1, -2:])
    if np.isneginf(log_z):
        return np.inf, np.zeros((T, V))
    occupancy = np.zeros((T, V))
    np.add.at(occupancy, (slice(None), symbols), np.exp(alpha[:, 2:] + beta[:, :S] - log_z))
    # chain rule: d loss / d y = -occupancy / y, and d y / d logit = y (1 - y)
    return -log_z, -occupancy * (1.0 - y)


def target_collapsed(scores, targets, *, blank):
    """No beta: the forward recursion is differentiated backwards, step by step."""
    T, V = scores.shape
    labels = [int(label) for u, label in enumerate(targets) if u == 0 or label != targets[u - 1]]
    gradient = np.zeros((T, V))
    if T == 0:
        return (np.inf if labels else 0.0), gradient
    extended = [blank]
    for label in labels:
        extended.extend((label, blank))
    S = len(extended)
    sources = [[r for r in (s, s - 1, s - 2) if r >= 0] for s in range(S)]
    for s in range(2, S):
        if extended[s] == extended[s - 2]:
            sources[s].remove(s - 2)

    alpha = np.full((T, S), -np.inf)
    arriving = np.full((T, S), -np.inf)
    for t in range(T):
        for s in range(S):
            if t > 0:
                arriving[t, s] = np.logaddexp.reduce(alpha[t - 1, sources[s]])
            elif s < 2:
                arriving[t, s] = 0.0
            alpha[t, s] = arriving[t, s] + scores[t, extended[s]]
    log_z = np.logaddexp.reduce(alpha[-1, -2:])
    if log_z == -np.inf:
        return np.inf, gradient

    adjoint = np.zeros(S)
    adjoint[-2:] = np.exp(alpha[-1, -2:] - log_z)
    for t in range(T - 1, -1, -1):
        before = np.zeros(S)
        for s in range(S):
            gradient[t, extended[s]] -= adjoint[s]
            if t > 0 and arriving[t, s] > -np.inf:
                for r in sources[s]:
                    before[r] += adjoint[s] * np.exp(alpha[t - 1, r] - arriving[t, s])
        adjoint = before
    return -log_z, gradient


def empty_target_counted_twice(scores, targets, *, blank):
    """Lists and scalars, as in a language without arrays."""
    T, V = scores.shape
    U = len(targets)
    gradient = np.zeros((T, V))
    if T == 0:
        return (math.inf if U else 0.0), gradient
    zero = -math.inf

    def add(a, b):
        if a < b:
            a, b = b, a
        return a if b == zero else a + math.log1p(math.exp(b - a))

    states = []
    for label in targets.tolist():
        states += [blank, label]
    states.append(blank)
    S = len(states)

    alphas = []
    for t in range(T):
        row = []
        for s in range(S):
            if t == 0:
                value = 0.0 if s < 2 else zero
            else:
                last = alphas[-1]
                value = last[s]
                if s > 0:
                    value = add(value, last[s - 1])
                if s > 1 and states[s] != states[s - 2]:
                    value = add(value, last[s - 2])
            row.append(value + float(scores[t, states[s]]))
        alphas.append(row)
    last = alphas[-1]
    log_z = add(last[S - 1], last[S - 2])
    if log_z == zero:
        return math.inf, gradient

    beta = [zero] * S
    beta[S - 1] = 0.0
    beta[S - 2] = 0.0
    for t in range(T - 1, -1, -1):
        for s in range(S):
            if alphas[t][s] + beta[s] != zero:
                gradient[t, states[s]] -= math.exp(alphas[t][s] + beta[s] - log_z)
        ahead = [beta[s] + float(scores[t, states[s]]) for s in range(S)]
        beta = []
        for s in range(S):
            value = ahead[s]
            if s + 1 < S:
                value = add(value, ahead[s + 1])
            if s + 2 < S and states[s] != states[s + 2]:
                value = add(value, ahead[s + 2])
            beta.append(value)
    return -log_z, gradient


def skip_into_label_zero_forbidden(scores, targets, *, blank):
    """Arrays (T, S), slices, and a matrix product that collects the states of a symbol."""
    T, V = scores.shape
    U = len(targets)
    if T == 0:
        return (np.inf if U else 0.0), np.zeros((T, V))
    extended = np.full(2 * U + 1, blank)
    extended[1::2] = targets
    skip = (extended != 0) & (extended != np.roll(extended, 2))
    skip[:2] = False
    closed = np.where(skip, 0.0, -np.inf)
    emission = scores[:, extended]

    alpha = np.full(emission.shape, -np.inf)
    alpha[0, :2] = emission[0, :2]
    for t in range(1, T):
        stay = alpha[t - 1].copy()
        stay[1:] = np.logaddexp(stay[1:], alpha[t - 1, :-1])
        stay[2:] = np.logaddexp(stay[2:], alpha[t - 1, :-2] + closed[2:])
        alpha[t] = stay + emission[t]
    beta = np.full(emission.shape, -np.inf)
    beta[-1, -2:] = 0.0
    for t in range(T - 1, 0, -1):
        ahead = beta[t] + emission[t]
        beta[t - 1] = ahead
        beta[t - 1, :-1] = np.logaddexp(beta[t - 1, :-1], ahead[1:])
        beta[t - 1, :-2] = np.logaddexp(beta[t - 1, :-2], ahead[2:] + closed[2:])

    log_z = np.logaddexp.reduce(alpha[-1, -2:])
    if log_z == -np.inf:
        return np.inf, np.zeros((T, V))
    return -log_z, -np.exp(alpha + beta - log_z) @ np.eye(V)[extended]


# RNN-T


def blank_of_the_frame_entered(scores, targets, *, blank):
    """Two nested loops, twice."""
    T, rows, V = scores.shape
    U = rows - 1
    frames = slice(1, T)
    stay = scores[frames, :, blank]  # stay[t, u] takes (t, u) to (t + 1, u)
    end = scores[T - 1, U, blank]

    alpha = np.full((T, U + 1), -np.inf)
    alpha[0, 0] = 0.0
    for t in range(T):
        for u in range(U + 1):
            if t > 0:
                alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t - 1, u] + stay[t - 1, u])
            if u > 0:
                alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t, u - 1] + scores[t, u - 1, targets[u - 1]])
    beta = np.full((T, U + 1), -np.inf)
    beta[T - 1, U] = end
    for t in range(T - 1, -1, -1):
        for u in range(U, -1, -1):
            if t < T - 1:
                beta[t, u] = np.logaddexp(beta[t, u], beta[t + 1, u] + stay[t, u])
            if u < U:
                beta[t, u] = np.logaddexp(beta[t, u], beta[t, u + 1] + scores[t, u, targets[u]])

    gradient = np.zeros(scores.shape)
    log_z = beta[0, 0]
    if log_z == -np.inf:
        return np.inf, gradient
    gradient[T - 1, U, blank] = -1.0
    gradient[frames, :, blank] -= np.exp(alpha[:-1] + stay + beta[1:] - log_z)
    for u in range(U):
        gradient[:, u, targets[u]] = -np.exp(alpha[:, u] + scores[:, u, targets[u]] + beta[:, u + 1] - log_z)
    return -log_z, gradient


def label_consumes_a_frame(scores, targets, *, blank):
    """A list of arcs, and one recursion over it that knows nothing of RNN-T."""
    T, U = len(scores), len(targets)
    arcs = []
    for t in range(T):
        for u in range(U + 1):
            arcs.append(((t, u), (t + 1, u), (t, u, blank)))
            if u < U:
                arcs.append(((t, u), (t + 1, u + 1), (t, u, int(targets[u]))))
    end = (T, U)

    prefix = {(0, 0): 0.0}
    for source, target, entry in arcs:
        mass = prefix.get(source, -np.inf) + scores[entry]
        prefix[target] = np.logaddexp(prefix.get(target, -np.inf), mass)
    suffix = {end: 0.0}
    for source, target, entry in reversed(arcs):
        mass = suffix.get(target, -np.inf) + scores[entry]
        suffix[source] = np.logaddexp(suffix.get(source, -np.inf), mass)

    gradient = np.zeros(scores.shape)
    log_z = prefix.get(end, -np.inf)
    if log_z == -np.inf:
        return np.inf, gradient
    for source, target, entry in arcs:
        through = prefix.get(source, -np.inf) + scores[entry] + suffix.get(target, -np.inf)
        gradient[entry] -= np.exp(through - log_z)
    return -log_z, gradient


def diagonals_cut_at_the_frames(scores, targets, *, blank):
    """All nodes of an anti-diagonal at once."""
    T, U = len(scores), len(targets)
    peak = scores.max(axis=2, keepdims=True)
    peak = np.where(peak == -np.inf, 0.0, peak)
    mass = np.exp(scores - peak).sum(axis=2, keepdims=True)
    log_probs = scores - peak - np.log(np.where(mass == 0.0, 1.0, mass))
    # a border of -inf makes every read legal: node (t, u) is at [t + 1, u + 1]
    stay = np.full((T + 2, U + 3), -np.inf)
    stay[1:-1, 1:-1] = log_probs[:, :, blank]
    emit = np.full((T + 2, U + 3), -np.inf)
    emit[1:-1, 1:-2] = log_probs[:, np.arange(U), targets]

    def diagonal(d):
        u = np.arange(max(0, d - T + 1), min(d, U, T - 1) + 1)
        return d - u + 1, u + 1

    alpha = np.full(stay.shape, -np.inf)
    alpha[1, 1] = 0.0
    for d in range(1, T + U):
        t, u = diagonal(d)
        alpha[t, u] = np.logaddexp(alpha[t - 1, u] + stay[t - 1, u], alpha[t, u - 1] + emit[t, u - 1])
    beta = np.full(stay.shape, -np.inf)
    beta[T + 1, U + 1] = 0.0  # the end lies after the last blank
    for d in range(T + U - 1, -1, -1):
        t, u = diagonal(d)
        beta[t, u] = np.logaddexp(beta[t + 1, u] + stay[t, u], beta[t, u + 1] + emit[t, u])

    gradient = np.zeros(scores.shape)
    log_z = alpha[T, U + 1] + stay[T, U + 1]
    if log_z == -np.inf:
        return np.inf, gradient
    by_blank = np.exp(alpha[1:-1] + stay[1:-1] + beta[2:] - log_z)[:, 1:-1]
    by_label = np.exp(alpha[1:-1, :-1] + emit[1:-1, :-1] + beta[1:-1, 1:] - log_z)[:, 1:]
    gradient += np.exp(log_probs) * (by_blank + by_label)[:, :, None]
    gradient[:, :, blank] -= by_blank
    gradient[:, np.arange(U), targets] -= by_label[:, :U]
    return -log_z, gradient


def label_arc_with_next_frames_beta(scores, targets, *, blank):
    """The gradient is written node by node, softmax and arcs together."""
    T, rows, V = scores.shape
    U = rows - 1
    log_probs = np.empty(scores.shape)
    for t in range(T):
        for u in range(rows):
            top = scores[t, u].max()
            if top == -np.inf:
                log_probs[t, u] = -np.inf
            else:
                log_probs[t, u] = scores[t, u] - top - np.log(np.exp(scores[t, u] - top).sum())

    alpha = np.full((T, rows), -np.inf)
    alpha[0, 0] = 0.0
    for u in range(1, rows):
        alpha[0, u] = alpha[0, u - 1] + log_probs[0, u - 1, targets[u - 1]]
    for t in range(1, T):
        alpha[t, 0] = alpha[t - 1, 0] + log_probs[t - 1, 0, blank]
        for u in range(1, rows):
            no_emit = alpha[t - 1, u] + log_probs[t - 1, u, blank]
            emit = alpha[t, u - 1] + log_probs[t, u - 1, targets[u - 1]]
            alpha[t, u] = np.logaddexp(no_emit, emit)
    beta = np.full((T + 1, rows + 1), -np.inf)
    beta[T, U] = 0.0
    for t in range(T - 1, -1, -1):
        for u in range(U, -1, -1):
            beta[t, u] = beta[t + 1, u] + log_probs[t, u, blank]
            if u < U:
                beta[t, u] = np.logaddexp(beta[t, u], beta[t, u + 1] + log_probs[t, u, targets[u]])

    gradient = np.zeros(scores.shape)
    log_z = beta[0, 0]
    if log_z == -np.inf:
        return np.inf, gradient
    for t in range(T):
        for u in range(rows):
            here = alpha[t, u] - log_z
            gradient[t, u] = np.exp(here + beta[t, u] + log_probs[t, u])
            gradient[t, u, blank] -= np.exp(here + beta[t + 1, u] + log_probs[t, u, blank])
            if u < U:
                k = targets[u]
                gradient[t, u, k] -= np.exp(here + beta[t + 1, u + 1] + log_probs[t, u, k])
    return -log_z, gradient


def sums_in_base_two(scores, targets, *, blank):
    """Flat buffers, as in a kernel: node (t, u) is at t (U + 1) + u."""
    T, rows, V = scores.shape
    log_add = np.logaddexp2
    flat = np.ascontiguousarray(scores).reshape(-1)
    size = T * rows
    no_emit = np.array([flat[node * V + blank] for node in range(size)])
    emit = np.array([flat[node * V + targets[node % rows]] if node % rows < rows - 1 else -np.inf
                     for node in range(size)])
    alpha = np.full(size, -np.inf)
    beta = np.full(size, -np.inf)
    for node in range(size):
        if node == 0:
            alpha[node] = 0.0
            continue
        up = alpha[node - rows] + no_emit[node - rows] if node >= rows else -np.inf
        left = alpha[node - 1] + emit[node - 1] if node % rows else -np.inf
        alpha[node] = log_add(up, left)
    for node in range(size - 1, -1, -1):
        if node == size - 1:
            beta[node] = no_emit[node]
            continue
        down = beta[node + rows] + no_emit[node] if node + rows < size else -np.inf
        right = beta[node + 1] + emit[node] if node % rows < rows - 1 else -np.inf
        beta[node] = log_add(down, right)

    gradient = np.zeros(size * V)
    log_z = alpha[size - 1] + no_emit[size - 1]
    if log_z == -np.inf:
        return np.inf, gradient.reshape(scores.shape)
    for node in range(size):
        if node == size - 1:
            gradient[node * V + blank] = -1.0
        elif node + rows < size:
            gradient[node * V + blank] = -np.exp(alpha[node] + no_emit[node] + beta[node + rows] - log_z)
        if node % rows < rows - 1:
            k = targets[node % rows]
            gradient[node * V + k] = -np.exp(alpha[node] + emit[node] + beta[node + 1] - log_z)
    return -log_z, gradient.reshape(scores.shape)


def one_maximum_for_all_nodes(scores, targets, *, blank):
    """Forward, then the derivatives backwards through alpha and through the softmax."""
    T, rows, V = scores.shape
    peak = scores.max()
    with np.errstate(over="ignore"):
        shifted = scores - np.where(np.isneginf(peak), 0.0, peak)
    mass = np.exp(shifted).sum(axis=-1, keepdims=True)
    log_probs = shifted - np.log(mass, out=np.zeros(mass.shape), where=mass > 0)

    alpha = np.full((T, rows), -np.inf)
    alpha[0, 0] = 0.0
    for t in range(T):
        for u in range(rows):
            ways = [alpha[t, u]]
            if t > 0:
                ways.append(alpha[t - 1, u] + log_probs[t - 1, u, blank])
            if u > 0:
                ways.append(alpha[t, u - 1] + log_probs[t, u - 1, targets[u - 1]])
            alpha[t, u] = np.logaddexp.reduce(ways)
    log_z = alpha[-1, -1] + log_probs[-1, -1, blank]
    if log_z == -np.inf:
        return np.inf, np.zeros(scores.shape)

    d_alpha = np.zeros((T, rows))
    d_log_probs = np.zeros(scores.shape)
    d_alpha[-1, -1] = -1.0
    d_log_probs[-1, -1, blank] = -1.0
    for t in range(T - 1, -1, -1):
        for u in range(rows - 1, -1, -1):
            if d_alpha[t, u] == 0.0:
                continue
            if t > 0:
                entry = (t - 1, u, blank)
                share = d_alpha[t, u] * np.exp(alpha[t - 1, u] + log_probs[entry] - alpha[t, u])
                d_alpha[t - 1, u] += share
                d_log_probs[entry] += share
            if u > 0:
                entry = (t, u - 1, targets[u - 1])
                share = d_alpha[t, u] * np.exp(alpha[t, u - 1] + log_probs[entry] - alpha[t, u])
                d_alpha[t, u - 1] += share
                d_log_probs[entry] += share
    return -log_z, d_log_probs - np.exp(log_probs) * d_log_probs.sum(axis=-1, keepdims=True)


_GRADIENTS = {}


def gradient_buffer_not_cleared(scores, targets, *, blank):
    """beta is alpha of the grid turned by half a turn; the memory of the gradient is kept for the next call."""
    T, rows, V = scores.shape
    columns = np.arange(rows - 1)
    no_emit = scores[:, :, blank]
    emit = scores[:, columns, targets]

    def fill(start, down, right):
        mass = np.full((T, rows), -np.inf)
        mass[0, 0] = start
        for j in range(1, rows):
            mass[0, j] = mass[0, j - 1] + right[0, j - 1]
        for i in range(1, T):
            mass[i] = mass[i - 1] + down[i - 1]
            for j in range(1, rows):
                mass[i, j] = np.logaddexp(mass[i, j], mass[i, j - 1] + right[i, j - 1])
        return mass

    alpha = fill(0.0, no_emit[:-1], emit)
    beta = fill(no_emit[-1, -1], no_emit[::-1, ::-1][1:], emit[::-1, ::-1])[::-1, ::-1]
    log_z = beta[0, 0]
    if log_z == -np.inf:
        return np.inf, np.zeros(scores.shape)
    if scores.shape not in _GRADIENTS:
        _GRADIENTS[scores.shape] = np.zeros(scores.shape)
    gradient = _GRADIENTS[scores.shape]
    after = np.full((T, rows), -np.inf)
    after[:-1] = beta[1:]
    after[-1, -1] = 0.0
    gradient[:, :, blank] = -np.exp(alpha + no_emit + after - log_z)
    gradient[:, columns, targets] = -np.exp(alpha[:, :-1] + emit + beta[:, 1:] - log_z)
    return -log_z, gradient.copy()


def labels_in_one_byte(scores, targets, *, blank):
    """beta makes a Markov chain of the grid; the occupancies are its probabilities of being at a node."""
    T, rows, V = scores.shape
    labels = targets.astype(np.uint8)
    peak = np.max(scores, axis=-1, keepdims=True)
    peak[~np.isfinite(peak)] = 0.0
    with np.errstate(divide="ignore"):
        log_mass = np.log(np.exp(scores - peak).sum(axis=-1, keepdims=True))
    log_probs = scores - peak - np.where(np.isneginf(log_mass), 0.0, log_mass)
    no_emit = log_probs[:, :, blank]
    emit = np.full((T, rows), -np.inf)
    for u, label in enumerate(labels):
        emit[:, u] = log_probs[:, u, label]

    beta = np.full((T + 1, rows + 1), -np.inf)
    beta[T, rows - 1] = 0.0
    for t in reversed(range(T)):
        for u in reversed(range(rows)):
            beta[t, u] = np.logaddexp(no_emit[t, u] + beta[t + 1, u], emit[t, u] + beta[t, u + 1])
    gradient = np.zeros(scores.shape)
    if beta[0, 0] == -np.inf:
        return np.inf, gradient
    at = np.zeros((T + 1, rows + 1))
    at[0, 0] = 1.0
    for t in range(T):
        for u in range(rows):
            if at[t, u] == 0.0:
                continue
            by_blank = at[t, u] * np.exp(no_emit[t, u] + beta[t + 1, u] - beta[t, u])
            by_label = at[t, u] * np.exp(emit[t, u] + beta[t, u + 1] - beta[t, u])
            at[t + 1, u] += by_blank
            at[t, u + 1] += by_label
            gradient[t, u] = at[t, u] * np.exp(log_probs[t, u])
            gradient[t, u, blank] -= by_blank
            if u < rows - 1:
                gradient[t, u, labels[u]] -= by_label
    return -beta[0, 0], gradient


def one_hot_times_minus_infinity(scores, targets, *, blank):
    """Scores are read, and occupancies written, by products with one-hot rows."""
    T, rows, V = scores.shape
    U = rows - 1
    one_hot = np.eye(V)
    with np.errstate(invalid="ignore"):
        no_emit = (scores * one_hot[blank]).sum(axis=-1)
        emit = (scores[:, :U] * one_hot[targets]).sum(axis=-1)

    alpha = [np.full(T, -np.inf) for _ in range(rows)]  # a column of T nodes for each u
    for u in range(rows):
        entering = alpha[u - 1] + emit[:, u - 1] if u > 0 else np.where(np.arange(T) == 0, 0.0, -np.inf)
        carried = -np.inf
        for t in range(T):
            alpha[u][t] = carried = np.logaddexp(carried, entering[t])
            carried = carried + no_emit[t, u]
    log_z = carried
    beta = [np.full(T, -np.inf) for _ in range(rows)]
    for u in reversed(range(rows)):
        leaving = emit[:, u] + beta[u + 1] if u < U else np.full(T, -np.inf)
        carried = 0.0 if u == U else -np.inf
        for t in reversed(range(T)):
            beta[u][t] = carried = np.logaddexp(carried + no_emit[t, u], leaving[t])
    if log_z == -np.inf:
        return np.inf, np.zeros(scores.shape)
    alpha, beta = np.stack(alpha, axis=1), np.stack(beta, axis=1)
    after = np.full((T, rows), -np.inf)
    after[:-1] = beta[1:]
    after[-1, U] = 0.0
    gradient = -np.exp(alpha + no_emit + after - log_z)[:, :, None] * one_hot[blank]
    gradient[:, :U] -= np.exp(alpha[:, :U] + emit + beta[:, 1:] - log_z)[:, :, None] * one_hot[targets]
    return -log_z, gradient


def beta_without_last_blank(scores, targets, *, blank):
    """Counted from 1 with a row and a column of zeros, as in a paper."""
    T, U = len(scores), len(targets)
    null = {(t, u): scores[t - 1, u, blank] for t in range(1, T + 1) for u in range(U + 1)}
    y = {(t, u): scores[t - 1, u, targets[u]] for t in range(1, T + 1) for u in range(U)}

    alpha = np.full((T + 2, U + 2), -np.inf)
    for t in range(1, T + 1):
        for u in range(U + 1):
            if (t, u) == (1, 0):
                alpha[t, u] = 0.0
                continue
            if t > 1:
                alpha[t, u] = alpha[t - 1, u] + null[t - 1, u]
            if u > 0:
                alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t, u - 1] + y[t, u - 1])
    beta = np.full((T + 2, U + 2), -np.inf)
    for t in range(T, 0, -1):
        for u in range(U, -1, -1):
            if (t, u) == (T, U):
                beta[t, u] = 0.0
                continue
            if t < T:
                beta[t, u] = beta[t + 1, u] + null[t, u]
            if u < U:
                beta[t, u] = np.logaddexp(beta[t, u], beta[t, u + 1] + y[t, u])

    log_p = alpha[T, U] + null[T, U]
    gradient = np.zeros(scores.shape)
    if log_p == -np.inf:
        return np.inf, gradient
    for (t, u), weight in null.items():
        following = 0.0 if (t, u) == (T, U) else beta[t + 1, u]
        gradient[t - 1, u, blank] = -np.exp(alpha[t, u] + weight + following - log_p)
    for (t, u), weight in y.items():
        gradient[t - 1, u, targets[u]] = -np.exp(alpha[t, u] + weight + beta[t, u + 1] - log_p)
    return -log_p, gradient


WRONG = [
    Loss("labels scattered without adding", "ctc", "logits", labels_scattered_without_adding,
         "The occupancies of the labels are added with fancy indexing, which keeps one addition per index: of a label "
         "that occurs more than once in the target only the last occurrence counts in the gradient.",
         ("only the last occurrence", "one occurrence", "overwrit", "not accumulated", "not summed over",
          "occurs more than once")),
    Loss("first scale dropped", "ctc", "logits", first_scale_dropped,
         "alpha is normalised in every frame, and the loss adds up the logs of what was divided out, but leaves out "
         "that of frame 0; the gradient is right.",
         ("first frame's scale", "scale of the first frame", "first frame is left out", "normaliser of frame 0",
          "first frame is missing", "scale of frame 0")),
    Loss("length check counts all duplicates", "ctc", "logits", length_check_counts_all_duplicates,
         "A check before the recursion asks for one more frame for every duplicate label, where only labels that equal "
         "their neighbour need one: 1 2 1 in three frames is called impossible.",
         ("declared impossible", "called impossible", "not adjacent", "need not be adjacent", "length check",
          "frames that are needed")),
    Loss("band one too narrow", "ctc", "log_probs", band_one_too_narrow,
         "The forward pass visits the states s < 2t + 1 in frame t, where it has to visit s < 2t + 2: the paths that "
         "emit a new label in each of the first frames, t = 1 at least, are lost.",
         ("band", "2t", "not visited", "too few states", "new label in each frame", "label in every frame")),
    Loss("skip reads the updated row", "ctc", "log_probs", skip_reads_the_updated_row,
         "A row of alpha is updated in place: the term from s - 2 reads entries to which the term from s - 1 was "
         "already added, so some paths are counted twice; beta is computed by the same code.",
         ("in place", "already updated", "updated row", "counted twice", "overwritten before")),
    Loss("divided by emission once more", "ctc", "logits", divided_by_emission_once_more,
         "beta leaves the emission at t out, but the formula of the gradient, which divides alpha beta by the "
         "emission, is for a beta that holds it: the occupancies are too large by 1/y.",
         ("divided by the emission", "divides by the emission", "emission at t", "divided by y", "1/y",
          "divided by the probability")),
    Loss("diagonal of the softmax", "ctc", "logits", diagonal_of_the_softmax,
         "The chain rule through the softmax uses only the diagonal of its Jacobian, y (1 - y): the gradient is "
         "-occupancy (1 - y), without what the other symbols' occupancies contribute.",
         ("diagonal", "jacobian", "y (1 - y)", "off-diagonal", "1 - y")),
    Loss("target collapsed", "ctc", "log_probs", target_collapsed,
         "Equal neighbours in the target are merged before the lattice is built, as if the target were a path: the "
         "loss of 1 1 is that of 1.",
         ("merged", "collapsed", "repeats are removed", "deduplicat", "removes repeat")),
    Loss("empty target counted twice", "ctc", "log_probs", empty_target_counted_twice,
         "Z adds the last two states, S - 1 and S - 2; an empty target has one state, and index -1 is that state "
         "again, so Z is twice as large and the occupancies are halved.",
         ("counted twice", "empty target", "twice", "log 2", "only one state")),
    Loss("skip into label zero forbidden", "ctc", "log_probs", skip_into_label_zero_forbidden,
         "The condition for skipping a blank compares the symbol with 0, not with the argument blank: where blank is "
         "another symbol, no path may skip the blank before label 0.",
         ("label 0", "symbol 0", "hard-coded", "blank is 0", "blank = 0", "index 0")),
    Loss("blank of the frame entered", "rnnt", "log_probs", blank_of_the_frame_entered,
         "The blank arc from (t, u) to (t + 1, u) reads the blank's score in frame t + 1, which it enters, and not in "
         "frame t, which it leaves; the gradient is that of this wrong loss.",
         ("frame entered", "frame it enters", "next frame", "t + 1", "t+1", "wrong frame")),
    Loss("label consumes a frame", "rnnt", "log_probs", label_consumes_a_frame,
         "Label arcs go from (t, u) to (t + 1, u + 1): a label uses up a frame, so each frame has one label or one "
         "blank, never several labels or both.",
         ("uses up a frame", "consumes a frame", "one label per frame", "one label a frame", "(t + 1, u + 1)",
          "at most one label")),
    Loss("diagonals cut at the frames", "rnnt", "logits", diagonals_cut_at_the_frames,
         "The range of u on an anti-diagonal ends at T - 1 as well as at U: the nodes with u >= T are never computed, "
         "and a target with U >= T is called impossible.",
         ("u >= t", "as many labels as frames", "more labels than frames", "longer than the frames", "anti-diagonal",
          "u < t")),
    Loss("label arc with next frame's beta", "rnnt", "logits", label_arc_with_next_frames_beta,
         "In the gradient, the occupancy of the label arc out of (t, u) uses beta at (t + 1, u + 1), and the arc leads "
         "to (t, u + 1); the loss is right.",
         ("beta[t + 1, u + 1]", "beta[t+1, u+1]", "beta(t + 1, u + 1)", "beta of the next frame", "beta at the wrong",
          "next frame's beta")),
    Loss("sums in base two", "rnnt", "log_probs", sums_in_base_two,
         "Masses are added by log2(2^a + 2^b), and the scores are natural logs: every sum of two paths is wrong, and "
         "a single path is right.",
         ("base 2", "base two", "logaddexp2", "log2", "powers of 2", "powers of two")),
    Loss("one maximum for all nodes", "rnnt", "logits", one_maximum_for_all_nodes,
         "The log-softmax subtracts the maximum of the whole tensor, not that of each node: where all scores of a node "
         "lie some 745 below it, every exponential underflows and the node is not normalised.",
         ("underflow", "maximum of the whole", "one maximum", "global maximum", "maximum over all", "each node's own")),
    Loss("gradient buffer not cleared", "rnnt", "log_probs", gradient_buffer_not_cleared,
         "The array of the gradient is kept from call to call, one for each shape, and never set to 0: entries of the "
         "labels of an earlier utterance stay in the gradient of the next.",
         ("earlier call", "previous call", "stale", "not cleared", "call before", "state between calls")),
    Loss("labels in one byte", "rnnt", "logits", labels_in_one_byte,
         "The labels are stored in 8 bits without a sign: label 256 and those above are read as the label minus 256.",
         ("8 bit", "8-bit", "uint8", "256", "one byte", "large vocabular")),
    Loss("one-hot times minus infinity", "rnnt", "log_probs", one_hot_times_minus_infinity,
         "Scores are picked by a product with a one-hot row and a sum, and 0 times -inf is NaN: a masked entry, even "
         "of a symbol that no path uses, makes loss and gradient NaN.",
         ("one-hot", "one hot", "0 * -inf", "0 times -inf", "masked entry", "masked symbol")),
    Loss("beta without last blank", "rnnt", "log_probs", beta_without_last_blank,
         "beta starts with 0 at (T-1, U), without the last blank, and Z holds it: the occupancies of all arcs except "
         "the last blank are too large by 1 / p(last blank); the loss is right.",
         ("last blank", "final blank", "terminal blank", "closing blank")),
]
