"""The planted CTC bugs: one for each distinct way in which a CTC gradient is known to have gone wrong.

Each is the reference with one thing changed, and says where the mechanism was met: "after X" means that X does this, or
did, or is asked about it; "constructed" that it was made up here. They are small models of a mechanism, not X's code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import ctc, lattice
from .._softmax import log_softmax
from .._validation import check_targets
from ..semiring import LOG, LOG32, REAL
from ..topology import ctc_lattice
from .bank import FLOOR, Bug, entry_in, on_lattice, right_for

__all__ = ["CTC_BUGS"]

CTC_BUGS: list[Bug] = []
_bug = entry_in(CTC_BUGS, "ctc")


# What the right code computes, in pieces, so that a bug can change one of them.

def _ctc(logits, targets, blank, semiring=LOG):
    """Log-probs, alpha, beta and log Z."""
    log_probs, targets = log_softmax(logits).astype(semiring.dtype), check_targets(targets, logits.shape[1], blank)
    a, b, log_z = (f(log_probs, targets, blank=blank, semiring=semiring) for f in (ctc.alpha, ctc.beta, ctc.Z))
    return log_probs, a, b, log_z


def _ctc_gradient(log_probs, state_occupancy, targets, blank):
    """softmax - occupancy, from the occupancy (T, S) of each state."""
    gradient = np.exp(log_probs)
    for s, k in enumerate(ctc.extended_targets(targets, blank=blank)):
        gradient[:, k] -= state_occupancy[:, s]
    return gradient


def _emissions(log_probs, targets, blank):
    return log_probs[:, ctc.extended_targets(targets, blank=blank)]


# CTC: the wrong lattice. Loss and gradient agree with each other, so differences of the loss show nothing.

@_bug("logits", "skip between equal labels",
      "constructed, from the question in tensorflow#12215",
      "loss is the path sum, every small target",
      claim="tensorflow-thread-12215",
      believed="As many frames as labels are enough.",
      truth="Two equal labels in a row need one more frame, for the blank between them "
            "{eq}`eq-practice-feasible`.")
def _(logits, targets, blank):
    """A path may jump over the blank between two equal labels, so that one run of a label counts as two labels."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    S = 2 * len(targets) + 1
    extra = [lattice.Arc(1 + (t - 1) * S + s - 2, 1 + t * S + s, (t, int(targets[s // 2])))
             for t in range(1, len(logits)) for s in range(3, S, 2) if targets[s // 2] == targets[s // 2 - 1]]
    return on_lattice(replace(graph, arcs=graph.arcs + tuple(extra)), log_softmax(logits), True)


@_bug("logits", "skip forbidden", "constructed", "loss is the path sum, every small target")
def _(logits, targets, blank):
    """A path never jumps over a blank, not even between two different labels."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    end = len(graph.nodes) - 1
    kept = tuple(arc for arc in graph.arcs if arc.source == 0 or arc.target == end or graph.nodes[arc.target][1]
                 - graph.nodes[arc.source][1] < 2)
    return on_lattice(replace(graph, arcs=kept), log_softmax(logits), True)


@_bug("logits", "final blank forgotten", "constructed", "loss is the path sum, every small target")
def _(logits, targets, blank):
    """Only paths that end in the last label are counted, none that end in the blank after it."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    kept = graph.arcs[:-1] if len(targets) else graph.arcs
    return on_lattice(replace(graph, arcs=kept), log_softmax(logits), True)


# CTC: the wrong loss beside the right gradient.

@_bug("logits", "empty target's state counted twice",
      "constructed: Graves et al. 2006, eq. 8, without the rule that a state before the first has no mass",
      "loss is the path sum, every small target")
def _(logits, targets, blank):
    """The last two states are added although an empty target has only one: Z doubles, and no derivative changes."""
    log_z = _ctc(logits, targets, blank)[3]
    return -log_z - (0.0 if len(targets) else np.log(2.0)), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "last rescaling factor forgotten",
      "after the sum of ln C_t of Graves et al. 2006, which the PaddleSpeech notebook shows, without the pruning there",
      "finite differences, one random case",
      claim="paddlespeech-scales",
      believed="The factors by which the frames are rescaled multiply to the likelihood.",
      truth="They do only together with the share of the last two states in the last frame "
            "{eq}`eq-ctc-2006-loss-alpha`.")
def _(logits, targets, blank):
    """Each frame of alpha is rescaled to sum 1; the loss has the factors, but not the share of the last two states."""
    _, a, _, log_z = _ctc(logits, targets, blank)
    return -LOG.sum(a[-1]), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "first frame not pruned",
      "after stanford-ctc, whose loss is wrong for T = 1",
      "loss is the path sum, every small target",
      claim="stanford-ctc-one-frame",
      believed="Every path begins in one of the first two states, so one frame holds those two.",
      truth="A path must also end in one of the last two {eq}`eq-ctc-total`, and in one frame only the label's "
            "state is both {eq}`eq-ctc-alpha-zeros`.")
def _(logits, targets, blank):
    """In one frame only the label's state completes a target of one label, but the first two states are counted."""
    log_probs, a, _, log_z = _ctc(logits, targets, blank)
    unpruned = LOG.sum(a[0, :2]) if len(logits) == 1 else log_z
    return -unpruned, ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "scales from alphas that were never rescaled",
      "after C_t as the PaddleSpeech notebook's text prints it",
      "finite differences, one random case", claim="paddlespeech-scales")
def _(logits, targets, blank):
    """Each frame of alpha is summed as it is, not as the frame before left it, and the logs of the sums are added."""
    _, a, _, log_z = _ctc(logits, targets, blank)
    sums = np.array([LOG.sum(frame) for frame in a])
    return (-sums.sum() if log_z > -np.inf else np.inf), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "prefix counted once for each completion",
      "after the PaddleSpeech notebook's definition of alpha",
      "finite differences, one random case",
      claim="paddlespeech-alpha",
      believed="Alpha of a state is the mass of the whole strings that pass it.",
      truth="Alpha is the mass of prefixes {eq}`def-ctc-alpha`; what follows them belongs to beta, and is counted "
            "once {eq}`eq-ctc-node-mass`.")
def _(logits, targets, blank):
    """Alpha sums over whole strings, not over prefixes, so it counts each prefix once for each suffix."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    suffixes = ctc.beta(np.zeros_like(log_probs), targets, blank=blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + suffixes + b - log_z), targets, blank)


@_bug("logits", "index -1 read from the end",
      "after Graves et al. 2006, eq. 6, as the PaddleSpeech notebook copies it, where the index -1 is the last state",
      "loss is the path sum, every small target",
      claim="paddlespeech-skip",
      believed="The skip needs one condition: two states back there is a different symbol.",
      truth="It needs two: that state must also exist, $s \\ge 2$ {eq}`def-ctc-skip`. In many languages the index "
            "$-1$ is legal, and means the last element.")
def _(logits, targets, blank):
    """The skip is allowed by looking two states back, wherever that is: state 1 is entered from the last state."""
    graph = ctc_lattice(targets, *logits.shape, blank=blank)
    S = 2 * len(targets) + 1
    extra = [lattice.Arc(1 + (t - 1) * S + S - 1, 1 + t * S + 1, (t, int(targets[0])))
             for t in range(1, len(logits)) if S > 1]
    return on_lattice(replace(graph, arcs=graph.arcs + tuple(extra)), log_softmax(logits), True)


# CTC: the wrong occupancy.

@_bug("logits", "emission counted twice", "constructed: the 2006 paper's beta beside the thesis' formula",
      "sums to 0 over V")
def _(logits, targets, blank):
    """Alpha and beta both contain the emission at t, and it is not divided out."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b + _emissions(log_probs, targets, blank) - log_z)
    return -log_z, _ctc_gradient(log_probs, states, targets, blank)


@_bug("logits", "beta is 0 but in the last state", "after the PaddleSpeech notebook's boundary rule for beta",
      "sums to 0 over V", claim="paddlespeech-beta")
def _(logits, targets, blank):
    """The boundary of beta excludes too much: s < S - 1 instead of s > S - 1."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    b[:, :-1] = -np.inf
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("logits", "mass of the symbol taken for that of the state",
      "after Graves et al. 2006, below eq. 13, as the PaddleSpeech notebook copies it",
      "finite differences, repeated labels",
      claim="paddlespeech-state",
      believed="A state's alpha times beta is the mass of all paths that carry its symbol in that frame.",
      truth="It is the mass of the paths through that state; only a sum over states gives the symbol's "
            "{eq}`def-ctc-occupancy`.")
def _(logits, targets, blank):
    """Each state contributes the mass of all paths that carry its symbol at t, so repeated symbols are overcounted."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    extended = ctc.extended_targets(targets, blank=blank)
    same = (extended[:, None] == extended).astype(float)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z) @ same, targets, blank)


