"""Families of mistakes in what is made of CTC's right alpha and beta: posteriors, gradients, the loss after rescaling.

It changes no recursion; `ctc_recursions.py` does.
"""

from __future__ import annotations

import itertools

import numpy as np

from .ctc_lattice import Lattice

__all__ = ["FORMULAS", "LOSSES", "OCCUPANCIES", "occupancy"]


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


def _kept(chosen, how):
    """Of the states with the same symbol one is kept, or their mean: ``chosen(is_blank)`` says of which symbols."""
    def made(c, a, b, log_z):
        mass, found = np.exp(a + b - log_z), occupancy(c, a + b - log_z)
        for k in {*c.z.tolist()}:
            if chosen(k == c.blank):
                found[:, k] = how(mass[:, c.z == k])
        return found
    return made


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


class _Scales:
    """What rows are divided by, as logs (T, 1): the sum of a row by itself, or after its predecessor was divided."""

    def __init__(self, a, b, log_z):
        self.mass, self.z = a + b, log_z

    def of(self, rows):
        total = np.logaddexp.reduce(rows, axis=1, keepdims=True)
        return np.where(total > -np.inf, total, 0.0)

    def scale(self, rows):
        return np.diff(self.of(rows), axis=0, prepend=0.0)


def _rescaled(made):
    return lambda c, a, b, log_z: occupancy(c, made(a, b, _Scales(a, b, log_z)))


