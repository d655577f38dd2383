"""The fences around submissions: that they stand, that a probe notices if one does not, and that grading then refuses.

Hostile submissions are graded by `test_coursework_hostile.py`.
"""

import errno
import os
import re
import select
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from test_coursework import ROOT, SOURCES, run_course

from coursework.fences import acts, landlock, probing, seccomp
from coursework.fences import standing as fences
from coursework.fences.fenced import Fenced, Layers, NotFenced, layers_here, scratch_folder
from coursework.fences.standing import FENCES, FencesDown, Standing, named, required

FENCES_PY = ROOT / "src" / "coursework" / "fences"
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these fences are Linux's")
every_fence = pytest.mark.parametrize("fence", FENCES)


@pytest.fixture(scope="module")
def layers():
    return layers_here()


# --- they stand, and whether they do is noticed ---


def test_every_fence_stands(fences_down, layers):
    """Where everything that they are made of runs; elsewhere one may be down, unless REQUIRE_FENCES asks for all."""
    if fences_down and not (layers.bubblewrap and layers.landlock and layers.seccomp):
        there = ", ".join(layers.names) or "nothing"
        pytest.skip(f"fences made of {there} alone do not all stand: {', '.join(fences_down)}")
    assert not fences_down


@on_linux
@every_fence
def test_a_fence_that_is_missing_is_noticed(monkeypatch, fence):
    """The same acts in the same kind of process, with nothing around it: each is possible, or its aim is harmed."""
    monkeypatch.setattr(probing, "Fenced", lambda scratch, layers, **_: Fenced(
        scratch, layers, address_space=2**36, seconds=600))
    found = probing.possible([fence], Layers())[fence]
    assert found and not found[0].startswith("it could not be tried"), found
    assert fence != "disk" or found == ["fill the disk", "make files without number"]


@on_linux
@pytest.mark.parametrize("fence", ["memory", "time"])
def test_limits_stand_by_themselves(fence):
    """They need no namespace and no filter; a file of memory does."""
    assert [act for act in probing.possible([fence], Layers())[fence] if act != "make a file of memory"] == []


@on_linux
def test_the_first_version_of_landlock_is_not_enough(layers):
    """It knows no truncation: so a gradebook was emptied. As whatever user the file belongs to."""
    if not layers.landlock:
        pytest.skip("there is no Landlock here")
    found = probing.tried("writing", Layers(landlock=1, seccomp=layers.seccomp))
    assert found["truncate"] == "" and found["overwrite"]
    assert "a file outside or its folder was changed" in found
    if layers.landlock >= 3:
        assert probing.possible(["writing"], replace(layers, bubblewrap=None, user=None))["writing"] == []


@on_linux
def test_without_the_filter_much_is_possible(layers):
    """What Landlock leaves open at its best: modes, Unix sockets, processes, what outlives a process."""
    if layers.landlock < 6:
        pytest.skip("Landlock is older than its sixth version here, or missing")
    found = probing.possible(FENCES, Layers(landlock=layers.landlock))
    for fence, act in {"writing": "change the mode", "sockets": "connect to a path", "processes": "fork",
                       "leftovers": "find shared memory", "network": "the network, by a datagram was reached"}.items():
        assert act in found[fence], found


@on_linux
def test_a_probe_that_cannot_be_started_is_no_fence(layers):
    """Neither is one that ends before it has tried."""
    broken = Layers(bubblewrap="/bin/false")
    assert probing.possible(["writing"], broken)["writing"] == ["it could not be tried: It said nothing."]
    with scratch_folder() as scratch, pytest.raises(NotFenced, match="No such file"):
        Fenced(scratch, Layers(bubblewrap="/nowhere/bwrap"), address_space=2**30, seconds=9).start("acts")


def test_every_act_is_about_a_fence():
    assert {name.removesuffix(" found").removesuffix(" by number") for name in acts.ACTS} == set(FENCES)
    named = [act for several in acts.ACTS.values() for act in several]
    assert len(named) == len(set(named))


# --- what they are made of ---


