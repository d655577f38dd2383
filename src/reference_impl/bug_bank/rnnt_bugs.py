"""The planted RNN-T bugs: one for each distinct way in which an RNN-T gradient is known to have gone wrong.

As in :mod:`.ctc_bugs`, each is the reference with one thing changed: a small model of a mechanism, not anybody's code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import rnnt
from .._softmax import log_softmax
from .._validation import check_targets
from ..as_published.mismatch import mismatch
from ..semiring import LOG, LOG32
from ..topology import rnnt_lattice
from .bank import Bug, entry_in, on_lattice, right_for

__all__ = ["RNNT_BUGS"]

RNNT_BUGS: list[Bug] = []
_bug = entry_in(RNNT_BUGS, "rnnt")


# What the right code computes, in pieces, so that a bug can change one of them.

def _rnnt(log_probs, targets, blank, semiring=LOG):
    """Alpha, beta, log Z, and the log-probs of the blank arcs (T, U+1) and the label arcs (T, U)."""
    log_probs, targets = log_probs.astype(semiring.dtype), check_targets(targets, log_probs.shape[2], blank)
    a = rnnt.alpha(log_probs, targets, blank=blank, semiring=semiring)
    b = rnnt.beta(log_probs, targets, blank=blank, semiring=semiring)
    log_z = rnnt.Z(log_probs, targets, blank=blank, semiring=semiring)
    return a, b, log_z, log_probs[..., blank], log_probs[:, np.arange(len(targets)), targets]


def _after_blank(b):
    """Beta of the node that each blank arc leads to; the last blank leads to the end."""
    after = np.vstack([b[1:], np.full_like(b[:1], -np.inf)])
    after[-1, -1] = 0.0
    return after


def _rnnt_gradient(e_blank, e_label, log_probs, targets, blank):
    """-occupancy, from the arc posteriors."""
    gradient = np.zeros(log_probs.shape)
    gradient[..., blank] -= e_blank
    gradient[:, np.arange(len(targets)), targets] -= e_label
    return gradient


# RNN-T: the arc posteriors.

@_bug("log_probs", "the arc's own log-prob missing",
      "asked in warp-transducer#69",
      "mass 1 in each frame or anti-diagonal",
      claim="warp-transducer-asked-formula",
      believed="Alpha before an arc and beta after it are enough; `log_probs` is superfluous in the exponent.",
      truth="A path is a prefix, the arc and a suffix: the posterior needs the masses of all three "
            "{eq}`eq-rnnt-label-arc`.")
def _(log_probs, targets, blank):
    """exp(alpha + beta(next) - log Z): prefix and suffix without the arc between them."""
    a, b, log_z, _, _ = _rnnt(log_probs, targets, blank)
    e_blank, e_label = np.exp(a + _after_blank(b) - log_z), np.exp(a[:, :-1] + b[:, 1:] - log_z)
    return -log_z, _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("log_probs", "-log Z missing",
      "constructed, from the question in warp-transducer#69",
      "mass 1 in each frame or anti-diagonal",
      claim="warp-transducer-asked-formula",
      believed="The product of alpha, arc and beta is the gradient; `-loglike` comes from nowhere.",
      truth="The derivative of $\\log Z$ is that of $Z$, divided by $Z$ {eq}`eq-rnnt-chain`.")
def _(log_probs, targets, blank):
    """Masses where posteriors belong: this is -dZ, not -d log Z."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    log_z = _rnnt(log_probs, targets, blank)[2]
    return -log_z, _rnnt_gradient(e_blank * np.exp(log_z), e_label * np.exp(log_z), log_probs, targets, blank)


@_bug("log_probs", "occupancy of the wrong node", "constructed", "finite differences, one random case")
def _(log_probs, targets, blank):
    """Beta is read at the node that the arc leaves, not at the one that it leads to."""
    a, b, log_z, blank_arc, label_arc = _rnnt(log_probs, targets, blank)
    e_blank, e_label = np.exp(a + blank_arc + b - log_z), np.exp(a[:, :-1] + label_arc + b[:, :-1] - log_z)
    return -log_z, _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("log_probs", "last blank forgotten",
      "constructed, from the question in warp-transducer#55",
      "mass 1 in each frame or anti-diagonal",
      claim="warp-transducer-asked-last, warp-transducer-last-blank",
      believed="For the last blank the kernel subtracts 1, where the formula has an exponential.",
      truth="Every path takes this arc, so the exponential is 1 {eq}`eq-kernels-last-node`; the bug is to "
            "subtract nothing.")
