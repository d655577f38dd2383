"""Compares what a loss answered with what it should have: case by case, field by field, without looking for a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from .cases import AFTERWARDS, Case
from .conventions import Conventions
from .report import Accuracy
from .subjects import NotAnswering, Refused, Subject

__all__ = ["LOG_OF_0", "MASK", "NO_ALIGNMENT", "UNUSED_MASK", "UPSTREAM", "Answer", "Judge", "Near", "Wrong"]

#: Why a loss or a gradient is NaN, of the reasons that `joining.py` compares.
MASK = " where a score that a path uses is -inf, a mask: -inf minus -inf, 0 times inf, or 0 divided by 0."
UNUSED_MASK = (" where a score is -inf, a mask, even on a symbol that no path uses: 0 times -inf, as in a one-hot "
               "product, or in 0 log 0.")
NO_ALIGNMENT = " where no alignment exists: -inf minus -inf, or 0 times inf."
LOG_OF_0 = ": a log of 0 is -inf, and -inf minus -inf is NaN."
UPSTREAM = " where no alignment exists and the upstream gradient is inf: inf times 0."

#: What is compared with what else came back, not with a right answer.
_TWICE = {"second_gradient": "A second backward pass returns a different gradient from the first.",
          "gradient_after": "The gradient that was returned changes when backward runs again: its memory is reused.",
          "scores_after": "It modifies the scores that it is given.",
          "targets_after": "It modifies the targets that it is given."}
#: What scores are off by, relative, that only went through a precision.
_ROUNDED = {"float64": 0.0, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class Wrong:
    """One wrong answer: what came back in a field, what is right, and what can be said without a cause."""

    case: Case
    field: str
    given: np.ndarray
    right: np.ndarray
    complaint: str
    #: Whether the complaint says no more than that.
    unnamed: bool = False

    @property
    def group(self) -> str:
        """The group in which it counts."""
        return AFTERWARDS if self.field in _TWICE else self.case.group

    @property
    def case_id(self) -> str:
        """The case, and in front of it the group if that is not the case's own."""
        return f"{AFTERWARDS}/{self.case.id}" if self.group == AFTERWARDS else self.case.id


@dataclass(frozen=True)
class Answer:
    """What came back for a case, and what is wrong with it."""

    case: Case
    wrong: tuple[Wrong, ...]
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    accuracy: Accuracy | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups in which it counts: its case's, and what is left behind if that can be seen."""
        return (self.case.group, *[AFTERWARDS] * any(name in self.outputs for name in _TWICE))


@dataclass(frozen=True)
class Near:
    """Whether two values of a field are as close as a case demands."""

    case: Case
    field: str

    def __call__(self, value, right, *, times=1.0) -> bool:
        value, right = np.asarray(value), np.asarray(right)
        return value.shape == right.shape and not self.apart(value, right, times=times, equal_nan=True).any()

    def apart(self, value, right, *, times=1.0, equal_nan=False):
        """Where they are not."""
        relative, absolute = (0.0, self.case.gradient) if self.field == "gradient" else (self.case.loss, self.case.loss)
        with np.errstate(invalid="ignore"):  # as np.isclose has it, which takes several times as long
            near = (np.abs(value - right) <= times * absolute + relative * np.abs(right)) & np.isfinite(right)
            near |= value == right
            return ~(near | (np.isnan(value) & np.isnan(right)) if equal_nan else near)


@dataclass(frozen=True)
class Judge:
    """Asks a subject about cases, and judges the answers by conventions; ``transposed`` as in :class:`.Identified`."""

    subject: Subject
    conventions: Conventions
    transposed: bool = False

    def answer(self, case) -> Answer:
        """What the subject answers to a case, and what is wrong with that."""
        try:
            outputs = self._outputs(case)
        except Refused as error:
            fine = (case.refusal or case.may_refuse) and error.type != NotAnswering.__name__
            return Answer(case, () if fine else (_refused(case, error),))
        if case.refusal:
            return Answer(case, tuple(_accepted(case, outputs)))
        scores = self.subject.scores_of(case.problem)
        expected = self.conventions.expected(case.problem, scores=scores)
        possible = self.conventions.possible(case.problem, scores=scores)
        return Answer(case, tuple(_wrong(case, outputs, scores, expected, possible)), outputs,
                      _accuracy(case, outputs, expected))

    def _outputs(self, case):
        outputs = self.subject.ask(case.problem, case.precision)
        if self.transposed and np.ndim(outputs.get("gradient", 0)) >= 2:
            outputs["gradient"] = outputs["gradient"].swapaxes(0, 1)
        if self.conventions.total and np.size(outputs.get("loss", ())) == 1:  # of a batch of one it may be (1,)
            outputs["loss"] = outputs["loss"].reshape(())
        return outputs


def _refused(case, error):
    if error.type == NotAnswering.__name__:
        what = "On bad input it does not answer" if case.refusal else "It does not answer"
        what = f"{what}: {error.args[0].partition(': ')[0]}."
        return Wrong(case, "no answer", np.array(np.nan), np.array(np.nan), what)
    what = "It raises an error" if np.size(case.problem.targets) else "An empty target is refused"
    return Wrong(case, "error", np.array(np.nan), np.array(np.nan), f"{what}: {error}")


