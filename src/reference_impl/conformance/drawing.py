"""A small problem as text: its scores, its alignments with their probabilities, what came back and what is right."""

from __future__ import annotations

import numpy as np

from .._softmax import log_softmax
from ..lattice import enumerate_paths
from ..topology import ctc_lattice, rnnt_lattice

__all__ = ["alignments", "drawn"]

#: So many alignments, frames and entries are written out.
_PATHS, _FRAMES, _ENTRIES = 8, 6, 24


def alignments(problem) -> list[tuple[str, float]]:
    """The alignments of one utterance, as symbols with ∅ for the blank, and their probabilities.

    Examples
    --------
    >>> from reference_impl.conformance.problem import Problem
    >>> alignments(Problem("", "", np.zeros((2, 2)), np.array([1])))
    [('∅ 1', 0.25), ('1 1', 0.25), ('1 ∅', 0.25)]
    """
    builder = {"ctc": ctc_lattice, "rnnt": rnnt_lattice}[problem.loss]
    graph = builder(problem.targets, len(problem.logits), problem.logits.shape[-1], blank=problem.blank)
    log_probs = log_softmax(problem.logits)
    found = []
    for path in enumerate_paths(graph):
        entries = [graph.arcs[i].entry for i in path if graph.arcs[i].entry is not None]
        mass = float(np.exp(sum(log_probs[entry] for entry in entries)))
        found.append((" ".join("∅" if entry[-1] == problem.blank else str(entry[-1]) for entry in entries), mass))
    return found


def drawn(problem, wrong, *, paths=True) -> str:
    """A problem and what is wrong with the answers to it, as lines of text; ``wrong`` maps fields to (given, right).

    ``right`` may be a word, such as "an error"; without ``paths`` there are none, as a problem that is none demands.
    """
    lines = [_sizes(problem), *_scores(problem)]
    if paths and not problem.is_batch and len(problem.logits) <= _FRAMES and len(problem.targets) <= 4:
        found = alignments(problem)
        lines += [f"  path  {symbols}   {mass:.6g}" for symbols, mass in found[:_PATHS]]
        if len(found) > _PATHS:
            lines.append(f"  and {len(found) - _PATHS} paths more")
        lines.append(f"  their sum Z = {sum(mass for _, mass in found):.6g}" if found else "  there is no path: Z = 0")
    for field, (given, right) in wrong.items():
        if isinstance(right, str):
            lines += [f"  {field}: {_flat(np.atleast_1d(given))}, expected {right}"]
        else:
            lines += _values(field, np.asarray(given) + 0.0, np.asarray(right) + 0.0)
    return "\n".join(lines)


def _sizes(problem):
    if problem.is_batch:
        said = [f"B = {len(problem.logits)}", f"logit_lengths {problem.logit_lengths.tolist()}",
                f"target_lengths {problem.target_lengths.tolist()}"]
    else:
        said = [f"T = {len(problem.logits)}", f"U = {len(problem.targets)}"]
    said += [f"V = {problem.logits.shape[-1]}", f"blank {problem.blank}", f"targets {problem.targets.tolist()}"]
    if problem.upstream is not None:
        said.append(f"upstream {problem.upstream.tolist()}")
    return ", ".join(said)


def _scores(problem):
    if not problem.logits.any():
        return ["  all scores 0"]
    if problem.is_batch or len(problem.logits) > _FRAMES or problem.logits.size > 4 * _ENTRIES:
        return []
    return [f"  frame {t}  {_row(frame)}" for t, frame in enumerate(problem.logits)]


def _row(frame):
    rows = frame if frame.ndim == 2 else [frame]
    return " | ".join(" ".join(f"{x:.4g}" for x in row) for row in rows)


def _values(field, given, right):
    if given.shape != right.shape:
        return [f"  {field}: shape {given.shape}, expected {right.shape}"]
    if given.ndim == 0:
        return [f"  {field}: {given:.9g}, expected {right:.9g}"]
    if given.size <= _ENTRIES:
        return [f"  {field}: {_flat(given)}", f"  expected {_flat(right)}"]
    with np.errstate(invalid="ignore"):
        apart = np.where(np.isnan(given) | np.isnan(right), np.inf, np.abs(given - right))
    place = tuple(int(i) for i in np.unravel_index(np.nan_to_num(apart, posinf=1e300).argmax(), apart.shape))
    return [f"  {field} at {list(place)}: {given[place]:.9g}, expected {right[place]:.9g}"]


def _flat(array):
    return " | ".join(" ".join(f"{x:.4g}" for x in row) for row in array.reshape(-1, array.shape[-1]))
