"""Finds a name for the wrong answers of a group: among the question's mistakes, by likeness, or in the conformance kit.

A name must explain every answer of the group, the right ones too, and at least one that is not right.
"""

from __future__ import annotations

import numpy as np

from reference_impl import log_softmax
from reference_impl.conformance.problem import LOSSES

from ..questions.ladders import GRADIENT
from ..questions.question import NO_PATH
from .kit_names import kit_name
from .signs import hint, sign
from .tried import UNNAMED, constant, same

__all__ = ["Naming"]


class Naming:
    """Names for a question's wrong answers.

    Parameters
    ----------
    question : Question
    graded : list of Tried
        The answers that earn points.
    small : list of Tried
        Those to the small cases.
    """

    def __init__(self, question, graded, small):
        self._question, self._graded, self._small = question, graded, small
        groups = {}
        for each in graded:
            groups.setdefault(each.case.group, []).append(each)
        self._wrong = {group: those for group, those in groups.items() if any(each.wrong for each in those)}
        self._explained = {group: self._known(those) for group, those in self._wrong.items()}

    def names(self) -> list[str]:
        """What is wrong, as sentences: one that explains everything, or else what there is to say of each group."""
        everything = self._of_everything()
        if everything:
            return [everything]
        named = {group: self._of_group(group) for group in self._wrong}
        found = list(dict.fromkeys(name for name in named.values() if name))
        nameless = [self._complaint(self._wrong[group]) for group, name in named.items() if not name]
        return found + nameless[:1]  # others would be numbers only, which the smallest input shows better

    def _of_everything(self):
        wrong = [each for each in self._graded if each.wrong]
        known = set.intersection(*map(set, self._explained.values()))
        best = self._believed_most([name for name in self._question.mistakes if name in known])
        return best or self._constant() or self._likeness(wrong) or self._of_the_kit()

    def _of_group(self, group):
        wrong = [each for each in self._wrong[group] if each.wrong]
        return self._believed_most(self._explained[group]) or _again(self._graded, wrong) or self._likeness(wrong)

    def _known(self, those):
        """The question's mistakes that give all the answers of a group, and not only right ones."""
        return [name for name, mistake in self._question.mistakes.items() if all(self._gives(mistake, those))]

    def _gives(self, mistake, those):
        """Whether a mistake gives all these answers, and whether it has one that is not right."""
        differs = False
        for each in those:
            try:
                with np.errstate(all="ignore"):
                    value = mistake(**each.case.facts, **each.case.arguments)
            except (ValueError, IndexError):
                continue  # this mistake has no answer here
            if each.against(value):
                return False, differs
            differs |= not same(value, each.expected, each.tolerance)
        return True, differs

    def _believed_most(self, names):
        """Of several names the one that explains most groups; one that would have spoilt right answers comes last."""
        if len(names) < 2:
            return names[0] if names else ""
        right = [each for each in self._graded if each.case.group not in self._wrong]

        def believed(name):
            fits = self._gives(self._question.mistakes[name], right)[0]
            return fits, sum(name in found for found in self._explained.values())

        return max(names, key=believed)  # the first of equal ones

    def _constant(self):
        """A sentence, if every answer is the same number, whatever was asked."""
        number = constant(self._graded)
        return "" if number is None else f"It is {number:.6g} whatever is asked."

    def _likeness(self, wrong):
        return sign(wrong, self._log_z if self._about == GRADIENT else None) if self._compares else ""

    @property
    def _compares(self):
        """Whether there are enough answers for a likeness, as with small cases; with a few numbers it is chance."""
        return self._question.ladder is not None

    @property
    def _about(self):
        return self._question.ladder.about if self._question.ladder else ""

    def _log_z(self, case):
        problem = self._question.ladder.problem_of(case)
        if problem is None:
            return None
        return -LOSSES[problem.loss].loss(log_softmax(problem.logits), problem.targets, blank=problem.blank)

    def _of_the_kit(self):
        """A few answers are explained by one of its thousands of mistakes by chance, and so all have to be."""
        return kit_name(self._question.ladder, [*self._small, *self._graded]) if self._about else ""

    def _complaint(self, those):
        wrong = [each for each in those if each.wrong]
        complaint = wrong[0].complaint
        said = (_without_a_path(wrong) or hint(wrong) if self._compares else "") if complaint.endswith(UNNAMED) else ""
        return said or complaint


def _without_a_path(wrong):
    """A sentence, if all that is wrong is what is said where no path exists."""
    if any(each.case.group != NO_PATH for each in wrong):
        return ""
    if all(np.all(each.expected == np.inf) for each in wrong):
        return "Where no path exists, the loss is inf."
    if all(np.size(each.expected) and not np.any(each.expected) for each in wrong):
        return "Where no path exists, all entries are exactly 0, whatever the scores are; here they are not."
    return ""


def _again(graded, wrong):
    """A sentence, if a wrong answer to a large case is that to one before it."""
    for each in wrong:
        before = graded[:next(i for i, other in enumerate(graded) if other is each)]
        if each.case.large and any("value" in other.answer and other.answer == each.answer for other in before):
            return "It gives the answer of an earlier call again; nothing may be kept from one call to the next."
    return ""
