"""The kernel clinic's mathematics in node against reference_impl.diagnosis: the same sentences for the same gradients.

The bank of planted bugs is Python's alone, so its sentence is left out of the comparison, and nothing else.
"""

import re

import numpy as np
import pytest
import torch
from clinic_in_node import REPORT, ROOT, array, full, listed, node, pasted, problem

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.bug_bank import BUGS
from reference_impl.conformance.identifying import CLOSE
from reference_impl.diagnosis import _cases, _ctc_terms, _rnnt_terms, diagnose_values
from reference_impl.semiring import LOG32
from reference_impl.terms import fitted, terms_of

MODULES = {"ctc": ctc, "rnnt": rnnt}
KINDS = [(loss, variable) for loss in ("ctc", "rnnt") for variable in ("logits", "log_probs")]
each_kind = pytest.mark.parametrize(("loss", "variable"), KINDS)


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
    """Compare cases (loss, variable, scores, targets, blank, gradient), and count the sentences by their words."""
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
    if variable == "log_probs":  # there it is what FastEmit does, with lambda = 1
        named_otherwise.add("label term: counted twice")
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
                for factor in (1.0, -1.0, 1 / np.log(2), 1 / T, 1 / (U + 1), 1 / (T + U), 1 / (T * (U + 1)), 0.37, 0.0,
                               65536.0, -1024.0, 1000.0, 2.0**30):
                    cases.append((loss, variable, scores, targets, blank, gradient * factor))
    seen = " ".join(compare(cases))
    for words in ("right", "times #: the sign?", "ln #: bits", "Here it is # / T.", "Here it is # / (U + #).",
                  "which is #^#: loss scaling", "it returns # for everything"):
        assert words in seen
    assert ("FastEmit, lambda = #" in seen) == (loss == "rnnt")
    assert ("have to be as well" in seen) == (loss == "rnnt" and variable == "logits")


@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_wrong_occupancies_with_the_softmax_term_that_they_bring(loss):
    """Each wrong occupancy on Python's list, and alpha broken from a frame on, or beta up to one."""
    rng, cases = np.random.default_rng(14), []
    for _ in range(12):
        scores, targets, blank = random_problem(rng, loss, "logits")
        case = _cases(loss)[0].__class__("", scores, np.array(targets, dtype=np.int64), blank)
        with np.errstate(all="ignore"):
            terms = {"ctc": _ctc_terms, "rnnt": _rnnt_terms}[loss](case, "logits")
        right = sum(np.where(term.entries, term.right, 0.0) for term in terms[1:])
        frame = np.arange(len(scores)).reshape(-1, *[1] * (scores.ndim - 1))
        wrong = [right * (1 + 0.3 * (frame >= 2)), right * (1 - 0.2 * (frame < 2))]
        for said in {said for term in terms[1:] for said in term.wrong}:
            wrong.append(sum(np.where(term.entries, term.wrong.get(said, term.right), 0.0) for term in terms[1:]))
        y = np.exp(log_softmax(scores))
        cases += [(loss, "logits", scores, targets, blank, each - y * each.sum(-1, keepdims=True)) for each in wrong]
    seen = " ".join(compare(cases))
    place = "frame" if loss == "ctc" else "node (#, #)"
    for words in (f"the occupancies are wrong, not the softmax: those of {place}", "look first at alpha",
                  "look first at beta", "with the probability of its own step counted twice"):
        assert words in seen


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
        spoilt = [noise, noise * 1e-30, noise * 1e200]
        spoilt += [np.full(scores.shape, x) for x in (0.0, -0.0, 0.25, np.nan, np.inf)]
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
    values = [0.0, -0.0, 1.0, 0.03125, 0.09375, 2.5, 1e-5, 1e-4, 12345678.9, 1e22, 1e16, 5e-324, np.inf, -np.inf,
              np.nan, 0.1 + 0.2, *(rng.normal(size=60) * 10.0 ** rng.integers(-12, 12, 60))]
    given = [[str(x) if not np.isfinite(x) else repr(float(x)), digits] for x in values for digits in (1, 3, 6, 10, 17)]
    number = "each[0] in NAMED ? NAMED[each[0]] : Number(each[0])"
    answers = node(f"return C.general({number}, each[1]);", given)
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


# --- the report, from text to sentences ---

def in_torch(dtype=torch.float32, precision=4):
    def write(x):
        torch.set_printoptions(precision=precision, threshold=10**6)
        try:
            return str(torch.tensor(np.asarray(x), dtype=dtype))
        finally:
            torch.set_printoptions(profile="default")
    return write


def listed_by_torch(dtype):
    return lambda x: str(torch.tensor(np.asarray(x), dtype=dtype).tolist())


