"""paddle.nn.functional.rnnt_loss, which takes log-probs, says its documentation. Argument: none, or default.

With "none" there is no reduction, and FastEmit's lambda is 0 unless asked. With "default" neither is said: the
reduction is then the mean, and lambda 0.001.
"""

import sys

import paddle
from batches import batch
from paddle_autograd import ask

from reference_impl.conformance import answer

default = sys.argv[1] == "default"


def loss(inputs, precision):
    asked = batch(inputs, precision)
    others = {} if default else {"reduction": "none", "fastemit_lambda": asked.fastemit_lambda}

    def losses(log_probs):
        return paddle.nn.functional.rnnt_loss(
            log_probs, paddle.to_tensor(asked.targets, "int32"), paddle.to_tensor(asked.logit_lengths, "int32"),
            paddle.to_tensor(asked.target_lengths, "int32"), blank=asked.blank, **others)

    return ask(asked, losses)


answer(loss, name="paddle.nn.functional.rnnt_loss", version=paddle.__version__, kind="rnnt", scores="log_probs",
       precisions=["float32", "float64"],
       can=["batch", "second backward", "inputs after"] if default
       else ["batch", "upstream", "second backward", "inputs after", "fastemit"])
