"""The enumeration that all values are compared with, itself compared with cases written out by hand."""

from math import comb

import numpy as np
import pytest
from enumeration import alignments, collapse, ctc_alpha, ctc_beta, loss_and_grad_logits, loss_and_occupancy


@pytest.mark.parametrize(("string", "collapsed"), [
    ([], []), ([0, 0], []), ([1, 1, 1], [1]), ([1, 0, 1], [1, 1]), ([0, 1, 1, 2, 0, 2], [1, 2, 2]),
    ([2, 1, 2], [2, 1, 2]),
])
def test_collapse(string, collapsed):
    assert collapse(string, blank=0) == collapsed


def test_ctc_alignments_of_one_label_in_two_frames():
    strings = [[k for _, k in path] for path in alignments("ctc", [1], 2, 3, 0)]
    assert strings == [[0, 1], [1, 0], [1, 1]]


def test_rnnt_alignments_of_one_label_in_two_frames():
    assert alignments("rnnt", [1], 2, 3, 0) == [[(0, 0, 1), (0, 1, 0), (1, 1, 0)], [(0, 0, 0), (1, 0, 1), (1, 1, 0)]]


@pytest.mark.parametrize("T", range(1, 6))
@pytest.mark.parametrize("U", range(4))
def test_numbers_of_alignments(T, U):
    """RNN-T: choose where the labels stand. CTC with different labels: choose the borders of U runs."""
    assert len(alignments("rnnt", [1, 2, 1][:U], T, 3, 0)) == comb(T + U - 1, U)
    assert len(alignments("ctc", [1, 2, 1][:U], T, 3, 0)) == comb(T + U, 2 * U)


def test_losses_by_hand():
    """Uniform over two symbols: 3 of 4 strings collapse to the label; 2 RNN-T paths have three arcs each."""
    assert loss_and_occupancy("ctc", np.log(np.full((2, 2), 0.5)), [1], 0)[0] == pytest.approx(-np.log(3 / 4))
    assert loss_and_occupancy("rnnt", np.log(np.full((2, 2, 2), 0.5)), [1], 0)[0] == pytest.approx(-np.log(2 / 8))


def test_gradient_by_hand():
    """One frame and one label: -log softmax, whose derivative is softmax minus one-hot."""
    loss, gradient = loss_and_grad_logits("ctc", np.log([[1.0, 3.0]]), [1], 0)
    assert loss == pytest.approx(-np.log(0.75))
    np.testing.assert_allclose(gradient, [[0.25, -0.25]])


def test_alpha_and_beta_by_hand():
    """Target [1, 1]: strings 01 and 11 lead to its first label at frame 1; from frame 0, only 01 completes it."""
    log_probs = np.log([[0.5, 0.5], [0.25, 0.75], [0.4, 0.6]])
    assert ctc_alpha(log_probs, [1, 1], 0, t=1, s=1) == pytest.approx(0.5 * 0.75 + 0.5 * 0.75)
    assert ctc_beta(log_probs, [1, 1], 0, t=0, s=1) == pytest.approx(0.25 * 0.6)
