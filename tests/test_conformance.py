"""grade says what is wrong with a loss, in words and with the smallest input; and nothing of a loss that is right."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.bug_bank import BUGS, RIGHT
from reference_impl.conformance import (
    Expectation,
    NotAnswering,
    Problem,
    Program,
    Refused,
    candidate_subject,
    function_subject,
    grade,
    smallest,
    torch_subject,
)
from reference_impl.conformance.__main__ import main
from reference_impl.conformance.cases import GROUPS, cases
from reference_impl.conformance.drawing import alignments, drawn
from reference_impl.torch_impl import ctc_loss, rnnt_loss

MODULES = {"ctc": ctc, "rnnt": rnnt}
SLOW_GROUPS = ("accuracy",)


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_a_loss_whose_blank_is_0_whatever_it_is_told(kind):
    def function(scores, targets, *, blank):
        return (MODULES[kind].loss(log_softmax(scores), targets), MODULES[kind].grad_logits(scores, targets))

    without = [group for group in GROUPS if group not in ("labels", "blank", "no alignment")]
    report = grade(function_subject(function, kind), without=without, shrink=False)
    assert [finding.sentence for finding in report.findings] == ["The blank is symbol 0, whatever the argument says."]
    # a label 0 means nothing to it, and is not asked
    assert report.groups["blank"].asked < sum(case.group == "blank" for case in cases(kind))


def test_of_an_error_the_first_line_is_told():
    assert str(Refused("RuntimeError", "\nno such label\nframe #0: 0x7f in lib.so")) == "RuntimeError: no such label"
    assert str(Refused("KeyError", "")) == str(Refused("KeyError", " \n")) == "KeyError"


def right(kind):
    def function(scores, targets, *, blank):
        return (MODULES[kind].loss(log_softmax(scores), targets, blank=blank),
                MODULES[kind].grad_logits(scores, targets, blank=blank))
    return function


def sentences(report):
    return [finding.sentence for finding in report.findings]


# --- what is right ---


@pytest.mark.parametrize("candidate", RIGHT, ids=lambda c: f"{c.loss} {c.variable}")
def test_right_code_is_right(candidate):
    report = grade(candidate_subject(candidate), expect={"inputs": candidate.variable, "variable": candidate.variable})
    assert report.right, report
    assert set(report.groups) == set(GROUPS) - {"fastemit"} and report.left_out == ("fastemit",)
    assert all(each.wrong == 0 for each in report.groups.values())


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("kind", "loss"), [("ctc", ctc_loss), ("rnnt", rnnt_loss)])
def test_the_torch_losses_are_right(kind, loss, reduction):
    report = grade(torch_subject(partial(loss, reduction=reduction), kind), expect={"reduction": reduction})
    assert report.right, report
    assert {each.precision for each in report.accuracy} == {"float32", "float64"}


@pytest.mark.parametrize("how", [{"fastemit_lambda": 0.3}, {"clamp": 0.05}])
def test_what_is_expected_is_accepted(how):
    """FastEmit and a clamp return what is no gradient of the loss: wrong, unless it is meant."""
    subject = torch_subject(partial(rnnt_loss, reduction="none", **how), "rnnt")
    (name, value), = how.items()
    name = name.removesuffix("_lambda")
    assert grade(subject, expect={name: str(value)}, without=SLOW_GROUPS).right
    report = grade(subject, without=SLOW_GROUPS, shrink=False)
    assert not report.right and sentences(report) == [report.identified.conventions.departures()[name]]
    (first, *_) = sentences(grade(subject, expect={name: str(2 * value)}, without=SLOW_GROUPS, shrink=False))
    assert first == f"{name} = {2 * value} was expected; it is {value}."


def test_a_loss_that_has_no_batches():
    report = grade(function_subject(right("ctc"), "ctc"))
    assert report.right and report.left_out == ("batch", "fastemit", "upstream")


# --- what is wrong ---

#: What is said of a planted bug, where that is not its name.
SAID = {
    "last rescaling factor forgotten": "It adds up all states of the last frame; only the last two are complete.",
    "emission counted twice": "The emission is in the occupancy twice.",
    "label arcs weigh a blank": "A label is weighed as a blank is.",
    "softmax where no alignment exists": "Where there is no alignment it is not 0: the softmax term is left.",
    "out-of-range label ends the target": "It accepts bad input (label is V).",
    "out-of-range label reads a neighbour": "It accepts bad input (label is minus 1).",
    "softmax term for log-probs": "variable = log_probs was expected; it is logits.",
    "gradient divided by T, loss not": "The gradient is divided by the number of frames; the loss is not scaled.",
    "loss 0 where no alignment exists": "Where no alignment exists the loss is 0; expected inf.",
    "divided by a probability of 0":
        "The gradient is NaN where a score that a path uses is -inf, a mask: -inf minus -inf, 0 times inf, or 0 "
        "divided by 0.",
    "exp before the maximum is subtracted":
        "The gradient is NaN: exp of a logit overflows, or underflows; subtract the largest of the row from all of "
        "them first.",
    "nothing but empty targets": "An empty target is refused: IndexError: the batch has no label",
    "label overwrites blank": "It accepts bad input (label is the blank).",
    "blank overwrites label": "It accepts bad input (label is the blank).",
    "label equal to blank accepted": "It accepts bad input (label is the blank).",
    "inf times 0": "The gradient is NaN where no alignment exists and the upstream gradient is inf: inf times 0.",
    "logits taken for log-probs": "inputs = logits was expected; it is log_probs.",
    "softmax term missing": "variable = logits was expected; it is log_probs.",
    "FastEmit": "FastEmit, lambda = 0.01: the posteriors of the labels are multiplied by 1.01.",
    "FastEmit, with the loss scaled": "The gradient is not scaled; the loss is multiplied by 1.5.",
    "clamped": "The gradient is clamped to [-0.2, 0.2].",
    "clamped after the upstream gradient": "The gradient is clamped to [-0.9, 0.9], after everything else.",
    "loss divided by T, gradient not": "The gradient is not scaled; the loss is divided by the number of frames.",
    "NaN swallowed": "It accepts bad input (NaN).",
    "lengths taken on trust": "It accepts bad input (U above its axis).",
    "padding leaks": "The gradient is NaN where the padding is: NaN in the padding comes through.",
    "saved gradient scaled in place": "A second backward pass returns a different gradient from the first.",
    "returned gradient reused":
        "The gradient that was returned changes when backward runs again: its memory is reused.",
    "log of the upstream gradient":
        "The gradient is NaN where the upstream gradient is negative: is its logarithm taken?",
    "logits overwritten": "It modifies the scores that it is given.",
}
#: One of each kind of finding is fast.
FAST = {"skip between equal labels", "FastEmit", "clamped", "padding leaks", "logits overwritten",
        "label overwrites blank", "last blank forgotten", "returned gradient reused", "logits taken for log-probs"}


@pytest.mark.parametrize("bug", [pytest.param(bug, id=f"{bug.loss}: {bug.name}", marks=[] if bug.name in FAST else
                                              pytest.mark.slow) for bug in BUGS])
def test_planted_bugs_get_their_cause(bug):
    report = grade(candidate_subject(bug), expect={"inputs": bug.variable, "variable": bug.variable}, shrink=False)
    wanted = SAID.get(bug.name, f"As in the planted bug “{bug.name}”: {bug.mechanism}")
    assert wanted in sentences(report), report


def test_what_is_left_behind_is_counted_apart():
    """A loss that overwrites its scores is right in every case, and the report says where the fault shows."""
    bug = next(bug for bug in BUGS if bug.name == "logits overwritten")
    report = grade(candidate_subject(bug), shrink=False)
    (finding,) = (each for each in report.findings if "modifies the scores" in each.sentence)
    wrong = {group: each.wrong for group, each in report.groups.items() if each.wrong and group != "bad input"}
    assert wrong == {"afterwards": len(finding.cases)} and report.counted.wrong == report.groups["bad input"].wrong
    assert all(case.startswith("afterwards/labels/") for case in finding.cases if "labels" in case)
    suite = ElementTree.fromstring(report.as_junit())
    failed = {case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None}
    assert "afterwards" in failed and "labels" not in failed
    quiet = grade(candidate_subject(bug), without=["afterwards"], shrink=False)
    assert "afterwards" in quiet.left_out and not any("modifies" in sentence for sentence in sentences(quiet))


def test_no_bug_of_the_list_has_gone():
    assert set(SAID) | FAST <= {bug.name for bug in BUGS}


def times(kind, loss, gradient):
    def function(scores, targets, *, blank):
        found = right(kind)(scores, targets, blank=blank)
        return found[0] * loss, found[1] * gradient
    return function_subject(function, kind)


def test_a_factor_of_the_gradient_alone():
    report = grade(times("ctc", 1.0, 1 / 3), without=SLOW_GROUPS, shrink=False)
    assert sentences(report) == ["The gradient is multiplied by 0.333333; the loss is not scaled."]
    assert grade(times("ctc", 1.0, 1 / 3), expect={"gradient_factor": "0.333333"}, without=SLOW_GROUPS).right


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize(("loss", "gradient", "said"), [
    (0.0, 0.0, ["It returns 0 for everything."]), (0.0, None, ["As loss it returns 0 for everything."]),
    (None, 0.0, ["As gradient it returns 0 for everything."]),
    (np.nan, np.nan, ["It returns NaN for everything."]),
    (None, np.nan, ["As gradient it returns NaN for everything."]),
    (3.5, 0.25, ["As gradient it returns 0.25 for everything.", "As loss it returns 3.5 for everything."]),
])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_number_for_everything_gets_no_other_cause(kind, loss, gradient, said, dtype):
    """None: that is right."""
    def function(scores, targets, *, blank):
        found = right(kind)(scores, targets, blank=blank)
        return (dtype(found[0] if loss is None else loss),
                found[1].astype(dtype) if gradient is None else np.full(np.shape(scores), gradient, dtype))

    report = grade(function_subject(function, kind), without=[*SLOW_GROUPS, "bad input"], shrink=False)
    assert sorted(sentences(report)) == said
    fields = {field for finding in report.findings for field in finding.fields}
    assert fields == {name for name, value in (("loss", loss), ("gradient", gradient)) if value is not None}


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_a_batch_of_zeros_gets_no_other_cause(kind):
    def loss(scores, targets, *lengths, blank=0):
        return 0.0 * scores.nan_to_num(0.0, 0.0, 0.0).flatten(1).sum(1)

    without = [*SLOW_GROUPS, "bad input", "upstream"]  # 0 times inf
    (finding,) = grade(torch_subject(loss, kind), without=without, shrink=False).findings
    assert finding.sentence == "It returns 0 for everything." and {*finding.fields} == {"loss", "gradient"}
    assert any(case.startswith("batch/") for case in finding.cases)


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_a_scale_that_was_not_undone(kind):
    report = grade(times(kind, 1.0, 65536.0), without=SLOW_GROUPS, shrink=False)
    assert sentences(report) == ["The gradient is multiplied by 65536 (2^16: loss scaling?); the loss is not scaled."]


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize("given", ["loss", "gradient"])
def test_what_does_not_come_back_is_not_said_to_be_right(kind, given):
    """And the conventions of a gradient that nobody saw are null."""
    def function(scores, targets, *, blank):
        return right(kind)(scores, targets, blank=blank)[given == "gradient"]

    report = grade(function_subject(function, kind, name="mine"), without=SLOW_GROUPS, expect={"variable": "logits"})
    other = "gradient" if given == "loss" else "loss"
    assert report.right, report
    assert str(report).startswith(f"mine ({'CTC' if kind == 'ctc' else 'RNN-T'}): the {given} is right; no {other} "
                                  "came back, and none was checked\n")
    assert "cases right" not in str(report) and f"{given}s right" in str(report)
    assert report.as_json()["conventions"]["variable"] == (None if given == "loss" else "logits")
    skipped = ElementTree.fromstring(report.as_junit()).findall("testcase/skipped")
    assert any(f"No {other} came back" in each.get("message") for each in skipped)
    with_findings = grade(function_subject(function, kind), without=SLOW_GROUPS, expect={"clamp": "0.1"})
    said = "no gradient came back" if given == "loss" else "it is 0"
    assert sentences(with_findings) == [f"clamp = 0.1 was expected; {said}."]
    assert f"No {other} came back, and none was checked." in str(with_findings)


def broken(kind, *, alpha=False, beta=False, own_sums=False, give=()):
    """A loss whose log Z is right, and whose alpha grows, or whose beta shrinks, from frame to frame.

    With ``own_sums`` the softmax is multiplied by what the wrong posteriors add up to, not by 1.
    """
    def function(scores, targets, *, blank):
        log_probs, module = log_softmax(scores), MODULES[kind]
        loss = module.loss(log_probs, targets, blank=blank)
        if loss == np.inf:
            return {"loss": loss, "gradient": np.zeros(scores.shape)}
        frame = np.arange(len(scores))[:, None]
        a, b = (f(log_probs, targets, blank=blank) for f in (module.log_alpha, module.log_beta))
        state = np.arange(a.shape[1])
        a, b = a + 0.1 * frame * state * alpha, b - 0.1 * (len(scores) - 1 - frame) * state * beta
        occupied = module.occupancy(log_probs, targets, blank=blank)
        shift = 0.1 * frame * alpha - 0.1 * (len(scores) - 1 - frame) * beta
        if kind == "rnnt" and beta:  # a blank takes beta of the next frame
            shift = shift + np.where(frame < len(scores) - 1, 0.1, 0.0)
        wrong = occupied * np.exp(shift.reshape(-1, *[1] * (scores.ndim - 1)))
        sums = (wrong if own_sums else occupied).sum(-1, keepdims=True)
        found = {"loss": loss, "gradient": np.exp(log_probs) * sums - wrong, "log_alpha": a, "log_beta": b}
        return {name: found[name] for name in ("loss", "gradient", *give)}
    return function_subject(function, kind)


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize("own_sums", [False, True])
@pytest.mark.parametrize(("how", "said"), [
    ({"alpha": True}, "log Z is right; alpha or beta is wrong."),
    ({"beta": True}, "log Z is right; alpha or beta is wrong."),
    ({"alpha": True, "give": ["log_alpha"]}, "log Z is right; alpha is wrong."),
    ({"beta": True, "give": ["log_alpha"]}, "log Z and alpha are right; beta is wrong."),
    ({"alpha": True, "give": ["log_alpha", "log_beta"]}, "log Z and beta are right; alpha is wrong."),
])
def test_of_alpha_and_beta_no_more_is_blamed_than_can_be_seen(kind, own_sums, how, said):
    report = grade(broken(kind, own_sums=own_sums, **how), without=[*SLOW_GROUPS, "bad input"], shrink=False)
    assert any(f"do not belong together: {said}" in sentence for sentence in sentences(report)), report


def test_it_draws_the_smallest_input():
    """A loss that takes any two equal labels for one: seen first where two frames spell 1 1."""
    bug = next(bug for bug in BUGS if bug.name == "skip between equal labels")
    (finding,) = grade(candidate_subject(bug), without=SLOW_GROUPS).findings
    assert finding.example.splitlines() == [
        "T = 2, U = 2, V = 2, blank 0, targets [1, 1]", "  all scores 0", "  there is no path: Z = 0",
        "  loss: 1.38629436, expected inf"]


def test_different_answers_to_one_question():
    rng = np.random.default_rng(0)

    def function(scores, targets, *, blank):
        loss, gradient = right("rnnt")(scores, targets, blank=blank)
        return loss, gradient + 1e-12 * rng.normal()

    assert sentences(grade(function_subject(function, "rnnt"), without=SLOW_GROUPS, shrink=False)) == [
        "The same input gives different answers when it is asked again."]


@pytest.mark.parametrize(("function", "said"), [
    (lambda scores, targets, *, blank: 1 / 0, "It cannot be asked: ZeroDivisionError: division by zero"),
    (lambda scores, targets: None, "It cannot be asked: TypeError: "),
    (lambda scores, targets, *, blank: "no", "It cannot be asked: ValueError: what it returns is no array"),
    (lambda scores, targets, *, blank: right("ctc")(scores, targets, blank=blank)[::-1],
     "It cannot be asked: TypeError: it returns (gradient, loss); expected (loss, gradient)"),
    (lambda scores, targets, *, blank: {"loss": 0.0, "grad": scores},
     "It cannot be asked: ValueError: it returns a dict with 'grad'; expected names of loss, gradient, log_alpha"),
    (lambda scores, targets, *, blank: (None, None), "Neither a loss nor a gradient comes back."),
    (lambda scores, targets, *, blank: (0.0, np.zeros(3)), "The gradient has shape (3,); expected (3, 4)."),
    (lambda scores, targets, *, blank: (np.nan, np.full_like(scores, np.nan)), "It returns NaN for everything."),
])
def test_whatever_the_function_does(function, said):
    report = grade(function_subject(function, "ctc"), without=SLOW_GROUPS, shrink=False)
    assert any(sentence.startswith(said) for sentence in sentences(report)), report
    str(report), report.as_junit(), json.dumps(report.as_json(), allow_nan=False)


def replaced(loss, when):
    """A right CTC loss but where ``when(scores, targets)``."""
    def function(scores, targets, *, blank):
        found, gradient = right("ctc")(scores, targets, blank=blank)
        return (loss if when(scores, targets) and np.isfinite(found) else found), gradient
    return function


@pytest.mark.parametrize(("function", "said"), [
    (replaced(np.inf, lambda scores, targets: np.isinf(scores).sum() > 2),
     "The loss is infinite where a score is -inf, a mask, though an alignment is left."),
    (replaced(np.inf, lambda scores, targets: scores.shape[1] == 1),
     "The loss is infinite where a target is empty: is it divided by the number of its labels, 0?"),
    (replaced(np.inf, lambda scores, targets: 500 < scores.max(initial=0) - scores.min(initial=0) < np.inf),
     "The loss is infinite, though an alignment exists: do probabilities underflow, or logits overflow?"),
    (replaced(0.0, lambda scores, targets: np.isinf(scores).all(-1).any() or np.isinf(scores).sum() == 2),
     "The loss is 0 where a score is -inf, a mask: is a NaN taken for 0?"),
    (replaced(7.25, lambda scores, targets: np.isinf(scores).any()),
     "The loss is wrong where a score is -inf, a mask, in a way that has no name here.")])
def test_where_no_cause_is_known_what_is_seen_is_said(function, said):
    (finding,) = grade(function_subject(function, "ctc"), without=SLOW_GROUPS, shrink=False).findings
    assert finding.sentence == said and finding.fields == ("loss",)


def test_what_is_expected_has_to_exist():
    with pytest.raises(Expectation, match=r"expect: 'lambda'; expected one of inputs, variable, .*fastemit"):
        grade(function_subject(right("ctc"), "ctc"), expect={"lambda": "0.1"})
    with pytest.raises(Expectation, match=r"without: 'mask'; expected one of labels, .*masks"):
        grade(function_subject(right("ctc"), "ctc"), without=["mask"])
    with pytest.raises(Expectation, match=r"precisions: 'float8'; expected one of float64"):
        grade(function_subject(right("ctc"), "ctc"), precisions=["float8"])


# --- the cases ---


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_cases(kind):
    found = cases(kind, ("float32", "float64"))
    assert len({case.id for case in found}) == len(found) and {case.group for case in found} <= set(GROUPS)
    assert {case.precision for case in found if case.group != "accuracy"} == {"float32"}
    assert all(case.problem.loss == kind for case in found)
    vectors = json.loads((Path(__file__).parents[1] / "data" / "vectors" / f"{kind}.json").read_text(encoding="utf-8"))
    assert {case["id"] for case in vectors["cases"]} <= {case.id for case in found}


# --- the smallest input ---


def problem(T=6, targets=(1, 2, 1, 3), V=5, kind="ctc", **more):
    shape = (T, V) if kind == "ctc" else (T, len(targets) + 1, V)
    return Problem("", "", np.random.default_rng(0).normal(size=shape), np.array(targets), **more)


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize(("fails", "sizes"), [
    (lambda p: len(p.logits) > 2, (3, 0, 2)), (lambda p: len(p.targets) > 1, (1, 2, 2)),
    (lambda p: p.logits.shape[-1] > 3, (1, 0, 4)), (lambda p: len(set(p.targets.tolist())) > 1, (1, 2, 3)),
    (lambda p: len(p.logits) > 4 and len(p.targets) > 2, (5, 3, 4)), (lambda p: p.logits.any(), (1, 0, 2))])
def test_smallest(kind, fails, sizes):
    """Sizes that are all tried, and sizes to which only cutting down leads."""
    found = smallest(fails, problem(kind=kind))
    assert fails(found) and (len(found.logits), len(found.targets), found.logits.shape[-1]) == sizes
    assert found.logits.shape[1:-1] == ((len(found.targets) + 1,) if kind == "rnnt" else ())


def test_smallest_keeps_what_is_infinite():
    start = problem()
    start.logits[2, 3] = -np.inf
    found = smallest(lambda p: np.isinf(p.logits).any(), start)
    assert found.logits.shape == (1, 2) and np.isinf(found.logits).sum() == 1


def test_smallest_of_a_batch():
    logits = np.random.default_rng(0).normal(size=(3, 4, 3))
    start = Problem("", "", logits, np.ones((3, 2), dtype=int), logit_lengths=np.array([4, 2, 3]),
                    target_lengths=np.array([1, 2, 0]))
    found = smallest(lambda p: p.is_batch and 2 in p.logit_lengths, start)
    assert found.logits.shape == (1, 2, 2) and found.logit_lengths.tolist() == [2] and not found.logits.any()
    alone = smallest(lambda p: not p.is_batch and len(p.targets) == 2, start)
    assert alone.logits.shape == (1, 2)


def test_smallest_gives_up_in_time():
    asked = []
    start = problem(T=40)
    found = smallest(lambda p: bool(asked.append(p)) or p is start, start, tries=50)
    assert len(asked) <= 50 and np.array_equal(found.logits, start.logits)


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_alignments_add_up(kind):
    one = problem(T=4, targets=(1, 1), V=3, kind=kind)
    total = sum(mass for _, mass in alignments(one))
    assert np.isclose(-np.log(total), MODULES[kind].loss(log_softmax(one.logits), one.targets), rtol=1e-12, atol=0)


def test_drawn():
    one = Problem("", "", np.zeros((2, 2, 2)), np.array([1]))
    assert drawn(one, {"loss": (0.5, 1.0)}).splitlines() == [
        "T = 2, U = 1, V = 2, blank 0, targets [1]", "  all scores 0", "  path  ∅ 1 ∅   0.125", "  path  1 ∅ ∅   0.125",
        "  their sum Z = 0.25", "  loss: 0.5, expected 1"]


# --- the command, and other formats ---


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("""
from reference_impl import ctc, log_softmax
from reference_impl.torch_impl import rnnt_loss as batched

