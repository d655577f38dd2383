"""Which term of a gradient is wrong: a function against the reference, term by term. It defines no gradient itself.

A gradient of these losses is a sum of few terms, and each term lives on entries of its own: the symbols that are
neither blank nor the next label hold only the softmax term, the blank's entries hold that and the blank's occupancy,
and so on. So each term can be looked at alone, and compared with the ways in which it is commonly got wrong. Before
that, the multiples of all terms are fitted (`terms.py`): a reduction multiplies all of them by one number, and FastEmit
those of the labels. For other gradients, terms can be given by name, and their coefficients are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from . import ctc, rnnt
from ._softmax import log_softmax
from ._validation import check_at_least, check_choice, check_weights
from .bug_bank import BUGS
from .terms import fitted, loss_scaling, softmax_multiples, terms_of

__all__ = ["Diagnosis", "diagnose", "diagnose_values", "fit_terms"]

_TOLERANCE = 1e-9
#: Sums of occupancies that are known no better than this name nothing.
_TOO_LOOSE = 0.02
_UNLISTED = "wrong, in a way not on the list"
_OF_THE_NODE = "beta of the node itself instead of the node after the step"


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` or :func:`fit_terms` found; ``str`` of it is one sentence for each finding."""

    right: bool
    findings: tuple[str, ...]

    def __str__(self):
        return "\n".join(self.findings)


@dataclass(frozen=True)
class _Term:
    """A part of the gradient: the entries where it is seen, what it is there, and what it is when it is wrong."""

    name: str
    entries: np.ndarray
    right: np.ndarray
    wrong: dict[str, np.ndarray]


@dataclass(frozen=True)
class _Case:
    description: str
    scores: np.ndarray
    targets: np.ndarray
    blank: int = 0


def diagnose(function: Callable, *, loss="ctc", variable="logits") -> Diagnosis:
    """Say whether a gradient is right, and if not, which of its terms is wrong and in which way.

    Parameters
    ----------
    function : callable
        ``function(scores, targets, *, blank)`` returns the gradient of the loss of one utterance: for CTC ``scores``
        and gradient are (T, V), for RNN-T (T, U+1, V), float64; ``targets`` is a (U,) array of ints.
    loss : "ctc" | "rnnt"
    variable : "logits" | "log_probs"
        What the scores are, and what the gradient is taken with respect to.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> print(diagnose(ctc.grad_logits))
    right: every term, in 6 cases
    >>> print(diagnose(lambda scores, targets, *, blank: ctc.grad_log_probs(log_softmax(scores), targets, blank=blank)))
    softmax term: missing
    >>> print(diagnose(lambda lp, targets, *, blank: rnnt.grad_log_probs(lp, targets, blank=blank) / np.exp(lp),
    ...                loss="rnnt", variable="log_probs"))
    blank term: without the probability of its own step (`+ log_probs`)
    last blank: without the probability of its own step (`+ log_probs`)
    label term: without the probability of its own step (`+ log_probs`)
    >>> print(diagnose(lambda logits, targets, *, blank: ctc.grad_logits(logits, targets, blank=blank) / len(logits)))
    all entries times 0.2: a reduction? Here it is 1 / T.
    """
    check_choice("loss", loss, ("ctc", "rnnt"))
    check_choice("variable", variable, ("logits", "log_probs"))
    cases = _cases(loss)
    for case in cases:
        findings = _examine(function, case, loss, variable)
        if findings:
            where = "" if case is cases[0] else f"{case.description}: "
            return Diagnosis(False, tuple(where + finding for finding in findings))
    return Diagnosis(True, (f"right: every term, in {len(cases)} cases",))


