"""The strings of scanned digits: reproducible, and padded as promised."""

import numpy as np
import pytest

from reference_impl.digits.strings import BLANK, NUM_SYMBOLS, load_images, make_strings, spell


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


def test_spell():
    assert spell(range(NUM_SYMBOLS)) == "∅0123456789"
