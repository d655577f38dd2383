"""What a report says of numerical errors: names, the smallest input that fails, where it fails, errors carried forward.

The submissions of `course/corpus/numerical_errors.toml` run here in this process, with the cases that the grader draws;
`test_coursework.py` has the grader itself.
"""

import json
import re
import time
import tomllib

import numpy as np
import pytest
from test_coursework import ROOT, find, run_course, source, text_of

from coursework import check
from coursework.asking import SPARE, ask, released
from coursework.counterexamples import circumstances
from coursework.questions import ASSIGNMENTS, ladders
from coursework.questions.question import Case, Question
from coursework.tried import Tried
from coursework.verdicts import judge, right_answers
from reference_impl import ctc, log_softmax, rnnt
from reference_impl.conformance.encoding import decoded, encoded

SEEDS = 17, 1234567
WITHOUT_A_NAME = "is wrong, in a way that has no name here"
ERRORS = tomllib.loads((ROOT / "course" / "corpus" / "numerical_errors.toml").read_text(encoding="utf-8"))["submission"]


def graded(assignment, *changes):
    """Verdicts on the solution with these changes, by question, as the referee has them."""
    names, verdicts, wrong = {}, {}, []
    for cell in source(assignment)["cells"]:
        text = text_of(cell)
        for change in changes:
            if change and change["cell"] == cell["id"]:
                assert change["old"] in text
                text = text.replace(change["old"], change["new"])
        mark = cell["metadata"].get("nbgrader", {})
        if mark.get("grade"):
            name = mark["grade_id"]
            question = ASSIGNMENTS[assignment][name]
            cases = question.posed(*SEEDS)
            answers = ask(names.get(name), [released(case.as_data(), wrong) for case in cases])
            verdicts[name] = judge(question, cases, answers)
            if not right_answers(question, cases, answers):
                wrong.append(name)
        elif cell["cell_type"] == "code":
            with np.errstate(all="ignore"):
                exec(text.replace("variant = 0", f"variant = {SEEDS[0]}"), names)
    return verdicts


# --- numerical errors ---


def example(verdict):
    """The lines of the smallest input that fails."""
    return next(each for each in verdict.details if each.startswith("The smallest input that fails:")).splitlines()[2:]


@pytest.mark.parametrize("entry", ERRORS, ids=lambda entry: entry["name"])
def test_numerical_error(entry):
    """It costs the points of one question, is named as its entry says, and a small input shows both numbers."""
    verdicts = graded(entry["assignment"], entry, entry.get("also"))
    (wrong,) = [verdict for verdict in verdicts.values() if not verdict.right]
    assert wrong.findings == (entry.get("says", f"It {WITHOUT_A_NAME}."),)
    lines = example(wrong)
    assert len(lines) <= 14 and any("found" in line and WITHOUT_A_NAME not in line for line in lines)
    assert any("expected" in line for line in lines)
    assert any("It fails" in each for each in wrong.details)


def test_enough_of_the_errors_have_a_name():
    """Of the first thirty, which were written before; and of the fifteen that came after."""
    named = ["says" in entry for entry in ERRORS]
    assert len(named) == 45 and sum(named[:30]) >= 24 and sum(named[30:]) >= 10


