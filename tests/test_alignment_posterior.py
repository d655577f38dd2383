"""Posteriors of label times against all paths, one by one, and what is reported of a distribution against a search."""

import re
from itertools import product
from math import fsum

import numpy as np
import pytest
from enumeration import alignments, probability
from implementations import EXACT, random_scores
from label_spans import CASES, expected

from reference_impl import ctc, rnnt
from reference_impl.alignment import (
    NoAlignment,
    credible_frames,
    ctc_best_path,
    ctc_run_posteriors,
    ctc_span_posteriors,
    mass_near,
    median_frame,
    rnnt_best_path,
    rnnt_frame_posteriors,
    rnnt_span_posteriors,
    word_spans,
)

SPANS = {"ctc": ctc_span_posteriors, "rnnt": rnnt_span_posteriors}
every_case = pytest.mark.parametrize(("T", "V", "targets", "blank"), CASES)
every_kind = pytest.mark.parametrize("kind", ["ctc", "rnnt"])


def spans_and_shares(kind, log_probs, targets, blank):
    """Of every path its share of the mass, and first and last frame of each label."""
    paths = alignments(kind, targets, len(log_probs), log_probs.shape[-1], blank)
    weights = [probability(log_probs, path) for path in paths]
    total = fsum(weights)
    return [(weight / total, *expected(kind, path, blank)[1:]) for path, weight in zip(paths, weights, strict=True)]


@every_case
def test_runs_of_ctc(T, V, targets, blank):
    log_probs = random_scores(np.random.default_rng(T), "ctc", T, len(targets), V)
    starts, ends = np.zeros((2, len(targets), T))
    for share, first, last in spans_and_shares("ctc", log_probs, targets, blank):
        for u in range(len(targets)):
            starts[u, first[u]] += share
            ends[u, last[u]] += share
    found = ctc_run_posteriors(log_probs, targets, blank=blank)
    np.testing.assert_allclose(found[0], starts, rtol=0, atol=EXACT)
    np.testing.assert_allclose(found[1], ends, rtol=0, atol=EXACT)


@every_case
def test_frames_of_rnnt(T, V, targets, blank):
    log_probs = random_scores(np.random.default_rng(T), "rnnt", T, len(targets), V)
    frames = np.zeros((len(targets), T))
    for share, first, _ in spans_and_shares("rnnt", log_probs, targets, blank):
        for u in range(len(targets)):
            frames[u, first[u]] += share
    np.testing.assert_allclose(rnnt_frame_posteriors(log_probs, targets, blank=blank), frames, rtol=0, atol=EXACT)


@every_kind
@pytest.mark.parametrize(("T", "V", "targets", "lengths", "blank"), [
    (5, 3, [1, 2], [1, 1], 0), (5, 3, [1, 2], [2], 0), (6, 3, [1, 1, 2], [2, 1], 0), (6, 3, [2, 1, 1], [1, 2], 0),
    (5, 3, [0, 2, 0], [3], 1), (1, 2, [1], [1], 0)])
def test_spans_of_words(kind, T, V, targets, lengths, blank):
    """Every span that a word can have, at once and by itself, and those of labels."""
    log_probs = random_scores(np.random.default_rng(T), kind, T, len(targets), V)
    shares = spans_and_shares(kind, log_probs, targets, blank)
    for words in (lengths, None):
        count = len(words or targets)
        for first, last in product(range(T), repeat=2):
            if first > last:
                continue
            each = np.zeros(count)
            for share, firsts, lasts in shares:
                spans = word_spans(firsts, lasts, words or [1] * len(targets))
                each += share * ((spans[0] == first) & (spans[1] == last))
            found = SPANS[kind](log_probs, targets, [first] * count, [last] * count, word_lengths=words, blank=blank)
            np.testing.assert_allclose(found, each, rtol=0, atol=EXACT)


