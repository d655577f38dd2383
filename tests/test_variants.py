"""The relatives of CTC and RNN-T: lattices against enumeration, torch losses against lattices.

What happens at the edges of the torch losses is in test_torch_impl.py, for these as for CTC and RNN-T.
"""

import itertools

import numpy as np
import pytest
import torch
from implementations import EXACT, assert_gradients, assert_losses, needs_cuda
from variants import VARIANTS

from reference_impl import lattice_loss, log_softmax
from reference_impl.lattice import enumerate_paths

every_variant = pytest.mark.parametrize("name", VARIANTS)
every_torch_variant = pytest.mark.parametrize("name", [name for name, each in VARIANTS.items() if each.torch])
every_input = pytest.mark.parametrize("inputs", ["logits", "log_probs"])
on_cpu_and_cuda = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])

SHAPES = [(T, targets) for T in range(1, 6) for U in range(4) for targets in itertools.product([1, 2], repeat=U)]


def entries_of_paths(lattice):
    entries = ([lattice.arcs[i].entry for i in path] for path in enumerate_paths(lattice))
    return sorted([entry for entry in path if entry is not None] for path in entries)


def normalised(scores, groups):
    return np.concatenate([log_softmax(part) for part in np.split(scores, np.cumsum(groups)[:-1], -1)], -1)


@pytest.mark.parametrize("blank", [0, 3])
@every_variant
def test_the_same_path_sets(name, blank):
    """Path by path, and often more than one; where enumeration finds none, there is none."""
    counts = []
    for T, targets in SHAPES:
        lattice = VARIANTS[name].lattice(targets, T, 4, blank)
        expected = sorted(VARIANTS[name].alignments(targets, T, 4, blank))
        assert entries_of_paths(lattice) == expected
        counts.append(len(expected))
    assert sum(count > 1 for count in counts) > len(counts) / 4
    assert (0 in counts) == (name != "multi-blank")


@every_variant
def test_loss_and_occupancy(name):
    """-log of the summed path weights, and how often an entry is used on average."""
    rng = np.random.default_rng(0)
    for T, targets in SHAPES:
        lattice = VARIANTS[name].lattice(targets, T, 3, 0)
        scores = rng.normal(size=lattice.shape)
        paths = VARIANTS[name].alignments(targets, T, 3, 0)
        weights = np.array([np.exp(sum(scores[entry] for entry in path)) for path in paths])
        if not paths:
            assert lattice_loss.loss(lattice, scores) == np.inf
            assert (lattice_loss.grad_log_probs(lattice, scores) == 0).all()
            continue
        expected = np.zeros(scores.shape)
        for path, weight in zip(paths, weights / weights.sum(), strict=True):
            for entry in path:
                expected[entry] += weight
        assert_losses(lattice_loss.loss(lattice, scores), -np.log(weights.sum()))
        assert_gradients(lattice_loss.occupancy(lattice, scores), expected)


@every_torch_variant
@every_input
@on_cpu_and_cuda
@pytest.mark.parametrize("blank", [0, 2])
def test_torch_is_the_lattice(name, inputs, device, blank):
    """Every small target in one ragged batch, NaN and bad labels in the padding: losses, gradients, zeros."""
    variant, rng, labels = VARIANTS[name], np.random.default_rng(1), [k for k in range(4) if k != blank][:2]
    utterances = [(T, [labels[i - 1] for i in targets]) for T, targets in SHAPES]
    T, U, width = max(T for T, _ in utterances) + 1, max(len(t) for _, t in utterances), variant.columns(4)
    scores = np.full((len(utterances), T, U + 1, width), np.nan)
    targets, used = np.full((len(utterances), U), -7), []
    for b, (t, labels) in enumerate(utterances):
        used.append((b, slice(t), slice(len(labels) + 1)))
        scores[used[b]] = rng.normal(size=(t, len(labels) + 1, width))
        targets[b, :len(labels)] = labels
    tensor = torch.tensor(scores, device=device, requires_grad=True)
    lengths = (torch.tensor([t for t, _ in utterances]), torch.tensor([len(labels) for _, labels in utterances]))
    losses = variant.torch(tensor, torch.tensor(targets), *lengths, blank=blank, inputs=inputs, reduction="none")
    losses.sum().backward()
    gradient = tensor.grad.cpu().numpy()
    for b, (t, labels) in enumerate(utterances):
        lattice, groups = variant.lattice(labels, t, 4, blank), variant.groups(4)
        log_probs = normalised(scores[used[b]], groups) if inputs == "logits" else scores[used[b]]
        assert_losses(losses[b].item(), lattice_loss.loss(lattice, log_probs))
        expected = (lattice_loss.grad_logits(lattice, scores[used[b]], groups=groups) if inputs == "logits"
                    else lattice_loss.grad_log_probs(lattice, log_probs))
        assert_gradients(gradient[used[b]], expected, EXACT)
        gradient[used[b]] = 0
    assert (gradient == 0).all()
