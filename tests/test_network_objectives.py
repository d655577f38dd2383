"""What the small networks minimise: each objective is the loss it says, and a step follows its gradient."""

import copy
from functools import partial

import numpy as np
import pytest
import torch

from reference_impl import rnnt
from reference_impl.networks import objectives
from reference_impl.networks.training import fit, take_step
from reference_impl.speech import batches, networks
from reference_impl.speech.training import as_tensors
from reference_impl.torch_impl import ctc_loss, rnnt_loss

LENGTHS = [17, 24, 9]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    sounds = [rng.standard_normal((length, 40)).astype(np.float32) for length in LENGTHS]
    found = [batches.Example(sound, rng.integers(1, 29, size=1 + b), None) for b, sound in enumerate(sounds)]
    return as_tensors(batches.batch_of(found))


@pytest.fixture
def transducer():
    torch.manual_seed(0)
    return networks.Transducer(8, spacings=(1, 2), simple_joiner=True).eval()


def grid_of(network, batch):
    logits, lengths = network(batch[0], batch[1], batch[2])
    return logits, batch[2], lengths, batch[3]


def test_the_mean_ctc_loss(batch):
    torch.manual_seed(0)
    network = networks.CTCNetwork(8, spacings=(1,)).eval()
    logits, lengths = network(*batch[:2])
    expected = ctc_loss(logits, batch[2], lengths, batch[3], reduction="none").sum() / 3
    torch.testing.assert_close(objectives.mean_ctc_loss(network, *batch), expected, rtol=1e-6, atol=0)
    short = batch[1].clone()
    short[2] = 2  # one vector for three labels
    assert objectives.mean_ctc_loss(network, batch[0], short, *batch[2:]).isfinite()


def test_the_full_loss(batch, transducer):
    value = objectives.full_loss(transducer, *batch)
    torch.testing.assert_close(value, rnnt_loss(*grid_of(transducer, batch)), rtol=1e-6, atol=0)


def test_fastemit_changes_the_gradient_and_not_the_loss(batch, transducer):
    found = []
    for fastemit_lambda in (0.0, 0.5):
        transducer.zero_grad()
        value = objectives.full_loss(transducer, *batch, fastemit_lambda=fastemit_lambda)
        value.backward()
        found.append((value.item(), transducer.output.weight.grad.clone()))
    assert found[0][0] == found[1][0]
    assert (found[0][1] - found[1][1]).abs().max() > 1e-3


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_penalty_tilts_label_scores(batch, transducer, penalty):
    """The same sum over paths by the NumPy recursion; 0 is the full loss."""
    logits, targets, lengths, target_lengths = grid_of(transducer, batch)
    losses = []
    for b, (T, U) in enumerate(zip(lengths.tolist(), target_lengths.tolist(), strict=True)):
        scores = logits[b, :T, :U + 1].detach().double().log_softmax(-1).numpy()
        scores[..., 1:] += penalty * ((T - 1) / 2 - np.arange(T))[:, None, None]
        losses.append(-rnnt.Z(scores, targets[b, :U].numpy()))
    value = objectives.delay_penalised_loss(transducer, *batch, penalty=penalty)
    assert value.item() == pytest.approx(np.mean(losses), rel=1e-5)
    same = objectives.full_loss(transducer, *batch).item()
    assert (abs(value.item() - same) < 1e-4) == (penalty == 0)


def test_a_penalty_asks_for_earlier_labels(batch, transducer):
    """Its gradient moves label mass to earlier frames: the mean frame of the labels falls along the descent."""
    def mean_frame(logits, targets, lengths, target_lengths):
        frame = 0.0
        for b, (T, U) in enumerate(zip(lengths.tolist(), target_lengths.tolist(), strict=True)):
            occupancy = rnnt.occupancy(logits[b, :T, :U + 1].detach().double().log_softmax(-1).numpy(),
                                       targets[b, :U].numpy())
            frame += (occupancy[..., 1:].sum((1, 2)) * np.arange(T)).sum()
        return frame

    frames = {}
    for penalty in (0.0, 0.5):
        network = copy.deepcopy(transducer)
        objective = partial(objectives.delay_penalised_loss, penalty=penalty)
        steps = fit(network, [batch] * 20, objective, torch.optim.SGD(network.parameters(), lr=0.05), steps=20)
        assert len(list(steps)) == 20
        frames[penalty] = mean_frame(*grid_of(network.eval(), batch))
    assert frames[0.5] < frames[0.0] - 1


def test_a_late_penalty_comes_after_so_many_steps(batch, transducer):
    late = objectives.LateDelayPenalty(0.3, 2)
    found = [late(transducer, *batch).item() for _ in range(4)]
    full = objectives.full_loss(transducer, *batch).item()
    penalised = objectives.delay_penalised_loss(transducer, *batch, penalty=0.3).item()
    assert found == [full, full, penalised, penalised] and full != penalised
    assert late.steps == 4


@pytest.mark.parametrize("penalty", [-0.1, float("nan"), float("inf")])
def test_a_penalty_is_a_number_of_nats(batch, transducer, penalty):
    with pytest.raises(ValueError, match="penalty = .*expected a finite number >= 0"):
        objectives.delay_penalised_loss(transducer, *batch, penalty=penalty)
    with pytest.raises(ValueError, match="penalty = .*expected a finite number >= 0"):
        objectives.LateDelayPenalty(penalty, 5)


def test_a_pruned_loss_with_all_rows_is_the_full_one(batch, transducer):
    pruned = objectives.PrunedLoss(99, warm_steps=0, simple_scale=0.0)
    value = pruned(transducer, *batch).item()
    assert value == pytest.approx(objectives.full_loss(transducer, *batch).item(), rel=1e-5)


def test_a_step_is_cut_to_the_largest_norm():
    network = torch.nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(3.0)
    descent = torch.optim.SGD(network.parameters(), lr=1.0)
    value = take_step(network, [torch.ones(1)], lambda net, x: net(x).square().sum(), descent, largest_norm=0.5)
    assert value == 9.0
    assert network.weight.item() == pytest.approx(2.5, abs=1e-5)
