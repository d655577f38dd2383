"""tf_seq2seq_losses.classic_ctc_loss, CTC in tensor operations of TensorFlow, on logits in float32."""

from importlib.metadata import version

import tensorflow as tf
import tf_seq2seq_losses
from batches import batch

from reference_impl.conformance import answer


def loss(inputs, precision):
    asked = batch(inputs, precision)
    logits = tf.constant(asked.scores)
    labels, U, T = (tf.constant(array, tf.int32)
                    for array in (asked.targets, asked.target_lengths, asked.logit_lengths))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = tf_seq2seq_losses.classic_ctc_loss(labels, logits, U, T, blank_index=asked.blank)
    gradient = tape.gradient(losses, logits, output_gradients=tf.constant(asked.upstream))
    return asked.answer(losses.numpy(), gradient.numpy())


answer(loss, name="tf_seq2seq_losses.classic_ctc_loss", version=version("tf_seq2seq_losses"), kind="ctc",
       scores="logits", precisions=["float32"], can=["batch", "upstream"])