@pytest.mark.parametrize("blank", [0, 2])
def test_starts_add_up_to_the_states_above(blank):
    """A label has begun by frame t if and only if the state is its own or a higher one; the tails of the occupancy."""
    rng = np.random.default_rng(blank)
    T, V, U = 50, 5, 14
    targets = rng.choice([k for k in range(V) if k != blank], U)
    log_probs = random_scores(rng, "ctc", T, U, V)
    log_gamma = ctc.log_alpha(log_probs, targets, blank=blank) + ctc.log_beta(log_probs, targets, blank=blank)
    above = np.exp(log_gamma + ctc.loss(log_probs, targets, blank=blank))[:, ::-1].cumsum(axis=1)[:, ::-1]
    starts, ends = ctc_run_posteriors(log_probs, targets, blank=blank)
    # log masses of 100 nats are rounded to 1e-14 in each of T steps
    np.testing.assert_allclose(starts.cumsum(axis=1), above[:, 1::2].T, rtol=0, atol=1e-11)
    np.testing.assert_allclose(ends.cumsum(axis=1)[:, :-1], above[1:, 2::2].T, rtol=0, atol=1e-11)
    np.testing.assert_allclose([starts.sum(axis=1), ends.sum(axis=1)], 1, rtol=0, atol=1e-11)
    assert (starts >= 0).all() and (ends >= 0).all()


def test_frames_of_rnnt_are_label_arcs():
    rng = np.random.default_rng(0)
    targets = rng.choice([0, 2, 3], 9)
    log_probs = random_scores(rng, "rnnt", 20, 9, 4)
    _, e_label = rnnt.arc_posteriors(log_probs, targets, blank=1)
    np.testing.assert_allclose(rnnt_frame_posteriors(log_probs, targets, blank=1), e_label.T, rtol=0, atol=1e-11)


@every_kind
def test_the_best_paths_spans_have_a_confidence(kind):
    """Where one path has nearly all mass, its spans are nearly certain, and another span is nearly impossible."""
    targets, T = [1, 2, 2], 7
    entries = {"ctc": list(enumerate([0, 1, 1, 2, 0, 2, 0])),
               "rnnt": [(0, 0, 0), (1, 0, 1), (1, 1, 0), (2, 1, 0), (3, 1, 2), (3, 2, 0), (4, 2, 2), (4, 3, 0),
                        (5, 3, 0), (6, 3, 0)]}[kind]
    log_probs = np.full((T, 3) if kind == "ctc" else (T, 4, 3), -50.0)
    for entry in entries:
        log_probs[entry] = 0.0
    found = {"ctc": ctc_best_path, "rnnt": rnnt_best_path}[kind](log_probs, targets)
    assert found.first.tolist() == ([1, 3, 5] if kind == "ctc" else [1, 3, 4])
    assert SPANS[kind](log_probs, targets, found.first, found.last) == pytest.approx(np.ones(3), abs=1e-12)
    words = word_spans(found.first, found.last, [2, 1])
    assert SPANS[kind](log_probs, targets, *words, word_lengths=[2, 1]) == pytest.approx(np.ones(2), abs=1e-12)
    assert SPANS[kind](log_probs, targets, found.first - 1, found.last)[0] < 1e-12


@every_kind
def test_no_alignment(kind):
    """An error, where a distribution could not add up to 1."""
    masked = np.full((3, 3) if kind == "ctc" else (3, 2, 3), -np.inf)
    calls = [ctc_run_posteriors] if kind == "ctc" else [rnnt_frame_posteriors]
    for call in [*calls, lambda *each: SPANS[kind](*each, [0], [0])]:
        with pytest.raises(NoAlignment, match="finite up to frame t = 0;"):
            call(masked, [1])
    with pytest.raises(NoAlignment, match=r"expected T >= U \+ R = 3,"):
        ctc_run_posteriors(np.zeros((2, 3)), [1, 1])