#: By the sentence that names it, occupancies (T, V) from a lattice, alpha, beta and log Z.
OCCUPANCIES = {
    "the emission is in the posterior twice: alpha and beta both contain it":
        _summed(lambda c, a, b: a + b + c.emitted),
    "the emission is in the posterior three times": _summed(lambda c, a, b: a + b + 2 * c.emitted),
    "the emission is missing from the posterior: it is divided by the emission at t once more, as alpha alone holds it":
        _summed(
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
       # which are right, and the emission twice, of which that is said above
       if not (said == "reversed frames and labels" and back == (-1, -1) and z >= 0)},
    "the posterior takes alpha of the next state (s + 1 for s)": _summed(lambda c, a, b: _shift(a, 0, 1) + b),
    "the posterior takes alpha of the state before (s - 1 for s)": _summed(lambda c, a, b: _shift(a, 0, -1) + b),
    "the posterior takes beta of frame 0 in every frame": _summed(lambda c, a, b: a + b[:1]),
    "the posterior takes beta of the last frame in every frame": _summed(lambda c, a, b: a + b[-1:]),
    "the posterior takes alpha of the last frame in every frame": _summed(lambda c, a, b: a[-1:] + b),
    "the posterior takes beta twice (beta squared)": _summed(lambda c, a, b: 2 * (b + c.emitted)),
    "the posterior is its square root": lambda c, a, b, log_z: occupancy(c, (a + b - log_z) / 2),
    "the posterior is squared": lambda c, a, b, log_z: occupancy(c, 2 * (a + b - log_z)),
    "the posterior takes beta with the emission of the frame after in it": _summed(
        lambda c, a, b: a + b + _shift(c.emitted, 1, fill=0.0)),
    "the posterior takes beta with the emission of the frame before in it": _summed(
        lambda c, a, b: a + b + _shift(c.emitted, -1, fill=0.0)),
    "the emission of the frame after is missing from the posterior": _summed(
        lambda c, a, b: a + b - np.nan_to_num(_shift(c.emitted, 1, fill=0.0), neginf=0.0)),
    "the emission is in the posterior twice in the last frame": _summed(
        lambda c, a, b: a + b + np.append(0 * b[:-1], c.emitted[-1:], axis=0)),
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
    **{f"{who}{what}": _kept(chosen, how) for (who, chosen), (what, how) in itertools.product({
        "": lambda is_blank: True, "of the blanks alone, ": lambda is_blank: is_blank,
        "of a label that occurs more than once in the target, and not of the blanks, ": lambda is_blank: not is_blank,
    }.items(), {
        "states with the same symbol overwrite each other instead of adding up: the first is kept":
            lambda mass: mass[:, 0],
        "states with the same symbol overwrite each other instead of adding up: the last is kept, so only the last "
        "occurrence counts (occ[:, symbols] += ... does not add up)": lambda mass: mass[:, -1],
        "the largest state is kept (a maximum for a sum); states with the same symbol should add up":
            lambda mass: mass.max(axis=1),
        "the mean over the states with the same symbol is taken; they should add up": lambda mass: mass.mean(axis=1),
        "the posteriors are multiplied by the number of states with the same symbol":
            lambda mass: mass.sum(axis=1) * mass.shape[1],
        "the posteriors of states with the same symbol are multiplied; they should add up":
            lambda mass: mass.prod(axis=1),
    }.items())},
    "the posteriors of the blanks are missing": _part(lambda s, is_blank, S: not is_blank),
    "the posteriors of the labels are missing": _part(lambda s, is_blank, S: is_blank),
    "the posterior of the first blank is missing": _part(lambda s, is_blank, S: s > 0),
    "the posterior of the last blank is missing": _part(lambda s, is_blank, S: s < S - 1),
    "the posterior of the last label is missing": _part(lambda s, is_blank, S: s != S - 2),
    "the posterior of the first label is missing": _part(lambda s, is_blank, S: s != 1),
    "the posteriors of the first and the last blank are missing": _part(lambda s, is_blank, S: 0 < s < S - 1),
    "the posteriors of the states before the last two are missing": _part(lambda s, is_blank, S: s >= S - 2),
    "the posteriors of the last two states are missing": _part(lambda s, is_blank, S: s < S - 2),
    **{f"alpha and beta are rescaled in each frame, and the posterior {said}": _rescaled(made) for said, made in {
        "is their product as it is: the scales are not taken out": lambda a, b, p: p.mass - p.of(a) - p.of(b),
        "is their product divided by Z, as if they were not rescaled": lambda a, b, p: p.mass - p.of(a) - p.of(b) - p.z,
        "has the scales of alpha in it, as only alpha is rescaled": lambda a, b, p: p.mass - p.of(a),
        "has the scales of alpha in it, as only alpha is rescaled, and is divided by Z":
            lambda a, b, p: p.mass - p.of(a) - p.z,
        "has the scales of beta in it, as only beta is rescaled": lambda a, b, p: p.mass - p.of(b),
        "has the scales of beta in it, as only beta is rescaled, and is divided by Z":
            lambda a, b, p: p.mass - p.of(b) - p.z,
        "is divided by the scale of its frame once more": lambda a, b, p: p.mass - p.z - p.scale(a),
        "is multiplied by the scale of its frame": lambda a, b, p: p.mass - p.z + p.scale(a),
        "is divided by the scale of its frame once more, and not by the sum of the last two states":
            lambda a, b, p: p.mass - p.of(a)[-1] - p.scale(a),
        "is multiplied by the scale of its frame, and not divided by the sum of the last two states":
            lambda a, b, p: p.mass - p.of(a)[-1] + p.scale(a),
        "is divided by the scale of the next frame once more":
            lambda a, b, p: p.mass - p.z - np.append(p.scale(a)[1:], [[0.0]], axis=0),
        "has alpha's scale of frame 0 missing": lambda a, b, p: p.mass - p.z + p.of(a)[0],
    }.items()},
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


def _softmax_of(log_probs):
    return np.exp(log_probs - np.logaddexp.reduce(log_probs, axis=1, keepdims=True))


#: By the sentence that names it, a gradient from its softmax term (0 with respect to log-probs), occupancies, probs.
FORMULAS = {
    "the softmax is squared in the gradient": lambda soft, used, y: soft**2 - used,
    "the occupancy is squared in the gradient": lambda soft, used, y: soft - used**2,
    "the occupancy is multiplied by the softmax: y - y occupancy": lambda soft, used, y: soft - y * used,
    "the occupancy is divided by the softmax, and y is subtracted from that: y - occupancy / y":
        lambda soft, used, y: soft - np.where(y > 0, used / np.where(y > 0, y, 1.0), 0.0),
    "the gradient is multiplied by y (1 - y), as for a sigmoid": lambda soft, used, y: (soft - used) * y * (1 - y),
    "the softmax term is missing where an occupancy is 0": lambda soft, used, y: np.where(used > 0, soft, 0.0) - used,
    "the softmax term stands only where an occupancy is 0": lambda soft, used, y: np.where(used > 0, 0.0, soft) - used,
    "the softmax term is missing in the first frame": lambda soft, used, y: _but(soft, 0) - used,
    "the softmax term is missing in the last frame": lambda soft, used, y: _but(soft, -1) - used,
    "the posteriors are missing in the first frame": lambda soft, used, y: soft - _but(used, 0),
    "the posteriors are missing in the last frame": lambda soft, used, y: soft - _but(used, -1),
    "the softmax term of frame 0 stands in every frame": lambda soft, used, y: soft[:1] - used,
    "the posteriors of frame 0 stand in every frame": lambda soft, used, y: soft - used[:1],
    "the posteriors are averaged over the frames": lambda soft, used, y: soft - used.mean(axis=0),
    "the posteriors are summed over the frames": lambda soft, used, y: soft - used.sum(axis=0),
    "the softmax is averaged over the frames": lambda soft, used, y: soft.mean(axis=0) - used,
    "the posteriors are those of the next symbol (k + 1 for k)": lambda soft, used, y: soft - np.roll(used, -1, axis=1),
    "1 - occupancy stands where the occupancy belongs": lambda soft, used, y: soft - (1 - used),
    "1 - y stands where the softmax belongs": lambda soft, used, y: 1 * (soft > 0) - soft - used,
    "the logarithm of the softmax, its log-probs, stands where the softmax belongs":
        lambda soft, used, y: np.where(soft > 0, np.log(np.where(soft > 0, soft, 1.0)), 0.0) - used,
    **{f"the softmax in the gradient has a temperature of {1 / by:g}":
       lambda soft, used, y, by=by: (_softmax_of(by * np.log(soft)) if soft.any() else soft) - used
       for by in (0.1, 0.5, 0.7, 0.9, 1.1, 1.5, 2.0, 5.0)},
    **{f"the gradient is clipped to [-{at:g}, {at:g}]": lambda soft, used, y, at=at: np.clip(soft - used, -at, at)
       for at in (0.01, 0.1, 0.25, 0.5)},
}


def _but(term, frame):
    found = term.copy()
    found[frame] = 0.0
    return found


# --- the loss of a rescaled alpha ---


def _band(c, rows):
    """The rows where a state is reached from the beginning and leads to the end."""
    t, s = np.indices(rows.shape)
    return np.where((s < 2 * t + 2) & (s >= c.S - 2 * (len(rows) - t)), rows, -np.inf)


_RESCALED = {
    "alpha is divided by its sum in each frame": lambda c, a, b: np.logaddexp.reduce(a, axis=1),
    "alpha is divided by its sum over the band of states in each frame":
        lambda c, a, b: np.logaddexp.reduce(_band(c, a), axis=1),
    "alpha is divided by its maximum in each frame": lambda c, a, b: a.max(axis=1),
    "beta is divided by its sum in each frame": lambda c, a, b: np.logaddexp.reduce(b + c.emitted, axis=1)[::-1],
    "beta, without the emission, is divided by its sum in each frame":
        lambda c, a, b: np.logaddexp.reduce(b, axis=1)[::-1],
    "beta is divided by its maximum in each frame": lambda c, a, b: (b + c.emitted).max(axis=1)[::-1],
}
#: What the loss makes of the logs of the scales: (log Z, their cumulative sum, each).
_OF_SCALES = {
    "the scale of the first frame is missing in the loss": lambda z, total, scale: z - scale[0],
    "the scale of the last frame is missing in the loss": lambda z, total, scale: z - scale[-1],
    "the scales of the first and the last frame are missing in the loss":
        lambda z, total, scale: z - (scale[0] + scale[-1] if len(scale) > 1 else scale[0]),
    "the scales of all frames are missing in the loss": lambda z, total, scale: z - total[-1],
    "the scales of all frames but the last are missing in the loss": lambda z, total, scale: z - total[-1] + scale[-1],
    "the scales of all frames but the first are missing in the loss": lambda z, total, scale: z - total[-1] + scale[0],
    "the scale of the first frame is in the loss twice": lambda z, total, scale: z + scale[0],
    "the scale of the last frame is in the loss twice": lambda z, total, scale: z + scale[-1],
    "the scales are in the loss twice": lambda z, total, scale: z + total[-1],
    "the scales are subtracted in the loss": lambda z, total, scale: z - 2 * total[-1],
    "the loss is made of the scales alone, without the last two states": lambda z, total, scale: total[-1],
    "the loss is made of the scales alone, without that of the first frame and the last two states":
        lambda z, total, scale: total[-1] - scale[0],
    "the loss has the cumulative scales of all frames, added up": lambda z, total, scale: z - total[-1] + total.sum(),
    "the loss adds the scales, not their logs": lambda z, total, scale: z - total[-1] + np.exp(scale).sum(),
    "the loss takes the logs of the scales to base 2": lambda z, total, scale: z - total[-1] + total[-1] / np.log(2),
    "the loss takes the logs of the scales to base 10": lambda z, total, scale: z - total[-1] + total[-1] / np.log(10),
    "the loss has the mean of the scales' logs, not their sum": lambda z, total, scale: z - total[-1] + scale.mean(),
}


def _loss_of(rows, made):
    def loss(c, a, b, log_z):
        total = rows(c, a, b)
        return -made(log_z, total, np.diff(total, prepend=0.0))
    return loss


#: By the sentence that names it, a loss from a lattice, its alpha, beta and log Z.
LOSSES = {
    **{f"{which}, and {said}": _loss_of(rows, made)
       for (which, rows), (said, made) in itertools.product(_RESCALED.items(), _OF_SCALES.items())},
    "it is made of the last label's alpha and the blank before it": lambda c, a, b, log_z: -np.logaddexp.reduce(
        a[-1, -3:-1] if c.S > 1 else a[-1]),
    "log Z is read in the frame before the last (T - 2 for T - 1)":
        lambda c, a, b, log_z: -np.logaddexp.reduce(a[-2 if len(a) > 1 else -1, -2:]),
    "log Z is that of beta in frame 0, without the emissions of frame 0":
        lambda c, a, b, log_z: -np.logaddexp.reduce(b[0, :2]),
    "log Z is that of beta in frame 0 in the first blank alone": lambda c, a, b, log_z: -(b[0, 0] + c.emitted[0, 0]),
    "log Z is the sum of alpha beta in a frame, with the emission in it twice": lambda c, a, b, log_z:
        -np.logaddexp.reduce((a + b + c.emitted)[0]),
}
