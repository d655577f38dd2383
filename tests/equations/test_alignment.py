"""Checks of the equations of the chapter on alignment: the runs of all strings, and rows that a walk keeps."""

from fractions import Fraction
from itertools import groupby

import notation
import numpy as np
import pytest
import ranges
from brute_force import CTC_INPUTS, blank_of, ctc_alpha, ctc_beta, ctc_skip, ctc_strings, ctc_z, mass
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = notation.CTC | Notation({
    r"b_{#u}(#t)": "begins[#u, #t]",
    r"\kappa_{#s}": "kappa[#s]",
    r"\gamma_{#t}(#s)": "gamma[#t, #s]",
    r"l_{#u}": "targets[#u]",
})
QUANTITIES = ranges.CTC | Quantities(
    {"begins": "U, T", "gamma": "T, 2 U + 1", "U": "U"},
    {"u = 0": lambda u: u == 0, "u = U - 1": lambda u, U: u == U - 1})
INPUTS = [(y, targets) for y, targets in CTC_INPUTS if targets]
NO_LABEL = {"U = 0": "there is a label u"}


@computed
def begins(y, targets):
    """The share of the strings in which the run of label u begins in frame t, from the runs of every string."""
    found, total = np.full((len(targets), len(y)), Fraction(0), dtype=object), Fraction(0)
    for string in ctc_strings(y, targets):
        total += mass(y, string)
        u = t = 0
        for symbol, run in groupby(string):
            if symbol != blank_of(targets):
                found[u, t] += mass(y, string)
                u += 1
            t += len(list(run))
    return found / total


@pytest.mark.equation("eq-align-begins")
def test_begins():
    """Shares of strings against the two arcs that enter the state of the label."""
    def lhs(begins, alpha, kappa, y, targets, beta, z, u, t, U):
        return begins[u, t]

    def rhs(begins, alpha, kappa, y, targets, beta, z, u, t, U):
        return (alpha[t - 1, 2 * u] + kappa[2 * u + 1] * alpha[t - 1, 2 * u - 1]) * y[t, targets[u]] \
            * beta[t, 2 * u + 1] / z

    check_equation("eq-align-begins", lhs, rhs, (
        (begins(y, targets), zero_outside(ctc_alpha(y, targets)), ctc_skip(targets), y, targets, ctc_beta(y, targets),
         ctc_z(y, targets), u, t, len(targets))
        for y, targets in INPUTS for u in range(len(targets)) for t in range(1, len(y))),
        left_out=NO_LABEL | {end: "for t >= 1: nothing comes before frame 0" for end in ("T = 1", "t = 0")})


def test_begins_in_the_first_frame():
    """There the bracket is 1 for the first label, and 0 for the others."""
    for y, targets in INPUTS:
        found, beta, z = begins(y, targets), ctc_beta(y, targets), ctc_z(y, targets)
        for u in range(len(targets)):
            assert found[u, 0] == (u == 0) * y[0, targets[u]] * beta[0, 2 * u + 1] / z


@pytest.mark.equation("eq-align-begun")
def test_begun():
    """Shares of strings, added up, against the occupancies of the states from the label's on."""
    def lhs(begins, gamma, u, t, U):
        return sum(begins[u, i] for i in range(0, t + 1))

    def rhs(begins, gamma, u, t, U):
        return sum(gamma[t, s] for s in range(2 * u + 1, 2 * U + 1))

    def cases():
        for y, targets in INPUTS:
            gamma = ctc_alpha(y, targets) * ctc_beta(y, targets)
            gamma = gamma / gamma[0].sum()
            for u, t in np.ndindex(len(targets), len(y)):
                yield zero_outside(begins(y, targets), zero=5), zero_outside(gamma, zero=5), u, t, len(targets)

    check_equation("eq-align-begun", lhs, rhs, cases(), left_out=NO_LABEL)
    check_equation("eq-align-begun", rhs, lhs, cases(), left_out=NO_LABEL)


@computed(kind="counting")
def rows_kept(T, K):
    """The most rows of alpha that are kept at a time, counted on the way forward and back."""
    checkpoints = [t for t in range(T) if t % K == 0]  # the row before each block
    most = len(checkpoints)
    while checkpoints:
        start = checkpoints[-1]
        block = range(start, min(start + K, T))  # computed again from the checkpoint, which is still kept
        most = max(most, len(checkpoints) + len(block))
        checkpoints.pop()
    return most


@pytest.mark.equation("eq-align-rows", patterns={"N": "N"})
def test_rows():
    """Rows counted one by one against the formula."""
    def rhs(N, T, K):
        return Fraction(T) / K + K

    check_equation("eq-align-rows", lambda N, T, K: N, rhs, (
        (rows_kept(T, K), T, K) for T in (1, 4, 6, 12, 36) for K in range(1, T + 1) if T % K == 0))


def test_the_best_block_is_the_square_root():
    for root in range(1, 12):
        T = root**2
        kept = {K: rows_kept(T, K) for K in range(1, T + 1) if T % K == 0}
        assert min(kept.values()) == kept[root] == 2 * root
