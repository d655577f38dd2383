"""Finds causes of wrong answers, and for each the smallest input that shows it. `causes.py` has the names."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import replace

import numpy as np

from ..diagnosis import constant_of
from .causes import explanations, families
from .census import census, floor
from .drawing import drawn
from .families import LOSS_ALONE, fitted
from .joining import joined
from .judging import Judge, Near
from .locating import adds_up, is_derivative, located
from .prefixes import said_of
from .report import Finding
from .shrinking import smallest
from .subjects import NotAnswering

__all__ = ["findings"]

#: Nothing smaller is looked for once a program has died so often: to start it anew may take seconds.
_DEATHS = 3
#: Longer utterances are compared, and not searched for a cause: the explicit recursions are slow there.
_LONGEST = 60
#: A cause is believed if it explains so many of the answers that it says anything about.
_BELIEVED = 0.6
#: The same for what is one of very many mistakes, of which some explain a few answers by chance.
_BELIEVED_OF_FAMILIES = 0.8
#: So many answers without a name are compared with all families of mistakes.
_SEARCHED = 8
#: What is added to the cause of a wrong loss.
_DERIVED = " The gradient is the derivative of this wrong loss."
#: What stands for the families' "In the loss alone: " if the gradient is the derivative of what comes out.
_LOSS = "In the loss: "
#: What is smaller than this, and larger than what float64 is off by, is rounding to float32.
_ROUNDING = 3e-6


def findings(answers, judge: Judge, *, seconds=math.inf, memory="") -> list[Finding]:
    """Wrong answers by what explains them, the most frequent first, each with the smallest input that shows it.

    That input is looked for so long for each finding; 0 takes the smallest of the cases. ``memory`` is a sentence on
    what one call leaves to the next: the cause of what has no other.
    """
    wrong = [each for answer in answers for each in answer.wrong]
    constants = _constants(answers)
    always = [each for each in wrong if constant_of(np.ravel(each.given).repeat(2)) == constants.get(each.field)
              and (each.case.refusal or np.shape(each.given) == np.shape(each.right))]
    others = [each for each in wrong if not any(each is one for one in always)]
    both = {each.field for each in always} == {"loss", "gradient"} and len({*constants.values()}) == 1
    said = [(f"{'It' if both else f'As {each.field} it'} returns {constants[each.field]} for everything.", each)
            for each in always]
    by_sentence = {}
    for sentence, each in [*said, *joined(_explained(others, answers, judge, memory), judge)]:
        by_sentence.setdefault(sentence, []).append(each)
    found = [Finding(sentence, tuple(dict.fromkeys(each.case_id for each in those)),
                     tuple(dict.fromkeys(each.field for each in those)), _example(those, sentence, judge, seconds))
             for sentence, those in by_sentence.items()]
    return sorted(found, key=lambda finding: -len(finding.cases))


def _constants(answers):
    """By field, the number that comes back for every entry of every utterance that has an alignment, if it is one."""
    found = {}
    for field in ("loss", "gradient"):
        those = [np.ravel(answer.outputs[field]) for answer in answers if field in answer.outputs
                 and not answer.case.problem.is_batch and answer.case.group != "no alignment"]
        if said := constant_of(np.concatenate(those)) if len(those) > 1 else "":
            found[field] = said
    return found


def _explained(wrong, answers, judge, memory, *, loosely=False):
    """Each wrong answer with its sentence: a known cause, or what can be seen of an unknown one."""
    names = [_names(each, judge) for each in wrong]
    scores = _scores(answers, {name for found in names for name in found}, judge.conventions)
    unnamed = [each for each, found in zip(wrong, names, strict=True)
               if each.unnamed and not any((name, each.field) in scores for name in found)
               and not (loosely and Near(each.case, each.field)(each.given, each.right, times=10))]
    if unnamed:
        sentences = _of_families(unnamed, judge)
        scores |= _scores(answers, sentences, judge.conventions, families, unnamed)
        only = {name for name, _ in scores}
        names = [found + _names(each, judge, families, only=only)
                 for found, each in zip(names, wrong, strict=True)]
    said, complaints, unknown = [], [], []
    for each, found in zip(wrong, names, strict=True):
        best = _best(found, each.field, scores)
        if best:
            said.append((best, each))
        else:
            (unknown if each.unnamed else complaints).append(each)
    causes = {sentence for sentence, _ in said}
    for each in complaints:  # NaN names no cause, but may be what a cause that is known by then leads to
        also = _known(each, causes, judge, nan=True) if np.isnan(each.given).any() else []
        said.append((_best(also, each.field, scores) or each.complaint, each))
    long, left = _too_long(unknown, scores, names, wrong)
    if not loosely and 0.2 * len(left) < sum(map(_is_rounding, left)) < 0.8 * len(left):
        return _as_of_float32(wrong, answers, judge, memory)
    seen = [(memory, each) for each in left] if memory else _seen(left, judge, answers)
    return _as_derivative([*said, *long, *seen], unknown, causes, judge)


def _best(names, field, scores):
    """Of names that explain an answer, the one that is believed most; empty if none is."""
    return max((name for name in names if (name, field) in scores), key=lambda name: scores[name, field], default="")


def _as_of_float32(wrong, answers, judge, memory):
    """The same, where a mistake may be hidden by the rounding errors of float32: compared as if they were allowed."""
    def loose(each):
        case = each.case
        return replace(each, case=replace(case, loss=max(case.loss, _ROUNDING / 10),
                                          gradient=max(case.gradient, _ROUNDING / 10)))

    loosened = {id(each): loose(each) for each in wrong}
    back = {id(after): before for before in wrong for after in [loosened[id(before)]]}
    others = [replace(loose(answer), wrong=tuple(loosened[id(each)] for each in answer.wrong)) for answer in answers]
    return [(sentence, back[id(each)])
            for sentence, each in _explained([*loosened.values()], others, judge, memory, loosely=True)]


def _of_families(unnamed, judge):
    """Sentences of mistakes that explain at least one of the smallest answers that have no name."""
    found = set()
    for field in ("loss", "gradient"):
        those = sorted((each for each in unnamed if each.field == field and each.case.problem.frames <= _LONGEST),
                       key=lambda each: (each.case.problem.is_batch, each.case.problem.logits.size))
        explained = {name for each in those[:_SEARCHED] for name in _names(each, judge, families)}
        found |= explained
        if not explained:
            for each in [each for each in those if not each.case.problem.is_batch][:2]:
                found.update(_fitted(each, judge))
    return found


def _fitted(wrong, judge):
    """Sentences with a number that is fitted to a wrong answer."""
    conventions, problem = judge.conventions, wrong.case.problem
    scale = getattr(conventions, wrong.field).of(problem)[0]
    if scale and np.shape(wrong.given) == np.shape(wrong.right):
        one = replace(problem, blank=conventions.blank_of(problem))
        yield from fitted(one, conventions.variable, wrong.field, np.asarray(wrong.given) / scale)


def _as_derivative(said, unknown, causes, judge):
    """If gradients without a name are derivatives of a wrong loss that has one, they have its cause."""
    of_losses = Counter(sentence for sentence, each in said if each.field == "loss" and sentence in causes)
    gradients = [each for each in unknown if each.field == "gradient"]
    cause = max(of_losses, key=of_losses.get, default="")
    losses = [each for sentence, each in said if sentence == cause and each.field == "loss"]
    if not cause or not gradients or not is_derivative(judge, losses):
        return said
    of_loss = cause.replace(LOSS_ALONE, _LOSS, 1) + _DERIVED * (
        2 * len(gradients) > sum(each.field == "gradient" for _, each in said))
    return [(of_loss if sentence == cause or any(each is one for one in gradients) else sentence, each)
            for sentence, each in said]


def _too_long(unknown, scores, names, wrong):
    """Of answers that no cause explains those too long to be searched with the field's cause, and what is left."""
    causes, said = {}, []
    for field in {each.field for each in unknown}:
        those = [name for each, found in zip(wrong, names, strict=True) if each.field == field for name in found
                 if (name, field) in scores]
        causes[field] = _best(those, field, scores)
    left = []
    for each in unknown:
        cause = causes[each.field]
        if cause and (each.case.problem.frames > _LONGEST or scores[cause, each.field] >= _BELIEVED_OF_FAMILIES):
            said.append((cause, each))
        else:
            left.append(each)
    return said, left


