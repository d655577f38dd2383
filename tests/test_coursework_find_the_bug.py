"""Assignment 5: gradients that may be called and not seen, whoever asks for them, and what is said about checks."""

import contextlib
import itertools
import json
import os
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from coursework import oracle
from coursework.asking import ask
from coursework.calling import LARGEST_REQUEST, PATIENCE, Elsewhere
from coursework.diagnosis.verdicts import judge
from coursework.oracle import Function, Oracle
from coursework.questions import ASSIGNMENTS
from coursework.questions import find_the_bug as bugs
from coursework.questions.checks import BUG, FORMS, RIGHT
from coursework.questions.ctc_inputs import utterances
from coursework.release import read
from reference_impl import batched, ctc, log_softmax
from reference_impl.conformance.encoding import decoded, encoded

NOTEBOOK = Path(__file__).parents[1] / "course" / "assignments" / "5_find_the_bug" / "5_find_the_bug.ipynb"
QUESTIONS = list(ASSIGNMENTS["5_find_the_bug"].values())
TRIALS = {"check_1": bugs._SUMS, "check_2": bugs._REPEATS, "check_3": bugs._ENDS, "check_4": bugs._BLANKS,
          "check_5": bugs._PADDING}
LOGITS = np.random.default_rng(3).normal(size=(6, 4))

every_check = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)


def judged(question, check, *seeds):
    cases = question.drawn(*seeds or (1, 2))
    return judge(question, cases, ask(check, [case.as_data() for case in cases]))


def suspects(question, group, *seeds):
    return [case.arguments["gradient"] for case in question.drawn(*seeds or range(5)) if case.group == group]


@pytest.fixture(scope="module")
def notebook():
    """What the solution defines, without its checks."""
    names = {}
    for cell in read(NOTEBOOK)["cells"]:
        if cell["cell_type"] == "code" and cell["id"].split("-")[0] in ("given", "answer", "setup"):
            exec("".join(cell["source"]), names)
    return names


# --- the gradients ---


@pytest.mark.parametrize("seed", range(4))
def test_without_a_bug_it_is_the_reference(seed):
    """Every kind of utterance, an empty one, a masked one, and one without alignment; alone and in a batch."""
    cases = [case.arguments for case in utterances(np.random.default_rng(seed))]
    cases += [{"log_probs": LOGITS[:T], "targets": targets, "blank": 0} for T, targets in
              [(2, [1, 1]), (0, []), (0, [1]), (3, [1, 2, 3])]]
    for case in cases:
        targets = np.array(case["targets"], dtype=np.int64)
        expected = ctc.grad_logits(case["log_probs"], targets, blank=case["blank"])
        found = bugs.gradient(case["log_probs"], targets, case["blank"])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    logits, targets = np.array([LOGITS, LOGITS[::-1], LOGITS]), np.array([[1, 2], [3, -7], [2, 2]])
    logits[1, 3:], logits[2, 0:] = np.nan, np.inf
    lengths = np.array([6, 3, 0]), np.array([2, 1, 0])
    expected = batched.ctc_loss(logits, targets, *lengths)[1]
    np.testing.assert_allclose(bugs.batch_gradient(logits, targets, *lengths, 0), expected, rtol=0, atol=1e-13)


@every_check
def test_right_ones_are_right_and_wrong_ones_wrong(question):
    """Up to rounding of 1e-12, and to a positive factor in question 1; inputs that show every form."""
    logits, targets = LOGITS[:5], np.array([1, 0, 1])
    if question.name == "check_5":
        logits, targets = np.array([LOGITS, LOGITS]), np.array([[1, 2], [3, 1]])
        logits[1, 4:] = np.nan
        given = logits, targets, np.array([6, 4]), np.array([2, 1]), 0
        expected = batched.ctc_loss(*given[:4])[1]
    else:
        given, expected = (logits, targets, 3), ctc.grad_logits(logits, targets, blank=3)
    scale = abs(expected).max()
    for group, seen in ((BUG, False), (FORMS, False), (RIGHT, True)):
        for suspect in suspects(question, group):
            found = suspect(*given)
            if question.name == "check_1":
                found = found / (found * expected).sum() * (expected**2).sum()
            assert (abs(found - expected).max() < 3e-12 * scale) == seen, suspect.says


