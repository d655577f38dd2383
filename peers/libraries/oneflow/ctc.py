"""oneflow.nn.CTCLoss on the CPU. Arguments: the reduction, then zero_infinity or nothing.

It takes log-probs as (T, B, V). Integers are int64, and targets padded.
"""

import sys

import oneflow
from answering import answer
from batches import batch

reduction, *options = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    integers = [oneflow.tensor(array, dtype=oneflow.int64)
                for array in (asked.targets, asked.logit_lengths, asked.target_lengths)]
    function = oneflow.nn.CTCLoss(blank=asked.blank, reduction=reduction, zero_infinity="zero_infinity" in options)
    scores = oneflow.tensor(asked.scores, requires_grad=True)
    losses = function(scores.transpose(0, 1), *integers)
    upstream = oneflow.tensor(asked.upstream) if losses.ndim else None
    gradients = []
    for _ in range(2):
        losses.backward(upstream, retain_graph=True)
        gradients.append(scores.grad.numpy().copy())
        scores.grad.zero_()
    return asked.answer(losses.numpy(), gradients[0], second_gradient=gradients[1], scores_after=scores.numpy())


answer(loss, name="oneflow.nn.CTCLoss", version=oneflow.__version__, kind="ctc", scores="log_probs",
       precisions=["float32", "float64"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])
