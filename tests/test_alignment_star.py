"""Words, stars and words passed over: against all strings of symbols and stars, differences of log Z, and plain CTC."""

import re
from dataclasses import astuple
from itertools import groupby, product
from math import fsum

import numpy as np
import pytest
from implementations import EXACT, random_scores

from reference_impl import ctc, lattice
from reference_impl.alignment import (
    STAR,
    NoAlignment,
    ctc_best_path,
    ctc_run_posteriors,
    star_best_path,
    star_lattice,
    star_posteriors,
    star_scores,
    word_spans,
)
from reference_impl.semiring import COUNT

STAR_SCORE, SKIP_COST = -0.7, 1.1
CASES = [  # T, V, words, gaps in which a star may stand, blank
    (4, 3, [[1], [2]], None, 0), (5, 2, [[1], [1]], None, 0), (4, 3, [[0, 2], [2]], None, 1),
    (4, 2, [[1, 1]], None, 0), (4, 3, [[1], [2], [1]], [True, False, True, False], 0), (3, 2, [], None, 1),
    (1, 3, [[1], [2]], None, 0), (4, 3, [[1], [2]], [False, True, False], 0), (4, 2, [[0]], [False, False], 1),
    (0, 2, [[1]], None, 0), (3, 3, [[1, 2], [2, 1]], None, 0), (5, 2, [[1], [1], [1]], [False, True, True, False], 0),
]
every_case = pytest.mark.parametrize(("T", "V", "words", "gaps", "blank"), CASES)


def reading(string, words, spoken, gaps, blank):
    """First and last frame of each spoken word if these words, in order, can be read in the string; else None.

    Stars and runs of one label are tokens. Between spoken words there may be one star, in the gap after the word that
    was spoken before it, and if words are passed over there, there has to be a frame with a star or a blank.
    """
    tokens, t = [], 0
    for symbol, run in groupby(string):
        length = len(list(run))
        if symbol != blank:
            tokens.append((symbol, t, t + length - 1))
        t += length
    spans, before = [], -1  # the word spoken last
    for w in [*np.flatnonzero(spoken).tolist(), len(words)]:
        if tokens and tokens[0][0] == STAR:
            if not gaps[before + 1]:
                return None
            tokens.pop(0)
        if w == len(words):
            break
        labels = [tokens.pop(0) for _ in words[w] if tokens]
        if [symbol for symbol, _, _ in labels] != words[w]:
            return None
        if before >= 0 and w > before + 1 and labels[0][1] == spans[-1][1] + 1:
            return None
        spans.append((labels[0][1], labels[-1][2]))
        before = w
    return None if tokens else spans


def all_readings(log_probs, words, gaps, blank, star_score, skip_cost):
    """Every string with words that can be read in it: its log mass, symbols, spoken words and their spans."""
    T, V = log_probs.shape
    gaps = [True] * (len(words) + 1) if gaps is None else gaps
    for string in product([*range(V), STAR], repeat=T):
        for spoken in product([False, True], repeat=len(words)):
            spans = reading(string, words, spoken, gaps, blank)
            if spans is not None:
                scores = [star_score if k == STAR else log_probs[t, k] for t, k in enumerate(string)]
                yield fsum([*scores, *[-skip_cost] * spoken.count(False)]), string, spoken, spans


def example(T, V, seed=0):
    return random_scores(np.random.default_rng(100 * T + V + seed), "ctc", T, 1, V).reshape(T, V)


@every_case
def test_against_all_strings(T, V, words, gaps, blank):
    """The best of them, and sums over them: log Z, frames that are star, words spoken, and when."""
    log_probs, prices = example(T, V), {"star_score": STAR_SCORE, "skip_cost": SKIP_COST}
    readings = list(all_readings(log_probs, words, gaps, blank, **prices))
    found = star_best_path(log_probs, words, stars=gaps, blank=blank, **prices)
    best = max(log_mass for log_mass, *_ in readings)
    assert found.log_mass == pytest.approx(best, abs=EXACT)
    ours = tuple(found.symbols), tuple(found.spoken), list(
        zip(found.first[found.spoken], found.last[found.spoken], strict=True))
    # equal words can be exchanged for one another; else there is one best reading
    assert ours in [tuple(rest) for log_mass, *rest in readings if log_mass > best - EXACT]
    assert (found.first[~found.spoken] == -1).all() and (found.last[~found.spoken] == -1).all()

    masses = [np.exp(log_mass) for log_mass, *_ in readings]
    total, star, is_spoken = fsum(masses), np.zeros(T), np.zeros(len(words))
    starts, ends = np.zeros((2, len(words), T))
    for mass, (_, string, spoken, spans) in zip(masses, readings, strict=True):
        star += mass / total * (np.array(string) == STAR)
        is_spoken += mass / total * np.array(spoken, float)
        for w, (first, last) in zip(np.flatnonzero(spoken), spans, strict=True):
            starts[w, first] += mass / total
            ends[w, last] += mass / total
    found = star_posteriors(log_probs, words, stars=gaps, blank=blank, **prices)
    assert found.log_z == pytest.approx(np.log(total), abs=EXACT)
    for ours, theirs in ((found.star, star), (found.spoken, is_spoken), (found.starts, starts), (found.ends, ends)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=EXACT)


