"""What a band keeps and what it does to the gradient: against enumeration, and against differences of losses."""

import numpy as np
import pytest
import torch
from enumeration import probability, rnnt_alignments

from reference_impl import log_softmax
from reference_impl.lattice import enumerate_paths
from reference_impl.lattice_loss import grad_log_probs
from reference_impl.pruning.costs import gradient_errors, probability_kept
from reference_impl.topology import monotonic_rnnt_lattice, pruned_rnnt_lattice, rnnt_lattice

SIZES = [(5, [1, 2, 2]), (3, [1]), (4, [2, 1, 1])]
FIRST = [[0, 0, 1, 1, 2], [0, 0, 0, 0, 0], [0, 1, 2, 2, 2]]
NUM_ROWS = 2


def grid(seed):
    """Log-probs of a batch of three, its padding NaN, and the rest of the arguments of a band."""
    rng = np.random.default_rng(seed)
    log_probs = np.full((3, 5, 4, 4), np.nan)
    for b, (T, targets) in enumerate(SIZES):
        log_probs[b, :T, :len(targets) + 1] = log_softmax(2 * rng.normal(size=(T, len(targets) + 1, 4)))
    targets = torch.nn.utils.rnn.pad_sequence([torch.tensor(y) for _, y in SIZES], batch_first=True)
    lengths = torch.tensor([T for T, _ in SIZES]), torch.tensor([len(y) for _, y in SIZES])
    return torch.tensor(log_probs), torch.tensor(FIRST), NUM_ROWS, targets, *lengths


def paths_of(b, log_probs, label_frames):
    """Masses of the paths of utterance b, and whether each stays in its band."""
    T, targets = SIZES[b]
    if label_frames:
        lattice = monotonic_rnnt_lattice(targets, T, 4)
        paths = [[lattice.arcs[i].entry for i in path] for path in enumerate_paths(lattice)]
    else:
        paths = rnnt_alignments(targets, T, 4, 0)
    masses = np.array([probability(log_probs[b].numpy(), path) for path in paths])
    stays = np.array([all(FIRST[b][t] <= u < FIRST[b][t] + NUM_ROWS for t, u, _ in path) for path in paths])
    return masses, stays


@pytest.mark.parametrize("label_frames", [0, 1])
def test_probability_kept(label_frames):
    given = grid(1)
    kept = probability_kept(*given, label_frames=label_frames)
    for b, share in enumerate(kept):
        masses, stays = paths_of(b, given[0], label_frames)
        assert 0 < stays.sum() < len(stays) or b == 1
        assert share.item() == pytest.approx(masses[stays].sum() / masses.sum(), rel=1e-12)
    assert not kept.requires_grad and not given[0].requires_grad


@pytest.mark.parametrize("inputs", ["logits", "log_probs"])
def test_gradient_errors(inputs):
    """Against the gradients of two lattices; and at most the mass that leaves."""
    scores, *rest = given = grid(2)
    errors = gradient_errors(*given, inputs=inputs)
    assert (errors <= 1 - probability_kept(*given) + 1e-12).all() and errors[0] > 1e-3
    for b, (T, targets) in enumerate(SIZES):
        log_probs = scores[b, :T, :len(targets) + 1].numpy()
        whole = grad_log_probs(rnnt_lattice(targets, T, 4), log_probs)
        first = FIRST[b][:T]
        inside = np.array([log_probs[t, m:m + NUM_ROWS] for t, m in enumerate(first)])
        of_band, band = np.zeros_like(whole), grad_log_probs(pruned_rnnt_lattice(targets, first, NUM_ROWS, 4), inside)
        for t, m in enumerate(first):
            of_band[t, m:m + NUM_ROWS] = band[t]
        apart = whole - of_band
        if inputs == "logits":
            apart -= np.exp(log_probs) * apart.sum(-1, keepdims=True)
        assert errors[b].item() == pytest.approx(np.abs(apart).max(), rel=1e-9, abs=1e-14)


def test_a_band_without_a_path_keeps_nothing():
    """The gradient's error is then the whole gradient."""
    log_probs, first = torch.zeros(1, 3, 4, 2, dtype=torch.float64), torch.tensor([[0, 0, 0]])
    rest = torch.ones(1, 3, dtype=torch.int64), torch.tensor([3]), torch.tensor([3])
    assert probability_kept(log_probs, first, 2, *rest).item() == 0
    assert gradient_errors(log_probs, first, 2, *rest, inputs="log_probs").item() == pytest.approx(1)
