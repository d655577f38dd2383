"""The gradient formulas of well-known implementations, term by term in their letters; arrays in, the gradient out.

Masses are logarithms. For CTC ``collected`` is the log of alpha times beta, (T, V), added up over the states of each
symbol; for RNN-T ``beta_next`` is the beta of the node that an arc leads to. The chapters derive each of them.
"""

from __future__ import annotations

import numpy as np

from .table import Row

__all__ = ["GRADIENTS"]


def warp_ctc(p, collected, loglik):
    return p - np.exp(collected - np.log(p) - loglik)


def tensorflow(y, collected, log_p_z_x):
    return y - np.exp(collected - log_p_z_x)


def torch_ctc(lp, collected, nll, upstream):
    return (np.exp(lp) - np.exp(collected + nll - lp)) * upstream


def by_arc(log_probs, alpha, beta_next, loglike):
    return -np.exp(log_probs + alpha + beta_next - loglike)


def fused(g, beta, beta_next):
    return np.exp(g + beta) - np.exp(g + beta_next)


def fastemit_by_label_arc(log_probs, alpha, beta_next, loglike, fastemit_lambda):
    return -np.exp(np.log1p(fastemit_lambda) + log_probs + alpha + beta_next - loglike)


def fastemit_fused(logpk, alpha, beta, beta_next, label_next, is_label, logll, fastemit_lambda):
    """``label_next``: log-prob of the node's next label plus the beta after it; both are -inf where there is no arc."""
    visits = np.exp(alpha + beta + logpk - logll) + fastemit_lambda * np.exp(alpha + label_next + logpk - logll)
    emphasis = np.where(is_label, 1 + fastemit_lambda, 1)
    return visits - emphasis * np.exp(alpha + logpk - logll + beta_next)


def loss_from_k2(scores_grad):
    return -scores_grad


def monotonic(logpk, alpha, beta, beta_next, logll):
    return np.exp(logpk - logll + alpha + beta) - np.exp(logpk - logll + alpha + beta_next)


def hat(blank, labels):
    log_labels = labels - np.logaddexp.reduce(labels, -1, keepdims=True)
    return -np.logaddexp(0, -blank), log_labels - np.logaddexp(0, blank)


GRADIENTS = (
    Row("gradient-warp-ctc", ("CTC, warp-ctc: `p - exp(alpha + beta - log p - loglik)`", "logits",
                              "{eq}`eq-ctc-grad-logits-2006`"), warp_ctc, None,
        claims=("warp-ctc-gradient",)),
    Row("gradient-tensorflow", (r"CTC, TensorFlow's sparse loss (CPU): the same without `log p`, because its $\beta$ "
                                "excludes the emission", "logits", "{eq}`eq-ctc-grad-logits`"), tensorflow, None,
        claims=("tensorflow-sparse-gradient",)),
    Row("gradient-torch", ("CTC, torch: as warp-ctc, multiplied by the upstream gradient",
                           "logits, though torch says log-probs", "{ref}`reading the kernels <reading-the-kernels>`"),
        torch_ctc, None, claims=("torch-ctc-gradient", "warp-ctc-gradient", "torch-ctc-documented")),
    Row("gradient-cpu", ("RNN-T, CPU code of warp-transducer: `-exp(log_probs + alpha + beta_next - loglike)`",
                         "log-probs", "{eq}`eq-rnnt-grad-log-probs`"), by_arc, None,
        claims=("warp-transducer-cpu-gradient",)),
    Row("gradient-fused", ("RNN-T, GPU code of warp-transducer; torchaudio by default, CPU and GPU: "
                           "`exp(g + beta) - exp(g + beta_next)`", "logits", "{eq}`eq-rnnt-fused`"), fused, None,
        claims=("warp-transducer-gpu-gradient", "torchaudio-default", "torchaudio-cpu-gradient",
                "torchaudio-gpu-gradient")),
    Row("gradient-fastemit-cpu", (r"RNN-T with FastEmit, CPU code of NeMo, warprnnt_numba and Paddle: $\gamma_y$ times "
                                  "`(1 + fastemit_lambda)`", "log-probs; the gradient of no loss",
                                  "[](../notebooks/65_fastemit.ipynb)"), fastemit_by_label_arc, None,
        claims=("nemo-cpu-gradient", "warprnnt-numba-cpu-gradient", "paddle-cpu-gradient")),
    Row("gradient-fastemit-gpu", (r"their GPU code: the same, and $\lambda\,\gamma_y$ added to the visits",
                                  "logits; the gradient of no loss", "[](../notebooks/65_fastemit.ipynb)"),
        fastemit_fused, None,
        claims=("nemo-gpu-gradient", "warprnnt-numba-gpu-gradient", "paddle-gpu-fastemit")),
    Row("gradient-k2", ("k2, fast_rnnt: $+$ occupancy of each arc",
                        "arc scores; a gradient of the log-likelihood (hence the sign)", "{eq}`eq-gradient-theorem`"),
        loss_from_k2, loss_from_k2, claims=("k2-gradient", "fast-rnnt-gradient")),
    Row("gradient-monotonic", ('monotonic RNN-T: k2\'s "modified", RNA, `monotonic-rnnt`', "logits",
                               "{eq}`eq-mono-fused`"), monotonic, None,
        claims=("k2-type-names", "monotonic-rnnt-gradient")),
    Row("gradient-hat", ("HAT: `logsigmoid(blank)`, and `log_softmax(labels) + logsigmoid(-blank)`", "logits",
                         "{eq}`eq-hat-visits`, {eq}`eq-hat-grad-label`"), hat, claims=("k2-hat",)),
)
