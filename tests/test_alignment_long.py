"""Alignment of long audio by recomputation: the same as the whole algorithm, ties included, in the predicted memory."""

import re
import tracemalloc
from math import fsum

import numpy as np
import pytest
from enumeration import alignments, probability
from implementations import EXACT, random_scores
from label_spans import states_and_spans

from reference_impl import ctc
from reference_impl.alignment import (
    FrameSource,
    NoAlignment,
    band_around,
    choose_block,
    ctc_best_path,
    ctc_run_posteriors,
    long_ctc_best_path,
    long_ctc_posteriors,
    predicted_bytes,
)


def assert_same(found, whole):
    """Bit by bit."""
    assert found.log_mass == whole.log_mass
    for name in ("path", "first", "last"):
        ours, theirs = getattr(found, name), getattr(whole, name)
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs), name


def problem(rng, T, U, V, blank, scores):
    """Random targets that fit, and scores: real numbers, or small integers, at which most best paths are ties."""
    targets = rng.choice([k for k in range(V) if k != blank], U)
    T = max(T, U + int((targets[1:] == targets[:-1]).sum()))
    log_probs = rng.normal(size=(T, V)) if scores == "real" else rng.integers(-2, 1, (T, V)).astype(float)
    return log_probs, targets


@pytest.mark.parametrize("scores", ["real", "ties"])
@pytest.mark.parametrize("seed", range(25))
def test_every_block_gives_the_path_of_the_whole_algorithm(scores, seed):
    rng = np.random.default_rng(seed)
    T, U, V = int(rng.integers(1, 14)), int(rng.integers(0, 8)), int(rng.integers(2, 5))
    blank = int(rng.integers(V))
    log_probs, targets = problem(rng, T, U, V, blank, scores)
    log_probs[rng.random(log_probs.shape) < 0.03] = -np.inf
    for block in [*range(1, len(log_probs) + 2), None]:
        try:
            whole = ctc_best_path(log_probs, targets, blank=blank)
        except NoAlignment:
            with pytest.raises(NoAlignment, match="up to frame t = "):
                long_ctc_best_path(log_probs, targets, blank=blank, block=block)
        else:
            assert_same(long_ctc_best_path(log_probs, targets, blank=blank, block=block), whole)


@pytest.mark.parametrize("scores", ["real", "ties"])
@pytest.mark.parametrize("block", [37, 256, None])
def test_more_frames_than_are_read_at_a_time(scores, block):
    log_probs, targets = problem(np.random.default_rng(0), 700, 200, 4, 2, scores)
    whole = ctc_best_path(log_probs, targets, blank=2)
    assert_same(long_ctc_best_path(log_probs, targets, blank=2, block=block), whole)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_sources(tmp_path, dtype):
    """A memory map and a function, of short floats, give what the array gives."""
    log_probs, targets = problem(np.random.default_rng(1), 600, 90, 5, 0, "real")
    log_probs = log_probs.astype(dtype)
    whole = ctc_best_path(log_probs, targets)
    np.save(tmp_path / "log_probs.npy", log_probs)
    assert_same(long_ctc_best_path(np.load(tmp_path / "log_probs.npy", mmap_mode="r"), targets), whole)
    asked = []

    def read(start, stop):
        asked.append((start, stop))
        return log_probs[start:stop]

    assert_same(long_ctc_best_path(FrameSource(read, log_probs.shape), targets, block=300), whole)
    assert asked == [(0, 256), (256, 512), (512, 600), (300, 556), (556, 600), (0, 256), (256, 300)]