def diagnose_values(gradient, scores, targets, *, loss="ctc", variable="logits", blank=0) -> Diagnosis:
    """The same for the gradient of one utterance that somebody has computed elsewhere, in float64.

    Examples
    --------
    >>> scores, targets = np.random.default_rng(0).normal(size=(4, 3)), np.array([1, 2])
    >>> gradient = -2 * ctc.occupancy(log_softmax(scores), targets)
    >>> print(diagnose_values(gradient, log_softmax(scores), targets, variable="log_probs"))
    all entries times 2: a reduction?
    >>> scores = np.random.default_rng(0).normal(size=(4, 3, 3))
    >>> print(diagnose_values(rnnt.grad_logits(scores, targets, fastemit_lambda=0.3), scores, targets, loss="rnnt"))
    FastEmit, lambda = 0.3: the posteriors of the labels are multiplied by 1.3
    """
    check_choice("loss", loss, ("ctc", "rnnt"))
    check_choice("variable", variable, ("logits", "log_probs"))
    case = _Case("", np.asarray(scores, dtype=np.float64), np.asarray(targets, dtype=np.int64), blank)
    with np.errstate(all="ignore"):
        findings = _examine(lambda *_, **__: gradient, case, loss, variable)
    return Diagnosis(not findings, tuple(findings) or ("right: every term",))


def fit_terms(gradient: np.ndarray, terms: Mapping[str, tuple[np.ndarray, float]]) -> Diagnosis:
    """Say which term of a gradient has a wrong coefficient, for any sum of terms, with no loss and no reference.

    The coefficients are fitted by least squares. With more entries than coefficients, a fit that leaves nothing over
    means that the gradient has these terms and no other.

    Parameters
    ----------
    gradient : array
        What somebody computed; of any shape, float64.
    terms : mapping from str to (array, float)
        Each term by its name: an array of the gradient's shape, and the coefficient that it should have.

    Returns
    -------
    Diagnosis
        Right if every coefficient is, to within 1e-9, and at most 1e-10 is left over (the Euclidean norm).

    Raises
    ------
    ValueError
        If there is no term, if the terms differ in shape, or if one is a combination of others, so that no gradient
        could tell them apart.

    Examples
    --------
    Log-softmax passes ``g`` on as ``g - y * g.sum()``. Here the second term was added:

    >>> y, g = np.array([0.5, 0.3, 0.2]), np.array([1.0, -2.0, 4.0])
    >>> terms = {"g": (g, 1), "y sum g": (y * g.sum(), -1)}
    >>> print(fit_terms(g + y * g.sum(), terms))
    y sum g: its coefficient is 1, not -1
    >>> print(fit_terms(g - g.mean(), terms))
    something that is none of the terms: -0.3605 at entry (1,)
    >>> fit_terms(g - y * g.sum(), terms).right
    True
    """
    check_at_least("len(terms)", len(terms), 1)
    shape = np.shape(next(iter(terms.values()))[0])
    columns = np.stack([check_weights(f"terms[{name!r}]", term, shape).ravel() for name, (term, _) in terms.items()], 1)
    check_at_least("rank of terms", int(np.linalg.matrix_rank(columns)), len(terms))
    gradient = np.asarray(gradient, dtype=np.float64)
    if gradient.shape != shape:
        return Diagnosis(False, (f"it has shape {gradient.shape}; expected {shape}",))
    constant = constant_of(gradient)
    if constant and np.isnan(gradient).all():
        return Diagnosis(False, (f"it returns {constant} for everything",))
    if not np.isfinite(gradient).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(gradient))[0])
        return Diagnosis(False, (f"entry {index} is {gradient[index]}",))
    fitted = np.linalg.lstsq(columns, gradient.ravel())[0]
    rest = gradient - (columns @ fitted).reshape(shape)
    wrong = [(name, found, right) for found, (name, (_, right)) in zip(fitted, terms.items(), strict=True)
             if not abs(found - right) <= _TOLERANCE]
    left_over = np.linalg.norm(rest) > 1e-10
    if constant and (wrong or left_over):
        return Diagnosis(False, (f"it returns {constant} for everything",))
    if left_over:
        index = tuple(int(i) for i in np.unravel_index(np.abs(rest).argmax(), shape))
        return Diagnosis(False, (f"something that is none of the terms: {rest[index]:.4g} at entry {index}",))
    findings = tuple(f"{name}: its coefficient is {round(found, 9) + 0.0:.10g}, not {right:g}"
                     for name, found, right in wrong)
    return Diagnosis(not findings, findings or (f"right: every coefficient of {', '.join(terms)}",))