@pytest.mark.parametrize("machine, header", [
    ("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("x86_64", "asm/unistd_64.h"),
    ("aarch64", "asm-generic/unistd.h"),
])
def test_numbers_of_calls_are_those_of_the_kernel(machine, header):
    """The headers that come with the C library, where they are installed."""
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text(encoding="utf-8")))
    column = list(seccomp._MACHINES).index(machine)
    calls = {name: numbers for several in seccomp.REFUSED.values() for name, numbers in several.items()}
    calls |= {"clone": seccomp._CLONE, "clone3": seccomp._CLONE3, "kill": seccomp._KILL, "tgkill": seccomp._TGKILL,
              "prlimit64": seccomp._PRLIMIT, "sched_setscheduler": seccomp._SET_SCHEDULER, "prctl": seccomp._PRCTL,
              "fcntl": seccomp._FCNTL, "ioctl": seccomp._IOCTL, "socketpair": seccomp._SOCKETPAIR,
              "set_mempolicy_home_node": (seccomp._LAST, seccomp._LAST)}
    for name, numbers in calls.items():
        assert defined.get(name) == (None if numbers[column] is None else str(numbers[column])), name


@on_linux
def test_a_call_that_is_not_known_is_missing():
    """Whatever a newer kernel has: it was not looked at."""
    program = """
import ctypes, seccomp
libc = ctypes.CDLL(None, use_errno=True)
seccomp.raise_fence()
for number in (seccomp._LAST + 1, 5000, 2**30, 2**30 + 39):
    print(libc.syscall(ctypes.c_long(number)), ctypes.get_errno())
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=FENCES_PY, capture_output=True, text=True)
    if "takes no filter" in run.stderr:
        pytest.skip("there is no filter of calls here")
    assert run.stdout.split("\n")[:-1] == [f"-1 {errno.ENOSYS}"] * 4, run.stderr


@on_linux
@pytest.mark.parametrize("lines, allowed", [
    ("os.fork()", False), ("os.posix_spawn('/bin/true', ['true'], {})", False), ("pass", True),
    ("subprocess.run(['/bin/true'])", False), ("os.execv('/bin/true', ['true'])", False),
    ("t = threading.Thread(target=print); t.start(); t.join()", True),
    ("signal.signal(signal.SIGUSR1, print); os.kill(os.getpid(), signal.SIGUSR1)", True),
    ("os.kill(os.getppid(), 0)", False), ("os.kill(0, 0)", False), ("os.kill(-1, 0)", False),
    ("os.kill(-os.getpid(), 0)", False), ("resource.prlimit(0, resource.RLIMIT_CORE)", True),
    ("resource.prlimit(os.getppid(), resource.RLIMIT_CORE)", False),
    ("socket.socketpair()", True), ("socket.socketpair(type=socket.SOCK_DGRAM)", False), ("socket.socket()", False),
    ("socket.socketpair(type=socket.SOCK_RAW)", False), ("fcntl.fcntl(0, fcntl.F_GETFL)", True),
    ("fcntl.fcntl(0, fcntl.F_SETOWN, 1)", False), ("signal.setitimer(signal.ITIMER_REAL, 9)", True),
    ("os.chmod('/proc/self/nothing', 0)", False), ("os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))", True),
    ("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", False),
    ("assert libc.prctl(1, 9, 0, 0, 0) == 0", False), ("assert libc.prctl(4, 1, 0, 0, 0) == 0", True),
], ids=lambda given: given if isinstance(given, str) else "")
def test_what_the_filter_lets_through(lines, allowed):
    """Threads, signals to itself, pairs of sockets; not processes, signals to others, sockets that reach anybody."""
    program = f"""
import ctypes, fcntl, os, resource, signal, socket, subprocess, sys, threading
sys.path.insert(0, {str(FENCES_PY)!r})
import seccomp
libc = ctypes.CDLL(None)
try:
    seccomp.raise_fence()
except OSError:
    sys.exit(77)
try:
    {lines}
except (PermissionError, AssertionError):
    sys.exit(1)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if run.returncode == 77:
        pytest.skip("there is no filter of calls here")
    assert run.returncode == (0 if allowed else 1), run.stderr


@on_linux
def test_landlock_asks_for_what_its_version_knows():
    """A version that is not known yet gets what the sixth does."""
    assert landlock.version() >= 0
    assert [len(f"{files:b}") for files in landlock._FILES] == [1, 13, 14, 15, 15, 16]