@pytest.mark.parametrize("seed", range(12))
def test_a_band_is_the_best_of_the_paths_inside(seed):
    """Of all strings those whose states stay inside, 2 * first to 2 * (first + num_labels) in each frame."""
    rng = np.random.default_rng(seed)
    T, V, targets, blank = 7, 3, [1, 2, 2], 0
    log_probs = random_scores(rng, "ctc", T, 3, V)
    first_labels = np.sort(rng.integers(0, 3, T))
    num_labels = int(rng.integers(1, 3))
    inside = []
    for path in alignments("ctc", targets, T, V, blank):
        states = np.array(states_and_spans([k for _, k in path], blank)[0])
        if ((2 * first_labels <= states) & (states <= 2 * (first_labels + num_labels))).all():
            inside.append((fsum(log_probs[entry] for entry in path), path, states))
    band = {"first_labels": first_labels, "num_labels": num_labels}
    for block in (1, 2, 3, None):
        if not inside:
            with pytest.raises(NoAlignment, match="inside the band"):
                long_ctc_best_path(log_probs, targets, block=block, **band)
            with pytest.raises(NoAlignment, match="inside the band"):
                long_ctc_posteriors(log_probs, targets, [0, 1, 2], [0, 1, 2], block=block, **band)
            continue
        log_mass, _, states = max(inside, key=lambda each: each[0])
        found = long_ctc_best_path(log_probs, targets, block=block, **band)
        assert found.log_mass == pytest.approx(log_mass, rel=1e-12) and found.path.tolist() == states.tolist()

        total = fsum(probability(log_probs, path) for _, path, _ in inside)
        occupancy, starts, ends = np.zeros((T, V)), np.zeros((3, T)), np.zeros((3, T))
        for _, path, _ in inside:
            share = probability(log_probs, path) / total
            _, first, last = states_and_spans([k for _, k in path], blank)
            for entry in path:
                occupancy[entry] += share
            for u in range(3):
                starts[u, first[u]] += share
                ends[u, last[u]] += share
        sums = long_ctc_posteriors(log_probs, targets, found.first, found.last, reach=2, block=block, **band)
        assert sums.log_z == pytest.approx(np.log(total), abs=EXACT)
        np.testing.assert_allclose(sums.occupancy, occupancy, rtol=0, atol=EXACT)
        for ours, centres, theirs in ((sums.starts, found.first, starts), (sums.ends, found.last, ends)):
            around = np.pad(theirs, ((0, 0), (2, 2)))
            cut = np.array([row[t:t + 5] for row, t in zip(around, centres, strict=True)])
            np.testing.assert_allclose(ours, cut, rtol=0, atol=EXACT)


