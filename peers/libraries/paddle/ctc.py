"""paddle.nn.functional.ctc_loss. Arguments: the reduction, then any of norm_by_times, zero_infinity.

The documentation calls its first argument log_probs, and "unscaled probabilities" to which a softmax is applied inside.
"""

import sys

import paddle
from batches import batch
from paddle_autograd import ask

from reference_impl.conformance import answer

reduction, *options = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)

    def losses(logits):
        return paddle.nn.functional.ctc_loss(
            paddle.transpose(logits, [1, 0, 2]),  # (T, B, V)
            paddle.to_tensor(asked.targets, "int32"),
            paddle.to_tensor(asked.logit_lengths), paddle.to_tensor(asked.target_lengths), blank=asked.blank,
            reduction=reduction, norm_by_times="norm_by_times" in options, zero_infinity="zero_infinity" in options)

    return ask(asked, losses)


answer(loss, name="paddle.nn.functional.ctc_loss", version=paddle.__version__, kind="ctc", scores="logits",
       precisions=["float32", "float64"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])
