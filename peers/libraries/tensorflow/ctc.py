"""TensorFlow's three ways to a CTC loss. Argument: sparse or dense, for the labels of tf.nn.ctc_loss, or v1.

Version 1 takes sparse labels, and the blank is the last symbol: the adapter renames the symbols accordingly. With
sparse labels it takes float64, too, and what comes back is right to the digits of float32, which alone is asked.
"""

import sys

import numpy as np
import tensorflow as tf
from batches import batch

from reference_impl.conformance import answer

way = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    if way == "v1":
        asked = asked.with_blank(-1)
    used = np.arange(asked.targets.shape[1])[None] < asked.target_lengths[:, None]
    sparse = tf.SparseTensor(np.argwhere(used), asked.targets[used].astype(np.int32), asked.targets.shape)
    T, U = asked.logit_lengths.astype(np.int32), asked.target_lengths.astype(np.int32)
    logits = tf.constant(asked.scores)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        if way == "v1":
            losses = tf.compat.v1.nn.ctc_loss(sparse, logits, T, time_major=False)
        elif way == "sparse":
            losses = tf.nn.ctc_loss(sparse, logits, None, T, logits_time_major=False, blank_index=asked.blank)
        else:
            losses = tf.nn.ctc_loss(tf.constant(asked.targets, tf.int32), logits, U, T, logits_time_major=False,
                                    blank_index=asked.blank)
    gradient = tape.gradient(losses, logits, output_gradients=tf.constant(asked.upstream, losses.dtype))
    return asked.answer(losses.numpy(), gradient.numpy())


answer(loss, name=f"tf.{'compat.v1.' if way == 'v1' else ''}nn.ctc_loss, {'dense' if way == 'dense' else 'sparse'}",
       version=tf.__version__, kind="ctc", scores="logits",
       precisions=["float32"], can=["batch", "upstream"])