def _seen(left, judge, answers):
    """What can be seen of an error without a name: its size, the alignments that are counted, its place."""
    instead = floor(judge) if left else ""
    if left and not instead and _is_all_rounding(left):
        sentence = ("All is right except for errors of the size of float32's rounding: some numbers are stored or "
                    "added in float32.")
        yield from ((sentence, each) for each in left)
        return
    losses = [each for each in left if each.field == "loss"]
    gradients = [each for each in left if each.field == "gradient"]
    if losses:
        sentence = instead or " ".join(census(judge))
        agree = _DERIVED if gradients and is_derivative(judge, losses) else ""
        of_loss = {each.case.id: each.complaint + agree * bool(np.isfinite(each.given).all()) for each in losses}
        for each in left:
            yield sentence + agree if sentence else of_loss.get(each.case.id, losses[0].complaint + agree), each
    elif gradients:
        where = located(gradients)
        sentence = f"The gradient is wrong {where}, and right elsewhere." if where else gradients[0].complaint
        others = "at symbols that are neither the blank nor a label"
        if not adds_up(gradients, judge) and where != others:
            sentence += " The posteriors do not add up to 1, so alpha, beta and Z do not belong together"
            sentence += f"{_to_blame(gradients, answers, judge)}."
        yield from ((sentence, each) for each in gradients)