def constant_of(array) -> str:
    """The number that every one of several entries is, in words; empty if they differ."""
    array = np.asarray(array, dtype=np.float64)
    if array.size < 2:
        return ""
    if np.isnan(array).all():
        return "NaN"
    return f"{array.flat[0] + 0.0:.10g}" if (array == array.flat[0]).all() else ""


def _cases(loss):
    """The first case is generic, the others change one thing each."""
    rng = np.random.default_rng(0)

    def case(description, T, targets, V, blank=0):
        shape = (T, V) if loss == "ctc" else (T, len(targets) + 1, V)
        return _Case(description, rng.normal(size=shape), np.array(targets, dtype=np.int64), blank)

    masked = case("with a symbol masked by -inf", 5, [1, 2], 5)
    masked.scores[1, ..., 2] = -np.inf
    cases = [case("", 5, [1, 2], 5), case("with a repeated label", 6, [1, 1, 3, 1], 5),
             case("with blank = 2", 5, [0, 3], 5, blank=2), case("with an empty target", 4, [], 4), masked]
    if loss == "ctc":
        return [*cases, case("where no alignment exists", 2, [1, 1], 4)]
    return [*cases, case("with one frame", 1, [1, 2], 4)]


def _examine(function, case, loss, variable):
    """Findings about one case; none if all is right."""
    scores = case.scores.copy()
    try:
        with np.errstate(all="ignore"):
            given = np.asarray(function(scores, case.targets.copy(), blank=case.blank), dtype=np.float64)
    except Exception as error:  # whatever a reader's function raises is a finding
        return [f"it raises {type(error).__name__}: {error}"]
    if given.shape != case.scores.shape:
        return [f"it has shape {given.shape}; expected {case.scores.shape}"]
    if not np.array_equal(scores, case.scores):
        return ["it modifies its argument"]
    terms = {"ctc": _ctc_terms, "rnnt": _rnnt_terms}[loss](case, variable)
    everywhere = np.ones(given.shape, bool)
    constant = constant_of(given)
    right = terms[0].right + sum(np.where(term.entries, term.right, 0.0) for term in terms[1:])
    if constant and right.any() and not _close(given, right, everywhere):
        return [f"it returns {constant} for everything"]
    if np.isnan(given).any():
        index = tuple(int(i) for i in np.argwhere(np.isnan(given))[0])
        return [f"entry {index} is NaN: -inf minus -inf, or 0 times inf?"]
    softmax = terms[0]
    # the other terms are seen on top of the softmax term that the function has, if that one is known
    base = next((array for array in (softmax.right, *softmax.wrong.values())
                 if _close(given, array, softmax.entries)), None)
    findings, said, tolerance = _compare(softmax, given, np.zeros_like(given)), "", _TOLERANCE
    if base is None and variable == "logits":
        base, said, look, tolerance = _on_other_sums(given, case.scores, softmax)
    if base is not None:
        others = [finding for term in terms[1:] for finding in _compare(term, given, base, tolerance)]
        if said and others:
            findings = [f"{said}; {look}" if any(_UNLISTED in each for each in others) else said]
        findings += others
    findings = findings and _multiples(given, case, loss, variable) or findings
    if any(_UNLISTED in finding for finding in findings):
        findings += _known_bugs(given, case, loss, variable)
    return findings


