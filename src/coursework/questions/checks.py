"""Questions whose answers are checks: functions that tell wrong gradients from right ones, which they may only call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..encoding import decoded
from ..oracle import Function
from .question import Case, Question

__all__ = ["BUG", "FAILS_EVERYTHING", "FORMS", "NEVER_CALLED", "NO_FACTOR", "RIGHT", "TOO_SMALL", "TURNED_ROUND",
           "Suspect", "Trial", "lets_pass", "passes_everything", "question_of"]

BUG, FORMS, RIGHT = "the bug", "its other forms", "right gradients"

NEVER_CALLED = "It does not call the gradient."
FAILS_EVERYTHING = ("It fails everything, right gradients as well: it asks for something that they do not satisfy, or "
                    "more exactly than its own rounding allows.")
TURNED_ROUND = "It fails right gradients and passes wrong ones; True means that a gradient is right."
TOO_SMALL = "Its tolerance is too small: it fails right gradients that differ by rounding, about 1e-12 of an entry."
NO_FACTOR = "It fails right gradients of a multiple of the loss."
_NO_NUMBER = "a number or an array of numbers"
_SUSPECTS = 11  # in a draw


def passes_everything(reason):
    return f"It passes everything: {reason}"


def lets_pass(reason):
    return f"It lets the bug pass: {reason}"


class Suspect(Function):
    """A gradient that is tried; ``says`` is what a student is told whose check judges it wrongly."""

    def __init__(self, function, group, says):
        super().__init__(function)
        self.group, self.says = group, says


@dataclass(frozen=True)
class Trial:
    """What a check is tried with: functions of a generator, each of which makes a gradient.

    ``right`` and ``forms`` are by what is said if they are judged wrongly. ``right`` has as many entries as there are
    ways to make it. ``blind`` tells from what was asked, a list of arguments by name, why the bug is not seen.
    """

    bug: Callable
    forms: Mapping[str, Callable]
    right: list[tuple[str, Callable]]
    blind: Callable[[list[dict]], str]

    def cases(self, rng) -> list[Case]:
        """Suspects in any order, two or three of them with the bug as it is described."""
        bugs = int(rng.integers(2, 4))
        suspects = [Suspect(self.bug(rng), BUG, "It lets the bug pass at times.") for _ in range(bugs)]
        suspects += [Suspect(form(rng), FORMS, says) for says, form in self.forms.items()]
        suspects += [Suspect(make(rng), RIGHT, says) for says, make in self.right]
        while len(suspects) < _SUSPECTS:
            says, make = self.right[rng.integers(len(self.right))]
            suspects.append(Suspect(make(rng), RIGHT, says))
        return [Case(suspects[i].group, {"gradient": suspects[i]}) for i in rng.permutation(len(suspects))]

    def judged(self, points, cases, answers):
        """Points and findings.

        Whoever passes nothing has exposed nothing, and whoever fails nothing has spared nobody: the points for bugs ask
        for one right gradient that passes, and those for right gradients ask that the bug fails.
        """
        suspects = [case.arguments["gradient"] for case in cases]
        passed, unread = _read(suspects, answers)
        of = {group: [p for p, s in zip(passed, suspects, strict=True) if s.group == group] for group in points}
        bug_seen, right_passes = not any(p is not False for p in of[BUG]), any(of[RIGHT])
        earned = {
            BUG: bug_seen and right_passes,
            FORMS: all(p is False for p in of[FORMS]) and right_passes,
            RIGHT: all(of[RIGHT]) and bug_seen,
        }
        findings = unread[:1] or self._findings(suspects, passed)
        return sum(worth for group, worth in points.items() if earned[group]), findings

    def _findings(self, suspects, passed):
        if all(passed):
            return [passes_everything(self._reason(suspects))]
        if not any(passed):
            return [FAILS_EVERYTHING]
        if not any(p for p, s in zip(passed, suspects, strict=True) if s.group == RIGHT):
            return [TURNED_ROUND]
        wrongly = [s for p, s in zip(passed, suspects, strict=True) if p != (s.group == RIGHT)]
        in_group = {group: [s.says for s in wrongly if s.group == group] for group in (BUG, FORMS, RIGHT)}
        in_group[RIGHT].sort(key=[TOO_SMALL, NO_FACTOR].index)  # the first explains the second
        if len(in_group[BUG]) == sum(s.group == BUG for s in suspects):
            findings = [lets_pass(self._reason(suspects))]
        else:
            findings = list(dict.fromkeys(in_group[BUG] + in_group[FORMS]))
        return findings + in_group[RIGHT][:1]

    def _reason(self, suspects):
        return self.blind([call for s in suspects for call in s.heard])


def _read(suspects, answers):
    """What passed, None where nobody can say, and why."""
    passed, unread = [], []
    for suspect, answer in zip(suspects, answers, strict=True):
        text, value = answer.get("error"), None
        if text is None:
            try:
                value = decoded(answer.get("value"))
            except ValueError:
                text = "an answer that cannot be read"
            else:
                if isinstance(value, str) or value.ndim or value.dtype != bool:
                    text = f"{f'shape {value.shape}' if np.ndim(value) else value}; expected True or False"
        elif str(text).startswith("AssertionError"):
            text = "AssertionError; return False where the gradient is wrong, and raise nothing."
        elif str(text).endswith(_NO_NUMBER):
            text = str(text).removeprefix("TypeError: ").replace(_NO_NUMBER, "True or False")
        if text is None and not suspect.calls:
            text = NEVER_CALLED
        passed.append(bool(value) if text is None else None)
        if text is not None and str(text)[:500] not in unread:
            unread.append(str(text)[:500])
    return passed, unread


@dataclass(frozen=True)
class CheckQuestion(Question):
    """A question whose answer is a check, judged by its trial."""

    trial: Trial | None = None

    def judged(self, cases, answers):
        return self.trial.judged(self.points, cases, answers)


def question_of(name, trial, right, mistakes) -> Question:
    """A question for a check, 2 points; ``mistakes`` are checks by what has to be said of them."""
    points = {BUG: 0.5, FORMS: 0.5, RIGHT: 1.0}
    named = {NEVER_CALLED: lambda gradient: True, **mistakes}
    return CheckQuestion(name, points, trial.cases, right, named, trial=trial)