@every_check
def test_rounding_differs(question):
    """So that a tolerance of 0 shows, and is no sign of right or wrong: some of both kinds are rounded."""
    call = (LOGITS[None], np.array([[1, 2]]), [6], [2], 0) if question.name == "check_5" else (LOGITS, [1, 2], 0)
    for group in (RIGHT, BUG):
        numbers = {f(*call).tobytes() for f in suspects(question, group)}
        assert len(numbers) > 3


# --- the complaints ---


def test_logits_drift():
    """Descent along the first wrong gradient makes the mean of the logits rise in every frame and step."""
    logits = LOGITS.copy()
    wrong = suspects(QUESTIONS[0], BUG)[0]
    for _ in range(5):
        before, logits = logits, logits - 0.1 * wrong(logits, [1, 2], 0)
        assert np.all(logits.mean(axis=1) > before.mean(axis=1))


def test_words_without_a_label_twice_are_right():
    for wrong in suspects(QUESTIONS[1], BUG) + suspects(QUESTIONS[1], FORMS):
        assert abs(wrong(LOGITS, [1, 2, 3], 0) - ctc.grad_logits(LOGITS, [1, 2, 3])).max() < 1e-11


def test_what_the_third_bug_satisfies():
    """Frames add up to 0, shifts change nothing, the Jacobian is symmetric: a gradient, of another loss."""
    for wrong in suspects(QUESTIONS[2], BUG, 1) + suspects(QUESTIONS[2], FORMS, 1):
        found = wrong(LOGITS, [1, 2], 0)
        assert abs(found.sum(axis=1)).max() < 1e-11
        assert abs(wrong(LOGITS + np.arange(6.0)[:, None], [1, 2], 0) - found).max() < 1e-11
        jacobian = np.array([(wrong(LOGITS + h, [1, 2], 0) - wrong(LOGITS - h, [1, 2], 0)).ravel() / 2e-4
                             for h in 1e-4 * np.eye(24).reshape(24, 6, 4)])
        assert abs(jacobian - jacobian.T).max() < 1e-6


def test_the_last_letter_is_drawn_out():
    """In the last frame the share of the blank is 0 and that of the last label 1."""
    for wrong in suspects(QUESTIONS[2], BUG):
        share = np.exp(log_softmax(LOGITS)) - wrong(LOGITS, [1, 2], 0)
        assert abs(share[-1] - [0, 0, 1, 0]).max() < 1e-11


def test_symbol_0_is_written_where_nobody_speaks():
    for wrong in suspects(QUESTIONS[3], BUG):
        share = np.exp(log_softmax(LOGITS)) - wrong(LOGITS, [1, 2], 3)
        assert share[:, 0].sum() > 1 and abs(share[:, 3]).max() < 1e-11
        assert abs(wrong(LOGITS, [1, 2], 0) - ctc.grad_logits(LOGITS, [1, 2])).max() < 1e-11


def test_in_company():
    """Alone everything is right; with padding, the sum over all frames grows with it."""
    for wrong in suspects(QUESTIONS[4], BUG):
        def pull(padding, wrong=wrong):
            logits = np.concatenate([LOGITS, np.zeros((padding, 4))])
            return wrong(logits[None], np.array([[1, 2]]), [6], [2], 0)

        assert abs(pull(0)[0] - ctc.grad_logits(LOGITS, [1, 2])).max() < 1e-11
        assert abs(pull(8).sum() - 2 * pull(4).sum()) < 1e-9 < 1 < pull(4).sum()


def test_no_earlier_check_sees_the_bug(notebook):
    """Each bug passes the solutions of the questions before: every question needs a thought of its own."""
    for i, j in itertools.combinations(range(4), 2):
        for wrong in suspects(QUESTIONS[j], BUG):
            assert notebook[f"check_{i + 1}"](wrong), (i + 1, j + 1)


def test_the_given_loss(notebook):
    for case in utterances(np.random.default_rng(0)):
        logits, targets, blank = case.arguments.values()
        expected = ctc.loss(log_softmax(logits), targets, blank=blank)
        assert notebook["loss"](logits, targets, blank) == pytest.approx(expected, rel=1e-12)
    assert notebook["loss"](LOGITS[:2], np.array([1, 1]), 0) == np.inf


