"""What has one reason is said once: of wrong answers that are made up, and in reports."""

import numpy as np
import pytest

from reference_impl import ctc, log_softmax
from reference_impl.bug_bank import BUGS
from reference_impl.conformance import Conventions, candidate_subject, function_subject, grade
from reference_impl.conformance.cases import cases
from reference_impl.conformance.census import floor
from reference_impl.conformance.joining import joined
from reference_impl.conformance.judging import LOG_OF_0, MASK, NO_ALIGNMENT, UNUSED_MASK, UPSTREAM, Judge, Wrong
from reference_impl.conformance.locating import is_derivative

CASES = {case.id: case for case in cases("ctc")}
MASKED, SHORT, UPSTREAM_INF, ON_THE_WAY, ELSEWHERE, EMPTY = (CASES[name] for name in (
    "no alignment/label-masked", "no alignment/too-few-frames", "upstream/inf-where-no-alignment-exists",
    "masks/on-the-way", "masks/label-elsewhere", "no alignment/no-frames"))
LOSS, GRADIENT, BOTH = "The loss is NaN", "The gradient is NaN", "Loss and gradient are NaN"


def right(scores, targets, blank):
    return (ctc.loss(log_softmax(scores), targets, blank=blank), ctc.grad_logits(scores, targets, blank=blank))


def judge_of(function):
    return Judge(function_subject(function, "ctc"), Conventions("ctc"))


def floored(scores, targets, *, blank):
    """Scores of -inf are -50."""
    return right(np.maximum(log_softmax(scores), -50.0), targets, blank)


def pair(sentence, case, field, given=np.nan, wanted=1.0, *, named=False):
    """A sentence and a wrong answer; it is the answer's complaint unless it names a cause."""
    return sentence, Wrong(case, field, np.array(given), np.array(wanted), "" if named else sentence)


def said(*pairs, function=right):
    """The sentences of pairs after joining."""
    found = joined(pairs, judge_of(function))
    assert [each for _, each in found] == [each for _, each in pairs]
    return [sentence for sentence, _ in found]


@pytest.mark.parametrize(("pairs", "wanted"), [
    # of both fields, in the same cases
    ([pair(LOSS + MASK, ON_THE_WAY, "loss"), pair(GRADIENT + MASK, ON_THE_WAY, "gradient")], [BOTH + MASK] * 2),
    ([pair(LOSS + NO_ALIGNMENT, SHORT, "loss"), pair(GRADIENT + MASK, ON_THE_WAY, "gradient")],
     [LOSS + NO_ALIGNMENT, GRADIENT + MASK]),
    ([pair(LOSS + NO_ALIGNMENT, SHORT, "loss"), pair(GRADIENT + NO_ALIGNMENT, SHORT, "gradient"),
      pair(GRADIENT + NO_ALIGNMENT, MASKED, "gradient")], [LOSS + NO_ALIGNMENT, *[GRADIENT + NO_ALIGNMENT] * 2]),
    ([pair(LOSS, EMPTY, "loss"), pair(LOSS, SHORT, "loss"), pair(GRADIENT, SHORT, "gradient")], [BOTH] * 3),
    ([pair(LOSS, EMPTY, "loss"), pair(GRADIENT, SHORT, "gradient")], [LOSS, GRADIENT]),
    # a mask that no path uses speaks for all masks of its field, and for nothing else
    ([pair(GRADIENT + UNUSED_MASK, ELSEWHERE, "gradient"), pair(GRADIENT + MASK, ON_THE_WAY, "gradient"),
      pair(GRADIENT + NO_ALIGNMENT, MASKED, "gradient"), pair(GRADIENT + NO_ALIGNMENT, SHORT, "gradient"),
      pair(LOSS + MASK, ON_THE_WAY, "loss")],
     [*[GRADIENT + UNUSED_MASK] * 3, GRADIENT + NO_ALIGNMENT, LOSS + MASK]),
    # inf times 0 is not the reason where it is NaN without it; what a mask does says nothing of what has none
    ([pair(GRADIENT + NO_ALIGNMENT, SHORT, "gradient"), pair(GRADIENT + UPSTREAM, UPSTREAM_INF, "gradient")],
     [GRADIENT + NO_ALIGNMENT] * 2),
    ([pair(GRADIENT + NO_ALIGNMENT, MASKED, "gradient"), pair(GRADIENT + UPSTREAM, UPSTREAM_INF, "gradient")],
     [GRADIENT + NO_ALIGNMENT, GRADIENT + UPSTREAM]),
    # where most is NaN without a reason, so is all of that field
    ([*[pair(LOSS + LOG_OF_0, SHORT, "loss")] * 2, pair(LOSS + MASK, ON_THE_WAY, "loss"),
      pair(GRADIENT + LOG_OF_0, SHORT, "gradient"), pair(GRADIENT + MASK, ON_THE_WAY, "gradient")],
     [*[LOSS + LOG_OF_0] * 3, GRADIENT + LOG_OF_0, GRADIENT + MASK]),
])
def test_reasons_of_nan(pairs, wanted):
    assert said(*pairs) == wanted


def test_errors_that_differ_in_numbers():
    first, same, other = "An error: E: T = 5 of 12", "An error: E: T = 6 of 7", "An error: F"
    pairs = pair(first, SHORT, "error"), pair(other, SHORT, "error"), pair(same, MASKED, "error")
    assert said(*pairs) == [first, other, first]


