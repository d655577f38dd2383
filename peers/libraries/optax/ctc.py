"""optax.ctc_loss, which takes logits and says with arrays of zeros and ones what is padding."""

from functools import partial

import jax
import numpy as np
import optax
from batches import batch

from reference_impl.conformance import answer

jax.config.update("jax_enable_x64", True)


@partial(jax.jit, static_argnames="blank")
def losses_and_gradient(logits, frames, targets, labels, upstream, blank):
    values, pull = jax.vjp(lambda x: optax.ctc_loss(x, frames, targets, labels, blank_id=blank), logits)
    return values, *pull(upstream.astype(values.dtype))


def loss(inputs, precision):
    asked = batch(inputs, precision)
    frames, labels = (np.arange(array.shape[1])[None] >= lengths[:, None]
                      for array, lengths in ((asked.scores, asked.logit_lengths),
                                             (asked.targets, asked.target_lengths)))

    return asked.answer(*losses_and_gradient(asked.scores, frames.astype(precision), asked.targets,
                                             labels.astype(precision), asked.upstream, asked.blank))


answer(loss, name="optax.ctc_loss", version=f"{optax.__version__} on jax {jax.__version__}", kind="ctc",
       scores="logits", precisions=["float32", "float64"], can=["batch", "upstream"])
