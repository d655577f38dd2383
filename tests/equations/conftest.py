"""Every check of an equation is examined: its evidence, cases and TeX; ``data/equations.json`` has the findings."""

import pytest
from findings import finding, read, write

from reference_impl.equations import EquationError, examine, no_source_while

FOUND, KNOWN = pytest.StashKey(), pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--write-equations", action="store_true", help="write data/equations.json anew")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    with no_source_while("while the tests are imported: nothing could examine what it returns"):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    marks = list(pyfuncitem.iter_markers("equation"))
    if not marks:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    stash, test = pyfuncitem.config.stash, f"{pyfuncitem.path.name}::{pyfuncitem.name}"
    examined = examine(lambda: pyfuncitem.obj(**arguments), pyfuncitem.module.QUANTITIES,
                       known=stash.setdefault(KNOWN, {}))
    found = [finding(each, test, pyfuncitem.module, marks) for each in examined]
    if pyfuncitem.config.getoption("--write-equations", default=False):
        stash.setdefault(FOUND, []).extend(found)
    elif found != [each for each in read() if each["test"] == test]:
        raise EquationError(f"data/equations.json says something else; make equations writes it: {found}")
    return True  # it has been called


def pytest_sessionfinish(session):
    found = session.config.stash.get(FOUND, [])
    if found:
        write(found)