def _to_blame(gradients, answers, judge):
    """Which of alpha, beta and log Z, as far as what came back tells; empty if the loss tells nothing."""
    if not _losses_are_right(gradients, answers):
        return ""
    cases = [each.case for each in gradients if not each.case.problem.is_batch]
    outputs = {answer.case.id: answer.outputs for answer in answers}
    right, wrong = ["log Z"], []
    for name in ("log_alpha", "log_beta"):
        given = [case for case in cases[:_SEARCHED] if name in outputs[case.id]]
        known = [said_of(name, outputs[case.id][name], case.problem, judge.subject.scores_of(case.problem),
                         judge.conventions, 100 * case.loss) for case in given]
        told = [each for each in known if "rescaled" not in each]  # which is a convention, or the mistake
        if told:
            (right if all(told) else wrong).append(name.removeprefix("log_"))
    if not wrong:
        wrong = [name for name in ("alpha", "beta") if name not in right] or ["what is made of them"]
    right = " and ".join([", ".join(right[:-1]), right[-1]]) if len(right) > 1 else right[0]
    return f": {right} {'are' if ' and ' in right else 'is'} right; {' or '.join(wrong)} is wrong"


def _losses_are_right(gradients, answers):
    """Whether the losses of the same cases came back, and none of them is wrong."""
    cases = {each.case.id for each in gradients}
    those = [answer for answer in answers if answer.case.id in cases]
    return all("loss" in answer.outputs and not any(each.field == "loss" for each in answer.wrong) for answer in those)


def _is_all_rounding(those):
    """Whether nearly all of them are off by rounding errors of float32 alone."""
    return sum(_is_rounding(each) for each in those) >= 0.8 * len(those)


def _is_rounding(wrong):
    if wrong.case.precision != "float64" or np.shape(wrong.given) != np.shape(wrong.right):
        return False
    finite = np.isfinite(wrong.given) & np.isfinite(wrong.right)
    with np.errstate(invalid="ignore"):
        apart = np.where(finite, np.abs(wrong.given - wrong.right), 0.0)
    return bool((finite | (wrong.given == wrong.right) | np.isnan(wrong.given) & np.isnan(wrong.right)).all()
                and (apart <= _ROUNDING * np.maximum(np.abs(np.where(finite, wrong.right, 1.0)), 1.0)).all())