ALPHA, BETA = "answer-alpha", "answer-beta"
FREQUENT = {  # by what it is: assignment, cell, a part of the solution, what stands there instead, what is said
    "labels shifted": ("4_rnnt_gradient", BETA, "targets[u]]", "np.roll(targets, -1)[u]]", "shifted by one place"),
    "negative index": ("4_rnnt_gradient", ALPHA, "targets[u - 1]]", "targets[u - 2]]",
                       "It reads the label of the row before, and the last label where there is none."),
    "blank 0": ("2_ctc_beta", BETA, "2 * len(targets) + 1, blank)", "2 * len(targets) + 1, 0)", "symbol 0 for that of"),
    "stand-in": ("2_ctc_beta", BETA, "-np.inf)", "-1e10)", "-1e+10 stands where -inf is asked for."),
    "eps": ("4_rnnt_gradient", ALPHA, "return alpha", "return np.log(np.exp(alpha) + 1e-10)",
            "1e-10 is added in the logarithm"),
    "bits": ("1_ctc_alpha", "answer-loss", "return -", "return -1 / np.log(2) * ", "It is in bits"),
    "float32": ("4_rnnt_gradient", BETA, "(T, rows), -np.inf)", "(T, rows), -np.inf, dtype=np.float32)",
                "stored in float32"),
    "time reversed": ("1_ctc_alpha", ALPHA, "    z = ", "    log_probs = log_probs[::-1]\n    z = ", "reversed"),
    "rescaled": ("1_ctc_alpha", ALPHA, "    return alpha", "    return alpha - alpha.max(axis=1, keepdims=True)",
                 "Each frame is rescaled"),
    "wrong axis": ("4_rnnt_gradient", "answer-logits", "reduce(logits, axis=-1", "reduce(logits, axis=1", "wrong axis"),
    "divided by T": ("3_ctc_gradient", "answer-log-probs", "targets, blank)\n    #",
                     "targets, blank) / len(log_probs)\n    #", "divided by the number of frames"),
    "frame shifted": ("3_ctc_gradient", "answer-occupancy", "return posteriors",
                      "return np.roll(posteriors, 1, axis=0)", "frame"),
    "last blank": ("4_rnnt_gradient", BETA, "log_probs[-1, -1, blank]", "0.0", "The last blank is missing"),
    "sign": ("2_ctc_beta", "answer-loss", "return -", "return ", "Its sign is wrong"),
}


@pytest.mark.parametrize("assignment, cell, old, new, says", FREQUENT.values(), ids=list(FREQUENT))
def test_frequent_errors_have_names(assignment, cell, old, new, says):
    verdicts = graded(assignment, {"cell": cell, "old": old, "new": new})
    wrong = next(verdict for verdict in verdicts.values() if not verdict.right)
    assert says in wrong.findings[0], wrong


def test_zero_without_an_alignment_is_no_probability():
    """It is one for somebody who returns probabilities everywhere, and only then."""
    question = find("1_ctc_alpha", "loss")
    cases = question.drawn(*SEEDS)
    for answer, says in ((lambda *a: loss if np.isfinite(loss := ctc_loss(*a)) else 0.0, "It is 0 where no alignment"),
                         (lambda *a: np.exp(-ctc_loss(*a)), "It is the probability, not minus its logarithm.")):
        findings = judge(question, cases, ask(answer, [case.as_data() for case in cases])).findings
        assert len(findings) == 1 and findings[0].startswith(says)


def ctc_loss(log_probs, targets, blank):
    return ctc.loss(log_probs, targets, blank=blank)


# --- small cases ---


@pytest.mark.parametrize("problems, loss", [(ladders.ctc, ctc.loss), (ladders.rnnt, rnnt.loss)])
def test_ladder(problems, loss):
    """Smallest first, with two frames and a label at the beginning; edges of every kind; impossible ones if wanted."""
    small = problems()
    assert problems() is small and 50 < len(small) < 150
    assert all(small[0].logits.shape[i] == 2 for i in (0, -1)) and small[0].targets.tolist() == [1]
    assert {len(each.targets) for each in small} >= {0, 1, 2, 3} and {each.blank for each in small} >= {0, 1, 2, 3}
    assert any(np.isinf(each.logits).any() for each in small) and any(len(each.logits) == 1 for each in small)
    losses = [loss(log_softmax(each.logits), each.targets, blank=each.blank) for each in problems(impossible=True)]
    assert np.isinf(losses).any() and len(losses) == len(small) + np.isinf(losses).sum()


