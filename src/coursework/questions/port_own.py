"""The second file of vectors of assignment 8, whose loss is no book's: inputs, and whether an answer has its form.

Each symbol k has a weight w(k), and a path scores the sum of w(k) log y(k) over the symbols that it emits. A path of
CTC ends in the last label. One of RNN-T ends at the last node, and does not emit the last blank. This file does not
know the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from reference_impl.conformance.encoding import decoded, encoded
from reference_impl.conformance.vectors.document import document
from reference_impl.conformance.vectors.problems import problems
from reference_impl.conformance.vectors.results import NotResults, read_results

from .question import Case
from .sealed import Sealed

__all__ = ["ABSENT", "FIELDS", "GROUP_OF", "OTHER", "SEALED", "documents", "given_by", "read"]

ABSENT = "There is no results_own.json, or it is empty."
OTHER = "It answers other vectors; repeat the name that is in your file of vectors."
#: By question, the field of the results that it asks for.
FIELDS = {"own_losses": "loss", "own_grad_log_probs": "grad_log_probs", "own_grad_logits": "grad_logits"}
#: By the group of a case of the vectors, the group of points. There is no batch.
GROUP_OF = {"labels": "labels", "repeats": "labels", "short": "edges", "blank": "edges", "masks": "edges",
            "no alignment": "edges", "numerics": "edges"}
_WEIGHTS = (0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.0)


@cache
def documents(seed) -> dict:
    """By loss, the vectors of a variant, with a weight for each symbol, and without answers."""
    return {loss: _document(loss, seed) for loss in ("ctc", "rnnt")}


def _document(loss, seed):
    rng = np.random.default_rng([80, seed])
    drawn = [problem for problem in problems(loss, rng, long=False) if not problem.is_batch]
    found = document(loss, f"own {loss}, variant {seed}", drawn)
    for case in found["cases"]:
        V = case["inputs"]["logits"]["shape"][-1]
        case["inputs"]["weights"] = encoded(rng.choice(_WEIGHTS, V))
    return found


def given_by(answers):
    """The text of a file of results from an answer, or None and what is wrong with it."""
    if "error" in answers[0]:
        return None, str(answers[0]["error"])[:500]
    try:
        text = decoded(answers[0].get("value"))
    except ValueError:
        text = None
    if not isinstance(text, str):
        return None, "The answer is not the text of a file."
    return (text, "") if text.strip() else (None, ABSENT)


def read(text, facts):
    """The document that a file answers and its results by case, or None, None and what is wrong with the file.

    How infinity is written is a question about the first file.
    """
    try:
        results = read_results(text, bare_infinities=True)
    except NotResults as error:
        return None, None, str(error)
    named = [each for each in facts.values() if each["name"] == results["vectors"]]
    return (named[0], results, "") if named else (None, None, OTHER)


@dataclass(frozen=True)
class SealedFile(Sealed):
    """What is public of a question about a file of results."""

    absent = ABSENT

    def drawn(self, *seeds):
        """The vectors of the first seed; no other numbers are asked for, since the program may run elsewhere."""
        return [Case(group, facts=documents(seeds[0])) for group in self.points]

    def tried(self, cases, answers):
        text, wrong = given_by(answers)
        vectors, results, wrong = (None, None, wrong) if text is None else read(text, cases[0].facts)
        head = f"{self.name}: {self.total:g} points, given by the grader. "
        if vectors is None:
            return f"{head}{wrong}"
        field = FIELDS[self.name]
        lacking = [case["id"] for case in vectors["cases"] if field not in results["results"].get(case["id"], {})]
        if lacking:
            return f"{head}{field} is missing in {len(lacking)} cases, {lacking[0]} among them."
        return f"{head}{field} is there in all {len(vectors['cases'])} cases. Its numbers are yours to check."


_POINTS = {"labels": 1.0, "edges": 1.0}
SEALED = [SealedFile(name, _POINTS, None, None, {}) for name in FIELDS]
