"""Every check of an argument, in one place. Nothing here computes a loss.

A message names the argument, the offending value and the rule: ``targets[1, 3] = 7; expected 0 <= label < V = 5``.
The wrong kind of thing is a ``TypeError``, the wrong value or shape a ``ValueError``. Arguments are never modified.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping

import numpy as np

_FLOATS = (np.float16, np.float32, np.float64)
_INTEGERS = (np.int32, np.int64)


class NoAlignment(ValueError):
    """No path of the target has any mass, so there is nothing to align; the message says where the paths end."""


def _fail(name, index, value, rule):
    place = f"{name}[{', '.join(map(str, index))}]" if index else name
    raise ValueError(f"{place} = {value}; expected {rule}")


def check_int(name, value):
    """An integer (not a bool) as an ``int``."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} = {value!r}; expected an integer")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} = {value!r}; expected an integer") from None


def check_bool(name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} = {value!r}; expected True or False")
    return bool(value)


def check_at_least(name, value, least):
    return check_size(name, check_int(name, value), least)


def check_size(name, size, least):
    """The size of an axis, which is an integer, and for a tracer of torch a symbol that has to stay one."""
    if size < least:
        _fail(name, (), size, f"{name} >= {least}")
    return size


def check_real(name, value, rule, accept):
    """A finite real number (not a bool) for which ``accept(value)`` holds, as a float; ``rule`` says that in words."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} = {value!r}; expected a number")
    if not (-math.inf < value < math.inf and accept(value)):
        _fail(name, (), value, rule)
    return float(value)


def check_fastemit_lambda(fastemit_lambda):
    return check_real("fastemit_lambda", fastemit_lambda, "a finite number >= 0", lambda value: value >= 0)


def check_sigma(sigma):
    return check_real("sigma", sigma, "a finite number >= 0", lambda value: value >= 0)


def check_division(semiring):
    """A semiring whose masses can be divided."""
    if semiring.ratio is None:
        raise ValueError(f"semiring = {semiring.name!r}, which has no division; expected one with a ratio, "
                         "such as LOG or REAL")


def check_blank(blank, num_symbols):
    """``blank`` as an int in [0, V)."""
    blank = check_int("blank", blank)
    num_symbols = check_size("V", num_symbols, 1)
    if not 0 <= blank < num_symbols:
        _fail("blank", (), blank, f"0 <= blank < V = {num_symbols}")
    return blank


def check_big_blanks(big_blanks, num_symbols, blank):
    """Pairs of symbol and frames, from a mapping; whether a symbol is also a label is for the targets' check."""
    if not isinstance(big_blanks, Mapping):
        raise TypeError(f"big_blanks = {big_blanks!r}; expected a mapping from symbols to frames")
    pairs = []
    for symbol, frames in big_blanks.items():
        symbol = check_int("big_blanks", symbol)
        if not 0 <= symbol < num_symbols or symbol == blank:
            _fail("big_blanks", (), symbol, f"0 <= symbol < V = {num_symbols}, and not blank = {blank}")
        pairs.append((symbol, check_at_least(f"big_blanks[{symbol}]", frames, 2)))
    return tuple(pairs)


def check_durations(durations):
    """A tuple of ints, rising from 0 or more, not only 0."""
    durations = tuple(check_int(f"durations[{i}]", frames) for i, frames in enumerate(durations))
    if not durations or durations[0] < 0 or durations[-1] < 1 or list(durations) != sorted(set(durations)):
        raise ValueError(f"durations = {durations}; expected frames in rising order, none below 0 and one above 0")
    return durations


def check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} = {value!r}; expected one of {', '.join(map(repr, choices))}")
    return value


def check_scores(name, scores, rank, axes, dtypes=_FLOATS):
    """Logits or log-probs: a floating-point array of the given rank; values are looked at by :func:`check_finite`."""
    scores = np.asarray(scores)
    if scores.dtype not in dtypes:
        raise TypeError(f"{name} has dtype {scores.dtype}; expected {' or '.join(np.dtype(d).name for d in dtypes)}")
    check_rank(name, scores.shape, rank, axes)
    return scores


def check_rank(name, shape, rank, axes):
    """The number of axes; ``axes`` spells them out."""
    if len(shape) != rank:
        raise ValueError(f"{name} has shape {tuple(shape)}; expected {rank} {'axis' if rank == 1 else 'axes'} {axes}")