def test_a_wide_band_changes_nothing():
    log_probs, targets = problem(np.random.default_rng(2), 300, 80, 4, 0, "ties")
    T, U = len(log_probs), len(targets)
    whole = ctc_best_path(log_probs, targets)
    for first_labels, num_labels in ((np.zeros(T, int), U), (np.zeros(T, int), 2 * U),
                                     (band_around(whole.path // 2, 9, U), 9)):
        assert_same(long_ctc_best_path(log_probs, targets, first_labels=first_labels, num_labels=num_labels), whole)


@pytest.mark.parametrize("block", [1, 7, 300, None])
def test_posteriors_of_the_whole_target(block):
    """Occupancy and log Z of the explicit recursions, beginnings and ends of the whole algorithm."""
    rng = np.random.default_rng(3)
    targets = rng.choice([0, 1, 3], 25)
    log_probs = random_scores(rng, "ctc", 270, 25, 4)
    best = long_ctc_best_path(log_probs, targets, blank=2)
    found = long_ctc_posteriors(log_probs, targets, best.first, best.last, reach=270, blank=2, block=block)
    # log masses of 500 nats are rounded to 1e-13, once a frame
    assert found.log_z == pytest.approx(-ctc.loss(log_probs, targets, blank=2), abs=1e-10)
    np.testing.assert_allclose(found.occupancy, ctc.occupancy(log_probs, targets, blank=2), rtol=0, atol=1e-10)
    for ours, centres, theirs in zip((found.starts, found.ends), (best.first, best.last),
                                     ctc_run_posteriors(log_probs, targets, blank=2), strict=True):
        for row, t, whole in zip(ours, centres, theirs, strict=True):
            np.testing.assert_allclose(row[270 - t:540 - t], whole, rtol=0, atol=1e-10)
            assert row.sum() == pytest.approx(1, abs=1e-10)


def test_edges():
    for T in (0, 1, 5):
        found = long_ctc_best_path(np.zeros((T, 2)), [])
        assert found.path.tolist() == [0] * T and found.log_mass == 0.0 and found.first.shape == (0,)
        sums = long_ctc_posteriors(np.zeros((T, 2)), [], [], [])
        assert sums.occupancy.tolist() == [[1.0, 0.0]] * T and sums.starts.shape == (0, 51)
    assert_same(long_ctc_best_path(np.zeros((1, 2)), [1]), ctc_best_path(np.zeros((1, 2)), [1]))
    assert_same(long_ctc_best_path(np.zeros((3, 2)), [1, 1]), ctc_best_path(np.zeros((3, 2)), [1, 1]))


@pytest.mark.parametrize(("T", "U", "V", "block"), [
    (3000, 1200, 8, None), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in (
        (3000, 1200, 8, 30), (3000, 1200, 8, 1500), (8000, 2000, 32, None), (20000, 20, 4, None)))])
def test_predicted_memory(T, U, V, block):
    """By tracemalloc, but for small objects."""
    rng = np.random.default_rng(0)
    targets = (1 + rng.integers(0, V - 2, U).cumsum() + np.arange(U)) % (V - 1) + 1  # no label repeats
    assert not (targets[1:] == targets[:-1]).any()
    log_probs = rng.normal(size=(T, V)).astype(np.float32)
    tracemalloc.start()
    long_ctc_best_path(log_probs, targets, block=block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    predicted = predicted_bytes(T, U, V, block)
    assert 0.97 * predicted < peak < 1.01 * predicted + 30_000
    assert predicted < 0.3 * T * (2 * U + 1) or U < 100 or block


def test_memory_grows_slower_than_the_lattice():
    """Twice the audio and twice the text: four times the states and frames, and 4^(2/3) = 2.5 times the memory."""
    small, large = predicted_bytes(100_000, 25_000, 32), predicted_bytes(200_000, 50_000, 32)
    assert 2.3 < large / small < 2.7
    assert predicted_bytes(270_000, 65_000, 32) < 1e8 < 270_000 * 131_001 / 300
    block = choose_block(100_000, 25_000, 32)
    assert small == predicted_bytes(100_000, 25_000, 32, block)
    for other in (1, 46, block // 2, 2 * block, 100_000):
        assert predicted_bytes(100_000, 25_000, 32, other) >= small


def test_the_frame_of_an_error():
    log_probs = np.zeros((600, 3))
    log_probs[300] = -np.inf
    with pytest.raises(NoAlignment, match="finite up to frame t = 511;"):
        long_ctc_best_path(log_probs, [1])
    with pytest.raises(NoAlignment, match="finite up to frame t = 599;"):
        long_ctc_posteriors(log_probs, [1], [0], [0])
    log_probs[300] = 0.0
    log_probs[:, 1] = -np.inf
    with pytest.raises(NoAlignment, match="finite up to frame t = 599;"):
        long_ctc_best_path(log_probs, [1])
    with pytest.raises(NoAlignment, match=r"T = 3 frames; expected T >= U \+ R = 4,"):
        long_ctc_best_path(np.zeros((3, 3)), [1, 1, 2])
    with pytest.raises(NoAlignment, match="num_frames = 3; expected num_frames >= num_labels = 4"):
        predicted_bytes(3, 4, 5)


BAND = {"first_labels": [0, 0, 0, 0], "num_labels": 1}


@pytest.mark.parametrize("change, error, says", [
    ({"block": 0}, ValueError, "block = 0; expected block >= 1"),
    ({"targets": [0]}, ValueError, "targets[0] = 0; expected a label other than blank = 0"),
    ({"log_probs": np.zeros((4, 2, 1))}, ValueError, "log_probs has shape (4, 2, 1); expected 2 axes (T, V)"),
    ({"log_probs": np.zeros((4, 2), int)}, TypeError, "log_probs has dtype int64"),
    ({"log_probs": FrameSource(lambda start, stop: np.zeros((1, 2)), (4, 2))}, ValueError,
     "log_probs has shape (1, 2); expected (4, 2)"),
    (BAND | {"num_labels": None}, ValueError, "num_labels = None and first_labels is not None; expected both"),
    (BAND | {"first_labels": None}, ValueError, "num_labels = 1 and first_labels is None; expected both"),
    (BAND | {"num_labels": 0}, ValueError, "num_labels = 0; expected num_labels >= 1"),
    (BAND | {"first_labels": [0, 0]}, ValueError, "first_labels has shape (2,); expected (4,)"),
    (BAND | {"first_labels": [0, 0, 0, 2]}, ValueError, "first_labels[3] = 2; expected 0 <= first_labels <= U = 1"),
])
def test_errors_name_argument_value_and_rule(change, error, says):
    arguments = {"log_probs": np.zeros((4, 2)), "targets": [1]} | change
    with pytest.raises(error, match=re.escape(says)):
        long_ctc_best_path(**arguments)
    with pytest.raises(error, match=re.escape(says)):
        long_ctc_posteriors(**arguments, first=[0], last=[0])


def test_an_error_says_which_frame_holds_nan():
    log_probs = np.zeros((600, 2))
    log_probs[520, 1] = np.nan
    for call in (long_ctc_best_path, lambda *each: long_ctc_posteriors(*each, [0], [0])):
        with pytest.raises(ValueError, match=re.escape("log_probs[520, 1] = nan; expected no NaN")):
            call(log_probs, [1])


def test_band_around():
    assert band_around([0, 2, 1, 5], 3, 6).tolist() == [0, 1, 1, 3]
    assert band_around([0, 2], 9, 3).tolist() == [0, 0] and band_around([], 1, 0).tolist() == []
