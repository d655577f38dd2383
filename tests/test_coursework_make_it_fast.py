"""Assignment 6: what is given, how speed and memory are weighed against right answers, and how both are measured.

Wrong submissions of it are graded by `test_coursework.py`.
"""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coursework import check
from coursework import effort as effort_module
from coursework.asking import ask
from coursework.diagnosis.verdicts import judge
from coursework.effort import Meter, measured_here, said, slow_seconds, sufficient
from coursework.questions import ASSIGNMENTS
from coursework.questions.make_it_fast import arc_posteriors, gradient, slow_gradient
from coursework.questions.question import Case, Faster, Question, Smaller
from reference_impl import rnnt
from reference_impl.conformance.encoding import decoded, encoded

ROOT = Path(__file__).parents[1]
QUESTIONS = ASSIGNMENTS["6_make_it_fast"]
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are measured on Linux only")


# --- what is given, and what is right ---


def test_the_notebook_gives_the_slow_version_that_is_measured():
    notebook = json.loads((ROOT / "course/assignments/6_make_it_fast/6_make_it_fast.ipynb").read_text(encoding="utf-8"))
    given = ["".join(cell["source"]) + "\n" for cell in notebook["cells"] if cell["id"].startswith("given")]
    assert given == [inspect.getsource(arc_posteriors), inspect.getsource(slow_gradient)]


@pytest.mark.parametrize("seed", range(5))
def test_slow_and_right_are_the_reference(seed):
    for case in QUESTIONS["by_fronts"].drawn(seed):
        if not case.large:
            f, g, targets, blank = case.arguments.values()
            delta = rnnt.grad_logits(f[:, None] + g, targets, blank=blank)
            expected = np.concatenate([delta.sum(axis=1), delta.sum(axis=0)])
            for function in (slow_gradient, gradient):
                np.testing.assert_allclose(function(**case.arguments), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["without_a_loop_over_symbols", "by_fronts"])
def test_slow_and_right_agree_on_large_cases(name):
    """A hundred times closer than an answer has to be."""
    case, = (case for case in QUESTIONS[name].drawn(3) if case.large)
    np.testing.assert_allclose(slow_gradient(**case.arguments), gradient(**case.arguments), rtol=0, atol=1e-11)


def test_large_cases_have_one_size():
    """The slow version is timed on one of them, and that is multiplied."""
    for question in QUESTIONS.values():
        shapes = {tuple(np.shape(value) for value in case.arguments.values())
                  for case in question.drawn(1, 2) if case.large}
        assert len(shapes) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_label_occurs_twice(seed):
    """Else what an index on the left of -= loses would be nothing."""
    for question in QUESTIONS.values():
        for case in question.drawn(seed):
            targets = case.arguments["targets"]
            assert len(targets) < 2 or len(set(targets)) < len(targets)


# --- numbers that travel packed ---


def test_packed_values_survive():
    value = np.array([[1 / 3, -np.inf], [np.nan, 5e-324]])
    data = json.loads(json.dumps(encoded(value.T, packed=True)))
    assert "values" not in data
    np.testing.assert_array_equal(decoded(data), value.T)
    assert "packed" not in encoded(value) and "packed" not in encoded(3.0, packed=True)
    assert "packed" not in encoded([1, 2], packed=True)  # whole numbers stay what they are


@pytest.mark.parametrize("change", [
    {"packed": "AAAA"}, {"packed": "*" * 16}, {"packed": "é" * 16}, {"shape": [3]}, {"shape": [-2]}, {"dtype": "int"},
    {"packed": "A" * 13_000_000, "shape": [1_218_750]},
])
def test_no_other_packed_data(change):
    with pytest.raises(ValueError, match="expected"):
        decoded({**encoded([1.0, 2.0], packed=True), **change})


def test_answers_are_packed_if_the_question_is():
    for large in (False, True):
        case = Case("values", {"x": np.array([0.5])}, large=large)
        found, = ask(lambda x: 2 * x, [case.as_data()])
        assert ("packed" in found["value"]) == large and decoded(found["value"]) == 1.0


# --- right answers and effort ---


CASES = [Case("values", {"x": np.array([1.0])}), Case("edges", {"x": np.array([])}),
         Case("values", {"x": np.arange(9.0)}, large=True), Case("values", {"x": np.arange(1.0, 10.0)}, large=True)]
EFFORTS = [(Faster(lambda x: 2 * x, 5, "A loop."), 5.0, 4.9),
           (Smaller(lambda x: x.shape, "the array", 0.5, "A copy."), 0.5, 0.51)]


def doubled(effort):
    return Question("doubled", {"values": 2.0, "edges": 1.0}, lambda rng: CASES, lambda x: 2 * x, {}, effort=effort)


def judged(effort, answer, found):
    return judge(doubled(effort), CASES, ask(answer, [case.as_data() for case in CASES]), lambda: found)


