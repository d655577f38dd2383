"""Numbers that have another layout, sign, origin or unit elsewhere; and names for what is the same everywhere."""

from __future__ import annotations

import numpy as np

from .table import Row

__all__ = ["NAMES", "QUANTITIES"]

NAMES = (
    Row("logits", ("`logits`",
                   "activations, `acts`, unnormalised log-probs, joiner output")),
    Row("log-probs", ("`log_probs`", '`lp`, log-softmax output; in some interfaces "input", which may mean either')),
    Row("targets", ("`targets`", "labels, transcript, `labels`, `y`")),
    Row("logit-lengths", ("`logit_lengths`", "input lengths, `act_lens`, source lengths, `srcLen`")),
    Row("target-lengths", ("`target_lengths`", "label lengths, `label_lens`, `tgtLen`")),
    Row("blank", ("`blank`", r"null, $\epsilon$, $\phi$, $\varnothing$")),
    Row("occupancy", ("occupancy", r'posterior, occupation probability, soft alignment, `px_grad` and `py_grad` (k2), '
                                   r"$\gamma$"), claims=("k2-gradient",)),
    Row("encodings", ("$f_t(k)$, $g_u(k)$; `encodings`, `predictions`", "`am`, `lm` (k2)"), claims=("k2-simple",)),
)


def negated(value):
    return -value


def unchanged(value):
    return value


def one_less(lengths):
    return lengths - 1


def one_more(lengths):
    return lengths + 1


def from_the_end(blank, V):
    return blank % V


def blank_to_the_front(logits, labels):
    return np.roll(logits, 1, axis=-1), labels + 1


def blank_to_the_back(logits, labels):
    return np.roll(logits, -1, axis=-1), labels - 1


def batch_first(logits):
    return logits.swapaxes(0, 1)


def padded(flat_labels, lengths):
    targets = np.zeros((len(lengths), max(lengths)), np.int64)
    for b, length in enumerate(lengths):
        targets[b, :length] = flat_labels[sum(lengths[:b]):][:length]
    return targets


def concatenated(targets, lengths):
    return np.concatenate([targets[b, :length] for b, length in enumerate(lengths)])


def arcs_from_pairs(pairs, U):
    nodes = pairs.reshape(-1, U + 1, 2)
    return nodes[..., 0], nodes[:, :-1, 1]


def arcs_from_k2(px, py):
    return py.T, px.T[:-1]


def arcs_to_k2(blank_scores, label_scores):
    nothing = np.full((1, label_scores.shape[1]), -np.inf)  # after the last frame there is no label
    return np.concatenate([label_scores, nothing]).T, blank_scores.T


def node_occupancy(px_grad, py_grad):
    occupancy = py_grad.T.copy()
    occupancy[:, :-1] += px_grad.T[:-1]
    return occupancy


def joint_logits(am, lm):
    return am[:, None] + lm[None]


def label_frames(rnnt_type):
    return ("regular", "modified").index(rnnt_type)


def rnnt_type(frames):
    return ("regular", "modified")[frames]


def scales(lm_only_scale, am_only_scale):
    return {"prediction_scale": lm_only_scale, "encoding_scale": am_only_scale}


def first_rows(ranges):
    return ranges[..., 0]


def ranges_of(first, num_rows):
    return first[..., None] + np.arange(num_rows)


def cost_of_fastemit(cost, fastemit_lambda):
    return cost / (1 + fastemit_lambda)


def scaled_by_fastemit(loss, fastemit_lambda):
    return loss * (1 + fastemit_lambda)


def nats(bits):
    return bits * np.log(2)


def bits(nats):
    return nats / np.log(2)


