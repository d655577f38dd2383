"""The bank of planted bugs: each is killed by the check it names, no check kills all, and the right code passes all."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from implementations import BATCHED, TORCH

from reference_impl.bug_bank import BUGS, CHECKS, RIGHT, Candidate, matrix

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
    """A Candidate wraps an autograd loss in a few lines; in float32 with the tolerance of float32."""
    def function(scores, targets, logit_lengths, target_lengths, *, blank=0):
        leaf = torch.tensor(scores, dtype=dtype, requires_grad=True)
        losses = TORCH[loss](leaf, *map(torch.tensor, (targets, logit_lengths, target_lengths)), blank=blank,
                             reduction="none", inputs=variable)

        def backward(upstream):
            gradient, = torch.autograd.grad(losses, leaf, torch.tensor(upstream, dtype=losses.dtype), retain_graph=True)
            return gradient.double().numpy()

        return losses.detach().double().numpy(), backward

    candidate = Candidate(loss, variable, function, tolerance=tolerance)
    assert [check.name for check in CHECKS if check.kills(candidate)] == []


@pytest.mark.parametrize("bug", BUGS, ids=BUG_IDS)
def test_is_killed_by_the_check_it_names(bug, killed):
    assert bug.killed_by in CHECK_NAMES
    assert killed[BUGS.index(bug), CHECK_NAMES.index(bug.killed_by)]


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
