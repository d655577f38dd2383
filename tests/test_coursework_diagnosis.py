"""What a report says of numerical errors: names, the smallest input that fails, where it fails, errors carried forward.

The submissions of `course/corpus/numerical_errors.toml` run here in this process, with the cases that the grader draws;
`test_coursework.py` has the grader itself.
"""

import contextlib
import itertools
import json
import re
import time
import tomllib

import numpy as np
import pytest
from test_coursework import ROOT, find, run_course, source, text_of

from coursework import check
from coursework.asking import SPARE, ask, released
from coursework.diagnosis.counterexamples import circumstances, drawn, places
from coursework.diagnosis.tried import Tried, same
from coursework.diagnosis.verdicts import judge, right_answers
from coursework.questions import ASSIGNMENTS, ladders
from coursework.questions.question import Case, Question
from coursework.questions.sealed import Own
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
            with np.errstate(all="ignore"):  # a warning is no error where submissions run
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


OWN = {  # in questions of a student's own rules and beside them: assignment, cell, old, new, what is said
    "sums multiplied": ("2_ctc_beta", "answer-frames", "reduce(log_alpha + log_beta, axis=1)",
                        "reduce(log_alpha, axis=1) + np.logaddexp.reduce(log_beta, axis=1)", "multiplies the sums"),
    "blank 0 in a machine": ("2_ctc_beta", "answer-own-beta", "2 * len(targets) + 1, blank)",
                             "2 * len(targets) + 1, 0)", "It takes symbol 0 for the blank"),
    "weights in alpha": ("3_ctc_gradient", "answer-own-log-probs", "beta[t + 1, s] + scores[t + 1, s]",
                         "beta[t + 1, s] + log_probs[t + 1, z[s]]", "The weights are in alpha, and missing in beta"),
    "weights in beta": ("3_ctc_gradient", "answer-own-log-probs",
                        "np.logaddexp.reduce(alpha[t - 1, before(s)]) + scores[t, s]",
                        "np.logaddexp.reduce(alpha[t - 1, before(s)]) + log_probs[t, z[s]]", "in beta, and missing"),
    "weights as integers": ("3_ctc_gradient", "answer-own-log-probs", 'rule["label_weight"])',
                            'rule["label_weight"]).astype(int)', "array of integers"),
    "states overwritten": ("3_ctc_gradient", "answer-own-log-probs",
                           "np.add.at(posteriors.T, z, np.exp(alpha + beta - alpha[-1, last]).T)",
                           "posteriors.T[z] += np.exp(alpha + beta - alpha[-1, last]).T", "the last state of a symbol"),
    "sum over frames": ("3_ctc_gradient", "answer-own-logits", "v.sum(axis=1", "v.sum(axis=0", "(the wrong axis)"),
    "arcs overwritten": ("4_rnnt_gradient", "answer-own-log-probs", "gradient[entry] -= np", "gradient[entry] = -np",
                         "it counts that after the fewest"),
    "not counted again": ("4_rnnt_gradient", "answer-own-loss", "(t + 1, u, 0)", "(t + 1, u, n)", "counted again"),
    "not normalised": ("4_rnnt_gradient", "answer-own-logits",
                       "logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)", "logits", "normalised first"),
    "sum over rows": ("4_rnnt_gradient", "answer-own-logits", "used.sum(axis=-1", "used.sum(axis=1", "over the rows"),
}


@pytest.mark.parametrize("assignment, cell, old, new, says", OWN.values(), ids=list(OWN))
def test_errors_beside_the_books_have_names(assignment, cell, old, new, says):
    """One name, and no points lost in other questions than its own."""
    verdicts = graded(assignment, {"cell": cell, "old": old, "new": new})
    (wrong,) = [verdict for verdict in verdicts.values() if not verdict.right]
    assert len(wrong.findings) == 1 and says in wrong.findings[0], wrong


def test_the_paths_of_a_machine_stand_beside_its_smallest_input():
    """All that its rule allows: their masses add up to Z."""
    for assignment, names in (("2_ctc_beta", ["own_log_beta", "own_loss"]), ("3_ctc_gradient", ["own_grad_log_probs"]),
                              ("4_rnnt_gradient", ["own_loss", "own_grad_logits"])):
        for question in (ASSIGNMENTS[assignment][name] for name in names):
            for variant in range(6):
                cases = [case for case in question.posed(variant, SEEDS[1]) if case.small]
                for case in cases[::3]:
                    total = sum(mass for _, mass in question.ladder.paths_of(case))
                    if question.name == "own_loss":
                        right = np.exp(-question.right(**case.facts, **case.arguments))
                        np.testing.assert_allclose(total, right, rtol=1e-12, atol=1e-12)
                    said = drawn(Tried(case, {"value": encoded(1.0)}, np.float64(2.0), 1e-9), question.ladder)
                    few = len(next(iter(case.arguments.values()))) <= 3 and len(case.arguments["targets"]) <= 3
                    assert (f"-log Z = {-np.log(total):.6g}" if total else "There is no path") in said or not few


