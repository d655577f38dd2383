"""Checks of the equations of the chapter on several processes, in fractions: losses dealt out, and all in one place."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = Notation({r"\mu^\star": "averaged", r"\mu": "mean", r"\Lambda_{#p}": "sums[#p]", "n_{#p}": "n[#p]"})
QUANTITIES = Quantities(
    {"sums": "P", "n": "P", "P": "P"},
    {"P = 1": lambda P: P == 1,
     "all counts equal": lambda n, P: P > 1 and len(set(n)) == 1,
     "no two counts equal": lambda n, P: P > 1 and len(set(n)) == P,
     "all means equal": lambda n, sums, P: P > 1 and len(
         {s / c for s, c in zip(getattr(sums, "array", sums), n, strict=True)}) == 1})

# counts of one to four processes; a loss for each utterance is made of its place
COUNTS = [(3,), (1, 3), (2, 2), (4, 1, 2), (3, 3, 3), (1, 5, 2, 4), (2, 1, 2, 7)]


def dealt_out(counts, alike=False):
    """Losses of each process; alike: all are the same number, so all means are."""
    places = itertools.count(1)
    return [[Fraction(5, 3) if alike else Fraction(next(places) ** 2 % 11 + 1, 1 + p) for _ in range(count)]
            for p, count in enumerate(counts)]


@computed(kind="enumeration")
def mean_of_all(losses):
    """Every loss in one list."""
    together = [each for own in losses for each in own]
    return sum(together) / len(together)


@computed(kind="enumeration")
def average_of_means(losses):
    """Each process its own mean, then their average."""
    means = [sum(own) / len(own) for own in losses]
    return sum(means) / len(means)


@computed(kind="enumeration")
def after_averaging(losses):
    """Each process passes its sum times P / N back, and what they pass back is averaged, as DDP does."""
    passed = [sum(own) * Fraction(len(losses), sum(map(len, losses))) for own in losses]
    return sum(passed) / len(passed)


def cases():
    for counts, alike in [*((each, False) for each in COUNTS), ((1, 3), True)]:
        losses = dealt_out(counts, alike)
        yield losses, [sum(own) for own in losses], list(counts), Fraction(sum(counts)), len(counts)


@pytest.mark.equation("eq-scale-bias")
def test_bias():
    """Two ways to average the same losses, against sums and counts."""
    def lhs(averaged, mean, sums, n, N, P):
        return averaged - mean

    def rhs(averaged, mean, sums, n, N, P):
        return sum((1 / Fraction(P) - n[p] / N) * (sums[p] / n[p]) for p in range(P))

    check_equation("eq-scale-bias", lhs, rhs, (
        (average_of_means(losses), mean_of_all(losses), sums, n, N, P) for losses, sums, n, N, P in cases()))


@pytest.mark.equation("eq-scale-covariance")
def test_covariance():
    """The same difference as minus a covariance."""
    def lhs(averaged, mean, sums, n, N, P):
        return averaged - mean

    def rhs(averaged, mean, sums, n, N, P):
        return -(1 / N) * sum((n[p] - N / Fraction(P)) * (sums[p] / n[p] - averaged) for p in range(P))

    one_is_enough = "one centred factor is enough: whatever multiplies the centre of the other adds up to 0"
    check_equation("eq-scale-covariance", lhs, rhs, (
        (average_of_means(losses), mean_of_all(losses), sums, n, N, P) for losses, sums, n, N, P in cases()),
        equivalent=dict.fromkeys([
            "drop term: n[p] - N / Fraction(P) -> n[p]", "flip sign: n[p] - N / Fraction(P) -> n[p] + N / Fraction(P)",
            "drop term: sums[p] / n[p] - averaged -> sums[p] / n[p]",
            "flip sign: sums[p] / n[p] - averaged -> sums[p] / n[p] + averaged",
            "drop factor: N / Fraction(P) -> N", "drop factor: N / Fraction(P) -> 1 / Fraction(P)"], one_is_enough))


@pytest.mark.equation("eq-scale-mended")
def test_mended():
    """What is passed back and averaged, against the mean of all."""
    def rhs(mean, sums, n, N, P):
        return 1 / Fraction(P) * sum(P / N * sums[p] for p in range(P))

    check_equation("eq-scale-mended", first, rhs, (
        (mean_of_all(losses), zero_outside(np.array(sums, dtype=object)), n, N, P)
        for losses, sums, n, N, P in cases()),
        equivalent={"shift bound: range(P) -> range(P + 1)": "a process that is none has no losses"})