# --- points ---


@every_check
def test_who_tells_nothing_gets_nothing(question, notebook):
    """Always the same, by turns, by chance, or the opposite: no points, though some answers are right."""
    solution = notebook[question.name]
    turns, chance = itertools.count(), np.random.default_rng(0)

    def calling(answer):
        def check(gradient):
            solution(gradient)
            return answer(gradient)
        return check

    for answer in (lambda g: True, lambda g: False, lambda g: next(turns) % 2 == 0, lambda g: bool(chance.integers(2)),
                   lambda g: not solution(g)):
        assert judged(question, calling(answer)).points == 0
    assert judged(question, calling(solution)).points == 2
    assert judged(question, lambda gradient: True).findings == ("It does not call the gradient.",)


@every_check
def test_points_by_group(question):
    """What each group earns, by checks that are told whom they have before them."""
    def of(fails):
        cases = question.drawn(1, 2)
        for case in cases:
            case.as_data()
            case.arguments["gradient"].calls = 1
        return judge(question, cases, [{"value": encoded(not fails(i, case))} for i, case in enumerate(cases)])

    def place(group, which=0):
        return [i for i, case in enumerate(question.drawn(1, 2)) if case.group == group][which]

    assert of(lambda i, case: case.group != RIGHT).points == 2
    assert of(lambda i, case: case.group == BUG).points == 1.5  # forms pass
    assert of(lambda i, case: case.group == FORMS).points == 0.5  # and nothing for right ones
    assert of(lambda i, case: case.group != RIGHT and i != place(BUG, -1)).points == 0.5  # one bug passes
    assert of(lambda i, case: case.group != RIGHT and i != place(FORMS, -1)).points == 1.5
    assert of(lambda i, case: case.group != RIGHT or i == place(RIGHT, -1)).points == 1  # one right one fails
    assert of(lambda i, case: case.group != RIGHT or i != place(RIGHT)).points == 1  # all but one fail


@pytest.mark.parametrize("value, says", [
    (np.array([True, False]), "shape (2,); expected True or False"), (1.0, "1.0; expected True or False"),
    ("right", "right; expected True or False"), (None, "NoneType; expected True or False"),
])
def test_other_answers(value, says):
    def check(gradient):
        gradient(LOGITS, [1, 2], 0)
        return value

    verdict = judged(QUESTIONS[1], check)
    assert verdict.points == 0 and verdict.findings[0].startswith(says)


def test_an_error_is_no_answer():
    def check(gradient):
        assert abs(gradient(LOGITS, [1, 2, 1], 0).sum()) < 1e-9
        return True

    verdict = judged(QUESTIONS[1], check)
    assert verdict.points == 0 and "return False where the gradient is wrong" in verdict.findings[0]


@pytest.mark.parametrize("answer", [
    {}, {"value": None}, {"value": {"shape": [], "dtype": [], "values": [1]}},
    {"value": {"shape": [], "dtype": "int", "values": [10**30]}}, {"value": {"shape": [True], "dtype": "bool"}},
    {"value": {"shape": [True], "dtype": "bool", "values": [True]}}, {"error": None, "value": 3}, {"error": 3},
])
def test_forged_answers_are_wrong_answers(answer):
    cases = QUESTIONS[0].drawn(1, 2)
    assert judge(QUESTIONS[0], cases, [answer for _ in cases]).points == 0


@pytest.mark.parametrize("question, check, says", [
    (1, lambda g: abs(g(LOGITS, [1, 2], 0).sum()) < 1e-9, "passes everything: none of its targets has a label twice."),
    (1, lambda g: g(LOGITS, [1, 1], 0).shape == (6, 4), "that have a label twice, and does not look"),
    (3, lambda g: g(LOGITS, [1, 2], 0).shape == (6, 4), "It passes everything: it asks with blank 0 only."),
    (3, lambda g: g(LOGITS, [1, 2], 3).shape == (6, 4), "it asks with another blank, but for what holds"),
    (4, lambda g: g(LOGITS[None], [[1, 2]], [6], [2], 0).shape == (1, 6, 4), "all utterances are equally long."),
    (4, lambda g: g(LOGITS[[[0, 1], [2, 3]]], [[1], [1]], [2, 1], [1, 1], 0).ndim == 3, "its batches have padding"),
])
def test_why_a_check_is_blind(question, check, says):
    """By what it asked, in words that are written here once more."""
    finding, = judged(QUESTIONS[question], lambda gradient: bool(check(gradient))).findings
    assert says in finding


