"""Checks of the equations of the chapter on the CTC gradient. The left sides come from strings, not from recursions."""

from fractions import Fraction
from math import prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import CTC_INPUTS as INPUTS
from brute_force import (
    ctc_alpha,
    ctc_beta,
    ctc_beta_2006,
    ctc_emissions,
    ctc_grad_probs,
    ctc_occupancy,
    ctc_occupancy_of_nodes,
    ctc_skip,
    ctc_strings,
    ctc_z,
    each_entry,
    extended,
    grad_logit,
    mass,
    slope,
    slope_at,
    slopes_in_logs,
    stands_in,
    states,
)
from exact_logarithms import Log as log
from exact_logarithms import exp
from sides import first

from reference_impl import ctc, log_softmax
from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, softmax

NOTATION = notation.CTC
QUANTITIES = ranges.CTC
MEANINGS = {"exp": exp, "log": log}

# frames and targets of the cases in which sympy differentiates with respect to every score
BY_SYMPY = [(2, [1]), (3, [1, 2]), (3, [1, 1]), (2, [])]


def _grad_probs(y, targets):
    """dZ/dy of every entry by exact differences."""
    return each_entry(y.shape, lambda *entry: ctc_grad_probs(y, targets, *entry))


def _entries():
    for y, targets in INPUTS:
        alpha, beta, z = ctc_alpha(y, targets), ctc_beta(y, targets), ctc_z(y, targets)
        for t, k in np.ndindex(y.shape):
            yield ctc_grad_probs(y, targets, t, k), alpha, beta, extended(targets), z, y, t, k, 2 * len(targets) + 1


@pytest.mark.equation("eq-ctc-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over strings against the masses of the nodes that emit k, divided by y."""
    def rhs(grad_probs, alpha, beta, labels, z, y, t, k, S):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k) / y[t, k]

    check_equation("eq-ctc-grad-probs", first, rhs, _entries())


@pytest.mark.equation("eq-ctc-grad-probs-no-division")
def test_grad_probs_no_division():
    """The same without dividing by y, also where y is 0."""
    def rhs(grad_probs, alpha, beta, labels, kappa, t, k, S):
        return sum((alpha[t - 1, s] + alpha[t - 1, s - 1] + kappa[s] * alpha[t - 1, s - 2]) * beta[t, s]
                   for s in range(0, S) if labels[s] == k)

    cases = []
    for y, targets in INPUTS:
        for t, k in np.ndindex(y.shape):
            with_zero = y.copy()
            with_zero[t, k] = Fraction(0)
            alpha, S = zero_outside(ctc_alpha(with_zero, targets)), 2 * len(targets) + 1
            if t >= 1:
                cases.append((ctc_grad_probs(with_zero, targets, t, k), alpha, ctc_beta(with_zero, targets),
                              extended(targets), ctc_skip(targets), t, k, S))
    below = {"shift bound: range(0, S) -> range(0 - 1, S)": "state -1 adds 0: alpha reads as 0 outside the lattice"}
    check_equation("eq-ctc-grad-probs-no-division", first, rhs, cases, equivalent=below,
                   left_out={end: "for t >= 1: nothing arrives at frame 0" for end in ("T = 1", "t = 0")})


def test_grad_probs_in_the_first_frame():
    """There the bracket is 1 in the two states in which a path may begin, also where y is 0."""
    for y, targets in INPUTS:
        for k in range(y.shape[1]):
            with_zero = y.copy()
            with_zero[0, k] = Fraction(0)
            beta, labels = ctc_beta(with_zero, targets), extended(targets)
            suffixes = [beta[0, s] for s in range(len(labels)) if s <= 1 and labels[s] == k]
            assert ctc_grad_probs(with_zero, targets, 0, k) == sum(suffixes)


@pytest.mark.equation("eq-ctc-chain", patterns={
    r"\frac{\partial \log Z}{\partial \log y_t(k)}": "slope",
    r"\frac{\partial Z}{\partial y_t(k)}": "grad_probs[t, k]"})
