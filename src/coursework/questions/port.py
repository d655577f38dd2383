"""Assignment 8: a loss ported to another language, by the file of results that it writes for a student's own vectors.

The answer to every question is the text of that file. The student chooses the loss; the file says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np

from reference_impl.conformance.encoding import decoded, encoded
from reference_impl.conformance.vectors.compare import compare
from reference_impl.conformance.vectors.document import answered, document, problem_of
from reference_impl.conformance.vectors.mistakes import mistakes_of
from reference_impl.conformance.vectors.problems import problems
from reference_impl.conformance.vectors.results import NotResults, read_results, right_results

from .question import Case, Question

__all__ = ["QUESTIONS"]

_FIELDS = ("loss", "grad_log_probs", "grad_logits")
_OTHER = "It answers other vectors; repeat the name that is in your file of vectors."
_PARTS = "It is not complete: every case needs loss, grad_log_probs and grad_logits."
_ABSENT = "There is no results.json, or it is empty."


@dataclass(frozen=True)
class PortQuestion(Question):
    """A question about some fields of the results, with points by groups of cases."""

    fields: tuple[str, ...] = _FIELDS
    absent = _ABSENT

    def drawn(self, *seeds):
        """The vectors of the first seed; nothing is hidden, since the program may run elsewhere."""
        return [Case(group, facts=_vectors(seeds[0])) for group in self.points]

    def judged(self, cases, answers):
        """Points and findings from the text of a file of results."""
        if "error" in answers[0]:
            return 0.0, [str(answers[0]["error"])[:500]]
        try:
            text = decoded(answers[0].get("value"))
        except ValueError:
            text = None
        if not isinstance(text, str):
            return 0.0, ["The answer is not the text of a file."]
        if not text.strip():
            return 0.0, [_ABSENT]
        try:
            results = read_results(text, bare_infinities=self.name != "results_file")
        except NotResults as error:
            return 0.0, [str(error)]
        named = [each for each in cases[0].facts.values() if each["name"] == results["vectors"]]
        if not named:
            return 0.0, [_OTHER]
        return self._found(_with_answers(json.dumps(named[0])), results)

    def _found(self, vectors, results):
        groups = {case["id"]: case["group"] for case in vectors["cases"]}
        given = {name: {field: value for field, value in answer.items() if field in self.fields}
                 for name, answer in results["results"].items() if groups.get(name) in self.points}
        found = compare(vectors, {**results, "results": given},
                        without=set(groups.values()) - set(self.points), required=self.fields)
        wrong = {**{(name, "results"): "There are none." for name in found.missing}, **found.wrong}
        points = sum(worth for group, worth in self.points.items()
                     if not any(groups[name] == group for name, _ in wrong))
        return points, _sentences(wrong)


@dataclass(frozen=True)
class FileQuestion(PortQuestion):
    """Whether the file can be read, and has all that is asked."""

    def _found(self, vectors, results):
        expected = {case["id"]: case["outputs"] for case in vectors["cases"]}
        lacking = [f"{name}, {field}" for name in expected for field in self.fields
                   if field not in results["results"].get(name, {})]
        unknown = [name[:60] for name in results["results"] if name not in expected]
        findings = []
        if lacking:
            findings += [_PARTS, f"{lacking[0]} is missing{_more(lacking)}."]
        if unknown:
            findings.append(f"{unknown[0]!r} is none of the cases{_more(unknown)}.")
        return self.total - (self.points["complete"] if findings else 0), findings


def _more(names):
    return f", and {len(names) - 1} more" if len(names) > 1 else ""


def _sentences(wrong):
    """What is wrong, each sentence once and behind it where that is."""
    places = {}
    for (name, field), text in wrong.items():
        places.setdefault(text, []).append(f"{field} of {name}")
    found = []
    for text, where in places.items():
        found += [text, f"Where: {where[0]}{_more(where)}."]
    return found[:20]


@cache
def _vectors(seed):
    """By loss, the vectors of a variant, without answers."""
    return {loss: document(loss, f"{loss}, variant {seed}",
                           problems(loss, np.random.default_rng([8, seed]), long=False)) for loss in ("ctc", "rnnt")}


@lru_cache(maxsize=32)
def _with_answers(vectors):
    """A document, given as text, with answers: every question about a file asks for them anew."""
    return answered(json.loads(vectors))


# --- files with mistakes ---


def right(ctc, rnnt):
    return json.dumps(right_results(ctc))


def _with(ctc, rnnt, change):
    """The right file with what ``change`` does to it."""
    found = right_results(ctc)
    return json.dumps(change(found) or found)


def _with_field(ctc, rnnt, field, name):
    """The right file with a mistake that has a name in one field, in every utterance."""
    found, mistake = right_results(ctc), mistakes_of("ctc", field)[name]
    for case in ctc["cases"]:
        problem = problem_of(case)
        value = np.array(_numbers(found["results"][case["id"]][field]))
        for b, (place, one) in enumerate(problem.utterances()):
            try:
                with np.errstate(all="ignore"):
                    value[(b if problem.is_batch else ()) if field == "loss" else place] = mistake(one)
            except (ValueError, IndexError):
                continue
        found["results"][case["id"]][field] = _as_json(value, field)
    return json.dumps(found)


def _numbers(value):
    if isinstance(value, Mapping):
        return decoded(value)
    return [float(x) for x in value] if isinstance(value, list) else float(value)


def _as_json(value, field):
    data = encoded(value)
    return data if field != "loss" else data["values"] if data["shape"] else data["values"][0]


def _in_batches(field, change):
    """A mistake of batches: ``change(value, problem)``."""
    def answer(ctc, rnnt):
        found = right_results(ctc)
        for case in ctc["cases"]:
            problem = problem_of(case)
            if problem.is_batch:
                value = change(np.array(_numbers(found["results"][case["id"]][field])), problem)
                found["results"][case["id"]][field] = _as_json(value, field)
        return json.dumps(found)
    return answer


def _padding_filled(value, problem):
    filled = np.full(value.shape, 0.25)
    for place, _ in problem.utterances():
        filled[place] = value[place]
    return filled


def _named(field, *names) -> Mapping:
    return {name: partial(_with_field, field=field, name=name) for name in names}


def _bare_infinity(ctc, rnnt):
    return right(ctc, rnnt).replace('"inf"', "Infinity")


_MAIN = {"labels": 0.5, "repeats": 0.25, "numerics": 0.25}
_HALF = {group: worth / 2 for group, worth in _MAIN.items()}
_SKIPS = "It skips the blank between two equal labels; there a blank has to be passed."
QUESTIONS = [
    FileQuestion("results_file", {"form": 0.25, "complete": 0.25}, None, right, {
        'Infinity is no JSON; write the string "inf".': _bare_infinity,
        "the whole: precision missing.": partial(_with, change=lambda found: found.pop("precision") and None),
        _OTHER: partial(_with, change=lambda found: found.update(vectors="ctc 1.0.0")),
        _PARTS: partial(_with, change=lambda found: [each.pop("grad_logits") for each in found["results"].values()]
                        and None),
        _ABSENT: lambda ctc, rnnt: "",
    }),
    PortQuestion("losses", _MAIN, None, right, _named(
        "loss", _SKIPS, "It ends in the last blank only; a path may end in the last label, too.",
        "It is the best path's score, not the sum over all paths.", "Its sign is wrong: the loss is minus log Z.",
        "It is in bits; nats are asked for.", "The logits are taken for log-probs; a softmax is missing.",
        "It adds up probabilities, which underflow to 0; add their logarithms (log-sum-exp).",
        "exp of a large logit overflows; subtract the largest of the row from all of them first.",
    ), fields=("loss",)),
    PortQuestion("grad_log_probs", _HALF, None, right, _named(
        "grad_log_probs", "Its sign is wrong: the loss is minus log Z.",
        "It is the gradient with respect to the logits.",
        "It is the gradient with respect to the probabilities: divided by each of them.",
        "It keeps the last state of a symbol; the blank, or a label that occurs twice, stands at several states.",
        "exp of a large logit overflows; subtract the largest of the row from all of them first.",
    ), fields=("grad_log_probs",)),
    PortQuestion("grad_logits", _HALF, None, right, _named(
        "grad_logits", "The softmax term is missing: it is the gradient with respect to the log-probs.",
        "Its sign is wrong.", "The occupancy is missing.", "The emission is in the occupancy twice.",
        "The occupancy keeps the last state of a symbol only.",
    ), fields=("grad_logits",)),
    PortQuestion("edges", {"short": 0.25, "blank": 0.25, "masks": 0.25, "no alignment": 0.25}, None, right, {
        **_named("loss", "It is 0 where no alignment exists (zero_infinity); there it is inf.",
                 "The blank is taken to be symbol 0."),
        **_named("grad_logits", "Where there is no alignment it is not 0: the softmax term is left."),
    }),
    PortQuestion("batch", {"batch": 0.5}, None, right, {
        "It is right except in the padding, where the gradient should be 0.":
            _in_batches("grad_logits", _padding_filled),
        "It is divided by the number of utterances; a mean was taken.":
            _in_batches("grad_log_probs", lambda value, problem: value / len(value)),
        "It is one number for the batch; expected one for each utterance.":
            _in_batches("loss", lambda value, problem: value.sum()),
    }),
]
