"""Edits and error rates: against all alignments of short sequences, and the bootstrap against all draws of a few."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

from reference_impl.decoding.error_rates import (
    EditCounts,
    edit_counts,
    edit_distance,
    error_rate,
    label_error_rate,
)


def test_label_error_rate():
    """Substitution, deletion, insertion; all strings together, weighted by their lengths."""
    targets, lengths = np.array([[1, 2, 3], [4, 0, 0]]), np.array([3, 1])
    assert label_error_rate([[1, 2, 3], [4]], targets, lengths) == 0
    assert label_error_rate([[1, 9, 3], [4]], targets, lengths) == 1 / 4
    assert label_error_rate([[1, 3], [4]], targets, lengths) == 1 / 4
    assert label_error_rate([[1, 2, 3], [4, 4, 4]], targets, lengths) == 2 / 4
    assert label_error_rate([[], []], targets, lengths) == 1


@cache
def all_edits(reference, hypothesis):
    """The (substitutions, insertions, deletions) of every way to turn one tuple into the other, from left to right."""
    if not reference or not hypothesis:
        return {(0, len(hypothesis), len(reference))}
    ways = {(s + (reference[0] != hypothesis[0]), i, d) for s, i, d in all_edits(reference[1:], hypothesis[1:])}
    ways |= {(s, i + 1, d) for s, i, d in all_edits(reference, hypothesis[1:])}
    return ways | {(s, i, d + 1) for s, i, d in all_edits(reference[1:], hypothesis)}


def test_edits_are_those_of_a_shortest_way():
    """Every pair of sequences of up to four of two labels."""
    sequences = [each for length in range(5) for each in itertools.product((1, 2), repeat=length)]
    for reference, hypothesis in itertools.product(sequences, repeat=2):
        ways = all_edits(reference, hypothesis)
        shortest = min(map(sum, ways))
        counts = edit_counts(hypothesis, reference)
        assert tuple(counts) in ways and sum(counts) == shortest == edit_distance(list(hypothesis), reference)


def test_words_strings_and_arrays():
    assert edit_counts(["one", "too"], ["one", "two", "three"]) == EditCounts(1, 0, 1)
    assert edit_counts("sevn", "seven") == EditCounts(0, 0, 1)
    assert edit_counts("sevven", "seven") == EditCounts(0, 1, 0)
    assert edit_distance(np.array([1, 2]), np.array([1, 3])) == edit_distance((1, 2), [1, 3]) == 1
    with pytest.raises(TypeError, match="^hypothesis has dtype float64; expected int32 or int64"):
        edit_distance(np.array([1.0]), [1])


def test_rate_and_counts():
    """All utterances together: the mean of their own rates would be 1/2."""
    found = error_rate([[1, 2], [], [5, 5]], [[1, 3], [4, 4, 4, 4], [5]], resamples=10)
    assert found.counts == EditCounts(substitutions=1, insertions=1, deletions=4)
    assert found.rate == 6 / 7 and found.length == 7


def every_draw(edits, labels, level):
    """The smallest rates that reach both levels, over all ways to draw as many as there are, all equally likely."""
    draws = itertools.product(range(len(edits)), repeat=len(edits))
    rates = sorted(sum(edits[i] for i in draw) / sum(labels[i] for i in draw) for draw in draws)
    return [rates[math.ceil(q * len(rates)) - 1] for q in ((1 - level) / 2, (1 + level) / 2)]


#: four utterances with 0, 1, 2, 1 edits in 3, 4, 2, 1 labels, read by two speakers
REFERENCES = [[1, 2, 3], [1, 2, 3, 4], [1, 2], [1]]
HYPOTHESES = [[1, 2, 3], [1, 2, 3], [3, 4], [2]]


@pytest.mark.parametrize("groups, edits, labels, level", [
    (None, [0, 1, 2, 1], [3, 4, 2, 1], 0.9), ("abba", [1, 3], [4, 6], 0.6), ("aabb", [1, 3], [7, 3], 0.8),
])
def test_the_interval_is_that_of_all_draws(groups, edits, labels, level):
    """The level is chosen so that both ends lie inside a step of the distribution function, more than five standard
    deviations of 20,000 draws away from its ends."""
    found = error_rate(HYPOTHESES, REFERENCES, groups=groups, level=level, resamples=20_000)
    assert found.rate == 0.4
    assert [found.low, found.high] == pytest.approx(every_draw(edits, labels, level), rel=1e-12)


def test_seeds_and_resamples():
    how = {"hypotheses": HYPOTHESES * 5, "references": REFERENCES * 5, "resamples": 200}
    assert error_rate(**how, seed=1) == error_rate(**how, seed=1)
    assert error_rate(**how, seed=1)[1:3] != error_rate(**how, seed=2)[1:3]
    narrow, wide = error_rate(**how, level=0.5), error_rate(**how, level=0.99)
    assert wide.low < narrow.low < narrow.rate < narrow.high < wide.high


def test_speakers_make_the_interval_wider():
    """Ten speakers, of whom five always err: the rate depends on who came, and utterances alone hide it."""
    references, speakers = [[1]] * 200, np.repeat(np.arange(10), 20).tolist()
    hypotheses = [[1 + speaker % 2] for speaker in speakers]
    by_utterance = error_rate(hypotheses, references)
    by_speaker = error_rate(hypotheses, references, groups=speakers)
    assert by_utterance.rate == by_speaker.rate == 0.5
    # standard deviations of a mean of 200 and of 10 such draws: their ratio is the square root of 20, about 4.5
    ratio = (by_speaker.high - by_speaker.low) / (by_utterance.high - by_utterance.low)
    assert 3.5 < ratio < 5.5


def test_empty_references():
    """What was read there counts as insertions; draws without any label have no rate."""
    found = error_rate([[1], [2]], [[], [2]], resamples=500)
    assert found.rate == 1 and found.counts == EditCounts(0, 1, 0)
    assert (found.low, found.high) == (0, 1)
    for empty in ([], [[]]):
        with pytest.raises(ValueError, match="^references has no label in it; expected at least one"):
            error_rate(empty, empty)
    with pytest.raises(ValueError, match="^target_lengths has no label in it"):
        label_error_rate([[1]], np.array([[1]]), np.array([0]))


@pytest.mark.parametrize("how, says", [
    ({"hypotheses": [[1]]}, "hypotheses has length 1; expected 2, one for each reference"),
    ({"groups": "abc"}, "groups has length 3; expected 2, one for each reference"),
    ({"level": 1.0}, "level = 1.0; expected 0 < level < 1"),
    ({"resamples": 0}, "resamples = 0; expected resamples >= 1"),
])
def test_bad_arguments(how, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        error_rate(**{"hypotheses": [[1], [2]], "references": [[1], [2]], **how})
