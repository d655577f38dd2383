"""Greedy decoding: repeats, blanks, padding."""

import numpy as np
import pytest

from reference_impl.decoding import blank_share, greedy_decode, peaks


@pytest.mark.parametrize(("string", "read"), [
    ([1, 1, 1], [1]), ([1, 0, 1], [1, 1]), ([0, 0], []), ([2, 2, 1, 1, 0, 1], [2, 1, 1]),
])
def test_greedy_decode(string, read):
    assert greedy_decode(np.eye(3)[[string]], np.array([len(string)])) == [read]
    assert greedy_decode(np.eye(3)[[[*string, 2, 2]]], np.array([len(string)])) == [read]


def test_greedy_decode_with_another_blank():
    assert greedy_decode(np.eye(3)[[[0, 2, 0, 1]]], np.array([4]), blank=2) == [[0, 0, 1]]


def test_blank_share():
    """Frames count, not utterances; what stands in the padding does not; another blank is another share."""
    logits = np.eye(3)[[[0, 0, 0, 1, 1], [2, 0, 0, 0, 0]]]
    assert blank_share(logits, np.array([5, 1])) == 3 / 6
    assert blank_share(logits, np.array([5, 3])) == 5 / 8
    assert blank_share(logits.astype(np.float32), np.array([4, 1]), blank=2) == 1 / 5
    assert blank_share(logits, np.array([3, 0])) == 1


def test_peaks_are_first_frames_of_runs():
    """A run that begins the utterance counts, one of blanks does not, and a label read twice is there twice."""
    assert peaks(np.eye(3)[[0, 2, 2, 0, 2, 1, 1]]) == {1: 2, 4: 2, 5: 1}
    assert peaks(np.eye(3)[[0, 2, 2]], blank=2) == {0: 0}
    assert peaks(np.zeros((0, 3))) == {}