@pytest.mark.parametrize("assignment", ["2_ctc_beta", "3_ctc_gradient", "4_rnnt_gradient"])
def test_no_two_mistakes_of_a_rule_are_the_same(assignment):
    """Else the one that is named may not be the one that was made. There is none that is right, either."""
    for question in ASSIGNMENTS[assignment].values():
        if not isinstance(question, Own):
            continue
        variants = {json.dumps(question.rule(variant)): variant for variant in range(200)}
        for variant in list(variants.values())[:24]:
            cases, found = question.drawn(variant, SEEDS[1]), {}
            for name, mistake in {"right": question.right, **question.mistakes}.items():
                with contextlib.suppress(ValueError), np.errstate(all="ignore"):
                    found[name] = [mistake(**case.facts, **case.arguments) for case in cases]
            for (one, first), (other, second) in itertools.combinations(found.items(), 2):
                assert not all(map(same, first, second, itertools.repeat(1e-9))), (question.name, one, other)


def test_what_is_wrong_without_a_path_is_said():
    """Beside the name of what is wrong elsewhere; it used to be called nameless."""
    verdicts = graded("3_ctc_gradient", {"cell": "answer-own-logits", "old": "v - np.exp(log_probs) * v.sum(axis=1, "
                                         "keepdims=True)", "new": "np.exp(log_probs) + v"})
    first, second = verdicts["own_grad_logits"].findings
    assert first.startswith("Its softmax term is belief") and second.startswith("Where no path exists, all entries are")


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


def test_whether_a_path_exists_is_said_by_the_students_own_rules():
    """Where CTC has alignments, and the machine none, the sentence is about the machine."""
    question = ASSIGNMENTS["3_ctc_gradient"]["own_grad_log_probs"]
    cases = [case for case in question.posed(*SEEDS) if case.small]
    tried = [Tried(case, {"value": encoded(1.5 * right)}, right, 1e-9) for case in cases
             for right in [question.right(**case.facts, **case.arguments)]]
    assert "It fails where an alignment exists: on all" in circumstances(tried)
    impossible = [each for each in tried if not each.wrong]
    assert any(ctc.loss(*list(each.case.arguments.values())[:2], blank=each.case.arguments["blank"]) < np.inf
               for each in impossible)


def test_which_frames_of_an_own_gradient_are_wrong():
    question = ASSIGNMENTS["3_ctc_gradient"]["own_grad_log_probs"]
    cases = [case for case in question.posed(*SEEDS) if case.small]
    rights = [question.right(**case.facts, **case.arguments) for case in cases]
    assert all(right is not None for right in rights)
    for change, says in ((np.s_[:-1], "before the last frame"), (np.s_[:1], "in the first frame")):
        tried = []
        for case, right in zip(cases, rights, strict=True):
            value = right.copy()
            value[change] *= 1.5
            tried.append(Tried(case, {"value": encoded(value)}, right, 1e-9))
        assert places(question.ladder, tried) == f"The wrong entries are all {says}; elsewhere it is right."


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


ARCS = "4_rnnt_gradient", "answer-own-loss"


@pytest.mark.parametrize("old, new", [("n < rule", "n <= 1 + rule"), ("rule[\"first\"]", "\"blank\""),
                                      ("log_probs[entry]\n        alpha", "1.5 * log_probs[entry]\n        alpha")])
def test_what_a_question_has_beside_its_function_costs_once(old, new):
    """The notebook asks for arcs beside the loss, and the gradients are made of them."""
    verdicts = graded(ARCS[0], {"cell": ARCS[1], "old": old, "new": new})
    assert [verdict.name for verdict in verdicts.values() if not verdict.right] == ["own_loss"]
    assert verdicts["own_grad_log_probs"].findings[0].startswith("With a right `own_arcs`, `own_forward`, `own_loss`")


def test_arcs_of_another_kind_are_left_where_they_are():
    """Somebody's own_arcs may return something else; then only the loss is replaced."""
    source = """
import numpy as np
def own_arcs():
    return 1.0
def own_loss(log_probs, targets, blank):
    return 0.0
def answer(log_probs, targets, blank):
    return own_arcs() * own_loss(log_probs, targets, blank)
"""
    names = {}
    exec(source, names)
    cases = ASSIGNMENTS[ARCS[0]]["own_grad_log_probs"].posed(*SEEDS)
    helped = [case for case in cases if case.helpers and not case.small]
    answers = ask(names["answer"], [released(case.as_data(), ["own_loss"]) for case in helped])
    loss = ASSIGNMENTS[ARCS[0]]["own_loss"].right
    for case, answer in zip(helped, answers, strict=True):
        assert answer["helped"] == ["own_loss"]
        np.testing.assert_allclose(decoded(answer["value"]), loss(**case.facts, **case.arguments))
    names = {}
    exec(source.replace("own_arcs()", "not_arcs()"), names)  # who has no such function gets none
    answer = ask(names["answer"], [released(helped[0].as_data(), ["own_loss"])])[0]
    assert answer["helped"] == ["own_loss"] and "value" in answer
    assert not any(released(case.as_data(), ["log_alpha"]).get("helpers") for case in helped)


def test_a_stand_in_for_an_infinity_costs_the_edges():
    """It is in every array, and one error; all else is right."""
    verdict = graded("1_ctc_alpha", {"cell": "answer-alpha", "old": "-np.inf", "new": "-1e30"})["log_alpha"]
    assert verdict.points == 5 and verdict.findings[0].startswith("-1e+30 stands where -inf is asked for.")
    other = {"cell": "answer-alpha", "old": "-np.inf", "new": "-1.0"}
    assert graded("1_ctc_alpha", other)["log_alpha"].points == 0


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
from coursework.grading.course import Course, SOURCES
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