def check_no_nan_or_inf(name, scores, offset=(), first_row=0):
    """No NaN and no ``+inf`` (``-inf`` is a mask and allowed); ``offset`` is put before the reported index.

    ``first_row`` is the index of the first row of ``scores``, where they are a part of what the user has.
    """
    bad = ~(scores < np.inf)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        shown = (index[0] + first_row, *index[1:]) if index else index
        _fail(name, (*offset, *shown), scores[index], "no NaN and no +inf (-inf masks an entry)")


def check_log_probs(name, log_probs, rank, axes):
    """Log-probs or logits of one utterance, as float64, without NaN or ``+inf``."""
    log_probs = check_scores(name, log_probs, rank, axes).astype(np.float64)
    check_no_nan_or_inf(name, log_probs)
    return log_probs


def check_masses(name, log_probs):
    """Log-probs (T, V) of one utterance, no frame of which has more than mass 1, so neither logits nor probabilities.

    The log-mass of probabilities is at least 1, and rounding to half precision may leave one of 0.03.
    """
    log_probs = check_log_probs(name, log_probs, 2, "(T, V)")
    log_mass = np.logaddexp.reduce(log_probs, axis=1)
    if len(log_mass) and log_mass.max() > 0.05:
        t = int(log_mass.argmax())
        _fail(f"log-sum-exp of {name}[{t}]", (), log_mass[t], "at most 0, as of log-probs")
    return log_probs


def check_row(name, row, blank):
    """What a transducer says of all frames after a prefix: log-probs (T, V), T >= 1."""
    row = check_masses(name, row)
    check_at_least("T", len(row), 1)
    check_blank(blank, row.shape[1])
    return row


def check_entries(name, scores, shape):
    """Logits or log-probs of exactly the given shape, that of a lattice's entries, as float64."""
    return check_weights(name, check_log_probs(name, scores, len(shape), str(shape)), shape)


def check_parts(name, scores, shape, groups):
    """The same, cut along the last axis: a list of arrays of the sizes ``groups``, each normalised apart; None: one."""
    scores = check_entries(name, scores, shape)
    groups = (scores.shape[-1],) if groups is None else tuple(groups)
    if sum(groups) != scores.shape[-1]:
        raise ValueError(f"groups = {groups}; expected sizes that add up to the last axis, {scores.shape[-1]}")
    return np.split(scores, np.cumsum(groups)[:-1], axis=-1)


def check_finite(name, values, shape):
    """An array of finite numbers of exactly the given shape, as float64."""
    values = check_weights(name, values, shape)
    if not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
        raise TypeError(f"{name} has dtype {values.dtype}; expected real numbers")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        _fail(name, index, values[index], "a finite number")
    return values


def check_probs(name, probs, rank, axes):
    """Probabilities, not necessarily normalised: an array of floats, whose dtype is kept, or of exact objects."""
    probs = np.asarray(probs)
    if probs.dtype != object:
        probs = check_scores(name, probs, rank, axes)
    check_rank(name, probs.shape, rank, axes)
    bad = ~((probs >= 0) & (probs < np.inf))
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        _fail(name, index, probs[index], "a finite number >= 0")
    return probs


def check_integers(name, values, rank, axes):
    """An int32 or int64 array of the given rank, as int64. An empty list is taken for an empty int64 array."""
    if isinstance(values, list | tuple) and len(values) == 0:
        values = np.zeros((0,) * rank, np.int64)
    values = np.asarray(values)
    if values.dtype not in _INTEGERS:
        raise TypeError(f"{name} has dtype {values.dtype}; expected int32 or int64")
    check_rank(name, values.shape, rank, axes)
    return values.astype(np.int64)


def check_targets(targets, num_symbols, blank, *, name="targets"):
    """The labels of one utterance, as int64: inside [0, V), none equal to ``blank``."""
    targets = check_integers(name, targets, 1, "(U,)")
    _check_labels(targets, num_symbols, blank, (), name)
    return targets


def _check_labels(labels, num_symbols, blank, offset, name="targets"):
    for u, label in enumerate(labels.tolist()):
        if not 0 <= label < num_symbols:
            _fail(name, (*offset, u), label, f"0 <= label < V = {num_symbols}")
        if label == blank:
            _fail(name, (*offset, u), label, f"a label other than blank = {blank}")


