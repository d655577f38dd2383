"""What a loss is asked for: one utterance, or a batch of them. It holds no answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import ctc, rnnt

__all__ = ["LOSSES", "Problem"]

#: The module with a loss, by its name.
LOSSES = {"ctc": ctc, "rnnt": rnnt}


@dataclass(frozen=True)
class Problem:
    """One utterance, or a batch of them if there are lengths.

    ``logits`` (T, V) for CTC and (T, U+1, V) for RNN-T, with B before it in a batch; ``targets`` (U,) or (B, U).
    ``upstream`` (B,), of a batch only: the derivative of a total with respect to each loss, 1 if it is left out.
    """

    group: str
    name: str
    logits: np.ndarray
    targets: np.ndarray
    blank: int = 0
    logit_lengths: np.ndarray | None = None
    target_lengths: np.ndarray | None = None
    fastemit_lambda: float = 0.0
    upstream: np.ndarray | None = None

    @property
    def id(self):
        return f"{self.group}/{self.name}"

    @property
    def loss(self):
        return "ctc" if self.logits.ndim - self.is_batch == 2 else "rnnt"

    @property
    def is_batch(self):
        return self.logit_lengths is not None

    @property
    def frames(self):
        """T, padding included."""
        return self.logits.shape[1 if self.is_batch else 0]

    def entries(self):
        """Which scores of one utterance alignments may read, (T, V) or (T, U+1, V): the blank's and those of labels."""
        found = np.zeros(self.logits.shape, bool)
        found[..., self.blank] = True
        if self.loss == "ctc":
            found[:, self.targets] = True
        else:
            found[:, np.arange(len(self.targets)), self.targets] = True
        return found

    def utterances(self):
        """The utterances without padding, and where each stands: the index () of one that is no batch."""
        if not self.is_batch:
            return [((), self)]
        found = []
        for b, (T, U) in enumerate(zip(self.logit_lengths, self.target_lengths, strict=True)):
            place = (b, slice(T)) if self.loss == "ctc" else (b, slice(T), slice(U + 1))
            found.append((place, replace(self, name=f"{self.name}, utterance {b}", logits=self.logits[place],
                                         targets=self.targets[b, :U], logit_lengths=None, target_lengths=None,
                                         upstream=None)))
        return found
