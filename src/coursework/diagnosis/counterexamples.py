"""What wrong answers have in common, and the smallest input that shows it, drawn as text. It names no mistake."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reference_impl import log_softmax
from reference_impl.conformance.cases import Case as KitCase
from reference_impl.conformance.drawing import alignments
from reference_impl.conformance.judging import Wrong
from reference_impl.conformance.locating import located
from reference_impl.conformance.problem import LOSSES

from ..questions.ladders import GRADIENT, LOG_ALPHA, LOG_BETA

__all__ = ["circumstances", "drawn", "places"]

_PATHS = 8  # that are written out
_ENTRIES = 60  # of an array that is written out
_DIGITS = (5, 9, 15)  # as many as are needed to see a difference
_INDENT = " " * 6  # in Markdown, code within an item of a list


# --- which inputs ---


def _of(case):
    """What is asked of an input's features: scores, targets, blank and lambda, as far as there are any."""
    given = case.arguments
    scores = next((given[name] for name in ("log_probs", "logits") if name in given), None)
    return scores, given.get("targets"), given.get("blank"), given.get("lam")


def _rows(case):
    """An array with a row for each frame; nothing if there is none."""
    return next((case.arguments[name] for name in ("log_probs", "logits", "log_alpha") if name in case.arguments), ())


def _with_targets(holds):
    return lambda each: each.case.arguments.get("targets") is not None and holds(
        each, np.asarray(each.case.arguments["targets"]))


def _with_scores(holds):
    def found(each):
        scores = _of(each.case)[0]
        return scores is not None and holds(each, scores)
    return found


def _table(holds):
    """Of questions about alpha and beta: whether it holds of alpha."""
    return lambda each: "log_alpha" in each.case.arguments and holds(each.case.arguments["log_alpha"])


def _labels(each):
    """The length of the target; a number that is none if there is no target."""
    return len(each.case.arguments.get("targets", ())) if "targets" in each.case.arguments else np.nan


def _impossible(each, scores):
    """Where the rules are a student's own, what is right says it: a loss of inf, or a gradient that is 0 everywhere."""
    given = each.case.arguments
    if "targets" not in given:
        return False
    if "rule" in each.case.facts:
        right = np.asarray(each.expected)
        return bool(right == np.inf) if right.ndim == 0 else right.shape == scores.shape and not right.any()
    loss = LOSSES["ctc" if scores.ndim == 2 else "rnnt"].loss
    return loss(log_softmax(scores), given["targets"], blank=given["blank"]) == np.inf


def _twice(targets):
    return len(set(targets.tolist())) < len(targets)


#: By what is said of them, sets of inputs. The first of equal ones is said.
_SETS = {
    "no alignment exists": _with_scores(_impossible),
    "the target is empty": _with_targets(lambda each, targets: not len(targets)),
    "a score is -inf": _with_scores(lambda each, scores: bool(np.isinf(scores).any())),
    "two equal labels stand side by side": _with_targets(lambda each, y: bool((y[1:] == y[:-1]).any())),
    "a label occurs twice in the target": _with_targets(lambda each, y: _twice(y)),
    "the blank is not 0": lambda each: each.case.arguments.get("blank", 0) != 0,
    "the blank is 0": lambda each: each.case.arguments.get("blank", 1) == 0,
    "lambda is not 0": lambda each: bool(each.case.arguments.get("lam")),
    "lambda is 0": lambda each: each.case.arguments.get("lam") == 0,
    "there is one frame (T = 1)": _with_scores(lambda each, scores: len(scores) == 1),
    "there are as many frames as labels (T = U)": _with_scores(lambda each, scores: len(scores) == _labels(each)),
    "there are more labels than frames (U > T)": _with_scores(lambda each, scores: len(scores) < _labels(each)),
    "there is one label (U = 1)": _with_targets(lambda each, targets: len(targets) == 1),
    "there are more than two labels (U > 2)": _with_targets(lambda each, targets: len(targets) > 2),
    "there is more than one label (U > 1)": _with_targets(lambda each, targets: len(targets) > 1),
    "there are two different labels": _with_targets(lambda each, targets: len(set(targets.tolist())) > 1),
    "there are labels": _with_targets(lambda each, targets: len(targets) > 0),
    "there is one state": _table(lambda alpha: alpha.shape[1] == 1),
    "there is more than one state": _table(lambda alpha: alpha.shape[1] > 1),
    "there is more than one frame (T > 1)": lambda each: len(_rows(each.case)) > 1,
    "there are more than two frames (T > 2)": lambda each: len(_rows(each.case)) > 2,
    "all labels differ": _with_targets(lambda each, targets: not _twice(targets)),
    "an alignment exists": _with_scores(lambda each, scores: not _impossible(each, scores)),
    "no score is -inf": _with_scores(lambda each, scores: bool(np.isfinite(scores).all())),
    "the frames differ from each other": _with_scores(lambda each, scores: bool((scores != scores[:1]).any())),
    "the scores differ from each other": _with_scores(lambda each, scores: bool(np.ptp(scores[np.isfinite(scores)]))),
}


