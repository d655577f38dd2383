"""The ``answer`` of `reference_impl.conformance.answering`, for adapters in a Python that is older than the package.

Of the package, that file and `encoding.py` are imported alone: they run in Python 3.8 and later, with any NumPy.
"""

from bare_packages import module

answer = module("reference_impl.conformance.answering", "reference_impl.conformance").answer