def test_small_cases_earn_nothing_and_cost_nothing():
    """An answer that is right on what is graded has all points, whatever it does with small cases."""
    for question in (find("1_ctc_alpha", "loss"), find("2_ctc_beta", "log_beta")):  # with helpers, and without any
        cases, own = question.posed(*SEEDS), question.drawn(*SEEDS)

        def right_on_these(log_probs, targets, blank, question=question, own=own):
            there = any(np.array_equal(log_probs, case.arguments["log_probs"]) for case in own)
            return question.right(log_probs, targets, blank) if there else 7.0

        verdict = judge(question, cases, ask(right_on_these, [released(case.as_data(), []) for case in cases]))
        assert (verdict.points, verdict.findings, verdict.details) == (question.total, ("right",), ())


def test_small_cases_take_no_time_from_the_others():
    """A slow answer is asked few of them; the graded ones are all asked, and one that hangs ends nothing."""
    def slow(x):
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        return x

    def hangs_at_4(x):
        while x == 4:
            pass
        return x

    data = [{"arguments": {"x": encoded(x)}} for x in (1, 2, 3)] + [
        {"arguments": {"x": encoded(x)}, "spare": True} for x in range(4, 40)]
    answers = ask(slow, data)
    assert all("value" in each for each in answers[:3])
    asked = sum("value" in each for each in answers[3:])
    assert 1 <= asked <= SPARE / 0.3 + 1 and all(each == {"skipped": True} for each in answers[3 + asked:])
    answers = ask(hangs_at_4, data)
    assert all("value" in each for each in answers[:3]) and all(each == {"skipped": True} for each in answers[3:])


def test_answers_without_those_to_small_cases():
    """They are judged by what is graded; with fewer than that there is no answer."""
    question = find("2_ctc_beta", "log_beta")
    cases = question.posed(*SEEDS)
    answers = ask(question.right, [case.as_data() for case in question.drawn(*SEEDS)])
    assert judge(question, cases, answers).right and not judge(question, cases, answers[:-1]).right


def test_what_fails_beyond_the_ladder_is_cut_down():
    """At home the kit's shrinker asks again, and finds the fewest labels that fail."""
    question = find("1_ctc_alpha", "loss")

    def wrong_from_five_frames(log_probs, targets, blank):
        return ctc.loss(log_probs, targets, blank=blank) + (len(log_probs) > 5)

    cases = question.posed(3)
    verdict = judge(question, cases, ask(wrong_from_five_frames, [released(case.as_data(), []) for case in cases]),
                    None, lambda case: ask(wrong_from_five_frames, [case.as_data()])[0])
    lines = example(verdict)
    assert lines[0].count("[") == 7 and "targets = []" in lines[1].strip()  # six frames, and nothing else


# --- where it fails ---


@pytest.mark.parametrize("fails, says", [
    (lambda log_probs, targets, blank: len(set(targets.tolist())) < len(targets), "a label occurs twice in the target"),
    (lambda log_probs, targets, blank: (targets[1:] == targets[:-1]).any(), "two equal labels stand side by side"),
    (lambda log_probs, targets, blank: blank != 0, "the blank is not 0"),
    (lambda log_probs, targets, blank: len(targets) > 1, "there is more than one label (U > 1)"),
    (lambda log_probs, targets, blank: len(set(targets.tolist())) > 1, "there are two different labels"),
    (lambda log_probs, targets, blank: len(log_probs) == len(targets), "there are as many frames as labels (T = U)"),
    (lambda log_probs, targets, blank: not len(targets), "the target is empty"),
    (lambda log_probs, targets, blank: np.isinf(log_probs).any(), "a score is -inf"),
    (lambda log_probs, targets, blank: len(log_probs) == 1 and len(targets) == 1, "there is one frame (T = 1)"),
])
def test_what_failures_have_in_common(fails, says):
    tried = []
    for problem in ladders.ctc():
        case = Case("", {"log_probs": log_softmax(problem.logits), "targets": problem.targets, "blank": problem.blank})
        wrong = bool(fails(**case.arguments))
        tried.append(Tried(case, {"value": encoded(float(wrong))}, np.float64(0.0), 1e-9))
    said, count = circumstances(tried), sum(each.wrong for each in tried)
    assert says in said and f"on all {count} such inputs" in said and f"of the {len(tried) - count} others" in said