def check_rows(name, rows, target_axis, extra=False):
    """RNN-T: one row more than there are labels, or with ``extra`` at least one."""
    if rows < target_axis + 1 or rows > target_axis + 1 and not extra:
        raise ValueError(f"{name} has {rows} rows on its U+1 axis; expected {'at least ' * extra}U + 1 = "
                         f"{target_axis + 1}, one more than the {target_axis} columns of targets")


def check_batch_axis(logits_shape, targets_shape, logit_lengths_shape, target_lengths_shape):
    """One and the same B for the four arguments. A time-first (T, B, V) tensor is caught here."""
    B = logits_shape[0]
    for name, shape in (("targets", targets_shape), ("logit_lengths", logit_lengths_shape),
                        ("target_lengths", target_lengths_shape)):
        if shape[0] != B:
            raise ValueError(f"{name} has shape {tuple(shape)}; expected B = {B} first, as in logits with shape "
                             f"{tuple(logits_shape)} (batch first)")


def check_lengths(logit_lengths, target_lengths, num_frames, num_labels, least_frames):
    """Lengths inside their axes: int64 NumPy arrays."""
    for name, lengths, low, high, axis in (("logit_lengths", logit_lengths, least_frames, num_frames, "T"),
                                           ("target_lengths", target_lengths, 0, num_labels, "U")):
        for b, length in enumerate(lengths.tolist()):
            if not low <= length <= high:
                _fail(name, (b,), length, f"{low} <= length <= {axis} = {high}")


def check_batch_values(targets, logit_lengths, target_lengths, num_frames, num_symbols, blank, least_frames):
    """Lengths inside their axes, and the labels in use; padding is not looked at. int64 NumPy arrays."""
    check_lengths(logit_lengths, target_lengths, num_frames, targets.shape[1], least_frames)
    for b, length in enumerate(target_lengths.tolist()):
        _check_labels(targets[b, :length], num_symbols, blank, (b,))


def check_frames_for(targets, num_frames):
    """CTC: a frame for each label, and one for the blank between two equal labels; of checked targets."""
    repeats = int((targets[1:] == targets[:-1]).sum())
    if num_frames < len(targets) + repeats:
        raise NoAlignment(f"log_probs has T = {num_frames} frames; expected T >= U + R = {len(targets) + repeats}, for "
                          f"U = {len(targets)} labels of which R = {repeats} equal the one before")


def no_path_beyond(frame, inside=""):
    """The error for a target all of whose paths have used an entry ``-inf``, or left a band, when a frame is done."""
    return NoAlignment(f"log_probs has no path for targets{inside} that is finite up to frame t = {frame}; expected "
                       "one that uses no entry -inf")


def check_word_lengths(word_lengths, num_labels):
    """Labels of each word, as int64: at least 1 each, and together all labels of the target."""
    word_lengths = check_integers("word_lengths", word_lengths, 1, "(W,)")
    for w, length in enumerate(word_lengths.tolist()):
        if length < 1:
            _fail("word_lengths", (w,), length, "word_lengths >= 1")
    if word_lengths.sum() != num_labels:
        raise ValueError(f"word_lengths = {word_lengths.tolist()} with the sum {word_lengths.sum()}; expected the sum "
                         f"U = {num_labels}")
    return word_lengths


def check_words(words, num_symbols, blank):
    """Words as int64 arrays of labels, none of them empty, inside [0, V) and other than the blank."""
    checked = []
    for w, word in enumerate(words):
        word = check_integers(f"words[{w}]", word, 1, "(labels,)")
        if len(word) == 0:
            _fail("words", (w,), "[]", "at least one label in each word")
        for i, label in enumerate(word.tolist()):
            if not 0 <= label < num_symbols or label == blank:
                _fail("words", (w, i), label, f"0 <= label < V = {num_symbols}, and not blank = {blank}")
        checked.append(word)
    return checked


def check_prices(star_score, skip_cost):
    """The score of a frame of a star, ``-inf`` for None (no stars); the cost of a word passed over, or None."""
    star_score = -math.inf if star_score is None else check_real(
        "star_score", star_score, "a finite number, or None", lambda value: True)
    return star_score, skip_cost if skip_cost is None else check_real(
        "skip_cost", skip_cost, "a finite number, or None", lambda value: True)