# --- who is who ---


@every_check
def test_nothing_gives_a_gradient_away(question):
    """What leaves is a descriptor and a key that means nothing, and another one each time; the order changes."""
    def handed_out():
        answers = Oracle()
        data = [case.as_data(answers.hand_out)["arguments"]["gradient"]["function"] for case in question.drawn(1)]
        with answers:
            assert answers.descriptors == [data[0]["descriptor"]]
        return data

    data, again = handed_out(), handed_out()
    assert all(set(each) == {"descriptor", "key"} and len(each["key"]) == 16 for each in data)
    assert len({each["key"] for each in data}) == len(data) and len({each["descriptor"] for each in data}) == 1
    assert not {each["key"] for each in data} & {each["key"] for each in again}
    orders = {tuple(case.group for case in question.drawn(seed)) for seed in range(30)}
    assert len(orders) > 25
    assert len({order.count(BUG) for order in orders}) == 2
    assert all(not case.facts for case in question.drawn(1))


# --- functions far away ---


def gradient_like(logits, targets, blank=0):
    if blank > 3:
        raise ValueError("blank = 4; expected less")
    logits = np.asarray(logits)
    logits *= 2.0
    return logits + blank


@pytest.fixture(params=["here", "there"])
def far(request):
    """The function, once as at home and once through a line."""
    function = Function(gradient_like)
    if request.param == "here":
        yield Elsewhere(function.handed_out()), function
    else:
        with Oracle() as answers:
            assert answers.descriptors == []  # without functions there is nothing to answer
        answers = Oracle()
        line = json.loads(json.dumps(answers.hand_out(function)))
        with answers:
            yield Elsewhere(line), function


def test_calls_here_and_there(far):
    """The same results and the same errors; arguments by name or by place; nobody's array is changed."""
    call, function = far
    logits = np.array([[1.0, -np.inf], [np.nan, 3.0]])
    np.testing.assert_array_equal(call(logits, [], blank=1), 2 * logits + 1)
    np.testing.assert_array_equal(logits, [[1.0, -np.inf], [np.nan, 3.0]])
    np.testing.assert_array_equal(call(logits=[[1.0]], targets=[2]), [[2.0]])
    with pytest.raises(ValueError, match="blank = 4; expected less"):
        call(logits, [1], 4)
    with pytest.raises(ValueError, match="missing a required argument: 'targets'"):
        call(logits)
    with pytest.raises(ValueError, match="arguments with 502 entries; expected at most 500"):
        call(np.zeros((25, 20)), [], 0)
    with pytest.raises(TypeError, match="expected a number"):
        call(None, [], 0)
    assert [set(call) for call in function.heard] == [{"logits", "targets", "blank"}, {"logits", "targets"}]
    assert function.calls == 5


def test_calls_are_counted(far):
    call, function = far
    for _ in range(oracle.CALLS):
        call([[1.0]], [1])
    with pytest.raises(ValueError, match="more than 100 calls"):
        call([[1.0]], [1])
    function.handed_out()
    assert function.calls == 0 and function.heard == []


class Raw:
    """The same line, for somebody who means no good."""

    def __init__(self, line):
        self.end = socket.socket(fileno=os.dup(line["descriptor"]))
        self.end.settimeout(PATIENCE)

    def send(self, data):
        self.end.send(data)

    def answer(self, data):
        self.end.send(data)
        return self.end.recv(LARGEST_REQUEST)


@pytest.fixture
def answering():
    """A function far away, the way to call it, and somebody who means no good."""
    answers = Oracle()
    line = answers.hand_out(Function(gradient_like))
    raw = Raw(line)
    with contextlib.closing(raw.end), answers:
        yield Elsewhere(line), line, raw, answers


def request_of(line, **other):
    given = {"number": 10**6, "key": line["key"], "arguments": [encoded([[1.0]]), encoded([1])], "named": {}, **other}
    return json.dumps(given).encode()


