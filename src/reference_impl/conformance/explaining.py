"""Finds causes of wrong answers, and for each the smallest input that shows it. `causes.py` has the names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from .causes import by_terms, explanations
from .drawing import drawn
from .judging import Judge, Near
from .report import Finding
from .shrinking import smallest

__all__ = ["findings"]

#: Longer utterances are compared, and not searched for a cause: the explicit recursions are slow there.
_LONGEST = 60


def findings(answers, judge: Judge, *, shrink=True) -> list[Finding]:
    """Wrong answers by the sentence that explains most answers, each with the smallest input that shows it."""
    wrong = [each for answer in answers for each in answer.wrong]
    names = {place: _names(each, judge) for place, each in enumerate(wrong)}
    often = _explained(answers, {name for found in names.values() for name in found}, judge.conventions)
    by_sentence, not_searched = {}, []
    for place, each in enumerate(wrong):
        best = max(names[place], key=often.__getitem__, default="")
        if not best and _frames(each.case.problem) > _LONGEST:
            not_searched.append(each)
        else:
            by_sentence.setdefault(best or each.complaint, []).append(each)
    for each in not_searched:  # the most frequent cause of the field is taken to be theirs
        those = [sentence for sentence, others in by_sentence.items() if any(o.field == each.field for o in others)]
        best = max(those, key=lambda sentence: len(by_sentence[sentence]), default=each.complaint)
        by_sentence.setdefault(best, []).append(each)
    return [Finding(sentence, tuple(dict.fromkeys(each.case.id for each in those)),
                    tuple(dict.fromkeys(each.field for each in those)), _example(those, sentence, judge, shrink))
            for sentence, those in by_sentence.items()]


def _explained(answers, names, conventions):
    """How many answers, right ones too, each cause explains: a cause that would spoil what is right is none."""
    found = Counter()
    for answer in answers:
        if not answer.case.refusal and _frames(answer.case.problem) <= _LONGEST:
            for name in ("loss", "gradient"):
                if name in answer.outputs:
                    given, near = answer.outputs[name], Near(answer.case, name)
                    found.update(cause for cause, value in explanations(
                        answer.case.problem, name, conventions, given, only=names) if near(given, value, times=10))
    return found


def _names(wrong, judge):
    """Sentences that explain a wrong answer."""
    case, given = wrong.case, wrong.given
    if wrong.field not in ("loss", "gradient") or _frames(case.problem) > _LONGEST:
        return []
    if case.refusal and (np.asarray(case.problem.targets) == judge.conventions.blank_of(case.problem)).any():
        return []  # what becomes of a label that is the blank, the conventions say
    near = Near(case, wrong.field)

    def differs(value):
        """In a number: NaN in the place of numbers has many causes, and so has a number in the place of NaN."""
        if case.refusal:
            return np.isfinite(value).all()
        return not near(np.where(np.isnan(value), wrong.right, value), wrong.right)

    found = [name for name, value in explanations(case.problem, wrong.field, judge.conventions, given)
             if near(given, value, times=10) and differs(value)]
    if not found and wrong.field == "gradient" and given.shape == wrong.right.shape:
        said = by_terms(case.problem, judge.conventions, judge.subject.scores_of(case.problem), given)
        found = [said] if said else []
    return found


def _frames(problem):
    return problem.logits.shape[1 if problem.is_batch else 0]


def _example(those, sentence, judge, shrink):
    """The smallest problem with this fault, drawn."""
    first = min(those, key=lambda each: (each.case.problem.is_batch, each.case.problem.logits.size))
    if first.case.refusal:
        return ""
    if first.field == "error":
        return drawn(first.case.problem, {})
    where = first
    if shrink:
        def again(problem):
            return _same_fault(problem, first, sentence, judge)

        where = again(smallest(lambda problem: again(problem) is not None, first.case.problem)) or first
    return drawn(where.case.problem, {where.field: (where.given, where.right)})


def _same_fault(problem, first, sentence, judge):
    """The wrong answer to a problem if it has the same cause; None if it has not."""
    try:
        answer = judge.answer(replace(first.case, problem=problem))
    except (ValueError, IndexError):  # a problem that is none
        return None
    for each in answer.wrong:
        named = each.complaint == sentence if sentence == first.complaint else sentence in _names(each, judge)
        if each.field == first.field and named:
            return each
    return None
