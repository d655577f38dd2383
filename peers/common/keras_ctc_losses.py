"""Keras' two ways to a CTC loss, on whatever backend: keras.ops.ctc_loss, and keras.losses.CTC with its defaults.

keras.losses.CTC takes no lengths: every utterance has all frames, and as many labels as entries that are not 0, which
is the blank. The adapters rename the symbols accordingly.
"""

import keras


def question(way, asked):
    """The question as it is handed over."""
    return asked if way == "ops" else asked.with_blank(0)


def losses(way, asked, logits):
    """Of shape (B,) by ``way`` "ops", a total by ``way`` "loss"."""
    if way == "ops":
        return keras.ops.ctc_loss(asked.targets.astype("int32"), logits, asked.target_lengths.astype("int32"),
                                  asked.logit_lengths.astype("int32"), mask_index=asked.blank)
    return keras.losses.CTC()(asked.targets.astype("int32"), logits)


def about(way):
    """What the adapters say, but for what their backends can."""
    return {"name": "keras.ops.ctc_loss" if way == "ops" else "keras.losses.CTC",
            "version": f"{keras.__version__} on {keras.backend.backend()}", "kind": "ctc", "scores": "logits",
            # both compute in keras.backend.floatx(), which is float32 unless it was set: float64 comes back rounded
            "precisions": ["float32"]}
