"""Families of mistakes in CTC's recursions: functions that change a lattice, by the sentence that names the mistake.

Which sweep makes it, and where log Z comes from, is up to `applied.py`; what is made of alpha and beta is in
`ctc_posteriors.py`.
"""

from __future__ import annotations

import itertools

import numpy as np

from .shared import computed, fixed

__all__ = ["LATTICES"]


def _skips(may):
    """``may(z, s, blank)`` says whether a skip leads into state s."""
    return lambda lattice: lattice.skips(lambda s: bool(may(lattice.z, s, lattice.blank)))


def _without(diagonal, into):
    """Some of the moves along a diagonal are missing: those into a state for which ``into`` is true of (is a blank)."""
    return _missing(diagonal, lambda s, c: into(c.z[s] == c.blank))


def _missing(up, into):
    """The arcs that lead up by so many states are missing: ``into(s, lattice)`` says into which states."""
    def change(lattice):
        for s in range(up, lattice.S):
            if into(s, lattice):
                lattice.moves[s - up, s] = False
    return change


def _arcs(up, weigh):
    """Arcs have another log weight: ``weigh(c)`` is (T, S, S), or of a shape that broadcasts."""
    def change(lattice):
        lattice.arcs = np.where(np.eye(lattice.S, k=up, dtype=bool), weigh(lattice), lattice.arcs)
    return change


def _arcs_read(up, by):
    """For the arc from s - up, one from s - by with the emission of s, which may be there already: twice, then."""
    def change(lattice):
        entered = np.eye(lattice.S, k=up, dtype=bool) & lattice.moves
        weights = 1 * (lattice.moves & ~entered)
        for s in np.flatnonzero(entered.any(axis=0)):
            if 0 <= s - by < lattice.S:
                weights[s - by, s] += 1
        lattice.moves = weights > 0
        lattice.arcs = lattice.arcs + np.log(np.maximum(weights, 1))
    return change


def _at_step(up, place):
    """Arcs into one of the frames after the first are missing: ``place`` indexes these frames."""
    def change(lattice):
        if len(lattice.emitted) > 1:
            gone = np.zeros((len(lattice.emitted), lattice.S, lattice.S), bool)
            gone[1:][place] = np.eye(lattice.S, k=up, dtype=bool)
            lattice.arcs = np.where(gone, -np.inf, lattice.arcs)
    return change


def _updated(lags, carried):
    return fixed(lags=dict.fromkeys(lags, 0), carried=carried)


def _visits(inside, *, start=False):
    """Only some states are visited: ``inside(t, s, T, S)``; in the row with which a sweep starts if ``start``."""
    def change(lattice):
        T, S = lattice.emitted.shape
        lattice.visits_start = start
        lattice.visited = np.array([[bool(inside(t, s, T, S)) for s in range(S)] for t in range(T)])
    return change


def _respelt(made):
    """Other states: ``made(z, blank)``."""
    return lambda lattice: lattice.states(made(lattice.z.tolist(), lattice.blank))


class Sum:
    """A sum in the log domain that goes wrong: ``add(values)`` along the first axis, of what is not impossible."""

    def __init__(self, add):
        self._add = add

    def reduce(self, values, axis=0):
        return self._add(np.moveaxis(np.asarray(values, dtype=np.float64), axis, 0))


def _in_pairs(add):
    """Each sum is one of pairs, ``add(larger, difference)``, one after another; what is impossible adds nothing."""
    def fold(values):
        found = np.full(values.shape[1:], -np.inf)
        for each in values:
            larger, smaller = np.maximum(found, each), np.minimum(found, each)
            found = np.where(smaller > -np.inf, add(larger, larger - np.where(smaller > -np.inf, smaller, 0.0)), larger)
        return found
    return Sum(fold)


def _of_largest(number):
    return Sum(lambda values: np.logaddexp.reduce(np.sort(values, axis=0)[-number:], axis=0))


def _finite(values):
    return np.where(np.isfinite(values), values, 0.0)


def _half(row):
    return np.float64(np.float16(row))


def _wraps_once(lattice):
    lattice.moves[-1, 0] = True
    if lattice.S == 1:  # the only state flows into itself once more
        lattice.arcs = lattice.arcs + np.log(2)


def _wraps(lattice):
    _wraps_once(lattice)
    _skip_wraps(lattice)


