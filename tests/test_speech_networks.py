"""The networks that hear letters: what they look at, and what their training measures."""

import numpy as np
import pytest
import torch

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.networks.objectives import mean_ctc_loss
from reference_impl.speech import batches, networks, reading, training
from reference_impl.torch_impl import rnnt_loss

LENGTHS = [41, 60, 17]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    found = [batches.Example(rng.standard_normal((length, 40)).astype(np.float32), rng.integers(1, 29, size=3), None)
             for length in LENGTHS]
    return batches.batch_of(found)


def network_of(kind, **arguments):
    torch.manual_seed(0)
    return kind(16, **arguments).eval()


@pytest.mark.parametrize("kind", [networks.CTCNetwork, networks.Transducer])
def test_an_utterance_is_the_same_alone_and_in_a_batch(batch, kind):
    network = network_of(kind)
    frames, lengths, targets, _ = training.as_tensors(batch)
    more = [targets] if kind is networks.Transducer else []
    together, counts = network(frames, lengths, *more)
    for b, length in enumerate(LENGTHS):
        alone, count = network(frames[b:b + 1, :length], lengths[b:b + 1], *(each[b:b + 1] for each in more))
        assert count[0] == counts[b] == -(-length // networks.SUBSAMPLING)
        torch.testing.assert_close(together[b, :counts[b]], alone[0], rtol=0, atol=1e-5)


def test_padding_is_not_heard(batch):
    network = network_of(networks.CTCNetwork)
    frames, lengths, _, _ = training.as_tensors(batch)
    logits, counts = network(frames, lengths)
    spoilt = frames.clone()
    for b, length in enumerate(LENGTHS):
        spoilt[b, length:] = float("nan")
    again, _ = network(spoilt, lengths)
    for b, count in enumerate(counts):
        assert (logits[b, :count] == again[b, :count]).all()


def heard_by_frame_20(network):
    frames = torch.randn(1, 120, 40, requires_grad=True)
    network(frames, torch.tensor([120]))[0][0, 20].sum().backward()
    return np.flatnonzero(frames.grad[0].abs().sum(-1))


def test_what_a_frame_hears():
    """All of the utterance, through mean and variance; else 9 frames of the front, and 2 vectors for each spacing."""
    network = network_of(networks.CTCNetwork, spacings=(1, 2))
    assert len(heard_by_frame_20(network)) == 120
    for norm in network.encoder.norms:
        norm.forward = lambda vectors, there: vectors * there
    nearby = heard_by_frame_20(network)
    assert (nearby[0], nearby[-1]) == (2 * (20 - 6) - 4, 2 * (20 + 6) + 4)


def test_a_norm_is_that_of_the_utterance_alone():
    norm, vectors = networks.UtteranceNorm(3).double(), torch.randn(2, 7, 3, dtype=torch.float64)
    norm.scale.data, norm.shift.data = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([0.0, -1.0, 5.0]).double()
    there = torch.ones(2, 7, 1, dtype=torch.float64)
    there[1, 4:] = 0
    given = norm(vectors, there)
    for b, length in enumerate((7, 4)):
        x = vectors[b, :length]
        expected = (x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-5) * norm.scale + norm.shift
        torch.testing.assert_close(given[b, :length], expected, rtol=0, atol=1e-12)
    assert (given[1, 4:] == 0).all()


def test_the_predictor_sees_the_last_letters_and_none_that_follow():
    network = network_of(networks.Transducer)
    labels = torch.tensor([[5, 6, 7, 8, 9]])
    rows = network.predict(labels)[0]
    for u in range(6):
        for changed in range(5):
            other = labels.clone()
            other[0, changed] = 20
            same = torch.equal(network.predict(other)[0, u], rows[u])
            assert same != (u - networks.CONTEXT <= changed < u)


def test_gradients_of_a_batch_are_the_sum_over_its_utterances(batch):
    network = network_of(networks.Transducer).double()
    tensors = training.as_tensors(batch)

    def gradients(chosen):
        frames, lengths, targets, target_lengths = (each[chosen] for each in tensors)
        logits, counts = network(frames.double(), lengths, targets)
        network.zero_grad()
        rnnt_loss(logits, targets, counts, target_lengths, reduction="sum").backward()
        return [parameter.grad.clone() for parameter in network.parameters()]

    whole, parts = gradients([0, 1, 2]), [gradients([b]) for b in range(3)]
    for each, *pieces in zip(whole, *parts, strict=True):
        torch.testing.assert_close(each, sum(pieces), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_utterance_of_one_frame_has_a_finite_gradient_under_autocast(dtype):
    network = network_of(networks.CTCNetwork, dropout=0.0).float()
    with torch.autocast("cpu", dtype):
        logits, _ = network(torch.randn(2, 30, 40), torch.tensor([1, 30]))
    logits.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_signs_of_a_batch_are_those_of_the_reference():
    rng = np.random.default_rng(1)
    logits = 3 * rng.standard_normal((3, 7, 5))
    targets, lengths, target_lengths = np.array([[1, 1, 2], [3, 4, 0], [1, 2, 3]]), np.array([7, 5, 2]), [3, 2, 3]
    signs = training.ctc_signs(logits, targets, lengths, np.array(target_lengths))  # the third has no alignment
    losses, belief, evidence = [], [], []
    for b in range(2):
        log_probs, labels = log_softmax(logits[b, :lengths[b]]), targets[b, :target_lengths[b]]
        losses.append(ctc.loss(log_probs, labels))
        belief.append(np.exp(log_probs))
        evidence.append(ctc.occupancy(log_probs, labels))
    belief, evidence = np.concatenate(belief), np.concatenate(evidence)
    expected = {
        "loss": sum(losses) / 5, "feasible": 2 / 3, "blank_best": (belief.argmax(1) == 0).mean(),
        "blank_belief": belief[:, 0].mean(), "blank_evidence": evidence[:, 0].mean(),
        "certain": (evidence.max(1) > 0.9).mean(), "belief_norm": np.sqrt((belief**2).sum(1).mean()),
        "evidence_norm": np.sqrt((evidence**2).sum(1).mean()),
        "gradient_norm": np.sqrt(((belief - evidence) ** 2).sum(1).mean())}
    assert vars(signs) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_signs_where_nothing_is_feasible():
    signs = training.ctc_signs(np.zeros((1, 1, 4)), np.array([[1, 2]]), np.array([1]), np.array([2]))
    assert signs.feasible == 0 and signs.loss == 0 and signs.gradient_norm == 0


def test_training_learns_one_batch_by_heart_and_repeats_itself(batch):
    runs = []
    for _ in range(2):
        network = network_of(networks.CTCNetwork, dropout=0.0)
        runs.append([value for _, value in training.train(network, [batch] * 100, mean_ctc_loss, steps=100, rate=1e-2)])
        assert not network.training
    assert runs[0] == runs[1] and runs[0][-1] < 0.1 * runs[0][0]


def test_posteriors_of_letters_are_those_of_the_reference():
    """Utterances of different lengths in batches of two; label arcs by the NumPy recursion."""
    rng = np.random.default_rng(2)
    sounds = [rng.standard_normal((length, 40)).astype(np.float32) for length in (21, 12, 17)]
    found = [batches.Example(sound, rng.integers(1, 29, size=count), None)
             for sound, count in zip(sounds, (3, 5, 0), strict=True)]
    network = network_of(networks.Transducer, spacings=(1, 2))
    posteriors = reading.label_posteriors(network, found, size=2)
    for each, example in zip(posteriors, found, strict=True):
        frames, lengths, targets, _ = training.as_tensors(batches.batch_of([example]))
        with torch.no_grad():
            logits, _ = network(frames, lengths, targets)
        _, expected = rnnt.arc_posteriors(log_softmax(logits[0].double().numpy()), example.labels)
        assert each.shape == expected.shape
        # logits in float32, from batches of other shapes: a hundred roundings of 6e-8 of numbers below 10
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-4)
