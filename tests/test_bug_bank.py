"""The bank of planted bugs: each is killed by the check it names, no check kills all, and the right code passes all."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from implementations import BATCHED, TORCH

from reference_impl import log_softmax, rnnt
from reference_impl.bug_bank import BUGS, CHECKS, RIGHT, Candidate, matrix
from reference_impl.bug_bank.torch_candidate import torch_candidate
from reference_impl.semiring import LOG32

CHECK_NAMES = [check.name for check in CHECKS]
BUG_IDS = [f"{bug.loss}: {bug.name}" for bug in BUGS]


@pytest.fixture(scope="module")
def killed():
    return matrix()


@pytest.mark.parametrize("candidate", RIGHT, ids=[f"{c.loss} {c.variable}" for c in RIGHT])
def test_the_right_code_passes_every_check(candidate):
    assert [check.name for check in CHECKS if check.kills(candidate)] == []


@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_batched_passes_every_check(loss):
    """Another right code, which no check was written with: so the checks are about gradients, not about one program."""
    def function(scores, targets, logit_lengths, target_lengths, *, blank=0):
        losses, gradient = BATCHED[loss](scores, targets, logit_lengths, target_lengths, blank=blank)

        def backward(upstream):
            scale = upstream.reshape(-1, *[1] * (scores.ndim - 1))
            return np.multiply(gradient, scale, out=np.zeros_like(gradient), where=gradient != 0)

        return losses, backward

    candidate = Candidate(loss, "logits", function)
    assert [check.name for check in CHECKS if check.kills(candidate)] == []


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("variable", ["logits", "log_probs"])
@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_torch_passes_every_check(loss, variable, dtype, tolerance):
    """Wrapped in a Candidate; in float32 with the tolerance of float32."""
    function = partial(TORCH[loss], reduction="none", inputs=variable)
    candidate = torch_candidate(loss, variable, function, dtype=dtype, tolerance=tolerance)
    assert [check.name for check in CHECKS if check.kills(candidate)] == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_torch_candidate_hands_over_what_it_is_given(dtype):
    """Tensors of the given dtype in, float64 arrays out, and the upstream gradient of each utterance in between."""
    seen = []

    def function(scores, targets, logit_lengths, target_lengths, *, blank):
        seen.append((scores.dtype, targets.tolist(), logit_lengths.tolist(), target_lengths.tolist(), blank))
        return (scores**2).sum((1, 2))

    scores = np.array([[[1.0, 2.0]], [[3.0, -1.0]]])
    candidate = torch_candidate("ctc", "logits", function, dtype=dtype, tolerance=0.5)
    batch = np.array([[0], [0]]), np.array([1, 1]), np.array([1, 0])
    losses, backward = candidate.function(scores, *batch, blank=1)
    assert seen == [(dtype, [[0], [0]], [1, 1], [1, 0], 1)]
    assert (losses.tolist(), losses.dtype) == ([5.0, 10.0], np.float64)
    gradient = backward(np.array([1.0, -2.0]))
    assert (gradient.tolist(), gradient.dtype) == ([[[2.0, 4.0]], [[-12.0, 4.0]]], np.float64)
    np.testing.assert_array_equal(backward(np.ones(2)), 2 * scores)
    assert (candidate.loss, candidate.variable, candidate.tolerance) == ("ctc", "logits", 0.5)
    np.testing.assert_array_equal(candidate.gradient(scores[1], [0], blank=1), 2 * scores[1])


def test_a_torch_candidate_that_is_wrong_is_killed():
    """torch's own CTC gradient, taken for that with respect to the log-probs; behind log-softmax it is right."""
    def of_log_probs(log_probs, *batch, blank):
        return torch.nn.functional.ctc_loss(log_probs.transpose(0, 1), *batch, blank=blank, reduction="none")

    def of_logits(logits, *batch, blank):
        return of_log_probs(logits.log_softmax(-1), *batch, blank=blank)

    check = CHECKS[CHECK_NAMES.index("finite differences, repeated labels")]
    assert check.kills(torch_candidate("ctc", "log_probs", of_log_probs))
    assert not check.kills(torch_candidate("ctc", "logits", of_logits))