def _only_state_twice(lattice):
    if lattice.S == 1:
        lattice.add_last = Sum(lambda values: np.log(2) + np.logaddexp.reduce(values, axis=0))


def _skip_wraps(lattice):
    if lattice.S > 2:
        lattice.moves[-1, 1] = lattice.z[1] != lattice.z[-1]


def _boundary(name, inside):
    def change(lattice):
        setattr(lattice, name, np.array([bool(inside(s, lattice.S)) for s in range(lattice.S)]))
    return change


def _emission(made):
    return lambda lattice: lattice.emits(made(lattice, lattice.emitted.copy()))


def _at(frame, value):
    """The emission of a frame becomes ``value`` times what it is: 0 leaves it out, 2 has it twice."""
    def made(lattice, emitted):
        emitted[frame] = value * emitted[frame] if value else 0.0
        return emitted
    return _emission(made)


def _leaves(lattice):
    lattice.arcs = np.broadcast_to(lattice.emitted[:, :, None], lattice.arcs.shape)


def _leaves_before(lattice):
    before = np.concatenate([lattice.emitted[:1], lattice.emitted[:-1]])
    lattice.arcs = np.broadcast_to(before[:, :, None], lattice.arcs.shape)


def _of_frames(indices):
    """The emissions of other frames: ``indices(t, T)``."""
    return lambda c, emitted: emitted[indices(np.arange(len(emitted)), len(emitted)) % len(emitted)]


def _of_states(indices):
    """The emissions of other states: ``indices(s, S)``."""
    return lambda c, emitted: c.log_probs[:, c.z[indices(np.arange(c.S), c.S) % c.S]]


def _of_symbols(made):
    """The emissions of other symbols: ``made(z, is_blank, c)``."""
    return lambda c, emitted: c.log_probs[:, made(c.z, c.z == c.blank, c) % c.log_probs.shape[1]]


def _only_moves(made):
    """Moves, and no beginnings, emit something else."""
    def change(lattice):
        right = lattice.emitted
        lattice.emits(made(lattice, right.copy()))
        arcs = lattice.arcs
        lattice.emits(right)
        lattice.arcs = arcs
    return change


