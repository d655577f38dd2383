"""What both losses mean at the edges, the same in every implementation: no alignment, masks, NaN, empty, one, no frame.

What concerns autograd only (upstream gradients, devices, unchecked values) is in test_torch_impl.py; messages are in
test_messages.py.
"""

from itertools import product

import numpy as np
import pytest
import torch
from enumeration import loss_and_grad_logits, loss_and_occupancy
from implementations import (
    BATCHED,
    BY_TENSOR_OPS,
    BY_TRITON,
    COMPILED,
    EXACT,
    EXPLICIT,
    IMPLEMENTATIONS,
    IMPLEMENTATIONS_AND_VARIABLES,
    TORCH,
    Batch,
    assert_gradients,
    assert_losses,
    evaluate,
    every_kind,
    every_torch_loss,
    one,
    pad,
    random_scores,
)

from reference_impl import log_softmax

every_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
every_variable = pytest.mark.parametrize(("implementation", "variable"), IMPLEMENTATIONS_AND_VARIABLES)


def impossible_utterances(kind):
    """(scores, targets) without any alignment, for different reasons."""
    rng = np.random.default_rng(0)
    if kind == "ctc":
        shapes = [(2, [1, 2, 1]), (1, [1, 2]), (2, [1, 1]), (4, [1, 1, 1]), (3, [2, 2, 1]), (0, [1])]
        impossible = [(random_scores(rng, kind, T, len(targets), 4), targets) for T, targets in shapes]
        whole_frame = random_scores(rng, kind, 4, 2, 4)
        whole_frame[2] = -np.inf
        no_label = random_scores(rng, kind, 4, 2, 4)
        no_label[:, 2] = -np.inf
        return [*impossible, (whole_frame, [1, 2]), (no_label, [1, 2])]
    masked = {}
    for name in ("last blank", "all blanks of a frame", "a label everywhere", "everything"):
        masked[name] = random_scores(rng, kind, 3, 2, 4)
    masked["last blank"][-1, -1, 0] = -np.inf
    masked["all blanks of a frame"][1, :, 0] = -np.inf
    masked["a label everywhere"][:, 1, 2] = -np.inf
    masked["everything"][:] = -np.inf
    return [(scores, [1, 2]) for scores in masked.values()]


@every_kind
@every_variable
def test_no_alignment(kind, implementation, variable):
    """Loss inf, gradient exactly 0; a neighbour in the batch is none the worse for it."""
    neighbour = (random_scores(np.random.default_rng(1), kind, 4, 2, 4), [1, 2])
    impossible = impossible_utterances(kind)
    assert all(loss_and_occupancy(kind, scores, targets, 0)[0] == np.inf for scores, targets in impossible)
    batch = pad([neighbour, *impossible, neighbour])
    losses, gradient = evaluate(implementation, batch, variable)
    assert (losses[1:-1] == np.inf).all()
    assert (gradient[1:-1] == 0).all()
    expected_loss, expected_gradient = evaluate("explicit", one(*neighbour), variable)
    for b in (0, -1):
        assert_losses(losses[b], expected_loss[0])
        assert_gradients(gradient[batch.used(b)], expected_gradient[0])


def test_too_few_frames_is_decided_by_repeats():
    """CTC needs U + repeats frames, not just U: the border on both sides."""
    for targets in ([1, 1], [1, 2, 2], [2, 2, 2], [1, 2, 1]):
        repeats = sum(a == b for a, b in zip(targets, targets[1:], strict=False))
        needed = len(targets) + repeats
        assert EXPLICIT["ctc"].loss(np.zeros((needed - 1, 3)), targets) == np.inf
        assert EXPLICIT["ctc"].loss(np.zeros((needed, 3)), targets) == 0.0  # one path, of weight 1


