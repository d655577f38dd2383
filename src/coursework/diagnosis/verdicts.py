"""From what was answered to points and to sentences that say what is wrong, with the smallest input that shows it."""

from __future__ import annotations

from dataclasses import dataclass

from ..effort import said, sufficient
from .counterexamples import circumstances, drawn, places
from .naming import Naming
from .tried import UNNAMED, Tried, constant

__all__ = ["NOTHING", "Verdict", "judge", "right_answers"]

_CARRIED = ("With a right `{names}` in the place of yours it is right. The error there costs points there, and is not "
            "counted again here.")
_BESIDES = "With a right `{names}` in the place of yours, so that the error there is not counted again, this is left:"
_SMALLEST = "The smallest input that fails:"
_EDGES = "edges"  # a group of cases
#: Of an answer that is as it was handed out, there is no more to say.
NOTHING = "Nothing was written there."
_STUB, _NONE = "NotImplementedError:", "TypeError: NoneType; expected"


@dataclass(frozen=True)
class Verdict:
    """Points of a question, and what was found; ``str`` of it is what a student reads.

    ``findings`` say what is wrong, and are the same for everybody who does the same; ``details`` are about these
    answers: on which inputs they are wrong, in which entries, and the smallest input, drawn in lines of text.
    """

    name: str
    points: float
    total: float
    findings: tuple[str, ...]
    details: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return self.points == self.total

    def __str__(self):
        head = f"{self.name}: {self.points:g} of {self.total:g} points"
        return "\n".join([head, *(f"  {each}" for each in (*self.findings, *self.details))])


def judge(question, cases, answers, measure=None, again=None) -> Verdict:
    """Compare the answers (of :func:`.asking.ask`) with the right ones, group by group.

    A group is right if all its cases are. Of a wrong one it is said which known mistake gives exactly these answers, or
    else what is wrong with the first answer that is. A group that is right with the right functions of earlier
    questions in the place of the student's own is right. Small cases earn nothing; the first that fails is shown.
    Answers that are one number whatever was asked earn nothing, even where this number is right.

    If the question asks for an effort, ``measure()`` tells how much there is (:mod:`.effort`), and without enough of
    it, or if a large case is wrong, right answers earn nothing. Without ``measure`` only right and wrong is judged.
    ``again(case)`` asks about one more case; without it nothing smaller than what was asked can be found.
    """
    answers = _filled(cases, answers)
    if answers is None:
        return Verdict(question.name, 0.0, question.total, ("There is no answer.",))
    graded = [i for i, case in enumerate(cases) if case.graded]
    if not question.helpers and all(_is_stub(answers[i]) for i in graded):
        return Verdict(question.name, 0.0, question.total, (NOTHING,))
    if (judged := question.judged([cases[i] for i in graded], [answers[i] for i in graded])) is not None:
        points, findings = judged
        return Verdict(question.name, points, question.total, tuple(findings) or ("right",))
    own, helped = _own_and_helped(question, cases, answers)
    if _unwritten(helped or own):
        return Verdict(question.name, 0.0, question.total, (NOTHING,))
    wrong, wrong_with_help = _wrong_groups(question, own), _wrong_groups(question, helped)
    carried = [group for group in wrong if helped and group not in wrong_with_help]
    wrong = [group for group in wrong if group not in carried]
    points = sum((worth for group, worth in question.points.items() if group not in wrong), 0.0)
    if wrong and constant(helped or own) is not None:  # the loss without a path is inf, and its gradient 0
        points = 0.0
    findings, details = _found(question, cases, answers, wrong, helped or own, again if not helped else None)
    if carried or wrong and helped:
        known = {*question.helpers, *(name for aids in question.aids.values() for name in aids)}
        names = sorted({name for each in helped for name in each.answer.get("helped", ()) if name in known})
        if names:
            findings.insert(0, (_BESIDES if wrong else _CARRIED).format(names="`, `".join(names)))
    if question.effort and any(each.case.large and each.case.group in wrong for each in own):
        points = 0.0
    elif question.effort and measure:
        found = measure()
        enough = sufficient(question.effort, found)
        if not findings:
            findings.append("right" if enough else "Its numbers are right.")
        findings.append(said(question.effort, found))
        points *= enough
    return Verdict(question.name, points, question.total, tuple(findings) or ("right",), tuple(details))


