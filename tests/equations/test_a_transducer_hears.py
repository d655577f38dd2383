"""Checks of the equation of the chapter in which a transducer hears: means over enumerated paths against posteriors."""

from fractions import Fraction

import notation
import pytest
import ranges
from brute_force import RNNT_INPUTS, blank_of, rnnt_arcs_of_nodes, rnnt_mass, rnnt_paths, rnnt_z
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = notation.RNNT | Notation({r"\mathbb E[\, D_i \,]": "mean", "u_i": "last", r"\omega_i": "end"})
QUANTITIES = ranges.RNNT | Quantities(ends={
    "the word's last letter the first of all": lambda last: last == 0,
    "the word's last letter the last of all": lambda last, U: last == U - 1,
    "late": lambda mean: mean > 0,
    "early": lambda mean: mean < 0,
})


@computed
def mean_delay(y, labels, last, F, end):
    """Over all paths, each with its share of Z: the end of the frame of one label, in seconds, minus the word's end."""
    total = 0
    for path in rnnt_paths(y, labels):
        (frame,) = (t for t, u, k in path if u == last and k != blank_of(labels))
        total += rnnt_mass(y, path) * ((frame + 1) * F - end)
    return total / rnnt_z(y, labels)


@pytest.mark.equation("eq-hears-expected-delay")
def test_expected_delay():
    """For each label of each target, for words that end early and late; frames of different lengths."""
    def rhs(mean, e_label, last, F, end, T, U):
        return (1 + sum(t * e_label[t, last] for t in range(0, T))) * F - end

    def cases():
        for y, labels in RNNT_INPUTS:
            e_label = rnnt_arcs_of_nodes(y, labels)[1]
            for last in range(len(labels)):
                for F, end in ((Fraction(1, 50), Fraction(1, 30)), (Fraction(3, 2), Fraction(1, 3)), (1, 2)):
                    yield (mean_delay(y, labels, last, F, end), zero_outside(e_label, zero=None), last, F, end, len(y),
                           len(labels))

    check_equation("eq-hears-expected-delay", first, rhs, cases(), left_out={"U = 0": "a word has a last letter"},
                   equivalent={"shift bound: range(0, T) -> range(0 + 1, T)": "frame 0 adds 0 to a mean frame"})