def _(log_probs, targets, blank):
    """The loop over blank arcs to (t+1, u) never meets the one that leaves the grid."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    e_blank[-1, -1] = 0.0
    return rnnt.loss(log_probs, targets, blank=blank), _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("log_probs", "blanks leave the grid in every row", "constructed, from the question in warp-transducer#55",
      "mass 1 in each frame or anti-diagonal", claim="warp-transducer-asked-last")
def _(log_probs, targets, blank):
    """In the last frame beta after a blank is taken as 1 for every u, not for u = U alone."""
    a, b, log_z, blank_arc, _ = _rnnt(log_probs, targets, blank)
    after = _after_blank(b)
    after[-1] = 0.0
    e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)[1]
    return -log_z, _rnnt_gradient(np.exp(a + blank_arc + after - log_z), e_label, log_probs, targets, blank)


@_bug("log_probs", "label of the next row", "constructed", "finite differences, one random case")
def _(log_probs, targets, blank):
    """The posterior of label u is written into the column of label u + 1."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    return (rnnt.loss(log_probs, targets, blank=blank),
            _rnnt_gradient(e_blank, e_label, log_probs, np.roll(targets, -1), blank))


@_bug("log_probs", "label arcs weigh a blank", "after monotonic-rnnt's README, which prints p(eps) where p(y) belongs",
      "loss is the path sum, every small target", claim="monotonic-rnnt-label-misprint")
def _(log_probs, targets, blank):
    """Every arc reads the blank's log-prob, consistently."""
    graph = rnnt_lattice(targets, len(log_probs), log_probs.shape[2], blank=blank)
    arcs = tuple(replace(arc, entry=(*arc.entry[:2], blank)) for arc in graph.arcs)
    return on_lattice(replace(graph, arcs=arcs), log_probs, False)


def _refusing_nothing(log_probs, targets, blank):
    """Arc posteriors and loss even if labels equal the blank: each such label gets a column of its own, a copy."""
    V = log_probs.shape[2]
    targets = check_targets(targets, V, blank=None)
    widened = np.dstack([log_probs, log_probs[..., blank]])
    renamed = np.where(targets == blank, V, targets)
    return (*rnnt.arc_posteriors(widened, renamed, blank=blank), rnnt.loss(widened, renamed, blank=blank))


@_bug("log_probs", "label overwrites blank",
      "after warp-transducer's CPU code (warp-transducer#93)",
      "a target equal to blank is refused",
      claim="warp-transducer-label-overwrites, warp-transducer-asked-difference",
      believed="CPU and GPU return different gradients, so one of them is wrong.",
      truth="The target contains the blank. Two arcs share an entry, the kernels differ in which they keep, and "
            "such a target means nothing ({ref}`label-is-blank`).")
def _(log_probs, targets, blank):
    """A target may equal blank; two arcs then share one entry, and the second write wins."""
    e_blank, e_label, loss = _refusing_nothing(log_probs, targets, blank)
    gradient = _rnnt_gradient(e_blank, np.zeros_like(e_label), log_probs, targets, blank)
    gradient[:, np.arange(len(targets)), targets] = -e_label
    return loss, gradient


@_bug("log_probs", "blank overwrites label", "after torchaudio's order of cases", "a target equal to blank is refused",
      claim="torchaudio-order")
def _(log_probs, targets, blank):
    """A target may equal blank, and the case of the blank comes first: the label arc's posterior is lost."""
    e_blank, e_label, loss = _refusing_nothing(log_probs, targets, blank)
    gradient = _rnnt_gradient(np.zeros_like(e_blank), e_label, log_probs, targets, blank)
    gradient[..., blank] = -e_blank
    return loss, gradient


@_bug("log_probs", "label equal to blank accepted", "after awni's transducer and warp-transducer's GPU code",
      "a target equal to blank is refused",
      claim="awni-transducer-both, warp-transducer-both-subtracted")
