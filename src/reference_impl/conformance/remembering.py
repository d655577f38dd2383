"""Whether what a loss returns depends on what it was asked before: memory that one call leaves to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .judging import Judge
from .problem import Problem
from .subjects import Refused

__all__ = ["DIFFERS", "remembered"]

_AGAIN = "What it returns depends on what it was asked before: memory of an earlier call is reused"
#: What is said of answers that differ for no reason that is seen.
DIFFERS = "The same input gives different answers when it is asked again."
_GROWS = ("The same input gives different answers when it is asked again: each time the same amount is added. "
          "A buffer is added to, and not cleared between calls.")


def remembered(judge: Judge, precision: str) -> list[str]:
    """Sentences about it; empty if every answer is the same whatever came before it."""
    first, others = _problems(judge.conventions.kind)
    try:
        once, twice, thrice = (judge.subject.ask(first, precision) for _ in range(3))
        for name in ("loss", "gradient"):
            if name in once and not (_same(once[name], twice[name]) and _same(once[name], thrice[name])):
                return [_GROWS if _grows(once[name], twice[name], thrice[name]) else DIFFERS]
        found = {}
        for other in others:
            if not judge.subject.takes(other):
                continue
            between = judge.subject.ask(other, precision)
            again = judge.subject.ask(first, precision)
            for name in ("loss", "gradient"):
                if name not in found and name in once:
                    if not _same(thrice[name], again[name]):
                        found[name] = _left(name, thrice[name], again[name], first, other, between[name])
                    elif said := _of_the_first(judge, name, first, other, between):
                        found[name] = said
        return list(dict.fromkeys(f"{_AGAIN} ({said})." for said in found.values()))
    except Refused:
        return []


def _problems(kind):
    """An utterance, and others of its shape, and of other shapes, with labels that it does not have."""
    rng = np.random.default_rng(17)

    def drawn(T, targets, blank=0):
        shape = (T, 9) if kind == "ctc" else (T, len(targets) + 1, 9)
        return Problem("state", "", np.round(64 * rng.normal(size=shape)) / 64, np.array(targets), blank)

    first = drawn(6, [1, 2])
    masked = drawn(6, [5, 6])
    masked.logits[2] = -np.inf
    return first, [replace(first, targets=np.array([5, 6])), replace(first, blank=8), drawn(6, [3, 4], 7),
                   drawn(6, [6, 6]), drawn(8, [4, 3, 2]), drawn(4, [7]), masked]


def _same(value, other):
    return np.array_equal(value, other, equal_nan=True)


def _grows(once, twice, thrice):
    """Whether the same amount is added each time; how exactly it is the same is asked by its size, not by 1."""
    if np.shape(once) != np.shape(thrice):
        return False
    added = np.abs(np.subtract(twice, once)).max(initial=0.0)
    return bool(added > 0 and np.allclose(np.subtract(twice, once), np.subtract(thrice, twice), rtol=0,
                                          atol=1e-3 * added))


def _left(name, before, after, first, other, between):
    """What of an earlier answer is in a later one."""
    if name == "loss" or np.shape(before) != np.shape(after):
        return f"the {name} of an utterance changes after a call with another utterance"
    apart = ~((before == after) | (np.isnan(before) & np.isnan(after)))
    if np.shape(between) == np.shape(after) and np.allclose(after[apart], between[apart], rtol=1e-9, atol=1e-12):
        said = "entries of an earlier gradient are left in the next one; a buffer is not cleared"
        news = set(other.targets.tolist()) - set(first.targets.tolist()) - {first.blank}
        return said + ("; they are those of the labels of an earlier target" if
                       set(np.argwhere(apart)[:, -1].tolist()) <= news else "")
    if np.shape(between) == np.shape(after) and np.allclose((after - before)[apart], between[apart], rtol=1e-9,
                                                            atol=1e-12):
        return "an earlier gradient is added to the next one; a buffer is not cleared"
    return "the gradient of an utterance changes after a call with another utterance"


def _of_the_first(judge, name, first, other, between):
    """Whether what came back for another utterance is right for what was asked before it; empty if not."""
    conventions, given = judge.conventions, between[name]
    if judge.transposed or first.logits.shape != other.logits.shape or _right(judge, other, name, given):
        return ""
    changes = (("the targets", {"targets": first.targets}), ("the blank", {"blank": first.blank}),
               ("targets and blank", {"targets": first.targets, "blank": first.blank}),
               ("the scores", {"logits": first.logits}))
    for said, change in changes:
        changed = replace(other, **change)
        if not (changed.targets == conventions.blank_of(changed)).any() and _right(judge, changed, name, given):
            return f"{said} of an earlier call are taken, of the same shape" if said != "the blank" else (
                "the blank of an earlier call is taken")
    return "the answer to an earlier call is returned" if _right(judge, first, name, given) else ""


def _right(judge, problem, name, given):
    right = judge.conventions.expected(problem, scores=judge.subject.scores_of(problem))[name]
    return np.shape(right) == np.shape(given) and np.allclose(given, right, rtol=1e-4, atol=1e-5)
