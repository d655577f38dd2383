"""Exercises of the short way, which works with probabilities and has symbol 0 for its blank."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl import ctc
from reference_impl.conformance import ctc_mistakes

from ..ctc_inputs import scores
from ..question import Case, Question

__all__ = ["EXERCISES"]


def probabilities_and_targets(rng):
    a, b = (int(k) for k in rng.permutation([1, 2]))
    kinds = [("different labels", [a, b], 4), ("different labels", [a, b, a], 5), ("equal labels", [a, a], 4),
             ("edges", [b], 1), ("edges", [], 3)]
    return [Case(group, {"y": np.exp(scores(rng, T)), "targets": np.array(targets, dtype=np.int64)})
            for group, targets, T in kinds]


def in_probabilities(log_alpha):
    def alpha(y, targets):
        return np.exp(log_alpha(np.log(y), targets, 0))

    return alpha


MISTAKES = {
    "It begins in the first blank only, and it skips wherever it can; a skip leads from a label to a different label.":
        partial(ctc_mistakes.alpha, begin=1, skip=lambda s: True),
    **{says: mistake for says, mistake in ctc_mistakes.LOG_ALPHA.items() if "logarithms" not in says},
}

ALPHA = Question("alpha", {"different labels": 1.0, "equal labels": 1.0, "edges": 1.0}, probabilities_and_targets,
                 in_probabilities(lambda log_probs, targets, blank: ctc.log_alpha(log_probs, targets, blank=blank)),
                 {"It returns logarithms, not probabilities.": lambda y, targets: ctc.log_alpha(np.log(y), targets),
                  **{says: in_probabilities(mistake) for says, mistake in MISTAKES.items()}})

EXERCISES = {"ex-short-alpha": [ALPHA]}