WRITTEN = {
    "all digits": full, "four decimals": in_torch(), "eight decimals": lambda x: np.array2string(x, threshold=10**6),
    "float32": listed_by_torch(torch.float32), "float16": listed_by_torch(torch.float16),
    "bfloat16": listed_by_torch(torch.bfloat16),
}
SCORES = np.random.default_rng(10).normal(size=(12, 6))
TARGETS = [1, 2, 2, 4]
LOG_PROBS = log_softmax(SCORES)
GRID = np.random.default_rng(11).normal(size=(7, 4, 5))
LABELS = [1, 3, 1]
GRID_LOG_PROBS = log_softmax(GRID)


def no_last_blank():
    gradient = rnnt.grad_log_probs(GRID_LOG_PROBS, LABELS)
    gradient[-1, -1, 0] = 0.0
    return gradient


# what, loss, scores, gradient, what the report says: verdict, variable, and words that stand in it
REPORTS = [
    ("right", "ctc", SCORES, ctc.grad_logits(SCORES, TARGETS), "right", "logits", "a log-softmax is inside"),
    ("log-probs", "ctc", LOG_PROBS, ctc.grad_log_probs(LOG_PROBS, TARGETS), "right", "log_probs", "rows add up to 1"),
    ("as torch's ctc_loss", "ctc", LOG_PROBS, ctc.grad_logits(SCORES, TARGETS), "right", "logits",
     "The scores are log-probs: their rows add up to 1. This is the gradient with respect to the logits"),
    ("log-softmax forgotten in front", "ctc", SCORES, np.exp(SCORES) - ctc.occupancy(SCORES, TARGETS), "named",
     "log_probs", "apply one to the scores"),
    ("minus the occupancy", "ctc", SCORES, -ctc.occupancy(LOG_PROBS, TARGETS), "right", "log_probs",
     "the loss would tell"),
    ("RNN-T, log-softmax not gone back through", "rnnt", GRID, -rnnt.occupancy(GRID_LOG_PROBS, LABELS), "named",
     "logits", "the step back through the log-softmax is missing"),
    ("scores as they are", "rnnt", GRID, -rnnt.occupancy(GRID, LABELS), "right", "log_probs",
     "not that of a distribution"),
    ("sign", "rnnt", GRID, -rnnt.grad_logits(GRID, LABELS), "explained", "logits", "all entries times -1: the sign?"),
    ("divided by T", "ctc", SCORES, ctc.grad_logits(SCORES, TARGETS) / 12, "explained", "logits",
     "Here it is 1 / T."),
    ("FastEmit / 3", "rnnt", GRID, rnnt.grad_logits(GRID, LABELS, fastemit_lambda=0.3) / 3, "explained", "logits",
     "FastEmit, lambda = 0.3: the posteriors of the labels are multiplied by 1.3\nall entries times 0.333: "
     "a reduction? Here it is 1 / U."),
    ("clamp", "rnnt", GRID, np.clip(rnnt.grad_logits(GRID, LABELS), -0.125, 0.125), "explained", "logits",
     "The gradient is clamped to [-0.125, 0.125]."),
    ("clamp and factor", "rnnt", GRID, 0.5 * np.clip(rnnt.grad_logits(GRID, LABELS), -0.25, 0.25), "explained",
     "logits",
     "to [-0.125, 0.125] after all entries were multiplied, or to [-0.25, 0.25] before"),
    ("last blank", "rnnt", GRID_LOG_PROBS, no_last_blank(), "named", "log_probs", "last blank: missing"),
    ("last symbol is the blank", "rnnt", GRID, rnnt.grad_logits(GRID, LABELS, blank=4), "unknown", "logits", "[4]"),
    ("0 everywhere", "ctc", SCORES, np.zeros(SCORES.shape), "named", "log_probs", "it returns 0 for everything"),
    ("NaN everywhere", "rnnt", GRID, np.full(GRID.shape, np.nan), "named", "logits", "it returns NaN for everything"),
    ("loss scaling", "ctc", SCORES, 65536 * ctc.grad_logits(SCORES, TARGETS), "explained", "logits",
     "all entries times 65536, which is 2^16: loss scaling, or a reduction?"),
    ("a frame short", "ctc", SCORES, ctc.grad_logits(SCORES, TARGETS)[1:], "shape", "logits",
     "it has shape (11, 6); expected (12, 6)"),
    ("a symbol short", "rnnt", GRID, rnnt.grad_logits(GRID, LABELS)[..., 1:], "shape", "logits",
     "it has shape (7, 4, 4); expected (7, 4, 5)"),
    ("noise", "rnnt", GRID, np.random.default_rng(12).normal(size=GRID.shape), "unknown", "logits",
     "not on the list"),
]


