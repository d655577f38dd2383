"""diagnose and fit_terms pass what is right, name the term that is wrong, and survive a reader's function."""

import numpy as np
import pytest

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.bug_bank import BUGS, RIGHT
from reference_impl.diagnosis import diagnose, fit_terms

LP = {"loss": "rnnt", "variable": "log_probs"}


def findings(function, **which):
    diagnosis = diagnose(function, **which)
    assert diagnosis.right == (str(diagnosis) == "right: every term, in 6 cases")
    return diagnosis.findings


@pytest.mark.parametrize("candidate", RIGHT, ids=lambda c: f"{c.loss} {c.variable}")
def test_right_code_is_right(candidate):
    assert diagnose(candidate.gradient, loss=candidate.loss, variable=candidate.variable).right


# bugs of the loss, of the batch, of backward, or at inputs that a gradient function of one utterance does not see here
OUT_OF_SIGHT = {
    "empty target's state counted twice", "last rescaling factor forgotten", "first frame not pruned",
    "scales from alphas that were never rescaled", "loss 0 where no alignment exists", "no frames, no loss",
    "log-domain 0.0 read as no mass", "exp before the maximum is subtracted", "probabilities, not rescaled",
    "out-of-range label ends the target", "out-of-range label reads a neighbour",
    "inf times 0", "label overwrites blank", "blank overwrites label", "label equal to blank accepted",
    "loss divided by T, gradient not", "utterance dropped on a mismatch", "NaN swallowed", "padding leaks",
    "lengths ignored", "labels of the wrong row", "utterances coupled by an average", "lengths taken on trust",
    "padding of a reused buffer not cleared", "flat index that wraps around", "one thread a row, too few threads",
    "saved gradient scaled in place", "returned gradient reused",
    "log of the upstream gradient", "upstream gradient on one term only", "upstream gradient ignored",
    "right loss, wrong gradient of many labels"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.loss}: {bug.name}")
def test_planted_bugs_are_found(bug):
    """All that change the gradient of an ordinary utterance."""
    right = diagnose(bug.gradient, loss=bug.loss, variable=bug.variable).right
    assert right == (bug.name in OUT_OF_SIGHT)


def of_arcs(scale_blank=1.0, scale_label=1.0, scale_last=1.0):
    def function(log_probs, targets, *, blank):
        e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
        gradient = np.zeros(log_probs.shape)
        gradient[:, :, blank] = -scale_blank * e_blank
        gradient[-1, -1, blank] = -scale_last * e_blank[-1, -1]
        gradient[:, np.arange(len(targets)), targets] = -scale_label * e_label
        return gradient
    return function


@pytest.mark.parametrize(("function", "expected"), [
    (of_arcs(scale_last=0), ("last blank: missing",)),
    (of_arcs(scale_label=-1), ("label term: wrong sign",)),
    (of_arcs(scale_blank=2), ("blank term: counted twice",)),
    (of_arcs(scale_label=0, scale_last=0), ("last blank: missing", "label term: missing")),
])
def test_only_the_wrong_term_is_named(function, expected):
    assert findings(function, **LP) == expected


def test_terms_are_seen_through_a_missing_softmax_term():
    """Two mistakes at once: both are named."""
    def function(logits, targets, *, blank):
        return of_arcs(scale_label=2)(log_softmax(logits), targets, blank=blank)
    assert findings(function, loss="rnnt") == ("softmax term: missing", "label term: counted twice")


def test_what_is_not_on_the_list_is_shown_with_its_numbers():
    (finding,) = findings(of_arcs(scale_last=1.5), **LP)
    assert finding.startswith("last blank: wrong, in a way not on the list; at entry (")


def rnnt_times(factor, **more):
    return lambda scores, *a, blank: rnnt.grad_logits(scores, *a, blank=blank, **more) * factor


@pytest.mark.parametrize(("function", "said"), [
    (rnnt_times(1.0, fastemit_lambda=0.3), "FastEmit, lambda = 0.3: "),
    (rnnt_times(1 / 3), "all entries times 0.333: a reduction?"),
    (lambda scores, *a, blank: rnnt.grad_logits(scores, *a, blank=blank) / len(scores),
     "all entries times 0.2: a reduction? Here it is 1 / T."),
    (rnnt_times(-1.0), "all entries times -1: the sign?"),
    (rnnt_times(1 / np.log(2)), "all entries times 1.4427 = 1 / ln 2"),
])
def test_what_multiplies_all_terms_is_named(function, said):
    """Also both at once: FastEmit, and a factor."""
    (finding,) = findings(function, loss="rnnt")
    assert finding.startswith(said)
    both = findings(lambda scores, *a, blank: function(scores, *a, blank=blank) / 7, loss="rnnt")
    assert (len(both), both[0].startswith("FastEmit")) == ((2, True) if "FastEmit" in said else (1, False))


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize(("factor", "power"),
                         [(256.0, "2^8"), (65536.0, "2^16"), (-1024.0, "-2^10"), (2.0**24, "2^24")])