def right_answers(question, cases, answers) -> bool:
    """Whether all answers that earn points are right, as they are or with right functions of earlier questions."""
    answers = _filled(cases, answers)
    if answers is None:
        return False
    own, helped = _own_and_helped(question, cases, answers)
    wrong = _wrong_groups(question, own)
    return not wrong or bool(helped) and not set(wrong) & set(_wrong_groups(question, helped))


def _filled(cases, answers):
    """As many answers as there are cases; those that earn nothing by themselves may be missing. None if others are."""
    missing = len(cases) - len(answers)
    if not missing or len(answers) == sum(case.graded for case in cases):
        return [*answers, *({"skipped": True} for _ in range(missing))]
    return None


def _own_and_helped(question, cases, answers):
    """What was answered, and what with right functions of earlier questions; nothing, if there was no need for that."""
    own = _tried(question, cases, answers, [i for i, case in enumerate(cases) if case.graded])
    helped = [i for i, case in enumerate(cases) if (case.helpers or case.aids) and not case.small]
    needed = not any(answers[i].get("skipped") for i in helped)
    return own, _tried(question, cases, answers, helped) if needed else []


def _tried(question, cases, answers, places):
    """Answers beside what is right."""
    expected = question.answers(question.right, [cases[i] for i in places])
    return [Tried(cases[i], answers[i], right, question.tolerance)
            for i, right in zip(places, expected, strict=True)]


def _unwritten(tried):
    """Whether every answer is the one of the version that is handed out: its error, or None where a value is asked."""
    return bool(tried) and all(_is_stub(each.answer) or not each.case.arguments
                               and str(each.answer.get("error")).startswith(_NONE) for each in tried)


def _is_stub(answer):
    return str(answer.get("error")).strip() == _STUB


def _wrong_groups(question, tried):
    """What stands in for -inf is one error, though it is in every array: it costs the edges, if these have points."""
    def costs(each):
        return each.wrong and (each.case.group == _EDGES or _EDGES not in question.points or not each.stands_in)

    return [group for group in question.points if any(costs(each) for each in tried if each.case.group == group)]


def _found(question, cases, answers, wrong, graded, again):
    """Findings and details about the groups that are wrong."""
    findings, details = [], []
    if not wrong:
        return findings, details
    small = [] if question.ladder is None else _tried(question, cases, answers, [
        i for i, case in enumerate(cases) if case.small and not answers[i].get("skipped")])
    findings = Naming(question, [each for each in graded if each.case.group in wrong or not each.wrong], small).names()
    if question.ladder is not None:
        everything = [*small, *graded]
        where = [circumstances(everything), places(question.ladder, everything)]
        details = [each for each in where if each]
        example = next((each for each in small if each.wrong), None)
        if example is None and again:
            example = _cut_down(question, graded, again)
        if example is not None:
            text = drawn(example, question.ladder, expected=question.shows_expected)
            details.append(f"{_SMALLEST}\n\n{text}")
            findings = [f"It {UNNAMED}." if each.endswith(UNNAMED) else each for each in findings]
    return findings, details


def _cut_down(question, graded, again):
    """A graded case that fails, made as small as it can be by the conformance kit's shrinker; None if it can't tell."""
    from reference_impl.conformance.shrinking import smallest

    ladder = question.ladder
    starts = [problem for each in graded if each.wrong and ladder.problem_of
              and (problem := ladder.problem_of(each.case)) is not None]
    if not starts:
        return None

    def tried(problem):
        case = ladder.case_of(problem)
        return Tried(case, again(case), question.right(**case.arguments), question.tolerance)

    return tried(smallest(lambda problem: tried(problem).wrong, min(starts, key=lambda each: each.logits.size),
                          tries=150, seconds=5))
