"""Which conventions a loss follows: found by asking it about a few utterances and fitting what comes back.

A gradient is a sum of four terms (`terms.py`). The multiples of them say what it is the gradient with respect to, and
whether FastEmit is in it; how they change with the lengths and the batch says what it is divided by. A loss that fits
no convention is not identified, and then wrong in some way that `causes.py` may have a name for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .._softmax import log_softmax
from ..bug_bank import BUGS
from ..terms import Fit, fitted, terms_of
from .conventions import DIVISORS, Conventions, Scale, lengths_of
from .prefixes import said_of
from .problem import LOSSES, Problem
from .subjects import PRECISIONS, Refused

__all__ = ["OF_THE_GRADIENT", "Identified", "identify", "probes"]

#: Names of conventions that say nothing if the gradient follows none: they are guessed, or what they are by default.
OF_THE_GRADIENT = ("variable", "gradient_factor", "gradient_divisor", "fastemit", "clamp")

#: How close two numbers have to be to count as one, by the precision that a loss computes in.
CLOSE = {"float64": 1e-8, "float32": 1e-4, "float16": 3e-2, "bfloat16": 1e-1}


@dataclass(frozen=True)
class Identified:
    """Conventions, and how sure they are.

    ``loss`` and ``gradient`` say whether the conventions explain what came back of either; ``given`` which of the two
    the subject returns at all. ``transposed``: the gradient of one utterance comes back with its first two axes
    exchanged. ``errors``: what a probe was refused with.
    """

    conventions: Conventions
    loss: bool
    gradient: bool
    given: frozenset[str]
    transposed: bool = False
    errors: tuple[str, ...] = ()
    #: What its answers are as exact as: the precision that was asked for, or a lesser one in which it returns them.
    precision: str = "float64"
    #: What happens to a label that equals the blank.
    label_is_blank: str = ""
    #: What ``log_alpha`` and ``log_beta`` are, of those that it gives; empty if they have no name.
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether all that is returned is explained."""
        return not self.errors and all(getattr(self, name) for name in self.given)

    def named(self) -> dict[str, str | None]:
        """The conventions by their names; None for those of a gradient that did not come back."""
        return {name: value if "gradient" in self.given or name not in OF_THE_GRADIENT else None
                for name, value in self.conventions.named().items()}

    def departures(self) -> dict[str, str]:
        """Those of the conventions, but for what they say of a gradient that follows none, or that there is not."""
        return {name: said for name, said in self.conventions.departures().items()
                if self.gradient or name not in OF_THE_GRADIENT}


def probes(kind, *, batch=False) -> list[Problem]:
    """Utterances whose sizes all differ, so that no divisor is taken for another; two batches of them with ``batch``.

    Neither the first nor the last symbol is a label: either may be the blank, whatever a loss is told.

    Examples
    --------
    >>> [(p.logits.shape, p.targets.tolist()) for p in probes("ctc")]
    [((5, 6), [2, 4]), ((7, 4), [1, 2, 1]), ((6, 5), [3])]
    """
    rng = np.random.default_rng(7)

    def scores(*lead, U, V):
        T = lead[-1]
        return rng.normal(size=(*lead, V) if kind == "ctc" else (*lead[:-1], T, U + 1, V))

    found = [Problem("probe", f"T = {T}, U = {len(targets)}", scores(T, U=len(targets), V=V), np.array(targets))
             for T, targets, V in ((5, [2, 4], 6), (7, [1, 2, 1], 4), (6, [3], 5))]
    if batch:
        for T, V, targets in ((7, 5, [[1, 3, 1], [2, 3, 1]]), (9, 6, [[1, 4, 2, 3], [2, 4, 1, 1], [3, 1, 1, 1]])):
            B, U = np.shape(targets)
            found.append(Problem("probe", f"B = {B}", scores(B, T, U=U, V=V), np.array(targets),
                                 logit_lengths=np.array([T - 2, T, T - 3][:B]),
                                 target_lengths=np.array([U, U - 1, 1][:B])))
    return found


