"""What fast_rnnt returned for small inputs (data/fast_rnnt.json), against our losses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impl.as_published import fast_rnnt
from reference_impl.torch_impl import arc_rnnt_loss, pruned_rnnt_loss, rnnt_loss
from reference_impl.torch_impl.pruning import simple_scores, smoothed_scores

FAST_RNNT = fast_rnnt.read(Path(__file__).parents[1] / "data")

# the files hold 13 decimals; a smoothed scale of 0 is 1e-20 there, and "+ tiny" is in its sums
TOLERANCE = 1e-11

every_case = pytest.mark.parametrize("case", FAST_RNNT["cases"], ids=lambda case: f"T={case['T']}, S={case['S']}")
every_type = pytest.mark.parametrize("kind", fast_rnnt.KINDS)


@every_case
@every_type
class TestFastRnnt:
    def test_losses(self, case, kind):
        """fast_rnnt computes the penalties of its labels in float32."""
        apart = dict(fast_rnnt.losses_apart(case, kind))
        assert apart.pop("delay penalty") < 1e-6
        assert list(apart) == ["simple", "px_grad", "py_grad", "any joiner", "smoothed"]
        assert max(apart.values()) < TOLERANCE

    def test_bands_and_pruned_losses(self, case, kind):
        found = list(fast_rnnt.pruned_apart(case, kind))
        assert len(found) == 3 and all(same_band and apart < TOLERANCE for _, same_band, apart in found)

    def test_a_difference_is_seen(self, case, kind):
        """A record that says something else is told from ours, loss by loss and band by band."""
        changed = json.loads(json.dumps(case))
        returned = changed["types"][kind]
        returned["simple"]["loss"] += 1e-6
        returned["simple"]["px_grad"][-1][-2] += 1e-6
        returned["joint"]["loss"] -= 1e-6
        returned["pruned"]["2"]["ranges"][-1][0] += 1
        returned["pruned"]["3"]["loss"] += 1e-6
        apart = dict(fast_rnnt.losses_apart(changed, kind))
        assert all(apart[name] == pytest.approx(1e-6, rel=1e-3) for name in ("simple", "px_grad", "any joiner"))
        (_, same_band, _), (_, _, loss_apart), _ = fast_rnnt.pruned_apart(changed, kind)
        assert not same_band and loss_apart == pytest.approx(1e-6, rel=1e-3)


@every_case
@pytest.mark.parametrize("kind, label_frames", [("regular", 0), ("modified", 1)])
def test_all_rows(case, kind, label_frames):
    """A band of all rows is the loss of the whole grid."""
    logits, targets = torch.tensor([case["joint"]], dtype=torch.float64), torch.tensor([case["symbols"]])
    lengths = torch.tensor([case["T"]]), torch.tensor([case["S"]])
    whole = torch.zeros((1, case["T"]), dtype=torch.int64)
    loss = pruned_rnnt_loss(logits, whole, targets, *lengths, label_frames=label_frames)
    assert loss.item() == pytest.approx(case["types"][kind]["joint"]["loss"], rel=0, abs=TOLERANCE)
    if kind == "regular":
        assert rnnt_loss(logits, targets, *lengths).item() == pytest.approx(loss.item(), rel=1e-14)


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
