"""Names for wrong answers from the conformance kit: families of mistakes in recursions, posteriors and inputs.

A sentence of a family is believed if it explains every answer that is compared, the right ones too. The small cases,
which are everybody's, are looked at first: what each mistake makes of them is computed once for all students.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np

from reference_impl import log_softmax
from reference_impl.conformance.families import answers
from reference_impl.conformance.families.ctc_lattice import Lattice
from reference_impl.conformance.families.ctc_recursions import LATTICES
from reference_impl.conformance.families.inputs import SCORES, UTTERANCES
from reference_impl.conformance.families.rnnt_grid import Grid
from reference_impl.conformance.families.rnnt_recursions import GRIDS
from reference_impl.conformance.families.shared import BOTH, GRADIENT, LOSS
from reference_impl.conformance.problem import LOSSES, Problem

from ..questions.ladders import LOG_ALPHA, LOG_BETA
from .tried import same

__all__ = ["kit_name"]

#: Mistakes without an answer to a problem raise one of these.
_NONE = (ArithmeticError, LookupError, ValueError, TypeError)
_PROBES = 3  # so many wrong answers are compared with all sentences


def kit_name(ladder, tried) -> str:
    """The first sentence that explains all answers, right and wrong, or all but those to the most special inputs.

    These have masked scores or an empty target: there one mistake is written in several ways, which differ. Empty if no
    sentence does.
    """
    compared = [(problem, each) for each in tried if (problem := ladder.problem_of(each.case)) is not None]
    plain = [(problem, each) for problem, each in compared
             if np.isfinite(problem.logits).all() and len(problem.targets)]
    return _name_of(ladder, compared) or (_name_of(ladder, plain) if len(plain) < len(compared) else "")


def _name_of(ladder, compared):
    wrong = [pair for pair in compared if pair[1].wrong]
    if not wrong or any(each.value is None or each.value.dtype.kind not in "if" for _, each in wrong):
        return ""
    wrong.sort(key=lambda pair: (not pair[1].case.small, -_says_much(pair[0]), pair[0].logits.size))
    names = None
    for problem, each in [*wrong[:_PROBES], *compared]:
        found = _sentences(ladder, problem, names)
        if names is None:
            names = tuple(name for name, values in found.items() if _explains(ladder, values, each))
        else:
            names = tuple(name for name in names if _explains(ladder, found.get(name) or [], each))
        if not names:
            return ""
    return _plain(names[0])


def _says_much(problem):
    """Whether few mistakes have the same answer to a problem: more frames than one, labels, scores that differ."""
    return (len(problem.logits) > 2) + (len(problem.targets) > 1) + bool(np.ptp(problem.logits)) - 3 * bool(
        np.isinf(problem.logits).any())


def _explains(ladder, values, each):
    """Whether an answer is one of these values; a mistake that says nothing of a problem leaves it right."""
    if not each.wrong and not values:
        return True
    if each.value is None:
        return False
    return any(same(each.value, ladder.sign * np.asarray(value), each.tolerance) for value in values)


def _sentences(ladder, problem, names):
    if names is None:
        return _all(ladder.about, ladder.variable, problem.logits.tobytes(), problem.logits.shape,
                    tuple(np.asarray(problem.targets).tolist()), int(problem.blank))
    return _some(ladder.about, ladder.variable, problem, set(names))


@lru_cache(maxsize=16)
def _all(field, variable, scores, shape, targets, blank):
    problem = Problem("", "", np.frombuffer(scores).reshape(shape).copy(), np.array(targets, dtype=np.int64), blank)
    return _some(field, variable, problem, None)


def _some(field, variable, problem, only):
    problem = replace(problem, targets=np.asarray(problem.targets, dtype=np.int64))
    found = {}
    with np.errstate(all="ignore"):
        if field in (LOG_ALPHA, LOG_BETA):
            for name, table in _tables(field, problem, only):
                found.setdefault(name, []).append(table)
        else:
            for name, about, values in answers(problem, variable, only=only, field=field):
                if about == field:
                    found.setdefault(name, []).extend(values)
    return found


def _tables(field, problem, only):
    """Alpha or beta of each wrong input, and with each mistake in it: what is wrong with everything is said first."""
    ctc, log_probs = problem.loss == "ctc", log_softmax(problem.logits)
    right = getattr(LOSSES[problem.loss], field)
    for name, made in SCORES.items():
        if only is None or name in only:
            with suppress(*_NONE):
                yield name, right(made(problem.logits, problem.blank), problem.targets, blank=problem.blank)
    for name, made in UTTERANCES.items():
        if only is None or name in only:
            with suppress(*_NONE):
                other, _ = made(problem)
                yield name, right(log_softmax(other.logits), other.targets, blank=other.blank)
    make, changes = (Lattice, LATTICES) if ctc else (Grid, GRIDS)
    sweep = "alpha" if field == LOG_ALPHA else "beta"
    for name, change in changes.items():
        for each in change if isinstance(change, list) else [change]:
            if only is None or name in only:
                with suppress(*_NONE):
                    lattice = make(log_probs, problem.targets, problem.blank)
                    each(lattice)
                    yield name, getattr(lattice, sweep)()


def _plain(sentence):
    """A sentence of a family without the words for where it is made, if there is one place only."""
    for where in (BOTH, GRADIENT, LOSS):
        sentence = sentence.removeprefix(where)
    sentence = sentence.removesuffix(".")
    return f"{sentence[0].upper()}{sentence[1:]}."
