"""Lines of CTC libraries and of a derivation, in their letters, as functions; and the rows that show them.

``collected`` is alpha times beta, both with the emission, added up over the states of each symbol, (T, V).
"""

from __future__ import annotations

import numpy as np

from .table import Row

__all__ = ["CTC_LINES"]


def log_alpha_of_torch(la1, la2, la3, lp):
    lamax = np.maximum(np.maximum(la1, la2), la3)
    return np.log(np.exp(la1 - lamax) + np.exp(la2 - lamax) + np.exp(la3 - lamax)) + lamax + lp


def dense(ilabel_log_probs, fwd, bwd, state_to_olabel):
    fwd_bwd = fwd + bwd
    fwd_bwd = fwd_bwd - np.logaddexp.reduce(fwd_bwd, 1, keepdims=True)
    return np.exp(ilabel_log_probs) - np.exp(fwd_bwd) @ state_to_olabel


def next_emit(prev_phi, prev_emit, logprob_emit):
    return np.logaddexp(prev_phi + logprob_emit, prev_emit + logprob_emit)


def arc_grad(node_grad_dst, node_score_src, weight, node_score_dst):
    return node_grad_dst * np.exp(node_score_src + weight - node_score_dst)


def arc_post(forward_score, score, backward_score, tot_score):
    return np.exp(forward_score + score + backward_score - tot_score)


def stanford(params, grad, absum):
    return params - grad / (params * absum)


def without_norm_by_times(grad, T):
    return grad * T


def label_length(y_true, mask_index):
    return np.sum(y_true != mask_index, axis=1)


def p_at(collected, y):
    return (collected / y).sum(1)


def step_1(collected, y):
    return 1 / y**2 * collected


def step_2(collected, y, p):
    return 1 / (p * y**2) * collected


def step_3(S):
    return S[:, None] * (np.eye(len(S)) - S)


def step_4(d_ln_p, d_y):
    return -(d_ln_p @ d_y)


def last_step(y, collected, p):
    return y - 1 / (p * y) * collected


def equation_16(y, collected, alpha_hat_beta_hat_by_y):
    return y - 1 / (y * alpha_hat_beta_hat_by_y.sum(1, keepdims=True)) * collected


