"""chainer.functions.connectionist_temporal_classification. Argument: its reduction, no or mean.

It takes a list of T arrays of logits (B, V).
"""

import sys

import chainer
import numpy as np
from batches import batch

from reference_impl.conformance import answer

reduction = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    frames = [chainer.Variable(np.ascontiguousarray(asked.scores[:, t])) for t in range(asked.scores.shape[1])]
    losses = chainer.functions.connectionist_temporal_classification(
        frames, asked.targets.astype(np.int32), asked.blank, asked.logit_lengths.astype(np.int32),
        asked.target_lengths.astype(np.int32), reduce=reduction)
    if reduction == "no":
        losses.grad = asked.upstream
    losses.backward()
    return asked.answer(losses.array, np.stack([frame.grad for frame in frames], axis=1))


answer(loss, name="chainer.functions.connectionist_temporal_classification", version=chainer.__version__, kind="ctc",
       scores="logits", precisions=["float32", "float64"],
       can=["batch", *(["upstream"] if reduction == "no" else [])])
