"""What each mistake of the families makes of an utterance: in either sweep, in both, in the loss or in the gradient.

A mistake in a recursion may be made in alpha, in beta or in both, and log Z may come from either of them; one in the
scores may be made for the loss, for the gradient or for both.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

import numpy as np

from ..._softmax import log_softmax
from ..conventions import LOSSES
from ..problem import Problem
from . import ctc_posteriors, ctc_special, rnnt_posteriors
from .ctc_lattice import Lattice
from .ctc_recursions import LATTICES
from .fitted import parsed
from .inputs import SCORES, SPECIAL, UTTERANCES
from .results import GRADIENTS, LOSS_VALUES, right_parts
from .rnnt_grid import Grid
from .rnnt_recursions import GRIDS, WALKED

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
    if kind == "ctc":
        lattices, losses, special = LATTICES, ctc_posteriors.LOSSES, ctc_special.SPECIAL
        posteriors = (*ctc_posteriors.OCCUPANCIES, *ctc_posteriors.FORMULAS)
    else:
        lattices, losses, special = GRIDS, WALKED, {}
        posteriors = (*filter(_of_weights, lattices), *rnnt_posteriors.OCCUPANCIES, *rnnt_posteriors.NODES)
    found = [f"{where}{said}." for said in lattices for where in (*_SWEEPS, _LOSS)]
    found += [f"{_LOSS}{said}." for said in losses]
    found += [f"{_GRADIENT}{said}." for said in (*posteriors, *GRADIENTS)]
    found += [f"{where}{said}." for said in (*SCORES, *UTTERANCES, *SPECIAL, *special)
              for where in (_BOTH, _GRADIENT, _LOSS)]
    return list(dict.fromkeys([*found, *(f"{_LOSS}{said}." for said in LOSS_VALUES)]))


def answers(one: Problem, variable, *, only: Container[str] | None = None,
            field: str = "") -> Iterator[tuple[str, str, list]]:
    """Sentences, each with a field, "loss" or "gradient", and the answers to which the mistake may lead.

    Parameters
    ----------
    one : Problem
        Of one utterance.
    variable : "logits" | "log_probs"
        What a gradient is with respect to.
    only : container of str, optional
        The sentences that are looked at.
    field : "loss" | "gradient", optional
        The field that is looked at; both if left out.
    """
    wanted, one = _Wanted(only, field), replace(one, logits=np.asarray(one.logits, dtype=np.float64))
    with np.errstate(all="ignore"):
        yield from (_ctc if one.loss == "ctc" else _rnnt)(one, variable, wanted)
        yield from _scores(one, variable, wanted)
        yield from _fitted(one, variable, wanted)
        yield from _utterances(one, variable, wanted)
        yield from _special(one, variable, wanted)
        yield from _made_of_the_right_one(one, variable, wanted)


class _Wanted:
    def __init__(self, only, field=""):
        self.only = only
        self.loss, self.gradient = field != "gradient", field != "loss"

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


def _swept(said, right, wrong, gradients_of, wanted):
    """A mistake in one of the sweeps, or in both: ``right`` and ``wrong`` are (lattice, alpha, beta)."""
    sentences = [f"{where}{said}." for where in (*_SWEEPS, _LOSS)]
    (lattice, alpha, beta), (changed, wrong_alpha, wrong_beta) = right, wrong
    log_z = lattice.log_z(alpha)
    same = wrong_alpha.shape == alpha.shape
    forward, backward = changed.log_z(wrong_alpha), changed.log_z_of_beta(wrong_beta)
    if wanted.loss and wanted(sentences[5]):
        yield sentences[5], "loss", [-forward, -backward]
    made = [(sentences[4], changed, wrong_alpha, wrong_beta, forward)]
    if same:
        made = [(sentences[0], lattice, wrong_alpha, beta, forward), (sentences[1], lattice, wrong_alpha, beta, log_z),
                (sentences[2], lattice, alpha, wrong_beta, log_z),
                (sentences[3], lattice, alpha, wrong_beta, backward), *made]
    for sentence, used_lattice, a, b, z in made:
        if wanted(sentence):
            if wanted.loss:
                yield sentence, "loss", [-z]
            if wanted.gradient:
                yield sentence, "gradient", gradients_of(used_lattice, a, b, z)


def _ctc(one, variable, wanted):
    log_probs = log_softmax(one.logits)

    def made(change=None):
        lattice = Lattice(log_probs, one.targets, one.blank)
        if change:
            change(lattice)
        return lattice, lattice.alpha(), lattice.beta()

    if not len(one.logits):
        return
    def gradients_of(lattice, a, b, z):
        used = _ctc_used(lattice, a, b, z) if z > -np.inf else np.zeros(log_probs.shape)
        return _gradients(variable, np.exp(log_probs), used)

    right = made()
    for said, change in LATTICES.items():
        if wanted(*(f"{where}{said}." for where in (*_SWEEPS, _LOSS))):
            try:
                yield from _swept(said, right, made(change), gradients_of, wanted)
            except _NONE:
                continue
    lattice, alpha, beta = right
    log_z = lattice.log_z(alpha)
    yield from _occupied(ctc_posteriors.OCCUPANCIES, (lattice, alpha, beta, log_z), wanted, lambda used: _gradients(
        variable, np.exp(lattice.log_probs), used))
    if log_z == -np.inf:
        return
    for said, loss in ctc_posteriors.LOSSES.items() if wanted.loss else ():
        if wanted(f"{_LOSS}{said}."):
            yield f"{_LOSS}{said}.", "loss", [loss(lattice, alpha, beta, log_z)]
    used, probs = _ctc_used(lattice, alpha, beta, log_z), np.exp(log_probs)
    soft = probs if variable == "logits" else 0 * probs
    for said, formula in ctc_posteriors.FORMULAS.items() if wanted.gradient else ():
        if wanted(f"{_GRADIENT}{said}."):
            yield f"{_GRADIENT}{said}.", "gradient", [formula(soft, used, probs)]


def _ctc_used(lattice, alpha, beta, log_z):
    return ctc_posteriors.occupancy(lattice, alpha + beta - log_z)


def _occupied(families, swept, wanted, gradients_of):
    if swept[-1] == -np.inf or not wanted.gradient:
        return
    for said, made in families.items():
        sentence = f"{_GRADIENT}{said}."
        if wanted(sentence):
            try:
                yield sentence, "gradient", [each for used in (made if isinstance(made, list) else [made])
                                             for each in gradients_of(used(*swept))]
            except _NONE:
                continue


def _rnnt(one, variable, wanted):
    log_probs = log_softmax(one.logits)
    probs = np.exp(log_probs)

    def made(change=None):
        grid = Grid(log_probs, one.targets, one.blank)
        if change:
            change(grid)
        return grid, grid.alpha(), grid.beta()

    def gradients_of(grid, a, b, z):
        """With the posteriors where their arcs are, and where what they read is; the node's from either formula."""
        if z == -np.inf:
            return [np.zeros(log_probs.shape)]
        posteriors = rnnt_posteriors.arcs(grid, a, b, z)
        used = [rnnt_posteriors.collected(grid, *posteriors)]
        if grid.blank_at or grid.label_at:
            used.append(rnnt_posteriors.entered(grid, *posteriors))
        if variable == "log_probs":
            return [-each for each in used]
        nodes = [sum(posteriors), np.exp(a + b - z)]
        return [probs * node[..., None] - each for each in used for node in (each.sum(-1), *nodes)]

    right = made()
    grid, alpha, beta = right
    log_z = grid.log_z(alpha)
    for said, changes in GRIDS.items():
        alone = f"{_GRADIENT}{said}."
        if wanted(alone, *(f"{where}{said}." for where in (*_SWEEPS, _LOSS))):
            found = {}
            for change in changes if isinstance(changes, list) else [changes]:
                try:
                    wrong = made(change)
                    for sentence, field, values in _swept(said, right, wrong, gradients_of, wanted):
                        found.setdefault((sentence, field), []).extend(values)
                    if (_of_weights(said) and wanted(alone) and wanted.gradient and log_z > -np.inf
                            and _other_weights(grid, wrong[0])):
                        found.setdefault((alone, "gradient"), []).extend(gradients_of(wrong[0], alpha, beta, log_z))
                except _NONE:
                    continue
            yield from ((sentence, field, values) for (sentence, field), values in found.items())
    if wanted.loss:
        for said, log_z_of in WALKED.items():
            if wanted(f"{_LOSS}{said}."):
                yield f"{_LOSS}{said}.", "loss", [-log_z_of(grid)]
    swept = grid, alpha, beta, log_z
    node = np.exp(alpha + beta - log_z)[..., None]
    yield from _occupied(rnnt_posteriors.OCCUPANCIES, swept, wanted, lambda used: [-used] if variable == "log_probs"
                         else [probs * node - used, probs * used.sum(-1, keepdims=True) - used])
    if variable == "log_probs" or log_z == -np.inf or not wanted.gradient:
        return
    used = _rnnt_used(*swept)
    for said, of_node in rnnt_posteriors.NODES.items():
        if wanted(f"{_GRADIENT}{said}."):
            yield f"{_GRADIENT}{said}.", "gradient", [probs * of_node(*swept, used)[..., None] - used]


