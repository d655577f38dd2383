"""A third set of twenty wrong losses in plain NumPy, each with one typical mistake, written without a look at the kit.

They are no tests, and no reference: each is right but for its one mistake, which the sentence above it says. The
mistakes are those that threads about CTC and RNN-T losses report, or that a first version of such a loss tends to
have. Each loss is written in a style of its own, as people write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

__all__ = ["WRONG", "Loss"]


@dataclass(frozen=True)
class Loss:
    """A loss with one mistake: ``function(scores, targets, *, blank)`` gives loss and gradient of one utterance.

    ``variable`` says what the scores are, "logits" or "log_probs", and with respect to what the gradient is.
    """

    name: str
    kind: str
    variable: str
    function: Callable
    cause: str


WRONG: list[Loss] = []


def _wrong(name, kind, variable, cause):
    def listed(function):
        quiet = np.errstate(all="ignore")(function)  # logarithms of 0 are meant
        WRONG.append(Loss(name, kind, variable, quiet, cause))
        return quiet
    return listed


# CTC

@_wrong("ctc skips between equal labels", "ctc", "log_probs",
        "A path may skip the blank before every label, also before one that equals the label in front of it. Only "
        "blanks are kept from being skipped to, so strings in which a repeated label has merged are counted too.")
def ctc_equal_labels(scores, targets, *, blank):
    T, V = scores.shape
    path = np.full(2 * len(targets) + 1, blank)
    path[1::2] = targets
    S = len(path)
    enters = path != blank
    connected = np.eye(S) + np.eye(S, k=1) + np.eye(S, k=2) * enters  # from row to column
    log_connected = np.where(connected > 0, 0.0, -np.inf)
    emitted = scores[:, path]

    forward = [np.where(np.arange(S) < 2, emitted[0], -np.inf)]
    for t in range(1, T):
        forward.append(np.logaddexp.reduce(forward[-1][:, None] + log_connected, axis=0) + emitted[t])
    backward = [np.where(np.arange(S) >= S - 2, 0.0, -np.inf)]
    for t in range(T - 1, 0, -1):
        backward.append(np.logaddexp.reduce(log_connected + (emitted[t] + backward[-1]), axis=1))
    backward.reverse()

    log_z = np.logaddexp.reduce(forward[-1][-2:])
    gradient = np.zeros((T, V))
    if log_z == -np.inf:
        return np.inf, gradient
    posterior = np.exp(np.array(forward) + np.array(backward) - log_z)
    for s, symbol in enumerate(path):
        gradient[:, symbol] -= posterior[:, s]
    return float(-log_z), gradient


@_wrong("ctc sums scales over all states", "ctc", "logits",
        "The likelihood is taken as the product of the factors by which each frame of alpha is rescaled. In the last "
        "frame this factor sums all states and not only the last two, so alignments that stop early are counted. The "
        "gradient is right.")
def ctc_scales(scores, targets, *, blank):
    # long doubles: probabilities of e-4000 are no problem
    logits = scores.T.astype(np.longdouble)
    V, T = logits.shape
    params = np.exp(logits - np.maximum(logits.max(axis=0), np.finfo(np.longdouble).min))
    params /= np.maximum(params.sum(axis=0), np.finfo(np.longdouble).tiny)
    L = 2 * len(targets) + 1
    alphas = np.zeros((L, T), dtype=np.longdouble)
    betas = np.zeros((L, T), dtype=np.longdouble)

    def label(s):
        return blank if s % 2 == 0 else targets[s // 2]

    log_likelihood = 0.0
    for t in range(T):
        for s in range(L):
            if t == 0:
                alphas[s, t] = params[label(s), t] if s < 2 else 0.0
                continue
            total = alphas[s, t - 1]
            if s > 0:
                total += alphas[s - 1, t - 1]
            if s > 1 and s % 2 == 1 and label(s) != label(s - 2):
                total += alphas[s - 2, t - 1]
            alphas[s, t] = total * params[label(s), t]
        c = alphas[:, t].sum()
        if c == 0:
            return np.inf, np.zeros((T, V))
        alphas[:, t] /= c
        log_likelihood += np.log(c)

    for t in range(T - 1, -1, -1):
        for s in range(L):
            if t == T - 1:
                betas[s, t] = params[label(s), t] if s >= L - 2 else 0.0
                continue
            total = betas[s, t + 1]
            if s < L - 1:
                total += betas[s + 1, t + 1]
            if s < L - 2 and s % 2 == 1 and label(s) != label(s + 2):
                total += betas[s + 2, t + 1]
            betas[s, t] = total * params[label(s), t]
        if betas[:, t].any():
            betas[:, t] /= betas[:, t].sum()

    grad = np.zeros((V, T), dtype=np.longdouble)
    for s in range(L):
        used = params[label(s)] > 0
        grad[label(s), used] += alphas[s, used] * betas[s, used] / params[label(s), used]
    absum = grad.sum(axis=0)
    if not absum.all():
        return float(-log_likelihood), np.zeros((T, V))
    return float(-log_likelihood), (params - grad / absum).T.astype(np.float64)


@_wrong("ctc gradient of log-probs has a softmax term", "ctc", "log_probs",
        "The gradient is said to be with respect to log-probs, but it is the one for logits: exp(log_probs) minus the "
        "occupancy, where minus the occupancy is right. The loss itself takes the log-probs as they are.")
def ctc_as_if_logits(scores, targets, *, blank):
    log_probs = scores
    T, num_labels = log_probs.shape
    target_length = len(targets)
    neginf = -np.inf

    def get_target_prime(idx):
        return blank if idx % 2 == 0 else targets[idx // 2]

    log_alpha = np.full((T, 2 * target_length + 1), neginf)
    log_alpha[0, 0] = log_probs[0, blank]
    if target_length > 0:
        log_alpha[0, 1] = log_probs[0, get_target_prime(1)]
    for t in range(1, T):
        for s in range(2 * target_length + 1):
            la1 = la2 = la3 = neginf
            la1 = log_alpha[t - 1, s]
            lamax = la1
            if s > 0:
                la2 = log_alpha[t - 1, s - 1]
                lamax = max(lamax, la2)
            if s > 1 and get_target_prime(s - 2) != get_target_prime(s):
                la3 = log_alpha[t - 1, s - 2]
                lamax = max(lamax, la3)
            if lamax == neginf:
                lamax = 0.0
            log_alpha[t, s] = (np.log(np.exp(la1 - lamax) + np.exp(la2 - lamax) + np.exp(la3 - lamax)) + lamax
                               + log_probs[t, get_target_prime(s)])
    l1 = log_alpha[T - 1, 2 * target_length]
    l2 = log_alpha[T - 1, 2 * target_length - 1] if target_length > 0 else neginf
    neg_log_likelihood = -np.logaddexp(l1, l2)
    if neg_log_likelihood == np.inf:
        return np.inf, np.zeros((T, num_labels))

    log_beta = np.full((T, 2 * target_length + 1), neginf)
    log_beta[T - 1, 2 * target_length] = log_probs[T - 1, blank]
    if target_length > 0:
        log_beta[T - 1, 2 * target_length - 1] = log_probs[T - 1, get_target_prime(2 * target_length - 1)]
    for t in range(T - 2, -1, -1):
        for s in range(2 * target_length, -1, -1):
            lb = log_beta[t + 1, s]
            if s < 2 * target_length:
                lb = np.logaddexp(lb, log_beta[t + 1, s + 1])
            if s < 2 * target_length - 1 and get_target_prime(s + 2) != get_target_prime(s):
                lb = np.logaddexp(lb, log_beta[t + 1, s + 2])
            log_beta[t, s] = lb + log_probs[t, get_target_prime(s)]

    res = np.full((T, num_labels), neginf)
    for t in range(T):
        for s in range(2 * target_length + 1):
            c = get_target_prime(s)
            res[t, c] = np.logaddexp(res[t, c], log_alpha[t, s] + log_beta[t, s])
    collected = np.where(res == neginf, 0.0, np.exp(res + neg_log_likelihood - log_probs))
    return float(neg_log_likelihood), np.exp(log_probs) - collected


@_wrong("ctc softmax of a softmax", "ctc", "logits",
        "A softmax is applied to the logits, and its output, the probabilities, is handed to a loss that takes it for "
        "logits and applies log-softmax once more. The gradient goes back through both: it is that of this loss.")
def ctc_two_softmaxes(scores, targets, *, blank):
    def softmax(x):
        peak = x.max(axis=-1, keepdims=True)
        e = np.exp(x - np.where(np.isinf(peak), 0.0, peak))
        mass = e.sum(axis=-1, keepdims=True)
        return e / np.where(mass == 0, 1.0, mass)

    def log_softmax(x):
        peak = x.max(axis=-1, keepdims=True)
        shifted = x - np.where(np.isinf(peak), 0.0, peak)
        return shifted - np.log(np.maximum(np.exp(shifted).sum(axis=-1, keepdims=True), 1e-300))

    outputs = softmax(scores)              # the last layer of the network
    log_y = log_softmax(outputs)           # the first line of the loss

    T, V = scores.shape
    U = len(targets)
    z = [blank]
    for label in targets:
        z += [int(label), blank]
    a = np.full((T + 1, 2 * U + 3), -np.inf)   # two columns of nothing at the left, a row before the first frame
    a[0, 2] = 0.0
    skip = np.array([s > 1 and z[s] != blank and z[s] != z[s - 2] for s in range(len(z))])
    for t in range(T):
        enter = np.logaddexp(a[t, 2:], a[t, 1:-1])
        if t > 0:
            enter = np.logaddexp(enter, np.where(skip, a[t, :-2], -np.inf))
        a[t + 1, 2:] = enter + log_y[t, z]
    a = a[1:, 2:]
    log_z = a[-1, -1] if U == 0 else np.logaddexp(a[-1, -1], a[-1, -2])
    if log_z == -np.inf:
        return np.inf, np.zeros((T, V))

    b = np.full((T, 2 * U + 3), -np.inf)       # two columns of nothing at the right
    b[-1, max(2 * U - 1, 0):2 * U + 1] = 0.0
    skipped = np.append(skip[2:], [False, False])[:len(z)]
    for t in reversed(range(T - 1)):
        arriving = b[t + 1].copy()
        arriving[:2 * U + 1] += log_y[t + 1, z]
        stay_or_next = np.logaddexp(arriving[:-2], arriving[1:-1])
        b[t, :-2] = np.logaddexp(stay_or_next, np.where(skipped, arriving[2:], -np.inf))
    posterior = np.exp(a + b[:, :-2] - log_z)

    occupancy = np.zeros((T, V))
    for s, symbol in enumerate(z):
        occupancy[:, symbol] += posterior[:, s]
    d_outputs = np.exp(log_y) - occupancy
    d_scores = outputs * (d_outputs - (outputs * d_outputs).sum(axis=-1, keepdims=True))
    return float(-log_z), d_scores


@_wrong("ctc occupancy keeps one state per symbol", "ctc", "logits",
        "The posteriors of the states are gathered by symbol with occupancy[:, path] += gamma. NumPy adds only once "
        "for each index that occurs several times, so blanks and repeated labels keep the mass of their last state.")
def ctc_buffered_add(scores, targets, *, blank):
    peak = scores.max(1, keepdims=True)
    peak[peak == -np.inf] = 0.0
    log_mass = np.log(np.exp(scores - peak).sum(1, keepdims=True))
    log_mass[log_mass == -np.inf] = 0.0
    log_probs = scores - peak - log_mass

    path = np.repeat(blank, 2 * len(targets) + 1)
    path[1::2] = targets

    def forward(emissions, symbols):
        jump = np.zeros(len(symbols), dtype=bool)
        jump[2:] = symbols[2:] != symbols[:-2]
        rows = np.full(emissions.shape, -np.inf)
        rows[0, :2] = emissions[0, :2]
        for now in range(1, len(emissions)):
            before = np.pad(rows[now - 1], (2, 0), constant_values=-np.inf)
            jumped = np.where(jump, before[:-2], -np.inf)
            rows[now] = np.logaddexp(np.logaddexp(before[2:], before[1:-1]), jumped) + emissions[now]
        return rows

    emissions = log_probs[:, path]
    alpha = forward(emissions, path)
    beta = forward(emissions[::-1, ::-1], path[::-1])[::-1, ::-1]
    total = np.logaddexp.reduce(alpha[-1, -2:])
    if np.isneginf(total):
        return np.inf, np.zeros_like(log_probs)
    gamma = np.exp(alpha + beta - np.where(np.isneginf(emissions), 0.0, emissions) - total)

    occupancy = np.zeros_like(log_probs)
    occupancy[:, path] += gamma
    return float(-total), np.exp(log_probs) - occupancy


@_wrong("ctc counts the emission twice", "ctc", "log_probs",
        "Alpha and beta both contain the emission of their own frame, as in the paper of 2006. Their product is not "
        "divided by that emission, so every posterior in the gradient is multiplied by the probability once too often.")
def ctc_emission_twice(scores, targets, *, blank):
    T, V = scores.shape
    lprime = [blank]
    for k in targets:
        lprime.extend([k, blank])
    S = len(lprime)

    alpha = np.full((T, S), -np.inf)
    alpha[0, 0] = scores[0, blank]
    if S > 1:
        alpha[0, 1] = scores[0, lprime[1]]
    for t in range(1, T):
        for s in range(S):
            alpha_bar = alpha[t - 1, s]
            if s >= 1:
                alpha_bar = np.logaddexp(alpha_bar, alpha[t - 1, s - 1])
            if s >= 2 and lprime[s] != blank and lprime[s] != lprime[s - 2]:
                alpha_bar = np.logaddexp(alpha_bar, alpha[t - 1, s - 2])
            alpha[t, s] = alpha_bar + scores[t, lprime[s]]

    beta = np.full((T, S), -np.inf)
    beta[T - 1, S - 1] = scores[T - 1, blank]
    if S > 1:
        beta[T - 1, S - 2] = scores[T - 1, lprime[S - 2]]
    for t in range(T - 2, -1, -1):
        for s in range(S):
            beta_bar = beta[t + 1, s]
            if s + 1 < S:
                beta_bar = np.logaddexp(beta_bar, beta[t + 1, s + 1])
            if s + 2 < S and lprime[s] != blank and lprime[s] != lprime[s + 2]:
                beta_bar = np.logaddexp(beta_bar, beta[t + 1, s + 2])
            beta[t, s] = beta_bar + scores[t, lprime[s]]

    log_p = alpha[T - 1, S - 1]
    if S > 1:
        log_p = np.logaddexp(log_p, alpha[T - 1, S - 2])
    gradient = np.zeros((T, V))
    if log_p == -np.inf:
        return np.inf, gradient
    for t in range(T):
        for s in range(S):
            if alpha[t, s] > -np.inf and beta[t, s] > -np.inf:
                gradient[t, lprime[s]] -= np.exp(alpha[t, s] + beta[t, s] - log_p)
    return float(-log_p), gradient


@_wrong("ctc counts the only end of an empty target twice", "ctc", "logits",
        "The likelihood adds the last two states of the last frame. An empty target has one state, where index S - 2 "
        "is -1 and means the same one: its likelihood is doubled, the loss is too small by log 2, and the posteriors "
        "are halved.")
def ctc_negative_index(scores, targets, *, blank):
    ninf = float("-inf")

    def log_add(*terms):
        top = max(terms)
        if top == ninf:
            return ninf
        return top + math.log(sum(math.exp(term - top) for term in terms))

    rows = []
    for frame in scores.tolist():
        norm = log_add(*frame)
        rows.append([x if norm == ninf else x - norm for x in frame])
    T, V = len(rows), len(rows[0])
    states = [blank]
    for label in targets.tolist() if hasattr(targets, "tolist") else list(targets):
        states.append(label)
        states.append(blank)
    S = len(states)

    alpha = [[ninf] * S for _ in range(T)]
    beta = [[ninf] * S for _ in range(T)]
    for s in range(min(2, S)):
        alpha[0][s] = rows[0][states[s]]
    for t in range(1, T):
        for s in range(S):
            incoming = [alpha[t - 1][r] for r in range(max(s - 1, 0), s + 1)]
            if s % 2 == 1 and s >= 3 and states[s] != states[s - 2]:
                incoming.append(alpha[t - 1][s - 2])
            alpha[t][s] = log_add(*incoming) + rows[t][states[s]]
    beta[T - 1][S - 1] = 0.0
    beta[T - 1][S - 2] = 0.0
    for t in range(T - 2, -1, -1):
        for s in range(S):
            outgoing = [beta[t + 1][r] + rows[t + 1][states[r]] for r in range(s, min(s + 2, S))]
            if s % 2 == 1 and s + 2 < S and states[s] != states[s + 2]:
                outgoing.append(beta[t + 1][s + 2] + rows[t + 1][states[s + 2]])
            beta[t][s] = log_add(*outgoing)

    log_z = log_add(alpha[T - 1][S - 1], alpha[T - 1][S - 2])
    if log_z == ninf:
        return math.inf, np.zeros((T, V))
    gradient = np.zeros((T, V))
    for t in range(T):
        occupied = [0.0] * V
        for s in range(S):
            occupied[states[s]] += math.exp(alpha[t][s] + beta[t][s] - log_z)
        for k in range(V):
            gradient[t, k] = math.exp(rows[t][k]) * sum(occupied) - occupied[k]
    return -log_z, gradient


@_wrong("ctc takes symbol 0 for the blank", "ctc", "logits",
        "The argument blank is ignored: the code has a constant, and the blank is symbol 0 in the loss and in the "
        "gradient whatever the caller says.")
def ctc_constant_blank(scores, targets, *, blank):
    BLANK = 0
    T, V = scores.shape
    U = len(targets)
    top = scores.max(-1)
    top = np.where(top == -np.inf, 0, top)
    total = np.exp(scores - top[:, None]).sum(-1)
    lp = scores - (top + np.log(np.where(total == 0, 1, total)))[:, None]

    # mass of the prefixes of u labels that end in a blank, and of those that end in their last label
    pb = np.full((T, U + 1), -np.inf)
    pn = np.full((T, U + 1), -np.inf)
    for t in range(T):
        for u in range(U + 1):
            if t == 0:
                if u == 0:
                    pb[t, u] = lp[t, BLANK]
                elif u == 1:
                    pn[t, u] = lp[t, targets[0]]
                continue
            pb[t, u] = lp[t, BLANK] + np.logaddexp(pb[t - 1, u], pn[t - 1, u])
            if u > 0:
                mass = np.logaddexp(pn[t - 1, u], pb[t - 1, u - 1])
                if u > 1 and targets[u - 1] != targets[u - 2]:
                    mass = np.logaddexp(mass, pn[t - 1, u - 1])
                pn[t, u] = lp[t, targets[u - 1]] + mass
    log_z = np.logaddexp(pb[T - 1, U], pn[T - 1, U])
    if log_z == -np.inf:
        return np.inf, np.zeros((T, V))

    # mass of what may follow each of them
    qb = np.full((T, U + 1), -np.inf)
    qn = np.full((T, U + 1), -np.inf)
    qb[T - 1, U] = qn[T - 1, U] = 0.0
    for t in range(T - 2, -1, -1):
        for u in range(U + 1):
            to_blank = lp[t + 1, BLANK] + qb[t + 1, u]
            to_next = lp[t + 1, targets[u]] + qn[t + 1, u + 1] if u < U else -np.inf
            qb[t, u] = np.logaddexp(to_blank, to_next)
            if u > 0:
                qn[t, u] = np.logaddexp(to_blank, lp[t + 1, targets[u - 1]] + qn[t + 1, u])
                if u < U and targets[u] != targets[u - 1]:
                    qn[t, u] = np.logaddexp(qn[t, u], to_next)

    occupancy = np.zeros((T, V))
    occupancy[:, BLANK] += np.exp(pb + qb - log_z).sum(1)
    for u in range(1, U + 1):
        occupancy[:, targets[u - 1]] += np.exp(pn[:, u] + qn[:, u] - log_z)
    return float(-log_z), np.exp(lp) - occupancy


@_wrong("ctc adds an epsilon to the probabilities", "ctc", "logits",
        "The log of the probabilities is taken as log(y + 1e-7), so that it stays finite. Small probabilities come "
        "out too large, and a symbol that is masked, with probability 0, can still be used at 16 nats.")
def ctc_epsilon(scores, targets, *, blank):
    best = scores.max(axis=1, keepdims=True)
    shifted = scores - np.where(np.isfinite(best), best, 0.0)
    log_norm = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    log_y = shifted - np.where(np.isfinite(log_norm), log_norm, 0.0)
    y = np.exp(log_y)
    log_y = np.log(y + 1e-7)

    T, V = y.shape
    extended = np.full(2 * len(targets) + 1, blank)
    extended[1::2] = targets
    S = len(extended)
    nothing = np.array([-np.inf, -np.inf])
    repeat = np.concatenate([[True, True], extended[2:] == extended[:-2]])[:S]

    def shift(row, by):
        return np.concatenate([nothing[:by], row])[:S] if by > 0 else np.concatenate([row, nothing[:-by]])[-S:]

    alpha = [np.where(np.arange(S) <= 1, log_y[0, extended], -np.inf)]
    for frame in log_y[1:]:
        last = alpha[-1]
        skipped = np.where(repeat, -np.inf, shift(last, 2))
        alpha.append(np.logaddexp.reduce([last, shift(last, 1), skipped]) + frame[extended])
    beta = [np.where(np.arange(S) >= S - 2, 0.0, -np.inf)]
    for frame in log_y[:0:-1]:
        following = beta[0] + frame[extended]
        skipped = shift(np.where(repeat, -np.inf, following), -2)
        beta.insert(0, np.logaddexp.reduce([following, shift(following, -1), skipped]))

    log_likelihood = np.logaddexp.reduce(alpha[-1][max(S - 2, 0):])
    if not np.isfinite(log_likelihood):
        return np.inf, np.zeros((T, V))
    weights = np.exp(np.stack(alpha) + np.stack(beta) - log_likelihood)
    one_hot = np.eye(V)[extended]
    return float(-log_likelihood), y - weights @ one_hot


@_wrong("ctc gradient is the softmax where no path exists", "ctc", "logits",
        "If the target does not fit into the frames, or is masked, all posteriors are 0, and the formula softmax minus "
        "occupancy leaves the softmax. The loss is inf as it should be, but the gradient should be 0.")
def ctc_gradient_without_path(scores, targets, *, blank):
    T, V = scores.shape
    ext = [blank] + [x for label in targets for x in (label, blank)]
    S = len(ext)
    m = scores.max(axis=1)
    m[m == -np.inf] = 0.0
    probs = np.exp(scores - m[:, None])
    norm = probs.sum(axis=1)
    norm[norm == 0.0] = 1.0
    probs /= norm[:, None]
    log_p = scores - (m + np.log(norm))[:, None]

    def sources(t, s):
        if t == 0:
            return []
        return [r for r in (s, s - 1, s - 2) if r >= 0 and (r > s - 2 or ext[r] != ext[s])]

    # forward
    alpha = np.full((T, S), -np.inf)
    alpha[0, :2] = 0.0
    for t in range(T):
        for s in range(S):
            for r in sources(t, s):
                alpha[t, s] = np.logaddexp(alpha[t, s], alpha[t - 1, r])
            alpha[t, s] += log_p[t, ext[s]]
    ends = range(max(S - 2, 0), S)
    log_z = np.logaddexp.reduce([alpha[T - 1, s] for s in ends])

    # reverse: d log_z / d alpha, by the chain rule of logaddexp
    d_alpha = np.zeros((T, S))
    occupancy = np.zeros((T, V))
    for s in ends:
        if log_z > -np.inf:
            d_alpha[T - 1, s] = np.exp(alpha[T - 1, s] - log_z)
    for t in range(T - 1, -1, -1):
        for s in range(S):
            if d_alpha[t, s] == 0.0:
                continue
            occupancy[t, ext[s]] += d_alpha[t, s]
            inside = alpha[t, s] - log_p[t, ext[s]]
            for r in sources(t, s):
                d_alpha[t - 1, r] += d_alpha[t, s] * np.exp(alpha[t - 1, r] - inside)
    return float(0.0 - log_z), probs - occupancy


# RNN-T

@_wrong("rnnt reads label arcs one row too low", "rnnt", "log_probs",
        "The log-prob of the label that leads from u to u + 1 is taken from row u + 1, after the prediction network "
        "has seen that label, instead of row u. The gradient goes to those rows as well.")
def rnnt_rows(scores, targets, *, blank):
    T, rows, V = scores.shape
    U = rows - 1
    at = np.arange(1, U + 1)
    log_blank = scores[:, :, blank]
    log_label = np.full((T, U + 1), -np.inf)
    log_label[:, :U] = scores[:, at, targets]

    def diagonals():
        for n in range(T + U):
            t = np.arange(max(0, n - U), min(T - 1, n) + 1)
            yield t, n - t

    alpha = np.full((T, U + 1), -np.inf)
    for t, u in diagonals():
        if t[0] == 0 and u[0] == 0:
            alpha[0, 0] = 0.0
            continue
        by_blank = np.where(t > 0, alpha[t - 1, u] + log_blank[t - 1, u], -np.inf)
        by_label = np.where(u > 0, alpha[t, u - 1] + log_label[t, u - 1], -np.inf)
        alpha[t, u] = np.logaddexp(by_blank, by_label)

    beta = np.full((T + 1, U + 2), -np.inf)
    beta[T, U] = 0.0
    for t, u in reversed(list(diagonals())):
        beta[t, u] = np.logaddexp(log_blank[t, u] + beta[t + 1, u], log_label[t, u] + beta[t, u + 1])
    log_z = beta[0, 0]
    gradient = np.zeros((T, U + 1, V))
    if log_z == -np.inf:
        return np.inf, gradient
    gradient[:, :, blank] -= np.exp(alpha + log_blank + beta[1:, :-1] - log_z)
    gradient[:, at, targets] -= np.exp(alpha + log_label + beta[:-1, 1:] - log_z)[:, :U]
    return float(-log_z), gradient


@_wrong("rnnt leaves out the last blank", "rnnt", "log_probs",
        "An alignment ends as soon as it reaches the last frame with all labels. The blank that leaves the last node "
        "is missing from the likelihood, and its entry of the gradient is 0.")
def rnnt_no_last_blank(scores, targets, *, blank):
    T, U1, V = scores.shape
    log_alpha = np.full((T, U1), -np.inf)
    log_alpha[0, 0] = 0.0
    for t in range(T):
        for u in range(U1):
            if t > 0:
                log_alpha[t, u] = np.logaddexp(log_alpha[t, u], log_alpha[t - 1, u] + scores[t - 1, u, blank])
            if u > 0:
                log_alpha[t, u] = np.logaddexp(log_alpha[t, u], log_alpha[t, u - 1] + scores[t, u - 1, targets[u - 1]])
    log_like = log_alpha[T - 1, U1 - 1]
    grad = np.zeros((T, U1, V))
    if log_like == -np.inf:
        return np.inf, grad

    log_beta = np.full((T, U1), -np.inf)
    log_beta[T - 1, U1 - 1] = 0.0
    for t in reversed(range(T)):
        for u in reversed(range(U1)):
            if t < T - 1:
                step = scores[t, u, blank] + log_beta[t + 1, u]
                log_beta[t, u] = np.logaddexp(log_beta[t, u], step)
                grad[t, u, blank] = -np.exp(log_alpha[t, u] + step - log_like)
            if u < U1 - 1:
                step = scores[t, u, targets[u]] + log_beta[t, u + 1]
                log_beta[t, u] = np.logaddexp(log_beta[t, u], step)
                grad[t, u, targets[u]] = -np.exp(log_alpha[t, u] + step - log_like)
    return float(0.0 - log_like), grad


@_wrong("rnnt gradient misses the last blank", "rnnt", "logits",
        "The kernel that fills the gradient subtracts the posterior of a blank only where there is a next frame. The "
        "last blank, out of node (T-1, U), has none, and its posterior of 1 is never subtracted. The loss is right.")
def rnnt_gradient_last_blank(scores, targets, *, blank):
    maxT, maxU, alphabet_size = scores.shape
    acts = scores.ravel()
    denom = np.full(maxT * maxU, -np.inf)
    for col in range(maxT * maxU):
        for v in range(alphabet_size):
            denom[col] = np.logaddexp(denom[col], acts[col * alphabet_size + v])

    def logp(t, u, v):
        x = acts[(t * maxU + u) * alphabet_size + v]
        return x if x == -np.inf else x - denom[t * maxU + u]

    alphas = np.full(maxT * maxU, -np.inf)
    betas = np.full(maxT * maxU, -np.inf)
    alphas[0] = 0.0
    for t in range(maxT):
        for u in range(maxU):
            if t > 0:
                no_emit = alphas[(t - 1) * maxU + u] + logp(t - 1, u, blank)
                alphas[t * maxU + u] = np.logaddexp(alphas[t * maxU + u], no_emit)
            if u > 0:
                emit = alphas[t * maxU + u - 1] + logp(t, u - 1, targets[u - 1])
                alphas[t * maxU + u] = np.logaddexp(alphas[t * maxU + u], emit)
    betas[maxT * maxU - 1] = logp(maxT - 1, maxU - 1, blank)
    for t in range(maxT - 1, -1, -1):
        for u in range(maxU - 1, -1, -1):
            if t < maxT - 1:
                no_emit = betas[(t + 1) * maxU + u] + logp(t, u, blank)
                betas[t * maxU + u] = np.logaddexp(betas[t * maxU + u], no_emit)
            if u < maxU - 1:
                emit = betas[t * maxU + u + 1] + logp(t, u, targets[u])
                betas[t * maxU + u] = np.logaddexp(betas[t * maxU + u], emit)
    logll = betas[0]

    grads = np.zeros(maxT * maxU * alphabet_size)
    for tid in range(maxT * maxU * alphabet_size if logll > -np.inf else 0):
        col, v = divmod(tid, alphabet_size)
        t, u = divmod(col, maxU)
        logpk = logp(t, u, v)
        grad = np.exp(alphas[col] + betas[col] + logpk - logll)
        if v == blank and t < maxT - 1:
            grad -= np.exp(alphas[col] + logpk + betas[col + maxU] - logll)
        if u < maxU - 1 and v == targets[u]:
            grad -= np.exp(alphas[col] + logpk + betas[col + 1] - logll)
        grads[tid] = grad
    return float(0.0 - logll), grads.reshape(scores.shape)


@_wrong("rnnt softmax term without the node's occupancy", "rnnt", "logits",
        "The gradient is softmax minus the posteriors of the arcs, the formula of CTC. In RNN-T the softmax of each "
        "node has to be multiplied by the probability that an alignment passes that node.")
def rnnt_softmax_term(scores, targets, *, blank):
    peak = scores.max(axis=-1, keepdims=True)
    peak = np.where(peak == -np.inf, 0.0, peak)
    exps = np.exp(scores - peak)
    mass = exps.sum(axis=-1, keepdims=True)
    mass = np.where(mass == 0.0, 1.0, mass)
    softmax, log_probs = exps / mass, scores - peak - np.log(mass)
    T, U = len(scores), len(targets)

    @cache
    def alpha(t, u):
        """Log-probability to get to (t, u)."""
        if t == 0 and u == 0:
            return 0.0
        ways = []
        if t > 0:
            ways.append(alpha(t - 1, u) + log_probs[t - 1, u, blank])
        if u > 0:
            ways.append(alpha(t, u - 1) + log_probs[t, u - 1, targets[u - 1]])
        return np.logaddexp.reduce(ways)

    @cache
    def beta(t, u):
        """Log-probability to finish from (t, u)."""
        if t == T:
            return 0.0 if u == U else -np.inf
        ways = [log_probs[t, u, blank] + beta(t + 1, u)]
        if u < U:
            ways.append(log_probs[t, u, targets[u]] + beta(t, u + 1))
        return np.logaddexp.reduce(ways)

    log_z = beta(0, 0)
    if log_z == -np.inf:
        return np.inf, np.zeros(scores.shape)
    posteriors = np.zeros(scores.shape)
    for t in range(T):
        for u in range(U + 1):
            posteriors[t, u, blank] = np.exp(alpha(t, u) + log_probs[t, u, blank] + beta(t + 1, u) - log_z)
            if u < U:
                label = targets[u]
                posteriors[t, u, label] = np.exp(alpha(t, u) + log_probs[t, u, label] + beta(t, u + 1) - log_z)
    return float(-log_z), softmax - posteriors


@_wrong("rnnt gradient of blanks goes to symbol 0", "rnnt", "log_probs",
        "Loss and recursions use the blank they are given, but the gradient of the blank arcs is written to symbol 0, "
        "a constant left from a version in which the blank was always 0. Where label 0 comes next, it writes over it.")
def rnnt_gradient_constant_blank(scores, targets, *, blank):
    def forward_pass(log_probs, labels, blank):
        T, U, _ = log_probs.shape
        alphas = np.zeros((T, U))
        for t in range(1, T):
            alphas[t, 0] = alphas[t - 1, 0] + log_probs[t - 1, 0, blank]
        for u in range(1, U):
            alphas[0, u] = alphas[0, u - 1] + log_probs[0, u - 1, labels[u - 1]]
        for t in range(1, T):
            for u in range(1, U):
                no_emit = alphas[t - 1, u] + log_probs[t - 1, u, blank]
                emit = alphas[t, u - 1] + log_probs[t, u - 1, labels[u - 1]]
                alphas[t, u] = np.logaddexp(emit, no_emit)
        return alphas, alphas[T - 1, U - 1] + log_probs[T - 1, U - 1, blank]

    def backward_pass(log_probs, labels, blank):
        T, U, _ = log_probs.shape
        betas = np.zeros((T, U))
        betas[T - 1, U - 1] = log_probs[T - 1, U - 1, blank]
        for t in reversed(range(T - 1)):
            betas[t, U - 1] = betas[t + 1, U - 1] + log_probs[t, U - 1, blank]
        for u in reversed(range(U - 1)):
            betas[T - 1, u] = betas[T - 1, u + 1] + log_probs[T - 1, u, labels[u]]
        for t in reversed(range(T - 1)):
            for u in reversed(range(U - 1)):
                no_emit = betas[t + 1, u] + log_probs[t, u, blank]
                emit = betas[t, u + 1] + log_probs[t, u, labels[u]]
                betas[t, u] = np.logaddexp(emit, no_emit)
        return betas

    def compute_gradient(log_probs, alphas, betas, log_like, labels, blank):
        T, U, _ = log_probs.shape
        grads = np.full(log_probs.shape, -np.inf)
        grads[T - 1, U - 1, 0] = alphas[T - 1, U - 1]
        grads[:T - 1, :, 0] = alphas[:T - 1, :] + betas[1:, :]
        arcs = np.full(log_probs.shape, -np.inf)
        arcs[:, :, 0] = log_probs[:, :, blank]
        for u, label in enumerate(labels):
            grads[:, u, label] = alphas[:, u] + betas[:, u + 1]
            arcs[:, u, label] = log_probs[:, u, label]
        return -np.exp(grads + arcs - log_like)

    alphas, log_like = forward_pass(scores, targets, blank)
    if log_like == -np.inf:
        return np.inf, np.zeros(scores.shape)
    betas = backward_pass(scores, targets, blank)
    return float(-log_like), compute_gradient(scores, alphas, betas, log_like, targets, blank)


@_wrong("rnnt empty target costs nothing", "rnnt", "logits",
        "An utterance without labels returns early with loss 0 and gradient 0, as if there was nothing to learn. Its "
        "loss is that of T blanks.")
def rnnt_empty_target(scores, targets, *, blank):
    if len(targets) == 0:
        return 0.0, np.zeros(scores.shape)

    T, rows, _ = scores.shape
    biggest = scores.max(-1, keepdims=True)
    biggest[biggest == -np.inf] = 0
    sums = np.exp(scores - biggest).sum(-1, keepdims=True)
    sums[sums == 0] = 1
    log_probs = scores - biggest - np.log(sums)

    # an acceptor: state t * rows + u, and one more in which everything ends
    end = T * rows
    arcs = []  # in topological order of their sources
    for t in range(T):
        for u in range(rows):
            state = t * rows + u
            if u + 1 < rows:
                arcs.append((state, state + 1, (t, u, targets[u])))
            if t + 1 < T:
                arcs.append((state, state + rows, (t, u, blank)))
            elif u + 1 == rows:
                arcs.append((state, end, (t, u, blank)))
    forward = np.full(end + 1, -np.inf)
    forward[0] = 0.0
    for source, target, entry in arcs:
        forward[target] = np.logaddexp(forward[target], forward[source] + log_probs[entry])
    backward = np.full(end + 1, -np.inf)
    backward[end] = 0.0
    for source, target, entry in reversed(arcs):
        backward[source] = np.logaddexp(backward[source], log_probs[entry] + backward[target])

    total = forward[end]
    gradient = np.zeros(scores.shape)
    if total == -np.inf:
        return np.inf, gradient
    for source, target, entry in arcs:
        posterior = np.exp(forward[source] + log_probs[entry] + backward[target] - total)
        gradient[entry] -= posterior
        gradient[entry[:2]] += posterior * np.exp(log_probs[entry[:2]])
    return float(-total), gradient


@_wrong("rnnt log-add of two impossible paths is NaN", "rnnt", "log_probs",
        "The hand-written log-add takes the difference of its arguments without a look at them. Where both are -inf, "
        "at a node that masks have made unreachable, it returns NaN, which spreads to the loss and the gradient.")
def rnnt_log_add(scores, targets, *, blank):
    T, U, V = scores.shape[0], len(targets), scores.shape[2]

    def log_add(a, b):
        larger = max(a, b)
        return larger + math.log1p(math.exp(-abs(a - b)))

    lp = scores.tolist()
    alpha = [[0.0] * (U + 1) for _ in range(T)]
    for u in range(1, U + 1):
        alpha[0][u] = alpha[0][u - 1] + lp[0][u - 1][targets[u - 1]]
    for t in range(1, T):
        alpha[t][0] = alpha[t - 1][0] + lp[t - 1][0][blank]
        for u in range(1, U + 1):
            skip = alpha[t - 1][u] + lp[t - 1][u][blank]
            emit = alpha[t][u - 1] + lp[t][u - 1][targets[u - 1]]
            alpha[t][u] = log_add(skip, emit)

    beta = [[0.0] * (U + 1) for _ in range(T)]
    beta[T - 1][U] = lp[T - 1][U][blank]
    for u in range(U - 1, -1, -1):
        beta[T - 1][u] = lp[T - 1][u][targets[u]] + beta[T - 1][u + 1]
    for t in range(T - 2, -1, -1):
        beta[t][U] = lp[t][U][blank] + beta[t + 1][U]
        for u in range(U - 1, -1, -1):
            beta[t][u] = log_add(lp[t][u][blank] + beta[t + 1][u], lp[t][u][targets[u]] + beta[t][u + 1])

    log_likelihood = alpha[T - 1][U] + lp[T - 1][U][blank]
    gradient = np.zeros((T, U + 1, V))
    if log_likelihood == -math.inf:
        return math.inf, gradient
    for t in range(T):
        for u in range(U + 1):
            if t < T - 1:
                gradient[t, u, blank] = -math.exp(alpha[t][u] + lp[t][u][blank] + beta[t + 1][u] - log_likelihood)
            if u < U:
                k = targets[u]
                gradient[t, u, k] = -math.exp(alpha[t][u] + lp[t][u][k] + beta[t][u + 1] - log_likelihood)
    gradient[T - 1, U, blank] = -math.exp(alpha[T - 1][U] + lp[T - 1][U][blank] - log_likelihood)
    return -log_likelihood, gradient


@_wrong("rnnt loss is divided by the frames", "rnnt", "logits",
        "The loss that is returned is divided by the number of frames T, and the gradient is not: it is that of the "
        "sum. The two belong to different losses as soon as there are two frames.")
def rnnt_per_frame(scores, targets, *, blank):
    normaliser = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    normalised = scores - np.where(normaliser == -np.inf, 0.0, normaliser)
    T, S = len(scores), len(targets)
    # px[s, t]: symbol s at frame t, none at T; py[s, t]: termination symbol (the blank) after s symbols
    px = np.full((S, T + 1), -np.inf)
    for s in range(S):
        px[s, :T] = normalised[:, s, targets[s]]
    py = normalised[:, :, blank].T.copy()

    p = np.full((S + 1, T + 1), -np.inf)
    p[0, 0] = 0.0
    for s in range(S + 1):
        for t in range(T + 1):
            if s > 0:
                p[s, t] = np.logaddexp(p[s, t], p[s - 1, t] + px[s - 1, t])
            if t > 0:
                p[s, t] = np.logaddexp(p[s, t], p[s, t - 1] + py[s, t - 1])
    score = p[S, T]
    if score == -np.inf:
        return np.inf, np.zeros(scores.shape)

    p_grad = np.zeros((S + 1, T + 1))
    px_grad, py_grad = np.zeros((S, T + 1)), np.zeros((S + 1, T))
    p_grad[S, T] = 1.0
    for s in range(S, -1, -1):
        for t in range(T, -1, -1):
            if s < S and p_grad[s + 1, t] > 0:
                px_grad[s, t] = p_grad[s + 1, t] * np.exp(p[s, t] + px[s, t] - p[s + 1, t])
                p_grad[s, t] += px_grad[s, t]
            if t < T and p_grad[s, t + 1] > 0:
                py_grad[s, t] = p_grad[s, t + 1] * np.exp(p[s, t] + py[s, t] - p[s, t + 1])
                p_grad[s, t] += py_grad[s, t]

    loss = -score / T
    used = np.zeros(scores.shape)
    used[:, :, blank] = py_grad.T
    for s in range(S):
        used[:, s, targets[s]] += px_grad[s, :T]
    grad = np.exp(normalised) * used.sum(-1, keepdims=True) - used
    return float(loss), grad


@_wrong("rnnt reverse pass overwrites", "rnnt", "logits",
        "In the hand-written reverse pass two arcs lead out of a node, and their contributions to its adjoint have to "
        "be added. The one of the label arc is assigned instead, so that of the blank arc is lost.")
def rnnt_overwritten_adjoint(scores, targets, *, blank):
    # x -> log-softmax
    top = scores.max(-1, keepdims=True)
    shift = np.where(np.isneginf(top), 0.0, top)
    norm = np.exp(scores - shift).sum(-1, keepdims=True)
    lp = scores - shift - np.log(np.where(norm == 0, 1.0, norm))

    # -> alpha -> loss; what each arc brings is kept for the way back
    T, U = len(lp), len(targets)
    alpha = np.full((T, U + 1), -np.inf)
    blank_in = np.full((T, U + 1), -np.inf)
    label_in = np.full((T, U + 1), -np.inf)
    alpha[0, 0] = 0.0
    for t in range(T):
        for u in range(U + 1):
            if t > 0:
                blank_in[t, u] = alpha[t - 1, u] + lp[t - 1, u, blank]
            if u > 0:
                label_in[t, u] = alpha[t, u - 1] + lp[t, u - 1, targets[u - 1]]
            if t > 0 or u > 0:
                alpha[t, u] = np.logaddexp(blank_in[t, u], label_in[t, u])
    loss = 0.0 - (alpha[T - 1, U] + lp[T - 1, U, blank])
    if loss == np.inf:
        return loss, np.zeros_like(lp)

    # and back
    d_lp = np.zeros_like(lp)
    d_alpha = np.zeros_like(alpha)
    d_alpha[T - 1, U] = -1.0
    d_lp[T - 1, U, blank] = -1.0
    for t in reversed(range(T)):
        for u in reversed(range(U + 1)):
            if alpha[t, u] == -np.inf:
                continue
            if t > 0:
                d = d_alpha[t, u] * np.exp(blank_in[t, u] - alpha[t, u])
                d_alpha[t - 1, u] += d
                d_lp[t - 1, u, blank] += d
            if u > 0:
                d = d_alpha[t, u] * np.exp(label_in[t, u] - alpha[t, u])
                d_alpha[t, u - 1] = d
                d_lp[t, u - 1, targets[u - 1]] += d
    return float(loss), d_lp - np.exp(lp) * d_lp.sum(-1, keepdims=True)


@_wrong("rnnt first frame emits no labels", "rnnt", "logits",
        "The first frame of alpha is initialised at u = 0 only, and the recursion starts at the second frame. No "
        "alignment can emit a label in the first frame, and with one frame no label can be emitted at all. Beta has "
        "these arcs, so the gradient, made of both, belongs to neither loss.")
def rnnt_first_frame(scores, targets, *, blank):
    # probabilities, each frame of alpha rescaled to sum 1; long doubles, which go down to e-4000
    x = scores.astype(np.longdouble)
    x = np.exp(x - np.maximum(x.max(axis=2, keepdims=True), np.finfo(np.longdouble).min))
    y = x / np.maximum(x.sum(axis=2, keepdims=True), np.finfo(np.longdouble).tiny)
    T, U = len(y), len(targets)
    stay = y[:, :, blank]
    emit = y[:, np.arange(U), targets]

    alpha = np.zeros((T, U + 1), dtype=np.longdouble)
    alpha[0, 0] = 1.0
    log_likelihood = np.longdouble(0.0)
    for t in range(1, T):
        alpha[t] = alpha[t - 1] * stay[t - 1]
        for u in range(U):
            alpha[t, u + 1] += alpha[t, u] * emit[t, u]
        scale = alpha[t].sum()
        if scale == 0.0:
            return np.inf, np.zeros(scores.shape)
        alpha[t] /= scale
        log_likelihood += np.log(scale)
    last = alpha[T - 1, U] * stay[T - 1, U]
    if last == 0.0:
        return np.inf, np.zeros(scores.shape)
    log_likelihood += np.log(last)

    posterior = np.zeros(y.shape, dtype=np.longdouble)
    after = np.zeros(U + 1, dtype=np.longdouble)
    after[U] = 1.0
    for t in range(T - 1, -1, -1):
        leaving = alpha[t] * stay[t] * after
        beta = stay[t] * after
        for u in range(U - 1, -1, -1):
            beta[u] += emit[t, u] * beta[u + 1]
        frame = leaving.sum()  # each alignment leaves a frame once
        posterior[t, :, blank] = leaving / frame
        posterior[t, np.arange(U), targets] = alpha[t, :U] * emit[t] * beta[1:] / frame
        after = beta / beta.sum()
    gradient = y * posterior.sum(axis=2, keepdims=True) - posterior
    return float(-log_likelihood), gradient.astype(np.float64)
