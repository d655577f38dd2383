"""A pytest plugin for the stage of the tests: the most telling first, each outcome written down at once.

It is told what to do by a JSON file, the name of which is in GPU_TESTS: which tests are done, which share of the others
is this process's, and when to stop. It writes one JSON object a line: the share, the start of a test, its outcome.
"""

import json
import os
import time
from pathlib import Path

import pytest

from . import machine
from .device import is_lost
from .record import selected

_PLAN = json.loads(Path(os.environ["GPU_TESTS"]).read_text(encoding="utf-8"))
_ON_DEVICE = {"triton", "cuda", "torch on cuda"}
_MACHINE = machine.installed()


def _say(**entries):
    with open(_PLAN["log"], "a", encoding="utf-8") as log:
        log.write(json.dumps(entries) + "\n")


def rank(item):
    """Tests on the device before the others; of each kind those that repeat with other parameters last."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    on_device = (item.get_closest_marker("cuda") is not None or "triton" in item.path.name
                 or any(isinstance(value, str) and value in _ON_DEVICE for value in parameters))
    repeats = any(item.get_closest_marker(name) for name in ("slow", "exhaustive"))
    return not on_device, repeats, item.path.name == "test_properties.py"


@pytest.hookimpl(trylast=True)  # after conftest.py and -m have taken theirs out
def pytest_collection_modifyitems(items):
    items.sort(key=rank)  # stable: within a rank, files and tests stay in their order
    done = set(_PLAN["done"])
    mine = items[_PLAN["share"]::_PLAN["shares"]]
    _say(share=[item.nodeid for item in mine])
    wanted = set(selected([item.nodeid for item in mine], _PLAN["only"]))
    items[:] = [item for item in mine if item.nodeid in wanted - done]


def pytest_collectreport(report):
    if report.failed:
        _say(not_collected=report.nodeid, message=_message(report))


def pytest_runtest_logstart(nodeid):
    _say(start=nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    reports = item.stash[_REPORTS] = []
    result = yield
    failed = [report for report in reports if report.failed]
    skipped = [report for report in reports if report.skipped]
    outcome = {"outcome": "passed"}
    if failed or skipped:
        outcome = {"outcome": "failed" if failed else "skipped", "message": _message((failed or skipped)[0])}
    _say(test=item.nodeid, seconds=round(sum(report.duration for report in reports), 2), **outcome)
    if failed and is_lost(outcome["message"]):
        item.session.shouldstop = "the CUDA context is lost"
    elif time.time() > _PLAN["until"]:
        item.session.shouldstop = "the time is up"
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """On ptx_machine a test also fails if a kernel did what no kernel may do, in the test or in its fixtures."""
    try:
        result = yield
    except Exception as error:
        for fault in _faults():
            error.add_note(fault)
        raise
    faults = _faults()
    assert not faults, "\n".join(faults)
    return result


def _faults():
    """The faults that the machine has seen since the last call."""
    reports = _MACHINE.reports[:] if _MACHINE else []
    if _MACHINE:
        _MACHINE.reports.clear()
    return [report.describe() for report in reports if report.findings]


_REPORTS = pytest.StashKey[list]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.stash[_REPORTS].append(report)
    return report


def _message(report):
    """Why, in one line: the reason of a skip, or the first line of the last exception."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
    crash = getattr(report.longrepr, "reprcrash", None)
    return ((crash and crash.message.splitlines()[0]) or (lines or ["?"])[-1])[:300]
