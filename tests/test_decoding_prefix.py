"""Prefix scores of CTC and RNN-T, against enumeration of all strings: exact in fractions, and the loss in floats."""

from fractions import Fraction

import numpy as np
import pytest
from strings_by_enumeration import (
    all_labels,
    as_log,
    begins_with,
    ctc_strings,
    ending_network,
    fractions,
    normalised,
    rnnt_strings,
)

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.decoding import CTCPrefixScorer, RNNTPrefixScorer
from reference_impl.semiring import COUNT, MAX, REAL

#: T, V, blank: no frame, one frame, one label, blanks first, between and last; strings with repeats where there is room
CTC_SIZES = [(0, 3, 0), (1, 3, 1), (3, 3, 2), (4, 3, 0), (5, 2, 1), (3, 4, 2)]
#: T, V, blank, and the most labels
RNNT_SIZES = [(1, 3, 1, 3), (3, 3, 2, 3), (4, 2, 0, 3), (2, 4, 3, 2)]


def checked_masses(scorer, masses, labels):
    """Both masses of a prefix, and those of all its extensions, against strings that were enumerated."""
    prefix = scorer.prefix(list(labels))
    assert prefix.labels == labels
    assert prefix.string_mass == masses.get(labels, 0)
    assert prefix.prefix_mass == begins_with(masses, labels)
    extensions = scorer.extension_masses(prefix)
    for k, mass in enumerate(extensions):
        assert mass == (0 if k == scorer.blank else begins_with(masses, (*labels, k)))
        if k != scorer.blank:
            assert scorer.extend(prefix, k).prefix_mass == mass
    return prefix, extensions


@pytest.mark.parametrize("T, V, blank", CTC_SIZES)
def test_ctc_is_enumeration(T, V, blank):
    """Frames that are not normalised, with zeros; prefixes longer than any string."""
    probs = fractions([T, V, blank], (T, V))
    masses = ctc_strings(probs, blank)
    scorer = CTCPrefixScorer(probs, blank=blank, semiring=REAL)
    for labels in all_labels(V, blank, min(T, 3) + 1):
        prefix, extensions = checked_masses(scorer, masses, labels)
        assert prefix.prefix_mass == prefix.string_mass + sum(extensions)


@pytest.mark.parametrize("T, V, blank, longest", RNNT_SIZES)
def test_rnnt_is_enumeration(T, V, blank, longest):
    row = ending_network(7, T, V, blank, longest)
    masses = rnnt_strings(row, blank, longest)
    assert sum(masses.values()) == 1
    scorer = RNNTPrefixScorer(row, blank=blank, semiring=REAL)
    for labels in all_labels(V, blank, longest):
        prefix, extensions = checked_masses(scorer, masses, labels)
        assert prefix.prefix_mass == prefix.string_mass + sum(extensions), "what enters a row leaves it"


@pytest.mark.parametrize("seed", range(5))
def test_logarithms_of_the_same(seed):
    """Float64, masks included, against the fractions; and minus the loss of the whole string."""
    probs = fractions([seed, 9], (5, 3))
    exact = CTCPrefixScorer(probs, blank=1, semiring=REAL)
    scorer = CTCPrefixScorer(as_log(probs), blank=1)
    row = ending_network(seed, 3, 3, 1, 3)
    exact_rnnt = RNNTPrefixScorer(row, blank=1, semiring=REAL)
    log_rnnt = RNNTPrefixScorer(lambda labels: as_log(row(labels)), blank=1)
    for labels in all_labels(3, 1, 3):
        for ours, wanted in ((scorer, exact), (log_rnnt, exact_rnnt)):
            ours, wanted = ours.prefix(labels), wanted.prefix(labels)
            for name in ("string_mass", "prefix_mass"):
                mass = float(getattr(wanted, name))
                assert np.exp(getattr(ours, name)) == pytest.approx(mass, rel=1e-12, abs=0), (labels, name)
        log_probs = np.stack([as_log(row(labels[:u])) for u in range(len(labels) + 1)], axis=1)
        assert -log_rnnt.prefix(labels).string_mass == pytest.approx(rnnt.loss(log_probs, labels, blank=1), rel=1e-12)
        assert -scorer.prefix(labels).string_mass == pytest.approx(ctc.loss(as_log(probs), labels, blank=1), rel=1e-12)


def test_states_are_those_of_the_loss():
    """The two masses of a prefix after n frames are the last two columns of alpha after frame n-1."""
    probs, labels = normalised(3, (5, 3)), [1, 1, 2]
    prefix = CTCPrefixScorer(probs, semiring=REAL).prefix(labels)
    alpha = ctc.alpha(probs, labels, semiring=REAL)
    assert prefix.ends_in_blank[1:].tolist() == alpha[:, -1].tolist()
    assert prefix.ends_in_label[1:].tolist() == alpha[:, -2].tolist()
    rows = normalised(4, (4, 4, 3))
    alpha = rnnt.alpha(rows, labels, semiring=REAL)
    reached = RNNTPrefixScorer(lambda labels: rows[:, len(labels)], semiring=REAL).prefix(labels)
    assert reached.alpha.tolist() == alpha[:, -1].tolist()