def test_a_torch_candidate_of_another_kind():
    with pytest.raises(ValueError, match="^loss = 'hmm'; expected one of 'ctc', 'rnnt'$"):
        torch_candidate("hmm", "logits", None)
    with pytest.raises(ValueError, match="^variable = 'probs'; expected one of 'logits', 'log_probs'$"):
        torch_candidate("ctc", "probs", None)


@pytest.mark.parametrize("bug", BUGS, ids=BUG_IDS)
def test_is_killed_by_the_check_it_names(bug, killed):
    assert bug.killed_by in CHECK_NAMES
    assert killed[BUGS.index(bug), CHECK_NAMES.index(bug.killed_by)]


@pytest.mark.parametrize(("name", "apart", "trips"), [
    ("certain of the label, not of its frame, against the reference", 2.0**-25, True),
    ("log Z below -10000, against the reference", 1e-3, False),
])
def test_a_mismatch_is_relative_to_log_z(name, apart, trips):
    """After 1ytic/warp-rnnt: a difference of 3e-8 is too large at a loss of 6e-6, one of 1e-3 small at log Z = -1e4."""
    (bug,) = [bug for bug in BUGS if bug.name == "utterance dropped on a mismatch"]
    (reference,) = [right for right in RIGHT if (right.loss, right.variable) == ("rnnt", "logits")]
    scores, targets = asked_by(CHECKS[CHECK_NAMES.index(name)])
    log_probs, right = log_softmax(scores), reference(scores, targets)
    a = rnnt.Z(log_probs, targets, semiring=LOG32)
    b = rnnt.beta(log_probs, targets, semiring=LOG32)[0, 0]
    assert abs(a - b) >= apart and (abs(a - b) > 1e-3 * abs(max(a, b))) == trips
    loss, gradient = bug(scores, targets)
    if trips:
        assert loss == -(a + b) / 2 != right[0] and (gradient == 0).all() and np.abs(right[1]).max() > 1e-6
    else:
        assert loss == right[0] and (gradient == right[1]).all()


def asked_by(check):
    """Scores and targets of the one utterance that a check asks an RNN-T loss about."""
    asked = []

    def recorder(scores, targets, *_, blank=0):
        asked.append((scores[0], targets[0]))
        return np.zeros(1), lambda upstream: np.zeros_like(scores)

    check.passes(Candidate("rnnt", "logits", recorder))
    return asked[0]


def test_no_check_kills_everything_and_each_kills_something(killed):
    """Each among the bugs of the losses and variables that it applies to."""
    for check, column in zip(CHECKS, killed.T, strict=True):
        applies = [check.applies(bug) for bug in BUGS]
        assert 0 < column.sum() < sum(applies), check.name


def test_every_check_is_needed_or_speaks_for_itself(killed):
    """Some bugs are seen by one check alone: leave that check out, and they pass for right."""
    alone = killed[killed.sum(1) == 1]
    assert len(alone) >= 10
    assert len({int(row.argmax()) for row in alone}) >= 8


def test_matrix_is_deterministic(killed):
    np.testing.assert_array_equal(matrix(), killed)


def test_names_are_unique():
    for names in (CHECK_NAMES, [bug.name for bug in BUGS]):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("bug", BUGS, ids=BUG_IDS)
def test_says_what_is_wrong_and_where_it_was_met(bug):
    assert bug.mechanism.endswith(".")
    assert bug.source.split()[0].rstrip(":;,") in {"after", "asked", "constructed"}
    assert (bug.loss, bug.variable) in {(c.loss, c.variable) for c in RIGHT}


def test_no_two_bugs_do_the_same():
    """What a bug answers to all that the checks ask, losses and gradients, differs from every other's answers."""
    fingerprints = [fingerprint(bug) for bug in (*RIGHT, *BUGS)]
    assert len(set(fingerprints)) == len(fingerprints)


def fingerprint(candidate):
    answers = []

    def recorder(*arguments, **options):
        losses, backward = candidate.function(*arguments, **options)

        def recording(upstream):
            gradient = backward(upstream)
            answers.append(np.nan_to_num(np.concatenate([losses, gradient.ravel()]), nan=77.0).round(7).tobytes())
            return gradient

        return losses, recording

    for check in CHECKS:
        answers.append(bytes([check.kills(replace(candidate, function=recorder))]))
    return candidate.loss, candidate.variable, b"".join(answers)
