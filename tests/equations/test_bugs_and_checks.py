"""The equations of the chapter "Which check sees which bug", each executed against an independent computation, exactly.
"""

from fractions import Fraction

import numpy as np
import pytest
import ranges
from brute_force import (
    CTC_INPUTS,
    RNNT_INPUTS,
    ctc_strings,
    ctc_z,
    grad_logit,
    mass,
    rnnt_z_of_rows,
    slope_at,
)
from sides import first
from tex_to_python import Notation

from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

#: Where r = e^tau is for tau = 0.
ONE = np.array([Fraction(1)], dtype=object)

#: What an array reads as outside its bounds, so that neither a shifted index nor a shifted bound stays unnoticed.
OUTSIDE = 99

NOTATION = Notation(patterns={}, over={"i": "range(n)"})

QUANTITIES = ranges.CTC | Quantities(
    shapes={"direction": "n", "gradient": "n", "n": "n"},
    ends={
        "i = j": lambda i, j: i == j,
        "equal factors": lambda c, i, j: i != j and c[i] == c[j],
    },
)


@computed
def covariances(y, targets):
    """Of every two entries among the strings that collapse to the targets: does a string use them?"""
    uses, masses = [], []
    for string in ctc_strings(y, targets):
        uses.append(np.eye(y.shape[1], dtype=int)[list(string)].ravel())
        masses.append(mass(y, string))
    uses, shares = np.array(uses), np.array(masses, dtype=object) / sum(masses)
    mean = shares @ uses
    return uses.T @ (shares[:, None] * uses) - np.outer(mean, mean)


@pytest.mark.equation("eq-check-asymmetry", patterns={
    r"\frac{\partial v_{#i}}{\partial \log y_{#j}}": "jacobian[#i, #j]",
    r"\operatorname{Cov}(N_{#i}, N_{#j})": "covariance[#i, #j]"})
def test_asymmetry():
    """sympy: slopes of occupancies with a factor on each entry against covariances over the enumerated strings."""
    def lhs(jacobian, covariance, c, i, j):
        return jacobian[i, j] - jacobian[j, i]

    def rhs(jacobian, covariance, c, i, j):
        return (c[j] - c[i]) * covariance[i, j]

    def cases():
        for seed, (y, targets) in enumerate(CTC_INPUTS):
            rng, entries = np.random.default_rng(seed), list(np.ndindex(y.shape))
            c = [int(factor) for factor in rng.integers(-4, 5, len(entries))]
            pairs = [(0, 0), (0, len(entries) - 1), *rng.integers(len(entries), size=(3, 2)).tolist()]
            jacobian = {}
            for i, j in [*pairs, *(pair[::-1] for pair in pairs)]:
                def field(y, targets=targets, entry=entries[i], factor=c[i]):  # -c E, where E = y / Z dZ/dy
                    using = y[entry] * exact_difference(lambda y: ctc_z(y, targets), y, entry, h=1)
                    return -factor * using / ctc_z(y, targets)

                jacobian[i, j] = y[entries[j]] * slope_at(field, y, *entries[j])  # d/d log y = y d/dy
            for i, j in pairs:
                yield jacobian, covariances(y, targets), c, i, j

    check_equation("eq-check-asymmetry", lhs, rhs, cases())


def losses():
    """Z of CTC and of RNN-T as functions of normalised rows, and exponentials of logits."""
    for x, targets in CTC_INPUTS:
        yield lambda y, targets=targets: ctc_z(y, targets), x
    for x, targets in RNNT_INPUTS:
        yield lambda y, targets=targets: rnnt_z_of_rows(y, targets), x.reshape(-1, x.shape[-1])


@pytest.mark.equation("eq-check-directional", patterns={
    r"\frac{\mathrm d}{\mathrm d\tau} f(z + \tau \nu) |_{\tau=0}": "slope", "g_{#i}": "gradient[#i]",
    r"\nu_{#i}": "direction[#i]"})
def test_directional():
    """sympy: the slope of the loss along a line through the logits against those in each logit. With r = e^tau the line
    is x r^d, and d/dtau is d/dr at r = 1."""
    def rhs(slope, gradient, direction, n):
        return sum(gradient[i] * direction[i] for i in range(0, n))

    def cases():
        for seed, (z, x) in enumerate(losses()):
            d = [int(n) for n in np.random.default_rng(seed).integers(-2, 3, x.size)]

            def along(r, z=z, x=x, d=d):
                return z(softmax(x * np.array([r[0]**n for n in d]).reshape(x.shape)))

            slope = -slope_at(along, ONE, 0) / along(ONE)
            gradient = [grad_logit(z, x, *index) for index in np.ndindex(x.shape)]
            yield slope, zero_outside(gradient, OUTSIDE), zero_outside(d, OUTSIDE), x.size

    check_equation("eq-check-directional", first, rhs, cases())
