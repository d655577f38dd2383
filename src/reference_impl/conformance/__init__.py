"""Is this CTC or RNN-T loss right? A kit that says which conventions a loss follows, and grades what it returns.

It takes losses written in Python (NumPy or torch), and in any other language through JSON lines on standard input and
output. From the command line::

    python -m reference_impl.conformance my_loss.py:ctc --kind ctc

**In a program**, ``grade(function_subject(my_loss, "ctc"))`` gives a report. How that comes about: ``identify`` asks
about a few utterances and fits what comes back (`identifying.py`, on `terms.py`), which gives `Conventions`; every case
in `cases.py` is asked and compared by them (`judging.py`), and one again after others (`remembering.py`); what is
wrong gets the name of a known mistake, and the smallest input that shows it (`explaining.py`, `causes.py`,
`shrinking.py`), and what follows from it is not said apart (`joining.py`); `report.py` says it all. `families/` has
whole families of mistakes.

**In another language**, a program answers as `answering.py` describes, and `Program` asks it. ``vectors`` has inputs
with right answers to 50 digits, ``ctc_mistakes`` what people get wrong in the recursions, ``encoding`` numbers as JSON.
**In pytest** there is the fixture of `pytest_plugin.py`. **In the book**, `museum.py` shows the exhibits of the museum
of errors, which `bug_bank/exhibits.py` lists, each on the smallest input that is wrong.
"""

from .answering import answer
from .conventions import Conventions, Scale
from .grading import Expectation, grade
from .identifying import Identified, identify
from .problem import Problem
from .programs import Program
from .report import Finding, LossReport
from .shrinking import smallest
from .subjects import NotAnswering, Refused, Subject, candidate_subject, function_subject, torch_subject

__all__ = ["Conventions", "Expectation", "Finding", "Identified", "LossReport", "NotAnswering", "Problem", "Program",
           "Refused", "Scale", "Subject", "answer", "candidate_subject", "function_subject", "grade", "identify",
           "smallest", "torch_subject"]
