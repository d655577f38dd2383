"""What a planted bug is, how it enters a list, and what the bugs of both losses are made of. It holds no bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .. import lattice
from ..semiring import LOG
from .checks import RIGHT, Candidate, over_batch

__all__ = ["FLOOR", "Bug", "entry_in", "on_lattice", "right_for"]

FLOOR = replace(LOG, name="log, -1e5 for -inf", zero=-1e5)


@dataclass(frozen=True)
class Bug(Candidate):
    """A wrong candidate: what is wrong, where that was met, with ids of data/claims.json, and a check that sees it.

    An exhibit of the museum (`exhibits.py`) also says what was believed, by the code or by whoever asked, and the truth
    in a line, in the chapters' Markdown.
    """

    name: str
    mechanism: str
    source: str
    killed_by: str
    claims: tuple[str, ...] = field(default=(), kw_only=True)
    believed: str = field(default="", kw_only=True)
    truth: str = field(default="", kw_only=True)


def entry_in(bugs: list[Bug], loss: str) -> Callable:
    """The decorator that enters a function, whose docstring is the mechanism, in a list of bugs of one loss.

    The function is that of one utterance, ``(scores, targets, blank) -> (loss, gradient)``, or with ``batch=True`` that
    of a :class:`Candidate`. ``claim`` has the ids of what is claimed about the library that it is after, by commas.
    """
    def bug(variable, name, source, killed_by, *, claim="", believed="", truth="", batch=False, tolerance=1e-9):
        def enter(function):
            whole = function if batch else over_batch(function, loss)
            mechanism = " ".join(function.__doc__.split())
            claims = tuple(filter(None, claim.split(", ")))
            bugs.append(Bug(loss, variable, whole, name, mechanism, source, killed_by, tolerance=tolerance,
                            claims=claims, believed=believed, truth=truth))
            return function
        return enter
    return bug


def on_lattice(graph, log_probs, to_logits):
    """Loss and gradient on any lattice: consistent with each other, even where the lattice is the wrong one."""
    weights = graph.arc_weights(log_probs)
    occupancy = graph.occupancy(lattice.arc_posteriors(graph, weights))
    gradient = np.exp(log_probs) * occupancy.sum(-1, keepdims=True) - occupancy if to_logits else -occupancy
    return -lattice.forward(graph, weights)[-1], gradient


def right_for(loss, variable):
    return next(c for c in RIGHT if (c.loss, c.variable) == (loss, variable)).function