# --- the process and the grader ---


@on_linux
def test_it_is_nobody_and_inherits_no_surroundings(layers, monkeypatch):
    monkeypatch.setenv("SECRET", acts.MARK)
    with scratch_folder() as scratch:
        fenced = Fenced(scratch, layers, address_space=2**30, seconds=60)
        fenced.start("acts", fence="reading", victims={"file": "/", "process": os.getpid(), "real": []})
        try:
            assert acts.MARK not in Path(f"/proc/{fenced.pid}/environ").read_text(encoding="utf-8")
            if os.getuid() == 0 and layers.user is not None:
                assert fenced.user == layers.user != 0
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended already
        finally:
            fenced.end()


SLEEPS = """
def sleep(aim):
    time.sleep(10**6)

ACTS["sleep"] = (sleep,)
"""


@on_linux
@pytest.mark.parametrize("wrapped", [True, False], ids=["bubblewrap", "no bubblewrap"])
def test_it_ends_with_the_grader(layers, wrapped):
    """Even if the grader is killed: a submission that sleeps would stay for ever."""
    if wrapped and not layers.bubblewrap:
        pytest.skip("bubblewrap does not run here")
    program = f"""
import time
from coursework.fences.fenced import Fenced, layers_here, scratch_folder
with scratch_folder() as scratch:
    fenced = Fenced(scratch, layers_here(without={[] if wrapped else ['bubblewrap']}), address_space=2**30, seconds=60)
    fenced.give("fences/acts.py", (fenced.given / "fences" / "acts.py").read_bytes() + {SLEEPS.encode()!r})
    fenced.start("acts", fence="sleep", victims={{}})
    print(fenced.pid, flush=True)
    time.sleep(10**6)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src")}) as grader:
        handle = os.pidfd_open(int(grader.stdout.readline()))
        grader.kill()
    ended, _, _ = select.select([handle], [], [], 120)
    if not ended:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)
    assert ended, "it has not ended"


@on_linux
def test_a_fenced_process_is_stopped_from_outside(layers):
    """By a signal to itself, though something stands around it; afterwards nothing happens any more."""
    with scratch_folder() as scratch:
        fenced = Fenced(scratch, layers, address_space=2**30, seconds=60)
        fenced.give("fences/acts.py", (fenced.given / "fences" / "acts.py").read_bytes() + SLEEPS.encode())
        fenced.start("acts", fence="sleep", victims={})
        fenced.send_signal(signal.SIGKILL)
        assert fenced.wait() != 0
        fenced.send_signal(signal.SIGKILL)
        fenced.end()


# --- grading refuses ---


def down(*names):
    return Standing(Layers(remarks=("bubblewrap (bwrap) is not installed.",)),
                    {name: ["truncate", "delete"] if name in names else [] for name in FENCES})


def test_a_fence_that_is_down_stops_everything(monkeypatch):
    monkeypatch.setattr(fences, "proved", lambda **_: down("writing", "network"))
    with pytest.raises(FencesDown) as error:
        required(allow=["network"])
    message = str(error.value)
    assert "writing (a submission could change a file outside its folder" in message
    assert "Tried and possible: truncate; delete" in message and "bubblewrap (bwrap) is not installed." in message
    assert "ALLOW=writing,network" in message and "network (a submission" not in message
    assert required(allow=["network", "writing"]).down == ["writing", "network"]
    monkeypatch.setenv("ALLOW", "writing, network")
    assert required().names == [name for name in FENCES if name not in ("writing", "network")]
    monkeypatch.setenv("ALLOW", "")
    with pytest.raises(FencesDown):
        required()


@pytest.mark.parametrize("text", ["all", "network;disk", "network,Disk"])
def test_only_fences_can_be_allowed_to_be_down(monkeypatch, text):
    with pytest.raises(ValueError, match="ALLOW = '.*'; expected names of fences, with commas between them, of: mem"):
        named(text)
    monkeypatch.setattr(fences, "proved", lambda **_: pytest.fail("nothing is tried before"))
    with pytest.raises(ValueError, match="expected names of fences"):
        required(allow=[text])


def test_reading_the_secret_is_tried_on_the_real_one(tmp_path):
    """Where the course lies in a folder that submissions can see."""
    (tmp_path / "secret").touch()
    found = probing.tried("reading", Layers(), real=[tmp_path / "secret"])
    assert found["read_the_courses_files"] == ""
    assert probing.tried("writing", Layers(), real=[tmp_path / "secret"])["open_the_courses_files_for_writing"] == ""


WITHOUT = """
import sys
from coursework.fences import standing as fences
from coursework.grading import command
fences.layers_here = lambda **_: fences.Layers()
sys.argv[0] = "grading"
command.main()
"""


def test_make_grade_refuses(course_python, tmp_path):
    """With a sentence for each fence, and a line to copy; and with that line it grades, and says so again."""
    there = tmp_path / "in" / "ada"
    there.mkdir(parents=True)
    (there / "1_ctc_alpha.ipynb").write_bytes((SOURCES / "1_ctc_alpha" / "1_ctc_alpha.ipynb").read_bytes())
    grade = partial(run_course, course_python, "-c", WITHOUT, tmp_path / "in", "--out", tmp_path / "out")
    run = grade("--allow", "")
    assert run.returncode == 1 and run.stderr.startswith("make grade: nothing was graded"), run.stderr
    assert not (tmp_path / "out" / "reports").exists() and "Traceback" not in run.stderr
    allow = re.search(r"ALLOW=([\w,]+)", run.stderr)[1]
    assert {"writing", "reading", "network", "sockets", "processes"} <= set(allow.split(","))
    run = grade("--allow", "writing")
    assert run.returncode == 1 and "reading (a submission could" in run.stderr and "writing (a" not in run.stderr
    run = grade("--allow", allow)
    assert run.returncode == 0, run.stderr
    assert f"not, as allowed: {allow.replace(',', ', ')}" in run.stdout and "10 of 10" in run.stdout


STOPPED = """
import sys
from coursework.grading.course import Course

