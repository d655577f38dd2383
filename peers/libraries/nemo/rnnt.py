"""NeMo's RNNTLossNumba on the CPU. Argument: the reduction.

It takes logits, and applies log-softmax itself. Integers are int64. Its losses are float32 for float64 logits, too, so
that float32 alone is asked.
"""

import sys
from importlib.metadata import version

import torch
from bare_packages import module
from batches import batch
from torch_autograd import ask

from reference_impl.conformance import answer

reduction = sys.argv[1]
rnnt_pytorch = module("nemo.collections.asr.parts.numba.rnnt_loss.rnnt_pytorch", "nemo.collections.asr.parts.numba")


def loss(inputs, precision):
    asked = batch(inputs, precision)
    integers = [torch.tensor(array) for array in (asked.targets, asked.logit_lengths, asked.target_lengths)]
    losses = rnnt_pytorch.RNNTLossNumba(blank=asked.blank, reduction=reduction, fastemit_lambda=asked.fastemit_lambda)
    # a second backward pass through the same graph raises, since the first one multiplies what it kept in place
    return ask(asked, lambda logits: losses(logits, *integers), twice=False)


answer(loss, name="NeMo RNNTLossNumba", version=version("nemo_toolkit"), kind="rnnt", scores="logits",
       precisions=["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "inputs after", "fastemit"])