@pytest.mark.parametrize("written", WRITTEN)
def test_reports(written):
    """The same words, however many digits are pasted."""
    write = WRITTEN[written]
    given = [pasted(loss, write(scores), write(gradient), TARGETS if loss == "ctc" else LABELS)
             for _, loss, scores, gradient, *_ in REPORTS]
    for (name, *_, verdict, variable, words), found in zip(REPORTS, node(REPORT, given), strict=True):
        said = "\n".join([*found["findings"], found["said"], found["clamp"], str(found["blanks"])])
        assert (found["verdict"], found["variable"]) == (verdict, variable), (name, said)
        rounded = name.startswith("clamp") and "float16" in written and "is clamped" in said  # and so is its limit
        assert words in said or rounded, (name, said)
        assert 1e-9 <= found["tolerance"] < (2e-2 if "float16" in written else 2e-4)


@pytest.mark.parametrize(("digits", "smallest"), [(3, 3e-4), (5, 3e-6), (8, 3e-9)])
def test_the_tolerance_follows_from_the_digits(digits, smallest):
    """Wrong by some units of the last digit is wrong; rounded is right, and said to be so within these digits."""
    gradient = ctc.grad_logits(SCORES, TARGETS)
    wrong = gradient.copy()
    wrong[3, 1] += 6 * 10.0**-digits
    write = f"{{:.{digits}f}}".format
    texts = []
    for each in (gradient, wrong):
        rows = ", ".join(f"[{', '.join(map(write, row))}]" for row in each)
        texts.append(f"tensor([{rows}], dtype=torch.float64)")
    given = [pasted("ctc", SCORES, text, TARGETS) for text in texts]
    right, bad = node(REPORT, given)
    assert right["verdict"] == "right" and bad["verdict"] == "unknown" and "(3, 1)" in bad["findings"][0]
    assert smallest < right["tolerance"] < 3 * smallest
    assert f"the gradient is given with {digits} decimals" == right["because"] == bad["because"]


@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_recursions_in_float32_are_right(loss):
    """Textbook recursions on float32 logarithms, over many frames: the report allows what these round, and says so."""
    rng, given = np.random.default_rng(13), []
    for T, U in ((10, 3), (60, 9), (200, 20)):
        targets = rng.integers(1, 5, U)
        scores = rng.normal(size=(T, 5) if loss == "ctc" else (T, U + 1, 5)).astype(np.float32)
        log_probs = (scores - np.log(np.exp(scores).sum(-1, keepdims=True))).astype(np.float32)
        module = MODULES[loss]
        a, b, log_z = (f(log_probs, targets, semiring=LOG32) for f in (module.alpha, module.beta, module.Z))
        used = np.zeros(scores.shape, np.float32)
        if loss == "ctc":
            for s, k in enumerate(ctc.extended_targets(targets)):
                used[:, k] += np.exp(a[:, s] + b[:, s] - log_z).astype(np.float32)
        else:
            after = np.vstack([b[1:], np.full((1, U + 1), -np.inf, np.float32)])
            after[-1, -1] = 0.0
            used[:, :, 0] = np.exp(a + log_probs[:, :, 0] + after - log_z)
            used[:, np.arange(U), targets] = np.exp(
                a[:, :-1] + log_probs[:, np.arange(U), targets] + b[:, 1:] - log_z)
        gradient = np.exp(log_probs) * used.sum(-1, keepdims=True) - used
        given.append(pasted(loss, scores, gradient, targets))
    for found in node(REPORT, given):
        assert found["verdict"] == "right" and 1e-7 < found["tolerance"] <= 1e-3, found["findings"]
        assert found["because"] == "float32 arithmetic may be as far off" or found["tolerance"] < 1e-5


def test_rounded_scores_widen_the_tolerance_and_exact_ones_do_not():
    """Two decimals that are all there are cost nothing."""
    rounded = np.round(SCORES, 2)
    given = [pasted("ctc", rounded, ctc.grad_logits(scores, TARGETS), TARGETS) for scores in (rounded, SCORES)]
    exact, moved = node(REPORT, given)
    assert exact["tolerance"] == 1e-9 and exact["because"] == "the numbers are taken as exact"
    assert moved["verdict"] == "right" and 1e-3 < moved["tolerance"] < 2e-2
    assert moved["because"].startswith("the scores are given with 2 decimals, which moves the right gradient by up to")


