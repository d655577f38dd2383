"""Families of mistakes: each differs from what is right, and a loss that makes one of them gets its name."""

import functools
import itertools
import random

import numpy as np
import pytest

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.conformance import Problem, function_subject, grade
from reference_impl.conformance.cases import GROUPS, cases
from reference_impl.conformance.causes import explanations
from reference_impl.conformance.census import census
from reference_impl.conformance.conventions import Conventions
from reference_impl.conformance.families import answers, applied, names
from reference_impl.conformance.families.ctc_lattice import Lattice
from reference_impl.conformance.families.rnnt_grid import Grid
from reference_impl.conformance.judging import Judge
from reference_impl.conformance.remembering import remembered

KINDS = "ctc", "rnnt"
DERIVED = " The gradient is the derivative of this wrong loss."
#: Sentences, of each sort of mistake at least one, that are planted; a bare name for each family.
PLANTED = {
    "ctc": [
        "In beta: whether a skip is allowed is asked of the state that it leaves (the source), not of the one that it "
        "enters.",
        "In alpha: it is updated in place over one buffer, so s - 1 and s - 2 are of the same frame, already "
        "updated, not of the frame before.",
        "In alpha and beta: a row is updated in place, the skip last: s - 2 reads what the arcs from s - 1 were "
        "already added to, so paths are counted twice.",
        "In alpha: the band of states that it visits ends at s < 2t + 1, where s < 2t + 2 has to be visited: the "
        "states of a new label in every frame are not visited.",
        "In the loss alone: alpha is divided by its sum in each frame, and the scale of the last frame is missing in "
        "the loss.",
        "In loss and gradient: a length check before the recursion asks for as many frames as states (2U + 1); an "
        "utterance with fewer is called impossible.",
        "In beta, with log Z from beta: it ends in the last blank only; a path may end in the last label, too.",
        "In beta: its moves, but not its first frame, take the emission of the frame before (t - 1 for t).",
        "In alpha: it takes the emission of the state after (s + 1 for s).",
        "In alpha and beta: it takes no emission of blanks: their probability is missing.",
        "In alpha: it takes the best where it should add all (a maximum for a sum, as in Viterbi).",
        "In the gradient: the gradient is that of the best path, not of the sum over all paths (Viterbi).",
        "In the gradient: the posterior takes beta of the frame before, and index -1 wraps around.",
        "In the gradient: the posteriors of the labels go to the column of the next symbol (label + 1).",
        "In the gradient: the gradient of the last frame is 0 (a loop that ends too early).",
        "In loss and gradient: the target ends at the first label 0, as if it were padding.",
        "In loss and gradient: softmax is taken over the frames, not over the symbols (the wrong axis).",
        "In loss and gradient: an epsilon of 1e-03 is added inside the logarithm: log(p + 1e-03).",
        "In loss and gradient: the logits are multiplied by 0.5 before the softmax (a temperature of 2).",
        "In the loss alone: log V is added to it.",
        "In the loss alone: an utterance of one frame (T = 1) is given a loss of 0 and no gradient.",
    ],
    "rnnt": [
        "In alpha: a blank arc reads the frame before (t - 1 for t).",
        "In beta: a label arc reads the row before (u - 1 for u).",
        "In beta, with log Z from beta: each blank is in it twice.",
        "In alpha: the first row is not added up: a node there has the blank before it alone (no cumulative sum).",
        "In alpha and beta: a label takes a frame, as in the monotonic RNN-T, so a frame has at most one label "
        "(diagonal arcs).",
        "In the gradient: the gradient of a label goes to the label before it (shifted by one), with a blank in front.",
        "In the gradient: the gradient of a label goes to the row that it enters (u + 1 for u, off by one).",
        "In the gradient: the posterior of a label takes beta of the node that it leaves (u for u + 1), not of the one "
        "that it enters.",
        "In the gradient: the softmax term has the occupancy of the next row's node.",
        "In the gradient: the softmax in the gradient is taken twice.",
        "In the gradient: the posterior of a label takes beta(t + 1, u + 1) in place of beta(t, u + 1): the arc "
        "leads to (t, u + 1).",
        "In the gradient: the posterior of a blank takes alpha(t, u + 1) in the place of alpha(t, u): the arc leaves "
        "(t, u).",
        "In the gradient: a label arc reads the row before (u - 1 for u).",
        "In the gradient: blanks in the last row have their posterior twice.",
        "In the gradient: the softmax term is missing in the last node.",
        "In alpha and beta: a blank arc reads the frame that it leads to (t + 1 for t), not the one that it leaves "
        "(the source).",
        "In alpha: nodes with u >= T are never computed (the range of u on an anti-diagonal ends at T - 1): "
        "targets with as many labels as frames, or more, are impossible.",
        "In alpha and beta: masses are added by logaddexp2, a sum to base 2: log2(2^a + 2^b); the scores are natural "
        "logarithms.",
        "In the loss alone: a frame has at most one label.",
        "In loss and gradient: labels are stored in 8 bits without a sign (uint8): label mod 256.",
        "In loss and gradient: every row is the first: the labels emitted so far are ignored.",
        "In loss and gradient: exp underflows, as one maximum of the whole array is subtracted, and what underflows is "
        "left unnormalised.",
    ],
}
#: Those that are fast, at least one of each kind.
FAST = {PLANTED["ctc"][0], PLANTED["ctc"][15], PLANTED["rnnt"][5], PLANTED["rnnt"][10], PLANTED["rnnt"][-3]}
#: Mistakes with a number in them, which is fitted.
FITTED = {
    "ctc": ["In loss and gradient: the logits are multiplied by 0.37 before the softmax (a temperature).",
            "In the loss alone: 0.123 is added to it.",
            "In the gradient: the posteriors of the labels are multiplied by 0.77."],
    "rnnt": ["In loss and gradient: probabilities are smoothed with the uniform distribution by 0.03 (label "
             "smoothing).",
             "In loss and gradient: the log-prob of the blank has 0.35 added (a blank penalty or bias)."],
}