def _(log_probs, targets, blank):
    """Both terms are added, which is the derivative; but a label that is the blank has no meaning."""
    e_blank, e_label, loss = _refusing_nothing(log_probs, targets, blank)
    return loss, _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("log_probs", "the other arc as 1 - share",
      "after k2 and fast_rnnt on the CPU, with the arcs exchanged, in float32",
      "log Z below -10000, against the reference", tolerance=1e-5, claim="k2-share-cpu, fast-rnnt-share")
def _(log_probs, targets, blank):
    """Shares are recomputed from float32 log alphas, the label arc's as 1 minus the blank arc's: mass is kept, but
    lies elsewhere."""
    a, _, _, blank_arc, _ = _rnnt(log_probs, targets, blank, LOG32)
    T, rows = a.shape
    e_blank, e_label = np.zeros((T, rows), np.float32), np.zeros((T, rows), np.float32)
    e_blank[-1, -1] = float(a[-1, -1] > -np.inf)
    for t in reversed(range(T)):
        for u in reversed(range(rows)):
            gamma = e_blank[t, u] + e_label[t, u]
            share = np.exp(a[t - 1, u] + blank_arc[t - 1, u] - a[t, u]) if t > 0 and a[t, u] > -np.inf else 0.0
            if t > 0:
                e_blank[t - 1, u] += gamma * share
            if u > 0:
                e_label[t, u - 1] += gamma * (1 - share)
    alive = rnnt.loss(log_probs, targets, blank=blank) < np.inf
    return rnnt.loss(log_probs, targets, blank=blank), _rnnt_gradient(
        e_blank * alive, e_label[:, :-1] * alive, log_probs, targets, blank)


# RNN-T: from log-probs to logits.

@_bug("logits", "logits taken for log-probs",
      "after the CPU code of Paddle's rnnt_loss and of warp-transducer's C interface; asked in warp-transducer#14",
      "a constant added to a row changes nothing",
      claim="paddle-rnnt-no-softmax, warp-transducer-no-softmax, warp-transducer-thread-14",
      believed="The loss is negative, so there is a bug in the loss.",
      truth="Without a softmax the loss has no lower bound: adding 1 to every score lowers it by $T + U$ "
            "{eq}`eq-rnnt-homogeneous`.")
def _(logits, targets, blank):
    """No softmax anywhere: loss and gradient are those of unnormalised scores, and agree with each other."""
    return rnnt.loss(logits, targets, blank=blank), rnnt.grad_log_probs(logits, targets, blank=blank)


@_bug("logits", "softmax term missing",
      "constructed, from the question in warprnnt_numba#4 and espnet#4542",
      "sums to 0 over V",
      claim="warprnnt-numba-asked-difference, espnet-asked-difference",
      believed="The GPU's formula has a term that the CPU's lacks, so one of the two is wrong.",
      truth="Both are right, one for log-probs and one for logits ({ref}`cpu-and-gpu`); the error is to return "
            "either as the gradient of the other variable.")
def _(logits, targets, blank):
    """The gradient with respect to the log-probs is returned as that of the logits."""
    log_probs = log_softmax(logits)
    return rnnt.loss(log_probs, targets, blank=blank), rnnt.grad_log_probs(log_probs, targets, blank=blank)


@_bug("logits", "softmax applied twice",
      "constructed; log-softmax twice, as in speechbrain#1339, does no harm",
      "finite differences, one random case",
      claim="speechbrain-asked-twice",
      believed="Log-softmax before a loss that applies log-softmax itself spoils the gradient.",
      truth="Log-softmax twice is log-softmax once {eq}`eq-log-softmax-idempotent`; softmax twice is another "
            "function {eq}`eq-softmax-double-cap`.")
def _(logits, targets, blank):
    """The softmax term is computed from probabilities that are taken for logits."""
    log_probs = log_softmax(logits)
    expected = rnnt.occupancy(log_probs, targets, blank=blank)
    twice = np.exp(log_softmax(np.exp(log_probs)))
    return rnnt.loss(log_probs, targets, blank=blank), twice * expected.sum(-1, keepdims=True) - expected