CTC_LINES = {
    "paddlespeech": (
        Row("line-step-prefix", (r"$\alpha_t(s) = \sum p(\pi_{1:t} \mid x)$, $\pi$ a path", "{eq}`def-ctc-alpha`",
                                 "It counts each prefix once for each suffix: {ref}`as printed <route-alpha-sums>`."),
            claims=("paddlespeech-alpha",)),
        Row("line-step-alpha", (r"$(\alpha_{t-1}(s) + \alpha_{t-1}(s-1) + \alpha_{t-1}(s-2))\, y^t_{l'_s}$",
                                "{eq}`eq-ctc-alpha`", r"Right, with $\alpha_t(s) = 0$ for $s < 1$: {ref}`an index of "
                                "-1 <route-small-things>`."),
            claims=("paddlespeech-skip",), checked_as="line-torch-alpha"),
        Row("line-step-beta", (r"$\beta_t(s) = 0$ for $s < \lvert l' \rvert$", "{eq}`def-ctc-2006-beta`",
                               "The inequality is reversed: {ref}`where beta is 0 <route-beta-is-0>`."),
            claims=("paddlespeech-beta",)),
        Row("line-step-p", (r"$p = \sum_s \alpha_t(s)\, \beta_t(s) / y^t_{l'_s}$", "{eq}`eq-ctc-2006-frame-sum`",
                            "The division removes one of two emissions; a sum over states, not symbols: "
                               "{ref}`here <route-state-and-symbol>`."),
            p_at, claims=("paddlespeech-product", "paddlespeech-state")),
        Row("line-step-1", (r"(1) $\partial p / \partial y = \frac{1}{y^2} \sum \alpha\, \beta$",
                            "{eq}`eq-ctc-2006-grad-probs`",
                            "Right; but see its {ref}`quotient rule <route-quotient-rule>`."),
            step_1, claims=("paddlespeech-step-1", "paddlespeech-quotient")),
        Row("line-step-2", (r"(2) $\frac{1}{p\, y^2} \sum \alpha\, \beta$", "{eq}`eq-ctc-2006-grad-log`",
                            "The derivative of the logarithm divides by $p$."),
            step_2, claims=("paddlespeech-step-1",)),
        Row("line-step-3", (r"(3) $S_i\, (\delta_{ij} - S_j)$", "{eq}`eq-softmax-jacobian`", "The softmax's Jacobian."),
            step_3, claims=("paddlespeech-step-3",)),
        Row("line-step-4", (r"(4) $-\sum_{k'} \frac{\partial \ln p}{\partial y_{k'}} \frac{\partial y_{k'}}{\partial "
                            r"u_k}$", "{eq}`eq-ctc-2006-chain`", "Every symbol's logit reaches all probabilities."),
            step_4, claims=("paddlespeech-step-3",)),
        Row("line-step-last", (r"$y - \frac{1}{p\, y} \sum \alpha\, \beta$", "{eq}`eq-ctc-grad-logits-2006`",
                               r"Softmax minus occupancy; one of two emissions is divided out."),
            last_step, claims=("paddlespeech-notebook",)),
        Row("line-step-16", (r"(16) the same with $\hat\alpha, \hat\beta$, $p$ as a sum over $s$",
                             "{eq}`eq-ctc-2006-grad-scaled`", "Any scales cancel; {ref}`what they are "
                             "<route-what-the-scales-are>`."),
            equation_16, claims=("paddlespeech-equation-16", "paddlespeech-scales"))),
    "warp-ctc": (
        Row("line-warp-ctc-cpu", ("CPU: `probs - exp(output - log(probs) - log_partition)`",
                                  "{eq}`eq-ctc-2006-kernel`", r"`output` collects $\alpha\,\beta$ of a symbol, with "
                                  "two emissions; `- log(probs)` removes one."),
            claims=("warp-ctc-gradient", "warp-ctc-both-emissions"), checked_as="gradient-warp-ctc"),
        Row("line-warp-ctc-gpu", ("GPU: `probs - exp(grad - log(probs) - log_partition)`", "{eq}`eq-ctc-2006-kernel`",
                                  "The same line. Both take a sum of exactly 0.0 for no mass."),
            claims=("warp-ctc-gpu-gradient", "warp-ctc-guard"), checked_as="gradient-warp-ctc")),
    "torch": (
        Row("line-torch-alpha", ("`log(exp(la1-lamax) + exp(la2-lamax) + exp(la3-lamax)) + lamax + lp`",
                                 "{eq}`eq-ctc-alpha`", "Stay, step, skip; the maximum keeps exponentials small."),
            log_alpha_of_torch, claims=("torch-ctc-loop",)),
        Row("line-torch-cpu", ("CPU: `(exp(lp) - exp(res + nll - lp)) * gr`", "{eq}`def-practice-returned`",
                               "The logits' gradient, returned for log-probs: subtract `exp(lp)` for the derivative."),
            claims=("torch-ctc-gradient", "torch-ctc-both-emissions"), checked_as="gradient-torch"),
        Row("line-torch-cuda", ("CUDA: the same line", "{eq}`def-practice-returned`",
                                "In small problems; in larger ones the labels' occupancies are added atomically, in "
                                "no fixed order."),
            claims=("torch-ctc-gpu-gradient", "torch-ctc-atomics"), checked_as="gradient-torch"),
        Row("line-torch-cudnn", ("cuDNN: no source", "{eq}`eq-ctc-grad-logits`",
                                 "Chosen for float32, blank 0 and int32 targets, under further conditions. "
                                 "Its source is not public."),
            claims=("torch-ctc-cudnn",))),
    "tensorflow": (
        Row("line-tensorflow-sparse", ("sparse: `y - exp(prob_sum - log_p_z_x)`", "{eq}`eq-ctc-grad-logits`",
                                       r"No division by $y$: this $\beta$ has no emission at $t$."),
            claims=("tensorflow-sparse-gradient", "tensorflow-sparse-beta"), checked_as="gradient-tensorflow"),
        Row("line-tensorflow-dense", ("dense: `exp(ilabel_log_probs) - exp(olabel_log_probs)`",
                                      "{eq}`eq-ctc-grad-logits`", "The occupancy is normalised in each frame, so the "
                                      "scales of both sweeps cancel."),
            dense, claims=("tensorflow-dense-gradient", "tensorflow-dense-normalised"))),
    "optax": (
        Row("line-optax", ("`logaddexp(prev_phi + logprob_emit, prev_emit + logprob_emit)`", "{eq}`eq-ctc-alpha`",
                           "`prev_phi` holds step and skip together. JAX differentiates the scan."),
            next_emit, claims=("optax-emit", "optax-alpha-only")),),
    "gtn": (
        Row("line-gtn", ("`nodeGrads[dst] * exp(nodeScores[src] + weight - nodeScores[dst])`",
                         "{eq}`eq-log-adjoint`, {eq}`eq-share-posterior`",
                         r"An arc's posterior, from its share. There is no $\beta$."),
            arc_grad, claims=("gtn-no-beta", "gtn-ctc-arcs")),),
    "k2-ctc": (
        Row("line-k2-ctc", ("`arc_post`: forward score + score + backward score - total", "{eq}`eq-arc-posterior`",
                            "Both sweeps. The gradient of a lattice's score is the posteriors of its arcs."),
            arc_post, claims=("k2-ctc-both-sweeps", "k2-tot-scores")),),
    "stanford-ctc": (
        Row("line-stanford", ("`params - grad / (params * absum)`", "{eq}`eq-ctc-2006-grad-scaled`",
                              r"Equation 16 itself: `absum` is $\hat Z_t$. With one frame the loss is wrong."),
            stanford, claims=("stanford-ctc-gradient", "stanford-ctc-one-frame")),),
    "paddle-ctc": (
        Row("line-paddle-ctc", ("{named}`warp-ctc`'s gradient times the upstream one", "{eq}`eq-ctc-2006-kernel`",
                                "It takes logits; the softmax is inside."),
            claims=("paddle-ctc-warp-ctc",), checked_as="gradient-warp-ctc"),
        Row("line-paddle-times", ("`norm_by_times`: gradient over T", "{eq}`eq-practice-weighted`",
                                  "Only the gradient is divided, not the loss."),
            without_norm_by_times, claims=("paddle-ctc-norm-by-times",))),
    "keras": (
        Row("line-keras", ("`sum(y_true != mask_index)`", "{eq}`def-ctc-loss`",
                           "A label that is 0 is not counted, so no label may be 0. The backend computes the loss."),
            label_length, claims=("keras-frames", "keras-backend")),),
}