# --- errors carried forward ---


def test_one_error_costs_one_answer():
    """The scatter bug costs the occupancy, and the two gradients are right with a right one; the report says so."""
    scatter = next(entry for entry in ERRORS if entry["name"] == "buffered-scatter")
    verdicts = graded("3_ctc_gradient", scatter)
    assert [verdict.points for verdict in verdicts.values()] == [0.0, 1.0, 1.0, 3.0, 3.0]
    assert "With a right `occupancy` in the place of yours it is right." in verdicts["grad_logits"].findings[0]


def test_a_second_error_is_seen_beside_the_first():
    """With a right helper the later question's own error has its own name."""
    scatter = next(entry for entry in ERRORS if entry["name"] == "buffered-scatter")
    verdicts = graded("3_ctc_gradient", scatter,
                      {"cell": "answer-log-probs", "old": "return -", "new": "return "})
    assert verdicts["grad_log_probs"].points == 0
    assert [each.partition(",")[0] for each in verdicts["grad_log_probs"].findings] == [
        "With a right `occupancy` in the place of yours", "Its sign is wrong: the loss is minus log Z."]
    assert verdicts["grad_logits"].points == 1


def test_what_was_not_written_costs_its_own_points_only():
    """The stub of an earlier question raises in later ones, too; these have their points, or say what is theirs."""
    written = "    states = np.full"
    stub = {"cell": "answer-extended", "old": written, "new": f"    raise NotImplementedError()\n{written}"}
    verdicts = graded("1_ctc_alpha", stub)
    assert verdicts["extended_target"].findings == ("Nothing was written there.",)
    assert not verdicts["extended_target"].details
    assert [verdict.points for verdict in verdicts.values()] == [1.0, 0.0, 6.0, 2.0]
    assert "is right" in verdicts["log_alpha"].findings[0]
    number = {"cell": "answer-number", "old": "number_of_alignments = sum(", "new": "number_of_alignments = None\nsum("}
    verdicts = graded("1_ctc_alpha", number)
    assert verdicts["number_of_alignments"].findings == ("Nothing was written there.",)
    nothing_returned = {"cell": "answer-alpha", "old": "    return alpha", "new": "    pass"}
    assert "NoneType" in graded("1_ctc_alpha", nothing_returned)["log_alpha"].findings[0]


def test_nobody_has_a_right_helper_for_nothing():
    """Those of questions that are right, or not answered yet, are not told, and a name that they had is put back."""
    question = find("3_ctc_gradient", "grad_log_probs")
    cases = [case.as_data() for case in question.posed(1, 2)]
    told = [released(case, []) for case in cases]
    assert not any(case.get("helpers") for case in told) and any(case.get("skip") for case in told)
    names = {"occupancy": ctc.occupancy}
    exec("def answer(log_probs, targets, blank):\n    return -occupancy(log_probs, targets, blank)", names)
    found = ask(names["answer"], [released(case, ["occupancy"]) for case in cases])
    assert names["occupancy"] is ctc.occupancy
    assert any(each.get("helped") == ["occupancy"] and "value" in each for each in found)
    assert not any("log_alpha" in each.get("helped", ()) for each in found)


def test_helpers_are_those_of_earlier_questions():
    for questions in ASSIGNMENTS.values():
        names = list(questions)
        for question in questions.values():
            assert all(names.index(name) < names.index(question.name) for name in question.helpers)
            for name in question.helpers:
                case = questions[name].drawn(1)[0]
                helped = next(each for each in question.posed(1) if name in each.helpers)
                np.testing.assert_array_equal(helped.helpers[name](**case.arguments),
                                              questions[name].answers(questions[name].right, [case])[0])


