"""Best paths and their spans against all paths, ties included, and against the explicit recursions on MAX."""

import re
from math import fsum

import numpy as np
import pytest
from enumeration import alignments, collapse
from implementations import EXPLICIT, random_scores
from label_spans import CASES, expected

from reference_impl import ctc
from reference_impl.alignment import BestPath, NoAlignment, ctc_best_path, rnnt_best_path, word_spans
from reference_impl.semiring import MAX

BEST = {"ctc": ctc_best_path, "rnnt": rnnt_best_path}
every_case = pytest.mark.parametrize(("T", "V", "targets", "blank"), CASES)
every_kind = pytest.mark.parametrize("kind", ["ctc", "rnnt"])


@every_kind
@every_case
def test_the_best_of_all_paths(kind, T, V, targets, blank):
    log_probs = random_scores(np.random.default_rng(7 * T + V), kind, T, len(targets), V)
    paths = alignments(kind, targets, T, V, blank)
    scores = [fsum(log_probs[entry] for entry in path) for path in paths]
    best = paths[int(np.argmax(scores))]
    found = BEST[kind](log_probs, targets, blank=blank)
    assert found.log_mass == pytest.approx(max(scores), rel=1e-12, abs=0)
    assert [found.path.tolist(), found.first.tolist(), found.last.tolist()] == list(expected(kind, best, blank))


@every_kind
@every_case
def test_the_mass_is_that_of_the_explicit_recursion_bit_by_bit(kind, T, V, targets, blank):
    log_probs = random_scores(np.random.default_rng(T), kind, T, len(targets), V)
    found = BEST[kind](log_probs, targets, blank=blank)
    assert found.log_mass == EXPLICIT[kind].Z(log_probs, targets, blank=blank, semiring=MAX)


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_at_a_size_that_nobody_enumerates(kind, seed):
    """The mass of the recursion, and a path whose entries have exactly this mass and spell the target."""
    rng = np.random.default_rng(seed)
    T, V, U, blank = 40, 5, 12, 3
    targets = rng.choice([0, 1, 2, 4], U)
    log_probs = random_scores(rng, kind, T, U, V)
    found = BEST[kind](log_probs, targets, blank=blank)
    assert found.log_mass == EXPLICIT[kind].Z(log_probs, targets, blank=blank, semiring=MAX)
    if kind == "ctc":
        entries = list(enumerate(ctc.extended_targets(targets, blank=blank)[found.path].tolist()))
        assert expected(kind, entries, blank)[1:] == (found.first.tolist(), found.last.tolist())
        assert collapse([symbol for _, symbol in entries], blank) == targets.tolist()
    else:
        steps = np.append(found.path[1:], [[T, U]], axis=0) - found.path
        entries = [(t, u, blank if step[0] else int(targets[u])) for (t, u), step in zip(
            found.path.tolist(), steps.tolist(), strict=True)]
        assert sorted(set(map(tuple, steps.tolist()))) == [(0, 1), (1, 0)] and steps[-1].tolist() == [1, 0]
    assert fsum(log_probs[entry] for entry in entries) == pytest.approx(found.log_mass, rel=1e-12)


@every_kind
@pytest.mark.parametrize("seed", range(25))
def test_the_choice_among_ties(kind, seed):
    """Scores are small integers, some of them masked, so sums are exact and most best paths have others beside them.

    CTC: read from the end, the last label before the blank after it, then always the highest state. RNN-T: the last
    label as early as possible, then the one before it.
    """
    rng = np.random.default_rng(seed)
    T, V, U = int(rng.integers(1, 7)), int(rng.integers(2, 4)), int(rng.integers(0, 4))
    blank = int(rng.integers(V))
    targets = rng.choice([k for k in range(V) if k != blank], U)
    log_probs = rng.integers(-2, 1, (T, V) if kind == "ctc" else (T, U + 1, V)).astype(float)
    log_probs[rng.random(log_probs.shape) < 0.04] = -np.inf
    scored = [(sum(log_probs[entry] for entry in path), expected(kind, path, blank))
              for path in alignments(kind, targets, T, V, blank)]
    best = max([score for score, _ in scored], default=-np.inf)
    if best == -np.inf:
        with pytest.raises(NoAlignment):
            BEST[kind](log_probs, targets, blank=blank)
        return
    tied = [each for score, each in scored if score == best]
    if kind == "ctc":
        chosen = max(tied, key=lambda each: (-each[0][-1], each[0][::-1]))
    else:
        chosen = min(tied, key=lambda each: each[1][::-1])
    found = BEST[kind](log_probs, targets, blank=blank)
    assert [found.path.tolist(), found.first.tolist(), found.last.tolist()] == list(chosen) and found.log_mass == best


