"""Lines of RNN-T libraries, in their letters, as functions; and the rows of the page "Line by line" that show them.

Everything that kernels keep as a logarithm is one here. ``betas_next`` is the beta of the node that an arc leads to,
for each symbol: -inf where it has no arc, 0 after the last blank.
"""

from __future__ import annotations

import numpy as np

from .table import Row

__all__ = ["RNNT_LINES"]


def gpu_gradient(logpk, alphas, betas, betas_next, logll):
    return np.exp(alphas + betas + logpk - logll) - np.exp(alphas + logpk - logll + betas_next)


def clamped(grad, clamp):
    return np.maximum(np.minimum(grad, clamp), -clamp)


def big_blanks(logpk, alphas, betas, betas_next, logll, sigma):
    return np.exp(alphas + betas + logpk - logll) - np.exp(alphas + logpk - sigma - logll + betas_next)


def tdt_symbols(logpk, alphas, betas, betas_next, duration_acts, logll, sigma):
    """``betas_next`` and ``duration_acts`` have a last axis, the durations."""
    arcs = np.exp((alphas + logpk)[..., None] - sigma - logll + betas_next + duration_acts)
    return np.exp(alphas + betas + logpk - logll) - arcs.sum(-1)


def tdt_durations(logpk_label, logpk_blank, alphas, betas_label, betas_blank, duration_acts, logll):
    grad = -np.exp(alphas + betas_label + logpk_label - logll) - np.exp(alphas + betas_blank + logpk_blank - logll)
    return grad * np.exp(duration_acts)


def p_of_k2(px, py):
    (S, _), (_, T) = px.shape, py.shape
    p = np.full((S + 1, T + 1), -np.inf)
    p[0, 0] = 0.0
    for s, t in np.ndindex(S + 1, T + 1):
        if s:
            p[s, t] = np.logaddexp(p[s, t], p[s - 1, t] + px[s - 1, t])
        if t:
            p[s, t] = np.logaddexp(p[s, t], p[s, t - 1] + py[s, t - 1])
    return p


def term_derivs(term1, total):
    term1_deriv = np.exp(term1 - total)
    return term1_deriv, 1.0 - term1_deriv


def term_grads(term1_deriv, term2_deriv, p_grad):
    return term1_deriv * p_grad, term2_deriv * p_grad


def interpolated(px, px_lmonly, px_amonly, lm_only_scale, am_only_scale):
    combined_scale = 1.0 - lm_only_scale - am_only_scale
    return px * combined_scale + px_lmonly * lm_only_scale + px_amonly * am_only_scale


def with_delay_penalty(px, delay_penalty, T):
    return px + delay_penalty * ((T - 1) / 2 - np.arange(T))


def apex_fused(x, loss_grad, alpha, beta, beta_next, beta_00):
    common_factor = np.log(loss_grad) + alpha - beta_00
    return np.exp(common_factor + x + beta) - np.exp(common_factor + x + beta_next)


def share_of_awni(dalpha_next, alpha, emission, prediction, log_norm, alpha_next):
    return dalpha_next * np.exp(alpha + emission + prediction - log_norm - alpha_next)


def loss_from_speechbrain(cost, T):
    return cost * T


def alpha_of_monotonic(alpha_s, blank, alpha_s_minus_1, label):
    return np.logaddexp(alpha_s + blank, alpha_s_minus_1 + label)


def mismatch_ratio(a, b):
    return abs(a - b) / abs(max(a, b))


def through_log_softmax(grads, probs):
    return grads - probs * grads.sum(-1, keepdims=True)


_GRID = "{eq}`eq-rnnt-alpha`, {eq}`eq-rnnt-beta`"