def good(scores, targets, *, blank):
    return ctc.loss(log_softmax(scores), targets, blank=blank), ctc.grad_logits(scores, targets, blank=blank)

def third(scores, targets, *, blank):
    loss, gradient = good(scores, targets, blank=blank)
    return loss, gradient / 3
""", encoding="utf-8")
    return path


def test_the_command(module, tmp_path, capsys):
    out = tmp_path / "report.json", tmp_path / "report.xml"
    assert main([f"{module}:good", "--kind", "ctc", "--without", "accuracy"]) == 0
    assert main([f"{module}:batched", "--kind", "rnnt", "--batch", "--without", "accuracy"]) == 0
    arguments = [f"{module}:third", "--kind", "ctc", "--quick", "--without", "accuracy"]
    assert main([*arguments, "--json", str(out[0]), "--junit", str(out[1])]) == 1
    assert "The gradient is multiplied by 0.333333; the loss is not scaled." in capsys.readouterr().out
    assert main([*arguments, "--expect", "gradient_factor=0.333333"]) == 0
    report = json.loads(out[0].read_text(encoding="utf-8"))
    assert report["right"] is False and report["conventions"]["gradient_factor"] == "0.333333"
    suite = ElementTree.fromstring(out[1].read_text(encoding="utf-8"))
    assert suite.get("failures") == "1" == str(len(suite.findall("testcase/failure")))
    assert int(suite.get("tests")) == len(suite.findall("testcase")) and int(suite.get("skipped")) == len(
        suite.findall("testcase/skipped")) == 4


def test_a_group_that_is_left_out_takes_one_value(module):
    assert main(["--without", "accuracy", f"{module}:good", "--kind", "ctc", "--without", "bad input", "--quick"]) == 0


SHAPES = """
import torch
from reference_impl.torch_impl import ctc_loss, rnnt_loss