def test_ties_as_the_docstrings_have_it():
    """All paths alike: the last label as long as it can be, in CTC; every label in the first frame, in RNN-T."""
    assert ctc_best_path(np.zeros((4, 3)), [1, 2]).path.tolist() == [1, 3, 3, 3]
    assert ctc_best_path(np.zeros((4, 3)), [1, 1]).path.tolist() == [1, 2, 3, 3]
    assert rnnt_best_path(np.zeros((3, 3, 3)), [1, 2]).first.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_masks_and_types(dtype):
    """Where the best path is masked, the next one is taken; nothing is written into the arguments."""
    log_probs = np.log([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]]).astype(dtype)
    log_probs[1, 1] = -np.inf
    before = log_probs.copy()
    assert ctc_best_path(log_probs, [1]).path.tolist() == [0, 0, 1, 2]
    assert np.array_equal(log_probs, before)


class TestNoAlignment:
    @pytest.mark.parametrize("T, targets, needed", [(2, [1, 2, 1], 3), (3, [1, 1, 1], 5), (0, [1], 1), (2, [2, 2], 3)])
    def test_too_few_frames(self, T, targets, needed):
        with pytest.raises(NoAlignment, match=rf"log_probs has T = {T} frames; expected T >= U \+ R = {needed},"):
            ctc_best_path(np.zeros((T, 3)), targets)
        assert ctc.loss(np.zeros((T, 3)), targets) == np.inf

    @every_kind
    @pytest.mark.parametrize("seed", range(30))
    def test_the_frame_that_is_named(self, kind, seed):
        """Every path uses -inf in this frame or before, and some path uses none before it."""
        rng = np.random.default_rng(seed)
        T, V, targets = 5, 3, [1, 2]
        log_probs = np.where(rng.random((T, V) if kind == "ctc" else (T, 3, V)) < 0.6, -np.inf, 0.0)
        paths = alignments(kind, targets, T, V, 0)
        ends = [min([entry[0] for entry in path if log_probs[entry] == -np.inf], default=T) for path in paths]
        if max(ends) == T:
            assert BEST[kind](log_probs, targets).log_mass == 0
            return
        with pytest.raises(NoAlignment) as raised:
            BEST[kind](log_probs, targets)
        frame = int(re.search(r"up to frame t = (\d+);", str(raised.value))[1])
        assert frame == max(ends)

    def test_the_frame_by_which_a_label_would_have_had_to_come(self):
        """Blanks lead on to the end, but label 1, which no frame has, must come by frame 3: label 2 needs one, too."""
        log_probs = np.zeros((5, 3))
        log_probs[:, 1] = -np.inf
        with pytest.raises(NoAlignment, match="finite up to frame t = 3;"):
            ctc_best_path(log_probs, [1, 2])

    def test_it_is_a_value_error(self):
        assert issubclass(NoAlignment, ValueError)
        with pytest.raises(ValueError, match="finite up to frame t = 1; expected one that uses no entry -inf"):
            ctc_best_path(np.array([[0.0, -1.0], [-np.inf, -np.inf], [0.0, 0.0]]), [1])
        with pytest.raises(ValueError, match="finite up to frame t = 0;"):
            rnnt_best_path(np.full((1, 1, 2), -np.inf), [])


def test_no_frames_and_no_labels():
    found = ctc_best_path(np.zeros((0, 2)), [])
    assert isinstance(found, BestPath) and found.log_mass == 0.0
    assert found.path.shape == found.first.shape == found.last.shape == (0,)
    assert rnnt_best_path(np.log([[[0.5, 0.5]]] * 2), []).path.tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("call, error, says", [
    (lambda: ctc_best_path(np.zeros((3, 2)), [0]), ValueError, "targets[0] = 0; expected a label other than blank = 0"),
    (lambda: ctc_best_path(np.zeros((3, 2)), [2]), ValueError, r"targets[0] = 2; expected 0 <= label < V = 2"),
    (lambda: ctc_best_path(np.zeros((3, 2)), [1], blank=2), ValueError, "blank = 2; expected 0 <= blank < V = 2"),
    (lambda: ctc_best_path(np.zeros(3), [1]), ValueError, "log_probs has shape (3,); expected 2 axes (T, V)"),
    (lambda: ctc_best_path(np.zeros((3, 2), int), [1]), TypeError, "log_probs has dtype int64"),
    (lambda: ctc_best_path(np.array([[0, np.nan]]), [1]), ValueError, "log_probs[0, 1] = nan; expected no NaN"),
    (lambda: rnnt_best_path(np.zeros((3, 3, 2)), [1]), ValueError, "log_probs has 3 rows"),
    (lambda: rnnt_best_path(np.zeros((0, 2, 2)), [1]), ValueError, "T = 0; expected T >= 1"),
    (lambda: word_spans([0, 2], [1], [2]), ValueError, "last has shape (1,); expected (2,)"),
])
def test_errors_name_argument_value_and_rule(call, error, says):
    with pytest.raises(error, match=re.escape(says)):
        call()


def test_word_spans():
    first, last = word_spans([0, 2, 5, 6], [1, 4, 5, 9], [1, 3])
    assert first.tolist() == [0, 2] and last.tolist() == [1, 9]
    assert [each.tolist() for each in word_spans([], [], [])] == [[], []]
