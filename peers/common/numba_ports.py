"""Calls of the two ports of warp-transducer to Numba, NeMo's and warprnnt_numba's, for their `calls.py`.

Their binding runs on the CPU, and their CUDA kernels in Numba's simulator, which must be chosen before Numba is
imported: ``NUMBA_ENABLE_CUDASIM=1``.
"""

import numpy as np
import torch
from recording import raised, sixteenths

SHAPE, T, U, UPSTREAM = (2, 3, 3, 4), (3, 2), (2, 1), (1.0, -2.0)
TARGETS = ((1, 2), (3, 1))
LAMBDA, CLAMP = 0.5, 0.25


def logits():
    """Of two utterances, the second one shorter in both directions."""
    return torch.tensor(sixteenths(21, *SHAPE))


def integers(dtype, targets=TARGETS):
    return [torch.tensor(each, dtype=dtype) for each in (targets, T, U)]


def asked():
    return {"logits": logits(), "targets": TARGETS, "T": T, "U": U, "upstream": UPSTREAM, "lambda": LAMBDA,
            "clamp": CLAMP}


def backward(losses, scores):
    """Losses, and the gradient of their sum with weights."""
    return {"loss": losses, "gradient": torch.autograd.grad(losses, scores, torch.tensor(UPSTREAM).to(losses))[0]}


def on_the_cpu(binding, dtype):
    """The binding's loss with FastEmit and with a clamp; and below its log-softmax, as a function of log-probs."""
    found = asked()
    for name, options in (("plain", {}), ("fastemit", {"fastemit_lambda": LAMBDA}), ("clamped", {"clamp": CLAMP})):
        scores = logits().requires_grad_()
        loss = binding.RNNTLossNumba(blank=0, reduction="none", **options)
        found[name] = backward(loss(scores, *integers(dtype)), scores)
    for name, fastemit in (("of_log_probs", 0.0), ("of_log_probs_with_fastemit", LAMBDA)):
        scores = logits().log_softmax(-1).requires_grad_()
        found[name] = backward(binding._RNNTNumba.apply(scores, *integers(dtype), 0, "none", fastemit, 0.0), scores)
    return found


def second_backward(binding, dtype):
    """What a second backward pass raises."""
    scores = logits().requires_grad_()
    loss = binding.RNNTLossNumba(blank=0, reduction="sum")(scores, *integers(dtype))
    return {"first": raised(loss.backward, torch.full_like(loss, 2.0), retain_graph=True),
            "second": raised(loss.backward, torch.full_like(loss, 2.0))}


def wide_targets(binding, dtype):
    """The losses, if the targets have two columns more than the longest needs."""
    wide = [[*row, 2, 2] for row in TARGETS]
    return {**asked(), "wide": wide, **{
        name: binding.RNNTLossNumba(blank=0, reduction="none")(logits(), *integers(dtype, targets))
        for name, targets in (("loss", TARGETS), ("loss_of_wide", wide))}}


def nan_in_the_padding(binding, dtype):
    """Loss and gradient, if the second utterance's padding has a NaN at each node."""
    scores = logits()
    scores[1, 2:], scores[1, :, 2:] = float("nan"), float("nan")
    scores.requires_grad_()
    return {**asked(), "logits": scores,
            **backward(binding.RNNTLossNumba(blank=0, reduction="none")(scores, *integers(dtype)), scores)}


def in_the_simulator(kernels, helper):
    """What the CUDA kernels leave: losses, gradient, alpha and beta; plain, with FastEmit, and with a clamp."""
    return {**asked(), "plain": launch(kernels, helper), "fastemit": launch(kernels, helper, fastemit=LAMBDA),
            "clamped": launch(kernels, helper, clamp=CLAMP)}


def launch(kernels, helper, fastemit=0.0, clamp=0.0):
    """The kernels one after another, as `numba_kernels.py` launches them for the checker."""
    kernels.GPU_RNNT_THREAD_SIZE = 4
    scores = logits().numpy()
    B, frames, rows, V = SHAPE
    denominators = -np.logaddexp.reduce(scores, -1).ravel()
    alphas, betas, forward, backward = (np.zeros(size) for size in (*[B * frames * rows] * 2, B, B))
    lengths = (np.array(T), np.array(U), np.array(TARGETS), *SHAPE, 0)
    kernels.compute_alphas_kernel[B, rows](scores.ravel(), denominators, alphas, forward, *lengths)
    kernels.compute_betas_kernel[B, rows](scores.ravel(), denominators, betas, backward, *lengths)
    gradient, costs = np.zeros(scores.size), np.zeros(B)
    kernels.compute_grad_kernel[B * frames * rows, kernels.GPU_RNNT_THREAD_SIZE](
        gradient, scores.ravel(), denominators, alphas, betas, forward, *lengths, fastemit, clamp)
    helper.compute_costs_data[1, B](forward, costs, fastemit)
    return {"loss": costs, "gradient": gradient.reshape(SHAPE), "alpha": alphas.reshape(SHAPE[:3]),
            "beta": betas.reshape(SHAPE[:3])}
