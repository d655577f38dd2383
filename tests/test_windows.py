"""How paths go through a frame, and bounds: against enumeration, and against the program that chooses bands."""

from itertools import product

import numpy as np
import pytest
import torch
from enumeration import probability, rnnt_alignments

from reference_impl import log_softmax
from reference_impl.pruning.windows import ceiling, frame_moves, raised, window_scores
from reference_impl.torch_impl.pruning import first_rows


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


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4])
def test_ceiling(num_rows):
    """No band keeps more, a single frame's best window is what it is, and all rows keep all."""
    T, targets = 4, [1, 2, 1]
    log_probs = log_softmax(2 * np.random.default_rng(num_rows).normal(size=(T, 4, 4)))
    paths = rnnt_alignments(targets, T, 4, 0)
    masses = np.array([probability(log_probs, path) for path in paths])
    places = range(4 - num_rows + 1)

    def share(inside):
        return masses[[inside(path) for path in paths]].sum() / masses.sum()

    def stays(path, frame, first):
        return all(first <= u < first + num_rows for t, u, _ in path if t == frame)

    best = [max(share(lambda path, t=t, s=s: stays(path, t, s)) for s in places) for t in range(1, T - 1)]
    ends = share(lambda path: stays(path, 0, 0)), share(lambda path: stays(path, T - 1, places[-1]))
    found = ceiling(log_probs, targets, num_rows)
    assert found == pytest.approx(min(*best, *ends), rel=1e-12)
    for first in product(places, repeat=T):
        kept = share(lambda path, first=first: all(stays(path, t, s) for t, s in enumerate(first)))
        assert kept <= found + 1e-12
    assert num_rows < 4 or found == pytest.approx(1)


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
    with pytest.raises(ValueError, match=r"Q = 4; expected 1 <= Q <= U \+ 1 = 3 rows"):
        ceiling(np.zeros((4, 3, 2)), [1, 1], 4)
