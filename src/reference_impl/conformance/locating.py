"""Where a gradient is wrong, if its loss is right: what all wrong entries have in common, and no right one needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._softmax import log_softmax
from ..terms import softmax_multiples
from .judging import Near
from .subjects import Refused

__all__ = ["adds_up", "is_derivative", "located"]


def is_derivative(judge, wrong) -> bool:
    """Whether the gradient is the derivative of the loss that comes with it, on the smallest utterance of wrong losses.

    By central differences along three directions; both are taken without the factors of their conventions.
    """
    problems = [each.case.problem for each in wrong if not each.case.problem.is_batch
                and each.case.problem.logits.shape[-1] > 1 and np.isfinite(each.given).all()]  # one symbol has slope 0
    if not problems:
        return False
    problem, rng, h = min(problems, key=lambda problem: problem.logits.size), np.random.default_rng(5), 1e-4
    scale = [getattr(judge.conventions, name).of(problem)[0] for name in ("loss", "gradient")]
    try:
        outputs = judge.subject.ask(problem)
        for _ in range(3):
            direction = rng.normal(size=problem.logits.shape)
            steps = [replace(problem, logits=problem.logits + step) for step in (h * direction, -h * direction)]
            ahead, behind = (judge.subject.ask(step)["loss"] for step in steps)
            slope = np.ravel(ahead - behind)[0] / (2 * h * scale[0])
            if judge.conventions.variable == "log_probs":  # which do not move as the logits do
                ahead, behind = (judge.subject.scores_of(step) for step in steps)
                with np.errstate(invalid="ignore"):
                    direction = np.where(np.isfinite(ahead), ahead - behind, 0.0) / (2 * h)
            said = (outputs["gradient"] * direction).sum() / scale[1]
            if not abs(slope - said) <= 1e-5 * (1 + abs(slope)):
                return False
    except (Refused, KeyError, ValueError):
        return False
    return True


def adds_up(wrong, judge) -> bool:
    """Whether the posteriors in wrong gradients of single utterances add up to 1: in a frame, on an anti-diagonal.

    A gradient with respect to logits has them in a frame as the multiple of softmax, seen at the symbols that no arc
    emits, less the sum over all symbols.
    """
    for each in wrong:
        problem = each.case.problem
        if problem.is_batch or not np.isfinite(each.given).all() or not each.right.any():
            continue
        given = each.given / judge.conventions.gradient.of(problem)[0]
        node = -given.sum(-1)
        if judge.conventions.variable == "logits":
            scores = judge.subject.scores_of(problem)
            others = ~replace(problem, blank=judge.conventions.blank_of(problem)).entries()
            multiples, *_ = softmax_multiples(given, np.exp(log_softmax(scores)), others, each.case.gradient)
            if multiples is None or np.isnan(multiples).any():  # of RNN-T's node no other sum is known than that
                if np.abs(node).max() > 1e3 * each.case.gradient and node.ndim == 1:
                    return False
                continue
            node = node + multiples
        T = len(node)
        sums = node if node.ndim == 1 else np.array(
            [np.trace(node[:, ::-1], offset) for offset in range(1 - T, node.shape[1])])
        if np.abs(sums - 1).max() > 1e3 * each.case.gradient:
            return False
    return True


def located(wrong) -> str:
    """Words for the smallest set of entries that holds all wrong ones, such as "of the last frame"; empty if none does.

    Parameters
    ----------
    wrong : list of Wrong
        Wrong gradients of one utterance each.
    """
    apart = [(each, Near(each.case, "gradient").apart(each.given, each.right)) for each in wrong
             if not each.case.problem.is_batch and np.shape(each.given) == np.shape(each.right)]
    if not apart:
        return ""
    sets = {}
    for each, entries in apart:
        for words, inside in _sets(each.case.problem).items():
            covers = not (entries & ~inside).any()
            size, all_cover = sets.get(words, (0, True))
            sets[words] = size + int(inside.sum()), all_cover and covers
    whole = sum(entries.size for _, entries in apart)
    fitting = [(size, words) for words, (size, covers) in sets.items() if covers and 0 < size < whole]
    return min(fitting, default=(0, ""))[1]


def _sets(problem):
    """Sets of entries with a name, as arrays of bool."""
    shape = problem.logits.shape
    ctc, T = problem.loss == "ctc", shape[0]
    frame = np.arange(T).reshape(-1, *[1] * (len(shape) - 1))
    symbol = np.arange(shape[-1])
    row = np.arange(shape[1])[:, None] if not ctc else np.zeros((1,), int)
    is_blank, last_row, entries = symbol == problem.blank, row == len(problem.targets), problem.entries()
    is_label = entries & ~is_blank
    found = {
        "at the first frame": frame == 0, "at the last frame": frame == T - 1,
        "before the last frame": frame < T - 1, "after the first frame": frame > 0,
        "at the blanks": is_blank, "at the labels": is_label, "at the blanks and the labels": entries,
        "at symbols that are neither the blank nor a label": ~entries,
        "at the blanks of the last frame": (frame == T - 1) & is_blank,
        "at the labels of the last frame": (frame == T - 1) & is_label,
        "at the blanks of the first frame": (frame == 0) & is_blank,
        "at the labels of the first frame": (frame == 0) & is_label,
        "at the blanks before the last frame": (frame < T - 1) & is_blank,
        "at the labels before the last frame": (frame < T - 1) & is_label,
    }
    if not ctc:
        end = (frame == T - 1) & last_row
        found |= {
            "at the last node": end, "at the last blank": end & is_blank, "in the last row": last_row,
            "below the last row": ~last_row, "in the first row": row == 0, "above the first row": row > 0,
            "at the blanks of the last frame, below the last row": (frame == T - 1) & ~last_row & is_blank,
            "at the blanks of the last row": last_row & is_blank, "at the blanks below the last row":
                ~last_row & is_blank, "in the last frame, below the last row": (frame == T - 1) & ~last_row,
            "at labels of the target, below the last row": np.isin(symbol, problem.targets) & ~last_row,
        }
    return {words: np.broadcast_to(inside, shape) for words, inside in found.items()}
