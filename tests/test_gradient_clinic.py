"""The kernel clinic's mathematics in node against reference_impl.diagnosis: the same sentences for the same gradients.

The bank of planted bugs is Python's alone, so its sentence is left out of the comparison, and nothing else.
"""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.bug_bank import BUGS
from reference_impl.conformance.identifying import CLOSE
from reference_impl.diagnosis import _cases, _ctc_terms, _rnnt_terms, diagnose_values
from reference_impl.terms import fitted, terms_of

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "book" / "_static"
MODULES = {"ctc": ctc, "rnnt": rnnt}
KINDS = [(loss, variable) for loss in ("ctc", "rnnt") for variable in ("logits", "log_probs")]
each_kind = pytest.mark.parametrize(("loss", "variable"), KINDS)

HEAD = f"""
const C = require({json.dumps(str(STATIC / "gradient_clinic_math.js"))});
const P = require({json.dumps(str(STATIC / "pasted_numbers.js"))});
const NAMED = {{ inf: Infinity, "-inf": -Infinity, nan: NaN }};
const numbers = (list) => Float64Array.from(list, (x) => (typeof x === "string" ? NAMED[x] : x));
const problem = (each) => ({{ ...each, scores: numbers(each.scores) }});
const array = ({{ shape, values }}) => ({{ shape, values: numbers(values) }});
const plain = (key, x) => {{
  if (typeof x === "number" && !Number.isFinite(x)) return String(x).replace("Infinity", "inf").toLowerCase();
  return ArrayBuffer.isView(x) ? [...x] : x;
}};
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const answer = (each) => {{ ANSWER }};
console.log(JSON.stringify(given.map(answer), plain));
"""


