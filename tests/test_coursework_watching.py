"""What ends a cell that does not end by itself, on processes of a few lines. Grading is in `test_coursework.py`."""

import math
import signal
import subprocess
import sys
import time

import pytest

from coursework import watching
from coursework.watching import Watch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are measured on Linux only")
BUSY, ASLEEP = "while True: pass", "while True: time.sleep(100)"
STUBBORN = "signal.signal(signal.SIGINT, signal.SIG_IGN)"


def started(before, lines):
    """Another process that has run the first lines, and is about to run the others.

    It can be interrupted, as a kernel can, even where these tests cannot: a shell's background jobs ignore the signal.
    """
    can_be = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"import signal, sys, time\n{can_be}\n{before}\nprint(flush=True)\n{lines}"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    process.stdout.readline()
    return process


@pytest.mark.parametrize("lines", [BUSY, ASLEEP], ids=["busy", "asleep"])
@pytest.mark.parametrize("before", ["", STUBBORN], ids=["", "stubborn"])
def test_what_does_not_end(monkeypatch, lines, before):
    """It ends by the limit that is meant for it; all others are out of reach, also of a process on a busy machine."""
    seconds, patience = (0.2, math.inf) if lines == BUSY else (math.inf, 0.2)
    monkeypatch.setattr(watching, "_LAST_WORDS", seconds if before else math.inf)
    monkeypatch.setattr(watching, "_LAST_PATIENCE", patience if before else math.inf)
    with started(before, lines) as process:
        watch = Watch(process, seconds=seconds, patience=patience)
        process.wait()
        watch.end()
    assert watch.interrupted and watch.killed == bool(before)
    assert process.returncode == (-signal.SIGKILL if before else -signal.SIGINT)


def test_what_takes_little_is_left_alone():
    """What was used before does not count, and neither does the time on the clock."""
    with started("while time.process_time() < 0.5: pass", "time.sleep(0.5)\nprint(flush=True)\ninput()") as process:
        watch = Watch(process, seconds=0.3, patience=math.inf)
        process.stdout.readline()
        watch.end()
        process.communicate(b"\n")
    assert not watch.interrupted and process.returncode == 0


def test_a_process_that_has_ended_ends_its_watch():
    with started("", "") as process:
        watch = Watch(process, seconds=math.inf, patience=math.inf)
        process.wait()
        watch.end()
    assert not watch.interrupted


@pytest.mark.parametrize("said", ["at first", "later"])
@pytest.mark.parametrize("before", ["", STUBBORN], ids=["", "stubborn"])
def test_patience_can_end_for_good(said, before):
    """For a notebook that sleeps a little in every cell; and where IPython says that a cell is done, and no more."""
    with started(before, ASLEEP) as process:
        end = time.monotonic() + 0.2 if said == "at first" else math.inf
        watch = Watch(process, seconds=math.inf, patience=math.inf, end=end)
        if said == "later":
            watch.no_longer_than(0.2)
            watch.no_longer_than(3600)  # nothing that is said afterwards makes it longer
        process.wait()
        watch.end()
    assert watch.interrupted and process.returncode in (-signal.SIGINT, -signal.SIGKILL)
    assert watch.killed or not before
