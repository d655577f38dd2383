"""What fast_rnnt returned for small inputs (data/fast_rnnt.json), against our losses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impl.torch_impl import arc_rnnt_loss, pruned_rnnt_loss, rnnt_loss
from reference_impl.torch_impl.pruning import first_rows, simple_scores, smoothed_scores

FAST_RNNT = json.loads((Path(__file__).parents[1] / "data" / "fast_rnnt.json").read_text(encoding="utf-8"))

# the files hold 13 decimals; a smoothed scale of 0 is 1e-20 there, and "+ tiny" is in its sums
TOLERANCE = 1e-11
LABEL_FRAMES = {"regular": 0, "modified": 1}

every_case = pytest.mark.parametrize("case", FAST_RNNT["cases"], ids=lambda case: f"T={case['T']}, S={case['S']}")
every_type = pytest.mark.parametrize("kind", LABEL_FRAMES)


def tensors(case, *names):
    return [torch.tensor([case[name]], dtype=torch.int64 if name == "symbols" else torch.float64) for name in names]


def lengths(case):
    return torch.tensor([case["T"]]), torch.tensor([case["S"]])


def posteriors(scores, *rest, **options):
    leaves = [score.detach().requires_grad_() for score in scores]
    loss = arc_rnnt_loss(*leaves, *rest, **options)
    return loss.item(), *(-g for g in torch.autograd.grad(loss, leaves))


@every_case
@every_type
class TestFastRnnt:
    def test_simple(self, case, kind):
        expected = case["types"][kind]["simple"]
        scores = simple_scores(*tensors(case, "am", "lm", "symbols"))
        loss, blanks, labels = posteriors(scores, *lengths(case), label_frames=LABEL_FRAMES[kind])
        assert loss == pytest.approx(expected["loss"], rel=0, abs=TOLERANCE)
        np.testing.assert_allclose(blanks[0].T, expected["py_grad"], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(labels[0].T, np.array(expected["px_grad"])[:, :case["T"]], rtol=0, atol=TOLERANCE)

    def test_joint(self, case, kind):
        logits, targets = tensors(case, "joint", "symbols")
        whole = torch.zeros((1, case["T"]), dtype=torch.int64)
        loss = pruned_rnnt_loss(logits, whole, targets, *lengths(case), label_frames=LABEL_FRAMES[kind])
        assert loss.item() == pytest.approx(case["types"][kind]["joint"]["loss"], rel=0, abs=TOLERANCE)
        if kind == "regular":
            assert rnnt_loss(logits, targets, *lengths(case)).item() == pytest.approx(loss.item(), rel=1e-14)

    def test_smoothed(self, case, kind):
        scores = smoothed_scores(*tensors(case, "am", "lm", "symbols"), prediction_scale=0.25, encoding_scale=0.1)
        loss, *_ = posteriors(scores, *lengths(case), label_frames=LABEL_FRAMES[kind])
        expected = case["types"][kind]["smoothed, lm_only_scale 0.25, am_only_scale 0.1"]["loss"]
        assert loss == pytest.approx(expected, rel=0, abs=TOLERANCE)

    @pytest.mark.parametrize("rows", ["2", "3", "4"])
    def test_band_and_pruned_loss(self, case, kind, rows):
        """fast_rnnt takes no more rows than there are; its bounds, and the loss inside them."""
        am, lm, targets, logits = tensors(case, "am", "lm", "symbols", "joint")
        R, expected = min(int(rows), case["S"] + 1), case["types"][kind]["pruned"][rows]
        _, *arcs = posteriors(simple_scores(am, lm, targets), *lengths(case), label_frames=LABEL_FRAMES[kind])
        first = first_rows(*arcs, *lengths(case), R, label_frames=LABEL_FRAMES[kind])
        assert first[0].tolist() == [row[0] for row in expected["ranges"]]
        band = logits.gather(2, (first[..., None] + torch.arange(R))[..., None].expand(-1, -1, -1, case["C"]))
        loss = pruned_rnnt_loss(band, first, targets, *lengths(case), label_frames=LABEL_FRAMES[kind])
        assert loss.item() == pytest.approx(expected["loss"], rel=0, abs=TOLERANCE)

    def test_delay_penalty(self, case, kind):
        """A label arc of frame t gains d ((T - 1) / 2 - t); fast_rnnt computes that in float32."""
        blanks, labels = simple_scores(*tensors(case, "am", "lm", "symbols"))
        t = torch.arange(case["T"])[:, None]
        loss = arc_rnnt_loss(blanks, labels + 0.3 * ((case["T"] - 1) / 2 - t), *lengths(case),
                             label_frames=LABEL_FRAMES[kind])
        assert loss.item() == pytest.approx(case["types"][kind]["simple, delay_penalty 0.3"], rel=0, abs=1e-6)


def test_fast_rnnt_batch():
    """Two lengths: the simple losses are those of each alone, the smoothed ones are not."""
    batch = FAST_RNNT["batch"]
    am, lm = (torch.tensor(batch[name], dtype=torch.float64) for name in ("am", "lm"))
    symbols = torch.tensor(batch["symbols"])
    boundary = torch.tensor(batch["boundary"])
    both = boundary[:, 3], boundary[:, 2]
    simple = arc_rnnt_loss(*simple_scores(am, lm, symbols), *both, reduction="none")
    np.testing.assert_allclose(simple, batch["simple"], rtol=0, atol=TOLERANCE)
    options = {"prediction_scale": 0.25, "encoding_scale": 0.1}
    smoothed = arc_rnnt_loss(*smoothed_scores(am, lm, symbols, **options), *both, reduction="none")
    expected = batch["smoothed, lm_only_scale 0.25, am_only_scale 0.1"]
    np.testing.assert_allclose(smoothed, expected, rtol=0, atol=TOLERANCE)
    for b, (T, S) in enumerate(zip(*both, strict=True)):
        scores = smoothed_scores(am[b:b + 1, :T], lm[b:b + 1, :S + 1], symbols[b:b + 1, :S], **options)
        alone = arc_rnnt_loss(*scores, T[None], S[None])
        assert alone.item() == pytest.approx(batch["the same, each utterance alone"][b], rel=0, abs=TOLERANCE)
        assert abs(alone.item() - smoothed[b].item()) > 1e-3