def test_best_paths_and_numbers_of_paths():
    """On MAX the mass of a prefix is that of the best path that begins with it, on COUNT the number of paths."""
    probs = fractions(11, (4, 3))
    log_probs, best = as_log(probs), ctc_strings(probs, 0, add=max)
    paths = ctc_strings(np.array([[int(p > 0) for p in row] for row in probs], dtype=object), 0)
    by_max, by_count = (CTCPrefixScorer(log_probs, semiring=semiring) for semiring in (MAX, COUNT))
    for labels in all_labels(3, 0, 3):
        largest = max((mass for string, mass in best.items() if string[:len(labels)] == labels), default=0)
        assert np.exp(by_max.prefix(labels).prefix_mass) == pytest.approx(float(largest), rel=1e-12)
        assert by_count.prefix(labels).prefix_mass == begins_with(paths, labels)
        assert by_count.prefix(labels).string_mass == paths.get(labels, 0)


def test_what_no_path_spells():
    """Two equal labels need three frames; nothing warns, and the empty string keeps its mass."""
    scorer = CTCPrefixScorer(log_softmax(np.zeros((2, 2))))
    assert scorer.prefix([1, 1]).prefix_mass == scorer.prefix([1, 1]).string_mass == -np.inf
    assert (scorer.extension_masses(scorer.prefix([1, 1])) == -np.inf).all()
    masked = CTCPrefixScorer(np.full((2, 3), -np.inf))
    assert masked.start().prefix_mass == masked.start().string_mass == -np.inf
    assert CTCPrefixScorer(np.zeros((0, 3))).start().string_mass == 0.0
    silent = RNNTPrefixScorer(lambda labels: np.full((2, 3), -np.inf))
    assert silent.start().string_mass == silent.prefix([1]).prefix_mass == -np.inf


def test_a_network_that_never_stops():
    """After its first label it writes on for ever: no string that begins so has mass, and the prefix has 1/2 + 1/4."""
    half = Fraction(1, 2)
    scorer = RNNTPrefixScorer(lambda labels: [[0, 1]] * 2 if labels else [[half, half]] * 2, semiring=REAL)
    assert scorer.start().string_mass == Fraction(1, 4)
    for labels in ([1], [1, 1], [1, 1, 1]):
        assert (scorer.prefix(labels).string_mass, scorer.prefix(labels).prefix_mass) == (0, Fraction(3, 4))


def test_the_network_is_asked_once_for_each_prefix():
    asked = []

    def row(labels):
        asked.append(labels)
        return np.log([[0.5, 0.25, 0.25]] * 2)

    scorer = RNNTPrefixScorer(row)
    scorer.extension_masses(scorer.prefix([2, 1]))
    assert asked == [(), (2,), (2, 1)]


def test_arguments_stay_as_they_are():
    log_probs = log_softmax(np.random.default_rng(0).normal(size=(3, 3)))
    before = log_probs.copy()
    scorer = CTCPrefixScorer(log_probs)
    scorer.extension_masses(scorer.prefix([1, 2]))
    walker = RNNTPrefixScorer(lambda labels: log_probs)
    walker.extension_masses(walker.prefix([1, 2]))
    np.testing.assert_array_equal(log_probs, before)


@pytest.mark.parametrize("weights, blank, labels, says", [
    (np.zeros((2, 3, 1)), 0, [], r"weights has shape \(2, 3, 1\); expected 2 axes"),
    (np.array([[0.0, np.nan]]), 0, [], r"weights\[0, 1\] = nan; expected no NaN"),
    (np.log([[0.5, 0.25, 0.25]]), 3, [], "blank = 3; expected 0 <= blank < V = 3"),
    (np.log([[0.5, 0.25, 0.25]]), 0, [1, 3], r"labels\[1\] = 3; expected 0 <= label < V = 3"),
    (np.log([[0.5, 0.25, 0.25]]), 1, [1], r"labels\[0\] = 1; expected a label other than blank = 1"),
])
def test_bad_arguments_of_ctc(weights, blank, labels, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        CTCPrefixScorer(weights, blank=blank).prefix(labels)


@pytest.mark.parametrize("row, labels, says", [
    (np.zeros((2, 3)), [], r"log-sum-exp of row\(\(\)\)\[0\] = 1.09\d+; expected at most 0, as of log-probs"),
    (np.full((1, 2), 800.0), [], r"log-sum-exp of row\(\(\)\)\[0\] = 800.69\d+; expected at most 0"),
    (np.zeros((0, 3)), [], "T = 0; expected T >= 1"),
    (np.array([[0.0, np.nan]]), [], r"row\(\(\)\)\[0, 1\] = nan; expected no NaN"),
    (np.zeros(3), [], r"row\(\(\)\) has shape \(3,\); expected 2 axes \(T, V\)"),
    (np.log([[0.5, 0.5]]), [1, 0], r"labels\[1\] = 0; expected a label other than blank = 0"),
])
def test_bad_arguments_of_rnnt(row, labels, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        RNNTPrefixScorer(lambda labels: row).prefix(labels)


def test_a_float32_softmax_is_not_refused():
    rng = np.random.default_rng(1)
    for _ in range(20):
        logits = rng.normal(size=(4, 500)).astype(np.float32)
        rows = logits - np.log(np.exp(logits).sum(-1, keepdims=True, dtype=np.float32))
        assert rows.dtype == np.float32
        assert RNNTPrefixScorer(lambda labels, rows=rows: rows).start().prefix_mass == 0.0
