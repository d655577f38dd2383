"""MindSpore's CTC losses on the CPU. Arguments: ops and the reduction, or op.

mindspore.ops.ctc_loss takes log-probs as (T, B, V), and mindspore.ops.CTCLoss logits, sparse labels, and the blank as
the last symbol: the adapter renames the symbols accordingly. A mean of float64 losses comes back rounded to float32,
and so does all that the operator returns: in float32 alone are these two asked.
"""

import sys

import mindspore as ms
import numpy as np
from batches import batch

from reference_impl.conformance import answer

way, *options = sys.argv[1:]
reduction = options[0] if options else "none"


def loss(inputs, precision):
    asked = batch(inputs, precision)
    if way == "op":
        asked = asked.with_blank(-1)
    T, U = ms.Tensor(asked.logit_lengths.astype(np.int32)), ms.Tensor(asked.target_lengths.astype(np.int32))
    used = np.arange(asked.targets.shape[1])[None] < asked.target_lengths[:, None]

    def losses(scores):
        scores = scores.swapaxes(0, 1)
        if way == "ops":
            return ms.ops.ctc_loss(scores, ms.Tensor(asked.targets.astype(np.int32)), T, U, asked.blank, reduction)[0]
        return ms.ops.CTCLoss()(scores, ms.Tensor(np.argwhere(used)), ms.Tensor(asked.targets[used].astype(np.int32)),
                                T)[0]

    def total(scores):
        values = losses(scores)
        return (values * ms.Tensor(asked.upstream) if reduction == "none" else values).sum(), values

    (_, values), gradient = ms.value_and_grad(total, has_aux=True)(ms.Tensor(asked.scores))
    return asked.answer(values.asnumpy(), gradient.asnumpy())


answer(loss, name="mindspore.ops.ctc_loss" if way == "ops" else "mindspore.ops.CTCLoss", version=ms.__version__,
       kind="ctc", scores="log_probs" if way == "ops" else "logits",
       precisions=["float32", "float64"] if options == ["none"] else ["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else [])])
