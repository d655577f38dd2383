"""Families of mistakes in CTC's lattice: its states, moves, emissions, boundaries and posteriors. It names no answer.

A mistake changes a :class:`Lattice`. Which sweep makes it, and where log Z comes from, is up to `families.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["LATTICES", "OCCUPANCIES", "Lattice", "occupancy"]


class Lattice:
    """States, moves between them and what they emit; ``alpha`` contains the emission at t, and ``beta`` does not."""

    def __init__(self, log_probs, targets, blank):
        self.log_probs, self.blank, self.targets = np.asarray(log_probs, dtype=np.float64), blank, np.asarray(targets)
        if not len(self.log_probs):
            raise ValueError("no frames")
        self.add, self.off, self.in_place, self.start = np.logaddexp, -np.inf, "", None
        self.spell(self.targets)

    def spell(self, targets, *, first=True, last=True, between=True):
        """Give it the states of other targets, or leave some of the blanks out."""
        z = [self.blank] if first or not len(targets) else []
        for u, label in enumerate(targets):
            z += [int(label)] + ([self.blank] if (last if u == len(targets) - 1 else between) else [])
        self.z, self.S = np.array(z), len(z)
        self.moves = np.eye(self.S, dtype=bool) | np.eye(self.S, k=1, dtype=bool)
        self.skips(lambda s: z[s] != self.blank and z[s] != z[s - 2])
        self.begin, self.end = np.arange(self.S) < 2, np.arange(self.S) >= self.S - 2
        self.emitted = self.log_probs[:, self.z]
        self.arcs = np.broadcast_to(self.emitted[:, None, :], (len(self.emitted), self.S, self.S))

    def skips(self, may: Callable):
        """Allow the skip into state s where ``may(s)`` says so, and no other."""
        for s in range(2, self.S):
            self.moves[s - 2, s] = may(s)

    def emits(self, emitted):
        """Give the states other emissions: (T, S)."""
        self.emitted = emitted
        self.arcs = np.broadcast_to(emitted[:, None, :], (len(emitted), self.S, self.S))

    def weights(self):
        """(T, S, S): log weights of the moves into frame t, the emission included."""
        return np.where(self.moves, self.arcs, self.off)

    def alpha(self):
        found, weights = np.full(self.emitted.shape, -np.inf), self.weights()
        found[0] = np.where(self.begin, self.emitted[0], self.off) if self.start is None else self.start
        for t in range(1, len(found)):
            if self.in_place:
                row = found[t - 1].copy()
                for s in range(self.S) if self.in_place == "up" else reversed(range(self.S)):
                    row[s] = self.add.reduce(row + weights[t, :, s])
                found[t] = row
            else:
                found[t] = self.add.reduce(found[t - 1][:, None] + weights[t], axis=0)
        return found

    def beta(self):
        found, weights = np.full(self.emitted.shape, -np.inf), self.weights()
        found[-1] = np.where(self.end, 0.0, self.off)
        for t in reversed(range(len(found) - 1)):
            if self.in_place:
                row = found[t + 1].copy()
                for s in reversed(range(self.S)) if self.in_place == "up" else range(self.S):
                    row[s] = self.add.reduce(row + weights[t + 1, s])
                found[t] = row
            else:
                found[t] = self.add.reduce(weights[t + 1] + found[t + 1][None], axis=1)
        return found

    def log_z(self, alpha):
        return self.add.reduce(alpha[-1][self.end]) if self.end.any() else -np.inf

    def log_z_of_beta(self, beta):
        return self.add.reduce((self.emitted[0] + beta[0])[self.begin])


# --- mistakes: functions that change a lattice ---


def _skips(may):
    """``may(z, s, blank)`` says whether a skip leads into state s."""
    return lambda lattice: lattice.skips(lambda s: bool(may(lattice.z, s, lattice.blank)))


def _without(diagonal, into):
    """Some of the moves along a diagonal are missing: those into a state for which ``into`` is true of (is a blank)."""
    def change(lattice):
        for s in range(diagonal, lattice.S):
            if into(lattice.z[s] == lattice.blank):
                lattice.moves[s - diagonal, s] = False
    return change


def _wraps(lattice):
    for s in range(min(2, lattice.S)):
        lattice.moves[(s - 1) % lattice.S, s] |= s == 0
        lattice.moves[(s - 2) % lattice.S, s] |= lattice.z[s] != lattice.blank and (
            lattice.z[s] != lattice.z[(s - 2) % lattice.S])


def _wraps_once(lattice):
    lattice.moves[-1, 0] = True


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


def _of_other_frame(by, wrap):
    def made(lattice, emitted):
        T = len(emitted)
        frames = np.arange(T) + by
        return emitted[frames % T if wrap else np.clip(frames, 0, T - 1)]
    return _emission(made)


def _of_other_state(by):
    def made(lattice, emitted):
        states = np.clip(np.arange(lattice.S) + by, 0, lattice.S - 1)
        return lattice.log_probs[:, lattice.z[states]]
    return _emission(made)


def _leaves(lattice):
    lattice.arcs = np.broadcast_to(lattice.emitted[:, :, None], lattice.arcs.shape)


def _leaves_before(lattice):
    before = np.concatenate([lattice.emitted[:1], lattice.emitted[:-1]])
    lattice.arcs = np.broadcast_to(before[:, :, None], lattice.arcs.shape)


def _arcs_of_frame(by):
    """Moves, and no beginnings, take the emission of another frame."""
    def change(lattice):
        frames = np.clip(np.arange(len(lattice.emitted)) + by, 0, len(lattice.emitted) - 1)
        lattice.arcs = np.broadcast_to(lattice.emitted[frames][:, None, :], lattice.arcs.shape)
    return change


def _kinds(change):
    """Emissions of the states, changed by ``change(emitted, is_blank)``."""
    return _emission(lambda lattice, emitted: change(emitted, lattice.z == lattice.blank))


def _set(**values):
    def change(lattice):
        for name, value in values.items():
            setattr(lattice, name, value)
    return change


def _start(made):
    def change(lattice):
        lattice.start = made(lattice)
    return change


def _starts(lattice, values):
    found = np.full(lattice.S, -np.inf)
    found[:2] = values
    return found


def _states(**blanks):
    return lambda lattice: lattice.spell(lattice.targets, **blanks)


#: By the sentence that names it, what a mistake makes of a lattice.
LATTICES = {
    # the rule for skips
    "it skips the blank between two equal labels; there a blank has to be passed":
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
    "the rule for skips compares neighbouring states, which always differ, so equal labels need no blank between them":
        _skips(lambda z, s, blank: z[s] != blank and z[s] != z[s - 1]),
    "the skip into the last label is missing": _skips(
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and s < len(z) - 2),
    "the first skip, from the first label to the second, is missing (off by one)": _skips(
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and s > 3),
    "no skip is allowed if the target has equal labels anywhere": _skips(
        lambda z, s, blank: z[s] != blank and z[s] != z[s - 2] and len({*z.tolist()}) == len(z) // 2 + 1),
    "a skip is not allowed into a label that has occurred anywhere before": _skips(
        lambda z, s, blank: z[s] != blank and z[s] not in z[:s]),
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
    "it ends one state too early: in the last label or the blank before it (off by one)":
        _boundary("end", lambda s, S: S - 3 <= s < S - 1 or S == 1),
    "at the start the probabilities of the first two states are exchanged":
        _start(lambda c: _starts(c, c.emitted[0, :2][::-1])),
    "it begins with mass 1 in the first two states: the emission of frame 0 is missing":
        _start(lambda c: _starts(c, 0.0)),
    "it begins with mass 1 in the first blank: the emission of frame 0 is missing":
        _start(lambda c: np.where(np.arange(c.S) == 0, 0.0, -np.inf)),
    "it begins with the label of frame 1, not of frame 0 (off by one)":
        _start(lambda c: _starts(c, c.emitted[min(1, len(c.emitted) - 1), :2])),
    # emissions
    "it takes the emission of the frame before (t - 1 for t)": _of_other_frame(-1, False),
    "it takes the emission of the frame after (t + 1 for t)": _of_other_frame(1, False),
    "it takes the emission of the frame before (t - 1 for t), and index -1 wraps around to the last frame":
        _of_other_frame(-1, True),
    "it takes the emission of the frame after (t + 1 for t), and wraps around to the first frame":
        _of_other_frame(1, True),
    "its moves, but not its first frame, take the emission of the frame before (t - 1 for t)": _arcs_of_frame(-1),
    "its moves, but not its first frame, take the emission of the frame after (t + 1 for t)": _arcs_of_frame(1),
    "it takes the emission of the state before (s - 1 for s)": _of_other_state(-1),
    "it takes the emission of the state after (s + 1 for s)": _of_other_state(1),
    "it multiplies by the emission of the state that is left (the source), not of the one that is entered": _leaves,
    "a move carries the emission of the state and frame that it leaves (the source)": _leaves_before,
    "the emission of frame 0 is missing (the first frame)": _at(0, 0),
    "the emission of the last frame is missing": _at(-1, 0),
    "the emission of frame 0 is in it twice (the first frame)": _at(0, 2),
    "the emission of the last frame is in it twice": _at(-1, 2),
    "every emission is in it twice": _emission(lambda lattice, emitted: 2 * emitted),
    "the emissions are missing: it counts paths": _emission(lambda lattice, emitted: 0 * np.nan_to_num(emitted)),
    "only frame 0 emits": _emission(
        lambda lattice, emitted: np.concatenate([emitted[:1], 0 * np.nan_to_num(emitted[1:])])),
    "blanks emit nothing: their probability is missing": _kinds(lambda e, is_blank: np.where(is_blank, 0.0, e)),
    "labels emit nothing: their probability is missing": _kinds(lambda e, is_blank: np.where(is_blank, e, 0.0)),
    "its frames are reversed, and its labels are not (time reversed)":
        _emission(lambda lattice, emitted: emitted[::-1]),
    "its states are reversed: the labels are read backward, the frames are not":
        lambda lattice: lattice.spell(lattice.targets[::-1]),
    "the emissions read their symbols in reverse order, the rule for skips does not":
        _emission(lambda lattice, emitted: emitted[:, ::-1]),
    "every state emits the blank": _emission(
        lambda lattice, emitted: np.repeat(lattice.log_probs[:, [lattice.blank]], lattice.S, axis=1)),
    "the emissions take symbol 0 for the blank (a hard-coded blank 0)": _emission(
        lambda lattice, emitted: np.where(lattice.z == lattice.blank, lattice.log_probs[:, [0]], emitted)),
    "the emissions take the last symbol for the blank (a hard-coded blank V - 1)": _emission(
        lambda lattice, emitted: np.where(lattice.z == lattice.blank, lattice.log_probs[:, [-1]], emitted)),
    # states
    "the first blank is missing: a path has to begin with a label": _states(first=False),
    "the last blank is missing: a path has to end with a label": _states(last=False),
    "the first and the last blank are missing": _states(first=False, last=False),
    "there are no blanks between the labels": _states(between=False),
    "there are no blanks at all, as in forced alignment": _states(first=False, last=False, between=False),
    # sums
    "it takes the best where it should add all (a maximum for a sum, as in Viterbi)": _set(add=np.maximum),
    "it is updated in place over one buffer, so a state reads its neighbours in the same frame, not in the frame "
    "before": _set(in_place="up"),
    "it is updated in place over one buffer, in the other order of states": _set(in_place="down"),
    **{f"{said} stands in the place of -inf": _set(off=value) for said, value in (
        ("0", 0.0), ("-1", -1.0), ("-5", -5.0), ("-10", -10.0), ("-20", -20.0), ("-30", -30.0), ("-50", -50.0),
        ("-100", -100.0), ("-1000", -1e3), ("-1e4", -1e4), ("-1e5", -1e5))},
    **{f"{said} stands in the place of -inf, at the boundary": _start(
        lambda c, value=value: np.where(c.begin, c.emitted[0], value)) for said, value in (
        ("0", 0.0), ("-1", -1.0), ("-10", -10.0), ("-100", -100.0))},
}


# --- posteriors ---


def occupancy(lattice, log_mass, *, z=None):
    """Sums over the states of each symbol of exp(log_mass)."""
    found = np.zeros(lattice.log_probs.shape)
    np.add.at(found.T, lattice.z if z is None else z, np.exp(log_mass).T)
    return found


def _shift(array, frames=0, states=0, fill=-np.inf):
    """Row t is what stood in row t + frames, and likewise for states; ``fill`` from outside."""
    found = np.full(array.shape, fill)
    T, S = array.shape
    to_t, to_s = slice(max(0, -frames), T - max(0, frames)), slice(max(0, -states), S - max(0, states))
    from_t, from_s = slice(max(0, frames), T - max(0, -frames)), slice(max(0, states), S - max(0, -states))
    found[to_t, to_s] = array[from_t, from_s]
    return found


def _summed(made):
    return lambda c, a, b, log_z: occupancy(c, made(c, a, b) - log_z)


def _flipped(c, frames, reverse, back, z):
    """Beta as alpha of what is reversed, or should be; ``z`` says whose emission is taken out of it."""
    turned = Lattice(c.log_probs[::frames], c.targets[::-1] if reverse else c.targets, c.blank)
    found = turned.alpha()[::back[0], ::back[1]]
    return found - (c.emitted[:, ::z] if z else 0.0)


def _scattered(chosen):
    """``chosen(c)`` are the columns into which the states' masses go."""
    return lambda c, a, b, log_z: occupancy(c, a + b - log_z, z=np.asarray(chosen(c)) % c.log_probs.shape[1])


