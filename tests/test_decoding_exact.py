"""Best strings by best-first search, against enumeration of all strings; and where the best path is another one."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from strings_by_enumeration import as_log, ctc_strings, ending_network, fractions, normalised, rnnt_strings

from reference_impl import log_softmax
from reference_impl.decoding import (
    SMALLEST_DIFFERENCE,
    CTCPrefixScorer,
    RNNTPrefixScorer,
    SearchLimitReached,
    best_path,
    greedy_decode,
    n_best,
)
from reference_impl.semiring import MAX, REAL


def ranked(masses):
    return sorted((mass for mass in masses.values() if mass), reverse=True)


@pytest.mark.parametrize("T, V, blank", [(0, 2, 0), (1, 3, 1), (3, 3, 2), (4, 3, 0), (5, 2, 1)])
def test_all_strings_of_ctc_in_their_order(T, V, blank):
    probs = fractions([1, T, V], (T, V))
    masses = ctc_strings(probs, blank)
    found = n_best(CTCPrefixScorer(probs, blank=blank, semiring=REAL), n=None)
    assert [mass for _, mass in found] == ranked(masses)
    assert dict(found) == {labels: mass for labels, mass in masses.items() if mass}


@pytest.mark.parametrize("T, V, blank, longest", [(1, 3, 1, 3), (3, 3, 2, 3), (4, 2, 0, 3)])
def test_all_strings_of_rnnt_in_their_order(T, V, blank, longest):
    row = ending_network(2, T, V, blank, longest)
    masses = rnnt_strings(row, blank, longest)
    found = n_best(RNNTPrefixScorer(row, blank=blank, semiring=REAL), n=None)
    assert [mass for _, mass in found] == ranked(masses)
    assert dict(found) == masses


@pytest.mark.parametrize("seed", range(10))
def test_the_first_few_in_logarithms(seed):
    probs = normalised([seed, 5], (5, 3))
    found = n_best(CTCPrefixScorer(as_log(probs)), n=4)
    masses = ctc_strings(probs, 0)
    wanted = sorted(masses, key=masses.get, reverse=True)[:4]
    assert [labels for labels, _ in found] == wanted
    assert np.exp([mass for _, mass in found]) == pytest.approx([float(masses[labels]) for labels in wanted], rel=1e-12)
    assert all(type(mass) is float for _, mass in found)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_path_three_times(seed):
    """By enumeration of all paths, frame by frame, and as the best string on MAX."""
    blank = seed % 3
    logits = np.random.default_rng(seed).normal(size=(5, 3))
    log_probs = log_softmax(logits)
    masses = ctc_strings(np.exp(log_probs), blank, add=max)
    labels, mass = best_path(log_probs, blank=blank)
    assert labels == max(masses, key=masses.get)
    assert np.exp(mass) == pytest.approx(masses[labels], rel=1e-12)
    assert greedy_decode(logits[None], [5], blank=blank) == [list(labels)]
    (by_search,) = n_best(CTCPrefixScorer(log_probs, blank=blank, semiring=MAX))
    assert by_search == (labels, pytest.approx(mass, rel=1e-12))


def test_repeats_in_the_best_path():
    """A label is read again after a blank, and once in a run. Without frames there is one path, the empty one."""
    one_hot = np.eye(3)[[1, 1, 0, 1, 2, 2, 0]]
    assert best_path(as_log(one_hot)) == ((1, 1, 2), 0.0)
    assert best_path(as_log(one_hot), blank=2) == ((1, 0, 1, 0), 0.0)
    assert best_path(np.zeros((0, 3))) == ((), 0.0)


def differences(T, V, denominator):
    """Tables of probabilities, all multiples of 1/denominator, whose one best path is not of a best string."""
    frames = [frame for frame in itertools.product(range(denominator + 1), repeat=V) if sum(frame) == denominator]
    for table in itertools.product(frames, repeat=T):
        best_of_frames = [sorted(frame)[-2:] for frame in table]
        if any(first == second for first, second in best_of_frames):
            continue  # more than one best path
        masses = ctc_strings(np.array(table, dtype=object).reshape(T, V), 0)
        paths = ctc_strings(np.array(table, dtype=object).reshape(T, V), 0, add=max)
        if masses[max(paths, key=paths.get)] < max(masses.values()):
            yield table


def test_the_smallest_difference():
    """None in one frame, none in halves; with two frames, two symbols and thirds exactly this one."""
    smaller = [(1, V, d) for V in (2, 3) for d in range(1, 7)] + [(T, 2, d) for T in (2, 3, 4) for d in (1, 2)]
    assert [found for size in smaller for found in differences(*size)] == []
    assert [*differences(2, 2, 3)] == [tuple(map(tuple, SMALLEST_DIFFERENCE.weights.tolist()))]
    probs = SMALLEST_DIFFERENCE.probs
    assert best_path(probs, semiring=REAL) == ((), Fraction(4, 9))
    assert n_best(CTCPrefixScorer(probs, semiring=REAL)) == [((1,), Fraction(5, 9))]
    assert SMALLEST_DIFFERENCE.targets == [1]


def test_fewer_strings_than_wanted():
    certain = CTCPrefixScorer(as_log(np.eye(3)[[1, 0, 1]]))
    assert n_best(certain, n=5) == [((1, 1), 0.0)]
    assert n_best(CTCPrefixScorer(np.full((2, 3), -np.inf)), n=5) == []


def test_a_sure_network_needs_few_prefixes():
    """The empty one, and one for each label that is written."""
    log_probs = log_softmax(np.eye(30)[np.repeat([0, 3, 0, 3, 7, 0], 10)] * 20)
    scorer = CTCPrefixScorer(log_probs)
    extended = []
    scorer.extend = lambda prefix, label: extended.append(label) or CTCPrefixScorer.extend(scorer, prefix, label)
    (found,) = n_best(scorer, max_expansions=4)
    assert found[0] == (3, 3, 7)
    assert extended == [3, 3, 7]


def test_the_limit():
    scorer = CTCPrefixScorer(log_softmax(np.zeros((6, 4))))
    with pytest.raises(SearchLimitReached) as raised:
        n_best(scorer, max_expansions=20)
    message = str(raised.value)
    masses = ctc_strings(np.full((6, 4), Fraction(1, 4)), 0)
    assert message.startswith("max_expansions = 20 prefixes were extended; the best string that is left is (")
    assert message.endswith("raise max_expansions, or use a beam search")
    labels = tuple(map(int, message.split(" left is (")[1].split(")")[0].replace(" ", "").strip(",").split(",")))
    log_mass = float(message.split("with mass ")[1].split(",")[0])
    assert np.exp(log_mass) == pytest.approx(float(masses[labels]), rel=1e-12)
    with pytest.raises(SearchLimitReached, match="; no string has been found, and those that begin with "):
        n_best(RNNTPrefixScorer(lambda labels: as_log([[0, 1]])), max_expansions=3)


@pytest.mark.parametrize("how, says", [
    ({"n": 0}, "n = 0; expected n >= 1"), ({"max_expansions": 0}, "max_expansions = 0; expected max_expansions >= 1"),
])
def test_bad_limits(how, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        n_best(CTCPrefixScorer(log_softmax(np.zeros((2, 3)))), **how)


def test_bad_arguments_of_best_path():
    with pytest.raises(ValueError, match="^blank = 3; expected 0 <= blank < V = 3"):
        best_path(log_softmax(np.zeros((2, 3))), blank=3)
    with pytest.raises(ValueError, match=r"^weights\[0, 0\] = nan"):
        best_path(np.full((1, 3), np.nan))
