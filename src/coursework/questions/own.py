"""The graded questions whose rules are each student's own: names, points, inputs to try an answer on, and no answer."""

from __future__ import annotations

import numpy as np

from . import ctc_inputs, port_own, rnnt_inputs
from .question import Case
from .sealed import Sealed

__all__ = ["SEALED"]


def _of_states(log_probs, targets, blank):
    return len(log_probs), 2 * len(targets) + 1


def _of_logits(logits, targets, blank):
    return np.shape(logits)


def _of_log_probs(log_probs, targets, blank):
    return np.shape(log_probs)


def _number(**arguments):
    return ()


def _as_logits(cases):
    """The same cases, with logits in the place of log-probs."""
    def drawn(rng):
        return [Case(case.group, {"logits" if name == "log_probs" else name: value
                                  for name, value in case.arguments.items()}) for case in cases(rng)]
    return drawn


_CTC, _RNNT = ctc_inputs.utterances, rnnt_inputs.utterances
_GRADIENT = {"different labels": 1.5, "equal labels": 0.5, "edges": 0.5, "no alignment": 0.5}
_GRID = {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}

#: By assignment, the questions that are graded by answers students do not get.
SEALED = {
    "2_ctc_beta": [
        Sealed("own_log_beta", {"different labels": 2.0, "equal labels": 1.0, "edges": 1.0}, _CTC, None, {},
               shape=_of_states),
        Sealed("own_loss", {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}, _CTC, None, {}, shape=_number),
    ],
    "3_ctc_gradient": [
        Sealed("own_grad_log_probs", _GRADIENT, _CTC, None, {}, shape=_of_log_probs),
        Sealed("own_grad_logits", _GRADIENT, _as_logits(_CTC), None, {}, shape=_of_logits),
    ],
    "4_rnnt_gradient": [
        Sealed("own_loss", _GRID, _RNNT, None, {}, shape=_number),
        Sealed("own_grad_log_probs", _GRID, _RNNT, None, {}, shape=_of_log_probs),
        Sealed("own_grad_logits", _GRID, _as_logits(_RNNT), None, {}, shape=_of_logits),
    ],
    "8_port_a_loss": port_own.SEALED,
}
