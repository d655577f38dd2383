"""Runs the CUDA kernels of a port of warp-transducer to Numba in Numba's simulator, on small questions.

They are launched as the port's own GPURNNT launches them, but for the first step: the simulator has no warp shuffles,
by which the port computes the denominators of log-softmax, so NumPy computes these.
"""

import numpy as np


def ask(batch, kernels, helper) -> dict:
    """The answer of the modules gpu_rnnt_kernel and rnnt_helper of a port."""
    kernels.GPU_RNNT_THREAD_SIZE = 8  # fewer simulated threads; the loop over the symbols goes on by as many
    B, T, rows, V = batch.scores.shape
    logits, denominators = batch.scores.ravel(), -np.logaddexp.reduce(batch.scores, -1).ravel()
    alphas, betas, forward, backward = np.zeros(B * T * rows), np.zeros(B * T * rows), np.zeros(B), np.zeros(B)
    lengths = (batch.logit_lengths, batch.target_lengths, batch.targets, B, T, rows, V, batch.blank)
    kernels.compute_alphas_kernel[B, rows](logits, denominators, alphas, forward, *lengths)
    kernels.compute_betas_kernel[B, rows](logits, denominators, betas, backward, *lengths)
    gradient, costs = np.zeros_like(logits), np.zeros(B)
    kernels.compute_grad_kernel[B * T * rows, kernels.GPU_RNNT_THREAD_SIZE](
        gradient, logits, denominators, alphas, betas, forward, *lengths, batch.fastemit_lambda, 0.0)  # no clamp
    helper.compute_costs_data[1, B](forward, costs, batch.fastemit_lambda)
    return batch.answer(costs, gradient.reshape(batch.scores.shape))