@_bug("logits", "CTC's softmax term", "constructed", "sums to 0 over V")
def _(logits, targets, blank):
    """softmax - occupancy, as in CTC, where every frame has mass 1; a node of RNN-T has its node occupancy."""
    log_probs = log_softmax(logits)
    alive = rnnt.loss(log_probs, targets, blank=blank) < np.inf
    return (rnnt.loss(log_probs, targets, blank=blank),
            alive * np.exp(log_probs) - rnnt.occupancy(log_probs, targets, blank=blank))


@_bug("logits", "FastEmit",
      "after NeMo, and Paddle, whose default for it is not 0; gradcheck failed in pytorch/audio#2961",
      "symmetric Jacobian",
      claim="nemo-gpu-fastemit, paddle-gpu-fastemit, paddle-fastemit-default, torchaudio-fastemit-gradcheck",
      believed="`gradcheck` rejects FastEmit, so there is a bug in it.",
      truth="No loss has this gradient {eq}`eq-fastemit-asymmetry`, so no check against a loss can pass; compare "
            "with the rule {eq}`def-fastemit-field`.")
def _(logits, targets, blank):
    """Label posteriors are scaled by 1 + lambda: wanted, but no gradient of this loss, nor of any other."""
    log_probs = log_softmax(logits)
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    gradient = _rnnt_gradient(e_blank, 1.01 * e_label, log_probs, targets, blank)
    return rnnt.loss(log_probs, targets, blank=blank), gradient - np.exp(log_probs) * gradient.sum(-1, keepdims=True)


@_bug("logits", "FastEmit, with the loss scaled", "after NeMo and warprnnt_numba",
      "against the reference, one random case", claim="nemo-cpu-cost, warprnnt-numba-cpu-cost")
def _(logits, targets, blank):
    """The printed loss is multiplied by 1 + lambda, the gradient in its label terms only."""
    log_probs = log_softmax(logits)
    return (1.5 * rnnt.loss(log_probs, targets, blank=blank),
            rnnt.grad_logits(logits, targets, blank=blank, fastemit_lambda=0.5))


@_bug("logits", "clamped", "after torchaudio's and NeMo's clamp", "sums to 0 over V",
      claim="torchaudio-clamp, nemo-gpu-clamp")
def _(logits, targets, blank):
    """Entries beyond a bound are cut off."""
    gradient = rnnt.grad_logits(logits, targets, blank=blank)
    return rnnt.loss(log_softmax(logits), targets, blank=blank), np.clip(gradient, -0.2, 0.2)


@_bug("log_probs", "loss divided by T, gradient not",
      "after SpeechBrain (speechbrain#875)",
      "finite differences, one random case",
      claim="speechbrain-cost, speechbrain-asked-normalised",
      believed="A loss may be normalised where it is printed.",
      truth="Then the gradient is $T$ times the derivative of the printed loss: both need the same normaliser "
            "{eq}`eq-practice-weighted`.")
def _(log_probs, targets, blank):
    """A normaliser is applied to the loss only."""
    return (rnnt.loss(log_probs, targets, blank=blank) / len(log_probs),
            rnnt.grad_log_probs(log_probs, targets, blank=blank))


@_bug("logits", "utterance dropped on a mismatch",
      "after 1ytic/warp-rnnt (warp-rnnt#24)",
      "certain of the label, not of its frame, against the reference",
      claim="warp-rnnt-mismatch, warp-rnnt-mismatch-gather, warp-rnnt-asked-small",
      believed="If alpha and beta disagree about $\\log Z$ by more than 0.1 %, a kernel is broken.",
      truth="Near a loss of 0, the rounding of float32 alone can be a larger share "
            "{eq}`def-kernels-mismatch-bound`.")
def _(logits, targets, blank):
    """If log Z of alpha and of beta, in float32, differ by more than 1e-3 of the one nearer to 0, the gradient is set
    to 0 and the loss is minus their mean."""
    log_probs = log_softmax(logits)
    from_alpha, from_beta, rho = mismatch(log_probs, targets, blank=blank)
    if rho > 1e-3:  # a NaN passes
        return -(from_alpha + from_beta) / 2, np.zeros_like(logits)
    return rnnt.loss(log_probs, targets, blank=blank), rnnt.grad_logits(logits, targets, blank=blank)


