"""mlx_ctc.ctc_loss on the CPU, which takes log-probs in float32 as (T, B, V)."""

from importlib.metadata import version

import mlx.core as mx
import mlx_ctc
import numpy as np
from batches import batch

from reference_impl.conformance import answer


def loss(inputs, precision):
    asked = batch(inputs, precision)
    # unsigned lengths and labels, as in the package's tests
    integers = [mx.array(array.astype(np.uint32)) for array in (asked.targets, asked.logit_lengths,
                                                                asked.target_lengths)]

    def losses(log_probs):
        return mlx_ctc.ctc_loss(log_probs.transpose(1, 0, 2), *integers, blank=asked.blank)

    (values,), (gradient,) = mx.vjp(losses, [mx.array(asked.scores)], [mx.array(asked.upstream)])
    return asked.answer(np.array(values), np.array(gradient))


mx.set_default_device(mx.cpu)
answer(loss, name="mlx_ctc.ctc_loss", version=f"{version('mlx_ctc')} on mlx {version('mlx')}", kind="ctc",
       scores="log_probs", precisions=["float32"], can=["batch", "upstream"])
