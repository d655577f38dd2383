"""The gradient formulas of well-known implementations, term by term in their letters; arrays in, the gradient out.

Masses are logarithms. For CTC ``collected`` is the log of alpha times beta, (T, V), added up over the states of each
symbol; for RNN-T ``beta_next`` is the beta of the node that an arc leads to. The chapters derive each of them.
"""

from __future__ import annotations

import numpy as np

from .table import Row, read_in

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


_NUMBA = "warprnnt_numba warprnnt_numba/rnnt_loss/utils"
_PADDLE = "paddle-transducer include/detail"
_NEMO = "nemo nemo/collections/asr/parts/numba/rnnt_loss/utils"

GRADIENTS = (
    Row("gradient-warp-ctc", ("CTC, warp-ctc: `p - exp(alpha + beta - log p - loglik)`", "logits",
                              "{eq}`eq-ctc-grad-logits-2006`"), warp_ctc, None,
        read_in("warp-ctc include/detail/cpu_ctc.h 310-315")),
    Row("gradient-tensorflow", (r"CTC, TensorFlow's sparse loss: the same without `log p`, because its $\beta$ "
                                "excludes the emission", "logits", "{eq}`eq-ctc-grad-logits`"), tensorflow, None,
        read_in("tensorflow tensorflow/core/util/ctc/ctc_loss_calculator.h CalculateGradient")),
    Row("gradient-torch", ("CTC, torch: as warp-ctc, multiplied by the upstream gradient",
                           "logits, though torch says log-probs", "{ref}`reading the kernels <reading-the-kernels>`"),
        torch_ctc, None, read_in("torch aten/src/ATen/native/LossCTC.cpp ctc_loss_backward_cpu_template")),
    Row("gradient-cpu", ("RNN-T, CPU code of warp-transducer: `-exp(log_probs + alpha + beta_next - loglike)`",
                         "log-probs", "{eq}`eq-rnnt-grad-log-probs`"), by_arc, None,
        read_in("warp-transducer include/detail/cpu_rnnt.h 253-267")),
    Row("gradient-fused", ("RNN-T, GPU code of warp-transducer; torchaudio by default, CPU and GPU: "
                           "`exp(g + beta) - exp(g + beta_next)`", "logits", "{eq}`eq-rnnt-fused`"), fused, None,
        read_in("warp-transducer include/detail/gpu_rnnt_kernel.h 161-174",
                "torchaudio src/libtorchaudio/rnnt/cpu/cpu_kernels.h ComputeGradientsOneSequence")),
    Row("gradient-fastemit-cpu", (r"RNN-T with FastEmit, CPU code of NeMo, warprnnt_numba and Paddle: $\gamma_y$ times "
                                  "`(1 + fastemit_lambda)`", "log-probs; the gradient of no loss",
                                  "[](../notebooks/65_fastemit.ipynb)"), fastemit_by_label_arc, None,
        read_in(f"{_NUMBA}/cpu_utils/cpu_rnnt.py 327-329", f"{_NEMO}/cpu_utils/cpu_rnnt.py 336-338",
                f"{_PADDLE}/cpu_rnnt.h 338-342")),
    Row("gradient-fastemit-gpu", ("their GPU code: the same, and its part of the visits",
                                  "logits; the gradient of no loss", "[](../notebooks/65_fastemit.ipynb)"),
        fastemit_fused, None,
        read_in(f"{_NUMBA}/cuda_utils/gpu_rnnt_kernel.py 350-385", f"{_NEMO}/cuda_utils/gpu_rnnt_kernel.py 358-393",
                f"{_PADDLE}/gpu_rnnt_kernel.h 356-382")),
    Row("gradient-k2", ("k2, fast_rnnt: $+$ occupancy of each arc",
                        "arc scores; a gradient of the log-likelihood (hence the sign)", "{eq}`eq-gradient-theorem`"),
        loss_from_k2, loss_from_k2, read_in("k2 k2/python/csrc/torch/mutual_information_cpu.cu 201-214")),
    Row("gradient-monotonic", ('monotonic RNN-T: k2\'s "modified", RNA, `monotonic-rnnt`', "logits",
                               "{eq}`eq-mono-fused`"), monotonic, None,
        read_in("monotonic-rnnt include/gpu_rnnt_kernel.h 273-286")),
    Row("gradient-hat", ("HAT: `logsigmoid(blank)`, and `log_softmax(labels) + logsigmoid(-blank)`", "logits",
                         "{eq}`eq-hat-visits`, {eq}`eq-hat-grad-label`"), hat),
)
