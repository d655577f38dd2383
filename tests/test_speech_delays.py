"""When words are written, against when they end."""

import numpy as np
import pytest

from reference_impl.speech.corpus import Span, Utterance
from reference_impl.speech.delays import word_delays, words_read
from reference_impl.speech.letters import labels_of


def written(text, frames):
    return list(zip(frames, labels_of(text).tolist(), strict=True))


def said(*words):
    """Words of 0.3 s, one after another."""
    spans = tuple(Span(word, 0.3 * k, 0.3 * (k + 1)) for k, word in enumerate(words))
    return Utterance("one", "", " ".join(words), np.zeros(8000, np.float32), 8000, spans)


@pytest.mark.parametrize(("text", "words"), [
    ("", []), ("a", [("a", 0)]), (" a", [("a", 1)]), ("ab  c ", [("ab", 1), ("c", 4)]), ("  ", [])])
def test_words(text, words):
    assert words_read(written(text, range(len(text)))) == words


def test_frames_of_a_word_are_those_of_its_last_letter():
    assert words_read(written("six one", [2, 2, 9, 11, 12, 12, 30])) == [("six", 9), ("one", 30)]


def test_delays_count_from_the_end_of_the_word_to_the_end_of_the_frame():
    read = written("six one", [2, 5, 11, 12, 12, 15, 30])
    np.testing.assert_allclose(word_delays(read, said("six", "one"), 0.03), [12 * 0.03 - 0.3, 31 * 0.03 - 0.6], rtol=0,
                               atol=1e-12)


@pytest.mark.parametrize(("text", "ends"), [
    ("six two four", [0.3, 1.2]),          # a word too few, and one that is wrong
    ("six two three four", [0.3, 0.9, 1.2]),
    ("sex tow", []), ("", [])])
def test_only_words_that_are_right_count(text, ends):
    frames = range(len(text))
    read = written(text, frames)
    at = {word: frame for word, frame in words_read(read)}
    order = ["six", "three", "four"] if len(ends) == 3 else ["six", "four"]
    expected = [(at[word] + 1) * 0.03 - end for word, end in zip(order, ends, strict=False)]
    found = word_delays(read, said("six", "one", "three", "four"), 0.03)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_without_times():
    with pytest.raises(ValueError, match="'one' has no times of its words"):
        word_delays([], Utterance("one", "", "go", np.zeros(1), 8000), 0.03)
