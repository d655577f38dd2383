"""How paths go through a frame, and bounds: against enumeration, and against the program that chooses bands."""

import numpy as np
import pytest
import torch
from enumeration import probability, rnnt_alignments

from reference_impl import log_softmax
from reference_impl.torch_impl.pruning import first_rows
from reference_impl.windows import frame_moves, raised, window_scores


@pytest.mark.parametrize("T, targets", [(1, []), (1, [2, 1]), (3, [1, 1]), (4, [2]), (3, [1, 2, 2])])
@pytest.mark.parametrize("blank", [0, 3])
def test_frame_moves(T, targets, blank):
    log_probs = log_softmax(np.random.default_rng(T).normal(size=(T, len(targets) + 1, 4)))
    paths = rnnt_alignments(targets, T, 4, blank)
    masses = [probability(log_probs, path) for path in paths]
    expected = np.zeros((T, len(targets) + 1, len(targets) + 1))
    for path, mass in zip(paths, masses, strict=True):
        for t in range(T):
            rows = [u for frame, u, _ in path if frame == t]
            expected[t, rows[0], rows[-1]] += mass / sum(masses)
    np.testing.assert_allclose(frame_moves(log_probs, targets, blank=blank), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("label_frames", [0, 1])
def test_they_are_the_parts_of_the_program(label_frames):
    """Argmax of the scores, row U in the last frame, raised: what first_rows returns."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        T, U = int(rng.integers(1, 10)), int(rng.integers(0, 7))
        R = int(rng.integers(1 if label_frames else min(2, U + 1), U + 2))
        blanks, labels = rng.random((T, U + 1)), rng.random((T, U))
        chosen = window_scores(blanks, labels, R).argmax(axis=1)
        chosen[-1] = U + 1 - R
        expected = first_rows(*(torch.tensor(a)[None] for a in (blanks, labels)), torch.tensor([T]), torch.tensor([U]),
                              R, label_frames=label_frames)
        assert raised(chosen, 1 if label_frames else R - 1).tolist() == expected[0].tolist()


def test_messages():
    with pytest.raises(ValueError, match=r"num_rows = 0; expected num_rows >= 1"):
        window_scores(np.zeros((2, 2)), np.zeros((2, 1)), 0)
    with pytest.raises(ValueError, match=r"climb = -1; expected climb >= 0"):
        raised([0, 1], -1)
