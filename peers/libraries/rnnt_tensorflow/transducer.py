"""rnnt.rnnt_loss, RNN-T in tensor operations of TensorFlow. It takes logits in float32, and the blank is 0.

The adapter renames the symbols accordingly.
"""

from importlib.metadata import version

import numpy as np
import rnnt
import tensorflow as tf
from batches import batch

from reference_impl.conformance import answer


def loss(inputs, precision):
    asked = batch(inputs, precision).with_blank(0)
    logits = tf.constant(asked.scores)
    # labels in int64, lengths in int64: it puts both beside indices of that type
    labels, U, T = (tf.constant(array.astype(np.int64))
                    for array in (asked.targets, asked.target_lengths, asked.logit_lengths))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = rnnt.rnnt_loss(logits, labels, U, T)
    gradient = tape.gradient(losses, logits, output_gradients=tf.constant(asked.upstream))
    return asked.answer(losses.numpy(), gradient.numpy())


answer(loss, name="rnnt.rnnt_loss (TensorFlow)", version=version("rnnt"), kind="rnnt", scores="logits",
       precisions=["float32"], can=["batch", "upstream"])
