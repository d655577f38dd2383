"""A bank of planted gradient bugs, a fixed list of named checks, and the matrix of which check sees which bug.

The bugs are wrong on purpose: nothing of the package uses them. A bug, like the right code, is a loss as an autograd
engine sees it: ``function(scores, targets, logit_lengths, target_lengths, *, blank=0)`` returns the losses (B,) and a
``backward`` that turns an upstream gradient (B,) into a gradient of the shape of ``scores``. To try the checks on a
loss of your own, wrap it in a :class:`Candidate` (from torch, with :func:`.torch_candidate.torch_candidate`) and ask
each check.
"""

from __future__ import annotations

import numpy as np

from .bank import Bug
from .checks import CHECKS, RIGHT, Candidate, Check
from .ctc_bugs import CTC_BUGS
from .rnnt_bugs import RNNT_BUGS

__all__ = ["BUGS", "CHECKS", "RIGHT", "Bug", "Candidate", "Check", "matrix"]

#: All planted bugs, those of CTC first.
BUGS = (*CTC_BUGS, *RNNT_BUGS)


def matrix(candidates=BUGS, checks=CHECKS) -> np.ndarray:
    """Whether each candidate is killed by each check: a (candidates, checks) bool array.

    A check that does not apply to a candidate (sums over V, say, where the variable is log-probs) does not kill it.

    Examples
    --------
    >>> bool(matrix(RIGHT).any())
    False
    """
    return np.array([[check.kills(candidate) for check in checks] for candidate in candidates], dtype=bool)
