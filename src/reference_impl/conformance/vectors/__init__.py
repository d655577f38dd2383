"""Test vectors of CTC and RNN-T: inputs and right answers as JSON, and what is wrong with somebody's results.

For people who write a loss in another language or framework; `book/teaching/test_vectors.md` says how to read them.
Nothing in the book or in `reference_impl` needs this.
"""

from .compare import Findings, compare
from .document import answered, document, public, unanswered
from .results import NotResults, read_results, right_results

__all__ = ["Findings", "NotResults", "answered", "compare", "document", "public", "read_results", "right_results",
           "unanswered"]