def _of_weights(said):
    """Whether a mistake may be made in the arcs' weights for the posteriors alone, and has no other name there."""
    return not said.startswith(("no ", "each ")) and "cost nothing" not in said


def _other_weights(right, wrong):
    return wrong.blanks is not right.blanks and any(
        not np.array_equal(getattr(right, name), getattr(wrong, name)) for name in ("blanks", "labels"))


def _rnnt_used(grid, alpha, beta, log_z):
    return rnnt_posteriors.collected(grid, *rnnt_posteriors.arcs(grid, alpha, beta, log_z))


def _parted(said, loss, gradients, wanted):
    """A mistake made for loss and gradient, for the gradient, or for the loss."""
    both, gradient, alone = (f"{where}{said}." for where in (_BOTH, _GRADIENT, _LOSS))
    if wanted(both):
        if wanted.loss:
            yield both, "loss", [loss]
        if wanted.gradient:
            yield both, "gradient", gradients
    if wanted(gradient) and wanted.gradient:
        yield gradient, "gradient", gradients
    if wanted(alone) and wanted.loss:
        yield alone, "loss", [loss]


def _fitted(one, variable, wanted):
    """Mistakes with a number in them, of which only those are looked at that are asked for."""
    for sentence in wanted.only or ():
        where = next((where for where in (_BOTH, _GRADIENT, _LOSS) if sentence.startswith(where)), "")
        sort, made = parsed(sentence.removeprefix(where).removesuffix(".")) if where else ("", None)
        if sort == "scores":
            yield from _scores(one, variable, wanted, {sentence.removeprefix(where).removesuffix("."): made})
        elif sort and len(one.logits):
            parts = right_parts(one, variable)
            if parts.loss < np.inf and getattr(wanted, sort):
                try:
                    yield sentence, sort, [np.asarray(made(parts))]
                except _NONE:
                    continue


