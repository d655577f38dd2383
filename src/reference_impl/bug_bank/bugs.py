"""The planted bugs: one for each distinct way in which a CTC or RNN-T gradient is known to have gone wrong.

Each is the reference with one thing changed, and says where the mechanism was met: "after X" means that X does this, or
did, or is asked about it; "constructed" that it was made up here. They are small models of a mechanism, not X's code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import ctc, lattice, rnnt
from .._softmax import log_softmax
from .._validation import check_targets
from ..semiring import LOG, REAL
from ..topology import ctc_lattice, rnnt_lattice
from .checks import RIGHT, Candidate, over_batch

__all__ = ["BUGS", "Bug"]

FLOAT32 = replace(LOG, name="log, float32", one=np.float32(0), dtype=np.float32)
FLOOR = replace(LOG, name="log, -1e5 for -inf", zero=-1e5)


@dataclass(frozen=True)
class Bug(Candidate):
    """A wrong candidate: what is wrong, where that was met, and a check that sees it."""

    name: str
    mechanism: str
    source: str
    killed_by: str


_BUGS: list[Bug] = []


def _bug(loss, variable, name, source, killed_by, *, batch=False, tolerance=1e-9):
    """Register a function (its docstring is the mechanism) of one utterance, or of the whole batch."""
    def register(function):
        whole = function if batch else over_batch(function, loss)
        _BUGS.append(Bug(loss, variable, whole, name, " ".join(function.__doc__.split()), source, killed_by,
                         tolerance=tolerance))
        return function
    return register


# What the right code computes, in pieces, so that a bug can change one of them.

def _ctc(logits, targets, blank, semiring=LOG):
    """Log-probs, alpha, beta and log Z."""
    log_probs, targets = log_softmax(logits).astype(semiring.dtype), check_targets(targets, logits.shape[1], blank)
    a = ctc.alpha(log_probs, targets, blank=blank, semiring=semiring)
    return log_probs, a, ctc.beta(log_probs, targets, blank=blank, semiring=semiring), ctc.total(a, semiring)


def _ctc_gradient(log_probs, state_occupancy, targets, blank):
    """softmax - occupancy, from the occupancy (T, S) of each state."""
    gradient = np.exp(log_probs)
    for s, label in enumerate(ctc.extended_targets(targets, blank=blank)):
        gradient[:, label] -= state_occupancy[:, s]
    return gradient


def _emissions(log_probs, targets, blank):
    return log_probs[:, ctc.extended_targets(targets, blank=blank)]


def _rnnt(log_probs, targets, blank, semiring=LOG):
    """Alpha, beta, log Z, and the log-probs of the blank arcs (T, U+1) and the label arcs (T, U)."""
    log_probs, targets = log_probs.astype(semiring.dtype), check_targets(targets, log_probs.shape[2], blank)
    a = rnnt.alpha(log_probs, targets, blank=blank, semiring=semiring)
    b = rnnt.beta(log_probs, targets, blank=blank, semiring=semiring)
    log_z = rnnt.total(a, log_probs, blank=blank, semiring=semiring)
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


def _on_lattice(graph, log_probs, to_logits):
    """Loss and gradient on any lattice: consistent with each other, even where the lattice is the wrong one."""
    weights = graph.arc_weights(log_probs)
    occupancy = graph.occupancy(lattice.arc_posteriors(graph, weights))
    gradient = np.exp(log_probs) * occupancy.sum(-1, keepdims=True) - occupancy if to_logits else -occupancy
    return -lattice.forward(graph, weights)[-1], gradient


def _right_for(loss, variable):
    return next(c for c in RIGHT if (c.loss, c.variable) == (loss, variable)).function


# CTC: the wrong lattice. Loss and gradient agree with each other, so differences of the loss show nothing.

@_bug("ctc", "logits", "skip between equal labels", "constructed", "loss is the path sum, every small target")
def _(logits, targets, blank):
    """A path may jump over the blank between two equal labels, so that one run of frames counts as two labels."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    S = 2 * len(targets) + 1
    extra = [lattice.Arc(1 + (t - 1) * S + s - 2, 1 + t * S + s, (t, int(targets[s // 2])))
             for t in range(1, len(logits)) for s in range(3, S, 2) if targets[s // 2] == targets[s // 2 - 1]]
    return _on_lattice(replace(graph, arcs=graph.arcs + tuple(extra)), log_softmax(logits), True)


@_bug("ctc", "logits", "skip forbidden", "constructed", "loss is the path sum, every small target")
def _(logits, targets, blank):
    """A path never jumps over a blank, not even between two different labels."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    end = len(graph.nodes) - 1
    kept = tuple(arc for arc in graph.arcs if arc.source == 0 or arc.target == end or graph.nodes[arc.target][1]
                 - graph.nodes[arc.source][1] < 2)
    return _on_lattice(replace(graph, arcs=kept), log_softmax(logits), True)


@_bug("ctc", "logits", "final blank forgotten", "constructed", "loss is the path sum, every small target")
def _(logits, targets, blank):
    """Only paths that end in the last label are counted, none that end in the blank after it."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    kept = graph.arcs[:-1] if len(targets) else graph.arcs
    return _on_lattice(replace(graph, arcs=kept), log_softmax(logits), True)


# CTC: the wrong loss beside the right gradient.

@_bug("ctc", "logits", "empty target's state counted twice",
      "after Graves et al. 2006, eq. 8, which has no case for an empty label",
      "loss is the path sum, every small target")
def _(logits, targets, blank):
    """The last two states are added although an empty target has only one: Z doubles, and no derivative changes."""
    log_z = _ctc(logits, targets, blank)[3]
    return -log_z - (0.0 if len(targets) else np.log(2.0)), ctc.grad_logits(logits, targets, blank=blank)


@_bug("ctc", "logits", "last rescaling factor forgotten", "after the PaddleSpeech notebook's product of C_t",
      "finite differences, one random case")
def _(logits, targets, blank):
    """Alpha is rescaled to sum 1 in each frame and the loss is read off the factors, without the share that ends."""
    _, a, _, log_z = _ctc(logits, targets, blank)
    return -LOG.sum(a[-1]), ctc.grad_logits(logits, targets, blank=blank)


# CTC: the wrong occupancy.

@_bug("ctc", "logits", "emission counted twice", "constructed: the 2006 paper's beta beside the thesis' formula",
      "sums to 0 over V")
def _(logits, targets, blank):
    """Alpha and beta both hold the emission at t, and it is not divided out."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b + _emissions(log_probs, targets, blank) - log_z)
    return -log_z, _ctc_gradient(log_probs, states, targets, blank)


@_bug("ctc", "logits", "beta is 0 but in the last state", "after the PaddleSpeech notebook's boundary rule for beta",
      "sums to 0 over V")
def _(logits, targets, blank):
    """The boundary of beta excludes too much: s < S - 1 instead of s > S - 1."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    b[:, :-1] = -np.inf
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("ctc", "logits", "mass of the label taken for that of the state", "after the PaddleSpeech notebook's sum over s",
      "finite differences, repeated labels")
def _(logits, targets, blank):
    """Each state contributes the mass of all paths that show its label at t, so repeated symbols are overcounted."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    extended = ctc.extended_targets(targets, blank=blank)
    same = (extended[:, None] == extended).astype(float)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z) @ same, targets, blank)


@_bug("ctc", "logits", "repeated label written, not added", "constructed", "finite differences, repeated labels")
def _(logits, targets, blank):
    """Two states with one label: the occupancy of the second overwrites that of the first."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b - log_z)
    gradient = np.exp(log_probs)
    gradient[:, blank] -= states[:, ::2].sum(1)
    for u, label in enumerate(targets):
        gradient[:, label] = np.exp(log_probs[:, label]) - states[:, 2 * u + 1]
    return -log_z, gradient


@_bug("ctc", "logits", "likelihood summed over the frames, too", "after a published CTC tutorial", "sums to 0 over V")
def _(logits, targets, blank):
    """The sum of alpha beta over states *and* frames is T times Z; the posteriors come out T times too small."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    log_t_z = log_z + np.log(len(logits))
    return -log_t_z, _ctc_gradient(log_probs, np.exp(a + b - log_t_z), targets, blank)


@_bug("ctc", "logits", "label columns written with blank 0", "constructed", "finite differences, blank not 0")
def _(logits, targets, blank):
    """The recursion takes the blank from its argument, the gradient has the default in it."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, 0)


@_bug("ctc", "log_probs", "softmax term for log-probs", "after torch.nn.functional.ctc_loss",
      "mass 1 in each frame or anti-diagonal")
def _(log_probs, targets, blank):
    """exp(log_probs) - occupancy: through log_softmax it comes out right, for the log-probs themselves it is wrong."""
    return ctc.loss(log_probs, targets, blank=blank), np.exp(log_probs) - ctc.occupancy(log_probs, targets, blank=blank)


@_bug("ctc", "logits", "gradient divided by T, loss not", "after Paddle's norm_by_times",
      "finite differences, one random case")
def _(logits, targets, blank):
    """A normaliser is applied to the gradient only."""
    return -_ctc(logits, targets, blank)[3], ctc.grad_logits(logits, targets, blank=blank) / len(logits)


# CTC: the edges, and floating point.

@_bug("ctc", "logits", "NaN where no alignment exists", "after torch.nn.functional.ctc_loss",
      "no alignment: loss inf, gradient 0")
def _(logits, targets, blank):
    """alpha + beta - log Z is -inf minus -inf."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("ctc", "logits", "softmax where no alignment exists", "after TensorFlow's sparse ctc_loss",
      "no alignment: loss inf, gradient 0")
def _(logits, targets, blank):
    """The occupancy is 0 there, and softmax - occupancy is not."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b - log_z) if log_z > -np.inf else np.zeros(a.shape)
    return -log_z, _ctc_gradient(log_probs, states, targets, blank)


@_bug("ctc", "logits", "-1e5 in place of -inf", "after optax.ctc_loss; NeMo's TDT has -1e4",
      "no alignment: loss inf, gradient 0")
def _(logits, targets, blank):
    """Impossible states have a little mass, and an impossible target a large finite loss with a gradient."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank, FLOOR)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("ctc", "logits", "divided by a probability of 0", "after torch.nn.functional.ctc_loss and optax",
      "-inf masks act like very low scores")
def _(logits, targets, blank):
    """Alpha and beta both hold the emission; dividing it out is -inf minus -inf where a symbol is masked."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    if log_z == -np.inf:
        return np.inf, np.zeros_like(logits)
    emission = _emissions(log_probs, targets, blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + (b + emission) - log_z - emission), targets, blank)


@_bug("ctc", "logits", "log-domain 0.0 read as no mass", "after warp-ctc", "confident frames")
def _(logits, targets, blank):
    """A mass of exactly 1 has the logarithm 0.0, which is taken for an entry that no path uses."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    gradient = ctc.grad_logits(logits, targets, blank=blank)
    through = np.where(a + b == 0.0, 1.0, 0.0)
    return -log_z, gradient - (_ctc_gradient(log_probs, through, targets, blank) - np.exp(log_probs))


@_bug("ctc", "logits", "exp before the maximum is subtracted", "constructed",
      "a constant added to a row changes nothing")
def _(logits, targets, blank):
    """exp(800) is inf, and inf / inf is NaN, though only differences of logits matter."""
    mass = np.exp(logits).sum(-1, keepdims=True)
    _, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b - log_z) if log_z > -np.inf else np.zeros(a.shape)
    return -log_z, _ctc_gradient(np.log(np.exp(logits) / mass), states, targets, blank) * (log_z > -np.inf)


@_bug("ctc", "logits", "probabilities, not rescaled", "constructed; rescaling per frame fails later, but fails",
      "log Z below -10000, against the reference")
def _(logits, targets, blank):
    """The recursions run on probabilities, whose products underflow to 0."""
    log_probs = log_softmax(logits)
    a, b = (f(np.exp(log_probs), targets, blank=blank, semiring=REAL) for f in (ctc.alpha, ctc.beta))
    z = float(ctc.total(a, REAL))
    states = (a * b).astype(float) / z if z > 0 else np.zeros(a.shape)
    return -np.log(z), _ctc_gradient(log_probs, states, targets, blank) * (z > 0)


@_bug("ctc", "logits", "float32 alpha and beta", "after torch.nn.functional.ctc_loss, warp-ctc and others",
      "log Z below -10000, against the reference", tolerance=1e-5)
def _(logits, targets, blank):
    """Log alpha is stored in float32, and rounded to a thousandth where it is near -10000."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank, FLOAT32)
    if log_z == -np.inf:
        return np.inf, np.zeros_like(logits)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("ctc", "logits", "length counted as the non-zeros", "after Keras losses.CTC", "symbols renamed",
      batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Labels are taken to be non-zero and padding zero, whatever the given lengths and blank."""
    counted = np.count_nonzero(targets, axis=1)
    return _right_for("ctc", "logits")(scores, targets, logit_lengths, counted, blank=blank)


@_bug("ctc", "logits", "out-of-range label ends the target", "after TensorFlow's dense ctc_loss",
      "a label outside [0, V) is refused")
def _(logits, targets, blank):
    """A label that does not exist cuts the target short, and nobody is told."""
    wrong = np.flatnonzero((targets < 0) | (targets >= logits.shape[1]))
    targets = targets[:wrong[0]] if len(wrong) else targets
    return ctc.loss(log_softmax(logits), targets, blank=blank), ctc.grad_logits(logits, targets, blank=blank)


@_bug("ctc", "logits", "inf times 0", "after torch's zero_infinity (pytorch#16199, #21244)",
      "no alignment, upstream gradient inf", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """A right gradient of 0 is multiplied by an upstream gradient that is infinite where the loss is."""
    losses, backward = _right_for("ctc", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    gradient = backward(np.ones(len(scores)))
    return losses, lambda upstream: gradient * upstream[:, None, None]


# RNN-T: the arc posteriors.

@_bug("rnnt", "log_probs", "the arc's own log-prob missing", "asked in espnet#4005 and warp-transducer#69",
      "mass 1 in each frame or anti-diagonal")
def _(log_probs, targets, blank):
    """exp(alpha + beta(next) - log Z): the two ends of the arc without the arc."""
    a, b, log_z, _, _ = _rnnt(log_probs, targets, blank)
    e_blank, e_label = np.exp(a + _after_blank(b) - log_z), np.exp(a[:, :-1] + b[:, 1:] - log_z)
    return -log_z, _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("rnnt", "log_probs", "-log Z missing", "asked in warp-transducer#69", "mass 1 in each frame or anti-diagonal")
def _(log_probs, targets, blank):
    """Masses where posteriors belong: this is -dZ, not -d log Z."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    log_z = _rnnt(log_probs, targets, blank)[2]
    return -log_z, _rnnt_gradient(e_blank * np.exp(log_z), e_label * np.exp(log_z), log_probs, targets, blank)


@_bug("rnnt", "log_probs", "occupancy of the wrong node", "constructed", "finite differences, one random case")
def _(log_probs, targets, blank):
    """Beta is read at the node that the arc leaves, not at the one that it leads to."""
    a, b, log_z, blank_arc, label_arc = _rnnt(log_probs, targets, blank)
    e_blank, e_label = np.exp(a + blank_arc + b - log_z), np.exp(a[:, :-1] + label_arc + b[:, :-1] - log_z)
    return -log_z, _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("rnnt", "log_probs", "last blank forgotten", "asked in warp-transducer#55",
      "mass 1 in each frame or anti-diagonal")
def _(log_probs, targets, blank):
    """The loop over blank arcs to (t+1, u) never meets the one that leaves the grid."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    e_blank[-1, -1] = 0.0
    return rnnt.loss(log_probs, targets, blank=blank), _rnnt_gradient(e_blank, e_label, log_probs, targets, blank)


@_bug("rnnt", "log_probs", "blanks leave the grid in every row", "constructed, from the question in warp-transducer#55",
      "mass 1 in each frame or anti-diagonal")
def _(log_probs, targets, blank):
    """In the last frame beta after a blank is taken as 1 for every u, not for u = U alone."""
    a, b, log_z, blank_arc, _ = _rnnt(log_probs, targets, blank)
    after = _after_blank(b)
    after[-1] = 0.0
    e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)[1]
    return -log_z, _rnnt_gradient(np.exp(a + blank_arc + after - log_z), e_label, log_probs, targets, blank)


@_bug("rnnt", "log_probs", "label of the next row", "constructed", "finite differences, one random case")
def _(log_probs, targets, blank):
    """The posterior of label u is written into the column of label u + 1."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    return (rnnt.loss(log_probs, targets, blank=blank),
            _rnnt_gradient(e_blank, e_label, log_probs, np.roll(targets, -1), blank))


@_bug("rnnt", "log_probs", "label arcs weigh a blank", "after a README that prints p(eps) where p(y) belongs",
      "loss is the path sum, every small target")
def _(log_probs, targets, blank):
    """Every arc reads the blank's log-prob, consistently."""
    graph = rnnt_lattice(targets, len(log_probs), log_probs.shape[2], blank=blank)
    arcs = tuple(replace(arc, entry=(*arc.entry[:2], blank)) for arc in graph.arcs)
    return _on_lattice(replace(graph, arcs=arcs), log_probs, False)


@_bug("rnnt", "log_probs", "label overwrites blank", "after warp-transducer's CPU code (warp-transducer#93)",
      "a target equal to blank is refused")
def _(log_probs, targets, blank):
    """A target may equal blank; two arcs then share one entry, and the second write wins."""
    T, rows, V = log_probs.shape
    widened = np.dstack([log_probs, log_probs[..., blank]])  # a copy of the blank's column, for labels that equal it
    e_blank, e_label = rnnt.arc_posteriors(widened, np.where(targets == blank, V, targets), blank=blank)
    gradient = np.zeros(log_probs.shape)
    gradient[..., blank] = -e_blank
    gradient[:, np.arange(rows - 1), targets] = -e_label
    return rnnt.loss(widened, np.where(targets == blank, V, targets), blank=blank), gradient


@_bug("rnnt", "log_probs", "the other arc as 1 - share", "after k2 and fast_rnnt, in float32",
      "log Z below -10000, against the reference", tolerance=1e-5)
def _(log_probs, targets, blank):
    """Shares are recomputed from float32 log alphas, the label arc's as 1 minus the blank arc's: mass is kept, but
    lies elsewhere."""
    a, _, _, blank_arc, _ = _rnnt(log_probs, targets, blank, FLOAT32)
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

@_bug("rnnt", "logits", "logits taken for log-probs", "after Paddle's CPU rnnt_loss and warp-transducer's C interface",
      "a constant added to a row changes nothing")
def _(logits, targets, blank):
    """No softmax anywhere: loss and gradient are those of unnormalised scores, and agree with each other."""
    return rnnt.loss(logits, targets, blank=blank), rnnt.grad_log_probs(logits, targets, blank=blank)


@_bug("rnnt", "logits", "softmax term missing", "constructed: one half of the bug before this one", "sums to 0 over V")
def _(logits, targets, blank):
    """The gradient with respect to the log-probs is handed back for the logits."""
    log_probs = log_softmax(logits)
    return rnnt.loss(log_probs, targets, blank=blank), rnnt.grad_log_probs(log_probs, targets, blank=blank)


@_bug("rnnt", "logits", "softmax applied twice", "after speechbrain#1339", "finite differences, one random case")
def _(logits, targets, blank):
    """The softmax term is computed from probabilities that are taken for logits."""
    log_probs = log_softmax(logits)
    expected = rnnt.occupancy(log_probs, targets, blank=blank)
    twice = np.exp(log_softmax(np.exp(log_probs)))
    return rnnt.loss(log_probs, targets, blank=blank), twice * expected.sum(-1, keepdims=True) - expected


@_bug("rnnt", "logits", "CTC's softmax term", "constructed", "sums to 0 over V")
def _(logits, targets, blank):
    """softmax - occupancy, as in CTC, where every frame has mass 1; a node of RNN-T has its node occupancy."""
    log_probs = log_softmax(logits)
    alive = rnnt.loss(log_probs, targets, blank=blank) < np.inf
    return (rnnt.loss(log_probs, targets, blank=blank),
            alive * np.exp(log_probs) - rnnt.occupancy(log_probs, targets, blank=blank))


@_bug("rnnt", "logits", "FastEmit", "after NeMo and Paddle, whose default for it is not 0", "symmetric Jacobian")
def _(logits, targets, blank):
    """Label posteriors are scaled by 1 + lambda: wanted, but no gradient of this loss, nor of any other."""
    log_probs = log_softmax(logits)
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    gradient = _rnnt_gradient(e_blank, 1.01 * e_label, log_probs, targets, blank)
    return rnnt.loss(log_probs, targets, blank=blank), gradient - np.exp(log_probs) * gradient.sum(-1, keepdims=True)


@_bug("rnnt", "logits", "clamped", "after torchaudio's and NeMo's clamp", "sums to 0 over V")
def _(logits, targets, blank):
    """Entries beyond a bound are cut off."""
    gradient = rnnt.grad_logits(logits, targets, blank=blank)
    return rnnt.loss(log_softmax(logits), targets, blank=blank), np.clip(gradient, -0.2, 0.2)


@_bug("rnnt", "log_probs", "loss divided by T, gradient not", "after SpeechBrain (speechbrain#875)",
      "finite differences, one random case")
def _(log_probs, targets, blank):
    """A normaliser is applied to the loss only."""
    return (rnnt.loss(log_probs, targets, blank=blank) / len(log_probs),
            rnnt.grad_log_probs(log_probs, targets, blank=blank))


@_bug("rnnt", "logits", "utterance dropped on a mismatch", "after 1ytic/warp-rnnt",
      "log Z below -10000, against the reference")
def _(logits, targets, blank):
    """If log Z of alpha and of beta, in float32, differ by more than 1e-3, the gradient is silently set to 0."""
    log_probs = log_softmax(logits)
    _, b, log_z, _, _ = _rnnt(log_probs, targets, blank, FLOAT32)
    trusted = log_z == -np.inf or abs(float(log_z) - float(b[0, 0])) < 1e-3
    return rnnt.loss(log_probs, targets, blank=blank), trusted * rnnt.grad_logits(logits, targets, blank=blank)


@_bug("rnnt", "logits", "NaN swallowed", "after fast_rnnt", "a NaN is not swallowed")
def _(logits, targets, blank):
    """A guard against NaN turns them into 0, and a broken model into a finite loss."""
    logits = np.nan_to_num(logits, nan=0.0, neginf=-np.inf)
    return rnnt.loss(log_softmax(logits), targets, blank=blank), rnnt.grad_logits(logits, targets, blank=blank)


# RNN-T: the batch, and what backward does.

@_bug("rnnt", "logits", "padding leaks", "after warprnnt_numba and fast_rnnt", "NaN in the padding", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Padding gets softmax times 0, which is not 0 if the padding holds a NaN."""
    losses, backward = _right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    return losses, lambda upstream: backward(upstream) + 0.0 * np.where(np.isnan(scores), np.nan, 0.0)


@_bug("rnnt", "logits", "lengths ignored", "constructed", "ragged batch, each utterance as if alone", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Padded frames take part like any other."""
    frames = np.full_like(logit_lengths, scores.shape[1])
    return _right_for("rnnt", "logits")(scores, targets, frames, target_lengths, blank=blank)


@_bug("rnnt", "logits", "labels of the wrong row", "after warprnnt_numba, given targets wider than they need be",
      "ragged batch, each utterance as if alone", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The flattened targets are read with another row length than they were written with."""
    width = int(target_lengths.max()) - 1
    starts = np.minimum(np.arange(len(targets)) * width, targets.size - targets.shape[1])
    shifted = np.array([targets.ravel()[start:start + targets.shape[1]] for start in starts])
    return _right_for("rnnt", "logits")(scores, shifted, logit_lengths, target_lengths, blank=blank)


@_bug("rnnt", "logits", "saved gradient scaled in place", "after warp-transducer's PyTorch binding",
      "second backward equals the first", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Backward multiplies what it saved by the upstream gradient: twice, if called twice."""
    losses, right = _right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    saved = right(np.ones(len(scores)))

    def backward(upstream):
        saved.__imul__(np.where(losses == np.inf, 0.0, upstream)[:, None, None, None])
        return saved

    return losses, backward


@_bug("rnnt", "log_probs", "log of the upstream gradient", "after apex's transducer (apex#1683)",
      "linear in the upstream gradient", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The upstream gradient joins the sum of logarithms, and must not be negative."""
    losses, backward = _right_for("rnnt", "log_probs")(scores, targets, logit_lengths, target_lengths, blank=blank)
    return losses, lambda upstream: backward(np.exp(np.log(upstream)))


@_bug("rnnt", "logits", "logits overwritten", "after optimized_transducer", "arguments are left as they were",
      batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The gradient is written where the logits were, and whoever else reads them reads the gradient."""
    losses, backward = _right_for("rnnt", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    gradient = backward(np.ones(len(scores)))
    scores[...] = gradient
    return losses, lambda upstream: gradient * np.where(losses == np.inf, 0.0, upstream)[:, None, None, None]


BUGS = tuple(_BUGS)
