"""What a submission's process may send in the place of answers and messages: nothing that is not earned comes of it."""

import io
import json
import os
import resource
import signal
import sys
import time

import numpy as np
import pytest
from test_coursework import run_course

from coursework.checking import ANSWERS
from coursework.diagnosis.tried import Tried
from coursework.diagnosis.verdicts import judge
from coursework.encoding import encoded
from coursework.grading.in_a_child import Ended, in_a_child
from coursework.oracle import Function
from coursework.questions import ASSIGNMENTS
from coursework.questions.question import Case, Question

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is no process of its own")
#: Answers that hold no value.
FORGED = [{}, {"error": ""}, {"error": " "}, {"error": "\n"}, {"error": "", "value": encoded(1.0)}, {"skipped": True},
          {"helped": ["log_alpha"]}, {"value": {}}, {"value": {"text": ""}}, {"printed": "right"},
          {"value": {"shape": [0, 10**30], "dtype": "float", "packed": ""}},
          {"value": {"shape": [1] * 100, "dtype": "float", "values": [1.0]}}]


# --- answers ---


def test_an_answer_without_a_value_is_wrong():
    """Of every question that compares numbers: once, an error without a word counted as right."""
    for questions in ASSIGNMENTS.values():
        for question in questions.values():
            cases = [case for case in question.drawn(5) if not case.large]
            if question.judged(cases, [{"error": "none"}] * len(cases)) is not None:
                continue
            for case, right in zip(cases, question.answers(question.right, cases), strict=True):
                assert Tried(case, encoded_answer(right), right, question.tolerance).wrong is False
                for answer in FORGED:
                    assert Tried(case, answer, right, question.tolerance).wrong, (question.name, answer)


def encoded_answer(value):
    return {"value": encoded(value)}


@pytest.mark.parametrize("answer", FORGED, ids=json.dumps)
def test_a_forged_answer_earns_nothing(answer):
    question = ASSIGNMENTS["2_ctc_beta"]["own_loss"]
    cases = question.posed(5, 6)
    verdict = judge(question, cases, [answer] * len(cases))
    assert verdict.points == 0 and verdict.findings != ("right",)


@pytest.mark.parametrize("number", [0.0, np.inf, -np.inf, 1.0, True], ids=str)
def test_a_number_whatever_is_asked_earns_nothing(number):
    """The loss of what has no path is inf, and its gradient is 0; neither is earned by nothing else."""
    for questions in ASSIGNMENTS.values():
        for question in questions.values():
            cases = question.posed(5, 6)
            right = question.answers(question.right, cases)
            if len(right) < 3 or any(np.asarray(each).dtype.kind == "U" for each in right):
                continue  # one answer by heart, or a text
            answers = [encoded_answer(np.full(np.shape(each), number)) for each in right]
            assert judge(question, cases, answers).points == 0, question.name
            if not question.judged(cases, answers):
                assert judge(question, cases, [*map(encoded_answer, right)]).points == question.total, question.name


def test_answers_have_their_types():
    pytest.importorskip("jupyter_client")
    from coursework.grading.outputs import answers_of

    def read(answers, name="loss"):
        return answers_of({ANSWERS: json.dumps({"name": name, "answers": answers})}, "loss")

    whole = {"value": encoded(1.0), "printed": "x", "helped": ["log_alpha"]}
    assert read([whole, {"error": "no"}, {"skipped": True}]) == [whole, {"error": "no"}, {"skipped": True}]
    assert read([{"value": [], "error": 5, "printed": {}, "helped": 7, "skipped": 1, "more": 2}]) == [{}]
    assert read([{"helped": [[]]}, {"helped": ["a", None]}]) == [{}, {}]
    assert read([3]) is read("x") is read([whole], "beta") is answers_of({}, "loss") is None
    assert answers_of({ANSWERS: "[" * 10**6}, "loss") is answers_of({ANSWERS: {"name": "loss"}}, "loss") is None


# --- messages ---


@pytest.mark.parametrize("kind", ["stream", "error", "display_data", "execute_result", "execute_input", "status",
                                  "execute_reply", "clear_output", "update_display_data", "comm_open", "nonsense"])