def of(loss, shape, detached):
    def function(*arguments, blank=0):
        found = loss(*arguments, blank=blank, reduction="none" if shape == "column" else "sum")
        found = found.detach() if detached else found
        return {"one": lambda: found.reshape(1), "scalar": lambda: found, "float": lambda: float(found),
                "column": lambda: found[:, None]}[shape]()
    return function

for kind, loss in (("ctc", ctc_loss), ("rnnt", rnnt_loss)):
    for shape in ("one", "scalar", "float", "column"):
        for detached in (False, True):
            globals()[f"{kind}_{shape}_{detached}"] = of(loss, shape, detached)
"""


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize(("shape", "detached"), [
    ("one", False), ("one", True), ("scalar", False), ("scalar", True), ("float", True), ("column", False)])
def test_shapes_of_batch_losses(kind, shape, detached, tmp_path, capsys):
    """One number for a batch may have an axis; what is no loss of a batch is named, with what is expected."""
    (tmp_path / "shapes.py").write_text(SHAPES, encoding="utf-8")
    without = [group for group in GROUPS if group not in ("labels", "batch", "upstream")]
    status = main([f"{tmp_path / 'shapes.py'}:{kind}_{shape}_{detached}", "--kind", kind, "--batch", "--quick",
                   *(word for group in without for word in ("--without", group))])
    out = capsys.readouterr().out
    if shape == "column":
        assert status == 1
        assert re.search(r"it returns losses of shape \((\d), 1\); expected \(\1,\), one for each utterance, or", out)
    else:
        assert status == 0 and "reduction sum" in out
        assert ("no gradient came back, and none was checked" in out) is detached


@pytest.mark.parametrize(("arguments", "says"), [
    (["mine:good"], "which loss?"), (["no.such:good", "--kind", "ctc"], "No module named"),
    (["no_such.py:good", "--kind", "ctc"], "no_such.py cannot be imported: FileNotFoundError"),
    ([":good", "--kind", "ctc"], "cannot be imported: ValueError"),
    (["math:pi", "--kind", "ctc"], "math:pi is of type float; expected a function"),
    (["--program"], "--program; expected a command"),
    (["math:exp", "--kind", "ctc", "--json", "no/such/folder.json"], "--json no/such/folder.json; expected a file"),
    (["math:nothing", "--kind", "ctc"], "has no attribute 'nothing'"),
    (["math", "--kind", "ctc"], "expected module:function"),
    (["math:exp", "--kind", "ctc", "--expect", "clamp"], "expected NAME=VALUE"),
    (["math:exp", "--kind", "ctc", "--expect", "clip=1"], "expected one of inputs"),
    (["--program", "no-such-program"], "No such file")])
def test_nothing_to_grade(arguments, says, capsys):
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize("code", ["raise ValueError('two\\nlines')", "import sys; sys.exit(3)", "def loss(:"])
def test_a_module_that_cannot_be_imported(code, tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text(code, encoding="utf-8")
    assert main([f"{path}:loss", "--kind", "ctc"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} cannot be imported: " in line


@pytest.mark.parametrize("make", [function_subject, torch_subject])
def test_what_cannot_be_called_is_no_subject(make):
    with pytest.raises(TypeError, match="function = 3; expected something that can be called"):
        make(3, "ctc")


def test_the_fixture_of_pytest(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["reference_impl.conformance.pytest_plugin"]\n')
    (tmp_path / "test_mine.py").write_text("""