@every_case
def test_the_lattice_has_one_path_for_each_reading(T, V, words, gaps, blank):
    readings = list(all_readings(np.zeros((T, V)), words, gaps, blank, STAR_SCORE, SKIP_COST))
    arcs = star_lattice(words, T, V, stars=gaps, blank=blank)
    scores = star_scores(np.zeros((T, V)), star_score=STAR_SCORE, skip_cost=SKIP_COST)
    assert lattice.Z(arcs, arcs.arc_weights(scores, COUNT), semiring=COUNT) == len(readings)


@pytest.mark.parametrize("seed", range(6))
def test_a_larger_size(seed):
    """More words and frames than can be enumerated: what is spoken, passed over and star adds up; some masks."""
    rng = np.random.default_rng(seed)
    T, V, blank = 12, 4, int(rng.integers(4))
    labels = [k for k in range(V) if k != blank]
    words = [rng.choice(labels, int(rng.integers(1, 3))).tolist() for _ in range(5)]
    gaps = rng.random(6) < 0.8
    log_probs = example(T, V, seed)
    log_probs[rng.random((T, V)) < 0.05] = -np.inf
    prices = {"star_score": float(rng.normal() - 1), "skip_cost": float(rng.normal() + 1)}

    def log_z(star_score=0.0, skip_cost=0.0):
        changed = {"star_score": prices["star_score"] + star_score, "skip_cost": prices["skip_cost"] + skip_cost}
        return star_posteriors(log_probs, words, stars=gaps, blank=blank, **changed).log_z

    # log Z has the expected number of star frames as its slope in their score, and minus that of words passed over;
    # the error of the central difference is h^2 times a third derivative of log Z, at most some 12^3 / 6
    found, h = star_posteriors(log_probs, words, stars=gaps, blank=blank, **prices), 1e-5
    by_star = (log_z(star_score=h) - log_z(star_score=-h)) / (2 * h)
    by_cost = (log_z(skip_cost=h) - log_z(skip_cost=-h)) / (2 * h)
    assert found.star.sum() == pytest.approx(by_star, rel=0, abs=1e-7)
    assert found.spoken.sum() - len(words) == pytest.approx(by_cost, rel=0, abs=1e-7)
    np.testing.assert_allclose(found.ends.sum(axis=1), found.spoken, rtol=0, atol=EXACT)

    best = star_best_path(log_probs, words, stars=gaps, blank=blank, **prices)
    scores = [prices["star_score"] if k == STAR else log_probs[t, k] for t, k in enumerate(best.symbols)]
    assert best.log_mass == pytest.approx(sum(scores) - prices["skip_cost"] * (~best.spoken).sum(), rel=0, abs=EXACT)
    assert best.log_mass < found.log_z
    # at a low temperature the posteriors are those of the best path
    cold = {name: 1000 * price for name, price in prices.items()}
    sharp = star_posteriors(1000 * log_probs, words, stars=gaps, blank=blank, **cold)
    assert np.array_equal(sharp.star > 0.5, best.symbols == STAR) and np.array_equal(sharp.spoken > 0.5, best.spoken)


@pytest.mark.parametrize("words", [[[1, 1], [2]], [[1], [2], [2, 1]], [[2]]])
def test_without_stars_and_skips_it_is_ctc(words):
    """The same mass, path and times as for the labels of all words."""
    log_probs, targets = example(8, 3), [label for word in words for label in word]
    prices, lengths = {"star_score": None, "skip_cost": None}, [len(word) for word in words]
    best, theirs = star_best_path(log_probs, words, **prices), ctc_best_path(log_probs, targets)
    assert best.log_mass == theirs.log_mass and best.spoken.all()
    assert best.symbols.tolist() == ctc.extended_targets(targets)[theirs.path].tolist()
    assert np.array_equal([best.label_first, best.label_last], [theirs.first, theirs.last])
    assert np.array_equal([best.first, best.last], word_spans(theirs.first, theirs.last, lengths))
    found, (starts, ends) = star_posteriors(log_probs, words, **prices), ctc_run_posteriors(log_probs, targets)
    assert found.log_z == pytest.approx(-ctc.loss(log_probs, targets), abs=EXACT) and (found.star == 0).all()
    heads, tails = np.cumsum([0, *lengths[:-1]]), np.cumsum(lengths) - 1
    np.testing.assert_allclose(found.starts, starts[heads], rtol=0, atol=EXACT)
    np.testing.assert_allclose(found.ends, ends[tails], rtol=0, atol=EXACT)
    only_stars = star_posteriors(log_probs, words, star_score=-1.0, skip_cost=None)
    assert only_stars.spoken == pytest.approx(np.ones(len(words)), abs=EXACT) and (only_stars.star > 1e-6).any()
    only_skips = star_posteriors(log_probs, words, star_score=None, skip_cost=0.5)
    assert (only_skips.star == 0).all() and (only_skips.spoken < 1 - 1e-6).all()