def node(answer, given):
    """What a line of JavaScript returns for each of the given."""
    driver = pytest.importorskip("playwright._impl._driver", reason="playwright brings node along")
    done = subprocess.run([str(driver.compute_driver_executable()[0]), "-e", HEAD.replace("ANSWER", answer)],
                          input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listed(array):
    return [x if np.isfinite(x) else str(x) for x in np.asarray(array, dtype=np.float64).ravel().tolist()]


def problem(loss, scores, targets, blank=0):
    return {"loss": loss, "shape": list(np.shape(scores)), "scores": listed(scores),
            "target": [int(label) for label in targets], "blank": int(blank)}


def array(values):
    return {"shape": list(np.shape(values)), "values": listed(values)}


def random_problem(rng, loss, variable):
    T, U, V = rng.integers(1, 7), rng.integers(0, 5), rng.integers(2, 7)
    blank = rng.integers(0, V)
    targets = rng.permuted(np.resize(np.delete(np.arange(V), blank), U)) if rng.random() < 0.5 else rng.choice(
        np.delete(np.arange(V), blank), U)
    scores = rng.normal(size=(T, V) if loss == "ctc" else (T, U + 1, V))
    if variable == "log_probs" and rng.random() < 0.5:
        return scores * 0.5, targets, int(blank)  # as they are; larger ones make masses of 1e6, and rounding to match
    scores *= rng.choice([0.3, 1.0, 4.0])
    if variable == "log_probs":
        scores = log_softmax(scores)
    return scores, targets, int(blank)


# --- the same sentences ---

NUMBER = re.compile(r"(?<![\w.])-?(?:\d+(?:\.\d+)?(?:e[+-]\d+)?|inf)(?![\w])")


def same(ours, theirs):
    """Equal, but for the last digits of numbers; and of entries that are equally far off, either may be named."""
    if ours == theirs:
        return True
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    ours, theirs = (np.array([float(x) for x in NUMBER.findall(each)]) for each in (ours, theirs))
    if np.allclose(ours, theirs, rtol=2e-9, atol=1e-13):
        return True
    errors = [abs(each[-2] - each[-1]) for each in (ours, theirs)]  # it is ..., expected ...
    return len(ours) > 3 and np.allclose(*errors, rtol=2e-9, atol=1e-13)


def compare(cases):
    """Cases (loss, variable, scores, targets, blank, gradient): how many sentences there were, by what they begin with."""
    given = [{"problem": problem(loss, scores, targets, blank), "gradient": array(gradient), "variable": variable}
             for loss, variable, scores, targets, blank, gradient in cases]
    answers = node("return C.findings(problem(each.problem), array(each.gradient), each.variable);", given)
    seen = {}
    for case, ours in zip(cases, answers, strict=True):
        loss, variable, scores, targets, blank, gradient = case
        theirs = diagnose_values(gradient, scores, targets, loss=loss, variable=variable, blank=blank)
        expected = [] if theirs.right else [each for each in theirs.findings if not each.startswith("all in all, as")]
        assert len(ours) == len(expected) and all(map(same, ours, expected)), (case, ours, expected)
        for each in expected or ["right"]:
            key = NUMBER.sub("#", each.split("; at entry")[0])
            seen[key] = seen.get(key, 0) + 1
    return seen


def wrong_gradients(loss, variable, scores, targets, blank, *, pairs=None):
    """A gradient for each entry of Python's list of wrong terms; with `pairs`, a generator, two wrong terms each."""
    case = _cases(loss)[0].__class__("", scores, np.array(targets, dtype=np.int64), blank)
    with np.errstate(all="ignore"):
        terms = {"ctc": _ctc_terms, "rnnt": _rnnt_terms}[loss](case, variable)

    def built(chosen):
        gradient = np.zeros(np.shape(scores))
        softmax = chosen.get(0, terms[0].right)
        for i, term in enumerate(terms):
            gradient[term.entries] = (softmax + (chosen.get(i, term.right) if i else 0))[term.entries]
        return gradient

    names = [(i, said) for i, term in enumerate(terms) for said in term.wrong]
    for i, said in names:
        yield f"{terms[i].name}: {said}", built({i: terms[i].wrong[said]})
    for _ in range(0 if pairs is None or not names else 6):
        two = [names[k] for k in pairs.integers(0, len(names), 2)]
        yield "", built({i: terms[i].wrong[said] for i, said in two})


@each_kind
def test_every_wrong_term_has_the_same_sentence(loss, variable):
    """All of Python's list, in its own cases and in random ones, alone and in pairs; nothing of it goes unseen."""
    rng = np.random.default_rng(3)
    problems = [(c.scores, c.targets, c.blank) for c in _cases(loss)]
    problems += [random_problem(rng, loss, variable) for _ in range(12)]
    cases, listed_terms = [], set()
    for scores, targets, blank in problems:
        for name, gradient in wrong_gradients(loss, variable, scores, targets, blank, pairs=rng):
            listed_terms.add(name)
            cases.append((loss, variable, scores, targets, blank, gradient))
    seen = compare(cases)
    missing = {name for name in listed_terms - {""} if NUMBER.sub("#", name) not in seen}
    # after the last blank beta is 1: these are the same number as another mistake, which is named
    named_otherwise = {"last blank: beta of the node itself instead of the node after the step",
                       "last blank: with the beta of the other step"}
    assert len(cases) > 300 and missing <= (named_otherwise if loss == "rnnt" else set())


@each_kind
def test_right_gradients_and_what_multiplies_them(loss, variable):
    """Right, every factor with a name and one without, FastEmit, both, and FastEmit half forgotten."""
    rng = np.random.default_rng(4)
    cases = []
    for _ in range(10):
        scores, targets, blank = random_problem(rng, loss, variable)
        T, U = len(scores), len(targets)
        terms = terms_of(scores, targets, loss=loss, inputs=variable, blank=blank)
        softmax = float(variable == "logits")
        for emphasis in (1.0, 1.3, 2.0, 0.5):
            for middle in {softmax, softmax * emphasis}:
                gradient = np.tensordot([softmax, middle, -1.0, -emphasis], terms, 1)
                for factor in (1.0, -1.0, 1 / np.log(2), 1 / T, 1 / (U + 1), 1 / (T + U), 1 / (T * (U + 1)), 0.37, 0.0):
                    cases.append((loss, variable, scores, targets, blank, gradient * factor))
    seen = " ".join(compare(cases))
    for words in ("right", "times #: the sign?", "ln #: bits", "Here it is # / T.", "Here it is # / (U + #)."):
        assert words in seen
    assert ("FastEmit, lambda = #" in seen) == (loss == "rnnt")
    assert ("have to be as well" in seen) == (loss == "rnnt" and variable == "logits")


@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_the_gradients_of_the_planted_bugs(loss):
    """All but the sentence that names the bug, which Python alone has."""
    rng, cases = np.random.default_rng(5), []
    for bug in BUGS:
        if bug.loss != loss:
            continue
        problems = [(c.scores, c.targets, c.blank) for c in _cases(loss)[:3]]
        for scores, targets, blank in [*problems, *(random_problem(rng, loss, bug.variable) for _ in range(3))]:
            try:
                with np.errstate(all="ignore"):
                    gradient = np.asarray(bug.gradient(scores.copy(), targets, blank=blank), dtype=np.float64)
            except (ValueError, IndexError, ZeroDivisionError, FloatingPointError):
                continue
            cases.append((loss, bug.variable, scores, targets, blank, gradient))
    seen = compare(cases)
    assert len(cases) > 60 and len(seen) > 15


@each_kind
def test_gradients_that_are_none(loss, variable):
    """NaN, infinities, noise and wrong shapes."""
    rng, cases = np.random.default_rng(6), []
    for _ in range(8):
        scores, targets, blank = random_problem(rng, loss, variable)
        noise = rng.normal(size=scores.shape)
        spoilt = [noise, noise * 1e-30, noise * 1e200, np.zeros(scores.shape)]
        for value in (np.nan, np.inf, -np.inf):
            one = MODULES[loss].grad_logits(scores, targets, blank=blank)
            one[rng.integers(0, len(one)), ..., -1] = value
            spoilt.append(one)
        cases += [(loss, variable, scores, targets, blank, gradient) for gradient in spoilt]
        cases.append((loss, variable, scores, targets, blank, noise[..., None]))
        cases.append((loss, variable, scores, targets, blank, noise.ravel()))
        cases.append((loss, variable, scores, targets, blank, np.float64(3.0)))
    seen = " ".join(compare(cases))
    assert "is NaN" in seen and "it has shape (#,); expected" in seen and "it has shape (); expected" in seen


@each_kind
def test_terms_and_fits(loss, variable):
    """The four terms, and their multiples in any gradient, where columns depend on each other too."""
    rng, given, exact = np.random.default_rng(7), [], []
    for _ in range(40):
        scores, targets, blank = random_problem(rng, loss, variable)
        terms = terms_of(scores, targets, loss=loss, inputs=variable, blank=blank)
        gradient = rng.normal(size=scores.shape)
        entries = rng.random(size=scores.shape) < 0.7
        exact.append((terms, fitted(gradient, terms), fitted(gradient, terms, entries=entries)))
        given.append({"problem": problem(loss, scores, targets, blank), "variable": variable,
                      "gradient": array(gradient), "entries": listed(entries)})
    answers = node("""const terms = C.termsOf(problem(each.problem), each.variable);
        const { values } = array(each.gradient);
        return [terms, C.fitted(values, terms), C.fitted(values, terms, each.entries)];""", given)
    for (terms, *fits), (ours, *our_fits) in zip(exact, answers, strict=True):
        np.testing.assert_allclose(np.reshape(ours, terms.shape), terms, rtol=1e-13, atol=1e-13)
        for fit, our_fit in zip(fits, our_fits, strict=True):
            multiples = np.array(our_fit["multiples"], dtype=float)
            size = 1 + np.nanmax(np.abs(fit.multiples), initial=0.0)
            np.testing.assert_allclose(multiples, fit.multiples, rtol=0, atol=1e-8 * size)
            assert abs(our_fit["rest"] - fit.rest) < 1e-9 * size


def test_numbers_are_written_as_python_writes_them():
    rng = np.random.default_rng(8)
    values = [0.0, -0.0, 1.0, 0.03125, 0.09375, 2.5, 1e-5, 1e-4, 12345678.9, 1e22, 1e16, 5e-324, np.inf, -np.inf, np.nan,
              0.1 + 0.2, *(rng.normal(size=60) * 10.0 ** rng.integers(-12, 12, 60))]
    given = [[str(x) if not np.isfinite(x) else repr(float(x)), digits] for x in values for digits in (1, 3, 6, 10, 17)]
    answers = node("const x = each[0] in NAMED ? NAMED[each[0]] : Number(each[0]); return C.general(x, each[1]);", given)
    for (text, digits), ours in zip(given, answers, strict=True):
        assert ours == f"{float(text):.{digits}g}", (text, digits)


def test_tolerances_of_the_types():
    (ours,) = node("return [C.EXACT, C.CLOSE];", [0])
    assert ours[0] == 1e-9 and {**ours[1], "float64": CLOSE["float64"]} == CLOSE


@pytest.mark.parametrize(("loss", "shape", "targets", "blank"), [
    ("ctc", (3, 4), [1, 4], 0), ("ctc", (3, 4), [-1], 0), ("ctc", (3, 4), [1, 2], 2), ("ctc", (3, 4), [1], 4),
    ("ctc", (3, 4, 2), [1], 0), ("rnnt", (3, 2, 4), [1, 2], 0), ("rnnt", (3, 4), [1], 0), ("rnnt", (3, 2, 4), [1], -1),
])
def test_what_is_no_problem_is_refused_in_the_same_words(loss, shape, targets, blank):
    scores = np.zeros(shape)
    with pytest.raises(ValueError) as error:  # noqa: PT011, the message is compared below
        MODULES[loss].grad_log_probs(scores, np.array(targets), blank=blank)
    (ours,) = node("return C.refused(problem(each));", [problem(loss, scores, targets, blank)])
    assert ours == str(error.value).replace("log_probs", "scores")


def test_bad_scores_are_refused_and_masks_are_not():
    scores = np.zeros((4, 3))
    scores[1, 2] = -np.inf
    given = [problem("ctc", scores, [1])]
    for bad in (np.nan, np.inf):
        scores[2, 1] = bad
        given.append(problem("ctc", scores, [1]))
    fine, nan, inf = node("return C.refused(problem(each));", given)
    rule = "; expected no NaN and no +inf (-inf masks an entry)"
    assert (fine, nan, inf) == ("", f"scores[2, 1] = nan{rule}", f"scores[2, 1] = inf{rule}")
