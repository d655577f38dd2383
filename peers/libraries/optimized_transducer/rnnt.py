"""optimized_transducer.transducer_loss, on packed scores. Arguments: the reduction, then logits or log_probs.

Scores are packed: the (T, U+1, V) of the utterances, without padding, one after another, (sum of T (U+1), V). It
computes in float32, and writes the gradient of logits over them.
"""

import sys

import numpy as np
import optimized_transducer
import torch
from batches import batch
from torch_autograd import numbers

from reference_impl.conformance import answer

reduction, scores = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    sizes = list(zip(asked.logit_lengths, asked.target_lengths + 1, strict=True))
    packed = torch.tensor(np.concatenate([grid[:T, :U1].reshape(T * U1, -1)
                                          for grid, (T, U1) in zip(asked.scores, sizes, strict=True)]),
                          requires_grad=True)
    integers = [torch.tensor(array, dtype=torch.int32)
                for array in (asked.targets, asked.logit_lengths, asked.target_lengths)]
    total = optimized_transducer.transducer_loss(
        packed, *integers, blank=asked.blank, reduction=reduction, from_log_softmax=scores == "log_probs")

    def unpacked(rows, padding):
        grids, ends = padding.copy(), np.cumsum([T * U1 for T, U1 in sizes])[:-1]
        for grid, part, (T, U1) in zip(grids, np.split(numbers(rows), ends), sizes, strict=True):
            grid[:T, :U1] = part.reshape(T, U1, -1)
        return grids

    total.backward(retain_graph=True)
    gradient, packed.grad = unpacked(packed.grad, np.zeros_like(asked.scores)), None
    total.backward()
    return asked.answer(numbers(total), gradient, second_gradient=unpacked(packed.grad, np.zeros_like(asked.scores)),
                        scores_after=unpacked(packed, asked.scores))


answer(loss, name="optimized_transducer.transducer_loss", version=optimized_transducer.__version__, kind="rnnt",
       scores=scores, precisions=["float32"], can=["batch", "second backward", "inputs after"])
