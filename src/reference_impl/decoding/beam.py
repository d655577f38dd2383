"""Beam searches over label prefixes, for CTC and RNN-T, with an optional language model. Approximate where they prune.

Both go through the frames once and keep the best prefixes, each with the mass of the paths that lead to it. Paths with
the same labels are merged, so a beam holds strings, not paths. A prefix that leaves the beam takes its mass with it, so
``log_mass`` never exceeds the log-probability of the string, up to rounding. With ``beam=None`` no prefix leaves: every
string is returned, with all its mass.

**Ranking.** Prefixes are ranked by their log-mass, and with a language model P by::

    score = log_mass + lm_weight * log P(labels) + length_bonus * (number of labels)

The part of a label is added together with the label, and the part of the end of the string after the last frame. The
bonus makes up for the price that a language model puts on every label. Weight and bonus are tuned on held-out data. The
sum is a score to rank by, not the log-probability of any model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from .._validation import check_at_least, check_blank, check_entries, check_masses, check_real, check_row

__all__ = ["Hypothesis", "ctc_beam_search", "rnnt_beam_search"]


class Hypothesis(NamedTuple):
    """A string that a beam search found.

    ``log_mass`` is the log of the mass of those of its paths that the beam kept, in nats, without language model and
    bonus. ``score`` is the number it was ranked by, the same number if there is neither.
    """

    labels: tuple[int, ...]
    log_mass: float
    score: float


def ctc_beam_search(log_probs, *, beam: int | None = 8, blank=0, language_model: Callable | None = None, lm_weight=1.0,
                    length_bonus=0.0) -> list[Hypothesis]:
    """Prefix beam search for CTC.

    Each prefix has two masses: of the paths that end in a blank, and of those that end in its last label. In a frame, a
    blank or a repetition leaves the prefix as it is, and a label makes it longer. If a prefix and its parent are both
    in the beam, the parent may grow into the prefix. Then the two are the same string, and their masses are added.

    Parameters
    ----------
    log_probs : (T, V) array of float16, float32 or float64
        Nats; ``-inf`` masks an entry. The probabilities of a frame may sum to less than 1.
    beam : int, optional
        Prefixes kept after each frame. None: all, whose number grows exponentially with T.
    blank : int
    language_model : callable, optional
        From a tuple of labels to a (V+1,) array: log-probs of the next label, and of the end in the last place, such as
        ``NGramModel.log_prob``. The entry of the blank is not used.
    lm_weight : float >= 0
    length_bonus : float
        Nats a label.

    Returns
    -------
    list of Hypothesis
        At most ``beam``, the best score first. Empty if no string has mass.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule; also if a frame's probabilities sum to more than 1.

    Examples
    --------
    The best path reads nothing, and the best string is one label (``exact.SMALLEST_DIFFERENCE``).

    >>> for found in ctc_beam_search(np.log([[2 / 3, 1 / 3]] * 2)):
    ...     print(found.labels, round(float(np.exp(found.log_mass)), 4))
    (1,) 0.5556
    () 0.4444
    """
    log_probs = check_masses("log_probs", log_probs)
    V = log_probs.shape[1]
    blank = check_blank(blank, V)
    keep = _Beam(beam, V, language_model, lm_weight, length_bonus)
    prefixes, ends_in_blank, ends_in_label = [()], np.zeros(1), np.full(1, -np.inf)
    for frame in log_probs:
        either = np.logaddexp(ends_in_blank, ends_in_label)
        longer = either[:, None] + frame  # (prefixes, V)
        longer[:, blank] = -np.inf
        repeated = np.full(len(prefixes), -np.inf)
        index = {prefix: i for i, prefix in enumerate(prefixes)}
        for i, prefix in enumerate(prefixes):
            if prefix:  # the last label again: a repetition after itself, a new label after a blank
                repeated[i] = ends_in_label[i] + frame[prefix[-1]]
                longer[i, prefix[-1]] = ends_in_blank[i] + frame[prefix[-1]]
        for i, prefix in enumerate(prefixes):
            if prefix and prefix[:-1] in index:  # the parent grows into this prefix: one string, not two
                arrives = index[prefix[:-1]], prefix[-1]
                repeated[i] = np.logaddexp(repeated[i], longer[arrives])
                longer[arrives] = -np.inf
        by_blank = either + frame[blank]
        stays, grows = keep(prefixes, np.logaddexp(by_blank, repeated), longer)
        prefixes = [prefixes[i] for i in stays] + [(*prefixes[i], k) for i, k in grows]
        ends_in_blank = np.array([by_blank[i] for i in stays] + [-np.inf] * len(grows))
        ends_in_label = np.array([repeated[i] for i in stays] + [longer[grown] for grown in grows])
    return keep.ended(dict(zip(prefixes, np.logaddexp(ends_in_blank, ends_in_label), strict=True)))


def rnnt_beam_search(row: Callable, *, beam: int | None = 8, expansions=3, blank=0,
                     language_model: Callable | None = None, lm_weight=1.0, length_bonus=0.0) -> list[Hypothesis]:
    """Time-synchronous beam search for RNN-T, at most ``expansions`` labels in a frame.

    Within a frame, prefixes grow in rounds: first those that arrived by a blank, then those with one more label, then
    two, and so on; each round is pruned to the beam. A prefix of any round may leave the frame by a blank. Prefixes
    that leave with the same labels are merged, whichever round they come from, and pruned once more.

    Paths with more than ``expansions`` labels in a frame are left out, and nothing in the result tells. With
    ``expansions=1`` there is at most one label in a frame.

    Parameters
    ----------
    row : callable
        From a tuple of labels to the log-probs (T, V) of all frames, T >= 1, as for
        :class:`.rnnt_prefix.RNNTPrefixScorer`. It is called once for each prefix that the beam keeps.
    beam : int, optional
        Prefixes kept in each round, and after each frame. None: all.
    expansions : int
    blank, language_model, lm_weight, length_bonus
        As for :func:`ctc_beam_search`.

    Returns
    -------
    list of Hypothesis
        At most ``beam``, the best score first. Empty if no string has mass.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule; also if a frame's probabilities sum to more than 1.

    Examples
    --------
    >>> for found in rnnt_beam_search(lambda prefix: np.log([[0.4, 0.6], [0.8, 0.2]]), expansions=1):
    ...     print(found.labels, round(float(np.exp(found.log_mass)), 4))
    () 0.32
    (1,) 0.256
    (1, 1) 0.0384
    """
    expansions = check_at_least("expansions", expansions, 0)

    @cache
    def row_of(prefix):
        return check_row(f"row({prefix})", row(prefix), blank)

    T, V = row_of(()).shape
    keep = _Beam(beam, V, language_model, lm_weight, length_bonus)
    arrived = {(): 0.0}
    for t in range(T):
        written, left = arrived, {}
        for labels_in_frame in range(expansions + 1):
            frame = {prefix: row_of(prefix)[t] for prefix in written}
            for prefix, mass in written.items():
                left[prefix] = np.logaddexp(left.get(prefix, -np.inf), mass + frame[prefix][blank])
            if labels_in_frame == expansions or not written:
                break
            longer = np.array([mass + frame[prefix] for prefix, mass in written.items()])
            longer[:, blank] = -np.inf
            prefixes = list(written)  # a prefix has one parent: within a round no two can meet
            _, grows = keep(prefixes, np.full(len(prefixes), -np.inf), longer)
            written = {(*prefixes[i], k): longer[i, k] for i, k in grows}
        prefixes, masses = list(left), np.array(list(left.values()))
        stays, _ = keep(prefixes, masses, np.full((len(prefixes), V), -np.inf))
        arrived = {prefixes[i]: masses[i] for i in stays}
    return keep.ended(arrived)


class _Beam:
    """How many prefixes are kept, and by what score."""

    def __init__(self, beam, num_symbols, language_model, lm_weight, length_bonus):
        self.beam = None if beam is None else check_at_least("beam", beam, 1)
        lm_weight = check_real("lm_weight", lm_weight, "a finite number >= 0", lambda value: value >= 0)
        length_bonus = check_real("length_bonus", length_bonus, "a finite number", lambda value: True)

        @cache
        def of_next(prefix):
            """What each label adds to the score of the prefix, and in the last place the end: (V+1,)."""
            added = np.full(num_symbols + 1, length_bonus)
            added[-1] = 0.0
            if language_model is not None and lm_weight > 0:
                added += lm_weight * check_entries(f"language_model({prefix})", language_model(prefix), added.shape)
            return added

        @cache
        def of_labels(prefix):
            return of_labels(prefix[:-1]) + of_next(prefix[:-1])[prefix[-1]] if prefix else 0.0

        self.of_next, self.of_labels = of_next, of_labels

    def __call__(self, prefixes, staying, longer):
        """Which of the prefixes stay, and which (prefix, label) are added, of these masses: indices of the best."""
        if not prefixes:
            return [], []
        of_labels = np.array([self.of_labels(prefix) for prefix in prefixes])
        of_longer = of_labels[:, None] + np.array([self.of_next(prefix)[:-1] for prefix in prefixes])
        scores = np.concatenate([staying + of_labels, (longer + of_longer).ravel()])
        best = np.argsort(-scores, kind="stable")[:self.beam]
        best = best[scores[best] > -np.inf].tolist()
        grown = [divmod(i - len(prefixes), longer.shape[1]) for i in best if i >= len(prefixes)]
        return [i for i in best if i < len(prefixes)], grown

    def ended(self, masses):
        """The hypotheses, the best first, from {labels: mass}."""
        found = [Hypothesis(prefix, float(mass), float(mass + self.of_labels(prefix) + self.of_next(prefix)[-1]))
                 for prefix, mass in masses.items()]
        return sorted((each for each in found if each.score > -np.inf), key=lambda each: -each.score)
