"""Numbers that course/README.md names, against the code and the files that they are about."""

import json
import tomllib

import pytest
from test_coursework import ROOT, run_course

from coursework import asking, oracle
from coursework.fences import bubblewrap, fenced, sandbox
from coursework.home.apart import LIMITS
from reference_impl.conformance.vectors.results import LARGEST

README = (ROOT / "course" / "README.md").read_text(encoding="utf-8")
ERRORS = tomllib.loads((ROOT / "course" / "corpus" / "numerical_errors.toml").read_text(encoding="utf-8"))["submission"]
_WORDS = {0.5: "half an hour", 2: "two", 10: "ten"}


def word(number):
    return _WORDS.get(number, f"{number:g}")


GRADER = """
import json
from coursework.grading import outputs
from coursework.grading.course import Course
from coursework.grading.referee import SandboxedExecute
print(json.dumps({
    "limits": {name: SandboxedExecute.class_traits()[name].default_value for name in
               ("address_space", "processor_seconds", "cell_seconds", "cell_patience", "patience")},
    "memory": Course.memory, "seconds": Course.seconds, "text": outputs._TEXT, "largest": outputs._LARGEST}))
"""

SAYS = {
    "memory": f"take more than {LIMITS['address_space'] / 2**30:g} GiB",
    "time": f"take more than {LIMITS['processor_seconds']:g} s of processor time; {LIMITS['cell_seconds']:g} s a cell, "
            f"{asking.SECONDS:g} s a call",
    "threads": f"or more than {sandbox.THREADS} threads",
    "disk": f"write more than {sum(bubblewrap.IN_MEMORY.values()) / 2**20:g} MB, or make more than {fenced.FILES:,} "
            "files",
    "sleep": f"after {word(asking.PATIENCE / 60)} minutes a call, {word(LIMITS['cell_patience'] / 60)} minutes a "
             "cell",
    "spare": f"take at most {word(asking.SPARE)} seconds of processor time",
    "oracle": f"each at most {oracle.CALLS} times, with {oracle.ENTRIES} numbers a call",
    "results": f"each at most {LARGEST / 1e6:g} MB",
    "errors": f"has {len(ERRORS)} errors that were written without a look at the names: "
              f"{sum('says' in entry for entry in ERRORS)} get one now",
}


@pytest.mark.parametrize("sentence", SAYS.values(), ids=SAYS)
def test_the_readme_says_what_the_code_does(sentence):
    assert sentence in README


def test_the_readme_says_what_the_grader_does(course_python):
    """It is asked in its own environment. It takes from a submission what home takes."""
    run = run_course(course_python, "-c", GRADER)
    assert run.returncode == 0, run.stderr
    grader = json.loads(run.stdout)
    patience = grader["limits"].pop("patience")
    assert grader["limits"] == LIMITS
    for sentence in (
        f"and {word(patience / 3600)} a notebook",
        f"may take {grader['memory'] / 2**30:g} GiB of memory besides the {LIMITS['address_space'] / 2**30:g} GiB of "
        f"the submission, and {word(grader['seconds'] / 3600)} hours",
        f"the first {grader['text']:,} characters of an output; a note replaces anything larger than "
        f"{grader['largest'] / 1e6:g} MB",
    ):
        assert sentence in README
