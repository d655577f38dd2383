"""Is this CTC or RNN-T loss right? A kit that says which conventions a loss follows, and grades what it returns.

It takes losses written in Python (NumPy or torch), and in any other language through JSON lines on standard input and
output. Read first ``answering.py``, the side of the loss, whose docstring describes these lines. ``vectors`` has inputs
with right answers to 50 digits, ``ctc_mistakes`` what people get wrong in the recursions, ``encoding`` numbers as JSON.
"""

from .answering import answer

__all__ = ["answer"]
