"""tf_keras.backend.ctc_batch_cost, of Keras 2. It takes what a softmax gave, and the blank is the last symbol.

The adapter renames the symbols accordingly. It hands over exponentials of log-probs, and TensorFlow differentiates
through them.
"""

from importlib.metadata import version

import numpy as np
import tensorflow as tf
import tf_keras
from batches import batch

from reference_impl.conformance import answer


def loss(inputs, precision):
    asked = batch(inputs, precision).with_blank(-1)
    log_probs = tf.constant(asked.scores)
    labels, T, U = asked.targets.astype(np.int32), asked.logit_lengths[:, None], asked.target_lengths[:, None]
    with tf.GradientTape() as tape:
        tape.watch(log_probs)
        losses = tf_keras.backend.ctc_batch_cost(labels, tf.exp(log_probs), T, U)[:, 0]
    gradient = tape.gradient(losses, log_probs, output_gradients=tf.constant(asked.upstream, losses.dtype))
    return asked.answer(losses.numpy(), gradient.numpy())


answer(loss, name="tf_keras.backend.ctc_batch_cost", version=version("tf_keras"), kind="ctc", scores="log_probs",
       precisions=["float32"], can=["batch", "upstream"])
