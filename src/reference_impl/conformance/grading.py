"""Grades a loss: finds its conventions, asks it about every case, and reports what is wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .cases import AFTERWARDS, GROUPS, cases
from .conventions import Conventions
from .explaining import findings
from .identifying import OF_THE_GRADIENT, identify
from .judging import Judge
from .remembering import DIFFERS, remembered
from .report import Counted, Finding, LossReport
from .subjects import Subject

__all__ = ["Expectation", "grade"]


class Expectation(ValueError):
    """An expectation names no convention."""


def grade(subject: Subject, *, expect: Mapping[str, str] = (), without=(), precisions=(), shrink=True,
          seconds=60.0) -> LossReport:
    """Grade a loss.

    Parameters
    ----------
    subject : Subject
        A :func:`.function_subject`, :func:`.torch_subject`, :func:`.candidate_subject` or :class:`.Program`.
    expect : mapping of str to str
        Conventions that the loss is meant to have, by the names of :meth:`.Conventions.named`. One by which the
        gradient is not the derivative of the loss is wrong unless it is named here; so is one that is named and not
        found.
    without : names of groups that are not asked
    precisions : names of precisions, of those that the subject has; all if left out
    shrink : bool
        Look for the smallest input that shows what is wrong.
    seconds : float
        On the clock, that this may take for each finding. Only of a slow loss is the result another for it.

    Returns
    -------
    LossReport
        ``report.right`` says whether nothing is wrong; ``str(report)`` all of it in words.

    Raises
    ------
    Expectation
        If ``expect`` names no convention, ``without`` no group, or ``precisions`` none of the subject's.

    Examples
    --------
    >>> from reference_impl import ctc
    >>> from reference_impl.conformance.subjects import function_subject
    >>> def mine(logits, targets, *, blank):
    ...     log_probs = log_softmax(logits)
    ...     return ctc.loss(log_probs, targets, blank=blank), ctc.grad_log_probs(log_probs, targets, blank=blank)
    >>> from reference_impl import log_softmax
    >>> report = grade(function_subject(mine, "ctc"))
    >>> report.right, report.findings[0].sentence
    (False, 'The scores are taken as logits, and what is returned is the gradient with respect to log-probs.')
    """
    started = time.perf_counter()
    expect = dict(expect)
    _check_names("expect", expect, Conventions(subject.kind).named())
    _check_names("without", without, GROUPS)
    _check_names("precisions", precisions, subject.precisions)
    precisions = tuple(precisions) or subject.precisions
    identified = identify(subject, precision=precisions[0])
    if identified.precision != precisions[0]:
        precisions = (identified.precision,)
    judge = Judge(replace(subject, scores=identified.conventions.inputs), identified.conventions, identified.transposed)
    asked = [case for case in cases(subject.kind, precisions) if case.group not in without and identified.given
             and judge.subject.takes(case.problem) and not _inf_of_a_total(case.problem, judge.conventions)
             and (case.refusal or not _label_is_its_blank(case.problem, judge.conventions))]
    answers = [judge.answer(case) for case in asked]
    if AFTERWARDS in without:
        answers = [replace(answer, wrong=tuple(each for each in answer.wrong if each.group != AFTERWARDS))
                   for answer in answers]
    found = [Finding(sentence, (), ("conventions",)) for sentence in _unexpected(identified, expect)]
    if not identified.given and not identified.errors:
        found.append(Finding("Neither a loss nor a gradient comes back.", (), ("conventions",)))
    raised = {_without_numbers(each.complaint) for answer in answers for each in answer.wrong}
    found += [Finding(f"It cannot be asked: {error}", (), ("conventions",)) for error in identified.errors[:3]
              if not any(_without_numbers(error) in complaint for complaint in raised)]
    again = remembered(judge, precisions[0]) if identified.given else []
    found += findings(answers, judge, seconds=seconds if shrink else 0.0,
                      memory=next((sentence for sentence in again if sentence != DIFFERS), ""))
    told = {finding.sentence for finding in found}
    found += [Finding(sentence, (), ("again",)) for sentence in again if sentence not in told]
    found += _unexplained(identified, found)
    counted = {group: count for group, count in _counted(answers).items() if group not in without}
    left_out = tuple(group for group in GROUPS if group not in counted)
    return LossReport(subject.name, subject.version, subject.kind, identified, expect, tuple(found), counted,
                  left_out, tuple(answer.accuracy for answer in answers if answer.accuracy),
                  time.perf_counter() - started)


def _without_numbers(text):
    return re.sub(r"\d+", "", text)


def _unexplained(identified, found):
    """What follows no convention, and of which nothing else was said."""
    return [Finding(f"The {name} follows no known convention.", (), ("conventions",))
            for name in sorted(identified.given) if not getattr(identified, name) and not identified.errors
            and not any(name in each.fields for each in found)]


def _inf_of_a_total(problem, conventions):
    """An upstream gradient of inf belongs to one utterance, which a total does not have."""
    return conventions.total and problem.upstream is not None and bool(np.isinf(problem.upstream).any())


def _label_is_its_blank(problem, conventions):
    """What such an utterance has for an answer is undefined, if a loss has another blank than it is told."""
    return any((one.targets == conventions.blank_of(one)).any() for _, one in problem.utterances())


def _check_names(argument, given, known):
    for name in given:
        if name not in known:
            raise Expectation(f"{argument}: {name!r}; expected one of {', '.join(known)}")


def _unexpected(identified, expect):
    """Sentences about conventions that are not as expected."""
    named = identified.conventions.named()
    others = [name for name, value in expect.items() if not _same(named[name], value)]
    if "inputs" in others and named["inputs"] == named["variable"]:  # then this is said already
        others = [name for name in others if name != "variable"]
    for name in others:
        if name in OF_THE_GRADIENT and "gradient" not in identified.given:
            if name != "variable":  # the command expects it together with the inputs
                yield f"{name} = {expect[name]} was expected; no gradient came back."
        elif name not in OF_THE_GRADIENT or identified.gradient:
            yield f"{name} = {expect[name]} was expected; it is {named[name]}."
    for name, sentence in identified.departures().items():
        if name not in expect:
            yield sentence
    if identified.transposed:
        yield "The gradient comes back with its first two axes exchanged."


def _same(found, wanted):
    try:
        return bool(np.isclose(float(found), float(wanted), rtol=1e-4, atol=1e-9))
    except ValueError:
        return found == wanted


def _counted(answers):
    found = {}
    for group in GROUPS:
        those = [answer for answer in answers if group in answer.groups]
        if those:
            found[group] = Counted(len(those), sum(any(each.group == group for each in answer.wrong)
                                                   for answer in those))
    return found
