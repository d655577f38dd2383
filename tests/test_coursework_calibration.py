"""Limits that go with the machine: what a fixed amount of work says, and that right answers survive on a busy one."""

import contextlib
import functools
import os
import subprocess
import sys
import time

import pytest

from coursework import calibration
from coursework.asking import ask
from coursework.calibration import REFERENCE, SLOWEST, Used, allowed, slowness
from coursework.diagnosis.verdicts import judge
from coursework.questions import ASSIGNMENTS
from coursework.watching import Watch
from reference_impl.conformance.encoding import encoded

CASE = {"arguments": {"x": encoded(3)}}


@pytest.mark.parametrize("took, slow", [(REFERENCE, 1), (REFERENCE / 2, 1), (3 * REFERENCE, 3), (1e6, SLOWEST)])
def test_slowness_is_how_long_the_work_takes(monkeypatch, took, slow):
    ticks = iter([5.0, 5.0 + took])
    monkeypatch.setattr(calibration, "thread_time", lambda: next(ticks))
    assert slowness() == pytest.approx(slow, rel=1e-9, abs=0)


def test_the_work_is_done():
    """It takes processor time of this thread, and not that of others."""
    begin = time.thread_time()
    times = slowness()
    assert 0 < time.thread_time() - begin and 1 <= times <= SLOWEST


def test_used_is_weighed_at_the_time():
    """Two seconds on a machine that is as fast as that of the limits, then four on one that is half as fast."""
    ticks, slow = iter([0.0, 2.0, 6.0, 6.1]), iter([1.0, 2.0])
    used = Used(lambda: next(ticks), measure=lambda: next(slow))
    assert (used(), used()) == (2.0, 4.0)
    assert used(at_once=False) == 4.0  # a tenth of a second is left for the next time


def test_the_calibration_itself_is_not_used():
    """Of one's own thread: the clock goes on while the work is done."""
    clock = [0.0]

    def measure():
        clock[0] += 1.0
        return 1.0

    used = Used(lambda: clock[0], own=True, measure=measure)
    clock[0] = 2.0
    assert used() == 2.0 and clock[0] == 3.0
    clock[0] += 1.0
    assert used() == 3.0


def test_what_is_set_once_has_room(monkeypatch):
    monkeypatch.setattr(calibration, "slowness", lambda: 1.5)
    assert allowed(10) == 30


def burns(x):
    end = time.thread_time() + 0.6
    while time.thread_time() < end:
        pass
    return x


@pytest.mark.parametrize("slow, ends", [(1.0, True), (10.0, False)])
def test_a_call_on_a_slow_machine(monkeypatch, slow, ends):
    """It takes six times what it may, unless the machine takes ten times as long for the same work."""
    monkeypatch.setattr(calibration, "slowness", lambda: slow)
    found, = ask(burns, [CASE], seconds=0.1)
    assert ("still running after 0.1 s" in found.get("error", "")) == ends
    assert ends or found["value"] == encoded(3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are measured on Linux only")
@pytest.mark.parametrize("slow, interrupted", [(1.0, True), (30.0, False)])
def test_a_cell_on_a_slow_machine(monkeypatch, slow, interrupted):
    monkeypatch.setattr(calibration, "slowness", lambda: slow)
    program = "import time\nwhile time.process_time() < 1.5: pass"
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as process:
        watch = Watch(process, seconds=0.3, patience=3600)
        process.wait()
        watch.end()
    assert watch.interrupted == interrupted


@contextlib.contextmanager
def all_cores_busy():
    """Twice as many busy processes as there are cores, which share them with whatever runs here."""
    program = "values = list(range(10**5))\nprint(flush=True)\nwhile True: values.sort(key=lambda x: -x)"
    others = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
              for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for each in others:
            each.stdout.readline()
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()
            each.stdout.close()


def endless(x):
    while True:
        pass


def test_right_answers_survive_where_all_cores_are_busy():
    """The slowest answers there are, and a mistake that is called by its name; what does not end is still ended."""
    with all_cores_busy():
        for name in ("without_a_loop_over_symbols", "by_fronts"):
            question = ASSIGNMENTS["6_make_it_fast"][name]
            cases = question.drawn(1)
            data = [case.as_data() for case in cases]
            assert judge(question, cases, ask(question.right, data)).points == question.total
            mistake, function = next(iter(question.mistakes.items()))
            assert mistake in judge(question, cases, ask(functools.partial(function), data)).findings
        found, = ask(endless, [CASE], seconds=0.2)
    assert found["error"].startswith("still running after 0.2 s")