def test_home_carries_errors_forward(capsys):
    names = {}
    exec("import numpy as np\n"
         "def log_beta(log_probs, targets, blank):\n    return np.zeros((len(log_probs), 2 * len(targets) + 1))\n"
         "def loss_from_beta(log_probs, targets, blank):\n"
         "    emitted = np.array([log_probs[0, blank], *log_probs[0, targets[:1]]])\n"
         "    return -np.logaddexp.reduce(log_beta(log_probs, targets, blank)[0][:2] + emitted)\n", names)
    assert check("2_ctc_beta", "loss_from_beta", names["loss_from_beta"]) == 1.0
    assert "With a right `log_beta` in the place of yours" in capsys.readouterr().out
    assert check("2_ctc_beta", "log_beta", names["log_beta"]) == 0.0
    said = capsys.readouterr().out
    assert "expected" in said and "path  ∅ 1   probability 1/4" in said


def test_the_grader_carries_errors_forward(once, course_python):
    """The whole way: the referee tells a submission of a right function after its own was judged."""
    program = """
import json, sys
from pathlib import Path
from coursework.grading import Course, SOURCES
from coursework.corpus import changed
from coursework.release import read
folder, entry = Path(sys.argv[1]), json.loads(sys.argv[2])
path = folder / "in" / "ada" / "3_ctc_gradient.ipynb"
path.parent.mkdir(parents=True)
source = SOURCES / "3_ctc_gradient" / path.name
path.write_text(json.dumps(changed(read(source), entry, source)))
Course(folder / "course").grade("3_ctc_gradient", folder / "in")
"""

    def fill(folder):
        entry = next(entry for entry in ERRORS if entry["name"] == "buffered-scatter")
        run = run_course(course_python, "-c", program, folder, json.dumps(entry))
        assert run.returncode == 0, run.stderr

    report = (once("carried", fill) / "course" / "reports" / "3_ctc_gradient" / "ada.md").read_text(encoding="utf-8")
    assert "# ada: 8 of 10 points" in report and report.count("With a right `occupancy` in the place of yours") == 2
    assert re.search(r"^- The smallest input that fails:\n\n      log_probs = np\.log", report, re.M)


# --- what a report may show ---


def test_a_report_has_no_hidden_number():
    """Inputs and right answers in it are those of small cases, which everybody has; a question may keep these, too."""
    question = find("2_ctc_beta", "log_beta")
    cases = question.posed(*SEEDS)
    answers = ask(lambda *a: 1.01 * ctc.log_beta(*a[:2], blank=a[2]), [case.as_data() for case in cases])
    said = str(judge(question, cases, answers))
    hidden = {f"{x:.{digits}g}" for case in question.drawn(*SEEDS) for array in (
        case.arguments["log_probs"], question.right(**case.arguments)) for x in np.ravel(array) if np.isfinite(x) and x
        for digits in (5, 6)}
    shown = set(re.findall(r"-?\d+\.\d{3,}", said))
    assert shown and not shown & hidden
    kept = Question(**{**vars(question), "shows_expected": False})
    assert "found" in str(judge(kept, cases, answers)) and "expected" not in str(judge(kept, cases, answers))


def test_found_values_are_those_that_came_back():
    """The example's numbers are those of the answer to the smallest case that fails."""
    question = find("1_ctc_alpha", "loss")
    cases = question.posed(*SEEDS)
    answers = ask(lambda *a: 3 * ctc_loss(*a), [released(case.as_data(), []) for case in cases])
    first = next(i for i, case in enumerate(cases) if case.small)
    found = decoded(answers[first]["value"])
    assert f"found     {found:.6g}" in str(judge(question, cases, answers))
