"""Letters as labels: text to integers and back. The blank is 0, the space 1."""

from __future__ import annotations

import numpy as np

__all__ = ["BLANK", "NUM_SYMBOLS", "SPACE", "SYMBOLS", "labels_of", "spell"]

BLANK, SPACE = 0, 1
#: The blank, the space, the apostrophe and 26 letters.
SYMBOLS = ("∅", " ", "'", *"abcdefghijklmnopqrstuvwxyz")
NUM_SYMBOLS = len(SYMBOLS)
_LABELS = {symbol: k for k, symbol in enumerate(SYMBOLS) if k != BLANK}


def labels_of(text) -> np.ndarray:
    """Labels (U,) int64 of a text in lower case.

    Raises
    ------
    ValueError
        If it has a character that is no label.

    Examples
    --------
    >>> labels_of("go on").tolist()
    [9, 17, 1, 17, 16]
    """
    for at, character in enumerate(text):
        if character not in _LABELS:
            raise ValueError(f"text[{at}] = {character!r}; expected a letter in lower case, a space or an apostrophe")
    return np.array([_LABELS[character] for character in text], dtype=np.int64)


def spell(labels) -> str:
    """Labels as text; the blank as ∅.

    Examples
    --------
    >>> spell(labels_of("yes")), spell([0, 25, 0])
    ('yes', '∅w∅')
    """
    return "".join(SYMBOLS[k] for k in labels)
