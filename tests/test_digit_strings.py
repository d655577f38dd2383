"""The strings of scanned digits: reproducible, padded as promised, and scored by edit distance."""

import numpy as np
import pytest

from reference_impl.digits.strings import (
    BLANK,
    NUM_SYMBOLS,
    blank_share,
    greedy_decode,
    label_error_rate,
    load_images,
    make_strings,
    peaks,
    spell,
)


def test_images():
    """1797 scans of 8 x 8 pixels; no image is in both parts; intensities are 17 levels between 0 and 1."""
    train, train_digits = load_images(held_out=False)
    test, test_digits = load_images(held_out=True)
    assert (len(train), len(test)) == (1200, 597)
    assert train.shape[1:] == (8, 8)
    assert set(train_digits) == set(test_digits) == set(range(10))
    assert set(np.unique(train * 16)) == set(range(17))
    assert not {image.tobytes() for image in train} & {image.tobytes() for image in test}


def test_strings():
    """Lengths and gaps in their ranges, labels from 1, the columns of the images in order, zeros in the padding."""
    images, digits = load_images(held_out=False)
    strings = make_strings(images, digits, 50, np.random.default_rng(0), lengths=(2, 4), gaps=(0, 2))
    assert strings.frames.dtype == np.float32
    assert strings.targets.dtype == np.int64
    assert set(strings.target_lengths) == {2, 3, 4}
    assert strings.frames.shape == (50, strings.frame_lengths.max(), 8)
    for b in range(50):
        T, U = strings.frame_lengths[b], strings.target_lengths[b]
        assert 8 * U <= T <= 8 * U + 2 * (U + 1)
        assert (strings.frames[b, T:] == 0).all()
        assert (strings.targets[b, U:] == 0).all()
        assert set(strings.targets[b, :U]) <= set(range(1, NUM_SYMBOLS)) - {BLANK}
        assert strings.frames[b].max() == 1.0


def test_strings_without_gaps_are_the_images():
    images, digits = load_images(held_out=True)
    strings = make_strings(images, digits, 1, np.random.default_rng(3), lengths=(1, 1), gaps=(0, 0))
    same = [i for i, image in enumerate(images) if (image.T == strings.frames[0]).all()]
    assert [digits[i] + 1 for i in same] == strings.targets[0].tolist()


def test_strings_are_reproducible():
    images, digits = load_images(held_out=True)
    first, second, other = (make_strings(images, digits, 3, np.random.default_rng(seed)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.frames, second.frames)
    np.testing.assert_array_equal(first.targets, second.targets)
    assert first.frames.shape != other.frames.shape or (first.frames != other.frames).any()


def test_bad_counts():
    images, digits = load_images(held_out=True)
    with pytest.raises(ValueError, match="^count = 0; expected count >= 1$"):
        make_strings(images, digits, 0, np.random.default_rng(0))


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


def test_label_error_rate():
    """Substitution, deletion, insertion; all strings together, weighted by their lengths."""
    targets, lengths = np.array([[1, 2, 3], [4, 0, 0]]), np.array([3, 1])
    assert label_error_rate([[1, 2, 3], [4]], targets, lengths) == 0
    assert label_error_rate([[1, 9, 3], [4]], targets, lengths) == 1 / 4
    assert label_error_rate([[1, 3], [4]], targets, lengths) == 1 / 4
    assert label_error_rate([[1, 2, 3], [4, 4, 4]], targets, lengths) == 2 / 4
    assert label_error_rate([[], []], targets, lengths) == 1


def test_peaks_are_first_frames_of_runs():
    """A run that begins the utterance counts, one of blanks does not, and a label read twice is there twice."""
    assert peaks(np.eye(3)[[0, 2, 2, 0, 2, 1, 1]]) == {1: 2, 4: 2, 5: 1}
    assert peaks(np.eye(3)[[0, 2, 2]], blank=2) == {0: 0}
    assert peaks(np.zeros((0, 3))) == {}


def test_spell():
    assert spell(range(NUM_SYMBOLS)) == "∅0123456789"
