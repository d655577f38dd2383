"""megengine.functional.nn.ctc_loss, which is written in MegEngine's tensor operations. Argument: the reduction.

It takes probabilities as (T, B, V), not their logarithms. MegEngine's exp is applied before, and the gradient is that
with respect to the log-probs. Integers are int32, and targets padded. A tensor is float32 whatever it is made of.
"""

import sys

import megengine
import megengine.functional as F
from answering import answer
from batches import batch
from megengine.autodiff import GradManager

reduction, = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    labels, frames, lengths = (megengine.Tensor(array, dtype="int32")
                               for array in (asked.targets, asked.logit_lengths, asked.target_lengths))
    scores = megengine.Parameter(asked.scores)
    with GradManager().attach(scores) as manager:
        losses = F.nn.ctc_loss(F.exp(scores.transpose(1, 0, 2)), frames, labels, lengths, blank=asked.blank,
                               reduction=reduction)
        manager.backward(losses, megengine.Tensor(asked.upstream) if losses.ndim else None)
    return asked.answer(losses.numpy(), scores.grad.numpy(), scores_after=scores.numpy())


answer(loss, name="megengine.functional.nn.ctc_loss", version=megengine.__version__, kind="ctc", scores="log_probs",
       precisions=["float32"], can=["batch", *(["upstream"] if reduction == "none" else []), "inputs after"])
