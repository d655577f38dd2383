"""Assignment 8: the answers to the second file of vectors: symbols have weights, and paths end without a blank."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from coursework.questions.port_own import ABSENT, FIELDS, GROUP_OF, OTHER, documents, given_by, read
from coursework.questions.question import Case, Question
from reference_impl import ctc, log_softmax, rnnt
from reference_impl.conformance.encoding import decoded, encoded
from reference_impl.conformance.vectors.document import TOLERANCES

__all__ = ["QUESTIONS", "answers"]


def answers(logits, targets, blank, weights, *, used=True, carried=True, end=True, front=True):
    """Loss and both gradients of one utterance, with a place for what is easily forgotten."""
    log_probs = log_softmax(logits)
    inner = (weights if used else np.ones_like(weights)) * log_probs
    module = ctc if logits.ndim == 2 else rnnt
    if end and module is ctc:
        inner = _ends_in_a_label(inner, targets, blank)
    if end and module is rnnt:
        inner[-1, -1, blank] = 0.0
    loss = module.loss(inner, targets, blank=blank)
    v = module.grad_log_probs(inner, targets, blank=blank)
    if end and module is rnnt:
        v[-1, -1, blank] = 0.0
    v = v * (weights if front else 1.0)
    carry = np.exp(log_probs) * v.sum(-1, keepdims=True) if carried else 0.0
    return {"loss": loss, "grad_log_probs": v + 0.0, "grad_logits": v - carry + 0.0}


def _ends_in_a_label(scores, targets, blank):
    """A path that may not emit the blank in the last frame ends in the last label; without a label there is none."""
    scores = np.array(scores)
    scores[-1, blank] = -np.inf
    return scores


@dataclass(frozen=True)
class OwnPort(Question):
    """Points for the cases of a group, all right in the question's field."""

    absent = ABSENT

    def drawn(self, *seeds):
        return [Case(group, facts=documents(seeds[0])) for group in self.points]

    def judged(self, cases, answers):
        text, wrong = given_by(answers)
        vectors, results, wrong = (None, None, wrong) if text is None else read(text, cases[0].facts)
        if vectors is None:
            return 0.0, [wrong]
        field, points, findings = FIELDS[self.name], 0.0, []
        tolerance = TOLERANCES[results["precision"]][field]
        for group, worth in self.points.items():
            ids = [case["id"] for case in vectors["cases"] if GROUP_OF[case["group"]] == group]
            right = _right(vectors["name"])
            bad = [name for name in ids
                   if not _near(results["results"].get(name, {}).get(field), right[name][field], tolerance)]
            if not bad:
                points += worth
                continue
            named = self._named(vectors, results, field, bad, tolerance)
            findings += [named or "No known mistake gives this.",
                         f"Where: {field} of {bad[0]}{f', and {len(bad) - 1} more' if len(bad) > 1 else ''}."]
        return points, list(dict.fromkeys(findings))

    def _named(self, vectors, results, field, bad, tolerance):
        if all(field not in results["results"].get(name, {}) for name in bad):
            return "There are no results."
        for said, options in MISTAKES.items():
            found = _computed(vectors["name"], **options)
            if all(_near(results["results"].get(name, {}).get(field), found[name][field], tolerance) for name in bad):
                return said
        return ""


#: What is easily forgotten, by what is said about it.
MISTAKES = {
    "The weights are missing: it is the loss of the first file, with the other end.": {"used": False, "front": False},
    "The weights are in the scores, and missing in front of the posteriors.": {"front": False},
    "The weights are in front of the posteriors, and missing in the scores.": {"used": False},
    "Its paths end as in the first file.": {"end": False},
    "The weights are missing, and its paths end as in the first file.": {"used": False, "front": False, "end": False},
    "The softmax term is missing: it is the gradient with respect to the log-probs.": {"carried": False},
}


def _near(given, expected, tolerance):
    if given is None:
        return False
    given, expected = np.asarray(given, dtype=float), np.asarray(expected, dtype=float)
    if given.shape != expected.shape:
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.allclose(given, expected, rtol=tolerance["relative"], atol=tolerance["absolute"]))


@cache
def _computed(name, **options):
    """By case, the answers to a document, which its name tells."""
    loss, seed = name.removeprefix("own ").split(", variant ")
    found = {}
    for case in documents(int(seed))[loss]["cases"]:
        given = case["inputs"]
        logits, targets, weights = (decoded(given[key]) for key in ("logits", "targets", "weights"))
        found[case["id"]] = answers(logits, targets, given["blank"], weights, **options)
    return found


def _right(name):
    return _computed(name)


def results(vectors, **options) -> str:
    """The file of results that these answers make."""
    found = {}
    for name, each in _computed(vectors["name"], **options).items():
        found[name] = {field: encoded(value) if field != "loss" else encoded(value)["values"][0]
                       for field, value in each.items()}
    return json.dumps({"vectors": vectors["name"], "precision": "float64", "made_by": "reference_impl",
                       "results": found})


def right(ctc, rnnt):
    return results(ctc)


def _file(ctc, rnnt, **options):
    return results(ctc, **options)


_POINTS = {"labels": 1.0, "edges": 1.0}


def _mistakes(*fields_that_show):
    return {said: partial(_file, **options) for said, options in MISTAKES.items() if said in fields_that_show} | {
        OTHER: lambda ctc, rnnt: right(ctc, rnnt).replace("own ctc", "ctc"),
        ABSENT: lambda ctc, rnnt: "",
    }


_SAID = list(MISTAKES)
QUESTIONS = [
    OwnPort("own_losses", _POINTS, None, right, _mistakes(_SAID[0], _SAID[3], _SAID[4])),
    OwnPort("own_grad_log_probs", _POINTS, None, right, _mistakes(*_SAID[:5])),
    OwnPort("own_grad_logits", _POINTS, None, right, _mistakes(*_SAID)),
]
