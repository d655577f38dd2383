"""A plugin of pytest that grades losses in a test suite, by the fixture ``conformance``::

    def test_my_loss(conformance):
        conformance(my_loss, kind="ctc")

It fails with the report in words. Where the package is installed, pytest finds the plugin by itself; else name it in
the top `conftest.py`: ``pytest_plugins = ["reference_impl.conformance.pytest_plugin"]``.
"""

from __future__ import annotations

import warnings

import pytest

__all__ = ["conformance"]


@pytest.fixture
def conformance():
    """A function that grades a loss and fails the test if something is wrong: ``conformance(loss, kind=...)``.

    ``batch=True`` is for a torch loss with torch's arguments; other arguments are those of :func:`.grade`. It returns
    the report, and warns if no gradient, or no loss, came back to be checked.
    """
    from . import function_subject, grade, torch_subject  # only suites that ask for it wait for this import

    def grade_in_test(loss, *, kind, batch=False, layout="", **how):
        subject = torch_subject(loss, kind, layout=layout) if batch else function_subject(loss, kind)
        report = grade(subject, **how)
        if not report.right:
            pytest.fail(f"\n{report}", pytrace=False)
        if report.unchecked:
            warnings.warn(report.unchecked, stacklevel=2)
        return report
    return grade_in_test