def test_chain():
    """sympy: log of the sum over strings with y = e^v, differentiated with respect to v, against y / Z dZ/dy."""
    def rhs(slope, grad_probs, z, y, t, k):
        return y[t, k] / z * grad_probs[t, k]

    def cases():
        for y, targets in INPUTS:
            slopes = -_slopes(y, targets)
            grad_probs, z = _grad_probs(y, targets), ctc_z(y, targets)
            for t, k in np.ndindex(y.shape):
                yield slopes[t, k], zero_outside(grad_probs), z, zero_outside(y), t, k

    check_equation("eq-ctc-chain", first, rhs, cases())


def _slopes(y, targets):
    """dL / d log y of every entry, by sympy."""
    return slopes_in_logs(y, [list(enumerate(string)) for string in ctc_strings(y, targets)])


@pytest.mark.equation("eq-ctc-grad-log-probs", patterns={r"\frac{\partial L}{\partial \log y_t(k)}": "slope"})
def test_grad_log_probs():
    """sympy: -log of the sum over strings with y = e^v, differentiated, against minus the occupancy of alpha, beta."""
    def rhs(slope, occupancy, t, k):
        return -occupancy[t, k]

    check_equation("eq-ctc-grad-log-probs", first, rhs, (
        (slopes[t, k], ctc_occupancy_of_nodes(y, targets), t, k)
        for y, targets in INPUTS for slopes in [_slopes(y, targets)] for t, k in np.ndindex(y.shape)))


@pytest.mark.equation("eq-ctc-expectation", patterns={
    r"w(\pi)": "mass(y, pi)", r"\pi_t": "pi[t]"}, over={r"\pi : \mathcal B(\pi) = l": "for pi in strings"})
def test_expectation():
    """The occupancy from alpha and beta against the probability of k in frame t among the strings."""
    def lhs(occupancy, strings, z, y, t, k):
        return occupancy[t, k]

    def rhs(occupancy, strings, z, y, t, k):
        return sum(mass(y, string) / z * (string[t] == k) for string in strings)

    check_equation("eq-ctc-expectation", lhs, rhs, (
        (ctc_occupancy_of_nodes(y, targets), ctc_strings(y, targets), ctc_z(y, targets), y, t, k)
        for y, targets in INPUTS for t, k in np.ndindex(y.shape)))