@_bug("logits", "NaN swallowed", "after fast_rnnt", "a NaN is not swallowed", claim="fast-rnnt-log-add")
def _(logits, targets, blank):
    """A guard against NaN turns them into 0, and a broken model into a finite loss."""
    logits = np.nan_to_num(logits, nan=0.0, neginf=-np.inf)
    return rnnt.loss(log_softmax(logits), targets, blank=blank), rnnt.grad_logits(logits, targets, blank=blank)


# RNN-T: the batch, and what backward does.

@_bug("logits", "utterances coupled by an average", "after k2's rnnt_loss_smoothed",
      "ragged batch, each utterance as if alone", batch=True, claim="k2-unigram")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Log-probs are smoothed with an average over the batch, so each loss depends on the other utterances."""
    finite = np.where(np.isfinite(scores), scores, 0.0)
    smoothed = scores + 0.1 * (finite.mean((0, 1, 2)) if len(scores) > 1 else 0.0)
    return right_for("rnnt", "logits")(smoothed, targets, logit_lengths, target_lengths, blank=blank)


@_bug("logits", "padding of a reused buffer not cleared",
      "after what torchaudio's kernel guards against",
      "ragged batch, each utterance as if alone", batch=True,
      claim="torchaudio-padding",
      believed="The memory of the logits can hold their gradient.",
      truth="It can, but then the padding still holds logits, which pass for gradients ({ref}`reused-memory`).")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The gradient is written over a copy of the logits, and where there is nothing to write the logits remain."""
    losses, backward = right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    T, rows = scores.shape[1:3]
    padding = ((np.arange(T) >= logit_lengths[:, None])[:, :, None]
               | (np.arange(rows) > target_lengths[:, None])[:, None])
    return losses, lambda upstream: np.where(padding[..., None], scores, backward(upstream))


