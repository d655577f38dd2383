"""Keras' CTC losses on TensorFlow. Argument: ops or loss; see common/keras_ctc_losses.py."""

import sys

import tensorflow as tf
from batches import batch
from keras_ctc_losses import about, losses, question

from reference_impl.conformance import answer

way = sys.argv[1]


def loss(inputs, precision):
    asked = question(way, batch(inputs, precision))
    logits = tf.constant(asked.scores)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        values = losses(way, asked, logits)
    upstream = tf.constant(asked.upstream, values.dtype) if way == "ops" else None
    return asked.answer(values.numpy(), tape.gradient(values, logits, output_gradients=upstream).numpy())


answer(loss, **about(way), can=["batch", "upstream"] if way == "ops" else [])