RNNT_LINES = {
    "warprnnt_numba": (
        Row("line-numba-cpu", ("CPU: `-exp(log1p(fastemit_lambda) + log_probs + g - loglike)`",
                               "{eq}`def-fastemit-field`", r"`log1p` in the exponent is the factor: a label gets "
                               r"$-(1 + \lambda)\,\gamma_y$. A blank has none."),
            claims=("warprnnt-numba-cpu-gradient", "warprnnt-numba-cpu-fastemit"), checked_as="gradient-fastemit-cpu"),
        Row("line-numba-gpu", ("GPU: `grad + fastemit_grad - exp(log1p(fastemit_lambda) + alphas + logpk - logll + "
                               "betas_next)`",
                               "{eq}`eq-fastemit-fused`",
                               r"The softmax sends $\lambda\,\gamma_y$ to all symbols. No loss has this gradient."),
            claims=("warprnnt-numba-gpu-gradient", "warprnnt-numba-gpu-fastemit"),
            checked_as="gradient-fastemit-gpu"),
        Row("line-numba-cost", (r"cost: `-llForward * (1 + fastemit_lambda)`", "{eq}`def-rnnt-loss`",
                                r"The value is scaled, too, on the CPU only if a gradient is asked for: "
                                r"it is $(1 + \lambda) L$, which has another gradient."),
            claims=("warprnnt-numba-cpu-cost", "warprnnt-numba-gpu-cost"), checked_as="loss-fastemit"),
        Row("line-clamp", ("`max(min(g, clamp), -clamp)`", "{eq}`def-kernels-clamp`",
                           "The GPU clamps inside the kernel, the CPU last, after the mean and log-softmax."),
            clamped, claims=("warprnnt-numba-cpu-clamp", "warprnnt-numba-gpu-clamp")),
        Row("line-numba-softmax", ("CPU: `log_softmax` outside", "{eq}`eq-log-softmax-vjp`",
                                   "Hence CPU and GPU formulas differ, and both are right: two "
                                   "variables, one gradient."),
            claims=("warprnnt-numba-binding-softmax",), checked_as="line-janvijay"),
        Row("line-numba-grid", ("`alphas`, `betas`", _GRID, "Both sweeps, from the first node and from the last "
                                "blank."),
            claims=("warprnnt-numba-cpu-alpha", "warprnnt-numba-cpu-beta", "warprnnt-numba-gpu-alpha",
                    "warprnnt-numba-gpu-beta"), checked_as="alpha-beta-rnnt")),
    "nemo": (
        Row("line-nemo-cpu", ("CPU: `log1p(fastemit_lambda)`", "{eq}`def-fastemit-field`",
                              "As in {named}`warprnnt_numba`."),
            claims=("nemo-cpu-gradient", "nemo-cpu-fastemit", "nemo-binding-softmax"),
            checked_as="gradient-fastemit-cpu"),
        Row("line-nemo-gpu", ("GPU: `grad + fastemit_grad`", "{eq}`eq-fastemit-fused`",
                              "The same; comments name equations 9 and 10 of the paper."),
            claims=("nemo-gpu-gradient", "nemo-fastemit-equations"), checked_as="gradient-fastemit-gpu"),
        Row("line-nemo-cost", ("`-llForward * (1 + fastemit_lambda)`", "{eq}`def-rnnt-loss`",
                               "The value is scaled; on the CPU only if a gradient is asked for."),
            claims=("nemo-cpu-cost", "nemo-gpu-cost"), checked_as="loss-fastemit"),
        Row("line-nemo-clamp", ("`max(min(g, clamp), -clamp)`", "{eq}`def-kernels-clamp`",
                                "Before the mean on the GPU, after it on the CPU."),
            claims=("nemo-cpu-clamp", "nemo-gpu-clamp"), checked_as="line-clamp"),
        Row("line-nemo-grid", ("`alphas`, `betas`", _GRID, "As above; TDT and multi-blank have kernels of their own."),
            claims=("nemo-cpu-grid", "nemo-gpu-alpha", "nemo-gpu-beta"),
            checked_as="alpha-beta-rnnt"),
        Row("line-multi-blank", ("multi-blank: `... - exp(alphas + logpk - sigma - logll + betas_next)`",
                                 "{eq}`eq-blank-sigma-grad`", "A blank of $m$ frames is an arc to $t + m$, and every "
                                 r"arc pays $\sigma$; $\alpha$ and $\beta$ contain it already."),
            big_blanks, claims=("nemo-multiblank-gradient", "nemo-multiblank-order")),
        Row("line-tdt-symbols", ("TDT, symbols: the same, `+ duration_acts`, over all durations",
                                 "{eq}`eq-tdt-grad-tokens`", "A symbol sums over its arcs of every duration."),
            tdt_symbols, claims=("nemo-tdt-gradient", "nemo-tdt-sigma")),
        Row("line-tdt-durations", ("TDT, durations: `grad * exp(duration_acts)`", "{eq}`eq-tdt-duration-occupancy`",
                                   "Minus the posterior of the duration, with respect to its log-prob."),
            tdt_durations, claims=("nemo-tdt-duration-gradient",))),
    "warp-transducer": (
        Row("line-warp-transducer-cpu", ("CPU: `-exp(log_probs + g - loglike)`, `g = alphas[t, u] + betas[t, u + 1]`",
                                         "{eq}`eq-kernels-cpu-label`, {eq}`eq-kernels-cpu-blank`",
                                         "`log_probs` is there because the variable is a log-prob, `-loglike` because "
                                         "the loss is a logarithm."),
            claims=("warp-transducer-cpu-gradient", "warp-transducer-asked-formula"), checked_as="gradient-cpu"),
        Row("line-warp-transducer-gpu", ("GPU: `exp(alphas + betas + logpk - logll) - exp(alphas + logpk - logll + "
                                         "betas_next)`", "{eq}`eq-rnnt-fused`",
                                         "Visits of the node times the softmax, minus the arc's posterior."),
            gpu_gradient, claims=("warp-transducer-gpu-gradient", "warp-transducer-last-blank")),
        Row("line-warp-transducer-denom", ("`logpk = denom + acts`", "{eq}`def-kernels-denom`",
                                           "`denom` is minus the log-sum-exp."),
            claims=("warp-transducer-denom",), checked_as="denom-negative"),
        Row("line-warp-transducer-grid", ("`alphas`, `betas`", _GRID, "The CPU goes node by node, the GPU by "
                                          "anti-diagonals."),
            claims=("warp-transducer-cpu-alpha", "warp-transducer-cpu-beta", "warp-transducer-gpu-alpha",
                    "warp-transducer-gpu-beta"), checked_as="alpha-beta-rnnt"),
        Row("line-warp-transducer-cost", ("`-llForward`", "{eq}`eq-rnnt-total`", "Minus the log-likelihood of alpha; "
                                          "on the CPU beta's total serves as a check."),
            claims=("warp-transducer-cpu-cost", "warp-transducer-gpu-cost", "warp-transducer-mismatch"),
            checked_as="loss")),
    "k2": (
        Row("line-k2-p", ("`p[s][t] = LogAdd(p[s-1][t] + px[s-1][t], p[s][t-1] + py[s][t-1])`",
                          "{eq}`eq-kernels-k2-forward`, {eq}`eq-kernels-k2-total`",
                          r"$\alpha$ with one more column, so that its last entry is $\log Z$."),
            p_of_k2, claims=("k2-alpha", "fast-rnnt-alpha", "k2-cost", "fast-rnnt-cost")),
        Row("line-k2-terms", ("`term1_deriv = exp(term1 - total)`, `term2_deriv = 1 - term1_deriv`",
                              "{eq}`def-rnnt-shares`, {eq}`eq-rnnt-share-sum`",
                              "The shares of a node's two incoming arcs. The GPU computes both by `exp`."),
            term_derivs, claims=("k2-share-cpu", "k2-share-gpu", "fast-rnnt-share")),
        Row("line-k2-grads", ("`px_grad = term1_deriv * p_grad`, `py_grad = term2_deriv * p_grad`",
                              "{eq}`eq-kernels-adjoint-arcs`",
                              r"A posterior is the share times what the node has received. There is no $\beta$."),
            term_grads, claims=("k2-gradient", "k2-fake", "fast-rnnt-gradient")),
        Row("line-icefall-picture", ("icefall's pictures: `px_grad + py_grad`", "{eq}`eq-rnnt-node-occupancy`",
                                     "The pictures show the occupancy of each node."),
            claims=("icefall-picture", "icefall-pictures"), checked_as="node-gradient"),
        Row("line-k2-smoothed", ("`px * combined_scale + px_lmonly * lm_only_scale + px_amonly * am_only_scale`",
                                 "{eq}`def-k2-smoothed`", "Log-probs are mixed, whatever the documentation says."),
            interpolated, claims=("k2-smoothed", "fast-rnnt-smoothed", "fast-rnnt-smoothed-described")),
        Row("line-k2-delay", ("`px + delay_penalty * ((T - 1) / 2 - t)`", "{eq}`def-delay-scores`",
                              "A late label pays and an early one gains. This is the gradient of a loss."),
            with_delay_penalty, claims=("k2-delay", "fast-rnnt-delay")),
        Row("line-k2-modified", ("modified: `p[s-1][t-1] + px[s-1][t-1]`", "{eq}`eq-mono-alpha`",
                                 "A label takes a frame."),
            claims=("k2-types", "k2-type-names"), checked_as="rnnt-type"),
        Row("line-k2-hat", ("HAT: `logsigmoid(blank)`", "{eq}`eq-hat-log-blank`, {eq}`eq-hat-log-label`",
                            "The blank is a coin; the labels share the rest."),
            claims=("k2-hat",), checked_as="gradient-hat")),
    "torchaudio": (
        Row("line-torchaudio-denom", ("`denom`", "{eq}`def-kernels-denom`", "The log-sum-exp itself, not minus it."),
            claims=("torchaudio-denominator",), checked_as="denom"),
        Row("line-torchaudio-fused", ("`g = logits + alpha + cost - denom`; `exp(g + beta) - exp(g + beta_next)`",
                                      "{eq}`def-kernels-g`, {eq}`eq-kernels-case-label`, {eq}`eq-kernels-case-blank`",
                                      "Four cases of one formula. `cost` is $-\\log Z$, so `g` divides by $Z$."),
            claims=("torchaudio-cpu-gradient", "torchaudio-gpu-gradient"), checked_as="gradient-fused"),
        Row("line-torchaudio-unfused", ("`fused_log_softmax=False`: `-exp(logits + alpha + beta_next + cost)`",
                                        "{eq}`eq-rnnt-grad-log-probs`", "Minus the posteriors of the arcs."),
            claims=("torchaudio-cpu-unfused-gradient", "torchaudio-gpu-unfused-gradient"), checked_as="gradient-cpu"),
        Row("line-torchaudio-grid", ("`alpha`, `beta`; cost `-beta({0, 0})`", _GRID + ", {eq}`eq-rnnt-beta-total`",
                                     "On the GPU an utterance of one frame, or without labels, gets no cost at all."),
            claims=("torchaudio-cpu-alpha", "torchaudio-cpu-beta", "torchaudio-gpu-grid", "torchaudio-gpu-short",
                    "torchaudio-cpu-cost", "torchaudio-gpu-cost"),
            checked_as="alpha-beta-rnnt"),
        Row("line-torchaudio-clamp", ("`min(gradients, clamp)`, then `max(..., -clamp)`", "{eq}`def-kernels-clamp`",
                                      "On the GPU the second line undoes the first: there is no upper bound."),
            claims=("torchaudio-clamp", "torchaudio-gpu-clamp"), checked_as="line-clamp")),
    "paddle-rnnt": (
        Row("line-paddle-cpu", ("CPU: `-((1. + fastemit_lambda_) * exp(log_probs + g - loglike))`",
                                "{eq}`def-fastemit-field`", "With respect to the input as it arrives: nothing applies "
                                "a softmax."),
            claims=("paddle-cpu-gradient", "paddle-rnnt-no-softmax", "paddle-fork"),
            checked_as="gradient-fastemit-cpu"),
        Row("line-paddle-gpu", ("GPU: `fastemit_lambda * exp(...)` for all symbols", "{eq}`eq-fastemit-fused`",
                                "Here the softmax is inside."),
            claims=("paddle-gpu-fastemit",), checked_as="gradient-fastemit-gpu"),
        Row("line-paddle-grid", ("`alphas`, `betas`; cost `-loglike`", _GRID + ", {eq}`eq-rnnt-total`",
                                 "The value is not scaled, though $\\lambda$ is 0.001 by default."),
            claims=("paddle-cpu-grid", "paddle-gpu-grid", "paddle-cpu-cost", "paddle-gpu-cost",
                    "paddle-fastemit-default"), checked_as="alpha-beta-rnnt")),
    "speechbrain": (
        Row("line-speechbrain-gradient", ("`-exp(alpha + beta_next + log_probs - beta[0, 0])`",
                                          "{eq}`eq-rnnt-grad-log-probs`",
                                          "Minus the posteriors."),
            claims=("speechbrain-gradient",), checked_as="gradient-cpu"),
        Row("line-speechbrain-cost", ("`-(alpha + log_probs) / T` at the last node", "{eq}`eq-rnnt-total`",
                                      "The value is divided by the frames, but the gradient is not."),
            loss_from_speechbrain, claims=("speechbrain-cost", "speechbrain-asked-normalised")),
        Row("line-speechbrain-grid", ("`alpha`, `beta`", _GRID, "Each row has a thread; all but one wait for another."),
            claims=("speechbrain-grid",), checked_as="alpha-beta-rnnt")),
    "warp-rnnt": (
        Row("line-warp-rnnt-gradient", ("`(1 + fastemit_lambda) * exp(alphas + betas + log_probs - betas[0])`, negated",
                                        "{eq}`def-fastemit-field`",
                                        "With respect to log-probs, as in other libraries' CPU code."),
            claims=("warp-rnnt-gradient", "warp-rnnt-fastemit"), checked_as="gradient-fastemit-cpu"),
        Row("line-warp-rnnt-cost", ("`abs(a - b) / abs(max(a, b)) > 0.001`", "{eq}`def-kernels-mismatch`",
                                    "If so, the cost is minus the mean of both totals, and the gradient is 0."),
            mismatch_ratio, claims=("warp-rnnt-mismatch",)),
        Row("line-warp-rnnt-grid", ("`alphas`, `betas`", _GRID, "A warp computes 32 frames of a row."),
            claims=("warp-rnnt-grid",), checked_as="alpha-beta-rnnt")),
    "optimized-transducer": (
        Row("line-optimized", ("`exp(g + beta) - exp(g + beta_next)`", "{eq}`eq-rnnt-fused`",
                               "With respect to the logits, whose memory it overwrites."),
            claims=("optimized-transducer-gradient", "optimized-transducer-overwrites"), checked_as="gradient-fused"),
        Row("line-optimized-unfused", ("`from_log_softmax`: minus posteriors", "{eq}`eq-rnnt-grad-log-probs`",
                                       "The other variable; training is the same."),
            claims=("optimized-transducer-log-softmax-gradient", "optimized-transducer-asked-difference"),
            checked_as="gradient-cpu"),
        Row("line-optimized-grid", ("`alpha`, `beta`, total score", _GRID, "Python negates it."),
            claims=("optimized-transducer-grid", "optimized-transducer-cost"),
            checked_as="alpha-beta-rnnt")),
    "awni-transducer": (
        Row("line-awni", ("`dalphas_next * exp(alphas + emissions + predictions - logNorms - alphas_next)`",
                          "{eq}`eq-kernels-adjoint-arcs`", r"Shares instead of $\beta$, as in {named}`k2`."),
            share_of_awni, claims=("awni-transducer-gradient",)),
        Row("line-awni-grid", ("`alphas`; cost", "{eq}`eq-rnnt-alpha`, {eq}`eq-rnnt-total`",
                               "Two matrix products add the softmax term later."),
            claims=("awni-transducer-alpha", "awni-transducer-cost", "awni-transducer-softmax"),
            checked_as="alpha-beta-rnnt")),
    "apex": (
        Row("line-apex", ("`exp(grad + beta) - exp(grad + beta_next)`, `grad = log(lossGrad) + alpha - beta[0] + x`",
                          "{eq}`eq-rnnt-fused`",
                          "The upstream gradient enters as a logarithm, so a negative one gives NaN."),
            apex_fused, claims=("apex-fused-gradient",)),
        Row("line-apex-unfused", ("without fusion: minus posteriors", "{eq}`eq-rnnt-grad-log-probs`",
                                  "Multiplied by the upstream gradient, by adding its logarithm."),
            claims=("apex-gradient",), checked_as="gradient-cpu"),
        Row("line-apex-grid", ("`alpha`, `beta`; cost `-beta[0]`", _GRID + ", {eq}`eq-rnnt-beta-total`",
                               "By anti-diagonals."),
            claims=("apex-grid", "apex-cost"), checked_as="alpha-beta-rnnt")),
    "monotonic-rnnt": (
        Row("line-monotonic", ("`exp(act + denom - loglikelihood + alpha(t-1, s) + beta(t, s))`, minus the arc's",
                               "{eq}`eq-mono-fused`", "Its alpha at frame $t - 1$ is the book's at $t$."),
            claims=("monotonic-rnnt-gradient",), checked_as="gradient-monotonic"),
        Row("line-monotonic-grid", ("`alpha`, `beta`; cost `-alpha(T-1, S)`",
                                    "{eq}`eq-mono-alpha`, {eq}`eq-mono-beta`, {eq}`eq-mono-total`",
                                    "Every symbol takes a frame, so the path needs no blank at its end."),
            alpha_of_monotonic, claims=("monotonic-rnnt-grid", "monotonic-rnnt-cost"))),
    "iamjanvijay-rnnt": (
        Row("line-janvijay", ("`grads - probs * sum(grads)`", "{eq}`eq-log-softmax-vjp`",
                              "Log-softmax differentiated by hand: minus posteriors become the logits' gradient."),
            through_log_softmax, claims=("iamjanvijay-rnnt-gradient",)),
        Row("line-janvijay-grid", ("`alpha`, `beta`; loss `-beta[0, 0]`", _GRID + ", {eq}`eq-rnnt-beta-total`",
                                   "Scanned over anti-diagonals."),
            claims=("iamjanvijay-rnnt-grid", "iamjanvijay-rnnt-cost"),
            checked_as="alpha-beta-rnnt")),
}
