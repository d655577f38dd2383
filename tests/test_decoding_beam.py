"""Beam searches without a limit against enumeration of all strings; and what a limit may and may not change."""

import itertools
import re

import numpy as np
import pytest
import torch
from strings_by_enumeration import (
    all_labels,
    as_log,
    ctc_strings,
    ending_network,
    fractions,
    normalised,
    rnnt_strings,
)

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.decoding import (
    SMALLEST_DIFFERENCE,
    CTCPrefixScorer,
    NGramModel,
    RNNTPrefixScorer,
    best_path,
    ctc_beam_search,
    ctc_position_posteriors,
    n_best,
    rnnt_beam_search,
)


def same_strings(found, masses):
    """Each string once, with its mass, in falling order."""
    assert len({each.labels for each in found}) == len(found)
    assert {each.labels for each in found} == {labels for labels, mass in masses.items() if mass}
    for each in found:
        assert np.exp(each.log_mass) == pytest.approx(float(masses[each.labels]), rel=1e-12, abs=0)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@pytest.mark.parametrize("T, V, blank", [(0, 3, 0), (1, 3, 1), (3, 3, 2), (4, 3, 0), (5, 2, 1), (3, 4, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_ctc_without_a_limit_is_enumeration(seed, T, V, blank):
    """Zeros, blanks first and last, repeats; frames that are not normalised."""
    probs = fractions([seed, T, V], (T, V))
    found = ctc_beam_search(as_log(probs), beam=None, blank=blank)
    same_strings(found, ctc_strings(probs, blank))
    assert all(each.score == each.log_mass for each in found)


@pytest.mark.parametrize("T, V, blank", [(1, 3, 1), (3, 3, 2), (4, 2, 0), (2, 3, 0)])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_rnnt_without_a_limit_is_enumeration(most, T, V, blank):
    """Of all paths with at most so many labels in a frame; the rows depend on all labels that were written."""
    row = ending_network(T, T, V, blank, longest=99)
    found = rnnt_beam_search(lambda labels: as_log(row(labels)), beam=None, expansions=most, blank=blank)
    longest = T * most if V == 2 else min(T * most, 4)  # of three symbols there are too many long strings
    masses = rnnt_strings(row, blank, longest, most=most)
    same_strings([each for each in found if len(each.labels) <= longest], masses)
    assert max(len(each.labels) for each in found) == T * most


@pytest.mark.parametrize("seed", range(3))
def test_rnnt_with_enough_labels_is_the_whole_distribution(seed):
    """A network that writes three labels at most: with three expansions a frame nothing is left out."""
    row = ending_network(seed, 3, 3, 1, longest=3)
    found = rnnt_beam_search(lambda labels: as_log(row(labels)), beam=None, expansions=3, blank=1)
    same_strings(found, rnnt_strings(row, 1, 3))
    assert sum(np.exp([each.log_mass for each in found])) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_masses_are_minus_the_losses(seed):
    log_probs = log_softmax(np.random.default_rng(seed).normal(size=(5, 3)))
    for each in ctc_beam_search(log_probs, beam=None)[:10]:
        assert -each.log_mass == pytest.approx(ctc.loss(log_probs, each.labels), rel=1e-12)

    rows = log_softmax(np.random.default_rng(seed).normal(size=(3, 4, 3)))  # rows that know the number of labels
    for each in rnnt_beam_search(lambda labels: rows[:, min(len(labels), 3)], beam=None, expansions=3):
        if len(each.labels) <= 3:
            loss = rnnt.loss(rows[:, :len(each.labels) + 1], each.labels)
            assert -each.log_mass == pytest.approx(loss, rel=1e-12)


@pytest.fixture
def language_model():
    return NGramModel([[1, 2], [2, 1, 1], [1]], num_symbols=3, order=2)


@pytest.mark.parametrize("weight, bonus", [(1.0, 0.0), (0.5, 0.7), (0.0, -1.0)])
def test_the_score_of_a_string(language_model, weight, bonus):
    """The mass as without a language model; the score from the string's probability as a whole, and its length."""
    probs = normalised(8, (4, 3))
    row = ending_network(9, 2, 3, 0, longest=3)
    how = {"beam": None, "language_model": language_model.log_prob, "lm_weight": weight, "length_bonus": bonus}
    for found, masses in (
            (ctc_beam_search(as_log(probs), **how), ctc_strings(probs, 0)),
            (rnnt_beam_search(lambda labels: as_log(row(labels)), expansions=3, **how), rnnt_strings(row, 0, 3))):
        same_strings(found, masses)
        for each in found:
            score = each.log_mass + weight * language_model.string_log_prob(each.labels) + bonus * len(each.labels)
            assert each.score == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("beam", [1, 4, None])
def test_score_and_beam_choose_by_the_language_model(beam):
    """Sound prefers 1 to 2 by a little. A model that has seen only 2 decides otherwise, even in a beam of one."""
    model = NGramModel([[2]] * 20, num_symbols=3, order=1)
    log_probs = np.log([[0.1, 0.45, 0.449], [0.1, 0.45, 0.45]])
    first, others = np.log([[0.1, 0.46, 0.44]]), np.log([[1 - 2e-9, 1e-9, 1e-9]])
    for language_model, best in ((None, (1,)), (model.log_prob, (2,))):
        how = {"beam": beam, "language_model": language_model}
        assert ctc_beam_search(log_probs, **how)[0].labels == best
        assert rnnt_beam_search(lambda labels: others if labels else first, expansions=2, **how)[0].labels == best


def test_prefixes_that_stay_are_ranked_by_their_labels_too():
    """By hand, a beam of one and a bonus of 2. CTC: 1 stays with log 0.9 + 2, and 1 2 would have log 0.1 + 4. RNN-T:
    after a frame, 1 has log 0.4 + 2, and the empty prefix log 0.6."""
    (found,) = ctc_beam_search(as_log([[0.0, 1.0, 0.0], [0.9, 0.0, 0.1]]), beam=1, length_bonus=2.0)
    assert found == ((1,), pytest.approx(np.log(0.9), rel=1e-12), pytest.approx(np.log(0.9) + 2, rel=1e-12))
    (heard,) = rnnt_beam_search(lambda labels: as_log([[1.0, 0.0] if labels else [0.6, 0.4]] * 2), beam=1,
                                expansions=1, length_bonus=2.0)
    assert heard == ((1,), pytest.approx(np.log(0.4), rel=1e-12), pytest.approx(np.log(0.4) + 2, rel=1e-12))


def test_what_a_language_model_forbids_is_not_found():
    """Only strings without a 2 that end after a 1."""
    def language_model(labels):
        with np.errstate(divide="ignore"):
            return np.log([0, 1, 0, 1]) if labels[-1:] == (1,) else np.log([0, 1, 0, 0])

    probs = normalised(5, (4, 3))
    found = ctc_beam_search(as_log(probs), beam=None, language_model=language_model)
    assert {each.labels for each in found} == {(1,), (1, 1)}
    assert all(each.score == each.log_mass for each in found)
    row = ending_network(5, 2, 3, 0, longest=2)
    found = rnnt_beam_search(lambda labels: as_log(row(labels)), beam=None, language_model=language_model)
    assert {each.labels for each in found} == {(1,), (1, 1)}


def test_a_length_bonus_makes_strings_longer():
    log_probs = log_softmax(np.random.default_rng(3).normal(size=(5, 3)))
    lengths = [len(ctc_beam_search(log_probs, beam=None, length_bonus=bonus)[0].labels) for bonus in (-9.0, 0.0, 9.0)]
    assert lengths[0] == 0 < lengths[1] < lengths[2] == 5


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("beam", [1, 2, 5, 20])
def test_a_limit_loses_mass_and_finds_none(beam, seed):
    """No string has more than its mass, and no more strings are returned than the beam holds."""
    probs = normalised([seed, 3], (5, 3))
    masses = ctc_strings(probs, 1)
    found = ctc_beam_search(as_log(probs), beam=beam, blank=1)
    row = ending_network(seed, 3, 3, 1, longest=2)
    of_network = rnnt_strings(row, 1, 2)
    heard = rnnt_beam_search(lambda labels: as_log(row(labels)), beam=beam, blank=1)
    for strings, exact in ((found, masses), (heard, of_network)):
        assert 1 <= len(strings) <= beam
        assert len({each.labels for each in strings}) == len(strings)
        for each in strings:
            assert np.exp(each.log_mass) <= float(exact[each.labels]) * (1 + 1e-12)


def test_a_beam_of_one_prefix_can_lose_the_best_string():
    """After one frame the empty prefix has 2/3, and is all that is kept; of the label's 5/9, it adds 2/9 too late."""
    log_probs = as_log(SMALLEST_DIFFERENCE.probs)
    (found,) = ctc_beam_search(log_probs, beam=1)
    assert found.labels == () and np.exp(found.log_mass) == pytest.approx(4 / 9, rel=1e-12)
    assert ctc_beam_search(log_probs, beam=2)[0].labels == (1,)


def test_a_beam_finds_the_best_strings_of_a_long_utterance():
    """Sixty frames: the list of a beam of 30 begins as the exact one does, with nearly all of the masses."""
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(60, 12)) * 2.5
    logits[:, 0] += 9
    logits[np.arange(5, 60, 12), rng.integers(1, 12, 5)] += 15
    log_probs = log_softmax(logits)
    exact = n_best(CTCPrefixScorer(log_probs), n=3)
    found = ctc_beam_search(log_probs, beam=30)
    assert [each.labels for each in found[:3]] == [labels for labels, _ in exact]
    assert len(exact[0][0]) >= 4
    for each, (_, mass) in zip(found, exact, strict=False):
        assert mass - 0.1 < each.log_mass <= mass + 1e-12


def test_merging_in_ctc_by_hand():
    """Two frames, symbols blank, 1, 2. String 1: (1, blank), (blank, 1), (1, 1); 1 1 needs a third frame."""
    probs = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]])
    found = {each.labels: np.exp(each.log_mass) for each in ctc_beam_search(np.log(probs), beam=None)}
    assert found[1,] == pytest.approx(0.3 * 0.6 + 0.5 * 0.1 + 0.3 * 0.1, rel=1e-12)
    assert found[1, 2] == pytest.approx(0.3 * 0.3, rel=1e-12)
    assert (1, 1) not in found


