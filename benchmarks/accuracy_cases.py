"""Logits of four kinds for utterances up to T = 10,000, on which the accuracy of a lattice is studied, and posteriors.

`accuracy.py` compares kinds of numbers on them, `gpu_stages/accuracy.py` the kernels on a device.
"""

import numpy as np

from reference_impl.measuring.number_types import ctc_posteriors, rnnt_posteriors

SIZES = [(100, 20), (300, 60), (1000, 200), (3000, 600), (10000, 1000)]
FAMILIES = ("flat", "trained", "blank-collapsed", "wrong but confident")


def rnnt_logits(family, T, U, rng):
    """Logits (T, U+1, 2) of blank and next label, and the log-sum-exp of all other symbols: a number, or (T, U+1)."""
    noise = rng.standard_normal((T, U + 1, 2))
    t, u = np.arange(T)[:, None], np.arange(U + 1)
    if family == "flat":
        return 0.1 * noise, np.log(1022)
    if family == "blank-collapsed":
        return noise * [0.001, 0.5] + [np.log(0.99 * 1022 / 0.01), 0.0], np.log(1022)
    ahead = (t + 0.5) * U / T - u  # labels by which the node lags behind an even pace
    sure = 6 * np.tanh(ahead)
    if family == "wrong but confident":  # at the right pace, of other labels
        return noise * 0.3 + np.stack([-sure, np.full_like(sure, -6.0)], -1), sure
    return noise * 0.3 + np.stack([-sure, sure], -1), 0.0


def rnnt_log_probs(logits, rest):
    """Log-probs (T, U+1) of blank and label in float64, whatever type the logits have been rounded to."""
    logits = logits.astype(np.float64)
    log_mass = np.logaddexp(np.logaddexp(logits[..., 0], logits[..., 1]), rest)
    return logits[..., 0] - log_mass, logits[..., 1] - log_mass


def ctc_logits(family, T, U, rng, V=32):
    """Logits (T, V) and a target with some repeats."""
    targets = rng.integers(1, V, U)
    targets[1::7] = targets[::7][:len(targets[1::7])]
    logits = rng.standard_normal((T, V))
    if family == "flat":
        return 0.1 * logits, targets
    if family == "blank-collapsed":
        logits[:, 0] = np.log(99 * (V - 1))
        return logits * [0.1 if k else 1.0 for k in range(V)], targets
    spoken = targets if family == "trained" else targets[::-1]
    position = (np.arange(T) * U) // T
    sounds = (np.arange(T) * U / T - position) < 0.4  # a label for a while, then blank
    logits[np.arange(T), np.where(sounds, spoken[position], 0)] += 8
    return logits, targets


def rnnt_arcs(log_probs, **options):
    """Log Z, and the posteriors (2, T, U+1) of blank and label arcs, of what `rnnt_log_probs` returns."""
    log_z, e_blank, e_label = rnnt_posteriors(*log_probs, **options)
    return log_z, np.stack([e_blank, e_label])


def ctc_occupancy(log_probs, targets, **options):
    """Log Z, and the posteriors (T, V) by symbol, which is what torch returns, too."""
    log_z, blanks, labels = ctc_posteriors(log_probs, targets, **options)
    total = np.zeros(log_probs.shape)
    total[:, 0] = blanks.sum(1)
    for u, k in enumerate(targets):
        total[:, k] += labels[:, u]
    return log_z, total