import pytest
from reference_impl import ctc, log_softmax

def loss(scores, targets, *, blank):
    return ctc.loss(log_softmax(scores), targets, blank=blank), ctc.grad_logits(scores, targets, blank=blank)

def test_right(conformance):
    assert conformance(loss, kind="ctc", without=["accuracy"]).right

def test_loss_alone(conformance):
    with pytest.warns(UserWarning, match="No gradient came back, and none was checked"):
        conformance(lambda *a, blank: loss(*a, blank=blank)[0], kind="ctc", without=["accuracy"])

def test_wrong(conformance):
    conformance(lambda *a, blank: tuple(2 * x for x in loss(*a, blank=blank)), kind="ctc", without=["accuracy"],
                expect={"factor": "1"}, shrink=False)
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:reference_impl_conformance"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")})
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "factor = 1 was expected; it is 2." in done.stdout and "Traceback" not in done.stdout


# --- programs ---

ECHO = """
import sys, json
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], %s}), flush=True)
"""


@pytest.mark.parametrize(("code", "says"), [
    ("pass", "ended with status 0"), ("raise SystemExit('I am tired')", "I am tired"), ("print('hello')", "no JSON"),
    ("print('{}')", "no answer to 'about'"), (ECHO % '"kind": "hmm"', "kind = 'hmm'; expected one of"),
    (ECHO % '"kind": "ctc", "can": ["fly"]', "can = 'fly'; expected one of"),
    (ECHO % '"kind": "ctc", "can": 3', "can = 3; expected a list of 'batch'"),
    (ECHO % '"kind": "ctc", "precisions": "float64"', "precisions = 'float64'; expected a list of 'float64'"),
    (ECHO % '"kind": "ctc", "scores": "probs"', "scores = 'probs'; expected one of")])