def test_the_network_is_asked_once_for_each_prefix():
    asked = []

    def row(labels):
        asked.append(labels)
        return np.log([[0.5, 0.3, 0.2]] * 4)

    rnnt_beam_search(row, beam=3)
    assert len(asked) == len(set(asked))


def test_nothing_to_find():
    masked = np.full((3, 3), -np.inf)
    assert ctc_beam_search(masked) == []
    assert ctc_beam_search(masked, beam=None, language_model=lambda labels: np.zeros(4)) == []
    assert rnnt_beam_search(lambda labels: masked) == []
    (found,) = ctc_beam_search(np.zeros((0, 3)))
    assert found == ((), 0.0, 0.0)


def test_arguments_stay_as_they_are():
    log_probs = log_softmax(np.random.default_rng(0).normal(size=(4, 3)))
    scores = np.log([0.25] * 4)
    before = log_probs.copy(), scores.copy()
    for search in (ctc_beam_search, lambda rows, **how: rnnt_beam_search(lambda labels: rows, **how)):
        search(log_probs, language_model=lambda labels: scores, lm_weight=2.0)
    np.testing.assert_array_equal(log_probs, before[0])
    np.testing.assert_array_equal(scores, before[1])


@pytest.mark.parametrize("how, kind, says", [
    ({"beam": 0}, ValueError, "beam = 0; expected beam >= 1"),
    ({"beam": 1.5}, TypeError, "beam = 1.5; expected an integer"),
    ({"blank": 3}, ValueError, "blank = 3; expected 0 <= blank < V = 3"),
    ({"lm_weight": -1.0}, ValueError, "lm_weight = -1.0; expected a finite number >= 0"),
    ({"length_bonus": np.inf}, ValueError, "length_bonus = inf; expected a finite number"),
    ({"language_model": lambda labels: np.zeros(3)}, ValueError,
     r"language_model\(\(\)\) has shape \(3,\); expected \(4,\)"),
    ({"language_model": lambda labels: np.full(4, np.nan)}, ValueError, r"language_model\(\(\)\)\[0\] = nan"),
])
def test_bad_arguments(how, kind, says):
    log_probs = log_softmax(np.zeros((2, 3)))
    with pytest.raises(kind, match=f"^{says}"):
        ctc_beam_search(log_probs, **how)
    with pytest.raises(kind, match=f"^{says}"):
        rnnt_beam_search(lambda labels: log_probs, **how)