def check_gaps(stars, num_words):
    """In which of the gaps around the words a star may stand: (W+1,) bools; None: in all."""
    stars = np.ones(num_words + 1, bool) if stars is None else np.asarray(stars)
    if stars.dtype != bool:
        raise TypeError(f"stars has dtype {stars.dtype}; expected bool")
    return check_weights("stars", stars, (num_words + 1,))


def check_spans(first, last, count, num_frames, *, rising=False):
    """First and last frames of ``count`` labels or words, as int64: inside the utterance, first <= last."""
    first, last = check_integers("first", first, 1, "(N,)"), check_integers("last", last, 1, "(N,)")
    for name, frames in (("first", first), ("last", last)):
        check_weights(name, frames, (count,))
        for i, frame in enumerate(frames.tolist()):
            if not 0 <= frame < num_frames:
                _fail(name, (i,), frame, f"0 <= frame < T = {num_frames}")
            if rising and i > 0 and frame < frames[i - 1]:
                _fail(name, (i,), frame, f"no less than the frame before it, {frames[i - 1]}")
    for i, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if end < start:
            _fail("last", (i,), end, f"last >= first = {start}")
    return first, last


def check_distribution(name, distribution):
    """Rows of probabilities over frames, (..., T), T >= 1, that add up to 1 but for 1e-6; as float64, to exactly 1."""
    distribution = np.asarray(distribution)
    distribution = check_finite(name, distribution, distribution.shape)
    if distribution.ndim == 0 or distribution.shape[-1] == 0:
        raise ValueError(f"{name} has shape {distribution.shape}; expected (..., T) with T >= 1")
    if (distribution < 0).any():
        index = tuple(int(i) for i in np.argwhere(distribution < 0)[0])
        _fail(name, index, distribution[index], "probabilities >= 0")
    sums = distribution.sum(-1)
    bad = np.abs(sums - 1) > 1e-6
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        _fail(name, index, f"a row with the sum {sums[index]}", "a row with the sum 1")
    return distribution / sums[..., None]


def check_band_height(rows, target_axis):
    """Rows of a band: no more than the grid has."""
    if not 1 <= rows <= target_axis + 1:
        _fail("Q", (), rows, f"1 <= Q <= U + 1 = {target_axis + 1} rows")


def check_label_band(first_labels, num_frames, num_labels):
    """The lowest label of a band of CTC in each frame, which never falls: int64 (T,)."""
    first_labels = check_weights("first_labels", check_integers("first_labels", first_labels, 1, "(T,)"), (num_frames,))
    for t in np.flatnonzero((first_labels < 0) | (first_labels > num_labels))[:1]:
        _fail("first_labels", (int(t),), first_labels[t], f"0 <= first_labels <= U = {num_labels}")
    for t in np.flatnonzero(first_labels[1:] < first_labels[:-1])[:1] + 1:
        _fail("first_labels", (int(t),), first_labels[t], f"no less than in the frame before, {first_labels[t - 1]}")
    return first_labels


def check_first_rows(first_rows, logit_lengths, highest):
    """Where a band lies, in the frames in use: NumPy arrays."""
    for b, length in enumerate(logit_lengths.tolist()):
        for t, first in enumerate(first_rows[b, :length].tolist()):
            if not 0 <= first <= highest:
                _fail("first_rows", (b, t), first, f"0 <= row <= U + 1 - Q = {highest}")


def check_lattice(lattice):
    """Arcs go forward in the order of the nodes; entries lie inside ``shape``."""
    if len(lattice.nodes) < 2:
        raise ValueError(f"nodes has length {len(lattice.nodes)}; expected a start and an end node at least")
    for i, arc in enumerate(lattice.arcs):
        if not 0 <= arc.source < arc.target < len(lattice.nodes):
            _fail("arcs", (i,), (arc.source, arc.target), f"0 <= source < target < {len(lattice.nodes)}")
        entry = arc.entry
        if entry is not None and not (len(entry) == len(lattice.shape)
                                      and all(0 <= i < n for i, n in zip(entry, lattice.shape, strict=True))):
            _fail("arcs", (i,), entry, f"an entry inside shape {lattice.shape}")


def check_weights(name, weights, shape):
    """An array of exactly the given shape, of any dtype."""
    weights = np.asarray(weights)
    if weights.shape != tuple(shape):
        raise ValueError(f"{name} has shape {weights.shape}; expected {tuple(shape)}")
    return weights