def _normalised(log_mass):
    """Each frame adds up to 1."""
    total = np.logaddexp.reduce(log_mass, axis=1, keepdims=True)
    return np.where(total > -np.inf, log_mass - total, -np.inf)


def _first_kept(c, a, b, log_z):
    found = np.zeros(c.log_probs.shape)
    for s in reversed(range(c.S)):
        found[:, c.z[s]] = np.exp(a + b - log_z)[:, s]
    return found


def _largest_kept(c, a, b, log_z):
    found = np.zeros(c.log_probs.shape)
    np.maximum.at(found.T, c.z, np.exp(a + b - log_z).T)
    return found


def _mean_kept(c, a, b, log_z):
    found = occupancy(c, a + b - log_z)
    return found / np.maximum(np.bincount(c.z, minlength=found.shape[1]), 1)


def _part(keep):
    """Only some states are collected: ``keep(s, is_blank, S)``."""
    def made(c, a, b, log_z):
        kept = np.array([keep(s, c.z[s] == c.blank, c.S) for s in range(c.S)])
        return occupancy(c, np.where(kept, a + b - log_z, -np.inf))
    return made


def _best_states(c, a, b, log_z):
    log_mass = a + b
    return occupancy(c, np.where(log_mass == log_mass.max(axis=1, keepdims=True), 0.0, -np.inf))