def with_mistake(kind, sentence, *, rounded=False):
    """A loss that makes a mistake; it keeps float32 only if ``rounded``."""
    def function(scores, targets, *, blank):
        one = Problem("", "", scores, targets, blank)
        found = Conventions(kind).expected(one)
        found |= {field: values[0] for _, field, values in answers(one, "logits", only={sentence})}
        if rounded:
            found = {field: np.float64(np.float32(value)) for field, value in found.items()}
        return found["loss"], found["gradient"]
    return function_subject(function, kind)


@functools.cache
def small(kind):
    """Utterances on which two mistakes are compared."""
    return [case.problem for case in cases(kind)
            if not case.refusal and not case.problem.is_batch and 0 < len(case.problem.logits) <= 6]


def meant(kind, one, sentence):
    """Loss and gradient, each as all answers to which a sentence may lead; what it says nothing about is right."""
    right = Conventions(kind).expected(one)
    found = {field: [right[field]] for field in ("loss", "gradient")}
    found |= {field: values for _, field, values in answers(one, "logits", only={sentence})}
    for field in found:
        for _, value in explanations(one, field, Conventions(kind), right[field], only={sentence}):
            found[field] = [value]
    return found


def coincide(kind, planted, said):
    """Whether what is said has the same answers as what is planted, on every small utterance."""
    return all(any(np.shape(value) == np.shape(values[0]) and np.allclose(value, values[0], 1e-7, 1e-7, equal_nan=True)
                   for value in other[field])
               for one in small(kind) for other in [meant(kind, one, said)]
               for field, values in meant(kind, one, planted).items())


def differs(kind, sentence):
    """Whether a mistake changes anything on the small utterances."""
    return not coincide(kind, sentence, "no mistake")


def is_named(kind, sentence, said):
    return sentence in said or any(coincide(kind, sentence, other) for other in said)


def said_of(subject, without=("accuracy",)):
    report = grade(subject, shrink=False, without=without)
    return [finding.sentence.removesuffix(DERIVED) for finding in report.findings]


@pytest.mark.parametrize(("kind", "sentence"), [
    pytest.param(kind, sentence,
                 marks=[] if sentence in FAST else pytest.mark.exhaustive if k % 2 else pytest.mark.slow)
    for kind in KINDS for k, sentence in enumerate(PLANTED[kind])])