def identify(subject, *, precision="") -> Identified:
    """Find the conventions of a subject.

    Parameters
    ----------
    subject : Subject
    precision : str
        One of the subject's; its first if left out.

    Examples
    --------
    The cost in bits of a loss that takes log-probs:

    >>> from reference_impl import ctc
    >>> from reference_impl.conformance.subjects import function_subject
    >>> def mine(log_probs, targets, *, blank):
    ...     return tuple(each(log_probs, targets, blank=blank) / np.log(2) for each in (ctc.loss, ctc.grad_log_probs))
    >>> found = identify(function_subject(mine, "ctc"))
    >>> found.conventions.variable, str(found.conventions.loss), str(found.conventions.gradient)
    ('log_probs', 'in bits', 'in bits')
    """
    precision = precision or subject.precisions[0]
    asked = [_Asked(subject, problem, precision) for problem in probes(subject.kind, batch="batch" in subject.can)]
    errors = tuple({re.sub(r"\d+", "", each.error): each.error for each in asked[::-1] if each.error}.values())[::-1]
    asked = [each for each in asked if not each.error]
    precision = max([precision, *(each.outputs.get("precision", precision) for each in asked)], key=PRECISIONS.index)
    given = frozenset(name for name in ("loss", "gradient") if asked and all(name in each.outputs for each in asked))
    if not asked or not given:
        return Identified(Conventions(subject.kind), False, False, given, errors=errors, precision=precision)
    transposed = "gradient" in given and _is_transposed(asked)
    if transposed:
        for each in asked:
            each.outputs["gradient"] = each.outputs["gradient"].swapaxes(0, 1)
    meanings = [(inputs, blank) for blank in ("argument", "V - 1") for inputs in _inputs(subject)]
    found = max((_fit(asked, subject, *meaning, CLOSE[precision], given) for meaning in meanings),
                key=lambda found: (found.loss + found.gradient, found.loss))
    if not found.whole(given):
        found = _guessed(subject, found, asked, given, precision)
    found = _edges(subject, found, precision)
    return Identified(found.conventions, found.loss, found.gradient, given, transposed, errors, precision,
                      _label_is_blank(subject, found.conventions, precision, CLOSE[precision]),
                      _prefixes(asked[0], found.conventions, CLOSE[precision]))


def _prefixes(asked, conventions, close):
    """What alpha and beta are, if they are given."""
    return {name: said_of(name, asked.outputs[name], asked.problem, asked.scores, conventions, 100 * close)
            for name in ("log_alpha", "log_beta") if name in asked.outputs}


def _inputs(subject):
    return ("log_probs",) if subject.scores == "log_probs" else ("logits", "log_probs")


class _Asked:
    """A problem, what came back, and the scores that were handed over."""

    def __init__(self, subject, problem, precision):
        self.problem, self.error, self.outputs = problem, "", {}
        self.scores = subject.scores_of(problem)
        try:
            self.outputs = subject.ask(problem, precision)
        except Refused as error:
            self.error = str(error)

    def utterances(self):
        return [(place, self.scores[place], one) for place, one in self.problem.utterances()]


@dataclass(frozen=True)
class _Found:
    conventions: Conventions
    loss: bool
    gradient: bool

    def whole(self, given):
        return all(getattr(self, name) for name in given)


def _guessed(subject, found, asked, given, precision):
    """Of what follows no convention, the meaning of its scores and the variable of its gradient, by what both change.

    A constant added to a row changes nothing where a log-softmax is applied. Symbols that are neither the blank nor a
    label have a gradient with respect to logits, and none with respect to log-probs.
    """
    conventions, close = found.conventions, CLOSE[precision]
    if not found.loss and not found.gradient and subject.scores == "logits":
        problem = asked[0].problem
        shifted = _Asked(subject, replace(problem, logits=problem.logits + 1.0), precision)
        same = not shifted.error and all(
            np.allclose(shifted.outputs[name], asked[0].outputs[name], rtol=100 * close, atol=100 * close,
                        equal_nan=True)
            for name in given)
        inputs = "logits" if same else "log_probs"
        conventions = conventions.changed(inputs=inputs, variable=inputs)
    if "gradient" in given and not found.gradient:
        gradient, problem = asked[0].outputs["gradient"], asked[0].problem
        if gradient.shape == problem.logits.shape:
            others = np.delete(gradient, [problem.blank, *problem.targets], axis=-1)
            conventions = conventions.changed(variable="log_probs" if (np.abs(others) < close).all() else "logits")
    return replace(found, conventions=conventions)


def _fit(asked, subject, inputs, blank, close, given):
    """The best conventions for scores that mean logits, or log-probs, and one of the blanks."""
    conventions = Conventions(subject.kind, inputs, inputs, blank=blank)
    loss = None
    if "loss" in given:
        total = _is_total(asked)
        loss = _scale_of([_Pair(np.asarray(each.outputs["loss"]), _right_losses(each, conventions), each.problem)
                          for each in asked], total, close)
        conventions = conventions.changed(total=total, loss=loss or Scale())
    gradient = None
    if "gradient" in given:
        gradient = _form_of(asked, conventions, close)
        if gradient:
            conventions = conventions.changed(**gradient)
    return _Found(conventions, loss is not None, gradient is not None)


def _is_total(asked):
    return any(each.problem.is_batch and np.ndim(each.outputs["loss"]) == 0 for each in asked)


def _right_losses(asked, conventions):
    module = LOSSES[conventions.kind]
    return np.array([module.loss(log_softmax(scores) if conventions.inputs == "logits" else scores, one.targets,
                                 blank=conventions.blank_of(one)) for _, scores, one in asked.utterances()])