@_bug("logits", "repeated label written, not added", "constructed", "finite differences, repeated labels")
def _(logits, targets, blank):
    """Two states with one label: the occupancy of the second overwrites that of the first."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b - log_z)
    gradient = np.exp(log_probs)
    gradient[:, blank] -= states[:, ::2].sum(1)
    for u, label in enumerate(targets):
        gradient[:, label] = np.exp(log_probs[:, label]) - states[:, 2 * u + 1]
    return -log_z, gradient


@_bug("logits", "likelihood summed over the frames, too", "constructed", "sums to 0 over V")
def _(logits, targets, blank):
    """The sum of alpha beta over states *and* frames is T times Z; the posteriors come out T times too small."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    log_t_z = log_z + np.log(len(logits))
    return -log_t_z, _ctc_gradient(log_probs, np.exp(a + b - log_t_z), targets, blank)


@_bug("logits", "label columns written with blank 0", "constructed", "finite differences, blank not 0")
def _(logits, targets, blank):
    """The recursion takes the blank from its argument, the gradient has the default in it."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, 0)


@_bug("log_probs", "softmax term for log-probs",
      "after torch.nn.functional.ctc_loss (pytorch#52241)",
      "mass 1 in each frame or anti-diagonal",
      claim="torch-ctc-gradient, torch-thread-52241",
      believed="`gradcheck` fails on this loss, so its gradient is wrong.",
      truth="It is the gradient with respect to the logits, one step early: log-softmax passes it on unchanged "
            "{eq}`eq-log-softmax-kernel`, and one line repairs it {eq}`eq-practice-repair`.")
def _(log_probs, targets, blank):
    """exp(log_probs) - occupancy: through log_softmax it comes out right, for the log-probs themselves it is wrong."""
    return ctc.loss(log_probs, targets, blank=blank), np.exp(log_probs) - ctc.occupancy(log_probs, targets, blank=blank)


@_bug("logits", "gradient divided by T, loss not",
      "after Paddle's norm_by_times",
      "finite differences, one random case",
      claim="paddle-ctc-norm-by-times",
      believed="Dividing the gradient by the frames only changes the learning rate.",
      truth="It changes the objective: every utterance gets a weight of its own {eq}`eq-practice-weighted`, and "
            "the printed loss is not the one that is trained.")
def _(logits, targets, blank):
    """A normaliser is applied to the gradient only."""
    return -_ctc(logits, targets, blank)[3], ctc.grad_logits(logits, targets, blank=blank) / len(logits)


# CTC: the edges, and floating point.

@_bug("logits", "NaN where no alignment exists",
      "after torch.nn.functional.ctc_loss (pytorch#14401)",
      "no alignment: loss inf, gradient 0",
      claim="torch-ctc-nan, torch-thread-14401",
      believed="NaN after some epochs is a bug in the gradient, and a mask on the loss repairs it.",
      truth="The target does not fit into its frames. Its occupancy is 0/0 {eq}`def-ctc-occupancy`, and 0 times "
            "NaN is NaN ({ref}`no-alignment`).")
def _(logits, targets, blank):
    """alpha + beta - log Z is -inf minus -inf."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("logits", "softmax where no alignment exists", "after TensorFlow's sparse ctc_loss",
      "no alignment: loss inf, gradient 0", claim="tensorflow-sparse-no-alignment")
