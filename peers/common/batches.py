"""One utterance as a batch of one, and back: what every adapter here does before it calls its library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class CannotBeAsked(ValueError):
    """The library's function has no argument for this; the adapter says so, the library was not called."""


@dataclass
class Batch:
    """A question of the protocol with a first axis for utterances. Nothing else is changed: padding stays as asked."""

    scores: np.ndarray
    targets: np.ndarray
    logit_lengths: np.ndarray
    target_lengths: np.ndarray
    blank: int
    #: Of the derivative of a total with respect to each loss; ones unless asked.
    upstream: np.ndarray
    fastemit_lambda: float
    precision: str
    alone: bool

    def answer(self, losses, gradient=None, **others) -> dict:
        """What the protocol wants, of arrays with an axis for utterances; a total loss has none, and stays as it is."""
        def one(array):
            array = np.asarray(array, dtype=np.float64)
            return array[0] if self.alone and array.ndim else array

        given = {"loss": losses, "gradient": gradient, **others}
        return {name: one(array) for name, array in given.items() if array is not None}


def batch(inputs: dict, precision: str) -> Batch:
    """The inputs of a question, whether they are one utterance or a batch."""
    scores = inputs["logits"] if "logits" in inputs else inputs["log_probs"]
    targets = inputs["targets"]
    alone = "logit_lengths" not in inputs
    if alone:
        lengths = np.array([len(scores)]), np.array([len(targets)])
        scores, targets = scores[None], targets[None]
    else:
        lengths = inputs["logit_lengths"], inputs["target_lengths"]
    upstream = np.atleast_1d(inputs.get("upstream", np.ones(len(scores))))
    return Batch(scores.astype(precision), targets, *lengths, inputs["blank"], upstream.astype(precision),
                 inputs.get("fastemit_lambda", 0.0), precision, alone)