class Stopped(Course):
    def _graded(self, assignment, submission, *rest):
        if submission.student == "emmy":
            raise KeyboardInterrupt
        return super()._graded(assignment, submission, *rest)

Stopped(sys.argv[2]).grade("1_ctc_alpha", sys.argv[1])
"""


def test_a_report_is_written_as_soon_as_it_is_done(course_python, tmp_path):
    """Whatever ends the grader at the next student."""
    for student in ("ada", "emmy"):
        there = tmp_path / "in" / student
        there.mkdir(parents=True)
        (there / "1_ctc_alpha.ipynb").write_bytes((SOURCES / "1_ctc_alpha" / "1_ctc_alpha.ipynb").read_bytes())
    run = run_course(course_python, "-c", STOPPED, tmp_path / "in", tmp_path / "out")
    assert "KeyboardInterrupt" in run.stderr
    assert "ada: 10 of 10 points" in (tmp_path / "out" / "reports" / "1_ctc_alpha" / "ada.md").read_text("utf-8")
    assert "ada," in (tmp_path / "out" / "1_ctc_alpha.csv").read_text("utf-8")
    assert (tmp_path / "out" / "feedback" / "ada" / "1_ctc_alpha" / "1_ctc_alpha.html").exists()


def test_a_process_that_cannot_be_started_is_no_mark(course_python, tmp_path):
    """The fences stood when they were tried, and then do not."""
    there = tmp_path / "in" / "ada"
    there.mkdir(parents=True)
    (there / "1_ctc_alpha.ipynb").write_bytes((SOURCES / "1_ctc_alpha" / "1_ctc_alpha.ipynb").read_bytes())
    program = """
import sys
from coursework.fences import standing as fences
from coursework.grading import command
fences.proved = lambda **_: fences.Standing(fences.Layers(bubblewrap="/bin/false"), {"writing": []})
command.main()
"""
    run = run_course(course_python, "-c", program, tmp_path / "in", "--out", tmp_path / "out")
    assert run.returncode == 1 and "not graded" in run.stdout, run.stderr
    assert "no process could be started behind the fences" in run.stdout
    assert "ada: not graded" in (tmp_path / "out" / "reports" / "1_ctc_alpha" / "ada.md").read_text("utf-8")
    assert list((tmp_path / "out").glob("feedback/*/*/*.html")) == []
