"""Hostile submissions, graded by `make grade`: none escapes, none stops another, and nobody gets what is not earned.

What each tries is in course/hostile/. They are graded only where every fence stands.
"""

import hashlib
import json
import os
import re
import socket
import tomllib

import pytest
from test_coursework import run_course

from coursework.fences import hostile
from coursework.fences.standing import FENCES

ASSIGNMENT = "1_ctc_alpha"
ENTRIES = hostile.listed(ASSIGNMENT)
#: Leaves no doubt that the secret was read at its place, should it turn up anywhere.
SECRET = hashlib.sha256(b"hostile").hexdigest()[:32]


def looks(path):
    about = path.stat()
    return path.read_bytes(), about.st_mode, about.st_mtime_ns, about.st_nlink, about.st_uid


@pytest.fixture(scope="session")
def harmed(once, fences, course_python):
    """What is left after all were graded: output, reports by name, and what differs outside."""
    def fill(folder):
        course, submissions, said = folder / "course", folder / "submissions", {}
        course.mkdir()
        (course / "secret").write_text(SECRET, encoding="ascii")
        os.chmod(course / "secret", 0o600)
        before = looks(course / "secret")
        name = f"coursework-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as outside, socket.socket(socket.AF_UNIX) as abstract:
            outside.bind(str(folder / "s"))
            os.chmod(folder / "s", 0o777)
            abstract.bind("\0" + name)
            for line in (outside, abstract):
                line.listen()
                line.setblocking(False)
            hostile.write(ASSIGNMENT, submissions, {"COURSE": course, "SUBMISSIONS": submissions,
                                                    "SOCKET": folder / "s", "NAME": name})
            notebooks = {path: looks(path) for path in submissions.glob("*/*.ipynb")}
            free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            run = run_course(course_python, "-m", "coursework.grading", submissions, "--out", course)
            said |= {"code": run.returncode, "out": run.stdout, "error": run.stderr, "reached": []}
            for line, which in (outside, "socket"), (abstract, "name"):
                try:
                    line.accept()[0].close()
                    said["reached"].append(which)
                except BlockingIOError:
                    pass
        said["secret changed"] = looks(course / "secret") != before
        said["submissions changed"] = sorted(path.parent.name for path, was in notebooks.items()
                                             if not path.exists() or looks(path) != was)
        said["grades"] = (course / "grades.csv").read_text(encoding="utf-8") if run.returncode == 0 else ""
        said["taken"] = free - os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        (folder / "said.json").write_text(json.dumps(said), encoding="utf-8")

    folder = once("hostile", fill)
    reports = {path.stem: path.read_text(encoding="utf-8")
               for path in (folder / "course" / "reports" / ASSIGNMENT).glob("*.md")}
    return json.loads((folder / "said.json").read_text(encoding="utf-8")), reports


def points_of(report):
    return float(re.search(r": ([\d.]+) of 10 points", report)[1])


def test_nothing_outside_is_harmed(harmed):
    said, _ = harmed
    assert (said["code"], said["error"]) == (0, "")
    assert not said["secret changed"] and not said["submissions changed"] and not said["reached"]
    assert "ada,10" not in said["grades"] and f"\n{ASSIGNMENT}," in said["grades"]


def test_nobody_stops_another(harmed):
    """Everybody has a report, and the one who means no harm, graded last, has all points."""
    said, reports = harmed
    assert set(reports) == {entry["name"] for entry in ENTRIES} | {hostile.SOLUTION}
    assert points_of(reports[hostile.SOLUTION]) == 10
    assert not [name for name, report in reports.items() if SECRET in report or "The grader failed" in report]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_a_hostile_submission(harmed, entry):
    """It gets the points of its right answers, and no others; the report says what came of the attempt."""
    report = harmed[1][entry["name"]]
    assert entry["says"] in report
    assert entry["at_least"] <= points_of(report) <= entry["at_most"]


def test_every_fence_is_attacked():
    """And every entry is what it is taken for."""
    assert {entry["fence"] for entry in ENTRIES if "fence" in entry} == set(FENCES)
    names = [entry["name"] for entry in ENTRIES]
    assert len(names) == len(set(names)) >= 30 and all(name < hostile.SOLUTION for name in names)
    for path in hostile.HOSTILE.glob("*.toml"):
        assert tomllib.loads(path.read_text(encoding="utf-8"))["submission"]