def test_what_it_is_for():
    """Speech before, between and after the words is star; a word that nobody said is passed over; the others stay."""
    heard = [9, 9, 9, 1, 0, 2, 9, 9, 9, 4, 5, 0, 9, 9]  # 9 is speech that no symbol fits
    log_probs = np.full((len(heard), 6), np.log(0.01))
    for t, symbol in enumerate(heard):
        if symbol < 9:
            log_probs[t, symbol] = np.log(0.9)
    words = [[1, 2], [3], [4, 5]]
    found = star_best_path(log_probs, words, star_score=np.log(0.1), skip_cost=0.5)
    assert found.symbols.tolist() == [k if k < 9 else STAR for k in heard]
    assert found.spoken.tolist() == [True, False, True]
    assert found.first.tolist() == [3, -1, 9] and found.last.tolist() == [5, -1, 10]
    assert found.label_first.tolist() == [3, 5, -1, 9, 10] and found.label_last.tolist() == [3, 5, -1, 9, 10]
    posteriors = star_posteriors(log_probs, words, star_score=np.log(0.1), skip_cost=0.5)
    assert ((posteriors.star > 0.5) == (found.symbols == STAR)).all()
    assert ((posteriors.spoken > 0.5) == found.spoken).all()
    assert posteriors.starts.argmax(axis=1)[found.spoken].tolist() == [3, 9]
    # a dear star and dear words: all have to be said somewhere
    forced = star_best_path(log_probs, words, star_score=-50.0, skip_cost=100.0)
    assert forced.spoken.all() and (forced.symbols != STAR).all()


def test_edges():
    prices = {"star_score": -1.0, "skip_cost": 2.0}
    assert astuple(star_best_path(np.zeros((0, 2)), [[1], [1]], **prices))[0] == -4.0
    nothing = star_posteriors(np.zeros((0, 2)), [], **prices)
    assert nothing.log_z == 0.0 and nothing.starts.shape == (0, 0)
    masked = np.full((3, 2), -np.inf)
    found = star_best_path(masked, [[1]], **prices)
    assert found.symbols.tolist() == [STAR] * 3 and found.log_mass == -5.0 and not found.spoken[0]
    for call in (star_best_path, star_posteriors):
        with pytest.raises(NoAlignment, match="no path through words that is finite in all T = 3 frames"):
            call(masked, [[1]], star_score=None, skip_cost=2.0)
        with pytest.raises(NoAlignment, match="no path through words that is finite in all T = 1 frames"):
            call(np.zeros((1, 3)), [[1], [2]], star_score=-1.0, skip_cost=None)
        with pytest.raises(NoAlignment, match="in all T = 0 frames"):
            call(np.zeros((0, 3)), [[1]], star_score=-1.0, skip_cost=None)


@pytest.mark.parametrize("seed", range(10))
def test_at_ties_one_of_the_best(seed):
    """Small integers: the mass is exactly the best, and the frames and words that are returned have this mass."""
    rng = np.random.default_rng(seed)
    log_probs, words = rng.integers(-2, 1, (5, 3)).astype(float), [[1], [2, 1]]
    prices = {"star_score": -1.0, "skip_cost": 1.0}
    found = star_best_path(log_probs, words, **prices)
    readings = list(all_readings(log_probs, words, None, 0, **prices))
    assert found.log_mass == max(readings)[0]
    spans = list(zip(found.first[found.spoken], found.last[found.spoken], strict=True))
    assert (found.log_mass, tuple(found.symbols), tuple(found.spoken), spans) in readings


@pytest.mark.parametrize("change, error, says", [
    ({"words": [[1], []]}, ValueError, "words[1] = []; expected at least one label in each word"),
    ({"words": [1, 2]}, ValueError, "words[0] has shape (); expected 1 axis (labels,)"),
    ({"skip_cost": np.inf}, ValueError, "skip_cost = inf; expected a finite number, or None"),
    ({"stars": [True]}, ValueError, "stars has shape (1,); expected (2,)"),
    ({"log_probs": np.full((2, 3), np.inf)}, ValueError, "log_probs[0, 0] = inf; expected no NaN and no +inf"),
])
def test_errors_name_argument_value_and_rule(change, error, says):
    arguments = {"log_probs": np.zeros((2, 3)), "words": [[1]], "star_score": -1.0, "skip_cost": 1.0} | change
    for call in (star_best_path, star_posteriors):
        with pytest.raises(error, match=re.escape(says)):
            call(**arguments)
