"""What each mistake of the families makes of an utterance: in either sweep, in both, in the loss or in the gradient.

A mistake in a recursion may be made in alpha, in beta or in both, and log Z may come from either of them; one in the
scores may be made for the loss, for the gradient or for both.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..._softmax import log_softmax
from ..problem import LOSSES, Problem
from . import ctc_posteriors, ctc_special, rnnt_posteriors
from .ctc_lattice import Lattice
from .ctc_recursions import LATTICES
from .fitted import parsed
from .inputs import SCORES, SPECIAL, UTTERANCES
from .results import GRADIENTS, LOSS_VALUES, right_parts
from .rnnt_grid import Grid
from .rnnt_recursions import GRIDS, WALKED
from .shared import GRADIENT, LOSS, PLACES, SWEEPS

__all__ = ["answers", "names"]

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
        lattices, losses, special = LATTICES, ctc_posteriors.LOSSES, SPECIAL | ctc_special.SPECIAL
        posteriors = (*ctc_posteriors.OCCUPANCIES, *ctc_posteriors.FORMULAS)
    else:
        lattices, losses, special = GRIDS, WALKED, SPECIAL
        posteriors = (*filter(_of_weights, lattices), *rnnt_posteriors.OCCUPANCIES, *rnnt_posteriors.NODES)
    found = [f"{where}{said}." for said in lattices for where in (*SWEEPS, LOSS)]
    found += [f"{LOSS}{said}." for said in (*losses, *LOSS_VALUES)]
    found += [f"{GRADIENT}{said}." for said in (*posteriors, *GRADIENTS)]
    found += [f"{where}{said}." for said in (*SCORES, *UTTERANCES, *special) for where in PLACES]
    return list(dict.fromkeys(found))


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
        if len(one.logits):
            yield from (_ctc if one.loss == "ctc" else _rnnt)(one, variable, wanted)
        yield from _scores(one, variable, wanted)
        yield from _fitted(one, variable, wanted)
        yield from _utterances(one, variable, wanted)
        yield from _special(one, wanted)
        if len(one.logits):
            yield from _made_of_the_right_one(one, variable, wanted)


class _Wanted:
    def __init__(self, only, field=""):
        self.only, self.field = only, field
        self.loss, self.gradient = field != "gradient", field != "loss"

    def __call__(self, *sentences):
        """Whether any of the sentences is looked at."""
        return self.only is None or any(sentence in self.only for sentence in sentences)

    def alone(self, sentence):
        """One of the sentences."""
        return _Wanted({sentence}, self.field)

    def of(self, mistakes, *places):
        """The mistakes, by what is said of them, of which a sentence is looked at."""
        for said, made in mistakes.items():
            if self(*(f"{where}{said}." for where in places)):
                yield said, made


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
    *sentences, alone = (f"{where}{said}." for where in (*SWEEPS, LOSS))
    (lattice, alpha, beta), (changed, wrong_alpha, wrong_beta) = right, wrong
    log_z = lattice.log_z(alpha)
    forward, backward = changed.log_z(wrong_alpha), changed.log_z_of_beta(wrong_beta)
    if wanted.loss and wanted(alone):
        yield alone, "loss", [-forward, -backward]
    made = [(lattice, wrong_alpha, beta, forward), (lattice, wrong_alpha, beta, log_z),
            (lattice, alpha, wrong_beta, log_z), (lattice, alpha, wrong_beta, backward),
            (changed, wrong_alpha, wrong_beta, forward)]
    for sentence, (used_lattice, a, b, z) in zip(sentences, made, strict=True):
        if wanted(sentence) and a.shape == b.shape:
            if wanted.loss:
                yield sentence, "loss", [-z]
            if wanted.gradient:
                yield sentence, "gradient", gradients_of(used_lattice, a, b, z)


def _ctc(one, variable, wanted):
    log_probs = log_softmax(one.logits)
    probs = np.exp(log_probs)

    def made(change=None):
        lattice = Lattice(log_probs, one.targets, one.blank)
        if change:
            change(lattice)
        return lattice, lattice.alpha(), lattice.beta()

    def gradients_of(lattice, a, b, z):
        return _gradients(variable, probs, _ctc_used(lattice, a, b, z) if z > -np.inf else np.zeros(log_probs.shape))

    right = made()
    for said, change in wanted.of(LATTICES, *SWEEPS, LOSS):
        with suppress(*_NONE):
            yield from _swept(said, right, made(change), gradients_of, wanted)
    lattice, alpha, beta = right
    swept = *right, lattice.log_z(alpha)
    if swept[-1] == -np.inf:
        return
    yield from _occupied(ctc_posteriors.OCCUPANCIES, swept, wanted, lambda used: _gradients(variable, probs, used))
    for said, loss in wanted.of(ctc_posteriors.LOSSES, LOSS) if wanted.loss else ():
        yield f"{LOSS}{said}.", "loss", [loss(*swept)]
    used, soft = _ctc_used(*swept), probs if variable == "logits" else 0 * probs
    for said, formula in wanted.of(ctc_posteriors.FORMULAS, GRADIENT) if wanted.gradient else ():
        yield f"{GRADIENT}{said}.", "gradient", [formula(soft, used, probs)]


def _ctc_used(lattice, alpha, beta, log_z):
    return ctc_posteriors.occupancy(lattice, alpha + beta - log_z)


def _occupied(mistakes, swept, wanted, gradients_of):
    for said, made in wanted.of(mistakes, GRADIENT) if wanted.gradient else ():
        with suppress(*_NONE):
            yield f"{GRADIENT}{said}.", "gradient", [each for used in (made if isinstance(made, list) else [made])
                                                     for each in gradients_of(used(*swept))]


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
    swept = *right, grid.log_z(alpha)
    possible = swept[-1] > -np.inf
    for said, changes in wanted.of(GRIDS, *SWEEPS, LOSS, GRADIENT):
        alone, found = f"{GRADIENT}{said}.", {}
        for change in changes if isinstance(changes, list) else [changes]:
            with suppress(*_NONE):
                wrong = made(change)
                for sentence, field, values in _swept(said, right, wrong, gradients_of, wanted):
                    found.setdefault((sentence, field), []).extend(values)
                if (_of_weights(said) and wanted(alone) and wanted.gradient and possible
                        and _other_weights(grid, wrong[0])):
                    found.setdefault((alone, "gradient"), []).extend(gradients_of(wrong[0], *swept[1:]))
        yield from ((sentence, field, values) for (sentence, field), values in found.items())
    for said, log_z_of in wanted.of(WALKED, LOSS) if wanted.loss else ():
        yield f"{LOSS}{said}.", "loss", [-log_z_of(grid)]
    if not possible:
        return
    node = np.exp(alpha + beta - swept[-1])[..., None]
    yield from _occupied(rnnt_posteriors.OCCUPANCIES, swept, wanted, lambda used: [-used] if variable == "log_probs"
                         else [probs * node - used, probs * used.sum(-1, keepdims=True) - used])
    if variable == "log_probs":
        return
    used = _rnnt_used(*swept)
    for said, of_node in wanted.of(rnnt_posteriors.NODES, GRADIENT) if wanted.gradient else ():
        yield f"{GRADIENT}{said}.", "gradient", [probs * of_node(*swept, used)[..., None] - used]


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
    for where in PLACES:
        if wanted(sentence := f"{where}{said}."):
            if wanted.loss and where != GRADIENT:
                yield sentence, "loss", [loss]
            if wanted.gradient and where != LOSS:
                yield sentence, "gradient", gradients


def _fitted(one, variable, wanted):
    """Mistakes with a number in them, of which only those are looked at that are asked for.

    They are sorted, as the first of equals is said: "In loss and gradient" comes before "In the loss alone".
    """
    for sentence in sorted(wanted.only or ()):
        where = next((where for where in PLACES if sentence.startswith(where)), "")
        said = sentence.removeprefix(where).removesuffix(".")
        sort, made = parsed(said) if where else ("", None)
        if sort == "scores":
            yield from _scores(one, variable, wanted.alone(sentence), {said: made})
        elif sort and len(one.logits):
            parts = right_parts(one, variable)
            if parts.loss < np.inf and getattr(wanted, sort):
                with suppress(*_NONE):
                    yield sentence, sort, [np.asarray(made(parts))]


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


def _scores(one, variable, wanted, mistakes=SCORES):
    probs = np.exp(log_softmax(one.logits))
    for said, made in wanted.of(mistakes, *PLACES):
        with suppress(*_NONE):
            log_probs = made(one.logits, one.blank)
            loss, used = _right(one.loss, log_probs, one.targets, one.blank, wanted)
            gradients = []
            for each in () if used is None else (probs, np.exp(log_probs)) if variable == "logits" else (probs,):
                gradients += _gradients(variable, each, used)
            yield from _parted(said, loss, gradients, wanted)


def _utterances(one, variable, wanted):
    probs = np.exp(log_softmax(one.logits))
    for said, made in wanted.of(UTTERANCES, *PLACES):
        with suppress(*_NONE):
            other, back = made(one)
            log_probs = log_softmax(other.logits)
            loss, used = _right(one.loss, log_probs, other.targets, other.blank, wanted)
            gradients = []
            if used is not None:
                gradients += [back(each, probs.shape) for each in _gradients(variable, np.exp(log_probs), used)]
                gradients += _gradients(variable, probs, back(used, probs.shape))
            yield from _parted(said, loss, gradients, wanted)


def _special(one, wanted):
    special = ctc_special.SPECIAL if one.loss == "ctc" else {}
    for said, (holds, loss) in wanted.of(SPECIAL | special, *PLACES):
        if holds(one):
            yield from _parted(said, loss, [np.zeros(one.logits.shape)], wanted)


def _made_of_the_right_one(one, variable, wanted):
    parts = right_parts(one, variable)
    if parts.loss == np.inf:
        return
    for mistakes, where, field in ((GRADIENTS, GRADIENT, "gradient"), (LOSS_VALUES, LOSS, "loss")):
        for said, made in wanted.of(mistakes, where) if getattr(wanted, field) else ():
            with suppress(*_NONE):
                value = made(parts)
                if value is not None:
                    yield f"{where}{said}.", field, [np.asarray(value)]
