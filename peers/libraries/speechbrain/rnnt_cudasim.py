"""SpeechBrain's transducer loss: its CUDA kernels in Numba's simulator, launched as its Transducer does.

The kernels take log-probs, and their gradient is with respect to these; TransducerLoss, which needs a GPU, applies
log-softmax before.
"""

from importlib.metadata import version

import numpy as np
from bare_packages import module
from batches import batch

from reference_impl.conformance import answer

kernels = module("speechbrain.integrations.numba.transducer_loss", "speechbrain.integrations.numba",
                 "speechbrain.utils")


def loss(inputs, precision):
    asked = batch(inputs, precision)
    B, T, rows, V = asked.scores.shape
    alpha, beta, lock = np.zeros((B, T, rows)), np.zeros((B, T, rows)), np.zeros((B, rows), np.int32)
    forward, backward, gradient = np.zeros(B), np.zeros(B), np.zeros_like(asked.scores)
    lengths = asked.logit_lengths, asked.target_lengths, asked.blank
    kernels.cu_kernel_forward[B, rows](asked.scores, asked.targets, alpha, forward, *lengths, lock)
    lock = lock * 0
    kernels.cu_kernel_backward[B, rows](asked.scores, asked.targets, beta, backward, *lengths, lock)
    kernels.cu_kernel_compute_grad[T, B](asked.scores, asked.targets, alpha, beta, gradient, *lengths)
    return asked.answer(-forward, gradient)


answer(loss, name="SpeechBrain's transducer kernels, simulated", version=version("speechbrain"),
       kind="rnnt", scores="log_probs", precisions=["float64"], can=["batch"])
