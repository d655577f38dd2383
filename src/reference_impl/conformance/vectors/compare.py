"""Results against test vectors: which are right, and by id which term is wrong in those that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...diagnosis import constant_of, diagnose_values
from ...terms import loss_scaling
from ..encoding import decoded
from .document import OUTPUTS, answered, problem_of
from .document import document as document_of
from .mistakes import LENGTHS, PADDING, mistakes_of

__all__ = ["Findings", "compare"]

_MEAN = "It is divided by the number of utterances; a mean was taken."
_TOTAL = "It is one number for the batch; expected one for each utterance."


@dataclass(frozen=True)
class Findings:
    """What is wrong with results: a sentence by id and field.

    ``missing`` are ids without results, ``unknown`` such as the vectors do not have, ``fields`` what was given.
    """

    wrong: Mapping[tuple[str, str], str]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    fields: tuple[str, ...]
    checked: tuple[str, ...]

    @property
    def right(self):
        return not (self.wrong or self.missing or self.unknown)

    def __str__(self):
        bad = {case for case, _ in self.wrong}
        lines = [f"{len(self.checked) - len(bad)} of {len(self.checked)} cases right: {', '.join(self.fields)}"]
        lines += [f"{case}, {field}: {text}" for (case, field), text in self.wrong.items()]
        lines += [f"{case}: no results" for case in self.missing]
        lines += [f"{case}: there is no such case" for case in self.unknown]
        absent = [field for field in OUTPUTS if field not in self.fields]
        if absent:
            lines.append(f"not given, not checked: {', '.join(absent)}")
        return "\n".join(lines)


def compare(document, results, *, without=(), required=()) -> Findings:
    """Compare results, as :func:`.read_results` returns them, with a document of vectors.

    Parameters
    ----------
    document : dict
        With answers, or they are computed in float64.
    results : dict
    without : names of groups
        They are not looked at; neither is FastEmit if there are no results for it.
    required : names of fields
        That count as missing if they are nowhere. Others are required where they are given in any other case.

    Raises
    ------
    ValueError
        If ``without`` names no group.
    """
    document = answered(document)
    odd = [group for group in without if group not in document["groups"]]
    if odd:
        raise ValueError(f"without = {odd[0]!r}; expected one of {', '.join(document['groups'])}")
    given, tolerances = results["results"], document["tolerances"][results["precision"]]
    known = {case["id"]: case for case in document["cases"]}
    if not any(known[name]["group"] == "fastemit" for name in given if name in known):
        without = {*without, "fastemit"}
    cases = [case for case in document["cases"] if case["group"] not in without]
    seen = {field for answers in given.values() for field in answers}
    fields = tuple(field for field in OUTPUTS if field in seen or field in required)
    checks = [_Check(case, field, given[case["id"]].get(field), tolerances[field])
              for field in fields for case in cases if case["id"] in given and field in case["outputs"]]
    wrong = _named([check for check in checks if check.complaint]) | _constant(checks)
    checked = tuple(case["id"] for case in cases if case["id"] in given)
    order = {case["id"]: place for place, case in enumerate(cases)}
    return Findings(dict(sorted(wrong.items(), key=lambda item: order[item[0][0]])),
                    tuple(case["id"] for case in cases if case["id"] not in given),
                    tuple(name[:60] for name in given if name not in known), fields, checked)


class _Check:
    """One field of one case."""

    def __init__(self, case, field, given, tolerance):
        self.case, self.field, self.tolerance = case, field, tolerance
        self.problem, self.loss = problem_of(case), _array(case["outputs"]["loss"])
        self.expected = _array(case["outputs"][field])
        self.given = None if given is None else np.asarray(given, dtype=float)
        self.complaint = self._complaint()

    def near(self, value, expected):
        value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
        if value.shape != expected.shape:
            return False
        with np.errstate(invalid="ignore"):
            return bool(np.allclose(value, expected, rtol=self.tolerance["relative"], atol=self.tolerance["absolute"],
                                    equal_nan=True))

    def _complaint(self):
        """What is wrong, without a name; empty if nothing is."""
        if self.given is None:
            return "It is missing."
        if self.given.shape != self.expected.shape:
            return f"shape {self.given.shape}; expected {self.expected.shape}"
        if self.near(self.given, self.expected):
            return ""
        nan = np.isnan(self.given)
        if nan.any() and self.problem.is_batch and np.isnan(self.problem.logits).any():
            return f"NaN{_at(nan)}: a NaN in the padding has come through"
        if nan.any():
            return f"NaN{_at(nan)}; a log of 0 is -inf, and -inf - (-inf) is NaN"
        with np.errstate(invalid="ignore"):
            apart = ~np.isclose(self.given, self.expected, rtol=self.tolerance["relative"],
                                atol=self.tolerance["absolute"])
        place = tuple(np.argwhere(apart)[0])
        value, expected = self.given[place], self.expected[place]
        text = f"{value:.10g}{_at(apart)}; expected {expected:.10g}"
        if self.field == "loss" and expected == np.inf:
            return f"{text}: no alignment exists"
        if np.isinf(expected):
            return f"{text}: no path has any mass there"
        if self.field.startswith("grad") and self.loss.ndim == 0 and self.loss == np.inf:
            return f"{text}: no alignment exists, and the loss is constant"
        return f"{text}, and no known mistake gives this"

    def names(self):
        """The known mistakes that give this answer."""
        if self.given is None:
            return []
        found = []
        for name, mistake in self._mistakes():
            try:
                with np.errstate(all="ignore"):
                    value = mistake()
            except (ValueError, IndexError):
                continue  # this mistake has no answer here
            if value is not None and self.near(self.given, value) and not self.near(value, self.expected):
                found.append(name)
        return found

    def _mistakes(self):
        for name, mistake in mistakes_of(self.problem.loss, self.field).items():
            yield name, lambda mistake=mistake: self._everywhere(mistake)
        if self.problem.is_batch:
            yield LENGTHS, self._lengths_ignored
            yield _MEAN, lambda: self.expected / len(self.problem.logits)
            if self.field == "loss":
                yield _TOTAL, self.expected.sum
                yield _TOTAL, self.expected.mean
            else:
                yield PADDING, self._padding_left

    def _everywhere(self, mistake):
        """A mistake made in every utterance of a batch, or in the only one."""
        if not self.problem.is_batch:
            return mistake(self.problem)
        found = np.zeros(self.expected.shape)
        for b, (place, one) in enumerate(self.problem.utterances()):
            found[b if self.field == "loss" else place] = mistake(one)
        return found

    def _lengths_ignored(self):
        """All frames take part, the targets as they should be."""
        frames = np.full(len(self.problem.logits), self.problem.logits.shape[1])
        padded = replace(self.problem, logit_lengths=frames)
        case, = answered(document_of(self.problem.loss, "", [padded]))["cases"]
        return _array(case["outputs"][self.field])

    def _padding_left(self):
        """The right answer with what was given in padding."""
        found = self.given.copy()
        if found.shape != self.expected.shape:
            return None
        for place, _ in self.problem.utterances():
            found[place] = self.expected[place]
        return found

    def by_terms(self):
        """What the term-by-term diagnosis says about a gradient of one utterance; nothing if it has no name for it."""
        if (self.given is None or not self.field.startswith("grad") or self.problem.is_batch
                or self.problem.fastemit_lambda or self.given.shape != self.expected.shape
                or not np.isfinite(self.given).all() or self.tolerance["absolute"] > 1e-9):
            return ""
        norm = (self.expected**2).sum()
        factor = (self.given * self.expected).sum() / norm if norm else 0.0
        if norm and self.near(self.given, factor * self.expected):
            scaling = f" (2^{loss_scaling(factor)}: loss scaling?)" if loss_scaling(factor) else ""
            return f"It is the right gradient, multiplied by {factor:.6g}{scaling}."
        scores = self.problem.logits
        if self.field == "grad_log_probs":
            scores = decoded(self.case["outputs"]["log_probs"])
        said = diagnose_values(self.given, scores, self.problem.targets, loss=self.problem.loss,
                               variable=self.field.removeprefix("grad_"), blank=self.problem.blank)
        return "" if said.right or any("not on the list" in finding for finding in said.findings) else "; ".join(
            said.findings)


def _constant(checks):
    """The sentence for each wrong answer in a field that is the same number everywhere, in all utterances."""
    found = {}
    for field in {check.field for check in checks}:
        given = [check.given.ravel() for check in checks if check.field == field and check.given is not None]
        said = constant_of(np.concatenate(given)) if len(given) > 1 else ""
        found |= {(check.case["id"], field): f"It is {said} for everything." for check in checks
                  if said and check.field == field and check.given is not None and check.complaint}
    return found


def _named(checks):
    """A sentence for each wrong answer; of several names for one, that which explains most of the field's others."""
    names = {(check.case["id"], check.field): check.names() for check in checks}
    often = Counter((field, name) for (_, field), found in names.items() for name in found)
    said = {}
    for check in checks:
        key = check.case["id"], check.field
        best = max(names[key], key=lambda name: often[check.field, name], default="")
        said[key] = best or check.by_terms() or check.complaint
    return said


def _array(value):
    """An answer of a document as an array."""
    if isinstance(value, dict):
        return decoded(value)
    return np.array([float(x) for x in value]) if isinstance(value, list) else np.array(float(value))


def _at(mask):
    return "" if mask.ndim == 0 else f" at [{', '.join(str(i) for i in np.argwhere(mask)[0])}]"
