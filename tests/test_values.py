"""Every implementation against enumeration, in float64: loss, occupancy, and the gradients in both variables.

A batch holds every small target, so that lengths are ragged, labels repeat, and any symbol is the blank. Utterances
with a single path check little: they are left out here, and every one that stays is asserted to have more.
"""

import itertools
from functools import cache

import numpy as np
import pytest
from enumeration import alignments, loss_and_grad_logits, loss_and_occupancy
from implementations import (
    EXACT,
    EXPLICIT,
    IMPLEMENTATIONS,
    IMPLEMENTATIONS_AND_VARIABLES_OF_MANY_TARGETS,
    LATTICE,
    assert_gradients,
    assert_losses,
    evaluate,
    every_kind,
    pad,
    random_scores,
)

from reference_impl import log_softmax
from reference_impl.lattice import arc_posteriors, enumerate_paths, forward
from reference_impl.semiring import COUNT


def number_of_paths(kind, scores, targets, blank):
    """By the explicit recursion on the counting semiring."""
    return EXPLICIT[kind].Z(scores, targets, blank=blank, semiring=COUNT)


@cache
def batch_of_all_targets(kind, blank, V=3, most_frames=6, most_labels=3):
    """Every (T, target) up to a size that has more than one path; NaN and bad labels in the padding."""
    rng = np.random.default_rng([blank, V])
    labels = [k for k in range(V) if k != blank]
    utterances = []
    for T in range(1, most_frames + 1):
        for U in range(most_labels + 1):
            for targets in itertools.product(labels, repeat=U):
                scores = 2 * random_scores(rng, kind, T, U, V)
                if number_of_paths(kind, scores, targets, blank) > 1:
                    utterances.append((scores, list(targets)))
    return pad(utterances, blank=blank, extra_frames=2, extra_labels=0 if kind == "rnnt" else 2)


@cache
def expected_of_all_targets(kind, blank, variable):
    """By enumeration, in the shape of the batch."""
    batch = batch_of_all_targets(kind, blank)
    losses, gradient = np.zeros(len(batch)), np.zeros(batch.scores.shape)
    for b in range(len(batch)):
        scores, targets = batch.utterance(b)
        if variable == "logits":
            losses[b], gradient[batch.used(b)] = loss_and_grad_logits(kind, scores, targets, blank)
        else:
            losses[b], occupancy = loss_and_occupancy(kind, scores, targets, blank)
            gradient[batch.used(b)] = -occupancy
    return losses, gradient


@pytest.mark.parametrize("blank", [1, 0, 2])  # by kernels only the first is not exhaustive
@every_kind
class TestEverySmallTarget:
    def test_has_more_than_one_path(self, kind, blank):
        """COUNT counts what enumeration enumerates, and the lattice's paths are as many."""
        batch = batch_of_all_targets(kind, blank)
        assert len(batch) >= 40
        for b in range(len(batch)):
            scores, targets = batch.utterance(b)
            count = number_of_paths(kind, scores, targets, blank)
            graph = LATTICE[kind](targets, len(scores), 3, blank=blank)
            assert count > 1
            assert count == len(alignments(kind, targets, len(scores), 3, blank))
            assert count == sum(1 for _ in enumerate_paths(graph))
            assert count == forward(graph, graph.arc_weights(scores, COUNT), COUNT)[-1]

    @pytest.mark.parametrize(("implementation", "variable"), IMPLEMENTATIONS_AND_VARIABLES_OF_MANY_TARGETS)
    def test_loss_and_gradient(self, implementation, kind, blank, variable):
        """With ``variable="log_probs"`` the scores are not normalised: the mass of a path is whatever it is."""
        losses, gradient = evaluate(implementation, batch_of_all_targets(kind, blank), variable)
        expected_losses, expected_gradient = expected_of_all_targets(kind, blank, variable)
        assert_losses(losses, expected_losses)
        assert_gradients(gradient, expected_gradient)

    def test_occupancy(self, kind, blank):
        batch = batch_of_all_targets(kind, blank).normalised()
        for b in range(len(batch)):
            log_probs, targets = batch.utterance(b)
            _, expected = loss_and_occupancy(kind, log_probs, targets, blank)
            graph = LATTICE[kind](targets, len(log_probs), 3, blank=blank)
            posteriors = arc_posteriors(graph, graph.arc_weights(log_probs))
            assert_gradients(EXPLICIT[kind].occupancy(log_probs, targets, blank=blank), expected)
            assert_gradients(graph.occupancy(posteriors), expected)

    def test_the_same_path_sets(self, kind, blank):
        """The lattice's paths use exactly the entries that enumeration finds, path by path."""
        batch = batch_of_all_targets(kind, blank)
        for b in range(len(batch)):
            scores, targets = batch.utterance(b)
            graph = LATTICE[kind](targets, len(scores), 3, blank=blank)
            paths = [[graph.arcs[i].entry for i in path if graph.arcs[i].entry is not None]
                     for path in enumerate_paths(graph)]
            assert sorted(paths) == sorted(alignments(kind, targets, len(scores), 3, blank))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@every_kind
def test_several_different_labels(kind, implementation):
    """Five symbols, so that a skip between different labels and a row with unused symbols both occur."""
    rng = np.random.default_rng(5)
    utterances = [(random_scores(rng, kind, T, len(targets), 5), targets)
                  for T, targets in [(4, [3, 1, 4]), (5, [1, 1, 4]), (5, [4, 3, 0, 1]), (4, []), (3, [0, 3])]]
    batch = pad(utterances, blank=2)
    losses, gradient = evaluate(implementation, batch)
    for b, (scores, targets) in enumerate(utterances):
        if targets:  # an empty target has one path
            assert number_of_paths(kind, scores, targets, 2) > 1
        loss, expected = loss_and_grad_logits(kind, scores, targets, 2)
        assert_losses(losses[b], loss)
        assert_gradients(gradient[batch.used(b)], expected)


@every_kind
def test_gradient_in_two_variables(kind):
    """grad_logits is grad_log_probs taken through log_softmax: g - softmax sum(g)."""
    rng = np.random.default_rng(6)
    logits = random_scores(rng, kind, 6, 3, 5)
    log_probs = log_softmax(logits)
    g = EXPLICIT[kind].grad_log_probs(log_probs, [1, 1, 4])
    assert number_of_paths(kind, logits, [1, 1, 4], 0) > 1
    assert_gradients(EXPLICIT[kind].grad_logits(logits, [1, 1, 4]), g - np.exp(log_probs) * g.sum(-1, keepdims=True))


@pytest.mark.parametrize("implementation", ["batched", "torch", pytest.param("lattice", id="lattice engine")])
@every_kind
def test_beyond_what_can_be_enumerated(kind, implementation):
    """A longer ragged batch against the explicit recursions, with sharp scores; float64 rounding grows with T + U."""
    rng = np.random.default_rng(7)
    utterances = [(6 * random_scores(rng, kind, T, U, 7), rng.integers(1, 7, size=U).tolist())
                  for T, U in [(40, 12), (25, 0), (60, 20), (33, 7), (1, 1)]]
    batch = pad(utterances)
    losses, gradient = evaluate(implementation, batch)
    expected_losses, expected_gradient = evaluate("explicit", batch)
    assert_losses(losses, expected_losses, 10 * EXACT)
    assert_gradients(gradient, expected_gradient, 10 * EXACT)