@pytest.mark.parametrize("content", [
    {}, [], "text", None, {"name": 7, "text": {}}, {"execution_count": "many"}, {"execution_count": [[]]},
    {"execution_count": 2**70}, {"execution_count": True}, {"data": [], "metadata": 3}, {"transient": 3},
    {"transient": {"display_id": ["a"]}}, {"execution_state": []}, {"ename": {}, "traceback": "x"}, {"wait": []},
    {"data": {"text/plain": 5, "text/html": "<script>", ANSWERS: {"name": "loss"}}},
], ids=json.dumps)
def test_every_message_is_one_that_a_notebook_can_hold(kind, content):
    """Whatever a process sends; once, the number of a cell that is none ended in a notebook that could not be saved."""
    pytest.importorskip("jupyter_client")
    from nbformat import validate
    from nbformat.v4 import new_code_cell, new_notebook, output_from_msg

    from coursework.grading.outputs import BoundedSession

    theirs, ours = BoundedSession(key=b"key"), BoundedSession(key=b"key")
    sent = theirs.serialize(theirs.msg(kind, json.dumps(content), parent=theirs.msg("execute_request")))
    message = ours.deserialize(ours.feed_identities(sent)[1])
    assert message["msg_type"] == kind and isinstance(message["parent_header"]["msg_id"], str)
    count = message["content"].get("execution_count")
    assert count is None or type(count) is int
    outputs = ([output_from_msg(message)] if kind in ("stream", "error", "display_data", "execute_result") else [])
    validate(new_notebook(cells=[new_code_cell(outputs=outputs, execution_count=count)]))
    assert all(isinstance(value, str) for output in outputs for value in output.get("data", {}).values())


def test_what_is_no_message_is_read_as_one_that_says_nothing():
    pytest.importorskip("jupyter_client")
    from coursework.grading.outputs import BoundedSession, Room

    session, room = BoundedSession(key=b"key"), Room()
    right = session.serialize(session.msg("stream", {"text": "x"}))[1:]
    for parts in [], [b""], [b"{}"] * 5, right[:3], [right[0], b"{}", *right[2:]], [b"0" * 64, *right[1:]], (
            [session.sign([b"{}", b"[]", b"{}", b"7"]), b"{}", b"[]", b"{}", b"7"]):
        message = session.deserialize(list(parts))
        assert message["content"] == {} and not room.takes(message)


def test_a_message_of_many_small_things_is_left_out():
    """Each object takes thirty times its bytes here; eight megabytes of them took three gigabytes."""
    pytest.importorskip("jupyter_client")
    from coursework.grading.outputs import BoundedSession

    session = BoundedSession(key=b"key")
    many = {ANSWERS: {"name": "loss", "answers": [{} for _ in range(10**6)]}}
    message = session.deserialize(session.serialize(session.msg("display_data", {"data": many}))[1:])
    assert message["msg_type"] == "stream" and "was left out" in message["content"]["text"]


def test_only_what_is_read_is_open(course_python):
    """What comes in on other lines would stay in memory: a flood of it took 1.8 GB, and no limit counted that."""
    program = """
import zmq
from jupyter_client.session import Session
from coursework.fences.fenced_kernel import FencedKernelClient
client = FencedKernelClient(transport="ipc", ip="/nowhere/k", session=Session(key=b"key"))
client.start_channels()
names = "shell", "iopub", "stdin", "hb", "control"
print([name for name in names if getattr(client, f"_{name}_channel") is not None])
print([each.socket.getsockopt(zmq.MAXMSGSIZE) > 0 for each in (client._shell_channel, client._iopub_channel)])
for name in "stdin", "control":
    try:
        getattr(client, f"{name}_channel")
    except ValueError as error:
        print(error)
client.stop_channels()
"""
    run = run_course(course_python, "-c", program)
    assert run.stdout.splitlines() == ["['shell', 'iopub']", "[True, True]",
                                       "channel = 'stdin'; expected one of shell, iopub",
                                       "channel = 'control'; expected one of shell, iopub"], run.stderr


# --- functions that answer ---


@pytest.mark.parametrize("shape", [(10**9, 0), (0, 10**9), (1, 0, 10**6), (501,)])
def test_a_table_without_numbers_is_not_walked_through(shape):
    """One of a thousand million frames held nothing, and would have kept the grader busy for hours."""
    function = Function(lambda log_probs: pytest.fail("it was called"))
    values = [0.0] * int(np.prod(shape))
    said = function.answer({"arguments": [{"shape": list(shape), "dtype": "float", "values": values}], "named": {}})
    assert "expected at most 500" in said["error"] and function.heard == []


def test_a_right_function_stands_in_and_is_not_explored():
    """Of a loss for any numbers, its gradient would be differences."""
    asked = Case("numbers", {"x": np.zeros(3)})
    free = Question("twice", {"numbers": 1.0}, lambda rng: [asked], lambda x: 2 * x, {}, helpers={"once": np.sum})
    bound = Question("twice", {"numbers": 1.0}, lambda rng: [asked], lambda x: 2 * x, {}, helpers={"once": np.sum},
                     explored=False)

    def answers(question):
        function = question.posed(1)[-1].helpers["once"]
        inputs = [np.zeros(3), np.zeros(3), np.ones(3), np.zeros(3), np.full(3, 2.0), np.zeros(4)]
        return ["value" in function.answer({"arguments": [encoded(each)], "named": {}}) for each in inputs]

    assert answers(free) == [True] * 6
    assert answers(bound) == [True, True, True, True, False, False]