def test_programs_that_do_not_answer(code, says):
    with pytest.raises(NotAnswering, match=says.replace("(", r"\(")), Program([sys.executable, "-c", code]):
        pass


def test_a_program_that_ends_is_started_again():
    """One case ends it; the others are answered."""
    code = """
import os
from reference_impl import ctc, log_softmax
from reference_impl.conformance import answer
def loss(inputs, precision):
    if inputs["targets"].size == 0:
        os._exit(3)
    return {"loss": ctc.loss(log_softmax(inputs["logits"]), inputs["targets"], blank=inputs["blank"]),
            "gradient": ctc.grad_logits(inputs["logits"], inputs["targets"], blank=inputs["blank"])}
answer(loss, kind="ctc", name="fragile")
"""
    with Program([sys.executable, "-c", code]) as subject:
        report = grade(subject, without=SLOW_GROUPS, shrink=False)
    (finding,) = report.findings
    assert finding.sentence.startswith("It does not answer: the program ended with status 3")
    assert set(finding.cases) == {"short/empty-target", "short/one-frame-empty-target", "short/one-symbol",
                                  "short/no-frames-empty-target"}


FASTEMIT = """
from reference_impl import log_softmax, rnnt
from reference_impl.conformance import answer
def loss(inputs, precision):
    strength = inputs.get("fastemit_lambda", 0.0)
    args, blank = (inputs["targets"],), inputs["blank"]
    return {"loss": (1 + %s * strength) * rnnt.loss(log_softmax(inputs["logits"]), *args, blank=blank),
            "gradient": rnnt.grad_logits(inputs["logits"], *args, blank=blank, fastemit_lambda=strength)}
answer(loss, kind="rnnt", name="mine", can=["fastemit"])
"""