def test_a_chosen_tolerance_and_variable_are_used():
    gradient = ctc.grad_log_probs(LOG_PROBS, TARGETS)
    options = [{"variable": "logits"}, {"variable": "log_probs"}, {"tolerance": 1e-4}, {"tolerance": 1e-9}]
    given = [pasted("ctc", LOG_PROBS, gradient + 1e-5 * (n > 1), TARGETS, **each) for n, each in enumerate(options)]
    logits, log_probs, coarse, fine = node(REPORT, given)
    assert logits["findings"] == ["softmax term: missing"] and logits["variable"] == "logits"
    assert log_probs["findings"] == [] and log_probs["variable"] == "log_probs"
    assert coarse["verdict"] == "right" and fine["verdict"] == "unknown"
    assert coarse["because"] == fine["because"] == "you chose it"


LOSSES = [
    (SCORES, ctc.loss(LOG_PROBS, TARGETS), "The loss is -log Z of the logits, after a log-softmax, in nats."),
    (SCORES, ctc.loss(SCORES, TARGETS), "without a log-softmax, in nats. The gradient takes the scores as logits, so"),
    (SCORES, ctc.loss(LOG_PROBS, TARGETS) / np.log(2), "in bits. The gradient is 0.693 times that of this loss."),
    (SCORES, ctc.loss(LOG_PROBS, TARGETS) / 4, "divided by U, the number of labels. The gradient is 4 times"),
    (SCORES, ctc.loss(LOG_PROBS, TARGETS) / 12, "divided by T, the number of frames. The gradient is 12 times"),
    (SCORES, -ctc.loss(LOG_PROBS, TARGETS), "with the other sign: it is log Z. The gradient is -1 times"),
    (SCORES, 3.0, "No ratio of the two has a name here."),
    (LOG_PROBS, ctc.loss(LOG_PROBS, TARGETS), "The loss is -log Z of the log-probs, in nats."),
]


@pytest.mark.parametrize("digits", [4, 17])
def test_what_the_loss_is(digits):
    gradient = ctc.grad_logits(SCORES, TARGETS)
    given = [pasted("ctc", scores, gradient, TARGETS, value=f"tensor({value:.{digits}g}, grad_fn=<MeanBackward0>)")
             for scores, value, _ in LOSSES]
    for (*_, words), found in zip(LOSSES, node(REPORT, given), strict=True):
        assert words in found["loss"]


def test_the_loss_tells_what_the_scores_are_where_the_gradient_cannot():
    """Minus the occupancy of CTC is the same with a log-softmax inside, and without."""
    gradient = -ctc.occupancy(SCORES, TARGETS)
    values = [ctc.loss(scores, TARGETS) for scores in (LOG_PROBS, SCORES)]
    given = [pasted("ctc", SCORES, gradient, TARGETS, value=value) for value in values]
    inside, as_they_are = node(REPORT, given)
    assert inside["findings"] == ["softmax term: missing"] and "step back through the log-softmax" in inside["said"]
    assert as_they_are["verdict"] == "right" and "without a log-softmax" in as_they_are["said"]


def test_no_alignment():
    scores = SCORES[:2]
    right, nan = node(REPORT, [pasted("ctc", scores, np.zeros((2, 6)), [1, 1], value="inf"),
                               pasted("ctc", scores, str([[np.nan] * 6] * 2), [1, 1], value=0)])
    assert right["verdict"] == "right" and right["said"].startswith("No alignment exists")
    assert "as it should be" in right["loss"] and "should be inf. It is 0." in nan["loss"]
    assert nan["findings"] == ["entry (0, 0) is NaN: -inf minus -inf, or 0 times inf?"]


# --- the page ---


def test_the_page_links_to_what_the_sentences_are_about():
    """Each label that a finding may lead to stands on the page, in the list from which the script takes its links."""
    (labels,) = node("return C.allLabels();", [0])
    page = (ROOT / "book" / "clinic.md").read_text(encoding="utf-8").partition("clinic-places")[2]
    assert len(labels) > 12 and [label for label in labels if f"`{label}`" not in page] == []


def test_findings_lead_somewhere():
    sentences = ["softmax term: missing", "last blank: missing", "label term: wrong sign",
                 "FastEmit, lambda = 0.3: the", "all entries times -1: the sign?",
                 "entry (0, 0) is NaN: -inf minus -inf, or 0 times inf?",
                 "The gradient is clamped to [-1, 1].", "blank term: not divided by Z (`- log_z`)"]
    answers = node('return ["ctc", "rnnt"].map((loss) => C.labelsOf(each, loss));', sentences)
    for sentence, (ctc_labels, rnnt_labels) in zip(sentences, answers, strict=True):
        assert rnnt_labels and (ctc_labels or sentence.startswith(("last", "FastEmit"))), sentence
