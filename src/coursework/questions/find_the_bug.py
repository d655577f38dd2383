"""Assignment 5: five gradients that somebody complains about, and what tells them from right ones."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl import batched, ctc
from reference_impl._validation import check_batch_values, check_blank, check_log_probs, check_targets
from reference_impl.conformance import ctc_mistakes

from .checks import (
    FAILS_EVERYTHING,
    NO_FACTOR,
    TOO_SMALL,
    TURNED_ROUND,
    Trial,
    lets_pass,
    passes_everything,
    question_of,
)

__all__ = ["QUESTIONS"]


# --- gradients, with a place for each bug ---


def gradient(logits, targets, blank, *, of="logits", kept=np.sum, ends=(1, 2), begin=2, lattice_blank=None,
             skip_blank=None, column=None):
    """Belief minus occupancy of one utterance, (T, V)."""
    if not len(logits):
        return np.zeros(np.shape(logits))
    log_probs, z = _log_softmax(logits), ctc_mistakes.extended(targets, blank)
    inner = blank if lattice_blank is None else lattice_blank
    lattice = {"log_probs": log_probs, "targets": targets, "blank": inner}
    if skip_blank is not None:
        lattice["skip"] = lambda s: z[s] != skip_blank and z[s] != z[s - 2]
    alpha = ctc_mistakes.alpha(**lattice, begin=begin)
    mass = alpha + ctc_mistakes.beta(**lattice, ends=ends if len(targets) else (1,))
    log_z = np.logaddexp.reduce(mass[0])
    y, used = np.exp(log_probs), np.zeros(np.shape(logits))
    if log_z > -np.inf:
        states = np.exp(mass - log_z)
        used[:, inner if column is None else column] += states[:, ::2].sum(axis=1)
        for label in set(map(int, targets)):
            used[:, label] += kept(states[:, [s for s in range(1, len(z), 2) if z[s] == label]], axis=1)
    else:
        y = np.zeros_like(y)
    if of == "logits":
        return y - used
    return -used if of == "log_probs" else -np.divide(used, y, out=np.zeros_like(y), where=y > 0)


def _log_softmax(logits):
    """Also of what nobody has looked at: a frame of masks stays one, and NaN stays NaN."""
    return logits - np.maximum(np.logaddexp.reduce(logits, axis=-1, keepdims=True), np.finfo(float).min)


def _first(states, axis):
    return states[:, 0]


def _last(states, axis):
    return states[:, -1]


def batch_gradient(logits, targets, logit_lengths, target_lengths, blank, *, padding="0", frames="own", labels="own"):
    """Each utterance of a batch, (B, T, V)."""
    found = np.zeros(logits.shape)
    for b, (T, U) in enumerate(zip(logit_lengths, target_lengths, strict=True)):
        read = len(logits[b]) if frames == "all" else T
        own = np.clip(targets[b], 0, logits.shape[2] - 1) if labels == "all" else targets[b, :U]
        found[b, :read] = gradient(logits[b, :read], own, blank)
        if padding != "0":
            found[b, T:] = np.exp(_log_softmax(logits[b, T:])) * (padding == "softmax")
    return found


def _reference_in_batches(logits, targets, logit_lengths, target_lengths, blank):
    return batched.ctc_loss(logits, targets, logit_lengths, target_lengths, blank=blank)[1]


# --- the same numbers by other hands ---


def _exact(found):
    """To the next multiple of 2^-44, with frames that add up to 0 without any rounding."""
    found = np.round(found * 2.0**44)
    found[..., 0] -= found.sum(axis=-1)
    return found * 2.0**-44


def _as_it_is(found):
    return found


def _rounded(seed, found):
    """Each entry off by about 1e-12 of itself, in its own way for each number of entries."""
    return found * (1 + 1e-12 * np.random.default_rng([seed, found.size]).uniform(-1, 1, found.shape))


def _rounding(rng):
    """Wrong gradients are rounded or not, too: it is no sign of anything."""
    return partial(_rounded, int(rng.integers(2**31))) if rng.integers(2) else _as_it_is


def _of_utterances(inner, after=_as_it_is, factor=1.0):
    """What a student calls: the arguments are looked at, and the result is multiplied and rounded."""
    def called(logits, targets, blank):
        logits = check_log_probs("logits", np.asarray(logits, dtype=float), 2, "(T, V)")
        blank = check_blank(blank, logits.shape[1])
        return after(factor * inner(logits, check_targets(_ints(targets), logits.shape[1], blank), blank))

    return called


def _of_batches(inner, after=_as_it_is):
    def called(logits, targets, logit_lengths, target_lengths, blank):
        logits, targets = np.asarray(logits, dtype=float), _ints(targets)
        if logits.ndim != 3 or targets.ndim != 2:
            raise ValueError(f"logits and targets of shapes {logits.shape} and {targets.shape}; expected (B, T, V) and "
                             "(B, U)")
        lengths = _ints(logit_lengths), _ints(target_lengths)
        if any(len(each) != len(logits) for each in (targets, *lengths)):
            raise ValueError("expected as many targets, logit_lengths and target_lengths as utterances")
        blank = check_blank(blank, logits.shape[2])
        check_batch_values(targets, *lengths, logits.shape[1], logits.shape[2], blank, 0)
        for b, T in enumerate(lengths[0]):
            check_log_probs(f"logits[{b}]", logits[b, :T], 2, "(T, V)")
        return after(inner(logits, targets, *lengths, blank))

    return called


def _ints(values):
    values = np.asarray(values)
    return values.astype(np.int64) if values.size == 0 else values


def _wrong(wrap, inner, factor=None, **switches):
    """A function of a generator that makes the gradient with these switches, in some rounding."""
    def make(rng):
        scale = {"factor": factor(rng)} if factor else {}
        return wrap(partial(inner, **switches), after=_rounding(rng), **scale)

    return make


def _right(wrap, inner, reference, factor=None):
    """Ways to be right: without rounding, as it comes, by another program, rounded otherwise, and multiplied."""
    ways = [
        (TOO_SMALL, lambda rng: wrap(inner, after=_exact)),
        (TOO_SMALL, lambda rng: wrap(inner)),
        (TOO_SMALL, lambda rng: wrap(reference)),
        (TOO_SMALL, lambda rng: wrap(inner, after=partial(_rounded, int(rng.integers(2**31))))),
    ]
    if factor:
        ways.append((NO_FACTOR, lambda rng: wrap(inner, factor=factor(rng))))
    return ways


def _reference(logits, targets, blank):
    return ctc.grad_logits(logits, targets, blank=blank)


def _small(rng):
    return float(10 ** rng.uniform(-3, -2))


def _large(rng):
    return float(10 ** rng.uniform(0.5, 1))


def _any(rng):
    return float(10 ** rng.uniform(-3, 1))


# --- why a check does not see the bug ---


def _blind_to_sums(heard):
    return "what does each frame of a gradient with respect to logits satisfy, whatever the loss is multiplied by?"


def _blind_to_repeats(heard):
    if not any(len(set(np.ravel(call["targets"]).tolist())) < np.size(call["targets"]) for call in heard):
        return "none of its targets has a label twice."
    return "it asks with targets that have a label twice, and does not look at what then goes wrong."


def _blind_to_ends(heard):
    return ("what it asks for holds for this bug, too: it is the true gradient of another loss. Compare with the loss "
            "that you are given.")


def _blind_to_blanks(heard):
    if not any(call["blank"] for call in heard):
        return "it asks with blank 0 only."
    return "it asks with another blank, but for what holds for this bug, too. Compare with the loss that you are given."


def _blind_to_padding(heard):
    if not any(len(set(np.ravel(call["logit_lengths"]).tolist())) > 1 for call in heard):
        return "in its batches all utterances are equally long."
    return "its batches have padding, and it does not look there."


# --- checks ---


LOGITS = np.random.default_rng(5).normal(size=(5, 4))


def _off(gradient, targets, blank, logits=LOGITS):
    """How far a gradient is from the right one, entry by entry."""
    return gradient(logits, targets, blank) - ctc.grad_logits(logits, np.array(targets), blank=blank)


def _no_sum(gradient, targets, blank=0, atol=1e-9, frames=slice(None)):
    """Whether the frames add up to 0, with a tolerance that goes with the size of the entries."""
    found = gradient(LOGITS, targets, blank)
    return bool(np.all(abs(found.sum(axis=1))[frames] <= atol * abs(found).max()))


def _agrees(gradient, targets, blank, atol=1e-8, symbols=slice(None)):
    return bool(np.all(abs(_off(gradient, targets, blank))[:, symbols] <= atol))


def _blank_is_used_last(gradient):
    return bool(gradient(LOGITS, [1, 2], 0)[-1, 0] < np.exp(_log_softmax(LOGITS))[-1, 0] - 1e-8)


def _batch(gradient, fill=np.nan, lengths=(5, 3), labels=(2, 1), own=True, padding=np.abs, atol=1e-9):
    """Two utterances, the second shorter, as in the batch and as alone."""
    logits, targets = np.array([LOGITS, LOGITS[::-1]]), np.array([[1, 2], [3, 1]])
    logits[1, lengths[1]:] = fill
    found = gradient(logits, targets, np.array(lengths), np.array(labels), 0)
    off = [_off(lambda *_, b=b, T=T: found[b, :T], targets[b, :U], 0, logits[b, :T])
           for b, (T, U) in enumerate(zip(lengths, labels, strict=True))]
    return bool((not own or all(np.all(abs(each) <= atol) for each in off))
                and np.all(abs(padding(found[1, lengths[1]:])) <= atol))


def _nothing(seen):
    """A check that calls the gradient and says always the same."""
    def check(gradient):
        gradient(LOGITS, [1, 2], 0)
        return seen

    return check


def _no_batch(seen):
    def check(gradient):
        gradient(LOGITS[None], np.array([[1, 2]]), np.array([5]), np.array([2]), 0)
        return seen

    return check


_SUMS = Trial(
    bug=_wrong(_of_utterances, gradient, of="log_probs", factor=_large),
    forms={
        "It lets the bug pass where the gradient is small: its tolerance has to go with the size of the entries.":
            _wrong(_of_utterances, gradient, of="log_probs", factor=_small),
        "It lets another form of the bug pass: the gradient with respect to the probabilities.":
            _wrong(_of_utterances, gradient, of="probs", factor=_large),
    },
    right=_right(_of_utterances, gradient, _reference, factor=_any),
    blind=_blind_to_sums)
_REPEATS = Trial(
    bug=_wrong(_of_utterances, gradient, kept=_last),
    forms={
        "It lets another form of the bug pass: the first of two equal labels is kept, not the last.":
            _wrong(_of_utterances, gradient, kept=_first),
        "It lets another form of the bug pass: the larger share of two equal labels is kept.":
            _wrong(_of_utterances, gradient, kept=np.max),
    },
    right=_right(_of_utterances, gradient, _reference),
    blind=_blind_to_repeats)
_ENDS = Trial(
    bug=_wrong(_of_utterances, gradient, ends=(2,)),
    forms={
        "It lets another form of the bug pass: paths that end in the last label are missing.":
            _wrong(_of_utterances, gradient, ends=(1,)),
        "It lets another form of the bug pass: paths that begin with the first label are missing.":
            _wrong(_of_utterances, gradient, begin=1),
    },
    right=_right(_of_utterances, gradient, _reference),
    blind=_blind_to_ends)
_BLANKS = Trial(
    bug=_wrong(_of_utterances, gradient, lattice_blank=0),
    forms={
        "It lets another form of the bug pass, which shows only where symbol 0 comes behind another label.":
            _wrong(_of_utterances, gradient, skip_blank=0),
        "It lets another form of the bug pass: right paths, and the share of the blank is written to symbol 0.":
            _wrong(_of_utterances, gradient, column=0),
    },
    right=_right(_of_utterances, gradient, _reference),
    blind=_blind_to_blanks)
_PADDING = Trial(
    bug=_wrong(_of_batches, batch_gradient, padding="softmax"),
    forms={
        "It lets another form of the bug pass: a short utterance is read on, through its padding.":
            _wrong(_of_batches, batch_gradient, frames="all"),
        "It lets another form of the bug pass: the labels behind a short target are read, too.":
            _wrong(_of_batches, batch_gradient, labels="all"),
        "It lets another form of the bug pass, which shows only if the padding is not a number.":
            _wrong(_of_batches, batch_gradient, padding="times 0"),
    },
    right=_right(_of_batches, batch_gradient, _reference_in_batches),
    blind=_blind_to_padding)


def _mistakes(trial, *checks):
    """Checks by what is said of them, the forms' in their order."""
    return dict(zip(trial.forms, checks, strict=True))