def _best_path(c, a, b, log_z):
    """The derivative of the best path's score."""
    c = Lattice(c.log_probs, c.targets, c.blank)
    c.add = np.maximum
    score = c.alpha() + c.beta()
    best = score.max()
    if best == -np.inf:
        raise ValueError("no path")
    return occupancy(c, np.where(score >= best - 1e-12 * abs(best), 0.0, -np.inf))


def _with_z_of(frame_total):
    return lambda c, a, b, log_z: occupancy(c, a + b - frame_total(c, a, b))


#: By the sentence that names it, occupancies (T, V) from a lattice, alpha, beta and log Z.
OCCUPANCIES = {
    "the emission is in the posterior twice: alpha and beta both contain it":
        _summed(lambda c, a, b: a + b + c.emitted),
    "the emission is in the posterior three times": _summed(lambda c, a, b: a + b + 2 * c.emitted),
    "the emission is missing from the posterior": _summed(
        lambda c, a, b: a + b - np.where(np.isfinite(c.emitted), c.emitted, 0.0)),
    "the posterior takes beta of the frame after (t + 1 for t)": _summed(lambda c, a, b: a + _shift(b, 1)),
    "the posterior takes beta of the frame after (t + 1 for t), and 1 after the last":
        _summed(lambda c, a, b: a + _shift(b, 1, fill=0.0)),
    "the posterior takes beta of the frame before (t - 1 for t)": _summed(lambda c, a, b: a + _shift(b, -1)),
    "the posterior takes beta of the frame after, and np.roll wraps around": _summed(
        lambda c, a, b: a + np.roll(b, -1, axis=0)),
    "the posterior takes beta of the frame before, and index -1 wraps around": _summed(
        lambda c, a, b: a + np.roll(b, 1, axis=0)),
    "the posterior takes alpha of the frame before (t - 1 for t)": _summed(lambda c, a, b: _shift(a, -1) + b),
    "the posterior takes alpha of the frame before, and beta with the emission of its own frame":
        _summed(lambda c, a, b: _shift(a, -1) + b + c.emitted),
    "the posterior takes alpha of the frame after (t + 1 for t)": _summed(lambda c, a, b: _shift(a, 1) + b),
    "the posterior takes beta of the next state (s + 1 for s)": _summed(lambda c, a, b: a + _shift(b, 0, 1)),
    "the posterior takes beta of the state before (s - 1 for s)": _summed(lambda c, a, b: a + _shift(b, 0, -1)),
    **{f"beta is alpha of the {said}, {turned}{emission}": _summed(
        lambda c, a, b, frames=frames, reverse=reverse, back=back, z=z: a + _flipped(c, frames, reverse, back, z))
       for said, frames, reverse in (
           ("reversed frames, but the labels are not reversed", -1, False),
           ("reversed frames and labels", -1, True), ("reversed labels, but the frames are not reversed", 1, True),
           ("same frames and labels", 1, False))
       for turned, back in (("flipped back in frames and states", (-1, -1)), ("flipped back in frames only", (-1, 1)),
                            ("flipped back in states only", (1, -1)), ("and not flipped back", (1, 1)))
       for emission, z in (("", 1), (", with the emission in it twice", 0),
                           (", and the emission of the state from the other end is taken out", -1))
       if not (said == "reversed frames and labels" and back == (-1, -1) and z == 1)},
    "the posterior takes beta with its states reversed": _summed(lambda c, a, b: a + b[:, ::-1]),
    "the posterior takes beta with its frames reversed (time not flipped back)": _summed(lambda c, a, b: a + b[::-1]),
    "the posterior takes beta with frames and states reversed (not flipped back)":
        _summed(lambda c, a, b: a + b[::-1, ::-1]),
    "alpha alone is taken for the posterior, divided by Z; beta is missing": _summed(lambda c, a, b: a),
    "alpha alone is taken for the posterior, normalised in each frame; beta is missing":
        lambda c, a, b, log_z: occupancy(c, _normalised(a)),
    "beta alone is taken for the posterior, divided by Z; alpha is missing": _summed(lambda c, a, b: b),
    "beta alone is taken for the posterior, normalised in each frame; alpha is missing":
        lambda c, a, b, log_z: occupancy(c, _normalised(b + c.emitted)),
    "the posterior is the sum of alpha and beta as probabilities, not their product":
        lambda c, a, b, log_z: occupancy(c, np.logaddexp(a, b) - log_z),
    "the posterior is not divided by Z": lambda c, a, b, log_z: occupancy(c, a + b),
    "the posterior is multiplied by Z instead of divided": lambda c, a, b, log_z: occupancy(c, a + b + log_z),
    "the posterior is divided by Z twice": lambda c, a, b, log_z: occupancy(c, a + b - 2 * log_z),
    "the posterior is divided by the sum over frames and states, not by Z":
        _with_z_of(lambda c, a, b: np.logaddexp.reduce((a + b).ravel())),
    "the posterior is divided by the last state of alpha alone, not by the sum of the last two (Z)":
        _with_z_of(lambda c, a, b: a[-1, -1]),
    "the posterior is divided by the last label of alpha alone, not by the sum of the last two (Z)":
        _with_z_of(lambda c, a, b: a[-1, -2 if c.S > 1 else -1]),
    "the posterior is divided by the sum of all states of the last frame of alpha, not of the last two (Z)":
        _with_z_of(lambda c, a, b: np.logaddexp.reduce(a[-1])),
    "the posterior is divided by the largest of each frame, not by the sum":
        _with_z_of(lambda c, a, b: np.maximum((a + b).max(axis=1, keepdims=True), -1e300)),
    "the posterior is hard: the best state of each frame gets all of it (argmax)": _best_states,
    "the gradient is that of the best path, not of the sum over all paths (Viterbi)": _best_path,
    "states with the same symbol overwrite each other instead of adding up: the first is kept": _first_kept,
    "states with the same symbol overwrite each other instead of adding up: the last is kept":
        lambda c, a, b, log_z: _last_kept(c, a, b, log_z),
    "of states with the same symbol the largest is kept (a maximum for a sum); they should add up": _largest_kept,
    "over states with the same symbol the mean is taken; they should add up": _mean_kept,
    "the posteriors of the blanks are missing": _part(lambda s, is_blank, S: not is_blank),
    "the posteriors of the labels are missing": _part(lambda s, is_blank, S: is_blank),
    "the posterior of the first blank is missing": _part(lambda s, is_blank, S: s > 0),
    "the posterior of the last blank is missing": _part(lambda s, is_blank, S: s < S - 1),
    "the posterior of the last label is missing": _part(lambda s, is_blank, S: s != S - 2),
    "the posterior of the first label is missing": _part(lambda s, is_blank, S: s != 1),
    "the posteriors of the first and the last blank are missing": _part(lambda s, is_blank, S: 0 < s < S - 1),
    "the posteriors are scattered to the next state's symbol (off by one), so labels go to blank and blanks to labels":
        _scattered(lambda c: c.z[np.minimum(np.arange(c.S) + 1, c.S - 1)]),
    "the posteriors are scattered to the symbol of the state before (off by one), so labels go to blank and blanks to "
    "labels": _scattered(lambda c: c.z[np.maximum(np.arange(c.S) - 1, 0)]),
    "the posteriors are scattered to the label after (shifted by one label)":
        _scattered(lambda c: [k if k == c.blank else c.z[min(s + 2, c.S - 2)] for s, k in enumerate(c.z)]),
    "the posteriors are scattered to the label before (shifted by one label)":
        _scattered(lambda c: [k if k == c.blank else c.z[max(s - 2, 1)] for s, k in enumerate(c.z)]),
    "the posteriors of the labels are scattered with wrap-around to the next label (np.roll of the targets)":
        _scattered(lambda c: [k if k == c.blank else np.roll(c.targets, -1)[s // 2] for s, k in enumerate(c.z)]),
    "the posteriors of the labels are scattered with wrap-around to the label before (np.roll of the targets)":
        _scattered(lambda c: [k if k == c.blank else np.roll(c.targets, 1)[s // 2] for s, k in enumerate(c.z)]),
    "the posteriors are scattered in reverse order of the states": _scattered(lambda c: c.z[::-1]),
    "the posteriors of the blanks go to symbol 0 (a hard-coded blank 0)":
        _scattered(lambda c: np.where(c.z == c.blank, 0, c.z)),
    "the posteriors of the blanks go to the last symbol (a hard-coded blank V - 1)":
        _scattered(lambda c: np.where(c.z == c.blank, -1, c.z)),
    "the posteriors of the labels go to the blank": _scattered(lambda c: np.full(c.S, c.blank)),
    "the posteriors go to the column of the next symbol (label + 1)": _scattered(lambda c: c.z + 1),
    "the posteriors of the labels go to the column of the next symbol (label + 1)":
        _scattered(lambda c: np.where(c.z == c.blank, c.z, c.z + 1)),
    "the posteriors of the labels go to the column of the symbol before (label - 1)":
        _scattered(lambda c: np.where(c.z == c.blank, c.z, c.z - 1)),
    "the posteriors of the labels go to the column of their place in the target, not of their symbol":
        _scattered(lambda c: [k if k == c.blank else s // 2 for s, k in enumerate(c.z)]),
    "the posteriors of the labels go to the column of their place in the target plus 1, not of their symbol":
        _scattered(lambda c: [k if k == c.blank else s // 2 + 1 for s, k in enumerate(c.z)]),
}


def _last_kept(c, a, b, log_z):
    found = np.zeros(c.log_probs.shape)
    for s in range(c.S):
        found[:, c.z[s]] = np.exp(a + b - log_z)[:, s]
    return found