def _on_other_sums(given, scores, softmax):
    """The softmax term of a gradient whose occupancies do not add up to what they should; what to say; where to look.

    It is the softmax times one number in each row. If the row then adds up to 0, that number is the sum of the
    occupancies that were subtracted: these are wrong, and the softmax term follows from them; else nothing is said. The
    first is None if the gradient has no such term. The last is what the other terms may be off by.
    """
    nothing = None, "", "", _TOLERANCE
    if not np.isfinite(given).all():
        return nothing
    probs = np.exp(log_softmax(scores))
    sums, slack, balanced = softmax_multiples(given, probs, softmax.entries, _TOLERANCE)
    if sums is None or slack.max() > _TOO_LOOSE:
        return nothing
    right = softmax.right.sum(-1)  # of all symbols: the occupancy of the row
    sums = np.where(np.isnan(sums), right, sums)
    base, tolerance = probs * sums[..., None], _TOLERANCE + slack.max()
    if not balanced:
        return base, "", "", tolerance
    apart = np.abs(sums - right)
    row = tuple(np.argwhere(apart >= apart.max() * (1 - 1e-6))[0].tolist())  # the first, if only rounding tells them
    place = f"frame {row[0]}" if len(row) == 1 else f"node {row}"
    off = np.flatnonzero((apart > slack + _TOLERANCE * (1 + right)).reshape(len(sums), -1).any(-1))
    look = "look at alpha, beta and log Z"
    if len(off) and len(off) == off[-1] - off[0] + 1 and (off[0] == 0) != (off[-1] == len(sums) - 1):
        look = (f"all sums before frame {off[0]} are right: look first at alpha" if off[0] else
                f"all sums after frame {off[-1]} are right: look first at beta")
    return base, (f"the occupancies are wrong, not the softmax: those of {place} add up to {sums[row] + 0.0:.6g}, "
                  f"expected {right[row]:.6g}"), look, tolerance


def _multiples(given, case, loss, variable):
    """What multiplies all terms alike, or those of the labels; nothing if the gradient is no such sum."""
    if not np.isfinite(given).all():
        return []
    terms = terms_of(case.scores, case.targets, loss=loss, inputs=variable, blank=case.blank)
    fit = fitted(given, terms)
    softmax, factor = float(variable == "logits"), -fit.multiples[2]
    if not factor or np.isnan(factor) or fit.rest > _TOLERANCE * max(1.0, abs(factor)):
        return []
    relative = fit.multiples / factor
    emphasis = -relative[3] if len(case.targets) else 1.0

    def are(*wanted):
        return np.allclose(relative, wanted, rtol=0, atol=1e-7) if len(case.targets) else np.allclose(
            relative[[0, 2]], [wanted[0], -1.0], rtol=0, atol=1e-7)

    found = [] if abs(factor - 1) < 1e-7 else [_factor_said(factor, case)]
    if are(softmax, softmax, -1.0, -1.0):
        return found
    said = f"FastEmit, lambda = {emphasis - 1:.6g}: the posteriors of the labels are multiplied by {emphasis:.6g}"
    if loss == "rnnt" and emphasis > 1 and are(softmax, softmax * emphasis, -1.0, -emphasis):
        return [said, *found]
    if loss == "rnnt" and emphasis > 1 and are(softmax, softmax, -1.0, -emphasis):
        return [f"{said}, but for those in the softmax term, which have to be as well", *found]
    return []


def _factor_said(factor, case):
    """A factor of all entries, and what it may come from."""
    if abs(factor + 1) < 1e-7:
        return "all entries times -1: the sign?"
    if abs(factor * np.log(2) - 1) < 1e-7:
        return "all entries times 1.4427 = 1 / ln 2: bits, where nats are asked for?"
    if power := loss_scaling(factor):
        sign = "-" if factor < 0 else ""
        return f"all entries times {sign}{2**power:.10g}, which is {sign}2^{power}: loss scaling, or a reduction?"
    T, U = len(case.scores), len(case.targets)
    sizes = {"T": T, "U": U, "(U + 1)": U + 1, "(T + U)": T + U, "(T (U + 1))": T * (U + 1)}
    same = [f"1 / {name}" for name, size in sizes.items() if size > 1 and abs(factor * size - 1) < 1e-7]
    return f"all entries times {factor:.3g}: a reduction?{f' Here it is {same[0]}.' if same else ''}"