def _wrong(case, outputs, scores, expected, possible):
    found = [Wrong(case, name, outputs[name], expected[name], complaint, _is_open(complaint))
             for name in ("loss", "gradient")
             if name in outputs and (complaint := _complaint(name, outputs[name], expected[name], case, possible))]
    if not any(each.field == "gradient" for each in found):
        for name, sentence in _TWICE.items():
            before = {"scores_after": scores, "targets_after": case.problem.targets}
            right, off = before.get(name, outputs.get("gradient")), _ROUNDED[case.precision] * (name == "scores_after")
            if name in outputs and not np.allclose(outputs[name], right, rtol=off, atol=0, equal_nan=True):
                found.append(Wrong(case, name, outputs[name], right, sentence))
    return found


def _complaint(name, given, right, case, possible):
    """What is wrong without a name for it; empty if nothing is."""
    if given.shape != right.shape:
        return f"The {name} has shape {given.shape}; expected {right.shape}."
    apart = Near(case, name).apart(given, right)
    if not apart.any():
        return ""
    impossible = _without_alignment(case.problem, apart, possible)
    if np.isnan(given).any():
        return f"The {name} is NaN{_why_nan(case.problem, impossible)}"
    place = tuple(np.argwhere(apart)[0])
    value, wanted = given[place], right[place]
    if name == "loss" and np.isinf(wanted):
        return f"Where no alignment exists the loss is {_finite(value)}; expected inf."
    if name == "gradient" and impossible:
        return "Where no alignment exists the gradient is not 0."
    if np.isinf(value):
        return f"The {name} is infinite{_why_infinite(case.problem)}"
    masked = bool(np.isneginf(case.problem.logits).any())
    if name == "loss" and value == 0 and masked:
        return "The loss is 0 where a score is -inf, a mask: is a NaN taken for 0?"
    return f"The {name} is wrong{' where a score is -inf, a mask' * masked}, in a way that has no name here."


def _is_open(complaint):
    """Whether a cause is still to be looked for."""
    return any(said in complaint for said in ("no name here", "infinite", "NaN taken for 0"))


def _finite(value):
    if value == 0:
        return "0"
    return "finite, as if a probability of 0 were a little more (an epsilon, or a floor in place of -inf)"


def _without_alignment(problem, apart, possible):
    """Whether what is wrong is of utterances that have no alignment; of a total, whether there is such a one."""
    if apart.ndim == 0:
        return not possible.all()
    wrong = [apart[place].any() for place, _ in problem.utterances()] if apart.ndim > 1 else apart
    return not possible[wrong].any() and bool(np.any(wrong))


def _why_nan(problem, impossible):
    """Where that is, and what computes NaN there."""
    if not problem.logits.size:
        return " for an utterance without frames."
    if np.isnan(problem.logits).any():
        return " where the padding is: NaN in the padding comes through."
    if problem.upstream is not None and (problem.upstream < 0).any():
        return " where the upstream gradient is negative: is its logarithm taken?"
    if impossible and problem.upstream is not None and np.isinf(problem.upstream).any():
        return UPSTREAM
    if impossible and not _masks_unused(problem):
        return NO_ALIGNMENT
    if np.isinf(problem.logits).any():
        return UNUSED_MASK if _masks_unused(problem) else MASK
    if problem.logits.max() > 709 or problem.logits.max(-1).min() < -745:
        return ": exp of a logit overflows, or underflows; subtract the largest of the row from all of them first."
    return LOG_OF_0


def _why_infinite(problem):
    """Where that is, of an answer that should be a number."""
    if np.isneginf(problem.logits).any():
        return " where a score is -inf, a mask, though an alignment is left."
    if not np.size(problem.targets) or problem.is_batch and not problem.target_lengths.all():
        return " where a target is empty: is it divided by the number of its labels, 0?"
    return ", though an alignment exists: do probabilities underflow, or logits overflow?"


def _masks_unused(problem):
    """Whether there are masks, and all of them are on entries that no path uses; of padding nothing is said."""
    masks = 0
    for place, one in problem.utterances():
        used = one.entries()
        if one.loss == "rnnt":
            used[-1, :-1, one.blank] = False  # from there a blank leads nowhere
        masked = np.isneginf(problem.logits[place])
        if (masked & used).any():
            return False
        masks += masked.sum()
    return masks > 0


def _accepted(case, outputs):
    """What is wrong with answers to a problem that is none: a NaN is allowed for the utterances that are bad."""
    complaint = f"It accepts bad input ({case.problem.name.removesuffix('-alone').replace('-', ' ')})."
    name = "loss" if "loss" in outputs else "gradient"
    given = outputs[name]
    of_bad = np.ravel(given)[list(case.bad)] if name == "loss" and np.size(given) > 1 else np.ravel(given)
    if not np.isnan(of_bad).any():
        yield Wrong(case, name, given, np.array(np.nan), complaint)


def _accuracy(case, outputs, expected):
    if case.group != "accuracy":
        return None
    errors = {}
    for name in ("loss", "gradient"):
        if name in outputs and outputs[name].shape == expected[name].shape:
            scale = max(abs(float(expected["loss"])), 1e-300) if name == "loss" else 1.0
            errors[name] = float(np.abs(outputs[name] - expected[name]).max() / scale)
    return Accuracy(case.precision, len(case.problem.logits), errors.get("loss"), errors.get("gradient"))
