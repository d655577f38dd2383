"""Where the built site and the PDF are, and what a test of it does if something is missing."""

import os
from pathlib import Path

import pytest

BUILD = Path(__file__).parent.parent.parent / "_build"
SITE = BUILD / "html"
PDF = BUILD / "pdf" / "ctc-and-rnnt-differentiated.pdf"


def skip_or_fail(variable, reason):
    if os.environ.get(variable):
        pytest.fail(f"{variable} is set, and {reason}")
    pytest.skip(reason)
