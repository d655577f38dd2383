"""Names for wrong numbers by their likeness to the right ones: bits for nats, an eps, a stand-in for -inf, float32.

Each name says what was done to a right answer, or to numbers on the way to it, and is given only if it explains every
wrong answer. Nothing here knows what a question is about, but for the sizes of its utterance.
"""

from __future__ import annotations

import math

import numpy as np

from .tried import STANDS_IN, same

__all__ = ["hint", "sign"]

_ROUNDING = 3e-6  # what float32 is off by is at most so much
_NEAR = 0.02  # and what is nearly right
_SMALL = 0.1  # an eps is smaller


def sign(wrong, log_z=None) -> str:
    """The first likeness of all wrong answers to what is right; empty if there is none.

    Parameters
    ----------
    wrong : list of Tried
    log_z : callable, optional
        log Z of a case, or None.
    """
    if not wrong or any(each.value is None or each.value.dtype.kind not in "if" or np.isnan(each.value).any()
                        or np.asarray(each.expected).dtype.kind not in "if" for each in wrong):
        return ""
    pairs = [(np.asarray(each.value, float), np.asarray(each.expected, float)) for each in wrong]
    with np.errstate(all="ignore"):
        return (_simple(wrong, pairs) or _stand_in(wrong, pairs) or _epsilon(wrong, pairs)
                or _over_z(wrong, pairs, log_z) or _moved(wrong, pairs) or _rescaled(wrong, pairs)
                or _shared(wrong, pairs))


def hint(wrong) -> str:
    """What can be seen of wrong numbers that have no name: that they are nearly right, or that some are missing."""
    values = [(each.value, np.asarray(each.expected, float)) for each in wrong]
    if not values or any(value is None for value, _ in values):
        return ""
    if all(_absent(each.value, right, each.tolerance, -np.inf) for each, (_, right) in zip(wrong, values, strict=True)):
        return ("-inf stands where paths lead, and all else is right: these entries are not computed, or are read "
                "before they are.")
    if all(_absent(each.value, right, each.tolerance, 0.0) for each, (_, right) in zip(wrong, values, strict=True)):
        return "0 stands where something else belongs, and all else is right: these entries are not computed."
    with np.errstate(all="ignore"):
        if all(same(value, right, _ROUNDING) for value, right in values):
            return ("It is right to six digits, and no further: something in it is rounded, as numbers are in float32, "
                    "or has a small number added.")
        if all(same(value, right, _NEAR) for value, right in values):
            return ("It is nearly right, to about two digits: something in it is too rough, such as the step of a "
                    "difference quotient, a number that was rounded, or one that was added and is not small enough.")
    return ""


def _absent(value, right, tolerance, absent):
    """Whether all wrong entries of an array are this number."""
    return value.ndim > 0 and same(np.where(value == absent, right, value), right, tolerance)


def _all(wrong, pairs, made):
    """Whether ``made(right)`` is each of the answers."""
    return all(same(value, made(right), each.tolerance) for each, (value, right) in zip(wrong, pairs, strict=True))


def _simple(wrong, pairs):
    """One operation on what is right."""
    if all(np.array_equal(value.astype(np.float32), value) and same(value, right, _ROUNDING) for value, right in pairs):
        return "It is right to seven digits only: its numbers are stored in float32."
    for said, made in (
        ("It is in bits, a logarithm to base 2; nats are asked for.", lambda right: right / math.log(2)),
        ("It is a logarithm to base 10; nats are asked for.", lambda right: right / math.log(10)),
        ("Its sign is wrong, and nothing else.", lambda right: -right),
        ("It is the exponential of what is asked for.", np.exp),
        ("It is the logarithm of what is asked for.", np.log),
    ):
        if _all(wrong, pairs, made):
            return said
    return _divided(wrong, pairs)


def _sizes(case):
    """By their names, numbers by which an answer might be divided."""
    scores = next((case.arguments[name] for name in ("log_probs", "logits", "log_alpha") if name in case.arguments),
                  None)
    if scores is None:
        return {}
    found = {"the number of frames": len(scores)}
    if "targets" in case.arguments:
        U = len(case.arguments["targets"])
        found |= {"the number of labels": max(U, 1), "the number of states, 2U + 1": 2 * U + 1,
                  "the number of rows, U + 1": U + 1, "T + U": len(scores) + U, "T U": len(scores) * max(U, 1),
                  "the number of symbols": scores.shape[-1], "the number of scores": scores.size}
    return found


def _divided(wrong, pairs):
    sizes = [_sizes(each.case) for each in wrong]
    for name in sizes[0]:
        if len({size[name] for size in sizes if name in size}) < 2 < len(wrong):
            continue  # the same number everywhere is no proof
        if all(name in size and same(value * size[name], right, each.tolerance * size[name])
               for each, size, (value, right) in zip(wrong, sizes, pairs, strict=True)):
            return f"It is divided by {name}."
        if all(name in size and same(value, right * size[name], each.tolerance * size[name])
               for each, size, (value, right) in zip(wrong, sizes, pairs, strict=True)):
            return f"It is multiplied by {name}."
    return ""


def _stand_in(wrong, pairs):
    """A large number where an infinity belongs, and all else right."""
    found = []
    for each, (value, right) in zip(wrong, pairs, strict=True):
        there = np.isinf(right) & np.isfinite(value)
        if not there.any() or not same(np.where(there, right, value), right, each.tolerance):
            return ""
        if (np.abs(value[there]) < STANDS_IN).any() or (np.sign(value[there]) != np.sign(right[there])).any():
            return ""
        found.append(value[there].ravel()[0])
    infinity = "-inf" if found[0] < 0 else "inf"
    return (f"{found[0]:g} stands where {infinity} is asked for. No path leads there: a probability of 0 has the "
            f"logarithm -inf, and -np.inf can be added.")