def test_planted_mistakes_get_their_name(kind, sentence):
    said = said_of(with_mistake(kind, sentence))
    assert is_named(kind, sentence, said), said


#: Sentences of CTC, drawn, so that each run plants the same.
DRAWN = random.Random(7).sample(names("ctc"), 16)


@pytest.mark.parametrize("sentence", [
    pytest.param(each, marks=[] if k < 1 else pytest.mark.slow if k < 8 else pytest.mark.exhaustive)
    for k, each in enumerate(DRAWN)])
def test_mistakes_drawn_from_the_families_get_their_name(sentence):
    """Or one whose answers coincide with it. What never changes an answer is no mistake, and gets none."""
    said = [each for each in said_of(with_mistake("ctc", sentence)) if not each.startswith("It accepts bad input")]
    if differs("ctc", sentence):
        assert is_named("ctc", sentence, said), said


def test_mistakes_that_differ_do_not_coincide():
    """What the tests above accept is no other mistake."""
    twice, missing, planted = (
        "In beta: the emission of frame 0 is in it twice (the first frame).",
        "In the gradient: the gradient of the last frame is 0 (a loop that ends too early).",
        "In beta: its moves, but not its first frame, take the emission of the frame before (t - 1 for t).")
    assert coincide("ctc", planted, "In beta: it takes the emission of the frame before (t - 1 for t).")
    assert not any(coincide("ctc", planted, other) for other in (twice, missing, "no mistake"))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sentence"), [(kind, sentence) for kind in KINDS for sentence in FITTED[kind]])
def test_numbers_are_fitted(kind, sentence):
    assert sentence in said_of(with_mistake(kind, sentence))


@pytest.mark.parametrize("backwards", [False, True])
def test_of_mistakes_with_the_same_answers_the_one_in_loss_and_gradient_comes_first(backwards):
    """In whatever order a set has them. A path of the RNN-T takes one blank in each frame."""
    sentences = [f"In loss and gradient: the log-prob of the blank has {0.35} added (a blank penalty or bias).",
                 f"In the loss alone: {-0.35} times the number of frames is added to it."]
    only = dict.fromkeys(sentences[::-1] if backwards else sentences)
    one = small("rnnt")[0]
    found = [(sentence, values[0]) for sentence, _, values in answers(one, "logits", only=only, field="loss")]
    assert [sentence for sentence, _ in found] == sentences
    np.testing.assert_allclose([value for _, value in found], found[0][1], rtol=1e-12, atol=0)


def test_a_share_of_a_node_is_the_posterior_over_that_of_the_node():
    """From the reference's posteriors, not from alpha and beta."""
    one = small("rnnt")[0]
    log_probs = log_softmax(one.logits)
    blanks, labels = rnnt.arc_posteriors(log_probs, one.targets, blank=one.blank)
    used = -rnnt.grad_log_probs(log_probs, one.targets, blank=one.blank)
    used[..., one.blank] = blanks / (blanks + np.pad(labels, [(0, 0), (0, 1)]))
    wanted = np.exp(log_probs) * used.sum(-1, keepdims=True) - used
    sentence = ("In the gradient: the share of an arc in its node's posterior, as if that were 1, is taken for the "
                "posterior of a blank.")
    found = [values for _, field, values in answers(one, "logits", only={sentence}) if field == "gradient"]
    assert any(np.allclose(value, wanted, rtol=0, atol=1e-12) for values in found for value in values)


def shows(kind, sentence):
    """Answers of a mistake to small utterances that are not the right ones, by case and field."""
    found = {}
    for case in cases(kind):
        one = case.problem
        if not case.refusal and not one.is_batch and 0 < len(one.logits) <= 6:
            right = Conventions(kind).expected(one)
            for _, field, values in answers(one, "logits", only={sentence}):
                if not np.allclose(values[0], right[field], rtol=1e-9, atol=1e-9, equal_nan=True):
                    found[case.id, field] = one, values[0]
    return found