def test_garbage(answering):
    """Nothing of it is answered with a value, and the next good request is."""
    call, line, raw, _ = answering
    empty = {"shape": [0, 10**30], "dtype": "float", "values": []}
    for data in (b"\n", b"\xff\x00", b"[]", b"{}", b'{"key": []}', b"[" * 5000, b"{" * 10**5, b'"\\ud800"', b"7",
                 request_of(line, key="0" * 16), request_of(line, key={}), request_of(line, number=None),
                 request_of(line, number=[1]), request_of(line, number="\ud800"),
                 request_of(line, arguments=3), request_of(line, arguments=[[[]]]), request_of(line, named=[1]),
                 request_of(line, named={"x": encoded(1)}), request_of(line, named={"\ud800": encoded(1)}),
                 request_of(line, arguments=[{"shape": [], "dtype": "int", "values": [10**30]}]),
                 request_of(line, arguments=[empty, empty]),
                 request_of(line, arguments=[{"shape": [], "dtype": {}, "values": [1]}])):
        found = raw.answer(data)
        assert b'"value"' not in found or b'"number": null' in found, data[:60]
        np.testing.assert_array_equal(call([[1.0]], [1]), [[2.0]])
    assert json.loads(raw.answer(request_of(line)))["value"]["values"] == [2.0]


def test_a_flood(answering):
    """Thousands of messages, and not one answer read: the next call clears the line, and gets its own answer."""
    call, line, raw, answers = answering
    raw.end.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        for n in range(10**5):
            raw.send([b"half of", request_of(line, key=""), b"{}"][n % 3])
            sent += 1
    assert sent > 100 and answers._thread.is_alive()
    np.testing.assert_array_equal(call([[1.0]], [1]), [[2.0]])


def test_an_answer_that_nobody_waits_for(answering):
    """A call that was interrupted leaves its answer on the line; the next call passes over it."""
    call, line, raw, _ = answering
    for n in range(20):
        raw.send(request_of(line, number=-1 - n, arguments=[encoded([[7.0]]), encoded([1])]))
    np.testing.assert_array_equal(call([[1.0]], [1]), [[2.0]])


def test_more_than_a_message_holds_is_not_sent(answering):
    call, *_ = answering
    with pytest.raises(ValueError, match="does not answer; it may have been called too often, or with too much"):
        call(np.zeros((400, 100)), [1])
    np.testing.assert_array_equal(call([[1.0]], [1]), [[2.0]])


def test_threads(answering):
    """Twenty at once, each with the answer to its own question."""
    call, *_ = answering
    found = {}

    def ask_for(n):
        found[n] = call([[float(n)]], [1])

    threads = [threading.Thread(target=ask_for, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: value.item() for n, value in found.items()} == {n: 2.0 * n for n in range(20)}


@pytest.mark.parametrize("name, says", [("_REQUESTS", "does not answer"), ("_COMPUTING", "s of computing")])
def test_everything_comes_to_an_end(answering, monkeypatch, name, says):
    call, *_ = answering
    call([[1.0]], [1])
    monkeypatch.setattr(oracle, name, 0)
    with pytest.raises(ValueError, match=says):
        call([[1.0]], [1])


def test_it_ends_though_answers_wait():
    """Answers that nobody reads do not keep it; whoever asks afterwards is told."""
    answers = Oracle()
    line = answers.hand_out(Function(gradient_like))
    raw = Raw(line)
    with answers:
        raw.end.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(10**5):
                raw.send(b"{}")
    assert not answers._thread.is_alive()
    with contextlib.closing(raw.end), pytest.raises(ValueError, match="does not answer"):
        Elsewhere({**line, "descriptor": raw.end.fileno()})([[1.0]], [1])


@pytest.mark.parametrize("value", [
    {"shape": [], "dtype": [], "values": [1]}, {"shape": [], "dtype": "int", "values": [10**30]},
    {"shape": [True], "dtype": "int", "values": [1]}, {"shape": [], "dtype": "float", "values": [10**400]},
])
def test_no_data_that_breaks_the_judge(value):
    with pytest.raises(ValueError, match="expected"):
        decoded(value)
