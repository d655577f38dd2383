"""An n-gram model of label strings, smoothed by interpolated Witten-Bell, the end of the string included. No network.

It knows which labels follow each other and nothing about the input; a beam search adds it to what the network says
(:mod:`.beam`). Counts are integers, so the probabilities of the next label are fractions, and sum to exactly 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from .._validation import check_at_least, check_blank, check_targets

__all__ = ["NGramModel"]

#: Stands before the first label. It is not a label, so the start of a string is a context of its own.
_START = -1


class NGramModel:
    """Counts of label n-grams, and the probabilities of the next label that follow from them.

    **Interpolated Witten-Bell.** A context h is the last labels before the next one, at most ``order - 1`` of them. Let
    c(h, k) be how often k followed h, c(h) the sum over k, and D(h) the number of different k that followed. With h'
    for h without its oldest label::

        P(k | h) = (c(h, k) + D(h) P(k | h')) / (c(h) + D(h))

    The shorter context gets the share D(h) / (c(h) + D(h)), which is large if many different labels followed h, each
    seldom. For a context that never occurred, P(k | h) = P(k | h'). The empty context falls back to the uniform
    distribution over all labels and the end, so nothing is impossible. The formula is a mean of two distributions whose
    weights sum to 1; therefore the probabilities of all labels and the end sum to 1 as well.

    The end of a string is counted like a label, and the start of a string is a part of contexts: a trigram model knows
    that the next label is the second one.

    Parameters
    ----------
    strings : iterable of sequences of ints
        The text to fit; labels in [0, V), none equal to ``blank``.
    num_symbols : int
        V, the blank included.
    order : int
        n, at least 1. A model of order 1 has no context.
    blank : int

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    Blank 0, labels 1 and 2. Label 1 was followed by 2 once and by the end once, and never by itself.

    >>> model = NGramModel([[1, 2], [2, 1]], num_symbols=3, order=2)
    >>> [str(p) for p in model.probs([1])]
    ['0', '1/6', '5/12', '5/12']
    """

    def __init__(self, strings: Iterable[Sequence[int]], num_symbols, *, order=3, blank=0):
        self.order = check_at_least("order", order, 1)
        self.blank = check_blank(blank, num_symbols)
        self.num_symbols = num_symbols
        # {context: {label, or V for the end: how often it followed}}, for contexts of every length.
        self.counts: dict[tuple[int, ...], dict[int, int]] = {}
        self._log_probs = {}
        for i, string in enumerate(strings):
            string = self._checked(f"strings[{i}]", string)
            for u, label in enumerate([*string, num_symbols]):
                context = self._context(string[:u])
                for shorter in range(len(context) + 1):
                    followed = self.counts.setdefault(context[shorter:], {})
                    followed[label] = followed.get(label, 0) + 1

    def _checked(self, name, labels):
        return check_targets(labels, self.num_symbols, self.blank, name=name).tolist()

    def _context(self, prefix):
        """What the next label depends on: the last ``order - 1`` of the start and the labels."""
        longest = (_START, *prefix)
        return longest[len(longest) - min(self.order - 1, len(longest)):]

    def probs(self, prefix: Sequence[int]) -> np.ndarray:
        """Probabilities of the next label after a prefix, as fractions: (V+1,), the end in the last place.

        The entry of the blank is 0.
        """
        return self._probs(self._context(self._checked("prefix", prefix)))

    def _probs(self, context):
        probs = np.full(self.num_symbols + 1, Fraction(1, self.num_symbols))  # the end takes the place of the blank
        probs[self.blank] = Fraction(0)
        for length in range(len(context) + 1):  # from the empty context to the whole
            followed = self.counts.get(context[len(context) - length:])
            if followed is None:
                break  # longer contexts, which end in this one, have not occurred either
            total, kinds = sum(followed.values()), len(followed)
            probs = probs * Fraction(kinds, total + kinds)
            for label, times in followed.items():
                probs[label] += Fraction(times, total + kinds)
        return probs

    def log_prob(self, prefix: Sequence[int]) -> np.ndarray:
        """Log-probs of the next label after a prefix, in nats: (V+1,) float64, the end in the last place.

        The entry of the blank is ``-inf``. A beam search takes this function as its ``language_model``.

        Examples
        --------
        >>> model = NGramModel([[1, 2], [2, 1]], num_symbols=3, order=2)
        >>> np.exp(model.log_prob((1,))).round(4).tolist()
        [0.0, 0.1667, 0.4167, 0.4167]
        """
        context = self._context(self._checked("prefix", prefix))
        if context not in self._log_probs:
            with np.errstate(divide="ignore"):
                self._log_probs[context] = np.log(self._probs(context).astype(np.float64))
        return self._log_probs[context].copy()

    def string_log_prob(self, labels: Sequence[int]) -> float:
        """Log-probability of a whole string, its end included, in nats.

        Examples
        --------
        >>> model = NGramModel([[1, 2], [2, 1]], num_symbols=3, order=2)
        >>> round(model.string_log_prob([1, 2]) - model.string_log_prob([1, 1]), 4)  # log 5/2
        0.9163
        """
        labels = self._checked("labels", labels)
        return float(sum(self.log_prob(labels[:u])[k] for u, k in enumerate([*labels, self.num_symbols])))

    def perplexity(self, strings: Iterable[Sequence[int]]) -> float:
        """exp of minus the mean log-probability of a label, ends counted as labels.

        Examples
        --------
        Fitted on nothing, the model is uniform over two labels and the end.

        >>> round(NGramModel([], num_symbols=3, order=2).perplexity([[1, 2]]), 12)
        3.0
        """
        strings = list(strings)
        symbols = check_at_least("the number of strings", len(strings), 1) + sum(map(len, strings))
        return float(np.exp(-sum(map(self.string_log_prob, strings)) / symbols))