def _epsilon(wrong, pairs):
    """log(x + eps), or minus that, with one small eps in all answers; it is fitted, and so there have to be several."""
    if sum(right.size for _, right in pairs) < 3:
        return ""
    for factor in (1, -1):
        sizes = []
        for value, right in pairs:
            value, right = np.ravel(factor * value), np.ravel(factor * right)
            if not np.isfinite(value).all():
                break
            i = np.argmin(right)
            sizes.append(np.exp(value[i]) - np.exp(right[i]))
        else:
            eps = float(np.median(sizes))
            if 0 < eps < _SMALL and all(
                    same(factor * value, np.logaddexp(factor * right, np.log(eps)), 100 * each.tolerance)
                    for each, (value, right) in zip(wrong, pairs, strict=True)):
                return (f"{eps:.3g} is added in the logarithm, log(x + {eps:.3g}); where x is small that is another "
                        "number. A log of 0 may be -inf.")
    return ""


def _over_z(wrong, pairs, log_z):
    """Divided by Z + eps."""
    if log_z is None:
        return ""
    sizes = []
    for each, (value, right) in zip(wrong, pairs, strict=True):
        ratio, total = _ratio(value, right, each.tolerance, least=1), log_z(each.case)
        if total is None:
            continue
        if ratio is None or not 0 < ratio < 1 or not np.isfinite(total):
            return ""
        sizes.append(np.exp(total) * (1 / ratio - 1))
    if len(sizes) > 1 and 0 < max(sizes) < 1.01 * min(sizes):
        return (f"It is divided by Z + {np.median(sizes):.2g}, where Z belongs; a long utterance has a Z that is "
                "smaller than any such number.")
    return ""


def _ratio(value, right, tolerance, least=2):
    """The one factor between two arrays with at least so many entries that are not 0; None if there is none."""
    used = np.isfinite(right) & (np.abs(right) > 1e-6)
    if used.sum() < least:
        return None
    ratio = float(np.median(value[used] / right[used]))
    return ratio if np.isfinite(ratio) and same(value, right * ratio, 10 * tolerance) else None


def _moved(wrong, pairs):
    """Another order of frames, rows or symbols."""
    def everywhere(made):
        return all(value.ndim > 1 for value, _ in pairs) and _all(wrong, pairs, made)

    for said, made in (
        ("Its frames run backward: row 0 is the last frame.", lambda right: right[::-1]),
        ("Its rows run backward: the last one comes first.", lambda right: right[:, ::-1]),
        ("Its last axis runs backward.", lambda right: right[..., ::-1]),
    ):
        if everywhere(made):
            return said
    many = [(value, right, each.tolerance) for each, (value, right) in zip(wrong, pairs, strict=True)
            if right.ndim > 1 and len(right) > 2]
    if many and len(many) == sum(right.ndim > 1 and len(right) > 1 for _, right in pairs):
        if all(same(value[1:], right[:-1], tolerance) for value, right, tolerance in many):
            return "It is one frame late: what belongs to frame t stands at frame t + 1."
        if all(same(value[:-1], right[1:], tolerance) for value, right, tolerance in many):
            return "It is one frame early: what belongs to frame t + 1 stands at frame t."
    return ""


def _rescaled(wrong, pairs):
    """Logarithms of which each frame is off by an amount of its own."""
    sums, largest, several = True, True, False
    if not all(right.ndim == 2 for _, right in pairs) or not any(len(right) > 1 for _, right in pairs):
        return ""
    for each, (value, right) in zip(wrong, pairs, strict=True):
        finite = np.isfinite(right)
        if not np.array_equal(finite, np.isfinite(value)):
            return ""
        several |= bool((finite.sum(axis=1) > 1).any())
        apart = np.where(finite, value - right, np.nan)
        if (np.nanmax(apart, axis=1) - np.nanmin(apart, axis=1) > 10 * each.tolerance).any():
            return ""
        used = value[finite.any(axis=1)]
        sums &= bool(np.allclose(np.logaddexp.reduce(used[1:], axis=1), 0.0, atol=1e-9))
        largest &= bool(np.allclose(used[1:].max(axis=1, initial=-np.inf), 0.0, atol=1e-9))
    if not several:
        return ""
    if sums:
        return ("Each frame is rescaled so that its states add up to 1, and the factors are lost; keep the sum of "
                "their logarithms, and put it back.")
    if largest:
        return ("Each frame is rescaled so that its largest is 1, and the factors are lost; keep the sum of their "
                "logarithms, and put it back.")
    apart = [np.ptp(np.nanmean(np.where(np.isfinite(right), value - right, np.nan), axis=1)) for value, right in pairs]
    if max(apart) < 1e-6:
        return ("In each input all logarithms are off by one amount: a factor that all paths share is missing, or is "
                "there twice.")
    return ("Each frame is off by an amount of its own: a factor that all its states share is missing, or is there "
            "twice.")


def _shared(wrong, pairs):
    """All entries of an answer off by one factor."""
    ratios = [_ratio(value, right, each.tolerance) for each, (value, right) in zip(wrong, pairs, strict=True)]
    if None in ratios or 0.0 in ratios:
        return ""
    if max(ratios) - min(ratios) < 1e-6 * max(map(abs, ratios)) and len(ratios) > 1:
        return f"It is {ratios[0]:.6g} times what is asked for."
    return ("In each input all entries are off by one factor, which differs from input to input: what they share is "
            "wrong, such as Z.")