def _(logits, targets, blank):
    """The occupancy is 0 there, and softmax - occupancy is not."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b - log_z) if log_z > -np.inf else np.zeros(a.shape)
    return -log_z, _ctc_gradient(log_probs, states, targets, blank)


@_bug("logits", "loss 0 where no alignment exists",
      "after warp-ctc (chainer#5614) and Paddle",
      "no alignment: loss inf, gradient 0",
      claim="warp-ctc-no-alignment, paddle-ctc-warp-ctc, chainer-thread-5614",
      believed="An utterance that cannot be aligned teaches nothing, so its loss is 0.",
      truth="Its gradient is 0; its loss is infinite {eq}`eq-practice-feasible`. A loss of 0 says that the "
            "target was certain, and improves the mean.")
def _(logits, targets, blank):
    """An impossible target counts as certain, and disappears from the curve of the loss."""
    loss = ctc.loss(log_softmax(logits), targets, blank=blank)
    return (0.0 if loss == np.inf else loss), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "no frames, no loss", "after warp-ctc", "no frames: loss 0 or inf",
      claim="warp-ctc-no-frames")
def _(logits, targets, blank):
    """The loss of an utterance without frames is infinite, even if its target is empty."""
    if len(logits) == 0:
        return np.inf, np.zeros_like(logits)
    return ctc.loss(log_softmax(logits), targets, blank=blank), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "-1e5 in place of -inf",
      "after optax.ctc_loss; NeMo's TDT has -1e4",
      "no alignment: loss inf, gradient 0",
      claim="optax-floor, nemo-tdt-floor",
      believed="A number as low as $-10^5$ is as good as $-\\infty$.",
      truth="Then the impossible has a little mass: its loss is finite, and its gradient need not be 0 "
            "{eq}`eq-practice-feasible`.")
def _(logits, targets, blank):
    """Impossible states have a little mass, and an impossible target a large finite loss with a gradient."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank, FLOOR)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("logits", "divided by a probability of 0",
      "after torch.nn.functional.ctc_loss",
      "-inf masks act like very low scores",
      claim="torch-ctc-mask-nan",
      believed="A symbol that is masked by $-\\infty$ takes no part in the computation.",
      truth="A formula that divides by its probability divides 0 by 0 {eq}`eq-ctc-grad-logits-2006`; where only "
            "alpha contains the emission, nothing is divided {eq}`def-ctc-occupancy`.")
