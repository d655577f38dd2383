"""jittor.ctc_loss on the CPU, which takes log-probs as (T, B, V). Argument: the reduction."""

import sys

import jittor as jt
import numpy as np
from batches import batch

from reference_impl.conformance import answer

reduction = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    scores = jt.array(asked.scores)
    integers = [jt.array(array.astype(np.int32)) for array in (asked.targets, asked.logit_lengths,
                                                               asked.target_lengths)]
    losses = jt.ctc_loss(scores.transpose(1, 0, 2), *integers, blank=asked.blank, reduction=reduction)
    total = (losses * jt.array(asked.upstream)).sum() if reduction == "none" else losses
    gradient = jt.grad(total, scores)
    values = losses.numpy()
    return asked.answer(values if reduction == "none" else values.sum(), gradient.numpy())


answer(loss, name="jittor.ctc_loss", version=jt.__version__, kind="ctc", scores="log_probs", precisions=["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else [])])