def test_masks_and_empty_targets():
    log_probs = np.zeros((3, 2))
    log_probs[0, 1] = log_probs[2, 0] = -np.inf  # the label ends in the last frame, and does not begin in the first
    starts, ends = ctc_run_posteriors(log_probs, [1])
    assert starts.round(12).tolist() == [[0, 0.5, 0.5]] and ends.tolist() == [[0, 0, 1]]
    assert [each.shape for each in ctc_run_posteriors(log_probs[:2], [])] == [(0, 2), (0, 2)]
    assert [each.shape for each in ctc_run_posteriors(np.zeros((0, 2)), [])] == [(0, 0), (0, 0)]
    assert rnnt_frame_posteriors(np.zeros((2, 1, 2)), []).shape == (0, 2)
    assert ctc_span_posteriors(np.zeros((2, 2)), [], [], []).shape == (0,)


class TestReports:
    @pytest.fixture(params=range(4))
    def rows(self, request):
        rng = np.random.default_rng(request.param)
        weights = rng.integers(0, 5, (30, 7)) + (rng.random((30, 7)) < 0.02)
        weights[:, 3] += weights.sum(axis=1) == 0
        return weights / weights.sum(axis=1, keepdims=True)

    def test_the_median_has_the_least_error(self, rows):
        """Searched among the frames; at ties the earliest frame."""
        for row, median in zip(rows, median_frame(rows), strict=True):
            absolute = [fsum(p * abs(t - frame) for t, p in enumerate(row)) for frame in range(7)]
            assert median == next(i for i, error in enumerate(absolute) if error < min(absolute) + 1e-9)

    @pytest.mark.parametrize("level", [0.1, 0.5, 0.75, 0.95, 1.0])
    def test_credible_frames_are_the_shortest(self, rows, level):
        first, last = credible_frames(rows.reshape(5, 6, 7), level)
        assert first.shape == last.shape == (5, 6)
        for row, a, b in zip(rows, first.ravel(), last.ravel(), strict=True):
            held = [(j - i, i, j) for i, j in product(range(7), repeat=2)
                    if i <= j and fsum(row[i:j + 1]) >= level - 1e-9]
            assert (b - a, a, b) == min(held)

    def test_mass_near(self, rows):
        frames = np.arange(30) % 7
        for tolerance in range(8):
            found = mass_near(rows, frames, tolerance)
            for row, frame, mass in zip(rows, frames, found, strict=True):
                near = fsum(p for t, p in enumerate(row) if abs(t - frame) <= tolerance)
                assert mass == pytest.approx(near, abs=EXACT)

    def test_rounding_does_not_decide(self):
        """Half of the mass up to frame 1, and a little less or more."""
        for little in (-1e-13, 0.0, 1e-13):
            row = [0.3 + little, 0.2, 0.2, 0.3 - little]
            assert median_frame(row) == 1 and [int(each) for each in credible_frames(row, 0.5)] == [0, 1]

    def test_one_frame(self):
        assert (median_frame([1.0]), credible_frames([1.0])) == (0, (0, 0))


@pytest.mark.parametrize("call, error, says", [
    (lambda: median_frame([0.5, np.nan]), ValueError, "distribution[1] = nan; expected a finite number"),
    (lambda: credible_frames([1.0], 0), ValueError, "level = 0; expected 0 < level <= 1"),
    (lambda: mass_near([[1.0]], [0], -1), ValueError, "tolerance = -1; expected tolerance >= 0"),
    (lambda: mass_near([[1.0]], 0), ValueError, "frames has shape (); expected (1,)"),
    (lambda: ctc_span_posteriors(np.zeros((3, 2)), [1], [0, 1], [1, 1]), ValueError,
     "first has shape (2,); expected (1,)"),
    (lambda: rnnt_span_posteriors(np.zeros((3, 2, 2)), [1], [0], [1], word_lengths=[2]), ValueError,
     "word_lengths = [2] with the sum 2; expected the sum U = 1"),
])
def test_errors_name_argument_value_and_rule(call, error, says):
    with pytest.raises(error, match=re.escape(says)):
        call()