@pytest.mark.equation("eq-ctc-occupancy-sum")
def test_occupancy_sum():
    """alpha beta, over Z of the strings, adds up to 1 in each frame."""
    def rhs(occupancy, t, V):
        return sum(occupancy[t, k] for k in range(0, V))

    cases = [(zero_outside(ctc_emissions(y, targets) / ctc_z(y, targets), zero=5), t, y.shape[1])
             for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-occupancy-sum", lambda occupancy, t, V: 1, rhs, cases)


@pytest.mark.equation("eq-ctc-shared", patterns={r"\Pr(e)": "posterior[t, r, s]"}, over={
    r"\substack{e : (t-1, i) \to (t, s) \\ l'_s = k}": "for s in range(S) for r in range(S) if labels[s] == k"})
def test_shared():
    """The occupancy from alpha and beta against the shares of strings that use each arc into frame t with symbol k."""
    def rhs(occupancy, posterior, labels, t, k, S):
        return sum(posterior[t, r, s] for s in range(0, S) for r in range(0, S) if labels[s] == k)

    cases = []
    for y, targets in INPUTS:
        T, S, z = len(y), 2 * len(targets) + 1, ctc_z(y, targets)
        posterior = np.full((T, S, S), Fraction(0), dtype=object)
        for string in ctc_strings(y, targets):
            for t, r, s in np.ndindex(T, S, S):
                if t >= 1 and stands_in(string, t - 1, r, targets) and stands_in(string, t, s, targets):
                    posterior[t, r, s] += mass(y, string) / z
        occupancy = ctc_occupancy_of_nodes(y, targets)
        cases += [(occupancy, zero_outside(posterior, zero=5), extended(targets), t, k, S)
                  for t in range(1, T) for k in range(y.shape[1])]
    check_equation("eq-ctc-shared", lambda occupancy, posterior, labels, t, k, S: occupancy[t, k], rhs, cases,
                   left_out={end: "for t >= 1: no arc leads to frame 0" for end in ("T = 1", "t = 0")})


def test_shared_in_the_first_frame():
    """There the arcs come from the start, and have the posteriors of the states in which a path may begin."""
    for y, targets in INPUTS:
        posteriors = ctc_alpha(y, targets)[0] * ctc_beta(y, targets)[0] / ctc_z(y, targets)
        for k in range(y.shape[1]):
            arcs = [posteriors[s] for s, label in enumerate(extended(targets)) if s <= 1 and label == k]
            assert ctc_occupancy(y, targets)[0, k] == sum(arcs)


@pytest.mark.equation("eq-ctc-log-softmax", patterns={
    r"\frac{\partial \log y_t(j)}{\partial z_t(k)}": "x[t, k] * slope(y[t, j], x[t, k]) / y[t, j]"})
def test_log_softmax():
    """sympy: derivative of each log-prob with respect to each logit, as rational functions of x = e^z."""
    def lhs(x, y, t, j, k):
        return x[t, k] * slope(y[t, j], x[t, k]) / y[t, j]

    def rhs(x, y, t, j, k):
        return (j == k) - y[t, k]

    grids = [field_grid("x", shape) for shape in [(1, 3), (3, 2)]]
    check_equation("eq-ctc-log-softmax", lhs, rhs, (
        (x, softmax(x), t, j, k) for x in grids for t, j, k in np.ndindex(*x.shape, x.shape[1])))


def _grad_logits():
    """d(-log Z)/dz by sympy with x = e^z: as rational functions where those are small, and at fractions."""
    for T, targets in BY_SYMPY:
        x = field_grid("x", (T, 3))
        z = ctc_z(softmax(x), targets)
        for t, k in np.ndindex(x.shape):
            yield -x[t, k] * slope(z, x[t, k]) / z, x, targets, t, k
    for x, targets in INPUTS:
        for t, k in np.ndindex(x.shape):
            yield grad_logit(lambda y, targets=targets: ctc_z(y, targets), x, t, k), x, targets, t, k


def _grad_logits_and_occupancy():
    for grad_logits, x, targets, t, k in _grad_logits():
        yield grad_logits, ctc_occupancy_of_nodes(softmax(x), targets), softmax(x), t, k, x.shape[1]


@pytest.mark.equation("eq-ctc-logits-chain")
def test_logits_chain():
    """sympy: derivative of -log of the sum over strings with respect to each logit, against the chain rule."""
    def rhs(grad_logits, occupancy, y, t, k, V):
        return -sum(occupancy[t, j] * ((j == k) - y[t, k]) for j in range(0, V))

    check_equation("eq-ctc-logits-chain", first, rhs, _grad_logits_and_occupancy())


@pytest.mark.equation("eq-ctc-grad-logits", "eq-short-grad-logits", over={"j": "range(V)"},
                      patterns={r"\frac{\partial L}{\partial z_t(k)}": "grad_logits"})
def test_grad_logits():
    """sympy: the same derivative against softmax minus occupancy, as rational functions."""
    def rhs(grad_logits, occupancy, y, t, k, V):
        return y[t, k] - occupancy[t, k]

    check_equation("eq-ctc-grad-logits", first, rhs, _grad_logits_and_occupancy())
    check_equation("eq-short-grad-logits", first, rhs, _grad_logits_and_occupancy())


@pytest.mark.parametrize(("logits", "targets"), [
    ([[0.1, 0.7, -0.4]] * 2, [1, 1]), ([[0.1, -np.inf, -0.4]] * 3, [1])], ids=["too few frames", "masks"])
def test_without_mass(logits, targets):
    """Where Z = 0 the gradient is 0, and softmax minus occupancy is not; no occupancies add up to 1."""
    logits = np.array(logits)
    log_probs = log_softmax(logits)
    assert ctc_z(np.exp(log_probs), targets) == 0 and ctc.loss(log_probs, targets) == np.inf
    occupancy, gradient = ctc.occupancy(log_probs, targets), ctc.grad_logits(logits, targets)
    assert not occupancy.any() and not gradient.any()
    assert (occupancy.sum(axis=1) != 1).all() and (np.exp(log_probs) - occupancy != gradient).any()


@pytest.mark.equation("eq-ctc-numerator", patterns={r"\check Z": "cleared", r"X_{#t}": "X[#t]"})
def test_numerator():
    """Z of the softmax, by strings, against the same sum in x divided by the sums of all frames."""
    def rhs(z, cleared, X, T):
        return cleared / prod(X[t] for t in range(0, T))

    cases = [(ctc_z(x / x.sum(axis=1, keepdims=True), targets), ctc_z(x, targets),
              zero_outside(x.sum(axis=1), zero=5), len(x)) for x, targets in INPUTS]
    check_equation("eq-ctc-numerator", lambda z, cleared, X, T: z, rhs, cases)


@pytest.mark.equation("eq-ctc-numerator-slope", patterns={
    r"\frac{\partial \check Z}{\partial x_t(k)}": "slopes[t, k]", r"\check Z": "cleared"})
def test_numerator_slope():
    """sympy: derivative of -log Z of the softmax with respect to each logit, against the slopes of the logarithms of
    the frame's sum and of the sum over strings in x."""
    def rhs(grad_logits, x, X, cleared, slopes, t, k):
        return x[t, k] * (1 / X[t] - 1 / cleared * slopes[t, k])

    cases = ((grad_logits, x, x.sum(axis=1), ctc_z(x, targets), _grad_probs(x, targets), t, k)
             for grad_logits, x, targets, t, k in _grad_logits())
    check_equation("eq-ctc-numerator-slope", first, rhs, cases)


@pytest.mark.equation("eq-ctc-cleared", patterns={
    r"\frac{\partial \check Z}{\partial x_t(k)}": "slopes[t, k]", r"\check Z": "cleared", r"M_t(k)": "M[t, k]"})
def test_cleared():
    """Exact differences of the path sum in x on one side, alpha and beta by strings on the other; both are mutated."""
    def left(x, X, cleared, slopes, M, t, k):
        return x[t, k] * (X[t] * slopes[t, k] - cleared)

    def right(x, X, cleared, slopes, M, t, k):
        return X[t] * M[t, k] - x[t, k] * cleared

    cases = []
    for x, targets in INPUTS:
        slopes, M = _grad_probs(x, targets), ctc_emissions(x, targets)
        cases += [(x, x.sum(axis=1), ctc_z(x, targets), slopes, M, t, k) for t, k in np.ndindex(x.shape)]
    check_equation("eq-ctc-cleared", left, right, cases)
    check_equation("eq-ctc-cleared", right, left, cases)


@pytest.mark.equation("eq-ctc-exact-difference", patterns={
    r"Z(y + h \mathbf 1_{t,k})": "ctc_z(_moved(y, h, t, k), targets)", "Z(y)": "ctc_z(y, targets)"})
def test_exact_difference():
    """Exact differences, times y, against the masses of the nodes that emit k."""
    def lhs(y, targets, alpha, beta, labels, t, k, S, h):
        return y[t, k] * exact_difference(lambda y: ctc_z(y, targets), y, (t, k), h)

    def rhs(y, targets, alpha, beta, labels, t, k, S, h):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    cases = [(y, targets, ctc_alpha(y, targets), ctc_beta(y, targets), extended(targets), t, k, 2 * len(targets) + 1, h)
             for y, targets in INPUTS for t, k in np.ndindex(y.shape) for h in (1, Fraction(-2, 7))]
    check_equation("eq-ctc-exact-difference", lhs, rhs, cases)


def _moved(y, h, t, k):
    moved = y.copy()
    moved[t, k] += h
    return moved


def test_exact_difference_without_a_step():
    y, targets = INPUTS[0]
    with pytest.raises(ValueError, match="h = 0"):
        exact_difference(lambda y: ctc_z(y, targets), y, (0, 0), h=0)


@pytest.mark.equation("eq-ctc-beta-2006")
def test_beta_2006():
    """Suffixes that begin with the emission of frame t against y times the suffixes after it, both by strings."""
    def lhs(beta_2006, beta, y, labels, t, s):
        return beta_2006[t, s]

    def rhs(beta_2006, beta, y, labels, t, s):
        return y[t, labels[s]] * beta[t, s]

    cases = [(ctc_beta_2006(y, targets), ctc_beta(y, targets), y, extended(targets), t, s)
             for y, targets in INPUTS for t, s in states(y, targets)]
    check_equation("eq-ctc-beta-2006", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-grad-logits-2006")
def test_grad_logits_2006():
    """sympy: derivative of -log Z of the softmax with respect to each logit, at integers x = e^z, against the formula
    with the emission in both alpha and beta, both by strings."""
    def rhs(grad_logits, alpha, beta_2006, labels, z, y, t, k, S):
        return y[t, k] - 1 / (z * y[t, k]) * sum(
            alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k)

    cases = ((grad_logits, ctc_alpha(y, targets), ctc_beta_2006(y, targets), extended(targets), ctc_z(y, targets), y, t,
              k, 2 * len(targets) + 1) for grad_logits, x, targets, t, k in _grad_logits() for y in [softmax(x)])
    check_equation("eq-ctc-grad-logits-2006", first, rhs, cases)


@pytest.mark.equation("eq-ctc-eight-lines", patterns={
    r"\frac{\partial Z}{\partial y_t(j)}": "grad_probs[j]", r"\frac{\partial y_t(j)}{\partial z_t(k)}": "jacobian[j]"})
def test_eight_lines():
    """sympy: derivative of -log Z of the softmax with respect to each logit, against each line. In the lines: exact
    differences of the sum over strings, sympy's derivatives of the softmax, alpha and both betas by strings."""
    def line_1(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return -1 / z * sum(grad_probs[j] * jacobian[j] for j in range(0, V))

    def line_2(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return -1 / z * sum(grad_probs[j] * y[t, j] * ((j == k) - y[t, k]) for j in range(0, V))

    def line_3(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return -1 / z * sum(((j == k) - y[t, k]) * sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == j)
                            for j in range(0, V))

    def line_4(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return y[t, k] / z * sum(sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == j)
                                 for j in range(0, V)) - 1 / z * sum(
            alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    def line_5(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return y[t, k] / z * sum(alpha[t, s] * beta[t, s] for s in range(0, S)) - 1 / z * sum(
            alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    def line_6(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return y[t, k] - 1 / z * sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    def line_7(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return y[t, k] - 1 / (z * y[t, k]) * sum(
            alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k)

    def line_8(grad_logits, grad_probs, jacobian, alpha, beta, beta_2006, labels, z, y, t, k, V, S):
        return y[t, k] - exp(log(sum(alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k))
                             - log(y[t, k]) - log(z))

    def cases():
        for x, targets in INPUTS:
            y = softmax(x)
            masses = ctc_alpha(y, targets), ctc_beta(y, targets), ctc_beta_2006(y, targets), extended(targets)
            grad_probs, z, V, S = _grad_probs(y, targets), ctc_z(y, targets), x.shape[1], 2 * len(targets) + 1
            for t, k in np.ndindex(x.shape):
                grad_logits = grad_logit(lambda y, targets=targets: ctc_z(y, targets), x, t, k)
                jacobian = each_entry((V,), lambda j, row=x[t], k=k: row[k] * slope_at(
                    lambda row: softmax(row)[j], row, k))
                yield grad_logits, grad_probs[t], jacobian, *masses, z, y, t, k, V, S

    no_state = {"shift bound: range(0, V) -> range(0 - 1, V)": "no state carries symbol -1",
                "shift bound: range(0, V) -> range(0, V + 1)": "no state carries symbol V"}
    any_order = {"shift index: labels[s] -> labels[s - 1] (2)": "the double sum has each state once"}
    equivalent = {line_3: no_state, line_4: no_state | any_order}
    for line in (line_1, line_2, line_3, line_4, line_5, line_6, line_7, line_8):
        check_equation("eq-ctc-eight-lines", first, line, cases(), equivalent=equivalent.get(line))
