"""warprnnt_numba's loss on the CPU, a port of warp-transducer to Numba. Argument: the reduction.

It takes logits, applies log-softmax itself, and wants int32 for everything that is an integer.
"""

import sys

import torch
import warprnnt_numba
from batches import batch
from torch_autograd import ask

from reference_impl.conformance import answer

reduction = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    integers = [torch.tensor(array, dtype=torch.int32)
                for array in (asked.targets, asked.logit_lengths, asked.target_lengths)]
    module = warprnnt_numba.RNNTLossNumba(blank=asked.blank, reduction=reduction,
                                          fastemit_lambda=asked.fastemit_lambda)
    return ask(asked, lambda logits: module(logits, *integers))


answer(loss, name="warprnnt_numba.RNNTLossNumba", version=warprnnt_numba.__version__, kind="rnnt", scores="logits",
       precisions=["float32", "float64"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after", "fastemit"])