#: What a state may emit instead.
_TAKEN = {
    "the emission of the frame before (t - 1 for t)": _of_frames(lambda t, T: np.maximum(t - 1, 0)),
    "the emission of the frame after (t + 1 for t)": _of_frames(lambda t, T: np.minimum(t + 1, T - 1)),
    "the emission of the frame before (t - 1 for t), and index -1 wraps around to the last one":
        _of_frames(lambda t, T: t - 1),
    "the emission of the frame after (t + 1 for t), and wraps around to the first one": _of_frames(lambda t, T: t + 1),
    "the emission of frame 0 in every frame": _of_frames(lambda t, T: 0 * t),
    "the emission of the last frame in every frame": _of_frames(lambda t, T: 0 * t - 1),
    "the emission of the frame from the other end (T - 1 - t for t)": _of_frames(lambda t, T: T - 1 - t),
    "the emission of the state before (s - 1 for s)": _of_states(lambda s, S: np.maximum(s - 1, 0)),
    "the emission of the state after (s + 1 for s)": _of_states(lambda s, S: np.minimum(s + 1, S - 1)),
    "the emission of the state before (s - 1 for s), and index -1 wraps around to the last state":
        _of_states(lambda s, S: s - 1),
    "the emission of the state after (s + 1 for s), and wraps around to the first one": _of_states(lambda s, S: s + 1),
    "the emission of the label before (s - 2 for s)": _of_states(lambda s, S: np.where(s < 2, s, s - 2)),
    "the emission of the next label (s + 2 for s)": _of_states(lambda s, S: np.where(s > S - 3, s, s + 2)),
    "the emission of the label before (s - 2 for s), and wraps around": _of_states(lambda s, S: s - 2),
    "the emission of the state from the other end (S - 1 - s for s)": _of_states(lambda s, S: S - 1 - s),
    "the emission of the first label for every label": _of_states(lambda s, S: np.where(s % 2, 1, s)),
    "the emission of the last label for every label": _of_states(lambda s, S: np.where(s % 2, S - 2, s)),
    "the emission of label + 1 for that of a label": _of_symbols(lambda z, is_blank, c: np.where(is_blank, z, z + 1)),
    "the emission of label - 1 for that of a label": _of_symbols(lambda z, is_blank, c: np.where(is_blank, z, z - 1)),
    "the emission of a label's place in the target for that of the label": _of_symbols(
        lambda z, is_blank, c: np.where(is_blank, z, np.arange(c.S) // 2)),
    "the emission of symbol s for that of state s": _of_symbols(lambda z, is_blank, c: np.arange(c.S)),
    "the emission of the symbol after blank for that of the blank": _of_symbols(
        lambda z, is_blank, c: np.where(is_blank, z + 1, z)),
    "the emission of the label before a blank for that of the blank": _of_states(
        lambda s, S: np.where((s % 2 == 0) & (s > 0), s - 1, s)),
    "the emission of the blank for every state": _of_symbols(lambda z, is_blank, c: np.full(c.S, c.blank)),
    "the emission of symbol 0 for that of the blank (a hard-coded blank 0)": _of_symbols(
        lambda z, is_blank, c: np.where(is_blank, 0, z)),
    "the emission of the last symbol for that of the blank (a hard-coded blank V - 1)": _of_symbols(
        lambda z, is_blank, c: np.where(is_blank, -1, z)),
    "each emission twice": lambda c, emitted: 2 * emitted,
    "no emission: it counts paths": lambda c, emitted: 0 * np.nan_to_num(emitted),
    "no emission of blanks: their probability is missing": lambda c, emitted: np.where(c.z == c.blank, 0.0, emitted),
    "no emission of labels: their probability is missing": lambda c, emitted: np.where(c.z == c.blank, emitted, 0.0),
}


def _starts(lattice, values):
    found = np.full(lattice.S, -np.inf)
    found[:2] = values
    return found


def _first_cells(values):
    """The first row of alpha: ``values(c)`` are those of its first two states."""
    return computed(start=lambda c: np.append(np.broadcast_to(values(c), 2)[:c.S], np.full(max(c.S - 2, 0), -np.inf)))


def _last_cells(values):
    """The last row of beta: ``values(c)`` are those of its last two states."""
    def change(lattice):
        cells = np.broadcast_to(values(lattice), 2)[-min(2, lattice.S):]
        lattice.last = np.append(np.full(max(lattice.S - 2, 0), -np.inf), cells)
    return change


def _states(**blanks):
    return lambda lattice: lattice.spell(lattice.targets, **blanks)


#: The three arcs, by how many states they lead up.
_ARCS = {0: "the arc that stays in a state (s)", 1: "the arc from the state before (s - 1)",
         2: "the skip from the label before (s - 2)"}
#: Some of the states that an arc enters.
_INTO = {
    "the first blank (s = 0)": lambda s, c: s == 0, "the first label (s = 1)": lambda s, c: s == 1,
    "the last label (s = S - 2)": lambda s, c: s == c.S - 2, "the last blank (s = S - 1)": lambda s, c: s == c.S - 1,
    "a label equal to the one before it": lambda s, c: s > 2 and s % 2 and c.z[s] == c.z[s - 2],
}


def _own(c):
    return c.emitted[:, None, :]


def _frame(c, by):
    return c.emitted[np.clip(np.arange(len(c.emitted)) + by, 0, len(c.emitted) - 1)]


#: What may happen to an arc, and what makes it so.
_OF_ARCS = {
    **{f"{_ARCS[up]} is missing into {what}": _missing(up, into) for (what, into), up in itertools.product(
        _INTO.items(), (0, 1)) if not (up and "s = 0" in what)},
    **{f"{_ARCS[up]} is missing in {what}": _at_step(up, place) for (what, place), up in itertools.product(
        {"the first step (into frame 1)": 0, "the last step (into frame T - 1)": -1}.items(), _ARCS)},
    **{f"{arc} {what}": _arcs(up, weigh) for up, arc in _ARCS.items() for what, weigh in {
        "is counted twice": lambda c: _own(c) + np.log(2),
        "has a factor 1/2": lambda c: _own(c) - np.log(2),
        "does not emit: its emission is missing": lambda c: 0.0,
        "emits twice": lambda c: 2 * _own(c),
        "takes the emission of the frame before (t - 1 for t)": lambda c: _frame(c, -1)[:, None, :],
        "takes the emission of the frame after (t + 1 for t)": lambda c: _frame(c, 1)[:, None, :],
        **({"takes the emission of the state that it leaves": lambda c: c.emitted[:, :, None]} if up else {}),
        "takes the emission of the blank": lambda c: c.log_probs[:, c.blank][:, None, None],
    }.items()},
    **{f"{arc} reads frame t - 2, not t - 1": fixed(lags={up: 2}) for up, arc in _ARCS.items()},
    **{f"{arc} reads s{f' - {by}' if by > 0 else f' + {-by}' if by else ''} instead (the source state is shifted)":
       _arcs_read(up, by) for up, arc in _ARCS.items() for by in (up - 1, up + 1, *((0,) if up == 2 else ()))},
    **{f"it is updated in place over one buffer, so {what} of the same frame, already updated, not of the frame "
       f"before{how}": _updated(lags, carried)
       for lags, what in (((1,), "s - 1 is"), ((2,), "s - 2 is"), ((1, 2), "s - 1 and s - 2 are"))
       for how, carried in (("", "here"), (": the emission comes after that", "none"),
                            (", with the emission of that frame", ""))},
    **{f"{_ARCS[up]} is compared, not added: the larger is taken (a maximum for a sum)": fixed(joins={up: np.maximum})
       for up in (1, 2)},
    "a row is updated in place, the skip last: s - 2 reads what the arcs from s - 1 were already added to, so paths "
    "are counted twice": fixed(stages=(1, 2)),
    "a row is updated in place, the skip first: s - 1 reads what the skips were already added to, so paths are counted "
    "twice": fixed(stages=(2, 1)),
    "a path may begin in any frame, not only in frame 0": fixed(enters=True),
}
#: States that are visited in each frame, where a band is too narrow or a loop too short: whether (t, s) is inside.
_BANDS = {
    "ends at s < 2t + 1, where s < 2t + 2 has to be visited: the states of a new label in every frame are not visited":
        lambda t, s, T, S: s < 2 * t + 1,
    "ends at s < 2t, where s < 2t + 2 has to be visited": lambda t, s, T, S: s < 2 * t,
    "ends at s < t + 2, as if a frame led up by one state only; s < 2t + 2 has to be visited":
        lambda t, s, T, S: s < t + 2,
    "ends at s <= t, as if a frame led up by one state only; s < 2t + 2 has to be visited":
        lambda t, s, T, S: s <= t,
    "begins at s >= S - 2 (T - t) + 1, where s >= S - 2 (T - t) has to be visited (one too narrow)":
        lambda t, s, T, S: s >= S - 2 * (T - t) + 1 or t == T - 1 and s == S - 1,
    "begins at s >= S - 2 (T - t) + 2 before the last frame, where s >= S - 2 (T - t) has to be visited":
        lambda t, s, T, S: t == T - 1 or s >= S - 2 * (T - t) + 2,
    "begins at s >= S - 2 (T - t) + 1 before the last frame, where s >= S - 2 (T - t) has to be visited":
        lambda t, s, T, S: t == T - 1 or s >= S - 2 * (T - t) + 1,
    "begins at s >= S - (T - t), as if a frame led up by one state only; s >= S - 2 (T - t) has to be visited":
        lambda t, s, T, S: s >= S - (T - t),
    "begins at s >= S - (T - t) - 1, as if a frame led up by one state only; s >= S - 2 (T - t) has to be visited":
        lambda t, s, T, S: s >= S - (T - t) - 1,
    "is one too narrow on both sides: 2t + 1 for 2t + 2, and S - 2 (T - t) + 1 for S - 2 (T - t)":
        lambda t, s, T, S: S - 2 * (T - t) + 1 <= s < 2 * t + 1,
    "leaves out the first blank: the loop over the states begins at s = 1": lambda t, s, T, S: s > 0,
    "leaves out the first two states: the loop over the states begins at s = 2": lambda t, s, T, S: s > 1,
    "leaves out the last blank: the loop over the states ends too early": lambda t, s, T, S: s < S - 1,
    "leaves out the last two states: the loop over the states ends too early": lambda t, s, T, S: s < S - 2,
    "leaves out the first and the last state": lambda t, s, T, S: 0 < s < S - 1,
}
#: Sums in the log domain that go wrong.
_SUMS = {
    "it adds with base 2, log2(2^a + 2^b), where scores are natural logs": np.logaddexp2,
    "it adds with base 10, log10(10^a + 10^b), where scores are natural logs":
        _in_pairs(lambda a, gap: a + np.log10(1 + 10.0**-gap)),
    "its sums have x in place of log(1 + x)": _in_pairs(lambda a, gap: a + np.exp(-gap)),
    "its sums have x - x^2 / 2 in place of log(1 + x)":
        _in_pairs(lambda a, gap: a + np.exp(-gap) - np.exp(-2 * gap) / 2),
    "its sums are log(1 + exp(b - a)), without the larger of both": _in_pairs(lambda a, gap: np.log1p(np.exp(-gap))),
    "its sums subtract: log(exp(a) - exp(b))": _in_pairs(lambda a, gap: a + np.log(-np.expm1(-gap))),
    "its sums add the logs, the product of probabilities": _in_pairs(lambda a, gap: 2 * a - gap),
    "its sums are means: they are divided by 2": _in_pairs(lambda a, gap: a + np.log1p(np.exp(-gap)) - np.log(2)),
    "its sums have the two largest terms only": _of_largest(2),
    **{f"its sums leave out what is smaller than the rest by a factor of exp({at:g})":
       _in_pairs(lambda a, gap, at=at: np.where(gap < at, a + np.log1p(np.exp(-gap)), a)) for at in (1, 2, 5, 10, 20)},
}
#: What becomes of a row.
_ROWS = {
    "its rows are rounded to half precision (float16)": _half,
    "probabilities underflow: it is not rescaled": lambda row: np.where(row < np.log(5e-324), -np.inf, row),
    "probabilities underflow in float32: it is not rescaled": lambda row: np.where(row < np.log(1.4e-45), -np.inf, row),
    **{f"its rows are clipped from below at -{at:g}, a floor": lambda row, at=at: np.maximum(row, -at)
       for at in (5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 1000.0)},
    **{f"its probabilities have a floor of {eps:.0e}": lambda row, eps=eps: np.maximum(row, np.log(eps))
       for eps in (1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-15)},
    **{f"an epsilon of {eps:.0e} is added to its probabilities": lambda row, eps=eps: np.logaddexp(row, np.log(eps))
       for eps in (1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-15)},
}
#: Further rules for skips: whether one leads into s.
_RULES = {
    "the rule for skips compares with the label before the last one (s - 4 for s - 2)":
        lambda z, s, blank: z[s] != blank and (s < 4 or z[s] != z[s - 4]),
    "the rule for skips compares with the first label of the target":
        lambda z, s, blank: z[s] != blank and z[s] != z[1],
    "the rule for skips compares with the last label of the target":
        lambda z, s, blank: z[s] != blank and z[s] != z[-2],
    "the rule for skips compares with the last symbol instead of blank (a hard-coded blank V - 1)": None,
    "skips are allowed to a larger label only (> where != belongs)":
        lambda z, s, blank: z[s] != blank and z[s] > z[s - 2],
    "skips are allowed to a smaller label only (< where != belongs)":
        lambda z, s, blank: z[s] != blank and z[s] < z[s - 2],
    "no skip leaves label 0": lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and z[s - 2] != 0,
    "skips are allowed into the second label only, the first skip":
        lambda z, s, blank: s == 3 and z[s] != z[s - 2],
    "skips are allowed into the last label only": lambda z, s, blank: s == len(z) - 2 and z[s] != z[s - 2],
    "skips are allowed from blank to blank as well, but not over equal labels":
        lambda z, s, blank: z[s] == blank or z[s] != z[s - 2],
    "skips are allowed from blank to blank if the labels around differ":
        lambda z, s, blank: z[s] == blank and 2 < s < len(z) - 1 and z[s - 1] != z[s + 1]
        or z[s] != blank and z[s] != z[s - 2],
    "the first label may be skipped, from the first blank to the second":
        lambda z, s, blank: s == 2 or z[s] != blank and z[s] != z[s - 2],
    "the last label may be skipped, from the blank before it to the last":
        lambda z, s, blank: s == len(z) - 1 or z[s] != blank and z[s] != z[s - 2],
    "a skip is not allowed into or from a label that occurs more than once":
        lambda z, s, blank: z[s] != blank and max((z == z[s]).sum(), (z == z[s - 2]).sum()) == 1,
    "a skip is not allowed into a label that occurs more than once":
        lambda z, s, blank: z[s] != blank and (z == z[s]).sum() == 1,
    "after equal labels no skip is allowed any more":
        lambda z, s, blank: z[s] != blank and not (z[3:s + 1:2] == z[1:s - 1:2]).any(),
    "the rule for skips is right for every second label only":
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and s % 4 == 3,
}


def _skips_but_last_symbol(lattice):
    last = lattice.log_probs.shape[1] - 1
    lattice.skips(lambda s: lattice.z[s] not in (last, lattice.z[s - 2]))


#: Other states.
_SPELLINGS = {
    "there are two blanks between labels": lambda z, blank: [
        k for s, each in enumerate(z) for k in ([each] * 2 if each == blank and 0 < s < len(z) - 1 else [each])],
    "every label stands twice, with a blank between": lambda z, blank: [
        k for each in z for k in ([each] if each == blank else [each, blank, each])],
    "every label has two states, one after the other": lambda z, blank: [
        k for each in z for k in ([each] if each == blank else [each, each])],
    "the labels stand where the blanks belong (even states)": lambda z, blank: [*z[1:], blank],
    "the last label is missing, and its two states are blanks": lambda z, blank: [*z[:-2], blank, blank][-len(z):],
    "the last label stands at the end, after the last blank (off by one)": lambda z, blank: [blank, *z][:len(z)],
}


#: By the sentence that names it, what a mistake makes of a lattice.
LATTICES = {
    # the rule for skips
    "it skips the blank between two equal labels; there a blank has to be passed (as where a rule for skips compares "
    "neighbouring states, s with s - 1)":
        _skips(lambda z, s, blank: z[s] != blank),
    "it never skips a blank between two different labels": _skips(lambda z, s, blank: False),
    "it skips labels, too, from a blank to the next blank": _skips(lambda z, s, blank: True),
    "it skips from blank to blank, so a label may be left out, and never from label to label":
        _skips(lambda z, s, blank: z[s] == blank),
    "the rule for skips is inverted: it skips between equal labels, and not between different ones":
        _skips(lambda z, s, blank: z[s] != blank and z[s] == z[s - 2]),
    "the rule for skips compares with label 0 instead of blank (a hard-coded blank 0)":
        _skips(lambda z, s, blank: z[s] != 0 and z[s] != z[s - 2]),
    "the rule for skips compares a label with the next one, not with the one before it":
        _skips(lambda z, s, blank: z[s] != blank and (s + 2 >= len(z) or z[s] != z[s + 2])),
    "whether a skip is allowed is asked of the state that it leaves (the source), not of the one that it enters":
        _skips(lambda z, s, blank: s - 2 >= 2 and z[s - 2] != blank and z[s - 2] != z[s - 4]),
    "whether a skip is allowed is asked of the state that it leaves (the source), and the first label may always be "
    "left by one":
        _skips(lambda z, s, blank: z[s - 2] != blank and (s - 2 < 2 or z[s - 2] != z[s - 4])),
    "whether a skip is allowed is asked of the state passed over, one too low":
        _skips(lambda z, s, blank: z[s - 1] != blank and z[s - 1] != z[s - 3]),
    "the skip into the last label is missing": _skips(
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and s < len(z) - 2),
    "the first skip, from the first label to the second, is missing (off by one)": _skips(
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and s > 3),
    "no skip is allowed if the target has equal labels anywhere": _skips(
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and len({*z.tolist()}) == len(z) // 2 + 1),
    "a skip is not allowed into a label that has occurred anywhere before": _skips(
        lambda z, s, blank: z[s] != blank and z[s] not in z[:s]),
    **{said: _skips(rule) if rule else _skips_but_last_symbol for said, rule in _RULES.items()},
    # the other moves
    "it does not stay in a state; a label or a blank may last several frames (no self-loop)":
        _without(0, lambda is_blank: True),
    "it does not stay in a blank: a blank lasts one frame (no self-loop)": _without(0, lambda is_blank: is_blank),
    "it does not stay in a label: a label lasts one frame (no self-loop)": _without(0, lambda is_blank: not is_blank),
    "it never moves on to the next state": _without(1, lambda is_blank: True),
    "it never moves from a label to the blank after it": _without(1, lambda is_blank: is_blank),
    "it never moves from a blank to the label after it": _without(1, lambda is_blank: not is_blank),
    "the states wrap around: a negative index reads the last ones, which flow into the first": _wraps,
    "the last state flows into the first (index -1 wraps around)": _wraps_once,
    "a skip leads from the last state into the first label (index -1 wraps around)": _skip_wraps,
    # a band comes first: where it ends one state too early, a skip is missing in the first step, which is the same
    **{f"the band of states that it visits {said}": _visits(inside) for said, inside in _BANDS.items()},
    **{f"the band of states that it visits {said}; so it is in the row that it starts with": _visits(inside, start=True)
       for said, inside in _BANDS.items()},
    **_OF_ARCS,
    # boundaries
    "it begins in the first blank only; a path may begin with the first label as well":
        _boundary("begin", lambda s, S: s == 0),
    "it begins in the first label only; a path may begin with the blank before it":
        _boundary("begin", lambda s, S: s == min(1, S - 1)),
    "it begins in every state; a path begins in one of the first two (boundary of the first frame)":
        _boundary("begin", lambda s, S: True),
    "it begins in the first three states; a path begins in one of the first two":
        _boundary("begin", lambda s, S: s < 3),
    "it ends in the last blank only; a path may end in the last label, too": _boundary("end", lambda s, S: s == S - 1),
    "it ends in the last label only; a path may end in the blank after it":
        _boundary("end", lambda s, S: s == max(S - 2, 0)),
    "it ends in every state; a path ends in one of the last two (boundary of the last frame)":
        _boundary("end", lambda s, S: True),
    "it ends in the last three states; a path ends in one of the last two":
        _boundary("end", lambda s, S: s >= S - 3),
    "the last two states are added although an empty target has only one, so that Z is twice as large":
        _only_state_twice,
    "it ends one state too early: in the last label or the blank before it (off by one)":
        _boundary("end", lambda s, S: S - 3 <= s < S - 1 or S == 1),
    "at the start the probabilities of the first two states are exchanged":
        computed(start=lambda c: _starts(c, c.emitted[0, :2][::-1])),
    "it begins with mass 1 in the first blank: the emission of frame 0 is missing":
        computed(start=lambda c: np.where(np.arange(c.S) == 0, 0.0, -np.inf)),
    "it begins with the label of frame 1, not of frame 0 (off by one)":
        computed(start=lambda c: _starts(c, c.emitted[min(1, len(c.emitted) - 1), :2])),
    **{f"its first row is wrong: {said}": _first_cells(cells) for said, cells in {
        "both states have the emission of the blank": lambda c: c.emitted[0, 0],
        "both states have the emission of the first label": lambda c: c.emitted[0, min(1, c.S - 1)],
        "the emission of the first blank is missing": lambda c: np.append(0.0, c.emitted[0, 1:2]),
        "the emission of the first label is missing": lambda c: np.append(c.emitted[0, 0], 0.0),
        "both states have a factor 1/2, as if the mass were shared": lambda c: c.emitted[0, :2] - np.log(2),
        "the first blank is counted twice": lambda c: c.emitted[0, :2] + np.log([2, 1])[:c.S],
        "it has the emissions of the last frame": lambda c: c.emitted[-1, :2],
        "its second state has the emission of the last label":
            lambda c: np.append(c.emitted[0, 0], c.emitted[0, max(c.S - 2, 0)]),
        "it has the emissions of symbols 0 and 1": lambda c: c.log_probs[0, :2],
    }.items()},
    **{f"its last row is wrong: {said}": _last_cells(cells) for said, cells in {
        "it has the emissions of the last frame, which are taken to be missing": lambda c: c.emitted[-1, -2:],
        "its states have a factor 1/2, as if the mass were shared": lambda c: -np.log(2),
        "the last blank has a factor 1/2": lambda c: np.array([0.0, -np.log(2)]),
        "it is 0 as a probability and 1 as its log": lambda c: 1.0,
        "the emission of the last frame is missing in it, where beta holds emissions":
            lambda c: -_finite(c.emitted[-1, -2:]),
        "the emission of the last blank is missing in it, where beta holds emissions":
            lambda c: -_finite(c.emitted[-1, -2:]) * np.arange(2)[-c.S:],
        "the emission of the last label is missing in it, where beta holds emissions":
            lambda c: -_finite(c.emitted[-1, -2:]) * np.array([1, 0])[-c.S:],
        "both states have the emission of the blank, where beta holds emissions":
            lambda c: _finite(c.emitted[-1, -1]) - _finite(c.emitted[-1, -2:]),
        "both states have the emission of the last label, where beta holds emissions":
            lambda c: _finite(c.emitted[-1, -min(2, c.S)]) - _finite(c.emitted[-1, -2:]),
        "it has the emissions of frame 0, where beta holds emissions":
            lambda c: _finite(c.emitted[0, -2:]) - _finite(c.emitted[-1, -2:]),
        "it has alpha's values": lambda c: c.alpha()[-1, -2:],
    }.items()},
    "it ends one state too early, in the last label, and in the one before": _boundary(
        "end", lambda s, S: s in (max(S - 2, 0), S - 4)),
    "it ends in the last blank and the blank before it (S - 3 for S - 2)":
        _boundary("end", lambda s, S: s in (S - 1, S - 3)),
    "it ends in every label and in the last blank": _boundary("end", lambda s, S: s % 2 or s == S - 1),
    "it ends in every blank": _boundary("end", lambda s, S: s % 2 == 0),
    "it begins in the first blank and the second (s = 2 for s = 1)": _boundary("begin", lambda s, S: s in (0, 2)),
    "it begins in every label and in the first blank": _boundary("begin", lambda s, S: s % 2 or s == 0),
    "it begins in every blank": _boundary("begin", lambda s, S: s % 2 == 0),
    "it begins in states 1 and 2 (off by one)": _boundary("begin", lambda s, S: s in (1, 2) or S == 1),
    "in the last step the best of the last states is taken, not their sum (a maximum)": fixed(add_last=np.maximum),
    "in the last step the last states are averaged: their sum is divided by 2":
        fixed(add_last=Sum(lambda values: np.logaddexp.reduce(values, axis=0) - np.log(2))),
    "in the last step the last two states are multiplied (their logs are added)":
        fixed(add_last=Sum(lambda values: values.sum(axis=0))),
    # emissions
    **{f"it takes {said}": _emission(made) for said, made in _TAKEN.items()},
    **{f"its moves, but not its first frame, take {said}": _only_moves(made) for said, made in _TAKEN.items()},
    "it multiplies by the emission of the state that is left (the source), not of the one that is entered": _leaves,
    "a move carries the emission of the state and frame that it leaves (the source)": _leaves_before,
    "the emission of frame 0 is missing (the first frame)": _at(0, 0),
    "the emission of the last frame is missing": _at(-1, 0),
    "the emission of frame 0 is in it twice (the first frame)": _at(0, 2),
    "the emission of the last frame is in it twice": _at(-1, 2),
    "only frame 0 emits": _emission(
        lambda lattice, emitted: np.concatenate([emitted[:1], 0 * np.nan_to_num(emitted[1:])])),
    "its states are reversed: the labels are read backward, the frames are not":
        lambda lattice: lattice.spell(lattice.targets[::-1]),
    # states
    "the first blank is missing: a path has to begin with a label": _states(first=False),
    "the last blank is missing: a path has to end with a label": _states(last=False),
    "the first and the last blank are missing": _states(first=False, last=False),
    "there are no blanks between the labels": _states(between=False),
    "there are no blanks at all, as in forced alignment": _states(first=False, last=False, between=False),
    "there are blanks only between equal labels": _states(first=False, last=False, between=lambda a, b: a == b),
    "there are blanks only between equal labels, and at both ends": _states(between=lambda a, b: a == b),
    "there are no blanks between equal labels, and a skip is not allowed there": _states(between=lambda a, b: a != b),
    **{said: _respelt(made) for said, made in _SPELLINGS.items()},
    # sums
    **{said: fixed(add=add) for said, add in _SUMS.items()},
    **{f"in its last step: {said}": fixed(add_last=add) for said, add in _SUMS.items()},
    **{said: fixed(row=made) for said, made in _ROWS.items()},
    "it takes the best where it should add all (a maximum for a sum, as in Viterbi)": fixed(add=np.maximum),
    "it takes the best where it should add all (a maximum for a sum), except in its last step":
        fixed(add=np.maximum, add_last=np.logaddexp),
    **{f"{said} stands in place of -inf": fixed(off=value) for said, value in (
        ("0", 0.0), ("-1", -1.0), ("-5", -5.0), ("-10", -10.0), ("-20", -20.0), ("-30", -30.0), ("-50", -50.0),
        ("-100", -100.0), ("-1000", -1e3), ("-1e4", -1e4), ("-1e5", -1e5), ("-1e10", -1e10), ("-1e30", -1e30))},
    **{f"{said} stands in place of -inf, at the boundary": computed(
        start=lambda c, value=value: np.where(c.begin, c.emitted[0], value)) for said, value in (
        ("0", 0.0), ("-1", -1.0), ("-10", -10.0), ("-100", -100.0))},
}