def coincides(kind, said, found):
    """Whether a sentence leads to the same answers, where it says anything."""
    fits = asked = 0
    for (_, field), (one, value) in found.items():
        others = [each for _, about, values in answers(one, "logits", only={said}) if about == field
                  for each in values]
        others += [each for _, each in explanations(one, field, Conventions(kind), value, only={said})]
        asked += bool(others)
        fits += any(np.allclose(value, each, rtol=1e-6, atol=1e-6, equal_nan=True) for each in others)
    return fits >= 0.8 * asked > 0


@functools.cache
def sample():
    listed = names("rnnt")
    order = np.random.default_rng(3).permutation(len(listed))
    return [*itertools.islice((listed[i] for i in order if len(shows("rnnt", listed[i])) >= 8), 12)]


@pytest.mark.parametrize("n", [pytest.param(n, marks=pytest.mark.slow if n < 4 else pytest.mark.exhaustive)
                               for n in range(12)])
def test_a_sample_of_mistakes_get_their_name_or_one_that_coincides(n):
    sentence = sample()[n]
    said = said_of(with_mistake("rnnt", sentence))
    assert sentence in said or any(coincides("rnnt", each, shows("rnnt", sentence)) for each in said), said


# --- what lies outside one answer ---


def log_probs_of(scores):
    with np.errstate(all="ignore"):
        return log_softmax(scores)


def right(scores, targets, blank):
    log_probs = log_probs_of(scores)
    return (rnnt.loss(log_probs, targets, blank=blank),
            np.exp(log_probs) * rnnt.occupancy(log_probs, targets, blank=blank).sum(-1, keepdims=True)
            - rnnt.occupancy(log_probs, targets, blank=blank))


def not_cleared():
    kept = {}

    def function(scores, targets, *, blank):
        loss, gradient = right(scores, targets, blank)
        buffer = kept.setdefault(scores.shape, np.zeros(scores.shape))
        written = np.zeros(scores.shape, bool)
        written[..., blank] = True
        written[:, np.arange(len(targets)), targets] = True
        buffer[written] = gradient[written]
        return loss, buffer.copy()
    return function


def targets_kept():
    kept = {}

    def function(scores, targets, *, blank):
        return right(scores, kept.setdefault(scores.shape, targets.copy()), blank)
    return function


def added_to():
    total = {}

    def function(scores, targets, *, blank):
        loss, gradient = right(scores, targets, blank)
        total[scores.shape] = total.get(scores.shape, 0.0) + gradient
        return loss, total[scores.shape].copy()
    return function


def random_noise():
    rng = np.random.default_rng(0)

    def function(scores, targets, *, blank):
        loss, gradient = right(scores, targets, blank)
        return loss, gradient + 1e-3 * rng.normal(size=gradient.shape)
    return function


def kept_sentences(function):
    judge = Judge(function_subject(function, "rnnt"), Conventions("rnnt"))
    return remembered(judge, "float64")


@pytest.mark.parametrize(("made", "words"), [
    (not_cleared, "entries of an earlier gradient are left in the next one; a buffer is not cleared; they are those of "
                  "the labels of an earlier target"),
    (targets_kept, "the targets of an earlier call are taken, of the same shape"),
    (added_to, "A buffer is added to, and not cleared between calls"),
    (random_noise, "The same input gives different answers when it is asked again."),
])
def test_state_between_calls_is_named(made, words):
    sentences = kept_sentences(made())
    assert len(sentences) == 1 and words in sentences[0]


@pytest.mark.parametrize(("made", "many"), [(not_cleared, 1), (added_to, 1), (random_noise, 2)])
def test_memory_is_the_cause_of_what_has_no_other(made, many):
    """Noise is none: it is told beside what is wrong."""
    without = [group for group in GROUPS if group not in ("repeats", "blank")]
    found = grade(function_subject(made(), "rnnt"), shrink=False, without=without).findings
    assert len(found) == many and "asked" in found[-1].sentence
    assert bool(found[-1].cases) is (many == 1) and "gradient" in found[0].fields


def test_what_is_right_has_no_state():
    assert not kept_sentences(lambda scores, targets, *, blank: right(scores, targets, blank))