@dataclass(frozen=True)
class _Pair:
    """What came back, one number for each utterance or one in all, and what would be right for each utterance."""

    given: np.ndarray
    right: np.ndarray
    problem: Problem


def _scale_of(pairs, total, close) -> Scale | None:
    """The factor between what came back and what is right, if one explains all."""
    for divisor, of in DIVISORS.items():
        ratios = []
        for pair in pairs:
            right = pair.right / of(*lengths_of(pair.problem))
            wanted = right.sum(keepdims=True) if total else right
            if pair.given.size != wanted.size or not np.isfinite(pair.given).all():
                return None
            ratios.extend(np.ravel(pair.given) / wanted)
        constant = float(np.median(ratios))
        if constant and np.allclose(ratios, constant, rtol=close, atol=0):
            return Scale(_rounded(constant, close), divisor)
    return None


def _rounded(constant, close):
    """A constant that is near to one with a name is that one."""
    near = [value for value in (1.0, -1.0, 1 / np.log(2), -1 / np.log(2)) if abs(constant / value - 1) < close]
    return near[0] if near else constant


def _is_transposed(asked):
    """Whether every gradient of one utterance has its first two axes exchanged (the last two of CTC's)."""
    singles = [each for each in asked if not each.problem.is_batch]
    return bool(singles) and all(
        each.outputs["gradient"].ndim == each.scores.ndim and each.outputs["gradient"].shape != each.scores.shape
        and each.outputs["gradient"].swapaxes(0, 1).shape == each.scores.shape for each in singles)


def _form_of(asked, conventions, close) -> dict | None:
    """What the gradient is, as changes of the conventions; None if it is no known one."""
    if any(np.shape(each.outputs["gradient"]) != each.scores.shape
           or not np.isfinite(each.outputs["gradient"]).all() for each in asked):
        return None
    for clamp, last in _clamps(asked, close):
        fits = [(each.problem, [_fit_one(each, place, scores, one, conventions, clamp, last)
                                for place, scores, one in each.utterances()]) for each in asked]
        found = _read(fits, conventions.changed(clamp=clamp, clamp_last=last), close)
        if found and all(_explains(conventions.changed(**found), each, close) for each in asked):
            return found
    return None


def _clamps(asked, close):
    """No clamp, and where the largest entries of two utterances or more agree, one at that value."""
    yield 0.0, False
    largest = [np.abs(each.outputs["gradient"]).max() for each in asked if not each.problem.is_batch]
    limit = float(max(largest))
    if limit and sum(abs(each / limit - 1) < close for each in largest) > 1:
        yield limit, False
        yield limit, True


def _fit_one(asked, place, scores, one, conventions, clamp, last) -> Fit:
    terms = terms_of(scores, one.targets, loss=conventions.kind, inputs=conventions.inputs,
                     blank=conventions.blank_of(one))
    gradient = asked.outputs["gradient"][place]
    limit = np.abs(gradient).max() if clamp and not last else clamp
    entries = np.abs(gradient) < limit * (1 - 1e-6) if clamp else None
    return fitted(gradient, terms, entries=entries)


def _read(fits, conventions, close) -> dict | None:
    """Multiples as variable, FastEmit and factor."""
    everything = [fit for _, each in fits for fit in each]
    if any(fit.rest > close for fit in everything):
        return None
    multiples = np.array([fit.multiples for fit in everything])
    factors = -multiples[:, 2]
    if np.isnan(multiples).any() or (factors == 0).any():
        return None
    relative = np.median(multiples / factors[:, None], axis=0)
    if not np.allclose(multiples, relative * factors[:, None], rtol=0, atol=30 * close * np.abs(factors).max()):
        return None
    emphasis = -relative[3]
    loose = 30 * close
    if np.allclose(relative[:2], 0, rtol=0, atol=loose):
        variable = "log_probs"
    elif np.allclose(relative[:2], [1, emphasis], rtol=0, atol=loose):
        variable = "logits"
    else:
        return None
    pairs, start = [], 0
    for problem, each in fits:
        pairs.append(_Pair(factors[start:start + len(each)], np.ones(len(each)), problem))
        start += len(each)
    scale = _scale_of(pairs, False, loose)
    if scale is None:
        return None
    fastemit = 0.0 if abs(emphasis - 1) < loose else float(emphasis - 1)
    return {"variable": variable, "gradient": scale, "fastemit_lambda": _tidy(fastemit, loose),
            "clamp": conventions.clamp, "clamp_last": conventions.clamp_last}


def _tidy(value, close):
    """A number with few decimals that is as near as can be told."""
    rounded = round(value, 6)
    return rounded if abs(rounded - value) < close else value


