"""The process that compiles for ptx_machine: what it is asked, and whose answer is whose if it ends or is interrupted.

Nothing is compiled here: a process that answers each question with the question takes Triton's place.
"""

import functools
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

from ptx_machine import compiling

ECHO = """
import json, sys
for line in sys.stdin:
    if line.strip() == "end":
        break
    print(json.dumps({"error": "asked " + line.strip()}), flush=True)
"""


@pytest.fixture
def children(monkeypatch):
    """The processes that were started so far."""
    started = []

    @functools.cache
    def child():
        started.append(subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True))
        return started[-1]

    monkeypatch.setattr(compiling, "_child", child)
    yield started
    for each in started:
        each.kill()
        each.communicate()


def asked(question):
    with pytest.raises(compiling.CompileError) as caught:
        compiling._asked(question)
    return str(caught.value)


def test_one_process_for_all_questions(children):
    assert [asked(question) for question in ("one", "two", "one")] == ["asked one", "asked two", "asked one"]
    assert len(children) == 1


def test_after_an_interrupt_the_next_question_gets_its_own_answer(children):
    def interrupted():
        raise KeyboardInterrupt

    assert asked("one") == "asked one"
    with (mock.patch.object(children[0], "stdout", SimpleNamespace(readline=interrupted)),
          pytest.raises(KeyboardInterrupt)):
        compiling._asked("two")
    assert asked("three") == "asked three" and len(children) == 2


def test_a_process_that_ends_is_replaced(children):
    """Whether it ends while it is asked or before."""
    ended = "the process that compiles has ended"
    assert asked("end") == ended and asked("one") == "asked one" and len(children) == 2
    children[1].kill()
    children[1].wait()
    assert asked("two") == ended and asked("two") == "asked two" and len(children) == 3


def tensor(dtype, address):
    return SimpleNamespace(dtype=dtype, data_ptr=lambda: address)


def test_what_arguments_mean_to_the_compiler():
    """Pointers with their alignment, numbers by their size; 1, None, truth values and what has a name are constants."""
    names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    given = [tensor("torch.float16", 48), tensor("torch.int64", 8), 32, 2**31, 0.5, 1, None, True]
    specification, left = compiling.specialised(names, given, {"i": 64, "num_warps": 2})
    assert specification["signature"] == {"a": "*fp16", "b": "*i64", "c": "i32", "d": "i64", "e": "fp32",
                                          **dict.fromkeys("fghi", "constexpr")}
    assert specification["constants"] == {"f": 1, "g": None, "h": True, "i": 64}
    assert specification["multiples"] == {0: 16, 2: 16, 3: 16} and specification["options"] == {"num_warps": 2}
    assert left == given[:5]


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match="n is not given; expected all of x, n"):
        compiling.specialised(["x", "n"], [tensor("torch.float32", 16)], {"num_warps": 2})
    with pytest.raises(ValueError, match="x has dtype complex64; expected one of float16, bfloat16"):
        compiling.specialised(["x"], [tensor("torch.complex64", 16)], {})