@pytest.mark.parametrize("multiplied", [False, True])
def test_the_loss_with_fastemit(multiplied):
    """-log Z whatever lambda is, or times 1 + lambda, as warprnnt_numba has it: a convention."""
    with Program([sys.executable, "-c", FASTEMIT % int(multiplied)]) as subject:
        report = grade(subject, without=SLOW_GROUPS, shrink=False)
        said = "With FastEmit the loss is -log Z times 1 + lambda; expected -log Z."
        assert sentences(report) == [said] * multiplied
        assert ("times 1 + lambda with FastEmit" in str(report)) is multiplied
        assert report.groups["fastemit"].asked > 2 and not report.groups["fastemit"].wrong
        value = "(1 + lambda) (-log Z)" if multiplied else "-log Z"
        assert grade(subject, without=SLOW_GROUPS, shrink=False, expect={"fastemit_loss": value}).right


def test_a_program_that_is_slow():
    code = ECHO.replace("    print", "    __import__('time').sleep(60 * (asked['ask'] != 'about'))\n    print")
    with Program([sys.executable, "-c", code % '"kind": "ctc"'], patience=0.5) as subject:
        with pytest.raises(Exception, match="no answer after 0.5 s"):
            subject.ask(problem())


def test_torch_losses_with_other_integers():
    """A loss that takes int32 alone is asked with those."""
    def loss(logits, targets, logit_lengths, target_lengths, *, blank):
        if targets.dtype != torch.int32:
            raise TypeError("int32, please")
        return rnnt_loss(logits, targets, logit_lengths, target_lengths, blank=blank, reduction="none")

    assert grade(torch_subject(loss, "rnnt"), without=SLOW_GROUPS, shrink=False).right