def _right(kind, log_probs, targets, blank, wanted):
    """Loss and occupancies, None if not wanted; of CTC by the lattice of the families: faster than the reference."""
    if kind == "rnnt" or not len(log_probs):
        module = LOSSES[kind]
        return (module.loss(log_probs, targets, blank=blank),
                module.occupancy(log_probs, targets, blank=blank) if wanted.gradient else None)
    lattice = Lattice(log_probs, targets, blank)
    alpha = lattice.alpha()
    log_z = lattice.log_z(alpha)
    if not wanted.gradient:
        return -log_z, None
    return -log_z, (np.zeros(lattice.log_probs.shape) if log_z == -np.inf
                    else _ctc_used(lattice, alpha, lattice.beta(), log_z))


def _scores(one, variable, wanted, families=SCORES):
    probs = np.exp(log_softmax(one.logits))
    for said, made in families.items():
        if wanted(*(f"{where}{said}." for where in (_BOTH, _GRADIENT, _LOSS))):
            try:
                log_probs = made(one.logits, one.blank)
                loss, used = _right(one.loss, log_probs, one.targets, one.blank, wanted)
                if used is None:
                    yield from _parted(said, loss, [], wanted)
                    continue
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
                loss, used = _right(one.loss, log_probs, other.targets, other.blank, wanted)
                if used is None:
                    yield from _parted(said, loss, [], wanted)
                    continue
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
    for said, made in GRADIENTS.items() if wanted.gradient else ():
        if wanted(f"{_GRADIENT}{said}."):
            try:
                gradient = made(parts)
            except _NONE:
                continue
            if gradient is not None:
                yield f"{_GRADIENT}{said}.", "gradient", [np.asarray(gradient)]
    for said, made in LOSS_VALUES.items() if wanted.loss else ():
        if wanted(f"{_LOSS}{said}."):
            try:
                yield f"{_LOSS}{said}.", "loss", [made(parts)]
            except _NONE:
                continue