def test_rules_of_ones_own_are_not_explored():
    """Their right functions are nobody's to ask, but for the case at hand."""
    for questions in ASSIGNMENTS.values():
        for name, question in questions.items():
            assert not (name.startswith("own_") and question.helpers and question.explored), name


# --- the process that grades ---


@on_linux
def test_a_process_for_each(tmp_path):
    """What it returns and raises comes back; what it changes and leaves behind does not."""
    kept = []

    def leaves():
        import tempfile

        kept.append(tempfile.mkdtemp())
        return os.getpid(), kept[0]

    pid, folder = in_a_child(leaves, memory=2**30, seconds=60)
    assert pid != os.getpid() and kept == [] and not os.path.exists(os.path.dirname(folder))
    with pytest.raises(KeyError, match="planted"):
        in_a_child(lambda: {}["planted"], memory=2**30, seconds=60)


@on_linux
def test_what_a_process_prints_is_printed(tmp_path):
    """It is killed once it has answered; what it printed before has to be out by then."""
    class Slow(io.StringIO):
        def flush(self):
            time.sleep(0.3)
            (tmp_path / "printed").write_text(self.getvalue())

    def prints():
        sys.stdout = Slow()
        print("to be read")
        return 1

    assert in_a_child(prints, memory=2**30, seconds=60) == 1
    assert (tmp_path / "printed").read_text() == "to be read\n"


@on_linux
@pytest.mark.parametrize("function, says", [
    (lambda: os._exit(0), "said nothing"),
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal 9"),
    (lambda: time.sleep(10**6), "had not come to an end after 0.5 s"),
    (lambda: os.kill(os.getpid(), signal.SIGSTOP), "had not come to an end after 0.5 s"),
], ids=["exit", "killed", "sleeps", "stopped"])
def test_a_process_that_does_not_come_back(function, says):
    with pytest.raises(Ended, match=says):
        in_a_child(function, memory=2**30, seconds=0.5 if "0.5" in says else 60)


@on_linux
def test_its_memory_is_limited():
    """Its own only: what stands here does not count, and the limit is not here afterwards."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError):
        in_a_child(lambda: bytearray(2**29) and None, memory=2**28, seconds=60)
    assert in_a_child(lambda: len(bytearray(2**27)), memory=2**28, seconds=60) == 2**27
    assert resource.getrlimit(resource.RLIMIT_AS) == before


GREEDY = """
import os, sys
from coursework.grading.course import Course

class Greedy(Course):
    memory = 3 * 2**30

    def _graded(self, assignment, submission, released):
        if submission.student == "emmy":
            os.kill(os.getpid(), 9)
        if submission.student == "max":
            bytearray(4 * 2**30)
        return super()._graded(assignment, submission, released)

for result in Greedy(sys.argv[2]).grade("1_ctc_alpha", sys.argv[1]):
    print(result.student, result.failure or result.points)
"""


def test_whoever_ends_the_grader_ends_one_process_of_it(course_python, tmp_path):
    from test_coursework import SOURCES

    for student in ("ada", "emmy", "max", "zoe"):
        there = tmp_path / "in" / student
        there.mkdir(parents=True)
        (there / "1_ctc_alpha.ipynb").write_bytes((SOURCES / "1_ctc_alpha" / "1_ctc_alpha.ipynb").read_bytes())
    run = run_course(course_python, "-c", GREEDY, tmp_path / "in", tmp_path / "out")
    assert run.stdout.splitlines() == [
        "ada 10.0", "emmy The grader failed: Ended: its process took more memory than it is given, or was killed by "
        "signal 9", "max The grader failed: MemoryError: ", "zoe 10.0"], run.stderr


def test_what_is_measured_is_hidden(course_python):
    """A notebook has room for the right answer to a large case that a student has at home; it was as fast as none."""
    program = """
from coursework.grading.referee import _posed
from coursework.questions import ASSIGNMENTS
for question in ASSIGNMENTS["6_make_it_fast"].values():
    visible, posed = question.drawn(1), _posed(question, 1, 2, 3)
    same = [(a.large, (a.arguments["f"] == b.arguments["f"]).all()) for a, b in zip(visible, posed)]
    print(len(posed) == 2 * len(visible), all(large != equal for large, equal in same), sum(c.large for c in posed))
question = ASSIGNMENTS["1_ctc_alpha"]["log_alpha"]
print(len(_posed(question, 1, 2, 3)) == len(question.posed(1, 2)))
"""
    run = run_course(course_python, "-c", program)
    assert run.stdout.split() == ["True", "True", "2"] * 3 + ["True"], run.stderr
