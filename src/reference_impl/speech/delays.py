"""How long after a word has ended its last letter is written, by the true times of a corpus. No network, no loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from .corpus import Utterance
from .letters import SPACE, spell

__all__ = ["expected_delays", "word_delays", "words_read"]


def words_read(read: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
    """Words, each with the frame in which its last letter was written.

    Parameters
    ----------
    read : sequence of (frame, label)
        Letters as they were written; the blank is not among them.

    Examples
    --------
    >>> words_read([(3, 9), (4, 17), (8, 1), (9, 17), (12, 16)])
    [('go', 4), ('on', 12)]
    """
    words, letters, last = [], [], -1
    for frame, label in [*read, (-1, SPACE)]:
        if label != SPACE:
            letters.append(label)
            last = frame
        elif letters:
            words.append((spell(letters), last))
            letters = []
    return words


def expected_delays(posteriors: np.ndarray, utterance: Utterance, seconds_a_frame: float) -> np.ndarray:
    """Seconds from the true end of each word to the end of the frame in which its last letter is expected.

    The transcript is given, so every word counts, whether the network would read it or not.

    Parameters
    ----------
    posteriors : (T', U) array
        Probability that letter u of the transcript is written in frame t; see
        :func:`reference_impl.speech.reading.label_posteriors`.
    utterance : Utterance
        With the times of its words.
    seconds_a_frame : float

    Returns
    -------
    (N,) float array
        One for each word; negative where its last letter is expected before it has ended.

    Raises
    ------
    ValueError
        If the times of the words are unknown, or the columns are not the letters of the transcript.

    Examples
    --------
    >>> from reference_impl.speech.corpus import Span
    >>> said = Utterance("", "", "go on", np.zeros(8000), 8000, (Span("go", 0.1, 0.4), Span("on", 0.4, 0.7)))
    >>> posteriors = np.zeros((40, 5))
    >>> posteriors[[9, 14, 20, 22], [0, 1, 2, 3]] = 1
    >>> posteriors[[24, 28], 4] = 0.5
    >>> expected_delays(posteriors, said, 0.03).round(3).tolist()
    [0.05, 0.11]
    """
    if utterance.text and not utterance.words:
        raise ValueError(f"utterance {utterance.name!r} has no times of its words")
    if posteriors.ndim != 2 or posteriors.shape[1] != len(utterance.text):
        raise ValueError(f"posteriors has shape {posteriors.shape}; expected (T', {len(utterance.text)}): a column for "
                         f"each letter of {utterance.text!r}")
    frames = np.arange(len(posteriors)) @ posteriors
    last = np.cumsum([len(word.name) + 1 for word in utterance.words], dtype=np.int64) - 2
    return (frames[last] + 1) * seconds_a_frame - [word.end for word in utterance.words]


def word_delays(read: Sequence[tuple[int, int]], utterance: Utterance, seconds_a_frame: float) -> np.ndarray:
    """Seconds from the true end of each word that was read right to the end of the frame of its last letter.

    Which word is which comes from the fewest edits that turn what was read into the transcript.

    Parameters
    ----------
    read : sequence of (frame, label)
    utterance : Utterance
        With the times of its words.
    seconds_a_frame : float

    Returns
    -------
    (N,) float array
        Negative where a word is written before it has ended: its beginning can be enough to know it.

    Raises
    ------
    ValueError
        If nobody knows when the words end.

    Examples
    --------
    >>> from reference_impl.speech.corpus import Span
    >>> said = Utterance("", "", "go on", np.zeros(8000), 8000, (Span("go", 0.1, 0.4), Span("on", 0.4, 0.7)))
    >>> word_delays([(9, 9), (14, 17), (20, 1), (22, 17), (26, 16)], said, 0.03).round(3).tolist()
    [0.05, 0.11]
    """
    if utterance.text and not utterance.words:
        raise ValueError(f"utterance {utterance.name!r} has no times of its words")
    found = words_read(read)
    matched = Levenshtein.opcodes([word for word, _ in found], [word.name for word in utterance.words])
    return np.array([(found[i][1] + 1) * seconds_a_frame - utterance.words[j].end
                     for tag, i, until, j, _ in matched if tag == "equal"
                     for i, j in zip(range(i, until), range(j, j + until - i), strict=True)], dtype=np.float64)