def _known_bugs(given, case, loss, variable):
    """Whether the bank of planted bugs has a gradient like this one."""
    everywhere = np.ones(given.shape, bool)
    for bug in BUGS:
        if (bug.loss, bug.variable) == (loss, variable):
            try:
                with np.errstate(all="ignore"):
                    gradient = bug(case.scores.copy(), case.targets, blank=case.blank)[1]
            except (ValueError, IndexError):
                continue  # this bug has no answer here
            if _close(given, gradient, everywhere):
                return [f"all in all, as in the planted bug '{bug.name}': {bug.mechanism}"]
    return []


def _close(a, b, entries, tolerance=_TOLERANCE):
    with np.errstate(invalid="ignore"):
        return bool((np.abs(a - b)[entries] <= tolerance * (1 + np.abs(b[entries]))).all())


def _compare(term, given, base, tolerance=_TOLERANCE):
    if _close(given, base + term.right, term.entries, tolerance):
        return []
    for description, array in term.wrong.items():
        if _close(given, base + array, term.entries, tolerance):
            return [f"{term.name}: {description}"]
    error = np.where(term.entries, np.abs(given - base - term.right), 0.0)
    index = tuple(int(i) for i in np.unravel_index(error.argmax(), error.shape))
    return [f"{term.name}: {_UNLISTED}; at entry {index} it is {given[index] - base[index]:.10g}, "
            f"expected {term.right[index]:.10g}"]


def _softmax_term(variable, probs, node, entries):
    """The term that log-softmax adds: absent for log-probs."""
    right = probs * node[..., None]
    if variable == "log_probs":
        wrong = {"present, but it belongs to the gradient with respect to the logits": right}
        return _Term("softmax term", entries, np.zeros_like(probs), wrong)
    wrong = {"missing": np.zeros_like(probs), "wrong sign": -right}
    if not node.any():
        wrong["not 0, though there is no path"] = probs
    elif not np.allclose(node, 1):
        wrong["without the node occupancy that it is multiplied by"] = probs
    wrong["without the softmax that it is made of"] = np.broadcast_to(node[..., None], probs.shape)
    return _Term("softmax term", entries, right, wrong)


def _occupancy_term(name, entries, occupied, probs, log_z, more):
    """A term -occupancy, and its usual mistakes."""
    with np.errstate(all="ignore"):
        wrong = {
            "missing": 0.0 * occupied,
            "wrong sign": occupied,
            "counted twice": -2 * occupied,
            "not divided by Z (`- log_z`)": -occupied * np.exp(log_z),
            "multiplied by Z instead of divided": -occupied * np.exp(2 * log_z),
            "without the probability of its own step (`+ log_probs`)": np.where(probs > 0, -occupied / probs, 0.0),
            "with the probability of its own step counted twice": -occupied * probs,
            "not divided by Z (`- log_z`), and with the wrong sign": occupied * np.exp(log_z),
            **{description: -array for description, array in more.items()},
        }
    return _Term(name, entries, -occupied, {d: a for d, a in wrong.items() if not _close(a, -occupied, entries)})