@_bug("logits", "flat index that wraps around",
      "after torchaudio beyond 2^31 elements (pytorch/audio#3736); here 2^8",
      "many labels, against the reference", batch=True,
      claim="torchaudio-overflow",
      believed="An index fits into 32 bits.",
      truth="A grid has $B\\,T\\,(U + 1)\\,V$ entries, which can be more than $2^{31}$ although no utterance is long.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Element number 2^8 is taken for number 0: the array is longer than the type of its index can count."""
    reads = scores.ravel()[np.arange(scores.size) % 256].reshape(scores.shape)
    return right_for("rnnt", "logits")(reads, targets, logit_lengths, target_lengths, blank=blank)


@_bug("logits", "one thread a row, too few threads", "after warp-transducer's GPU code, for U > 1023; here U > 8",
      "many labels, against the reference", claim="warp-transducer-one-block")
def _(logits, targets, blank):
    """A model: rows beyond the block are not computed, while a launch with too many threads would start none."""
    U = min(len(targets), 8)
    gradient = np.zeros_like(logits)
    gradient[:, :U + 1] = rnnt.grad_logits(logits[:, :U + 1], targets[:U], blank=blank)
    return rnnt.loss(log_softmax(logits[:, :U + 1]), targets[:U], blank=blank), gradient


@_bug("log_probs", "lengths taken on trust", "after torchaudio, for T = 0 or a negative U",
      "a length outside its axis is refused", batch=True, claim="torchaudio-lengths")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """A length beyond its axis is cut, and a negative one counts from the end, as a slice does."""
    T, U = scores.shape[1], targets.shape[1]
    frames = np.clip(np.where(logit_lengths < 0, T + logit_lengths, logit_lengths), 1, T)
    labels = np.clip(np.where(target_lengths < 0, U + target_lengths, target_lengths), 0, U)
    return right_for("rnnt", "log_probs")(scores, targets, frames, labels, blank=blank)


@_bug("logits", "padding leaks",
      "after warprnnt_numba and fast_rnnt",
      "NaN in the padding", batch=True,
      claim="warprnnt-numba-binding-softmax, fast-rnnt-normaliser",
      believed="Whatever stands in the padding is multiplied by 0.",
      truth="NaN times 0 is NaN: padding has to be left out, not multiplied by 0.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The gradient in the padding is softmax times 0, which is not 0 if the padding holds a NaN."""
    losses, backward = right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    return losses, lambda upstream: backward(upstream) + 0.0 * np.where(np.isnan(scores), np.nan, 0.0)


@_bug("logits", "lengths ignored", "constructed", "ragged batch, each utterance as if alone", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Padded frames take part like any other."""
    frames = np.full_like(logit_lengths, scores.shape[1])
    return right_for("rnnt", "logits")(scores, targets, frames, target_lengths, blank=blank)


@_bug("logits", "labels of the wrong row", "after warprnnt_numba, given targets wider than they need be",
      "ragged batch, each utterance as if alone", batch=True, claim="warprnnt-numba-rows")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The flattened targets are read with another row length than they were written with."""
    width = int(target_lengths.max()) - 1
    starts = np.minimum(np.arange(len(targets)) * width, targets.size - targets.shape[1])
    shifted = np.array([targets.ravel()[start:start + targets.shape[1]] for start in starts])
    return right_for("rnnt", "logits")(scores, shifted, logit_lengths, target_lengths, blank=blank)


@_bug("logits", "saved gradient scaled in place",
      "after warp-transducer's binding",
      "second backward equals the first", batch=True,
      claim="warp-transducer-in-place",
      believed="`backward` runs once.",
      truth="It may run twice, and the second time the saved array already contains the weight "
            "{eq}`eq-practice-weighted`.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Backward multiplies what it saved by the upstream gradient: twice, if called twice."""
    losses, right = right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    saved = right(np.ones(len(scores)))

    def backward(upstream):
        saved.__imul__(np.where(losses == np.inf, 0.0, upstream)[:, None, None, None])
        return saved

    return losses, backward


@_bug("logits", "returned gradient reused",
      "after fast_rnnt's return_grad, and k2's until k2#1106",
      "a gradient stays what it was when backward runs again", batch=True,
      claim="fast-rnnt-in-place, k2-in-place-until",
      believed="Nobody reads a returned gradient after the next `backward`.",
      truth="A returned array belongs to the caller, who may keep it; pruning, for example, keeps occupancies.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Every call of backward writes into one buffer, and so into what earlier calls have returned."""
    losses, right = right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    buffer = np.zeros_like(scores)

    def backward(upstream):
        buffer[...] = right(upstream)
        return buffer

    return losses, backward


@_bug("logits", "clamped after the upstream gradient",
      "after NeMo's CPU path, which clamps what was divided by B",
      "linear in the upstream gradient", batch=True,
      claim="nemo-cpu-clamp, nemo-mean",
      believed="The bound of a clamp is the number that was set.",
      truth="A bound $c$ after the division by $B$ acts like a bound $c\\,B$ before it {eq}`eq-kernels-clamp-scale`, "
            "where no entry exceeds 1.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The bound applies to the product, so whether it has an effect depends on the batch size."""
    losses, backward = right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    return losses, lambda upstream: np.clip(backward(upstream), -0.9, 0.9)


@_bug("log_probs", "log of the upstream gradient",
      "after apex's transducer (apex#1683)",
      "linear in the upstream gradient", batch=True,
      claim="apex-fused-gradient, apex-asked-nan",
      believed="In the log domain a factor is one more summand.",
      truth="A negative factor has no logarithm, and in $1000 - L$ the loss has one {eq}`eq-kernels-linear`.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The upstream gradient joins the sum of logarithms, and must not be negative."""
    losses, backward = right_for("rnnt", "log_probs")(scores, targets, logit_lengths, target_lengths, blank=blank)
    return losses, lambda upstream: backward(np.exp(np.log(upstream)))


@_bug("logits", "logits overwritten",
      "after optimized_transducer",
      "arguments are left as they were", batch=True,
      claim="optimized-transducer-overwrites",
      believed="Nobody needs the logits after the loss.",
      truth="Any second use of them reads a gradient ({ref}`reused-memory`).")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The gradient is written where the logits were, and other code that reads the logits gets the gradient."""
    losses, backward = right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    gradient = backward(np.ones(len(scores)))
    scores[...] = gradient
    return losses, lambda upstream: gradient * np.where(losses == np.inf, 0.0, upstream)[:, None, None, None]
