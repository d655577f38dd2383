"""From what was answered to points and to sentences that say what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .effort import said, sufficient
from .encoding import decoded

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True)
class Verdict:
    """Points of a question, and what was found; ``str`` of it is what a student reads."""

    name: str
    points: float
    total: float
    findings: tuple[str, ...]

    @property
    def right(self) -> bool:
        return self.points == self.total

    def __str__(self):
        head = f"{self.name}: {self.points:g} of {self.total:g} points"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


def judge(question, cases, answers, measure=None) -> Verdict:
    """Compare the answers (of :func:`.asking.ask`) with the right ones, group by group.

    A group is right if all its cases are. Of a wrong one it is said which known mistake gives exactly these answers, or
    else what is wrong with the first answer that is.

    If the question asks for an effort, ``measure()`` tells how much there is (:mod:`.effort`), and without enough of
    it, or if a large case is wrong, right answers earn nothing. Without ``measure`` only right and wrong is judged.
    """
    if len(answers) != len(cases):
        return Verdict(question.name, 0.0, question.total, ("There is no answer.",))
    if (judged := question.judged(cases, answers)) is not None:
        points, findings = judged
        return Verdict(question.name, points, question.total, tuple(findings) or ("right",))
    expected = question.answers(question.right, cases)
    points, findings, large_wrong = 0.0, [], False
    for group, worth in question.points.items():
        places = [i for i, case in enumerate(cases) if case.group == group]
        wrong = [i for i in places if _wrong(answers[i], expected[i], question.tolerance)]
        if not wrong:
            points += worth
            continue
        large_wrong |= any(cases[i].large for i in places)
        named = (_known_mistake(question, cases, answers, expected, places)
                 or _said_again(cases, answers, wrong))
        text = named or _wrong(answers[wrong[0]], expected[wrong[0]], question.tolerance)
        if text not in findings:
            findings.append(text)
    if question.effort and large_wrong:
        points = 0.0
    elif question.effort and measure:
        found = measure()
        enough = sufficient(question.effort, found)
        if not findings:
            findings.append("right" if enough else "Its numbers are right.")
        findings.append(said(question.effort, found))
        points *= enough
    return Verdict(question.name, points, question.total, tuple(findings) or ("right",))


def _wrong(answer, expected, tolerance):
    """What is wrong with one answer, as a sentence; empty if nothing is."""
    if "error" in answer:
        return str(answer["error"])[:500]
    try:
        value, expected = decoded(answer.get("value")), np.asarray(expected)
    except ValueError:
        return "an answer that cannot be read"
    if isinstance(value, str):
        return f"{value[:40]!r}; expected a number or an array of numbers"
    if value.shape != expected.shape:
        return f"shape {value.shape}; expected {expected.shape}"
    if np.isnan(value).any() and not np.isnan(expected).any():
        return f"NaN{_at(np.isnan(value))}; a log of 0 is -inf, and -inf - (-inf) is NaN"
    with np.errstate(invalid="ignore"):
        apart = ~np.isclose(value, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if apart.any():
        place = np.argwhere(apart)[0]
        return f"{value[tuple(place)]:.6g}{_at(apart)} is wrong, in a way that has no name here"
    return ""


def _at(mask):
    """The first place in a mask, as text that goes on a sentence; nothing for a single number."""
    if mask.ndim == 0:
        return ""
    return f" at [{', '.join(str(i) for i in np.argwhere(mask)[0])}]"


def _known_mistake(question, cases, answers, expected, places):
    """The name of the first mistake that gives all the answers of these places, and not the right ones."""
    for name, mistake in question.mistakes.items():
        same, differs = True, False
        for i in places:
            try:
                with np.errstate(all="ignore"):
                    value = mistake(**cases[i].facts, **cases[i].arguments)
            except (ValueError, IndexError):
                continue  # this mistake has no answer here
            if _wrong(answers[i], value, question.tolerance):
                same = False
                break
            differs |= not _same(value, expected[i], question.tolerance)
        if same and differs:
            return name
    return None


def _said_again(cases, answers, wrong):
    """A sentence, if a wrong answer to a large case is that to one before it."""
    for i in wrong:
        if cases[i].large and any("value" in answers[j] and answers[j] == answers[i] for j in range(i)):
            return "It gives the answer of an earlier call again; nothing may be kept from one call to the next."
    return None


def _same(value, expected, tolerance):
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape:
        return False
    return bool(np.allclose(value, expected, rtol=tolerance, atol=tolerance, equal_nan=True))