def _ctc_terms(case, variable):
    log_probs = log_softmax(case.scores) if variable == "logits" else case.scores
    probs, shape = np.exp(log_probs), log_probs.shape
    arguments = (log_probs, case.targets)
    a, b = (f(*arguments, blank=case.blank) for f in (ctc.log_alpha, ctc.log_beta))
    log_z = -ctc.loss(*arguments, blank=case.blank)
    extended = ctc.extended_targets(case.targets, blank=case.blank)
    alive = float(log_z > -np.inf)
    scale = log_z if alive else 0.0

    def by_symbol(log_mass, assign=False):
        array = np.zeros(shape)
        for s, label in enumerate(extended):
            array[:, label] = (0.0 if assign else array[:, label]) + np.exp(log_mass[:, s] - scale) * alive
        return array

    occupied = by_symbol(a + b)
    more = {
        "states of the same symbol overwrite each other instead of adding up": by_symbol(a + b, assign=True),
        "alpha alone, without beta": by_symbol(a),
        "beta alone, without alpha": by_symbol(b),
        "beta of the frame after": by_symbol(a + np.vstack([b[1:], np.full_like(b[:1], -np.inf)])),
    }
    is_blank, is_label = np.zeros(shape, bool), np.zeros(shape, bool)
    is_blank[:, case.blank] = True
    is_label[:, case.targets] = True
    node = np.full(len(probs), alive)
    terms = [_softmax_term(variable, probs, node, ~is_blank & ~is_label)]
    for name, entries in (("blank term", is_blank), ("label term", is_label)):
        terms.append(_occupancy_term(name, entries, occupied, probs, scale, more))
    return terms


def _rnnt_terms(case, variable):
    log_probs = log_softmax(case.scores) if variable == "logits" else case.scores
    probs, shape = np.exp(log_probs), log_probs.shape
    T, U = shape[0], len(case.targets)
    arguments = (log_probs, case.targets)
    a, b = (f(*arguments, blank=case.blank) for f in (rnnt.log_alpha, rnnt.log_beta))
    log_z = -rnnt.loss(*arguments, blank=case.blank)
    e_blank, e_label = rnnt.arc_posteriors(*arguments, blank=case.blank)
    after_blank = np.vstack([b[1:], np.full((1, U + 1), -np.inf)])
    after_blank[-1, -1] = 0.0

    def entries_of(blank_part, label_part):
        array = np.zeros(shape)
        array[:, :, case.blank] = blank_part
        array[:, np.arange(U), case.targets] = label_part
        return array

    def posterior(log_a, after_blank, after_label):
        with np.errstate(over="ignore"):
            return entries_of(np.exp(log_a + log_probs[:, :, case.blank] + after_blank - log_z),
                              np.exp(log_a[:, :-1] + log_probs[:, np.arange(U), case.targets] + after_label - log_z))

    more = {
        _OF_THE_NODE: posterior(a, b, b[:, :-1]),
        "alpha alone, without beta": posterior(a, 0.0 * b, 0.0 * b[:, :-1]),
        "beta alone, without alpha": posterior(0.0 * a, after_blank, b[:, 1:]),
        "the node occupancy, not that of the arc": entries_of(np.exp(a + b - log_z), np.exp(a + b - log_z)[:, :-1]),
        "with the beta of the other step": posterior(a, np.hstack([b[:, 1:], np.full((T, 1), -np.inf)]),
                                                     after_blank[:, :-1]),
    }
    is_label = entries_of(0.0, 1.0).astype(bool)
    is_blank = entries_of(1.0, 0.0).astype(bool)
    last, early = np.zeros(shape, bool), np.zeros(shape, bool)
    last[-1, -1, case.blank] = early[-1, :-1, case.blank] = True
    occupied, node = entries_of(e_blank, e_label), e_blank + np.pad(e_label, ((0, 0), (0, 1)))
    leads_nowhere = {
        "not 0, though this blank would end the utterance with labels missing": posterior(a, 0.0 * b, b[:, 1:]),
        _OF_THE_NODE: more[_OF_THE_NODE]}
    terms = [_softmax_term(variable, probs, node, ~is_blank & ~is_label)]
    for name, entries, others in (("blank term", is_blank & ~last & ~early, more), ("last blank", last, more),
                                  ("blank of the last frame below the last row", early, leads_nowhere),
                                  ("label term", is_label, more)):
        if entries.any():
            terms.append(_occupancy_term(name, entries, occupied, probs, log_z, others))
    return terms