def test_a_large_power_of_two_is_loss_scaling(kind, factor, power):
    function = {"ctc": ctc, "rnnt": rnnt}[kind].grad_logits
    assert findings(lambda *a, blank: factor * function(*a, blank=blank), loss=kind) == (
        f"all entries times {factor:.10g}, which is {power}: loss scaling, or a reduction?",)


def emission_in_beta(logits, targets, *, blank):
    """The occupancies of CTC, where alpha and beta contain the emission."""
    log_probs = log_softmax(logits)
    return ctc.occupancy(log_probs, targets, blank=blank) * np.exp(log_probs)


def kept_last(logits, targets, *, blank):
    """Those of CTC, where the states of a symbol overwrite each other."""
    log_probs, log_z = log_softmax(logits), -ctc.loss(log_softmax(logits), targets, blank=blank)
    found = np.zeros(logits.shape)
    states = ctc.log_alpha(log_probs, targets, blank=blank) + ctc.log_beta(log_probs, targets, blank=blank)
    for s, symbol in enumerate(ctc.extended_targets(targets, blank=blank)):
        found[:, symbol] = np.exp(states[:, s] - log_z)
    return found


def without_early_mass(logits, targets, *, blank):
    """Those of CTC, where alpha loses a tenth of its mass in every frame from the second on."""
    return ctc.occupancy(log_softmax(logits), targets, blank=blank) * 0.9 ** np.arange(len(logits))[:, None]


def beta_of_the_node(logits, targets, *, blank):
    """Those of RNN-T's arcs, each with beta of the node that it leaves."""
    log_probs = log_softmax(logits)
    a, b = (f(log_probs, targets, blank=blank) for f in (rnnt.log_alpha, rnnt.log_beta))
    node = np.exp(a + b + rnnt.loss(log_probs, targets, blank=blank))[..., None] * np.exp(log_probs)
    used = np.zeros(logits.shape, bool)
    used[..., blank] = used[:, np.arange(len(targets)), targets] = True
    return np.where(used, node, 0.0)


@pytest.mark.parametrize(("kind", "occupied", "said", "others"), [
    ("ctc", emission_in_beta, "those of frame 2 add up to 0.107455, expected 1",
     "with the probability of its own step counted twice"),
    ("ctc", kept_last, "those of frame 0 add up to 0.337519, expected 1", "overwrite each other"),
    ("ctc", without_early_mass, "frame 4 add up to 0.6561, expected 1; all sums before frame 1 are right: "
     "look first at alpha", "wrong, in a way not on the list"),
    ("rnnt", beta_of_the_node, "those of node (0, 0) add up to 0.0664335, expected 1", "beta of the node itself"),
])
def test_wrong_occupancies_are_blamed_and_not_the_softmax_term_that_follows_from_them(kind, occupied, said, others):
    """The softmax is multiplied by their sum, as it should be; in the second gradient of CTC by 1, as is usual."""
    def function(logits, targets, *, blank):
        found = occupied(logits, targets, blank=blank)
        return np.exp(log_softmax(logits)) * found.sum(-1, keepdims=True) - found

    first, *rest = findings(function, loss=kind)
    assert first.startswith("the occupancies are wrong, not the softmax: ") and said in first
    assert rest and any(others in each for each in rest) and not any("softmax" in each for each in rest)
    if kind == "ctc":
        rest = findings(lambda *a, blank: np.exp(log_softmax(a[0])) - occupied(*a, blank=blank))
        assert others in rest[0] and not any("softmax" in each for each in rest)


def test_a_softmax_term_with_a_multiple_that_is_no_sum_of_occupancies_is_wrong():
    def function(logits, targets, *, blank):
        return ctc.grad_logits(logits, targets, blank=blank) - 0.5 * np.exp(log_softmax(logits))

    (finding,) = findings(function)
    assert finding.startswith("softmax term: wrong, in a way not on the list; ")


def test_fastemit_left_out_of_the_softmax_term():
    def function(scores, targets, *, blank):
        return rnnt.grad_logits(scores, targets, blank=blank) + 0.5 * rnnt.grad_log_probs(
            log_softmax(scores), targets, blank=blank) * (np.arange(scores.shape[-1]) != blank)

    (finding,) = findings(function, loss="rnnt")
    assert finding.startswith("FastEmit, lambda = 0.5: ") and finding.endswith("have to be as well")


def test_ctc_has_no_fastemit():
    assert findings(lambda scores, *a, blank: ctc.grad_logits(scores, *a, blank=blank) / 3) == (
        "all entries times 0.333: a reduction? Here it is 1 / (U + 1).",)


def test_a_bug_of_the_bank_is_recognised():
    bug = next(bug for bug in BUGS if bug.name == "likelihood summed over the frames, too")
    assert findings(bug.gradient)[-1].startswith(f"all in all, as in the planted bug '{bug.name}'")