QUESTIONS = [
    question_of("check_1", _SUMS, partial(_no_sum, targets=[1, 2]), {
        FAILS_EVERYTHING: _nothing(False),
        passes_everything(_blind_to_sums([])): _nothing(True),
        TOO_SMALL: partial(_no_sum, targets=[1, 2], atol=0.0),
        NO_FACTOR: partial(_agrees, targets=[1, 2], blank=0),
        **_mistakes(_SUMS, lambda gradient: bool(np.all(abs(gradient(LOGITS, [1, 2], 0).sum(axis=1)) < 0.1)),
                    lambda gradient: np.ptp(gradient(LOGITS, [1, 2], 0).sum(axis=1)) > 1e-7 or _no_sum(gradient, [1])),
    }),
    question_of("check_2", _REPEATS, partial(_no_sum, targets=[1, 2, 1]), {
        FAILS_EVERYTHING: _nothing(False),
        passes_everything(_blind_to_repeats([])): partial(_no_sum, targets=[1, 2]),
        TOO_SMALL: partial(_no_sum, targets=[1, 2, 1], atol=0.0),
        **_mistakes(_REPEATS, partial(_no_sum, targets=[1, 2, 1], frames=slice(1)),
                    partial(_no_sum, targets=[1, 2, 1], frames=[0, -1])),
    }),
    question_of("check_3", _ENDS, partial(_agrees, targets=[1, 2], blank=0), {
        FAILS_EVERYTHING: _nothing(False),
        passes_everything(_blind_to_ends([])): partial(_no_sum, targets=[1, 2]),
        TURNED_ROUND: lambda gradient: not _agrees(gradient, [1, 2], 0),
        TOO_SMALL: partial(_agrees, targets=[1, 2], blank=0, atol=1e-15),
        **_mistakes(_ENDS, _blank_is_used_last, _blank_is_used_last),
    }),
    question_of("check_4", _BLANKS, partial(_agrees, targets=[1, 0], blank=3), {
        FAILS_EVERYTHING: _nothing(False),
        passes_everything(_blind_to_blanks([])): partial(_agrees, targets=[1, 2], blank=0),
        passes_everything(_blind_to_blanks([{"blank": 3}])): partial(_no_sum, targets=[1, 0], blank=3),
        **_mistakes(_BLANKS, partial(_agrees, targets=[1, 2], blank=3),
                    partial(_agrees, targets=[1, 0], blank=3, symbols=1)),
    }),
    question_of("check_5", _PADDING, _batch, {
        FAILS_EVERYTHING: _no_batch(False),
        passes_everything(_blind_to_padding([])): partial(_batch, lengths=(5, 5), labels=(2, 2)),
        lets_pass(_blind_to_padding([{"logit_lengths": [1, 2]}])): partial(_batch, padding=np.zeros_like),
        **_mistakes(_PADDING, partial(_batch, own=False, padding=lambda found: found.sum(axis=1)),
                    partial(_batch, labels=(2, 2)), partial(_batch, fill=0.0)),
    }),
]
