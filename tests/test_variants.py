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


def padded(utterances, width, extra_frames=1):
    """Scores (B, T, U+1, width) and targets (B, U) of (scores, targets) pairs; NaN and bad labels in the padding."""
    T, U = max(len(scores) for scores, _ in utterances) + extra_frames, max(len(labels) for _, labels in utterances)
    scores, targets = np.full((len(utterances), T, U + 1, width), np.nan), np.full((len(utterances), U), -7)
    for b, (own, labels) in enumerate(utterances):
        scores[b, :len(own), :len(labels) + 1] = own
        targets[b, :len(labels)] = labels
    lengths = [len(own) for own, _ in utterances], [len(labels) for _, labels in utterances]
    return scores, targets, *map(np.array, lengths)


def by_torch(name, utterances, device, upstream=None, **options):
    """Losses, and the gradient of each utterance; asserts that the padding's is 0."""
    scores, *integers = padded(utterances, VARIANTS[name].columns(4))
    leaf = torch.tensor(scores, device=device, requires_grad=True)
    losses = VARIANTS[name].torch(leaf, *map(torch.tensor, integers), reduction="none", **options)
    losses.backward(torch.ones_like(losses) if upstream is None else torch.tensor(upstream).to(losses))
    gradient, gradients = leaf.grad.cpu().numpy(), []
    for b, (own, labels) in enumerate(utterances):
        gradients.append(gradient[b, :len(own), :len(labels) + 1].copy())
        gradient[b, :len(own), :len(labels) + 1] = 0
    assert (gradient == 0).all()
    return losses.detach().cpu().numpy(), gradients


def by_lattice(name, scores, labels, inputs, blank=0):
    """Loss and gradient of one utterance."""
    lattice, groups = VARIANTS[name].lattice(labels, len(scores), 4, blank), VARIANTS[name].groups(4)
    if inputs == "log_probs":
        return lattice_loss.loss(lattice, scores), lattice_loss.grad_log_probs(lattice, scores)
    return (lattice_loss.loss(lattice, normalised(scores, groups)),
            lattice_loss.grad_logits(lattice, scores, groups=groups))


def random_utterances(name, rng, shapes):
    width = VARIANTS[name].columns(4)
    return [(rng.normal(size=(T, len(labels) + 1, width)), list(labels)) for T, labels in shapes]


@every_torch_variant
@every_input
@on_cpu_and_cuda
@pytest.mark.parametrize("blank", [0, 2])
def test_torch_is_the_lattice(name, inputs, device, blank):
    """Every small target in one ragged batch: losses, gradients, those without an alignment included."""
    label = [k for k in range(4) if k != blank]
    shapes = [(T, [label[i - 1] for i in targets]) for T, targets in SHAPES]
    utterances = random_utterances(name, np.random.default_rng(1), shapes)
    losses, gradients = by_torch(name, utterances, device, inputs=inputs, blank=blank)
    for b, utterance in enumerate(utterances):
        loss, gradient = by_lattice(name, *utterance, inputs, blank)
        assert_losses(losses[b], loss)
        assert_gradients(gradients[b], gradient, EXACT)


@every_torch_variant
@every_input
@on_cpu_and_cuda
def test_masks(name, inputs, device):
    """-inf among the scores, whole rows included: fewer paths, gradient 0 there, and no NaN."""
    rng = np.random.default_rng(2)
    utterances = random_utterances(name, rng, [(5, [1, 1, 2]), (4, [2]), (6, [3, 1]), (5, []), (6, [1, 2, 3])])
    for b, (scores, _) in enumerate(utterances):
        scores[rng.random(scores.shape) < 0.1] = -np.inf
        scores[..., 0] = np.where(scores[..., 0] == -np.inf, 0.5, scores[..., 0])
        if b < 2:
            scores[1, 1] = -np.inf
    losses, gradients = by_torch(name, utterances, device, inputs=inputs)
    assert np.isfinite(losses).sum() >= 3
    for b, utterance in enumerate(utterances):
        loss, gradient = by_lattice(name, *utterance, inputs)
        assert_losses(losses[b], loss)
        assert_gradients(gradients[b], gradient, EXACT)
        assert (gradients[b][utterance[0] == -np.inf] == 0).all()


@every_torch_variant
@every_input
@on_cpu_and_cuda
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("which", [0, -1])
def test_nan_stays_inside_its_utterance(name, inputs, device, value, which):
    """On the first arc that some path uses, or on the last."""
    utterances = random_utterances(name, np.random.default_rng(3), [(4, [1, 2]), (5, [1, 2]), (4, [1])])
    healthy = by_torch(name, utterances, device, inputs=inputs)
    used = np.argwhere(by_lattice(name, *utterances[1], "log_probs")[1] < 0)
    utterances[1][0][tuple(used[which])] = value
    losses, gradients = by_torch(name, utterances, device, inputs=inputs)
    assert np.isnan(losses).tolist() == [False, True, False]
    assert np.isnan(gradients[1]).any()
    for b in (0, 2):
        assert losses[b] == healthy[0][b]
        np.testing.assert_array_equal(gradients[b], healthy[1][b])


@every_torch_variant
@on_cpu_and_cuda
def test_empty_batch_and_no_frames(name, device):
    scores, *integers = padded(random_utterances(name, np.random.default_rng(4), [(4, [1, 2])]),
                               VARIANTS[name].columns(4))
    none = torch.tensor(scores[:0], device=device, requires_grad=True)
    losses = VARIANTS[name].torch(none, *(torch.tensor(each[:0]) for each in integers), reduction="none")
    losses.sum().backward()
    assert losses.shape == (0,) and none.grad.shape == none.shape
    with pytest.raises(ValueError, match="T = 0; expected T >= 1"):
        VARIANTS[name].torch(torch.tensor(scores[:, :0], device=device), *map(torch.tensor, integers))