@pytest.mark.parametrize("effort, enough, not_enough", EFFORTS)
def test_right_answers_count_with_enough_effort_only(effort, enough, not_enough):
    right, slow = (judged(effort, lambda x: 2 * x, found) for found in (enough, not_enough))
    assert (right.points, right.findings[0]) == (3.0, "right") and effort.hint not in right.findings[1]
    assert (slow.points, slow.findings[0]) == (0.0, "Its numbers are right.") and effort.hint in slow.findings[1]
    assert sufficient(effort, enough) and not sufficient(effort, not_enough)


def test_a_fast_wrong_answer_earns_nothing():
    """Wrong on a large case: nothing at all. Wrong on an edge: that is missing."""
    effort = EFFORTS[0][0]
    assert judged(effort, lambda x: 2 * x if len(x) < 5 else 0 * x, 1e6).points == 0
    assert judged(effort, lambda x: 2 * x if len(x) else np.zeros(1), 1e6).points == 2
    assert judged(effort, lambda x: 2 * x if len(x) else np.zeros(1), 1.0).points == 0


def test_an_answer_that_is_given_again_is_called_so():
    kept = {}
    verdict = judged(EFFORTS[0][0], lambda x: kept.setdefault(x.shape, 2 * x), 1e6)
    assert verdict.points == 0
    assert verdict.findings == ("It gives the answer of an earlier call again; "
                                "nothing may be kept from one call to the next.",)


def test_every_question_asks_for_an_effort():
    assert all(question.effort for question in QUESTIONS.values())
    assert [type(question.effort) for question in QUESTIONS.values()] == [Faster, Faster, Smaller]


# --- measured at home ---


class Clocks:
    """In the place of `time`: processor time, of this thread and of all, that passes when it is told to; no other."""

    def __init__(self):
        self.thread = self.process = 0.0

    def thread_time(self):
        return self.thread

    def process_time(self):
        return self.process

    def burn(self, seconds, others=0.0):
        self.thread += seconds
        self.process += seconds + others


def test_factor_at_home(monkeypatch):
    """By processor time: of one thread for the slow version, of all threads for the answer; both large cases count."""
    clocks = Clocks()
    monkeypatch.setattr(effort_module, "time", clocks)
    effort = Faster(lambda x: clocks.burn(0.5, others=0.25), 5, "A loop.")
    assert slow_seconds(effort, CASES[:3]) == 0.5 and slow_seconds(effort, CASES) == 1.0
    assert measured_here(effort, CASES, lambda x: clocks.burn(0.5)) == 1
    assert measured_here(effort, CASES, lambda x: clocks.burn(0.125)) == 4
    assert measured_here(effort, CASES, lambda x: clocks.burn(0.125, others=0.375)) == 1


def test_memory_at_home():
    case = Case("values", {"x": np.zeros(100)}, large=True)
    effort = Smaller(lambda x: (len(x), 10_000), "the array", 0.5, "A copy.")
    assert 2 <= measured_here(effort, [case], lambda x: np.ones((2, 100, 10_000)).sum()) < 2.1
    assert measured_here(effort, [case], lambda x: [np.ones(10_000).sum() for _ in x][0]) < 0.1
    assert "takes 2.00 times the memory of the array; asked for: at most 0.5. A copy." in said(effort, 2.0)


def test_check_at_home_says_how_much_it_takes(capsys):
    assert check("6_make_it_fast", "in_little_memory", gradient, 7) == 3
    assert "times the memory of one array (T, U+1, V); asked for: at most 0.5." in capsys.readouterr().out


# --- measured from another process ---


CHILD = """
import sys, threading, time
def burn():
    while time.process_time() < end: pass
for line in sys.stdin:
    exec(line)
    print(time.process_time(), flush=True)
"""


@pytest.fixture
def child():
    """Another process that runs the lines it is told to, and answers with its own processor time."""
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        def told(line):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        told("pass")
        yield process.pid, told
        process.stdin.close()


@on_linux
def test_the_meter_counts_threads_and_not_what_was_before(child):
    """As the process itself counts it: more than between the two inner calls, less than between the outer ones."""
    pid, told = child
    meter = Meter(pid)
    outside = told("end = time.process_time() + 0.2; burn()")
    meter.start()
    inside = told("pass")
    work = "end = time.process_time() + 0.3; a = threading.Thread(target=burn); a.start(); a.join(); time.sleep(0.5)"
    least = told(work) - inside
    seconds, _ = meter.stop()
    most = told("pass") - outside
    assert 0.3 <= least <= seconds <= most  # the thread has ended, and counts; what was before and the sleep do not


@on_linux
def test_the_meter_sees_the_peak_and_what_was_set_aside(child):
    pid, told = child
    meter, megabyte = Meter(pid), 2**20
    told("a = bytearray(200 * 2**20); a[::4096] = b'1' * len(a[::4096]); del a")  # a peak before the start
    meter.start()
    told("a = b'1' * (100 * 2**20); del a")
    assert 95 * megabyte < meter.stop()[1] < 120 * megabyte
    told("aside = b'1' * (150 * 2**20)")
    meter.start()
    told("del aside; a = b'1' * (150 * 2**20)")  # no more than before, but 150 MB all the same
    assert meter.stop()[1] > 100 * megabyte