@every_kind
@every_variable
def test_masks(kind, implementation, variable):
    """-inf scores against enumeration: fewer paths, but some; whole rows in RNN-T that paths can walk around."""
    utterances = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        scores = random_scores(rng, kind, 5, 2, 4)
        scores[rng.random(scores.shape) < 0.15] = -np.inf
        scores[..., 0] = np.where(scores[..., 0] == -np.inf, 0.5, scores[..., 0])
        if kind == "rnnt" and seed % 2:
            scores[1, 1] = -np.inf
        utterances.append((scores, [1, 2]))
    batch = pad(utterances)
    losses, gradient = evaluate(implementation, batch, variable)
    assert np.isfinite(losses).sum() >= 4
    for b, (scores, targets) in enumerate(utterances):
        if variable == "logits":
            loss, expected = loss_and_grad_logits(kind, scores, targets, 0)
        else:
            loss, expected = loss_and_occupancy(kind, scores, targets, 0)
            expected = -expected
        assert_losses(losses[b], loss)
        assert_gradients(gradient[batch.used(b)], expected)
        assert (gradient[b][batch.scores[b] == -np.inf] == 0).all()


def test_log_softmax_of_masks():
    """A row with nothing in it stays all -inf; others normalise over what is left."""
    log_probs = log_softmax([[0.0, -np.inf, 0.0], [-np.inf] * 3])
    np.testing.assert_allclose(np.exp(log_probs), [[0.5, 0, 0.5], [0, 0, 0]], rtol=0, atol=1e-15)
    assert (log_probs[1] == -np.inf).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@every_kind
def test_the_largest_floats(kind, dtype):
    """A mask written as the lowest finite number, beside the highest: no overflow, no NaN, no warning."""
    limits = np.finfo(dtype)
    logits = random_scores(np.random.default_rng(0), kind, 3, 1, 3).astype(dtype)
    logits[0, ..., 2], logits[1, ..., 2], logits[2, ..., 0] = limits.min, limits.min, limits.max
    batch = one(logits, [1])
    losses, gradient = BATCHED[kind](batch.scores, batch.targets, batch.logit_lengths, batch.target_lengths)
    explicit = EXPLICIT[kind].grad_logits(logits, [1])
    assert np.isfinite(losses).all()
    assert_losses(losses[0], EXPLICIT[kind].loss(log_softmax(logits), [1]), 1e-6)
    assert_gradients(gradient[0], explicit, 2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [-1e30, 1e12, 1e17, "lowest", "highest"])
