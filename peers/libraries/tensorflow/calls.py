"""TensorFlow's CTC loss of sparse labels in direct calls. tests/test_calls.py judges what it returns."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"  # with its warnings

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from recording import printed, question, raised, record, sixteenths  # noqa: E402


def loss(target, logits, function=tf.compat.v1.nn.ctc_loss, **options):
    """Loss and gradient of one utterance."""
    scores = tf.constant(logits[None], tf.float32)
    labels = tf.SparseTensor([[0, u] for u in range(len(target))], np.array(target, np.int32), [1, len(target)])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        found = function(labels, scores, [len(logits)], time_major=False, **options)
    return {"loss": found[0], "gradient": tape.gradient(found, scores)[0]}


@question
def labels():
    """compat.v1.nn.ctc_loss of a vocabulary of 4, whose last symbol is 3: the losses of targets, or the error."""
    logits = sixteenths(32, 5, 4)
    return {"logits": logits, "losses": {" ".join(map(str, target)): loss(target, logits)["loss"] for target in (
        [1, 2], [1, 2, 7], [1, 7], [1])}, "error of 1 7 2": raised(loss, [1, 7, 2], logits)}


@question
def no_path():
    """The same function, of 1 1 1 in four frames: what it returns, and prints; and what it raises of two frames."""
    logits = sixteenths(33, 4, 3)
    found, text = printed(loss, [1, 1, 1], logits)
    return {"logits": logits, **found, "printed": text.rpartition("] ")[2].strip(),  # without the file and its line
            "of_two_frames": raised(loss, [1, 1, 1], logits[:2])}


record()