def _explains(conventions, asked, close):
    expected = conventions.expected(asked.problem, scores=asked.scores)["gradient"]
    return bool(np.allclose(asked.outputs["gradient"], expected, rtol=0, atol=100 * close))


def _edges(subject, found, precision):
    """Which symbol is the blank, and the loss where no alignment exists."""
    rng = np.random.default_rng(8)
    close, conventions = CLOSE[precision], found.conventions
    if found.loss or found.gradient:
        others = [_Asked(subject, problem, precision) for problem in _other_blanks(subject.kind, rng)]
        blanks = [conventions.changed(blank=blank) for blank in ("argument", "0", "V - 1")]
        conventions = next((tried for tried in blanks if all(_agrees(tried, asked, found, close) for asked in others)),
                           conventions)
    if found.loss and "fastemit" in subject.can:
        asked = _Asked(subject, replace(probes(subject.kind)[0], fastemit_lambda=0.5), precision)
        tried = conventions.changed(emphasised_loss=True)
        if _agrees(tried, asked, replace(found, gradient=False), close):
            conventions = tried
    if conventions.clamp and "upstream" in subject.can:
        batch = probes(subject.kind, batch=True)[-2]
        asked = _Asked(subject, replace(batch, upstream=np.array([0.5, 3.0])), precision)
        for last in (True, False):
            if _agrees(conventions.changed(clamp_last=last), asked, found, close):
                conventions = conventions.changed(clamp_last=last)
    shape = (1, 4) if subject.kind == "ctc" else (2, 3, 4)
    impossible = Problem("probe", "impossible", rng.normal(size=shape), np.array([1, 2]))
    if subject.kind == "rnnt":
        impossible.logits[-1, -1, 0] = -np.inf
    asked = _Asked(subject, impossible, precision)
    if found.loss and not asked.error and np.shape(asked.outputs.get("loss", np.nan)) == ():
        loss = float(asked.outputs["loss"])
        if loss == 0.0:
            conventions = conventions.changed(impossible=loss)
    return _Found(conventions, found.loss, found.gradient)


def _other_blanks(kind, rng):
    """The blank in between, with a label 0; the last."""
    shape = (lambda T, U, V: (T, V)) if kind == "ctc" else (lambda T, U, V: (T, U + 1, V))
    return [Problem("probe", "blank = 2", rng.normal(size=shape(5, 2, 5)), np.array([1, 3]), 2),
            Problem("probe", "blank = V - 1", rng.normal(size=shape(5, 2, 4)), np.array([1, 2]), 3)]


def _agrees(conventions, asked, found, close):
    if asked.error or (asked.problem.targets == conventions.blank_of(asked.problem)).any():
        return False
    expected = conventions.expected(asked.problem, scores=asked.scores)
    return all(not getattr(found, name) or name not in asked.outputs
               or np.shape(asked.outputs[name]) == np.shape(expected[name])
               and np.allclose(asked.outputs[name], expected[name], rtol=100 * close, atol=100 * close)
               for name in ("loss", "gradient"))


def _label_is_blank(subject, conventions, precision, close):
    """What becomes of a target that contains the blank."""
    rng = np.random.default_rng(9)
    shape = (4, 4) if subject.kind == "ctc" else (4, 3, 4)
    problem = Problem("probe", "label = blank", rng.normal(size=shape), np.array([1, 0]))
    asked = _Asked(subject, problem, precision)
    if asked.error:
        return f"refused: {asked.error}"
    if "loss" in asked.outputs and not np.isfinite(asked.outputs["loss"]).all():
        return f"answered by a loss of {np.ravel(asked.outputs['loss'])[0]:g}"
    if subject.kind == "rnnt" and np.shape(asked.outputs.get("gradient")) == asked.scores.shape:
        for name, said in (("label overwrites blank", "the gradient keeps the label's term and loses the blank's"),
                           ("blank overwrites label", "the gradient keeps the blank's term and loses the label's"),
                           ("label equal to blank accepted", "the gradient has both terms")):
            if np.allclose(asked.outputs["gradient"], _of_the_bank(name, problem, asked.scores, conventions),
                           rtol=0, atol=100 * close):
                return f"accepted: {said}"
    return "accepted: it returns a number"


def _of_the_bank(name, problem, scores, conventions):
    """The gradient of a planted bug, which is one with respect to log-probs, under the conventions."""
    bug = next(bug for bug in BUGS if bug.name == name)
    log_probs = log_softmax(scores) if conventions.inputs == "logits" else scores
    gradient = bug.gradient(log_probs, problem.targets, blank=problem.blank)
    if conventions.variable == "logits":
        gradient = gradient - np.exp(log_probs) * gradient.sum(-1, keepdims=True)
    return gradient * conventions.gradient.of(problem)[0]


