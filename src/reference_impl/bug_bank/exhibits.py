"""The museum of errors: which bugs are exhibits, in which room, and the confusions that no program computes.

An exhibit has one home, the chapter *A museum of errors*, with a label made of its key; other pages link there. What is
said about it stands with its bug, in the bank or, if it is a confusion, below. `conformance/museum.py` finds the
smallest input that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .. import ctc, rnnt
from .._softmax import log_softmax
from ..topology import rnnt_lattice
from .bank import Bug, entry_in, on_lattice
from .ctc_bugs import CTC_BUGS
from .rnnt_bugs import RNNT_BUGS

__all__ = ["CONFUSIONS", "EXHIBITS", "Exhibit"]

#: Beliefs, computed: in the form of a bug, but no candidate of the matrix, since nobody is known to have written them.
CONFUSIONS: list[Bug] = []


@dataclass(frozen=True)
class Exhibit:
    """An error in the museum.

    Parameters
    ----------
    key : str
        Its label in the chapter is ``museum-`` and this.
    room : str
    bug : Bug
        What computes the wrong answer, and what is said about it.
    case : str
        The case of the conformance kit from which the smallest input is looked for.
    shows : callable
        ``shows(problem, outputs)``: whether a wrong answer shows what is meant; any does by default.
    fields : tuple of str
        The outputs that are printed, if not all that are wrong.
    logits : nested list
        In place of those of the case.
    """

    key: str
    room: str
    bug: Bug
    case: str
    shows: Callable = lambda problem, outputs: True
    fields: tuple[str, ...] = ()
    logits: list | None = None


@entry_in(CONFUSIONS, "rnnt")("log_probs", "blanks in a row of their own",
                              "asked in pytorch/audio#3750",
                              "loss is the path sum, every small target",
                              claim="torchaudio-thread-3750",
                              believed="The logits have one row more than there are labels; it belongs to the blank.",
                              truth="Rows are prefixes: after $U$ labels there are $U + 1$ of them, and each row has a "
                                    "blank of its own ({ref}`why-u-plus-1`).")
def _(log_probs, targets, blank):
    """Every blank is read from the last row."""
    graph = rnnt_lattice(targets, len(log_probs), log_probs.shape[2], blank=blank)
    arcs = tuple(replace(arc, entry=(arc.entry[0], len(targets), blank))
                 if arc.entry is not None and arc.entry[2] == blank else arc for arc in graph.arcs)
    return on_lattice(replace(graph, arcs=arcs), log_probs, False)


@entry_in(CONFUSIONS, "rnnt")("log_probs", "paths spread evenly over the rows",
                              "constructed, from the pictures in k2-fsa/icefall#251",
                              "mass 1 in each frame or anti-diagonal",
                              claim="icefall-pictures",
                              believed="An untrained model has no preference, so a ridge in the picture of node "
                                       "gradients was learned.",
                              truth="All paths share two corners, and merely counting paths makes a ridge "
                                    "{eq}`eq-kernels-flat`.")
def _(log_probs, targets, blank):
    """In each frame every row has the same occupancy, as if equal scores meant equally many paths."""
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets, blank=blank)
    node = e_blank + np.pad(e_label, [(0, 0), (0, 1)])
    even = np.divide(1 / node.shape[1], node, out=np.zeros_like(node), where=node > 0)
    gradient = np.zeros(log_probs.shape)
    gradient[..., blank] -= even * e_blank
    gradient[:, np.arange(len(targets)), targets] -= even[:, :-1] * e_label
    return rnnt.loss(log_probs, targets, blank=blank), gradient


@entry_in(CONFUSIONS, "ctc")("logits", "a loss below 0",
                             "after optax.ctc_loss (optax#1771)",
                             "against the reference, one random case",
                             claim="optax-thread-1771",
                             believed="A negative logarithm of a probability cannot be negative.",
                             truth="In float32 the probabilities of a frame can add up to $c_t$, a little more than 1, "
                                   "and $-\\sum_t \\log c_t$ is the bound {eq}`eq-practice-all-targets`: clip the "
                                   "value at 0.")
def _(logits, targets, blank):
    """The log-softmax runs in float32."""
    below = logits.astype(np.float32) - logits.astype(np.float32).max(-1, keepdims=True)
    log_probs = (below - np.log(np.exp(below).sum(-1, keepdims=True))).astype(np.float64)
    return ctc.loss(log_probs, targets, blank=blank), ctc.grad_logits(logits, targets, blank=blank)


@entry_in(CONFUSIONS, "ctc")("logits", "mean that divides by labels",
                             "asked in pytorch#19838 and #69016",
                             "loss is the path sum, every small target",
                             claim="torch-thread-19838, torch-thread-69016",
                             believed="`mean` is the mean of what `none` returns.",
                             truth="It averages each loss divided by its number of labels "
                                   "{eq}`def-practice-label-mean`, so every utterance has a weight of its own.")
def _(logits, targets, blank):
    """Loss and gradient are divided by the number of labels."""
    U = max(len(targets), 1)
    return (ctc.loss(log_softmax(logits), targets, blank=blank) / U,
            ctc.grad_logits(logits, targets, blank=blank) / U)


def _loses_mass(problem, outputs):
    """With respect to log-probs, all entries of an RNN-T gradient add up to -(T + U)."""
    return abs(outputs["gradient"].sum() + len(problem.logits) + len(problem.targets)) > 0.1


def _below_zero(problem, outputs):
    return outputs["loss"] < 0


def _in_two_frames(problem, outputs):
    return len(problem.logits) > 1


def _in_a_batch(problem, outputs):
    return problem.is_batch


def _the_second_time(problem, outputs):
    return not np.array_equal(outputs["gradient"], outputs["second_gradient"])


#: Rooms, and in each its exhibits: key, name of the bug, case, and how the case is used.
_ROOMS = {
    "Right for another variable": [
        ("gradcheck", "softmax term for log-probs", "short/two-symbols", {}),
        ("two-formulas", "softmax term missing", "short/two-symbols", {}),
        ("negative-loss", "logits taken for log-probs", "labels/one-label", {"shows": _below_zero}),
        ("softmax-twice", "softmax applied twice", "short/two-symbols", {}),
        ("fastemit", "FastEmit", "short/two-symbols", {}),
    ],
    "The wrong lattice": [
        ("frames-enough", "skip between equal labels", "no alignment/equal-labels-one-frame-short", {}),
        ("index-minus-one", "index -1 read from the end", "labels/one-label", {"fields": ("loss",)}),
        ("one-frame", "first frame not pruned", "short/one-frame", {}),
        ("label-is-blank", "label overwrites blank", "bad input/label-is-the-blank-alone", {"shows": _loses_mass}),
        ("extra-row", "blanks in a row of their own", "labels/one-label", {}),
        ("ridge", "paths spread evenly over the rows", "labels/one-label", {"shows": _in_two_frames}),
    ],
    "The lost term": [
        ("own-log-prob", "the arc's own log-prob missing", "short/two-symbols", {}),
        ("minus-loglike", "-log Z missing", "short/two-symbols", {}),
        ("last-blank", "last blank forgotten", "short/two-symbols", {}),
        ("symbol-for-state", "mass of the symbol taken for that of the state", "short/two-symbols", {}),
        ("whole-strings", "prefix counted once for each completion", "short/two-symbols", {}),
        ("last-scale", "last rescaling factor forgotten", "short/two-symbols", {"shows": _in_two_frames}),
    ],
    "At the edges": [
        ("nan", "NaN where no alignment exists", "no alignment/too-few-frames", {}),
        ("loss-zero", "loss 0 where no alignment exists", "no alignment/too-few-frames", {}),
        ("floor", "-1e5 in place of -inf", "no alignment/label-masked", {}),
        ("mask", "divided by a probability of 0", "masks/on-the-way", {}),
        ("non-zeros", "length counted as the non-zeros", "blank/in-between", {}),
        ("wild-label", "out-of-range label reads a neighbour", "bad input/label-is-minus-1-alone", {}),
    ],
    "Numbers": [
        ("below-zero", "a loss below 0", "short/two-symbols",
         {"shows": _below_zero, "logits": [[0.0, 17.0], [0.0, 17.0]]}),
        ("log-of-one", "log-domain 0.0 read as no mass", "numerics/one-alignment-has-all", {}),
        ("mismatch", "utterance dropped on a mismatch", "numerics/certain-of-the-label-not-of-its-frame", {}),
        ("many-labels", "right loss, wrong gradient of many labels", "labels/twelve-labels", {}),
        ("wrapped-index", "flat index that wraps around", "labels/twelve-labels", {}),
    ],
    "Batches and backward": [
        ("upstream", "upstream gradient ignored", "upstream/of-each-its-own", {}),
        ("one-term", "upstream gradient on one term only", "upstream/of-each-its-own", {}),
        ("log-upstream", "log of the upstream gradient", "upstream/negative", {}),
        ("second-backward", "saved gradient scaled in place", "upstream/of-each-its-own",
         {"shows": _the_second_time, "fields": ("second_gradient",)}),
        ("reused", "returned gradient reused", "labels/one-label", {}),
        ("overwritten", "logits overwritten", "labels/one-label", {}),
        ("buffer", "padding of a reused buffer not cleared", "batch/finite-padding", {}),
        ("nan-padding", "padding leaks", "batch/nan-padding", {}),
    ],
    "Reductions": [
        ("mean", "mean that divides by labels", "labels/two-labels", {}),
        ("loss-by-frames", "loss divided by T, gradient not", "short/two-symbols", {}),
        ("gradient-by-frames", "gradient divided by T, loss not", "short/two-symbols", {}),
        ("clamp", "clamped after the upstream gradient", "upstream/of-each-its-own", {"shows": _in_a_batch}),
    ],
}
_BUGS = {bug.name: bug for bug in (*CTC_BUGS, *RNNT_BUGS, *CONFUSIONS)}
#: All exhibits, by key, in the order of the rooms.
EXHIBITS = {key: Exhibit(key, room, _BUGS[name], case, **how)
            for room, entries in _ROOMS.items() for key, name, case, how in entries}
