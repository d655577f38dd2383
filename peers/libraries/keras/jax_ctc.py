"""Keras' CTC losses on JAX. Argument: ops or loss; see common/keras_ctc_losses.py."""

import sys

import jax
from batches import batch
from keras_ctc_losses import about, losses, question

from reference_impl.conformance import answer

way = sys.argv[1]
jax.config.update("jax_enable_x64", True)


def loss(inputs, precision):
    asked = question(way, batch(inputs, precision))

    @jax.jit
    def losses_and_gradient(logits):
        values, pull = jax.vjp(lambda logits: losses(way, asked, logits), logits)
        return values, *pull(jax.numpy.asarray(asked.upstream if way == "ops" else 1.0, values.dtype))

    return asked.answer(*losses_and_gradient(asked.scores))


answer(loss, **about(way), can=["batch", "upstream"] if way == "ops" else [])