def circumstances(tried) -> str:
    """On which inputs it fails, as a sentence: on all, or on those that have something in common; empty if on none."""
    wrong = [each for each in tried if each.wrong]
    right = [each for each in tried if not each.wrong]
    if not wrong:
        return ""
    if not right:
        return f"It fails on all {len(wrong)} inputs that were tried."
    count = {said: (sum(holds(each) for each in wrong), sum(holds(each) for each in right))
             for said, holds in _SETS.items()}
    for said, (fails, passes) in count.items():
        if fails == len(wrong) and not passes:
            return (f"It fails where {_of_one_blank(said, wrong)}: on all {fails} such inputs that were tried, and on "
                    f"none of the {len(right)} others.")
    pairs = [(one, other) for i, one in enumerate(_SETS) for other in list(_SETS)[i + 1:]
             if count[one][0] == count[other][0] == len(wrong)]
    for one, other in pairs:
        if not any(_SETS[one](each) and _SETS[other](each) for each in right):
            return (f"It fails where {_of_one_blank(one, wrong)} and {other}: on all {len(wrong)} such inputs that "
                    f"were tried, and on none of the {len(right)} others.")
    least = min((passes for fails, passes in count.values() if fails == len(wrong)), default=len(right))
    for said, (fails, passes) in count.items():
        if fails == len(wrong) and passes == least < len(right):
            return (f"It fails only where {_of_one_blank(said, wrong)}: on {fails} of {fails + passes} such inputs "
                    f"that were tried, and on none of the {len(right) - passes} others.")
    return f"It fails on {len(wrong)} of the {len(tried)} inputs that were tried."


def _of_one_blank(said, wrong):
    blanks = {each.case.arguments.get("blank") for each in wrong}
    return f"the blank is {blanks.pop()}" if said == "the blank is not 0" and len(blanks) == 1 else said


# --- which entries ---


def places(ladder, tried) -> str:
    """A sentence on the entries that are wrong, if they have something in common and others are right; else empty."""
    if ladder is None:
        return ""
    if ladder.problem_of is None:
        return _said(_in_rows([each for each in tried if each.wrong]))
    wrong = [(problem, each) for each in tried if each.wrong and each.value is not None
             and (problem := ladder.problem_of(each.case)) is not None]
    if not wrong or any(np.isnan(each.value).any() for _, each in wrong):
        return ""
    if ladder.about == GRADIENT:
        where = located([Wrong(KitCase(problem, "float64", each.tolerance, each.tolerance), "gradient",
                               ladder.sign * each.value, ladder.sign * each.expected, "") for problem, each in wrong])
    elif ladder.about in (LOG_ALPHA, LOG_BETA):
        where = _in_table(wrong)
    else:
        return ""
    return _said(where)


def _said(where):
    return f"The wrong entries are all {where}; elsewhere it is right." if where else ""


def _smallest_set(wrong, sets_of):
    """What is said of the smallest of the sets of entries, ``sets_of(what, shape)``, that has all wrong ones."""
    sizes = {}
    for what, each in wrong:
        apart = ~np.isclose(each.value, each.expected, rtol=each.tolerance, atol=each.tolerance)
        for said, inside in sets_of(what, apart.shape).items():
            size, covers = sizes.get(said, (0, True))
            sizes[said] = size + int(inside.sum()), covers and not (apart & ~inside).any()
    whole = sum(each.value.size for _, each in wrong)
    fitting = [(size, said) for said, (size, covers) in sizes.items() if covers and 0 < size < whole]
    return min(fitting, default=(0, ""))[1]


def _in_table(wrong):
    return _smallest_set(wrong, _table_sets)


def _in_rows(wrong):
    """The same of answers to a loss that the kit does not have: frames, and symbols if it has the scores' shape."""
    if any(each.value is None or each.value.ndim < 2 or each.value.dtype.kind not in "if"
           or np.isnan(each.value).any() for each in wrong):
        return ""
    return _smallest_set([(each.case, each) for each in wrong], _row_sets)


def _frame_sets(t, T):
    return {"in the first frame": t == 0, "in the last frame": t == T - 1, "after the first frame": t > 0,
            "before the last frame": t < T - 1}


def _row_sets(case, shape):
    """Sets of entries of an array of frames, with a name."""
    frames = _frame_sets(np.indices(shape)[0], shape[0])
    scores, _, blank, _ = _of(case)
    if scores is None or scores.shape != shape or blank is None:
        return frames
    k = np.indices(shape)[-1]
    symbols = {"at the blank": k == blank, "at other symbols than the blank": k != blank}
    both = {f"{symbol} {frame}": inside & where for symbol, inside in symbols.items()
            for frame, where in frames.items()}
    return {**frames, **symbols, **both}