def test_another_shape_is_one_finding_and_bad_input_is_not():
    one, two = ("The loss has shape (1,); expected ().", "The loss has shape (2,); expected ().")
    bad = [case for name, case in CASES.items() if name in ("bad input/label-is-V", "bad input/NaN")]
    given = [1.0, 1.0]
    assert said(pair(one, SHORT, "loss", [1.0]), pair(two, MASKED, "loss", given)) == [one, one]
    accepts = [f"It accepts bad input ({case.problem.name})." for case in bad]
    assert said(*(pair(*each, "loss", given) for each in zip(accepts, bad, strict=True))) == accepts


CAUSE, ALONE, NOT_0 = "In alpha: a mistake.", "In the loss alone: a mistake.", "The gradient is not 0."


@pytest.mark.parametrize(("cause", "given", "wanted", "case", "follows"), [
    (CAUSE, np.inf, 3.0, MASKED, True), (CAUSE, 3.0, np.inf, MASKED, True),
    (CAUSE, 3.0, 4.0, MASKED, False), (CAUSE, 3.0, np.inf, SHORT, False), (ALONE, 3.0, np.inf, MASKED, False)])
def test_a_gradient_goes_with_a_loss_that_is_infinite_or_finite_by_mistake(cause, given, wanted, case, follows):
    found = said(pair(cause, case, "loss", given, wanted, named=True), pair(NOT_0, MASKED, "gradient", 1.0, 0.0))
    assert found == [cause, cause if follows else NOT_0]


def test_what_stands_for_log_0_is_why_impossible_utterances_have_a_loss():
    finite = "Where no alignment exists the loss is finite."
    measured = f"{floor(judge_of(floored))} The gradient is the derivative of this wrong loss."
    pairs = (pair(measured, SHORT, "loss", 1.0, 2.0, named=True), pair(finite, MASKED, "loss", 50.0, np.inf),
             pair(NOT_0, MASKED, "gradient", 1.0, 0.0))
    assert said(*pairs, function=floored) == [measured] * 3
    assert said(*pairs) == [measured, finite, NOT_0]


# --- in reports ---


def found(function, **how):
    """Sentences and fields of a report, but for bad input that is accepted."""
    report = grade(function_subject(function, "ctc"), without=("accuracy",), shrink=False, **how)
    return [(finding.sentence, finding.fields) for finding in report.findings
            if not finding.sentence.startswith("It accepts")]


def test_masks_by_a_product_are_one_finding():
    def one_hot(scores, targets, *, blank):
        loss, gradient = right(scores, targets, blank)
        return (np.nan, gradient * np.nan) if np.isinf(scores).any() else (loss, gradient)

    assert found(one_hot) == [(BOTH + UNUSED_MASK, ("loss", "gradient"))]


def test_a_cause_is_also_that_of_the_nan_that_it_leads_to():
    bug = next(bug for bug in BUGS if bug.name == "NaN where no alignment exists")
    (finding,) = grade(candidate_subject(bug), without=("accuracy",), shrink=False).findings
    assert bug.mechanism in finding.sentence
    assert {"no alignment/too-few-frames", "upstream/inf-where-no-alignment-exists"} <= {*finding.cases}


def test_a_variable_is_not_said_of_a_gradient_without_one():
    def diagonal(scores, targets, *, blank):
        loss, _ = right(scores, targets, blank)
        log_probs = log_softmax(scores)
        return loss, ctc.grad_log_probs(log_probs, targets, blank=blank) * (1 - np.exp(log_probs))

    (sentence, _), = found(diagonal, expect={"inputs": "logits", "variable": "logits", "gradient_factor": "2"})
    assert "the Jacobian of softmax has its diagonal only" in sentence


def test_of_inputs_and_variable_one_is_said():
    def of_log_probs(scores, targets, *, blank):
        return ctc.loss(scores, targets, blank=blank), ctc.grad_log_probs(scores, targets, blank=blank)

    expect = {"inputs": "logits", "variable": "logits"}
    assert found(of_log_probs, expect=expect) == [("inputs = logits was expected; it is log_probs.", ("conventions",))]


def test_of_a_gradient_that_is_not_there_nothing_is_said():
    def divided(scores, targets, *, blank):
        return right(scores, targets, blank)[0] / max(len(scores), 1)

    report = grade(function_subject(divided, "ctc"), without=("accuracy",), shrink=False)
    assert report.identified.given == {"loss"} and not report.identified.departures()
    assert "none, / T" in str(report) and not found(divided)
    missing = grade(function_subject(divided, "ctc"), without=("accuracy",), shrink=False, expect={"clamp": "0.1"})
    assert missing.findings[0].sentence == "clamp = 0.1 was expected; no gradient came back."


def test_a_gradient_is_compared_with_slopes_of_the_wrong_loss():
    """Of the loss where it is wrong: elsewhere any right gradient is its derivative."""
    def twice(loss_alone, of):
        def function(scores, targets, *, blank):
            log_probs = log_softmax(scores)
            loss, used = ctc.loss(log_probs, targets, blank=blank), ctc.grad_log_probs(log_probs, targets, blank=blank)
            empty = len(targets) == 0
            factor = 1 if not empty else 1.0 if loss_alone else 2.0
            return loss * (2 if empty else 1), factor * (used - np.exp(log_probs) * used.sum(-1, keepdims=True)
                                                         if of == "logits" else used)
        return function

    for of in ("logits", "log_probs"):
        for loss_alone in (False, True):
            subject = function_subject(twice(loss_alone, of), "ctc", scores=of)
            judge = Judge(subject, Conventions("ctc", inputs=of, variable=of))
            wrong = [each for name in ("short/empty-target", "short/one-symbol")
                     for each in judge.answer(CASES[name]).wrong if each.field == "loss"]
            assert is_derivative(judge, wrong) is not loss_alone
    assert not is_derivative(judge, [])
