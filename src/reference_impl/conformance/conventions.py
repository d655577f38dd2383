"""The conventions that a loss may follow, and what it should return under them. It finds out none of them.

The right loss is -log Z in nats, one number for each utterance, and the right gradient is its derivative with respect
to the scores that came in. Libraries add signs, divisors and totals to both, and some return another gradient than that
of their loss. Each of these choices has a name here, and a value under that name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._softmax import log_softmax
from ..terms import loss_scaling, terms_of
from .problem import LOSSES

__all__ = ["DIVISORS", "SCORES", "Conventions", "Scale", "scaled"]

#: What inputs and variables are called in a sentence.
SCORES = {"logits": "logits", "log_probs": "log-probs"}
#: What a loss or gradient may be divided by, from the lengths T and U (B,) of a batch: a number, or one an utterance.
DIVISORS = {
    "1": lambda T, U: 1.0,
    "U": lambda T, U: np.maximum(U, 1),
    "T": lambda T, U: T,
    "B": lambda T, U: len(T),
    "U B": lambda T, U: np.maximum(U, 1) * len(T),
    "T B": lambda T, U: T * len(T),
    "sum of U": lambda T, U: max(U.sum(), 1),
    "sum of T": lambda T, U: T.sum(),
    "U + 1": lambda T, U: U + 1,
    "T + U": lambda T, U: T + U,
    "T (U + 1)": lambda T, U: T * (U + 1),
    "longest T": lambda T, U: T.max(),
}
#: What each of them is called in a sentence.
DIVISOR_WORDS = {
    "1": "", "U": "the number of labels", "T": "the number of frames", "B": "the batch size",
    "U B": "the number of labels and the batch size", "T B": "the number of frames and the batch size",
    "sum of U": "the number of labels in the batch", "sum of T": "the number of frames in the batch",
    "U + 1": "the number of labels plus 1", "T + U": "the length of an alignment, T + U",
    "T (U + 1)": "the number of nodes, T (U + 1)", "longest T": "the number of frames of the longest utterance",
}


@dataclass(frozen=True)
class Scale:
    """A factor of a loss or gradient: a constant, and what it is divided by."""

    constant: float = 1.0
    divisor: str = "1"

    def of(self, problem) -> np.ndarray:
        """The factor of each utterance: (B,), and (1,) for one that is no batch."""
        T, U = lengths_of(problem)
        divisor = np.maximum(DIVISORS[self.divisor](T, U), 1)  # no frames: what is divided is 0
        return np.broadcast_to(self.constant / divisor, T.shape).astype(np.float64)

    def __str__(self):
        names = {1.0: "", -1.0: "multiplied by -1", 1 / np.log(2): "in bits",
                 -1 / np.log(2): "in bits, multiplied by -1"}
        said = next((text for value, text in names.items() if abs(value / self.constant - 1) < 1e-6),
                    f"multiplied by {self.constant:.6g}") if self.constant else "multiplied by 0"
        if power := loss_scaling(self.constant):
            said += f" (2^{power}: loss scaling?)"
        divided = f"divided by {DIVISOR_WORDS[self.divisor]}" if self.divisor != "1" else ""
        return ", ".join(part for part in (said, divided) if part) or "not scaled"


def lengths_of(problem):
    """Frames and labels of each utterance, (B,) each."""
    if problem.is_batch:
        return np.asarray(problem.logit_lengths), np.asarray(problem.target_lengths)
    return np.array([len(problem.logits)]), np.array([len(problem.targets)])


def scaled(factor, gradient) -> np.ndarray:
    """A gradient times a factor; what is 0 stays 0, even if the factor is inf."""
    with np.errstate(invalid="ignore"):
        return np.where(gradient == 0, 0.0, factor * gradient)


@dataclass(frozen=True)
class Conventions:
    """What a loss does besides computing -log Z and its derivative; by default nothing."""

    kind: str
    #: What the scores are to the loss: "logits" if it applies a log-softmax to them, "log_probs" if it does not.
    inputs: str = "logits"
    #: What the returned gradient is with respect to; "logits" with log-probs for inputs is what torch's CTC returns.
    variable: str = "logits"
    loss: Scale = Scale()
    gradient: Scale = Scale()
    #: Whether a batch has one loss, their sum.
    total: bool = False
    fastemit_lambda: float = 0.0
    #: Whether the loss is multiplied by 1 + lambda where a lambda is asked for.
    emphasised_loss: bool = False
    clamp: float = 0.0
    #: Whether it clamps last, after what was divided and multiplied by the upstream gradient.
    clamp_last: bool = False
    #: Which symbol is the blank: "argument", "0" or "V - 1".
    blank: str = "argument"
    #: The loss where no alignment exists.
    impossible: float = np.inf

    def blank_of(self, problem) -> int:
        return {"argument": problem.blank, "0": 0, "V - 1": problem.logits.shape[-1] - 1}[self.blank]

    def expected(self, problem, *, scores=None) -> dict:
        """What a loss returns that follows them, ``loss`` and ``gradient``; ``scores`` if others than the logits.

        A problem with a lambda of its own says which FastEmit is asked for.
        """
        scores = problem.logits if scores is None else scores
        losses, gradient = [], np.zeros(np.shape(scores))
        factors = self.gradient.of(problem)
        if problem.upstream is not None:
            factors = factors * (np.ravel(problem.upstream)[0] if self.total else problem.upstream)
        for factor, (place, one) in zip(factors, problem.utterances(), strict=True):
            loss, each = self._utterance(scores[place], one)
            losses.append(loss)
            if self.clamp and not self.clamp_last:
                each = np.clip(each, -self.clamp, self.clamp)
            gradient[place] = scaled(factor, each)
        if self.clamp_last:
            gradient = np.clip(gradient, -self.clamp, self.clamp)
        losses = np.array(losses) * self.loss.of(problem)
        losses = losses.sum() if self.total else losses if problem.is_batch else losses[0]
        return {"loss": np.asarray(losses), "gradient": gradient}

    def possible(self, problem, *, scores=None) -> np.ndarray:
        """Whether each utterance has an alignment of a probability above 0: (B,), and (1,) for one that is no batch."""
        scores = problem.logits if scores is None else scores
        return np.array([self._loss(scores[place], one) < np.inf for place, one in problem.utterances()])

    def _loss(self, scores, one):
        log_probs = log_softmax(scores) if self.inputs == "logits" else scores
        return LOSSES[self.kind].loss(log_probs, one.targets, blank=self.blank_of(one))

    def _utterance(self, scores, one):
        loss = self._loss(scores, one)
        if loss == np.inf:
            return self.impossible, np.zeros(scores.shape)
        loss *= 1.0 + one.fastemit_lambda * self.emphasised_loss
        through_softmax = float(self.variable == "logits")
        emphasis = 1.0 + (one.fastemit_lambda or self.fastemit_lambda)
        terms = terms_of(scores, one.targets, loss=self.kind, inputs=self.inputs, blank=self.blank_of(one))
        multiples = np.array([through_softmax, through_softmax * emphasis, -1.0, -emphasis])
        return loss, np.tensordot(multiples, terms, 1)

    def named(self) -> dict[str, str]:
        """Each choice by its name, as a person would write it; these are the names and values of ``expect``."""
        return {
            "inputs": self.inputs, "variable": self.variable,
            "reduction": _REDUCTIONS.get((self.total, self.loss.divisor),
                                         f"{'sum' if self.total else 'none'}, / {self.loss.divisor}"),
            "factor": f"{self.loss.constant:.6g}", "gradient_factor": f"{self.gradient.constant:.6g}",
            "gradient_divisor": self.gradient.divisor,
            "fastemit": f"{self.fastemit_lambda:.6g}", "fastemit_loss": _OF_FASTEMIT[self.emphasised_loss],
            "clamp": f"{self.clamp:.6g}", "blank": self.blank, "impossible": f"{self.impossible:.6g}",
        }

    def departures(self) -> dict[str, str]:
        """By name, each choice for which the gradient is not the derivative of the loss, or the loss not -log Z."""
        found = {}
        if self.variable != self.inputs:
            found["variable"] = (f"The scores are taken as {SCORES[self.inputs]}, and what is returned is the gradient"
                                 f" with respect to {SCORES[self.variable]}.")
        if self.gradient.divisor != self.loss.divisor:
            found["gradient_divisor"] = f"The gradient is {self.gradient}; the loss is {self.loss}."
        elif not np.isclose(self.gradient.constant, self.loss.constant, rtol=1e-6, atol=0):
            found["gradient_factor"] = f"The gradient is {self.gradient}; the loss is {self.loss}."
        if self.fastemit_lambda:
            found["fastemit"] = (f"FastEmit, lambda = {self.fastemit_lambda:.6g}: the posteriors of the labels are "
                                 f"multiplied by {1 + self.fastemit_lambda:.6g}.")
        if self.emphasised_loss:
            found["fastemit_loss"] = "With FastEmit the loss is -log Z times 1 + lambda; expected -log Z."
        if self.clamp:
            found["clamp"] = (f"The gradient is clamped to [-{self.clamp:.6g}, {self.clamp:.6g}]"
                              f"{', after everything else' if self.clamp_last else ''}.")
        if self.blank != "argument":
            found["blank"] = f"The blank is symbol {self.blank}, whatever the argument says."
        if self.impossible != np.inf:
            found["impossible"] = f"Where no alignment exists the loss is {self.impossible:.6g}; expected inf."
        return found

    def changed(self, **what) -> Conventions:
        return replace(self, **what)


_OF_FASTEMIT = {False: "-log Z", True: "(1 + lambda) (-log Z)"}
_REDUCTIONS = {(False, "1"): "none", (True, "1"): "sum", (True, "B"): "mean", (True, "U B"): "mean over labels",
               (False, "U"): "none, / U", (True, "sum of U"): "sum, / sum of U"}
