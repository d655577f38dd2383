"""Keras's CTC loss in direct calls, for what no report shows. tests/test_calls.py judges what it returns."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras  # noqa: E402
import numpy as np  # noqa: E402
from recording import question, record, sixteenths  # noqa: E402


@question
def lengths():
    """keras.losses.CTC of two targets padded with 0, and keras.ops.ctc_loss, which is told lengths."""
    logits = sixteenths(31, 2, 5, 4).astype("float32")
    found = {"logits": logits, "targets": [[1, 2, 0], [3, 0, 0]], "targets_with_0_between": [[1, 0, 2], [0, 3, 0]]}
    plain, between = (np.array(found[name]) for name in ("targets", "targets_with_0_between"))
    loss = keras.losses.CTC(reduction=None)

    def told(targets, frames):
        return keras.ops.ctc_loss(targets, logits, np.array([2, 1]), np.array(frames))

    return {**found, "loss": loss(plain, logits), "all_frames": told(plain, (5, 5)),
            "three_of_the_second": told(plain, (5, 3)), "0_between_loss": loss(between, logits),
            "0_between_all_frames": told(between, (5, 5))}


record()
