"""When words are written, against when they end."""

import numpy as np
import pytest

from reference_impl.speech.corpus import Span, Utterance
from reference_impl.speech.delays import expected_delays, word_delays, words_read
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


def test_expected_delays_are_means_over_the_frames_of_the_last_letters():
    rng = np.random.default_rng(0)
    posteriors = rng.random((30, len("six one")))
    posteriors /= posteriors.sum(0)
    expected = [sum(0.03 * (t + 1) * posteriors[t, u] for t in range(30)) - end for u, end in ((2, 0.3), (6, 0.6))]
    np.testing.assert_allclose(expected_delays(posteriors, said("six", "one"), 0.03), expected, rtol=0, atol=1e-12)


def test_where_one_path_is_certain_the_expected_delays_are_those_of_what_is_read():
    frames = [2, 5, 11, 12, 12, 15, 28]
    posteriors = np.zeros((30, 7))
    posteriors[frames, range(7)] = 1
    np.testing.assert_allclose(expected_delays(posteriors, said("six", "one"), 0.03),
                               word_delays(written("six one", frames), said("six", "one"), 0.03), rtol=0, atol=1e-12)


def test_expected_delays_of_nothing():
    assert expected_delays(np.zeros((5, 0)), Utterance("one", "", "", np.zeros(1), 8000), 0.03).shape == (0,)


def test_expected_delays_need_times_and_the_letters_of_the_transcript():
    with pytest.raises(ValueError, match="'one' has no times of its words"):
        expected_delays(np.zeros((5, 2)), Utterance("one", "", "go", np.zeros(1), 8000), 0.03)
    with pytest.raises(ValueError, match=r"posteriors has shape \(5, 6\); expected \(T', 7\)"):
        expected_delays(np.zeros((5, 6)), said("six", "one"), 0.03)
