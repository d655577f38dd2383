"""Utterances of which CTC makes a special case, and should not: length checks that are too strict, and odd targets.

Which of loss and gradient goes wrong is up to `applied.py`.
"""

from __future__ import annotations

import itertools

import numpy as np

__all__ = ["SPECIAL"]


def _sizes(one):
    """T, U, the labels that equal their neighbour, and those that occurred anywhere before."""
    targets = np.asarray(one.targets)
    U = len(targets)
    return len(one.logits), U, int((targets[1:] == targets[:-1]).sum()), U - len({*targets.tolist()})


def _frames_asked(asked):
    """Whether a check that asks for so many frames, ``asked(U, adjacent repeats, duplicates)``, fails."""
    def fails(one):
        T, U, repeats, duplicates = _sizes(one)
        return T < asked(U, repeats, duplicates)
    return fails


_CHECKS = {
    "asks for one more frame for every duplicate label, which need not be adjacent (U + duplicates)":
        lambda U, repeats, duplicates: U + duplicates,
    "asks for as many frames as states (2U + 1)": lambda U, repeats, duplicates: 2 * U + 1,
    "asks for more frames than states (2U + 2)": lambda U, repeats, duplicates: 2 * U + 2,
    "asks for two frames for each label (2U)": lambda U, repeats, duplicates: 2 * U,
    "asks for a blank between all labels (2U - 1)": lambda U, repeats, duplicates: max(2 * U - 1, 0),
    "asks for one frame more than are needed (T > U + repeats)": lambda U, repeats, duplicates: U + repeats + 1,
    "counts a pair of equal neighbours twice (U + 2 repeats)": lambda U, repeats, duplicates: U + 2 * repeats,
}
_OTHERS = {
    "that is too short for its target (T < U + repeats)": lambda one: _sizes(one)[0] < sum(_sizes(one)[1:3]),
    "that has enough frames for its labels, and too few for the blanks between equal ones (U <= T < U + repeats)":
        lambda one: _sizes(one)[1] <= _sizes(one)[0] < sum(_sizes(one)[1:3]),
    "whose labels are all equal": lambda one: len(one.targets) > 1 and len({*one.targets.tolist()}) == 1,
    "with a label that occurs more than once": lambda one: _sizes(one)[3] > 0,
    "with label 0 as its first": lambda one: len(one.targets) > 0 and one.targets[0] == 0,
    "with label 0 as its last": lambda one: len(one.targets) > 0 and one.targets[-1] == 0,
    "with a label above the blank": lambda one: bool((np.asarray(one.targets) > one.blank).any()),
    "with a label below the blank": lambda one: bool((np.asarray(one.targets) < one.blank).any()),
    "of two frames (T = 2)": lambda one: len(one.logits) == 2,
}
#: By the sentence that names it, which utterances are special, and what their loss is.
SPECIAL = {
    **{f"a length check before the recursion {which}; an utterance with fewer is called impossible{said}":
       (_frames_asked(asked), value)
       for (which, asked), (said, value) in itertools.product(
           _CHECKS.items(), {"": np.inf, ", with a loss of 0": 0.0, ", with a loss of 1e30": 1e30}.items())},
    **{f"an utterance {which} is {said}": (holds, value)
       for (which, holds), (said, value) in itertools.product(_OTHERS.items(), {
           "given a loss of 0 and no gradient": 0.0,
           "treated as if it had no alignment: a loss of inf, or no gradient": np.inf,
           "given a loss of 1e30": 1e30}.items())},
}