def _(logits, targets, blank):
    """Alpha and beta both contain the emission; dividing it out is -inf minus -inf where a symbol is masked."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    if log_z == -np.inf:
        return np.inf, np.zeros_like(logits)
    emission = _emissions(log_probs, targets, blank)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + (b + emission) - log_z - emission), targets, blank)


@_bug("logits", "log-domain 0.0 read as no mass",
      "after warp-ctc",
      "confident frames, against the reference",
      claim="warp-ctc-guard",
      believed="In an array of masses, 0 means that no path passed.",
      truth="In the log domain, 0 is a mass of 1, so the one entry that is certain gets no occupancy.")
def _(logits, targets, blank):
    """A mass of exactly 1 has the logarithm 0.0, which is taken for an entry that no path uses."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    gradient = ctc.grad_logits(logits, targets, blank=blank)
    through = np.where(a + b == 0.0, 1.0, 0.0)
    return -log_z, gradient - (_ctc_gradient(log_probs, through, targets, blank) - np.exp(log_probs))


@_bug("logits", "exp before the maximum is subtracted", "constructed",
      "a constant added to a row changes nothing")
def _(logits, targets, blank):
    """exp(800) is inf, and inf / inf is NaN, though only differences of logits matter."""
    mass = np.exp(logits).sum(-1, keepdims=True)
    _, a, b, log_z = _ctc(logits, targets, blank)
    states = np.exp(a + b - log_z) if log_z > -np.inf else np.zeros(a.shape)
    return -log_z, _ctc_gradient(np.log(np.exp(logits) / mass), states, targets, blank) * (log_z > -np.inf)


@_bug("logits", "probabilities, not rescaled", "constructed; rescaling per frame fails later, but fails",
      "log Z below -10000, against the reference")
def _(logits, targets, blank):
    """The recursions run on probabilities, whose products underflow to 0."""
    log_probs, targets = log_softmax(logits), check_targets(targets, logits.shape[1], blank)
    a, b, z = (f(np.exp(log_probs), targets, blank=blank, semiring=REAL) for f in (ctc.alpha, ctc.beta, ctc.Z))
    z = float(z)
    states = (a * b).astype(float) / z if z > 0 else np.zeros(a.shape)
    return -np.log(z), _ctc_gradient(log_probs, states, targets, blank) * (z > 0)


@_bug("logits", "float32 alpha and beta", "after torch.nn.functional.ctc_loss, warp-ctc and others",
      "log Z below -10000, against the reference", claim="torch-ctc-dtype, warp-ctc-float32", tolerance=1e-5)