def _scores(answers, names, conventions, causes=explanations, unnamed=()):
    """By name and field, the share of the answers that a cause explains, of those about which it says anything.

    It says something about a wrong answer, and about a right one that it would have spoilt. Names below a limit are
    left out: what explains one of twenty wrong answers does so by chance. A loss has the cause that explains the
    losses, whatever the gradients are; a gradient only what explains the losses, too, if it is about them. Of a
    family, a sentence is about all answers in ``unnamed``, too.
    """
    said, fits = Counter(), Counter()
    for answer in answers:
        if answer.case.refusal or answer.case.problem.frames > _LONGEST or not names:
            continue
        for field in ("loss", "gradient"):
            if field in answer.outputs:
                near = Near(answer.case, field)
                wrong = [each for each in answer.wrong if each.field == field]
                silent = set(names) if any(each is one for each in wrong for one in unnamed) else set()
                for name, values in _values(causes, answer.case.problem, field, conventions, answer.outputs[field],
                                            names):
                    explained = any(near(answer.outputs[field], value, times=10) for value in values)
                    silent.discard(name)
                    if wrong or not explained:
                        said[name, field] += 1
                        fits[name, field] += explained
                said.update((name, field) for name in silent)
    limit, found = _BELIEVED_OF_FAMILIES if causes is families else _BELIEVED, {}
    for name in names:
        both, asked = (sum(counted[name, field] for field in ("loss", "gradient")) for counted in (fits, said))
        for field, (fit, of) in {"loss": (fits[name, "loss"], said[name, "loss"]), "gradient": (both, asked)}.items():
            if fit >= limit * of > 0:
                found[name, field] = both / asked + 1e-6 * both
    return found


def _values(causes, problem, field, conventions, given, only):
    """Sentences of either sort of causes, each with the answers of which any will do."""
    if causes is families:
        yield from families(problem, field, conventions, only=only)
    else:
        yield from ((name, [value]) for name, value in explanations(problem, field, conventions, given, only=only))


def _names(wrong, judge, causes=explanations, *, only=None, nan=False):
    """Sentences that explain a wrong answer; with ``nan`` also those by which numbers become NaN, and no others wrong.
    """
    case, given = wrong.case, wrong.given
    if wrong.field not in ("loss", "gradient") or case.problem.frames > _LONGEST or case.refusal:
        return []
    near = Near(case, wrong.field)

    def explains(value):
        """By a number that is not right, unless ``nan``: NaN in the place of numbers has many causes."""
        return near(given, value, times=10) and (
            nan or not near(np.where(np.isnan(value), wrong.right, value), wrong.right))

    return [name for name, values in _values(causes, case.problem, wrong.field, judge.conventions, given, only)
            if any(explains(value) for value in values)]


def _example(those, sentence, judge, seconds):
    """The smallest problem with this fault, drawn."""
    first = min(those, key=lambda each: (each.case.problem.is_batch, each.case.problem.logits.size))
    if first.case.refusal:
        return ""
    if first.field in ("error", "no answer"):
        return drawn(first.case.problem, {})
    if np.shape(first.given) != np.shape(first.right):
        return ""
    where, cause = first, sentence.removesuffix(_DERIVED)
    if seconds:
        known = bool(_known(first, [cause], judge))

        def again(problem):
            return _same_fault(problem, first, [cause] if known else [], judge)

        def fails(problem):
            try:
                return again(problem) is not None
            except NotAnswering:
                deaths.append(problem)
                return False

        deaths = []
        found = smallest(lambda problem: len(deaths) < _DEATHS and fails(problem), first.case.problem, seconds=seconds)
        with contextlib.suppress(NotAnswering):
            where = again(found) or first
    return drawn(where.case.problem, {where.field: (where.given, where.right)})


def _known(wrong, causes, judge, *, nan=False):
    """Those of some causes that explain a wrong answer."""
    only = {cause.replace(_LOSS, LOSS_ALONE, 1) if cause.startswith(_LOSS) else cause for cause in causes}
    return _names(wrong, judge, only=only, nan=nan) + _names(wrong, judge, families, only=only, nan=nan)


def _same_fault(problem, first, causes, judge):
    """The wrong answer to a problem if it has the same cause, without one the same complaint; None if it has not.

    Raises :class:`NotAnswering` if a program dies of the problem.
    """
    try:
        answer = judge.answer(replace(first.case, problem=problem))
    except (ValueError, IndexError):  # a problem that is none
        return None
    for each in answer.wrong:
        if each.field == "no answer":
            raise NotAnswering(each.complaint)
        alike = _known(each, causes, judge) if causes else each.complaint == first.complaint
        if each.field == first.field and alike:
            return each
    return None