def test_a_mask_that_no_path_uses_is_told_from_one_that_a_path_uses():
    def one_hot(scores, targets, *, blank):
        loss, gradient = right(scores, targets, blank)
        nan = np.nan if np.isinf(scores).any() else 1.0
        return loss * nan, gradient * nan

    judge = Judge(function_subject(one_hot, "rnnt"), Conventions("rnnt"))
    said = {case.problem.name: [wrong.complaint for wrong in judge.answer(case).wrong] for case in cases("rnnt")
            if case.group == "masks"}
    assert all("no path uses: 0 times -inf, as in a one-hot product" in each for each in said["label-elsewhere"])
    assert all("that a path uses is -inf, a mask: -inf minus -inf" in each for each in said["on-the-way"])
    assert said["label-elsewhere"] and said["on-the-way"]


def test_the_census_takes_a_loss_of_0_for_no_alignment_where_that_is_the_convention():
    def zero_infinity(scores, targets, *, blank):
        return np.nan_to_num(ctc.loss(log_softmax(scores), targets, blank=blank), posinf=0.0), np.zeros(scores.shape)

    assert not census(Judge(function_subject(zero_infinity, "ctc"), Conventions("ctc", impossible=0.0)))


def test_beta_is_suspected_only_where_the_losses_came_back_and_are_right():
    def gradient_of_others(scores, targets, *, blank):
        """Symbols that are neither blank nor label have three times the gradient and one."""
        loss, gradient = right(scores, targets, blank)
        others = np.ones(gradient.shape, bool)
        others[..., blank] = False
        others[:, np.arange(len(targets)), targets] = False
        return loss, np.where(others, 3 * gradient + np.cos(scores), gradient)

    said = said_of(function_subject(gradient_of_others, "rnnt"))
    assert any("neither the blank nor a label" in each for each in said) and not any("is beta" in each for each in said)


def test_a_mistake_is_named_in_float32():
    sentence = "In the gradient: the gradient of the last frame is 0 (a loop that ends too early)."
    few = [group for group in GROUPS if group not in ("labels", "repeats", "blank")]
    assert sentence in said_of(with_mistake("ctc", sentence, rounded=True), few)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_sentence_is_about_another_mistake_than_it_names(kind):
    """What is planted is listed, each sentence once, and what is planted differs from what is right."""
    listed, wrong = {*names(kind)}, set()
    assert {*PLANTED[kind]} <= listed and len(listed) == len(names(kind))
    for case in cases(kind):
        one = case.problem
        if not case.refusal and not one.is_batch and 0 < len(one.logits) <= 6:
            right = Conventions(kind).expected(one)
            for sentence, field, values in answers(one, "logits"):
                assert sentence in listed and all(np.shape(value) == np.shape(right[field]) for value in values)
                if sentence not in wrong and not all(
                        np.allclose(value, right[field], rtol=1e-9, atol=1e-9, equal_nan=True) for value in values):
                    wrong.add(sentence)
    assert {*PLANTED[kind]} <= wrong


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_lattices_are_right(kind):
    """Changed by nothing, what the families compute is the reference's loss and gradient."""
    made = {"ctc": Lattice, "rnnt": Grid}[kind]
    used_of = {"ctc": applied._ctc_used, "rnnt": applied._rnnt_used}[kind]
    for case, variable in itertools.product(cases(kind), ("logits", "log_probs")):
        one = case.problem
        if case.refusal or one.is_batch or one.fastemit_lambda or not 0 < len(one.logits) <= 16:
            continue
        right = Conventions(kind, variable=variable).expected(one)
        lattice = made(log_softmax(one.logits), one.targets, one.blank)
        with np.errstate(all="ignore"):
            alpha, beta = lattice.alpha(), lattice.beta()
            log_z = lattice.log_z(alpha)
            assert np.allclose([-log_z, -lattice.log_z_of_beta(beta)], right["loss"], rtol=1e-12, atol=1e-12), case.id
            if log_z > -np.inf:
                gradient = applied._gradients(variable, np.exp(lattice.log_probs), used_of(
                    lattice, alpha, beta, log_z))[0]
                assert np.allclose(gradient, right["gradient"], rtol=0, atol=1e-10), case.id
