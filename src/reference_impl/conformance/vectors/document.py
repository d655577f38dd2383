"""A document of test vectors as a dict that is JSON: made of problems, with answers or without them.

`data/vectors/vectors.schema.json` says what is in it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..._softmax import log_softmax
from ..encoding import decoded, encoded
from ..problem import LOSSES, Problem
from .problems import GROUPS, problems

__all__ = ["ARRAYS", "FOLDER", "OUTPUTS", "TOLERANCES", "VERSION", "answered", "document", "problem_of",
           "public", "unanswered"]

#: Where the public documents and the schemas are.
FOLDER = Path(__file__).parents[4] / "data" / "vectors"
#: Of the numbers and of the format: the first number changes when a program that reads them has to.
VERSION = "1.0.0"
#: What is answered, in the order in which a port gets there. Batches have the loss and both gradients.
OUTPUTS = ("log_probs", "log_alpha", "log_beta", "loss", "grad_log_probs", "grad_logits")
ARRAYS = tuple(name for name in OUTPUTS if name != "loss")
_LOGARITHM, _GRADIENT = ("log_probs", "log_alpha", "log_beta", "loss"), ("grad_log_probs", "grad_logits")
#: |yours - ours| <= absolute + relative |ours|, by precision and field. tests/test_vectors.py measures how far off
#: plain recursions are: some 1e-15 and 3e-7 in the logarithms, 3e-13 and 5e-5 in gradients where the loss is near 1000.
TOLERANCES = {
    precision: {**{name: {"relative": logarithm, "absolute": logarithm} for name in _LOGARITHM},
                **{name: {"relative": 0.0, "absolute": gradient} for name in _GRADIENT}}
    for precision, logarithm, gradient in (("float64", 1e-12, 1e-10), ("float32", 1e-5, 5e-4))
}


def public(loss) -> dict:
    """The document that the project ships, answers in 50 digits rounded once; needs mpmath."""
    from .exact import exact_answers

    found = document(loss, f"{loss} {VERSION}", problems(loss, np.random.default_rng(20061)))
    for case, problem in zip(found["cases"], problems(loss, np.random.default_rng(20061)), strict=True):
        each = [exact_answers(one) for _, one in problem.utterances()]
        case["outputs"] = _outputs(problem, [answers for answers, _, _ in each])
        case["alignments"] = [count for _, count, _ in each] if problem.is_batch else each[0][1]
        case["confirmed_by"] = [way for way in each[0][2] if all(way in ways for _, _, ways in each)]
    return found


def document(loss, name, drawn) -> dict:
    """Problems as a document without answers."""
    return {
        "$schema": "vectors.schema.json",
        "name": name,
        "loss": loss,
        "units": "nats",
        "tolerances": TOLERANCES,
        "groups": {group: text for group, text in GROUPS.items() if any(p.group == group for p in drawn)},
        "cases": [{"id": problem.id, "group": problem.group, "inputs": _inputs(problem)} for problem in drawn],
    }


def _inputs(problem):
    found = {"logits": encoded(problem.logits), "targets": encoded(problem.targets), "blank": problem.blank}
    if problem.is_batch:
        found |= {name: encoded(getattr(problem, name)) for name in ("logit_lengths", "target_lengths")}
    if problem.fastemit_lambda:
        found["fastemit_lambda"] = problem.fastemit_lambda
    return found


def problem_of(case) -> Problem:
    """The problem of a case of a document."""
    given = case["inputs"]
    group, name = case["id"].split("/", 1)
    arrays = {key: decoded(value) for key, value in given.items() if isinstance(value, dict)}
    return Problem(group, name, **arrays, blank=given["blank"], fastemit_lambda=given.get("fastemit_lambda", 0.0))


def answered(found) -> dict:
    """A document with answers in float64 where it has none."""
    cases = []
    for case in found["cases"]:
        problem = problem_of(case)
        cases.append(case if "outputs" in case else {
            **case, "outputs": _outputs(problem, [_float64(one) for _, one in problem.utterances()])})
    return {**found, "cases": cases}


def unanswered(found) -> dict:
    """A document without its answers."""
    keep = "id", "group", "inputs"
    return {**found, "cases": [{name: case[name] for name in keep} for case in found["cases"]]}


def _float64(problem):
    module, log_probs = LOSSES[problem.loss], log_softmax(problem.logits)
    arguments, more = (problem.targets,), {"blank": problem.blank}
    emphasis = {"fastemit_lambda": problem.fastemit_lambda} if problem.fastemit_lambda else {}
    return {
        "log_probs": log_probs, "loss": module.loss(log_probs, *arguments, **more),
        "log_alpha": module.log_alpha(log_probs, *arguments, **more),
        "log_beta": module.log_beta(log_probs, *arguments, **more),
        "grad_log_probs": module.grad_log_probs(log_probs, *arguments, **more, **emphasis),
        "grad_logits": module.grad_logits(problem.logits, *arguments, **more, **emphasis),
    }


def _outputs(problem, answers):
    """Answers of utterances as JSON; those of a batch padded by 0."""
    if not problem.is_batch:
        return {name: _as_json(name, answers[0][name]) for name in OUTPUTS}
    found = {"loss": _as_json("loss", [each["loss"] for each in answers])}
    for name in _GRADIENT:
        found[name] = np.zeros(problem.logits.shape)
        for (place, _), each in zip(problem.utterances(), answers, strict=True):
            found[name][place] = each[name]
        found[name] = _as_json(name, found[name])
    return found


def _as_json(name, value):
    """A loss as a number or a list of them, anything else as shape and values; no -0."""
    data = encoded(np.asarray(value, dtype=float) + 0.0)
    if name != "loss":
        return data
    return data["values"] if data["shape"] else data["values"][0]