def test_the_case_is_named_when_only_a_special_one_fails():
    def function(logits, targets, *, blank):
        return ctc.grad_logits(logits, targets, blank=blank) * (blank == 0)
    assert all(finding.startswith("with blank = 2: ") for finding in findings(function))


def raises(scores, targets, *, blank):
    raise KeyError("no such thing")


def spoils(scores, targets, *, blank):
    gradient = ctc.grad_logits(scores, targets, blank=blank)
    scores[0, 0] = 7.0
    return gradient


@pytest.mark.parametrize(("function", "expected"), [
    (raises, "it raises KeyError: 'no such thing'"),
    (spoils, "it modifies its argument"),
    (lambda scores, targets, *, blank: scores.sum(), "it has shape (); expected (5, 5)"),
    (lambda scores, targets, *, blank: None, "it has shape (); expected (5, 5)"),
    (lambda scores, targets, *, blank: scores * np.nan, "it returns NaN for everything"),
    (lambda scores, targets, *, blank: scores * 0, "it returns 0 for everything"),
    (lambda scores, targets, *, blank: scores * 0 + 0.25, "it returns 0.25 for everything"),
    (lambda scores, targets, *, blank: np.where(scores == scores[0, 0], np.nan, scores), "entry (0, 0) is NaN"),
    (lambda scores, targets: scores, "it raises TypeError: "),
])
def test_whatever_the_function_does(function, expected):
    (finding,) = findings(function)
    assert finding.startswith(expected)


def test_bad_choices():
    with pytest.raises(ValueError, match="loss = 'hmm'; expected one of 'ctc', 'rnnt'"):
        diagnose(ctc.grad_logits, loss="hmm")
    with pytest.raises(ValueError, match="variable = 'probs'; expected one of 'logits', 'log_probs'"):
        diagnose(ctc.grad_logits, variable="probs")


RNG = np.random.default_rng(1)
FIRST, SECOND, THIRD = RNG.normal(size=(3, 4, 3))
TERMS = {"first": (FIRST, 1), "second": (SECOND, -1), "third": (THIRD, 0.5)}


@pytest.mark.parametrize(("coefficients", "expected"), [
    ((1, -1, 0.5), ("right: every coefficient of first, second, third",)),
    ((1, 0, 0.5), ("second: its coefficient is 0, not -1",)),
    ((1, 1, 0.5), ("second: its coefficient is 1, not -1",)),
    ((2, -1, 0.25), ("first: its coefficient is 2, not 1", "third: its coefficient is 0.25, not 0.5")),
    ((1, -1, 0.5 + 1e-8), ("third: its coefficient is 0.50000001, not 0.5",)),
])
def test_fitted_terms(coefficients, expected):
    """Each coefficient by itself, and one that is off by little."""
    diagnosis = fit_terms(sum(c * term for c, term in zip(coefficients, (FIRST, SECOND, THIRD), strict=True)), TERMS)
    assert diagnosis.findings == expected
    assert diagnosis.right == str(diagnosis).startswith("right: ")


def test_fitted_terms_and_something_else():
    """However small, and whatever the coefficients are; no arrangement of the entries is taken for another."""
    right = FIRST - SECOND + 0.5 * THIRD
    more = right.copy()
    more[2, 1] += 0.1
    for wrong in (more, right + 1e-8 * FIRST**2, 2 * right + 1.0, right[::-1]):
        diagnosis = fit_terms(wrong, TERMS)
        assert not diagnosis.right
        assert str(diagnosis).startswith("something that is none of the terms: ")
    assert str(fit_terms(more, TERMS)).endswith(" at entry (2, 1)")


def test_fitted_terms_of_no_gradient():
    assert fit_terms(FIRST[0], TERMS).findings == ("it has shape (3,); expected (4, 3)",)
    for bad in (np.nan, np.inf):
        spoilt = FIRST.copy()
        spoilt[1, 2] = bad
        assert fit_terms(spoilt, TERMS).findings == (f"entry (1, 2) is {bad}",)
        assert not fit_terms(spoilt, TERMS).right
    for constant, said in ((0.0, "0"), (0.25, "0.25"), (np.nan, "NaN")):
        assert fit_terms(np.full(FIRST.shape, constant), TERMS).findings == (f"it returns {said} for everything",)
    ones = np.ones((4, 3))
    assert fit_terms(ones, {"all": (ones, 1)}).right and fit_terms(0 * ones, {"all": (ones, 0)}).right


@pytest.mark.parametrize(("terms", "message"), [
    ({}, "len\\(terms\\) = 0; expected len\\(terms\\) >= 1"),
    ({"a": (FIRST, 1), "b": (FIRST[0], 1)}, "terms\\['b'\\] has shape \\(3,\\); expected \\(4, 3\\)"),
    ({"a": (FIRST, 1), "b": (SECOND, 1), "c": (FIRST - SECOND, 1)}, "rank of terms = 2; expected rank of terms >= 3"),
])
def test_terms_that_cannot_be_fitted(terms, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        fit_terms(FIRST, terms)