def test_bad_arguments_of_one():
    with pytest.raises(ValueError, match=r"^log_probs\[0, 0\] = nan"):
        ctc_beam_search(np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="^expansions = -1; expected expansions >= 0"):
        rnnt_beam_search(lambda labels: log_softmax(np.zeros((2, 3))), expansions=-1)


@pytest.mark.parametrize("call, name", [
    (ctc_beam_search, "log_probs"), (lambda rows: rnnt_beam_search(lambda labels: rows), "row(())"),
    (CTCPrefixScorer, "weights"), (lambda rows: RNNTPrefixScorer(lambda labels: rows).start(), "row(())"),
    (best_path, "weights"), (lambda rows: ctc_position_posteriors(rows, 1), "weights"),
], ids=["ctc", "rnnt", "ctc scorer", "rnnt scorer", "best path", "positions"])
def test_what_is_no_log_probs(call, name):
    """Probabilities, sure and unsure, of one symbol and of many, and logits raise; log-probs of any type do not."""
    logits = 3 * np.random.default_rng(0).normal(size=(4, 50))
    for rows in (np.exp(log_softmax(logits)), np.full((4, 2), 0.5), np.eye(3)[[0, 1, 2, 0]], np.ones((1, 1)), logits):
        t = np.logaddexp.reduce(rows, axis=1).argmax()
        with pytest.raises(ValueError, match=re.escape(f"log-sum-exp of {name}[{t}] = ") + ".*; expected at most 0"):
            call(rows)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        rounded = torch.tensor(logits).to(dtype).log_softmax(-1)
        call(rounded.float().numpy() if dtype == torch.bfloat16 else rounded.numpy())
    call(log_softmax(logits) - 5.0)


def test_every_string_is_there():
    """Without zeros the unlimited beams hold every string that fits, and no other."""
    found = ctc_beam_search(log_softmax(np.zeros((3, 3))), beam=None)
    fits = [labels for labels in all_labels(3, 0, 3)
            if len(labels) + sum(a == b for a, b in itertools.pairwise(labels)) <= 3]
    assert sorted(each.labels for each in found) == sorted(fits)
