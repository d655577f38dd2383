"""What whole families of mistakes make of an utterance: each mistake in either sweep, in both, in loss or gradient.

The families are in `ctc_families.py`, `rnnt_families.py` and `score_families.py`. A mistake in a recursion may be made
in alpha, in beta or in both, and log Z may come from either of them; one in the scores may be made for the loss, for
the gradient or for both. `causes.py` compares what comes out with what a loss has returned.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator
from dataclasses import replace

import numpy as np

from .._softmax import log_softmax
from . import ctc_families, ctc_posteriors, ctc_special, rnnt_families
from .conventions import LOSSES
from .problem import Problem
from .score_families import GRADIENTS, LOSS_VALUES, SCORES, SPECIAL, UTTERANCES, right_parts

__all__ = ["answers", "names"]

_SWEEPS = ("In alpha: ", "In alpha, with log Z from beta: ", "In beta: ", "In beta, with log Z from beta: ",
           "In alpha and beta: ")
_GRADIENT, _LOSS, _BOTH = "In the gradient: ", "In the loss alone: ", "In loss and gradient: "
#: Mistakes without an answer to a problem raise one of these.
_NONE = (ArithmeticError, LookupError, ValueError, TypeError)


def names(kind) -> list[str]:
    """All sentences, by the loss.

    Examples
    --------
    >>> len(names("ctc")) > 300 and "In the gradient: only the sign of the gradient is returned." in names("ctc")
    True
    """
    module = ctc_posteriors if kind == "ctc" else rnnt_families
    lattices = ctc_families.LATTICES if kind == "ctc" else module.GRIDS
    special = ctc_special.SPECIAL if kind == "ctc" else {}
    found = [f"{where}{said}." for said in lattices for where in (*_SWEEPS, _LOSS)]
    made = (getattr(module, name, ()) for name in ("OCCUPANCIES", "NODES", "FORMULAS"))
    found += [f"{_GRADIENT}{said}." for said in itertools.chain(*made, GRADIENTS)]
    found += [f"{_LOSS}{said}." for said in getattr(module, "LOSSES", ())]
    found += [f"{where}{said}." for said in (*SCORES, *UTTERANCES, *SPECIAL, *special)
              for where in (_BOTH, _GRADIENT, _LOSS)]
    return list(dict.fromkeys([*found, *(f"{_LOSS}{said}." for said in LOSS_VALUES)]))


def answers(one: Problem, variable, *, only: Container[str] | None = None) -> Iterator[tuple[str, str, list]]:
    """Sentences, each with a field, "loss" or "gradient", and the answers to which the mistake may lead.

    Parameters
    ----------
    one : Problem
        Of one utterance.
    variable : "logits" | "log_probs"
        What a gradient is with respect to.
    only : container of str, optional
        The sentences that are looked at.
    """
    wanted, one = _Wanted(only), replace(one, logits=np.asarray(one.logits, dtype=np.float64))
    with np.errstate(all="ignore"):
        yield from (_ctc if one.loss == "ctc" else _rnnt)(one, variable, wanted)
        yield from _scores(one, variable, wanted)
        yield from _utterances(one, variable, wanted)
        yield from _special(one, variable, wanted)
        yield from _made_of_the_right_one(one, variable, wanted)


class _Wanted:
    def __init__(self, only):
        self.only = only

    def __call__(self, *sentences):
        """Whether any of the sentences is looked at."""
        return self.only is None or any(sentence in self.only for sentence in sentences)


def _gradients(variable, probs, used):
    """What code makes of occupancies: for logits also with a mass of 1 in a frame, and with that of each added up."""
    if variable == "log_probs":
        return [-used]
    found = [probs * used.sum(-1, keepdims=True) - used]
    if used.ndim == 2 and used.any():
        found.append(probs - used)
        total = used.sum(-1, keepdims=True)
        found.append(probs - used / np.where(total > 0, total, 1.0))
    return found


def _swept(said, right, wrong, used_of, variable, wanted):
    """A mistake in one of the sweeps, or in both: ``right`` and ``wrong`` are (lattice, alpha, beta)."""
    sentences = [f"{where}{said}." for where in (*_SWEEPS, _LOSS)]
    (lattice, alpha, beta), (changed, wrong_alpha, wrong_beta) = right, wrong
    log_z = lattice.log_z(alpha)
    same = wrong_alpha.shape == alpha.shape
    forward, backward = changed.log_z(wrong_alpha), changed.log_z_of_beta(wrong_beta)
    if wanted(sentences[5]):
        yield sentences[5], "loss", [-forward]
    made = [(sentences[4], changed, wrong_alpha, wrong_beta, forward)]
    if same:
        made = [(sentences[0], lattice, wrong_alpha, beta, forward), (sentences[1], lattice, wrong_alpha, beta, log_z),
                (sentences[2], lattice, alpha, wrong_beta, log_z),
                (sentences[3], lattice, alpha, wrong_beta, backward), *made]
    for sentence, used_lattice, a, b, z in made:
        if wanted(sentence):
            yield sentence, "loss", [-z]
            used = used_of(used_lattice, a, b, z) if z > -np.inf else np.zeros(lattice.log_probs.shape)
            yield sentence, "gradient", _gradients(variable, np.exp(lattice.log_probs), used)


def _ctc(one, variable, wanted):
    log_probs = log_softmax(one.logits)

    def made(change=None):
        lattice = ctc_families.Lattice(log_probs, one.targets, one.blank)
        if change:
            change(lattice)
        return lattice, lattice.alpha(), lattice.beta()

    if not len(one.logits):
        return
    right = made()
    for said, change in ctc_families.LATTICES.items():
        if wanted(*(f"{where}{said}." for where in (*_SWEEPS, _LOSS))):
            try:
                yield from _swept(said, right, made(change), _ctc_used, variable, wanted)
            except _NONE:
                continue
    lattice, alpha, beta = right
    log_z = lattice.log_z(alpha)
    yield from _occupied(ctc_posteriors.OCCUPANCIES, (lattice, alpha, beta, log_z), variable, wanted)
    if log_z == -np.inf:
        return
    for said, loss in ctc_posteriors.LOSSES.items():
        if wanted(f"{_LOSS}{said}."):
            yield f"{_LOSS}{said}.", "loss", [loss(lattice, alpha, beta, log_z)]
    used, probs = _ctc_used(lattice, alpha, beta, log_z), np.exp(log_probs)
    soft = probs if variable == "logits" else 0 * probs
    for said, formula in ctc_posteriors.FORMULAS.items():
        if wanted(f"{_GRADIENT}{said}."):
            yield f"{_GRADIENT}{said}.", "gradient", [formula(soft, used, probs)]


def _ctc_used(lattice, alpha, beta, log_z):
    return ctc_posteriors.occupancy(lattice, alpha + beta - log_z)


def _occupied(families, swept, variable, wanted):
    lattice, log_z = swept[0], swept[-1]
    if log_z == -np.inf:
        return
    for said, used in families.items():
        sentence = f"{_GRADIENT}{said}."
        if wanted(sentence):
            try:
                yield sentence, "gradient", _gradients(variable, np.exp(lattice.log_probs), used(*swept))
            except _NONE:
                continue


def _rnnt(one, variable, wanted):
    log_probs = log_softmax(one.logits)

    def made(change=None):
        grid = rnnt_families.Grid(log_probs, one.targets, one.blank)
        if change:
            change(grid)
        return grid, grid.alpha(), grid.beta()

    right = made()
    for said, change in rnnt_families.GRIDS.items():
        if wanted(*(f"{where}{said}." for where in (*_SWEEPS, _LOSS))):
            try:
                yield from _swept(said, right, made(change), _rnnt_used, variable, wanted)
            except _NONE:
                continue
    grid, alpha, beta = right
    swept = grid, alpha, beta, grid.log_z(alpha)
    yield from _occupied(rnnt_families.OCCUPANCIES, swept, variable, wanted)
    if variable == "log_probs" or swept[-1] == -np.inf:
        return
    used = _rnnt_used(*swept)
    for said, node in rnnt_families.NODES.items():
        if wanted(f"{_GRADIENT}{said}."):
            yield f"{_GRADIENT}{said}.", "gradient", [np.exp(log_probs) * node(*swept, used)[..., None] - used]


def _rnnt_used(grid, alpha, beta, log_z):
    return rnnt_families.collected(grid, *rnnt_families.arcs(grid, alpha, beta, log_z))


def _parted(said, loss, gradients, wanted):
    """A mistake made for loss and gradient, for the gradient, or for the loss."""
    both, gradient, alone = (f"{where}{said}." for where in (_BOTH, _GRADIENT, _LOSS))
    if wanted(both):
        yield both, "loss", [loss]
        yield both, "gradient", gradients
    if wanted(gradient):
        yield gradient, "gradient", gradients
    if wanted(alone):
        yield alone, "loss", [loss]


def _right(kind, log_probs, targets, blank):
    """Loss and occupancies; of CTC by the lattice of the families, which is faster than the reference."""
    if kind == "rnnt" or not len(log_probs):
        module = LOSSES[kind]
        return module.loss(log_probs, targets, blank=blank), module.occupancy(log_probs, targets, blank=blank)
    lattice = ctc_families.Lattice(log_probs, targets, blank)
    alpha, beta = lattice.alpha(), lattice.beta()
    log_z = lattice.log_z(alpha)
    used = np.zeros(lattice.log_probs.shape) if log_z == -np.inf else _ctc_used(lattice, alpha, beta, log_z)
    return -log_z, used


def _scores(one, variable, wanted):
    probs = np.exp(log_softmax(one.logits))
    for said, made in SCORES.items():
        if wanted(*(f"{where}{said}." for where in (_BOTH, _GRADIENT, _LOSS))):
            try:
                log_probs = made(one.logits, one.blank)
                loss, used = _right(one.loss, log_probs, one.targets, one.blank)
                gradients = _gradients(variable, probs, used)
                if variable == "logits":
                    gradients += _gradients(variable, np.exp(log_probs), used)
                yield from _parted(said, loss, gradients, wanted)
            except _NONE:
                continue


def _utterances(one, variable, wanted):
    for said, made in UTTERANCES.items():
        if wanted(*(f"{where}{said}." for where in (_BOTH, _GRADIENT, _LOSS))):
            try:
                other, back = made(one)
                log_probs = log_softmax(other.logits)
                loss, used = _right(one.loss, log_probs, other.targets, other.blank)
                gradients = [back(each, one.logits.shape) for each in _gradients(variable, np.exp(log_probs), used)]
                gradients += _gradients(variable, np.exp(log_softmax(one.logits)), back(used, one.logits.shape))
                yield from _parted(said, loss, gradients, wanted)
            except _NONE:
                continue


def _special(one, variable, wanted):
    special = ctc_special.SPECIAL if one.loss == "ctc" else {}
    for said, (holds, loss) in (SPECIAL | special).items():
        if wanted(*(f"{where}{said}." for where in (_BOTH, _GRADIENT, _LOSS))) and holds(one):
            yield from _parted(said, loss, [np.zeros(one.logits.shape)], wanted)


def _made_of_the_right_one(one, variable, wanted):
    if not len(one.logits):
        return
    parts = right_parts(one, variable)
    if parts.loss == np.inf:
        return
    for said, made in GRADIENTS.items():
        if wanted(f"{_GRADIENT}{said}."):
            try:
                gradient = made(parts)
            except _NONE:
                continue
            if gradient is not None:
                yield f"{_GRADIENT}{said}.", "gradient", [np.asarray(gradient)]
    for said, made in LOSS_VALUES.items():
        if wanted(f"{_LOSS}{said}."):
            try:
                yield f"{_LOSS}{said}.", "loss", [made(parts)]
            except _NONE:
                continue
