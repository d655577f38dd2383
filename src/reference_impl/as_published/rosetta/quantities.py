"""Numbers that have another layout, sign, origin or unit elsewhere; and names for what is the same everywhere."""

from __future__ import annotations

import numpy as np

from .table import Row, read_in

__all__ = ["NAMES", "QUANTITIES"]

NAMES = (
    Row("logits", ("`logits`",
                   "activations, `acts` (warp-ctc, warp-transducer), unnormalised log-probs, joiner output")),
    Row("log-probs", ("`log_probs`", '`lp`, log-softmax output; in some interfaces "input", which may mean either')),
    Row("targets", ("`targets`", "labels, transcript, `labels`, `y`")),
    Row("logit-lengths", ("`logit_lengths`", "input lengths, `act_lens`, source lengths, `srcLen`")),
    Row("target-lengths", ("`target_lengths`", "label lengths, `label_lens`, `tgtLen`")),
    Row("blank", ("`blank`", r"null, $\epsilon$, $\phi$, $\varnothing$")),
    Row("occupancy", ("occupancy", r'posterior, occupation probability, soft alignment, "gradient of the scores" (k2), '
                                   r"$\gamma$")),
    Row("encodings", ("$f_t(k)$, $g_u(k)$; `encodings`, `predictions`", "`am`, `lm` (k2)")),
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


_K2 = "k2 k2/python/k2/rnnt_loss.py"
_NUMBA = "warprnnt_numba warprnnt_numba/rnnt_loss/utils"

QUANTITIES = (
    Row("time-first", ("`logits` (B, T, V)", "(T, B, V): warp-ctc, torch's CTC"), batch_first, batch_first,
        read_in("warp-ctc include/ctc.h 80-89", "torch aten/src/ATen/native/LossCTC.cpp ctc_loss_impl")),
    Row("flat-labels", ("`targets` (B, U), padded", "`flat_labels`, concatenated: warp-ctc; torch's CTC, if 1-d"),
        padded, concatenated, read_in("warp-ctc include/ctc.h 93-94")),
    Row("tgtlen", ("`target_lengths`", "larger by one inside kernels, where it counts rows: torchaudio's `tgtLen`, "
                                       "warp-transducer's `U`"), one_less, one_more,
        read_in("torchaudio src/libtorchaudio/rnnt/cpu/cpu_kernels.h ComputeGradients",
                "warp-transducer include/detail/cpu_rnnt.h 293")),
    Row("blank-negative", ("`blank` = V - 1", "`blank=-1`: torchaudio's RNN-T"), from_the_end, None,
        read_in("torchaudio-wheel torchaudio/functional/functional.py 1786-1787")),
    Row("blank-last", ("`blank` = 0, labels from 1", "blank V - 1, labels from 0: TensorFlow's sparse CTC, NeMo"),
        blank_to_the_front, blank_to_the_back,
        read_in("tensorflow tensorflow/core/util/ctc/ctc_loss_calculator.h CTCLossCalculator",
                "nemo nemo/collections/asr/losses/rnnt.py 416")),
    Row("loss", ("`loss`", "minus: log-likelihood, `loglike`, `llForward`, total score, `tot_scores` (k2); the same: "
                           "cost, negative log-likelihood, `nll`"), negated, negated,
        read_in("k2 k2/python/k2/ctc_loss.py 138-142", "warp-transducer include/detail/cpu_rnnt.h 209")),
    Row("loss-bits", ("`loss`, nats", "bits"), nats, bits),
    Row("loss-fastemit", ("`loss` with FastEmit", r"times $1 + \lambda$: warprnnt_numba, NeMo"), cost_of_fastemit,
        scaled_by_fastemit,
        read_in(f"{_NUMBA}/cpu_utils/cpu_rnnt.py 232", f"{_NUMBA}/rnnt_helper.py 114-115",
                "nemo nemo/collections/asr/parts/numba/rnnt_loss/utils/cpu_utils/cpu_rnnt.py 237")),
    Row("denom", ("log-sum-exp of the logits", "`denom`, the same: torchaudio; log-partition"), unchanged, unchanged,
        read_in("torchaudio src/libtorchaudio/rnnt/cpu/cpu_kernels.h LogSumExp2D")),
    Row("denom-negative", ("log-sum-exp of the logits", "`denom`, with the opposite sign: warp-transducer's GPU code"),
        negated, negated, read_in("warp-transducer include/detail/reduce.h 103")),
    Row("pairs", ("log-probs of blanks (T, U+1) and labels (T, U)",
                  "`log_probs2`, two for each node, flat: warp-transducer's CPU code"), arcs_from_pairs, None,
        read_in("warp-transducer include/detail/cpu_rnnt.h 120-127")),
    Row("k2-arcs", ("scores of blank arcs (T, U+1) and label arcs (T, U)",
                    "`py` [s][t], `px` [s][t] with a column more (k2, regular)"), arcs_from_k2, arcs_to_k2,
        read_in(f"{_K2} 131-157")),
    Row("k2-grads", (r"$\gamma_\varnothing$, $\gamma_y$, posteriors of arcs",
                     "`py_grad`, `px_grad` (k2), gradients of $\\log Z$, hence positive"), arcs_from_k2, None,
        read_in("k2 k2/python/csrc/torch/mutual_information_cpu.cu 126-254")),
    Row("node-gradient", ("node occupancy", "node posterior, node gradient (icefall's pictures)"), node_occupancy),
    Row("am-lm", ("`logits` of the simple joiner", "`am` + `lm` (k2)"), joint_logits, None, read_in(f"{_K2} 170-218")),
    Row("rnnt-type", ("`label_frames=0`, `label_frames=1`",
                      '`rnnt_type` "regular", "modified" (k2); its `px` has one column more than `py`, or as many'),
        label_frames, rnnt_type, read_in(f"{_K2} 139-145")),
    Row("scales", ("`prediction_scale`, `encoding_scale`",
                   "`lm_only_scale`, `am_only_scale` (k2); `lm_scale`, `am_scale` (icefall)"), scales, None,
        read_in(f"{_K2} 1485-1492", "icefall egs/librispeech/ASR/zipformer/model.py 289-299")),
    Row("ranges", ("`first_rows`, $b_t$; $Q$",
                   "the first column of `ranges`; `s_range` (k2), `prune_range` (icefall)"), first_rows, ranges_of,
        read_in(f"{_K2} 776-778", "icefall egs/librispeech/ASR/zipformer/model.py 301-307")),
)
