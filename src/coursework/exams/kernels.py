"""Exam questions about reading code: lines of kernels, executed to find what they compute. No library's code."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from reference_impl import ctc, log_softmax, rnnt

from .item import Item, Kind

__all__ = ["CHANGES", "KINDS", "LINES", "line_gradient", "run_recursion"]

_VARIABLES = {
    "probs": "the probabilities $y$", "log_probs": "the log-probs $\\log y$, taken as independent",
    "logits": "the logits", "none": "none of the three",
}

#: Lines of a kernel of CTC that write the entry of a frame t and a state's symbol k, each adding what its states have.
#: ``beta`` begins after frame t, ``beta_with`` has the emission of frame t in it, ``lp`` are the log-probs.
LINES = [
    "grad[t, k] -= exp(alpha[t, s] + beta[t, s] - log_z)",
    "grad[t, k] -= exp(alpha[t, s] + beta_with[t, s] - log_z)",
    "grad[t, k] -= exp(alpha[t, s] + beta_with[t, s] - lp[t, k] - log_z)",
    "grad[t, k] -= exp(alpha[t, s] + beta[t, s] - lp[t, k] - log_z)",
    "grad[t, k] -= exp(alpha[t, s] + beta_with[t, s] - 2 * lp[t, k] - log_z)",
    "grad[t, k] -= exp(alpha[t, s] + beta[t, s])",
    "grad[t, k] = -exp(alpha[t, s] + beta[t, s] - log_z)",
]
_STARTS = {"zeros(T, V)": np.zeros_like, "exp(lp)": np.exp}


def line_gradient(line, start, log_probs, targets):
    """What the line makes of a start, over all frames and states, in this order."""
    z = ctc.extended_targets(targets)
    alpha, beta = ctc.log_alpha(log_probs, targets), ctc.log_beta(log_probs, targets)
    names = {"alpha": alpha, "beta": beta, "beta_with": beta + log_probs[:, z], "lp": log_probs, "exp": np.exp,
             "log_z": -ctc.loss(log_probs, targets), "grad": _STARTS[start](log_probs)}
    code = compile(line, "line", "exec")
    for t, s in product(range(len(log_probs)), range(len(z))):
        exec(code, {**names, "t": t, "s": s, "k": z[s]})
    return names["grad"]


def _variable(found, log_probs, targets):
    right = {"probs": ctc.grad_log_probs(log_probs, targets) / np.exp(log_probs),
             "log_probs": ctc.grad_log_probs(log_probs, targets), "logits": ctc.grad_logits(log_probs, targets)}
    return next((name for name, value in right.items() if np.allclose(found, value, rtol=0, atol=1e-9)), "none")


def variable_of_a_line(rng):
    log_probs, targets = log_softmax(rng.normal(size=(5, 4))), [1, 2, 1]
    line, start = LINES[rng.integers(len(LINES))], list(_STARTS)[rng.integers(2)]
    right = _variable(line_gradient(line, start, log_probs, targets), log_probs, targets)
    others = {f"It is the gradient with respect to {text}." if name != "none" else "It is a gradient of the loss.": text
              for name, text in _VARIABLES.items() if name != right}
    return Item(
        "In a kernel of CTC `alpha` has the emission of frame t in it, `beta` has not, and `beta_with` has. `lp` are "
        "the log-probs, and k is the symbol of state s. All arrays but `grad` are logarithms.\n\n"
        f"```\ngrad = {start}\nfor t in range(T):\n    for s in range(S):\n        k = symbol[s]\n        {line}\n```\n"
        "\n"
        "With respect to which variable is `grad` the gradient of $-\\log Z$ in the end, for every target?",
        _VARIABLES[right], others,
        "Count the emissions of frame t in the exponent: one, and it is the log-prob; none, and it is the probability. "
        "What is assigned and not added loses the other states of a symbol.",
        {"line": line, "start": start})


#: The forward recursion, with a place for each change.
RECURSION = """alpha[0, :{begin}] = lp[0, z[:{begin}]]
for t in range(1, T):
    for s in range(S):
        terms = [alpha[t - 1, s]]
        if s >= 1:
            terms.append(alpha[t - 1, s - 1])
        if s >= 2 and {skip}:
            terms.append(alpha[t - 1, s - 2])
        alpha[t, s] = {add}(terms) + lp[t, z[s]]
