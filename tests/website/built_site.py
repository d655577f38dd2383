"""Where the built site is, and what a test of it does if something is missing."""

import os
from pathlib import Path

import pytest

SITE = Path(__file__).parent.parent.parent / "_build" / "html"


def skip_or_fail(variable, reason):
    if os.environ.get(variable):
        pytest.fail(f"{variable} is set, and {reason}")
    pytest.skip(reason)
