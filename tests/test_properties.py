"""What every CTC and RNN-T loss satisfies, tried with hypothesis on every implementation; no true value is needed.

Shapes, lengths, repeats, the blank and -inf masks are drawn; numbers follow from a drawn seed. The last symbol of the
vocabulary but the blank is never a label, so that a lattice always holds an entry that no path uses.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from implementations import (
    BY_TENSOR_OPS,
    EXHAUSTIVELY_BY_TRITON,
    assert_gradients,
    assert_losses,
    evaluate,
    every_kind,
    pad,
    random_scores,
)

from reference_impl import log_softmax

pytestmark = [pytest.mark.parametrize(
    "implementation", ["explicit", "lattice", "batched", *BY_TENSOR_OPS, EXHAUSTIVELY_BY_TRITON])]


@st.composite
def batches(draw, kind, masks=True):
    """A padded batch of one to three utterances; NaN and bad labels in the padding."""
    V = draw(st.integers(3, 6))
    blank = draw(st.integers(0, V - 1))
    labels = [k for k in range(V) if k != blank][:-1]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    utterances = []
    for _ in range(draw(st.integers(1, 3))):
        T = draw(st.integers(0 if kind == "ctc" else 1, 7))
        targets = draw(st.lists(st.sampled_from(labels), max_size=4))
        scores = draw(st.sampled_from([0.3, 2.0, 20.0])) * random_scores(rng, kind, T, len(targets), V)
        if masks and draw(st.booleans()):
            scores[rng.random(scores.shape) < draw(st.sampled_from([0.05, 0.4]))] = -np.inf
        utterances.append((scores, targets))
    return pad(utterances, blank=blank, extra_frames=draw(st.integers(0, 2)),
               extra_labels=0 if kind == "rnnt" else draw(st.integers(0, 2)))


def unused_symbol(batch):
    """Never a label, never the blank."""
    V = batch.scores.shape[-1]
    return V - 1 if batch.blank != V - 1 else V - 2


def occupancies(implementation, batch):
    """Losses, and the occupancy of each entry; from the logit gradient, softmax * node - occupancy, where need be."""
    if implementation != "batched":
        losses, gradient = evaluate(implementation, batch, "log_probs")
        return losses, -gradient
    losses, gradient = evaluate(implementation, batch, "logits")
    occupancy = np.zeros_like(gradient)
    for b in range(len(batch)):
        y, g = np.exp(batch.normalised().scores[batch.used(b)]), gradient[batch.used(b)]
        k = unused_symbol(batch)
        occupancy[batch.used(b)] = y * (g[..., k] / y[..., k])[..., None] - g
    return losses, occupancy


def permuted(batch, order):
    """The same utterances in another order."""
    return replace(batch, scores=batch.scores[order], targets=batch.targets[order],
                   logit_lengths=batch.logit_lengths[order], target_lengths=batch.target_lengths[order])


@given(data=st.data())
def test_mass_of_each_frame_is_one(data, implementation):
    batch = data.draw(batches("ctc", masks=implementation != "batched"))
    losses, occupancy = occupancies(implementation, batch)
    for b in range(len(batch)):
        assert_gradients(occupancy[batch.used(b)].sum(-1), float(losses[b] < np.inf), 1e-11)


@given(data=st.data())
def test_mass_of_each_anti_diagonal_is_one(data, implementation):
    """Also: T blanks and U labels on every path."""
    batch = data.draw(batches("rnnt", masks=implementation != "batched"))
    losses, occupancy = occupancies(implementation, batch)
    for b in range(len(batch)):
        used, alive = occupancy[batch.used(b)], float(losses[b] < np.inf)
        node = used.sum(-1)
        T, rows = node.shape
        diagonals = [np.trace(node[:, ::-1], offset) for offset in range(-T + 1, rows)]
        assert_gradients(diagonals, alive, 1e-11)
        blanks = used[..., batch.blank].sum()
        assert_gradients([blanks, used.sum() - blanks], [alive * T, alive * (rows - 1)], 1e-11)


@every_kind
@given(data=st.data())
def test_logit_gradients_sum_to_0(data, implementation, kind):
    batch = data.draw(batches(kind))
    _, gradient = evaluate(implementation, batch)
    assert_gradients(gradient.sum(-1), 0.0)


@every_kind
@given(data=st.data())
def test_gradients_are_finite_and_bounded(data, implementation, kind):
    """softmax * node - occupancy lies in [-1, 1]; the loss of normalised scores is not negative, and never NaN."""
    batch = data.draw(batches(kind))
    losses, gradient = evaluate(implementation, batch)
    assert (losses > -1e-12).all()
    assert np.abs(gradient).max(initial=0) <= 1 + 1e-12


@every_kind
@given(data=st.data())
def test_a_mask_gets_gradient_0(data, implementation, kind):
    batch = data.draw(batches(kind))
    _, gradient = evaluate(implementation, batch)
    assert (gradient[batch.scores == -np.inf] == 0).all()


@every_kind
@given(data=st.data())
def test_shifting_a_row_changes_nothing(data, implementation, kind):
    batch = data.draw(batches(kind))
    shift = np.random.default_rng(0).normal(scale=30, size=batch.scores.shape[:-1])
    losses, gradient = evaluate(implementation, batch)
    shifted_losses, shifted_gradient = evaluate(implementation, replace(batch, scores=batch.scores + shift[..., None]))
    assert_losses(shifted_losses, losses, 1e-11)
    assert_gradients(shifted_gradient, gradient, 1e-11)


@every_kind
@given(data=st.data())
def test_renaming_symbols_renames_gradients(data, implementation, kind):
    batch = data.draw(batches(kind))
    order = np.array(data.draw(st.permutations(range(batch.scores.shape[-1]))))  # new symbol k was order[k]
    new_name = np.append(np.argsort(order), -7)  # the padding's label stays bad
    renamed = replace(batch, scores=batch.scores[..., order], targets=new_name[np.maximum(batch.targets, -1)],
                      blank=int(new_name[batch.blank]))
    losses, gradient = evaluate(implementation, batch)
    renamed_losses, renamed_gradient = evaluate(implementation, renamed)
    assert_losses(renamed_losses, losses)
    assert_gradients(renamed_gradient, gradient[..., order])


@given(data=st.data())
def test_reversing_time_reverses_ctc_gradients(data, implementation):
    batch = data.draw(batches("ctc"))
    utterances = [batch.utterance(b) for b in range(len(batch))]
    reverse = pad([(scores[::-1], targets[::-1]) for scores, targets in utterances], blank=batch.blank,
                  extra_frames=batch.scores.shape[1] - batch.logit_lengths.max())
    losses, gradient = evaluate(implementation, batch)
    reversed_losses, reversed_gradient = evaluate(implementation, reverse)
    assert_losses(reversed_losses, losses)
    for b in range(len(batch)):
        assert_gradients(reversed_gradient[reverse.used(b)], gradient[batch.used(b)][::-1])


@every_kind
@given(data=st.data())
def test_order_of_the_batch(data, implementation, kind):
    batch = data.draw(batches(kind))
    order = data.draw(st.permutations(range(len(batch))))
    losses, gradient = evaluate(implementation, batch)
    other_losses, other_gradient = evaluate(implementation, permuted(batch, order))
    assert_losses(other_losses, losses[order])
    assert_gradients(other_gradient, gradient[order])


@every_kind
@given(data=st.data())
def test_each_utterance_as_if_alone(data, implementation, kind):
    """No utterance, and no padding, has any influence on another."""
    batch = data.draw(batches(kind))
    losses, gradient = evaluate(implementation, batch)
    for b in range(len(batch)):
        alone = pad([batch.utterance(b)], blank=batch.blank)
        loss, expected = evaluate(implementation, alone)
        assert_losses(losses[b], loss[0])
        assert_gradients(gradient[batch.used(b)], expected[0])


@every_kind
@given(data=st.data())
def test_padding_has_no_influence(data, implementation, kind):
    """The same numbers bit by bit whatever the padding holds, and a gradient of exactly 0 there."""
    batch = data.draw(batches(kind))
    garbage = data.draw(st.sampled_from([0.0, np.inf, -np.inf, 1e300, -1e300]))
    other_targets = np.where(batch.targets == -7, data.draw(st.sampled_from([batch.blank, 2**40])), batch.targets)
    other = replace(batch, scores=np.where(batch.padding(), garbage, batch.scores), targets=other_targets)
    losses, gradient = evaluate(implementation, batch)
    other_losses, other_gradient = evaluate(implementation, other)
    np.testing.assert_array_equal(other_losses, losses)
    np.testing.assert_array_equal(other_gradient, gradient)
    assert (gradient[batch.padding()] == 0).all()


@every_kind
@given(data=st.data())
def test_one_gradient_in_two_variables(data, implementation, kind):
    """The gradient with respect to log-probs, taken through log_softmax, is that with respect to logits."""
    batch = data.draw(batches(kind, masks=implementation != "batched"))
    losses, gradient = evaluate(implementation, batch)
    log_prob_losses, occupancy = occupancies(implementation, batch.normalised())
    assert_losses(log_prob_losses, losses)
    for b in range(len(batch)):
        y, e = np.exp(log_softmax(batch.scores[batch.used(b)])), occupancy[batch.used(b)]
        assert_gradients(y * e.sum(-1, keepdims=True) - e, gradient[batch.used(b)], 1e-11)