loss = -logaddexp(alpha[T - 1, {ends}])"""
_PLAIN = {"begin": "2", "skip": "z[s] != blank and z[s] != z[s - 2]", "add": "logaddexp", "ends": "-2:"}
_PLACES = {"begin": "the first line", "skip": "the condition of the skip", "add": "the sum", "ends": "the last line"}
#: Changes of one place.
CHANGES = [("skip", "z[s] != blank"), ("skip", "z[s] != z[s - 2]"), ("skip", "False"), ("ends", "-1:"), ("begin", "1"),
           ("add", "max"), ("skip", "s % 2 == 1"), ("begin", "S"), ("ends", ":")]
_TARGETS = {"a": [1], "aa": [1, 1], "ab": [1, 2], "aba": [1, 2, 1], "abb": [1, 2, 2], "the empty target": []}


def run_recursion(change, log_probs, targets):
    """The loss of the recursion with another text in one place, ``change = (place, text)``."""
    z = ctc.extended_targets(targets)
    names = {"alpha": np.full((len(log_probs), len(z)), -np.inf), "lp": log_probs, "z": z, "T": len(log_probs),
             "S": len(z), "blank": 0, "logaddexp": np.logaddexp.reduce, "max": max}
    exec(compile(_code(change), "recursion", "exec"), names)
    return float(names["loss"])


def _code(change):
    return RECURSION.format(**{**_PLAIN, **dict([change])})


def _wrong_targets(change, log_probs):
    """Names of the targets whose loss the change makes wrong."""
    return [name for name, targets in _TARGETS.items()
            if abs(run_recursion(change, log_probs, targets) - ctc.loss(log_probs, targets)) > 1e-9]


def _listed(names):
    return ", ".join(name if "target" in name else f"*{name}*" for name in names) or "none of them"


@cache
def _answers():
    """By change, the targets that it makes wrong; they do not depend on the probabilities, if none is 0."""
    log_probs = log_softmax(np.random.default_rng(5).normal(size=(5, 3)))
    return {change: _listed(_wrong_targets(change, log_probs)) for change in CHANGES}


def changed_recursion(rng):
    answers = _answers()
    change = CHANGES[rng.integers(len(CHANGES))]
    others = {f"That is so if {_PLACES[place]} reads `{text}`.": answer for (place, text), answer in answers.items()}
    return Item(
        "Somebody has written CTC's loss like this, with blank = 0 and labels *a* = 1, *b* = 2:\n\n```\n"
        f"{_code(change)}\n```\n\n`logaddexp` adds probabilities whose logarithms are in a list. For which of "
        f"the targets {_listed(_TARGETS)} is the loss wrong, in five frames of any probabilities?",
        answers[change], others, "Follow a path of each target through the changed line.", {"change": change})


def entry_of_a_step(rng):
    """Which entry of RNN-T's log-probs a step of the forward recursion reads."""
    T, U = int(rng.integers(3, 7)), int(rng.integers(3, 6))
    t, u = int(rng.integers(1, T)), int(rng.integers(1, U))
    targets = [int(k) for k in rng.permutation(range(1, U + 1))]
    now, later = targets[u - 1], targets[u]
    step = ("blank", "label")[rng.integers(2)]
    places = {"label": {
        "": (t, u - 1, now), "At the node that the step enters.": (t, u, now),
        "The label after it.": (t, u - 1, later), "As in CTC, where a label takes a frame.": (t - 1, u - 1, now),
        "The blank's.": (t, u - 1, 0),
    }, "blank": {
        "": (t - 1, u, 0), "At the node that the step enters.": (t, u, 0), "The label's.": (t - 1, u, later),
        "As if it wrote a label.": (t - 1, u - 1, 0), "At the node that the label leaves.": (t, u - 1, 0),
    }}[step]
    log_probs = rng.normal(size=(T, U + 1, U + 1))
    (right,) = [place for place in places.values() if _moves_alpha(log_probs, targets, place, t, u)]
    return Item(
        f"In RNN-T's forward recursion $\\alpha(t, u)$ is the mass that reaches a node. The targets are `{targets}`, "
        f"and the blank is 0. Which entry of the log-probs `lp[t, u, k]` does the *{step}* step into the node "
        f"$({t}, {u})$ read?",
        _entry(right), {mistake: _entry(place) for mistake, place in places.items() if place != right},
        "A step reads the log-prob at the node that it leaves.",
        {"T": T, "targets": targets, "t": t, "u": u, "step": step})


def _entry(place):
    return f"`lp[{', '.join(map(str, place))}]`"


def _moves_alpha(log_probs, targets, place, t, u):
    """Whether alpha(t, u) depends on the entry by a step that enters the node: others move its neighbours as well."""
    moved = log_probs.copy()
    moved[place] += 1
    before, after = (rnnt.log_alpha(each, targets) for each in (log_probs, moved))
    changed = [(i, j) for i in range(t + 1) for j in range(u + 1) if abs(before[i, j] - after[i, j]) > 1e-12]
    return changed == [(t, u)]


KINDS = [
    Kind("variable_of_a_line", "Reading kernels", 3, 5, variable_of_a_line),
    Kind("changed_recursion", "Reading kernels", 4, 8, changed_recursion),
    Kind("entry_of_a_step", "Reading kernels", 2, 3, entry_of_a_step),
]