def _table_sets(problem, shape):
    """Sets of entries of alpha or beta, with a name."""
    t, s = np.indices(shape)
    (T, S), frames = shape, _frame_sets(t, len(t))
    if problem.loss == "ctc":
        z = np.full(S, problem.blank)
        z[1::2] = problem.targets
        repeats = np.zeros(S, dtype=bool)
        repeats[3:] = (z[3:] == z[1:-2]) & (z[3:] != problem.blank)
        states = {"in the first state": s == 0, "in state 1, the first label": s == 1, "in the last state": s == S - 1,
                  "in the last two states": s >= S - 2, "before the last two states": s < S - 2,
                  "in the blanks' states": s % 2 == 0, "in the labels' states": s % 2 == 1,
                  "in states 2 and later": s > 1, "in states 3 and later": s > 2,
                  "from the state of the first label that is equal to the one before it on":
                      s >= np.argmax(repeats) if repeats.any() else np.zeros(shape, dtype=bool)}
    else:
        states = {"at u = 0": s == 0, "at u = U": s == S - 1, "at u > 0": s > 0, "at u < U": s < S - 1,
                  "at u > 1": s > 1, "at the first node": (t == 0) & (s == 0),
                  "at the last node": (t == T - 1) & (s == S - 1)}
    both = {f"{state} {frame}": inside & where for state, inside in states.items() for frame, where in frames.items()}
    return {**frames, **states, **both}


# --- one input ---


def drawn(tried, ladder, *, expected=True) -> str:
    """The input, its alignments if they are few, what came back and, if ``expected``, what is right; lines of text."""
    case = tried.case
    lines = [f"{name} = {_written(name, value)}" for name, value in case.arguments.items()]
    problem = ladder.problem_of(case) if ladder is not None and ladder.problem_of is not None else None
    if len(_rows(case)) <= 3 and len(case.arguments.get("targets", ())) <= 3:
        if problem is not None:
            lines += _alignments(alignments(problem), "probability")
        elif ladder is not None and ladder.paths_of is not None:
            lines += _alignments(ladder.paths_of(case), ladder.mass, "There is no path from beginning to end: Z = 0.")
    lines += _values(tried, expected)
    return "\n".join(f"{_INDENT}{line}" for line in lines)


def _written(name, value):
    """An argument as it can be typed."""
    if name == "log_probs" or name == "frozen_at":
        return f"np.log({_nested(np.exp(value), _share)})"
    if name == "targets":
        return str(np.asarray(value).tolist())
    return f"np.array({_nested(np.asarray(value), _number)})" if np.ndim(value) else _number(value)


def _nested(array, written):
    if array.ndim == 0:
        return written(array.item())
    return f"[{', '.join(_nested(each, written) for each in array)}]"


def _share(p):
    near = Fraction(p).limit_denominator(100)
    return str(near) if abs(float(near) - p) < 1e-12 else f"{p:.6g}"


def _number(x, digits=6):
    if isinstance(x, float) and not np.isfinite(x):
        return "np.nan" if x != x else "np.inf" if x > 0 else "-np.inf"
    return str(x) if isinstance(x, bool) else _short(x, digits)


def _alignments(found, mass, none="There is no alignment: Z = 0."):
    """Paths as symbols and masses, what one of these is called, and what is said if there are none."""
    if not found:
        return [none]
    width = max(len(symbols) for symbols, _ in found)
    lines = [f"path  {symbols:{width}}   {mass} {_share(each)}" for symbols, each in found[:_PATHS]]
    if len(found) > _PATHS:
        lines.append(f"and {len(found) - _PATHS} paths more")
    total = sum(each for _, each in found)
    return [*lines, f"Z = {_share(total)}, -log Z = {-np.log(total):.6g}" if total else "Z = 0"]


def _values(tried, expected):
    if tried.value is None:
        return [f"found     {tried.complaint}", *([f"expected  {_one_line(tried.expected)}"] * expected)]
    value, right = np.asarray(tried.value), np.asarray(tried.expected)
    if value.ndim < 2 or value.size > _ENTRIES:
        digits = next((n for n in (6, 9, 15) if _one_line(value, n) != _one_line(right, n)), 15)
        return [f"found     {_one_line(value, digits)}", *([f"expected  {_one_line(right, digits)}"] * expected)]
    with np.errstate(invalid="ignore"):
        apart = ~np.isclose(value, right, rtol=tried.tolerance, atol=tried.tolerance, equal_nan=True)
    digits = next((n for n in _DIGITS if all(_short(x, n) != _short(y, n) for x, y in zip(value[apart], right[apart],
                                                                                       strict=True))), _DIGITS[-1])
    said = [_row(row, digits) for row in value]
    width, lines = max(map(len, said)), []
    for t, row in enumerate(said):
        line = f"t = {t}  found {row:{width}}"
        if expected:
            line += f"   expected {_row(right[t], digits)}{'   <' if apart[t].any() else ''}"
        lines.append(line)
    return lines


def _row(row, digits):
    return " | ".join(" ".join(_short(x, digits) for x in part) for part in np.atleast_2d(row))


def _short(x, digits):
    return "0" if abs(x) < 1e-14 else f"{x:.{digits}g}"


def _one_line(value, digits=6):
    if np.ndim(value) and np.size(value) > _ENTRIES:
        return f"an array of shape {np.shape(value)}"
    return _nested(np.asarray(value), lambda x: _number(x, digits))
