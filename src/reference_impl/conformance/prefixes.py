"""Which alpha and beta a loss exposes: whether they contain the emission of their node, and how they are scaled."""

from __future__ import annotations

import numpy as np

from .._softmax import log_softmax
from ..as_published.ctc_conventions import CONVENTIONS, convert
from .problem import LOSSES

__all__ = ["said_of"]

_CONTAINS = {True: "contains the emission at t", False: "excludes the emission at t"}


def said_of(name, given, problem, scores, conventions, close) -> str:
    """What a ``log_alpha`` or ``log_beta`` is, in a few words; empty if it is none that has a name.

    Examples
    --------
    >>> from reference_impl import ctc
    >>> from reference_impl.conformance import Conventions, Problem
    >>> problem = Problem("", "", np.log([[0.5, 0.5], [0.25, 0.75]]), np.array([1]))
    >>> given = ctc.log_beta(problem.logits, [1]) + problem.logits[:, [0, 1, 0]]
    >>> said_of("log_beta", given, problem, problem.logits, Conventions("ctc"), 1e-9)
    'contains the emission at t'
    """
    with np.errstate(all="ignore"):
        for said, value in _known(name, problem, scores, conventions):
            for how, shown in (("", given), (", as probabilities", np.log(given)), (", times -1", -given)):
                if np.shape(shown) == value.shape:
                    if np.allclose(shown, value, rtol=close, atol=close, equal_nan=True):
                        return said + how
                    if _rescaled(shown, value, close):
                        return f"{said}{how}, rescaled in each frame"
    return ""


def _known(name, problem, scores, conventions):
    log_probs = log_softmax(scores) if conventions.inputs == "logits" else scores
    module, blank = LOSSES[conventions.kind], conventions.blank_of(problem)
    ours = [getattr(module, each)(log_probs, problem.targets, blank=blank) for each in ("log_alpha", "log_beta")]
    if conventions.kind == "rnnt":
        value = ours[name == "log_beta"]
        yield ("is the mass before the node" if name == "log_alpha" else "is the mass from the node on"), value
        yield "has frames and rows exchanged", value.T
        yield f"is {'beta' if name == 'log_alpha' else 'alpha'}", ours[name == "log_alpha"]
        return
    for convention, contains in CONVENTIONS.items():
        place = int(name == "log_beta")
        value = convert(*ours, log_probs, problem.targets, source="thesis", target=convention, blank=blank)[place]
        yield _CONTAINS[contains[place]], value
        yield f"{_CONTAINS[contains[place]]}, and has frames and states exchanged", value.T


def _rescaled(given, value, close):
    """Whether each frame differs by a constant: something was divided out of all its states."""
    finite = np.isfinite(value)
    if not np.array_equal(np.isfinite(given), finite) or not finite.any(-1).all():
        return False
    shift = np.where(finite, given - value, 0.0)
    constant = (shift.sum(-1) / finite.sum(-1))[..., None]
    return bool(np.allclose(shift, np.where(finite, constant, 0.0), rtol=0, atol=close))