QUANTITIES = (
    Row("time-first", ("`logits` (B, T, V)", "(T, B, V): warp-ctc, torch's CTC"), batch_first, batch_first,
        claims=("warp-ctc-layout", "torch-ctc-layout")),
    Row("flat-labels", ("`targets` (B, U), padded", "`flat_labels`, concatenated: warp-ctc; torch's CTC, if 1-d"),
        padded, concatenated, claims=("warp-ctc-layout", "torch-ctc-layout")),
    Row("tgtlen", ("`target_lengths`", "larger by one inside kernels, where it counts rows: torchaudio's `tgtLen`, "
                                       "warp-transducer's `U`"), one_less, one_more,
        claims=("torchaudio-rows", "warp-transducer-rows")),
    Row("blank-negative", ("`blank` = V - 1", "`blank=-1`: torchaudio's RNN-T"), from_the_end, None,
        claims=("torchaudio-blank",)),
    Row("blank-last", ("`blank` = 0, labels from 1", "blank V - 1, labels from 0: TensorFlow's sparse CPU "
                        "kernel, NeMo"),
        blank_to_the_front, blank_to_the_back,
        claims=("tensorflow-sparse-blank", "nemo-blank-last")),
    Row("loss", ("`loss`", "minus: log-likelihood, `loglike`, `llForward`, total score, `tot_scores` (k2); the same: "
                           "cost, negative log-likelihood, `nll`"), negated, negated,
        claims=("k2-tot-scores", "k2-cost")),
    Row("loss-bits", ("`loss`, nats", "bits"), nats, bits),
    Row("loss-fastemit", ("`loss` with FastEmit", r"times $1 + \lambda$: warprnnt_numba, NeMo (CPU: with a gradient)"),
        cost_of_fastemit, scaled_by_fastemit,
        claims=("warprnnt-numba-cpu-cost", "warprnnt-numba-gpu-cost", "nemo-cpu-cost", "nemo-gpu-cost")),
    Row("denom", ("log-sum-exp of the logits", "`denom`, the same: torchaudio; log-partition"), unchanged, unchanged,
        claims=("torchaudio-denominator",)),
    Row("denom-negative", ("log-sum-exp of the logits", "`denom`, with the opposite sign: warp-transducer's GPU code"),
        negated, negated, claims=("warp-transducer-denom",)),
    Row("pairs", ("log-probs of blanks (T, U+1) and labels (T, U)",
                  "`log_probs2`, two for each node, flat: warp-transducer's CPU code"), arcs_from_pairs, None,
        claims=("warp-transducer-pairs",)),
    Row("k2-arcs", ("scores of blank arcs (T, U+1) and label arcs (T, U)",
                    "`py` [s][t], `px` [s][t] with a column more (k2, regular)"), arcs_from_k2, arcs_to_k2,
        claims=("k2-alpha", "k2-last-column")),
    Row("k2-grads", (r"$\gamma_\varnothing$, $\gamma_y$, posteriors of arcs",
                     "`py_grad`, `px_grad` (k2), gradients of $\\log Z$, hence positive"), arcs_from_k2, None,
        claims=("k2-gradient",)),
    Row("node-gradient", ("node occupancy", "node posterior, node gradient (icefall's pictures)"), node_occupancy,
        claims=("icefall-picture",)),
    Row("am-lm", ("`logits` of the simple joiner", "`am` + `lm` (k2)"), joint_logits, None, claims=("k2-simple",)),
    Row("rnnt-type", ("`label_frames=0`, `label_frames=1`",
                      '`rnnt_type` "regular", "modified" (k2); its `px` has one column more than `py`, or as many'),
        label_frames, rnnt_type, claims=("k2-type-names", "k2-types")),
    Row("scales", ("`prediction_scale`, `encoding_scale`",
                   "`lm_only_scale`, `am_only_scale` (k2); `lm_scale`, `am_scale` (icefall)"), scales, None,
        claims=("k2-smoothed", "icefall-smoothing")),
    Row("ranges", ("`first_rows`, $b_t$; $Q$",
                   "the first column of `ranges`; `s_range` (k2), `prune_range` (icefall)"), first_rows, ranges_of,
        claims=("k2-ranges", "icefall-prune-range")),
)
