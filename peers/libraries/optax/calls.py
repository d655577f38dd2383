"""optax's CTC loss in direct calls, for what no report shows. tests/test_calls.py judges what it returns."""

import inspect

import jax.numpy as jnp
import optax
from recording import question, record


def loss(logits, targets, **options):
    logits, targets = jnp.array([logits], jnp.float32), jnp.array([targets])
    return optax.ctc_loss(logits, jnp.zeros(logits.shape[:2]), targets, jnp.zeros(targets.shape), **options)


@question
def floor():
    """ctc_loss of equal logits, with too few frames for the labels, by log_epsilon; and its default."""
    short, repeated = ([[0.0] * 4] * 2, [1, 2, 3]), ([[0.0] * 2] * 2, [1, 1])
    return {"default": inspect.signature(optax.ctc_loss).parameters["log_epsilon"].default,
            "three_labels_in_two_frames": loss(*short), "a_repeat_in_two_frames": loss(*repeated),
            "with_log_epsilon_-50": loss(*repeated, log_epsilon=-50.0)}


@question
def certain():
    """ctc_loss in float32 of two frames with logits 0 and 17, and of the second symbol."""
    return {"loss": loss([[0.0, 17.0]] * 2, [1])}


record()