def _(logits, targets, blank):
    """Log alpha is stored in float32, and rounded to a thousandth where it is near -10000."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank, LOG32)
    if log_z == -np.inf:
        return np.inf, np.zeros_like(logits)
    return -log_z, _ctc_gradient(log_probs, np.exp(a + b - log_z), targets, blank)


@_bug("logits", "length counted as the non-zeros",
      "after Keras losses.CTC (keras#21876)",
      "symbols renamed", batch=True,
      claim="keras-frames, keras-thread-21876",
      believed="A 0 in a target is padding.",
      truth="Which symbol is the blank, and what fills the padding, are two conventions; only the length says "
            "where a target ends {eq}`eq-practice-feasible`.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """Labels are taken to be non-zero and padding zero, whatever the given lengths and blank."""
    counted = np.count_nonzero(targets, axis=1)
    return right_for("ctc", "logits")(scores, targets, logit_lengths, counted, blank=blank)


@_bug("logits", "out-of-range label ends the target", "after TensorFlow's sparse ctc_loss",
      "a label outside [0, V) is refused", claim="tensorflow-sparse-bad-label")
def _(logits, targets, blank):
    """An invalid label cuts the target short, silently."""
    wrong = np.flatnonzero((targets < 0) | (targets >= logits.shape[1]))
    targets = targets[:wrong[0]] if len(wrong) else targets
    return ctc.loss(log_softmax(logits), targets, blank=blank), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "out-of-range label reads a neighbour",
      "after torch.nn.functional.ctc_loss (pytorch#193794)",
      "a label outside [0, V) is refused",
      claim="torch-ctc-labels-unchecked, torch-thread-193794",
      believed="Labels come from our own data, so nobody has to check them.",
      truth="A label is an address. One beyond the vocabulary reads other memory, and its gradient writes there; "
            "it has to be refused.")
def _(logits, targets, blank):
    """The label is an address, and whatever stands there is taken for its logit."""
    targets = targets % logits.shape[1]
    return ctc.loss(log_softmax(logits), targets, blank=blank), ctc.grad_logits(logits, targets, blank=blank)


@_bug("logits", "nothing but empty targets", "after Paddle, which crashes on such a batch", "a batch of empty targets",
      claim="paddle-ctc-empty", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The program looks for the longest target without asking whether any target has a label."""
    if targets.size == 0:
        raise IndexError("the batch has no label")
    return right_for("ctc", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)


@_bug("logits", "inf times 0", "constructed", "no alignment, upstream gradient inf", batch=True)
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """A right gradient of 0 is multiplied by an upstream gradient that is infinite where the loss is."""
    losses, backward = right_for("ctc", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    gradient = backward(np.ones(len(scores)))
    return losses, lambda upstream: gradient * upstream[:, None, None]


@_bug("logits", "upstream gradient on one term only",
      "after torch.nn.functional.ctc_loss (pytorch#11750)",
      "linear in the upstream gradient", batch=True,
      claim="torch-thread-11750, torch-ctc-early-upstream",
      believed="The gradient is right for a sum of losses, so it is right for a weighted sum.",
      truth="Both terms of softmax minus occupancy carry the weight {eq}`eq-practice-weighted`; test a weight that "
            "is not 1.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The occupancy is multiplied by the upstream gradient, and the softmax is not."""
    losses, backward = right_for("ctc", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    gradient = backward(np.ones(len(scores)))
    softmax = np.where(gradient != 0, np.exp(log_softmax(np.nan_to_num(scores))), 0.0)
    return losses, lambda upstream: np.where(
        gradient != 0, softmax + (gradient - softmax) * np.nan_to_num(upstream)[:, None, None], 0.0)


@_bug("logits", "upstream gradient ignored",
      "after torch's cuDNN path (pytorch#21961) and warp-ctc's binding (deepspeech.pytorch#250)",
      "linear in the upstream gradient", batch=True,
      claim="torch-thread-21961, warp-ctc-binding-ignored",
      believed="A loss times 0.1 trains like a smaller loss.",
      truth="Only if `backward` multiplies by what it receives {eq}`eq-practice-weighted`; this one returns what "
            "it saved.")
def _(scores, targets, logit_lengths, target_lengths, *, blank=0):
    """The gradient was computed in the forward pass, and is returned unchanged."""
    losses, backward = right_for("ctc", "logits")(scores, targets, logit_lengths, target_lengths, blank=blank)
    gradient = backward(np.ones(len(scores)))
    return losses, lambda upstream: gradient.copy()


@_bug("logits", "right loss, wrong gradient of many labels",
      "after torch's CUDA code, beyond 896 or 1024 labels (pytorch#27442); here beyond 8",
      "many labels, against the reference",
      claim="torch-thread-27442",
      believed="The loss is right at this size, so the gradient is, too.",
      truth="Another kernel computes it, and its index was wrong as soon as a target needed a second block: test both "
            "beyond every limit in the code.")
def _(logits, targets, blank):
    """The block that collects the occupancies is smaller than the one that ran the recursion."""
    log_probs, a, b, log_z = _ctc(logits, targets, blank)
    if log_z == -np.inf:
        return np.inf, np.zeros_like(logits)
    states = np.exp(a + b - log_z)
    states[:, 17:] = 0.0
    return -log_z, _ctc_gradient(log_probs, states, targets, blank)
