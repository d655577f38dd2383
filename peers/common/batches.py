"""One utterance as a batch of one, and back: what every adapter here does before it calls its library."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


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
    #: The symbols in the order of the scores handed over, if it is not the one asked: see :meth:`with_blank`.
    order: np.ndarray | None = None

    def with_blank(self, blank: int) -> Batch:
        """The same question with the symbols renamed, so that the blank is the one that the library knows.

        A negative number counts from the last symbol. The others keep their order, and what is answered has the
        symbols as asked.
        """
        V = self.scores.shape[-1]
        order = np.insert(np.delete(np.arange(V), self.blank), blank % V, self.blank)
        symbols = (self.targets >= 0) & (self.targets < V)
        targets = np.where(symbols, np.argsort(order)[np.where(symbols, self.targets, 0)], self.targets)
        return replace(self, scores=self.scores[..., order], targets=targets, blank=blank % V, order=order)

    def answer(self, losses, gradient=None, **others) -> dict:
        """What the protocol wants, of arrays with an axis for utterances; a total loss has none, and stays as it is."""
        def one(array):
            array = np.asarray(array, dtype=np.float64)
            return array[0] if self.alone and array.ndim else array

        given = {"gradient": gradient, **others}
        arrays = {name: np.asarray(array) for name, array in given.items() if array is not None}
        if self.order is not None:
            arrays = {name: array[..., np.argsort(self.order)] for name, array in arrays.items()}
        return {name: one(array) for name, array in {"loss": losses, **arrays}.items()}


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
