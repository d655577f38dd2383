"""Posteriors of strings, positions and words, against enumeration of all strings: exact in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from strings_by_enumeration import as_log, ctc_strings, ending_network, fractions, normalised, rnnt_strings

from reference_impl import ctc
from reference_impl.decoding import (
    CTCPrefixScorer,
    RNNTPrefixScorer,
    ctc_beam_search,
    ctc_position_posteriors,
    n_best,
    n_best_posteriors,
    position_posteriors,
    split_words,
    string_posterior,
    word_posteriors,
)
from reference_impl.semiring import MAX, REAL


def test_string_posteriors_of_ctc():
    """A share in the mass of all strings, also where frames do not sum to 1; exp(-loss) where they do."""
    probs = fractions(1, (4, 3))
    masses = ctc_strings(probs, 0)
    scorer = CTCPrefixScorer(probs, semiring=REAL)
    for labels, mass in masses.items():
        assert string_posterior(scorer, labels) == mass / sum(masses.values())
    log_probs = as_log(normalised(2, (4, 3)))
    for labels in masses:
        posterior = string_posterior(CTCPrefixScorer(log_probs), labels)
        assert type(posterior) is float
        assert posterior == pytest.approx(np.exp(-ctc.loss(log_probs, labels)), rel=1e-12)


def test_string_posteriors_of_rnnt():
    row = ending_network(3, 3, 3, 1, longest=2)
    scorer = RNNTPrefixScorer(row, blank=1, semiring=REAL)
    for labels, mass in rnnt_strings(row, 1, 2).items():
        assert string_posterior(scorer, labels) == mass


def test_without_any_string():
    masked = CTCPrefixScorer(np.full((2, 3), -np.inf))
    assert string_posterior(masked, [1]) == 0
    assert ctc_position_posteriors(np.full((2, 3), -np.inf), 2).tolist() == [[0] * 3] * 2
    with pytest.raises(ValueError, match="^semiring = 'max', which has no division"):
        string_posterior(CTCPrefixScorer(np.zeros((2, 3)), semiring=MAX), [1])


@pytest.mark.parametrize("T, V, blank", [(0, 3, 0), (1, 3, 1), (3, 3, 2), (4, 3, 0), (5, 2, 1), (3, 4, 2)])
def test_positions_by_the_sweep_are_enumeration(T, V, blank):
    """Fractions that are not normalised, with zeros; repeats; more positions than any string has, and fewer."""
    probs = fractions([T, V, 8], (T, V))
    masses = ctc_strings(probs, blank)
    total = sum(masses.values())
    for positions in (0, 1, T + 1):
        found = ctc_position_posteriors(probs, positions, blank=blank, semiring=REAL)
        assert found.shape == (positions, V)
        for u, k in np.ndindex(found.shape):
            wanted = sum(mass for labels, mass in masses.items() if labels[u:u + 1] == (k,))
            assert found[u, k] == (wanted / total if total else 0)
        in_floats = ctc_position_posteriors(as_log(probs), positions, blank=blank)
        np.testing.assert_allclose(in_floats, found.astype(float), rtol=1e-12, atol=0)


def test_positions_from_all_strings():
    """A list of all strings gives what the sweep gives, exactly; a shorter list does not."""
    probs = normalised(5, (4, 3))
    strings, masses = zip(*n_best(CTCPrefixScorer(probs, semiring=REAL), n=None), strict=True)
    by_list = position_posteriors(strings, masses, 3)
    by_sweep = ctc_position_posteriors(probs, 4, semiring=REAL)
    assert (by_list == by_sweep).all()
    assert by_list.sum(axis=1).tolist() == [
        sum(mass for string, mass in zip(strings, masses, strict=True) if len(string) > u) for u in range(4)]
    found = ctc_beam_search(as_log(probs), beam=3)
    short = position_posteriors([each.labels for each in found], n_best_posteriors([e.log_mass for e in found]), 3)
    assert np.abs(short - by_sweep[:len(short)].astype(float)).max() > 0.01


def test_positions_of_no_label():
    assert position_posteriors([[]], [1.0], 3).shape == position_posteriors([], [], 3).shape == (0, 3)


def test_n_best_posteriors():
    """Shares of the list, also of masses that no float holds; a temperature flattens them and keeps their order."""
    assert n_best_posteriors(np.log([0.2, 0.1, 0.1])) == pytest.approx([0.5, 0.25, 0.25], rel=1e-12)
    assert n_best_posteriors([-3000.0, -3000.0 + np.log(3)]) == pytest.approx([0.25, 0.75], rel=1e-12)
    assert n_best_posteriors(np.log([0.2, 0.1]), temperature=0.5) == pytest.approx([0.8, 0.2], rel=1e-12)
    assert n_best_posteriors(np.log([0.2, 0.1]), temperature=1e9) == pytest.approx([0.5, 0.5], rel=1e-8)
    probs = normalised(6, (4, 3))
    found = ctc_beam_search(as_log(probs), beam=4)
    posteriors = n_best_posteriors([each.log_mass for each in found])
    for each, posterior in zip(found, posteriors, strict=True):
        assert posterior >= np.exp(each.log_mass)


def test_words():
    """Words in their places; a separator at either end, or two in a row, make no word."""
    assert split_words([], 9) == split_words([9, 9], 9) == []
    assert split_words(np.array([9, 1, 2, 9, 9, 3, 9]), 9) == [(1, 2), (3,)]
    strings = [[1, 9, 2, 2], [1, 9, 2], [3, 9, 2, 2], [1], []]
    posteriors = [Fraction(p, 16) for p in (6, 4, 3, 2, 1)]
    assert word_posteriors(strings, posteriors, 9) == [((1,), Fraction(12, 16)), ((2, 2), Fraction(9, 16))]
    assert word_posteriors([[9], [1]], [0.5, 0.5], 9) == []
    assert word_posteriors([[1, 9, 1], [1]], [0.75, 0.25], 9) == [((1,), 1.0), ((1,), 0.75)]


def test_word_posteriors_from_all_strings_are_enumeration():
    """Label 2 separates; over all strings, the probability of a word in its place is what the model says."""
    probs = normalised(7, (5, 3))
    masses = ctc_strings(probs, 0)
    found = n_best(CTCPrefixScorer(probs, semiring=REAL), n=None)
    for i, (word, posterior) in enumerate(word_posteriors(*zip(*found, strict=True), separator=2)):
        as_text = ["".join(map(str, labels)).split("2") for labels in masses]
        places = [[part for part in text if part] for text in as_text]
        wanted = sum(mass for words, mass in zip(places, masses.values(), strict=True)
                     if len(words) > i and words[i] == "".join(map(str, word)))
        assert posterior == wanted


@pytest.mark.parametrize("call, says", [
    (lambda: n_best_posteriors([]), "N = 0; expected N >= 1"),
    (lambda: n_best_posteriors([0.0, -np.inf]), r"log_masses\[1\] = -inf; expected a finite number"),
    (lambda: n_best_posteriors([0.0], temperature=0.0), "temperature = 0.0; expected a finite number > 0"),
    (lambda: position_posteriors([[1]], [0.5, 0.5], 3), r"posteriors has shape \(2,\); expected \(1,\), one for each"),
    (lambda: word_posteriors([], [], 3), "the number of strings = 0"),
    (lambda: ctc_position_posteriors(np.zeros((2, 3)), -1), "num_positions = -1; expected num_positions >= 0"),
    (lambda: ctc_position_posteriors(np.zeros((2, 3)), 1, semiring=MAX), "semiring = 'max', which has no division"),
    (lambda: ctc_position_posteriors(np.full((2, 3), -2.0), 1, blank=3), "blank = 3; expected 0 <= blank < V = 3"),
])
def test_bad_arguments(call, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        call()