@every_torch_loss
def test_frames_of_large_numbers(kind, size, dtype):
    """A whole frame masked by a finite number, or all shifted: its log-probs are those of equal logits, or nearly.

    A log-probability of -log V must not be lost in a log-sum-exp that is that large itself.
    """
    limits = {"lowest": torch.finfo(dtype).min, "highest": torch.finfo(dtype).max}
    rng = np.random.default_rng(0)
    scores = torch.tensor(random_scores(rng, kind, 5, 2, 4)).to(dtype)
    scores[1:3] = scores[1:3] + size if size not in limits else limits[size]
    targets, T, U = torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])

    def losses(scores):
        return TORCH[kind](scores[None], targets, T, U, reduction="none")

    scores.requires_grad_()
    gradient, = torch.autograd.grad(losses(scores), scores)
    near = scores.detach().to(torch.float64)
    near[1:3] -= near[1:3].amax()  # exact: such numbers differ by multiples of their spacing
    near.requires_grad_()
    expected, = torch.autograd.grad(losses(near), near)
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(losses(scores).double(), losses(near), rtol=tolerance, atol=0)
    torch.testing.assert_close(gradient.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("size", [-1e30, 1e17, np.finfo(np.float32).min, np.finfo(np.float32).max])
@every_kind
def test_frames_of_large_numbers_everywhere(kind, size, implementation):
    """The same on every backend, against the explicit recursions."""
    logits = random_scores(np.random.default_rng(0), kind, 4, 2, 3)
    logits[1:3] = size
    losses, gradient = evaluate(implementation, one(logits, [1, 2]))
    assert_losses(losses[0], EXPLICIT[kind].loss(log_softmax(logits), [1, 2]))
    assert_gradients(gradient[0], EXPLICIT[kind].grad_logits(logits, [1, 2]))


@every_kind
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("implementation", ["explicit", "batched"])
def test_nan_is_an_error_in_numpy(kind, implementation, value):
    scores = random_scores(np.random.default_rng(0), kind, 3, 1, 3)
    scores.flat[4] = value
    with pytest.raises(ValueError, match="expected no NaN and no \\+inf"):
        evaluate(implementation, one(scores, [1]))


@every_kind
@pytest.mark.parametrize("variable", ["logits", "log_probs"])
@pytest.mark.parametrize("implementation", [*BY_TENSOR_OPS, BY_TRITON, COMPILED])
def test_nan_stays_inside_its_utterance_in_torch(kind, implementation, variable):
    """NaN and +inf, in the middle and in the last blank, where no later sum would turn +inf into NaN by itself.

    Every second utterance is broken in its own way, and all broken ones have as many frames as the batch.
    """
    rng = np.random.default_rng(0)
    utterances = [(random_scores(rng, kind, T, 1, 3), [1]) for T in (3, 4, 3, 4, 3, 4, 3, 4, 3)]
    healthy_losses, healthy_gradient = evaluate(implementation, pad(utterances), variable)
    for b, (value, frame) in zip((1, 3, 5, 7), product((np.nan, np.inf), (1, -1)), strict=True):
        utterances[b][0][frame, ..., 0] = value
    losses, gradient = evaluate(implementation, pad(utterances), variable)
    for b in (1, 3, 5, 7):
        assert np.isnan(losses[b])
        assert np.isnan(gradient[b]).any()
    np.testing.assert_array_equal(losses[::2], healthy_losses[::2])
    np.testing.assert_array_equal(gradient[::2], healthy_gradient[::2])


@every_kind
@pytest.mark.parametrize("implementation", ["explicit", "lattice", *BY_TENSOR_OPS, BY_TRITON, COMPILED])
def test_positive_log_probs_are_scores(kind, implementation):
    """Weights above 1 are fine: the loss may be negative, the gradient stays -occupancy."""
    scores = 3 + random_scores(np.random.default_rng(3), kind, 4, 2, 3)
    losses, gradient = evaluate(implementation, one(scores, [1, 2]), "log_probs")
    expected_loss, occupancy = loss_and_occupancy(kind, scores, [1, 2], 0)
    assert expected_loss < 0
    assert_losses(losses, [expected_loss])
    assert_gradients(gradient[0], -occupancy)


@every_kind
@every_implementation
@pytest.mark.parametrize(("T", "targets"), [(1, []), (1, [1]), (3, []), (3, [2, 2])])
def test_empty_targets_and_one_frame(kind, implementation, T, targets):
    scores = random_scores(np.random.default_rng(4), kind, T, len(targets), 3)
    losses, gradient = evaluate(implementation, one(scores, targets))
    expected_loss, expected_gradient = loss_and_grad_logits(kind, scores, targets, 0)
    assert_losses(losses, [expected_loss])
    assert_gradients(gradient[0], expected_gradient)


@every_implementation
def test_empty_targets_only(implementation):
    """A batch whose targets have no column at all: all frames are blank."""
    batch = pad([(np.zeros((3, 2)), []), (np.zeros((2, 2)), [])])
    assert batch.targets.shape == (2, 0)
    losses, gradient = evaluate(implementation, batch)
    assert_losses(losses, np.log(2) * np.array([3, 2]))
    assert_gradients(gradient[1], [[-0.5, 0.5], [-0.5, 0.5], [0, 0]])


@every_variable
def test_ctc_without_frames(implementation, variable):
    """Loss 0 for the empty target, inf for any other; with frames in the batch, and without a single one."""
    no_frames = np.zeros((0, 3))
    batch = pad([(no_frames, []), (no_frames, [1]), (np.zeros((2, 3)), [1])])
    losses, gradient = evaluate(implementation, batch, variable)
    assert losses[:2].tolist() == [0.0, np.inf]
    assert np.isfinite(losses[2])
    assert (gradient[:2] == 0).all()
    losses, gradient = evaluate(implementation, pad([(no_frames, []), (no_frames, [1])]), variable)
    assert losses.tolist() == [0.0, np.inf]
    assert gradient.shape == (2, 0, 3)


@pytest.mark.parametrize("implementation", ["explicit", "batched", "torch"])
@pytest.mark.parametrize("B", [0, 1])
def test_rnnt_without_frames(implementation, B):
    batch = one(np.zeros((0, 1, 3)), [])
    if B == 0 and implementation != "explicit":
        batch = batch.first(0)
    with pytest.raises(ValueError, match="T = 0; expected T >= 1"):
        evaluate(implementation, batch)


@every_kind
@pytest.mark.parametrize("implementation", ["batched", *BY_TENSOR_OPS, BY_TRITON, COMPILED])
def test_empty_batch(kind, implementation):
    full = one(random_scores(np.random.default_rng(0), kind, 3, 2, 4), [1, 2])
    losses, gradient = evaluate(implementation, full.first(0))
    assert losses.shape == (0,)
    assert gradient.shape == full.scores[:0].shape


@every_kind
@pytest.mark.parametrize("implementation", ["explicit", "batched"])
def test_integer_types(kind, implementation):
    batch = one(random_scores(np.random.default_rng(0), kind, 4, 2, 4), [1, 2])
    losses, gradient = evaluate(implementation, batch)
    integers = [a.astype(np.int32) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    narrow = Batch(batch.scores, *integers, np.int32(0))
    narrow_losses, narrow_gradient = evaluate(implementation, narrow)
    np.testing.assert_array_equal(narrow_losses, losses)
    np.testing.assert_array_equal(narrow_gradient, gradient)


@every_kind
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_types_of_batched(kind, dtype):
    """Half and float32 logits: float32 losses. The gradient has the logits' type, and its precision."""
    logits = random_scores(np.random.default_rng(0), kind, 6, 3, 5).astype(dtype)
    batch = one(logits, [1, 1, 4])
    losses, gradient = BATCHED[kind](batch.scores, batch.targets, batch.logit_lengths, batch.target_lengths)
    assert losses.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert gradient.dtype == dtype
    loss, expected = EXPLICIT[kind].loss(log_softmax(logits), [1, 1, 4]), EXPLICIT[kind].grad_logits(logits, [1, 1, 4])
    assert_losses(losses[0], loss, max(EXACT, 4 * np.finfo(losses.dtype).eps))
    assert_gradients(gradient[0], expected, max(EXACT, 4 * np.finfo(dtype).eps))


@every_kind
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_explicit_is_float64_whatever_the_input(kind, dtype):
    scores = random_scores(np.random.default_rng(0), kind, 4, 2, 4).astype(dtype)
    for name in ("log_alpha", "log_beta", "occupancy", "grad_log_probs", "grad_logits"):
        result = getattr(EXPLICIT[kind], name)(scores, [1, 2])
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, getattr(EXPLICIT[kind], name)(scores.astype(np.float64), [1, 2]))
    assert isinstance(EXPLICIT[kind].loss(scores, [1, 2]), float)


@every_kind
@pytest.mark.parametrize("implementation", ["explicit", "batched"])
def test_arguments_are_not_modified(kind, implementation):
    """Read-only arrays work, so nothing writes to them."""
    batch = pad([(random_scores(np.random.default_rng(0), kind, T, 2, 4), [1, 2]) for T in (3, 4)])
    for argument in (batch.scores, batch.targets, batch.logit_lengths, batch.target_lengths):
        argument.flags.writeable = False
    evaluate(implementation, batch)


@every_kind
def test_results_share_no_memory_with_arguments(kind):
    batch = one(random_scores(np.random.default_rng(0), kind, 4, 2, 4), [1, 2])
    _, gradient = BATCHED[kind](batch.scores, batch.targets, batch.logit_lengths, batch.target_lengths)
    assert not np.shares_memory(gradient, batch.scores)


@every_kind
@pytest.mark.parametrize("implementation", ["explicit", "batched"])
def test_strided_arrays(kind, implementation):
    """Views of any layout: reversed, transposed, every second column of a larger array."""
    rng = np.random.default_rng(0)
    scores = random_scores(rng, kind, 4, 2, 4)
    reference = evaluate(implementation, one(scores, [1, 2]))
    wide = np.repeat(scores, 2, axis=-1)[..., ::2]
    fortran = np.asfortranarray(scores)
    backwards = scores[::-1].copy()[::-1]
    for view in (wide, fortran, backwards):
        targets = np.array([2, 1])[::-1]
        losses, gradient = evaluate(implementation, one(view, targets))
        assert_losses(losses, reference[0])
        assert_gradients(gradient, reference[1])


@every_kind
def test_lists_are_welcome_in_numpy(kind):
    scores = random_scores(np.random.default_rng(0), kind, 3, 1, 3)
    assert EXPLICIT[kind].loss(scores.tolist(), [1]) == EXPLICIT[kind].loss(scores, np.array([1]))
    losses, _ = BATCHED[kind]([scores.tolist()], [[1]], [3], [1])
    assert_losses(losses, [EXPLICIT[kind].loss(log_softmax(scores), [1])])
