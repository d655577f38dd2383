"""What fast_rnnt 1.3 returned for two small inputs (data/fast_rnnt.json), beside what is returned here; needs torch.

Nothing in the file was computed here. All comparisons are of one utterance in float64, blank 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from .._validation import check_choice
from ..torch_impl import pruned_rnnt_loss
from ..torch_impl.pruning import (
    arc_scores,
    band_of,
    cut_band,
    losses_and_posteriors,
    simple_scores,
    smoothed_scores,
)

__all__ = ["KINDS", "losses_apart", "pruned_apart", "read"]

#: fast_rnnt's types of lattices.
KINDS = ("regular", "modified", "constrained")


def read(folder) -> dict:
    """The records; ``folder`` is that of the file, of a notebook ``"../data"``."""
    return json.loads((Path(folder) / "fast_rnnt.json").read_text(encoding="utf-8"))


def losses_apart(case, kind) -> Iterator[tuple[str, float]]:
    """How far our losses and arc posteriors are from a record's.

    Parameters
    ----------
    case : dict
        One of ``read(...)["cases"]``.
    kind : str
        One of ``KINDS``.

    Yields
    ------
    name : str
        Of a loss, or of the posteriors that come with the simple one.
    apart : float
        The largest absolute difference, nats or probabilities.
    """
    given, returned = _Inputs(case, kind), case["types"][kind]
    loss, py_grad, px_grad = given.run(given.simple())
    yield "simple", abs(loss - returned["simple"]["loss"])
    for ours, name in ((px_grad, "px_grad"), (py_grad, "py_grad")):
        theirs = np.array(returned["simple"][name])[:, :case["T"]]  # a regular px has a column for the end
        yield name, float(np.abs(ours[0].numpy().T - theirs).max())
    yield "any joiner", abs(given.run(arc_scores(given.log_probs, given.labels))[0] - returned["joint"]["loss"])
    mixed = smoothed_scores(given.am, given.lm, given.labels, prediction_scale=0.25, encoding_scale=0.1)
    name = "smoothed, lm_only_scale 0.25, am_only_scale 0.1"
    yield "smoothed", abs(given.run(mixed)[0] - returned[name]["loss"])
    penalised = given.run(given.simple(), delay_penalty=0.3)[0]
    yield "delay penalty", abs(penalised - returned["simple, delay_penalty 0.3"])


def pruned_apart(case, kind) -> Iterator[tuple[int, bool, float]]:
    """The same for the bands that the simple loss chooses, and for the pruned loss; parameters as above.

    Yields
    ------
    num_rows : int
        Q.
    same_band : bool
    apart : float
        The absolute difference of the pruned losses, nats.
    """
    given = _Inputs(case, kind)
    scores = [each.detach().requires_grad_() for each in given.folded(given.simple())]
    for rows, returned in case["types"][kind]["pruned"].items():
        num_rows = min(int(rows), case["S"] + 1)  # more count as all
        _, first = band_of(*scores, *given.lengths, num_rows, label_frames=given.label_frames)
        band = cut_band(given.log_probs, first, num_rows)
        if kind == "constrained":
            band = _folded_band(band, first, given.labels)
        loss = pruned_rnnt_loss(band, first, given.labels, *given.lengths, label_frames=given.label_frames,
                                inputs="log_probs")
        same = first[0].tolist() == [row[0] for row in returned["ranges"]]
        yield num_rows, same, abs(loss.item() - returned["loss"])


class _Inputs:
    """A record's inputs as tensors of a batch of one."""

    def __init__(self, case, kind):
        self.kind = check_choice("kind", kind, KINDS)
        self.label_frames = int(kind != "regular")
        self.am, self.lm, joint = (torch.tensor([case[name]], dtype=torch.float64) for name in ("am", "lm", "joint"))
        self.log_probs = torch.log_softmax(joint, -1)
        self.labels = torch.tensor([case["symbols"]])
        self.lengths = torch.tensor([case["T"]]), torch.tensor([case["S"]])

    def simple(self):
        return simple_scores(self.am, self.lm, self.labels)

    def folded(self, arcs):
        """Constrained: a label takes the blank that has to follow it (def-k2-fold)."""
        blanks, labels = arcs
        return (blanks, labels + blanks[:, :, 1:]) if self.kind == "constrained" else (blanks, labels)

    def run(self, arcs, delay_penalty=0.0):
        """Loss, and the posteriors of blank arcs and label arcs."""
        blanks, labels = self.folded(arcs)
        T = blanks.shape[1]
        labels = labels + delay_penalty * ((T - 1) / 2 - torch.arange(T))[:, None]
        scores = [each.detach().requires_grad_() for each in (blanks, labels)]
        loss, *posteriors = losses_and_posteriors(*scores, *self.lengths, label_frames=self.label_frames)
        return loss.item(), *posteriors


def _folded_band(band, first, labels):
    """Log-probs of a band with folded labels: one from the top row of a window is lost, as in fast_rnnt."""
    band, following = band.clone(), band[:, :, 1:, 0]
    rows = first[..., None] + torch.arange(band.shape[2] - 1)
    symbols = labels[0][rows.clamp(max=labels.shape[1] - 1)][..., None]
    band[:, :, :-1].scatter_(3, symbols, band[:, :, :-1].gather(3, symbols) + following[..., None])
    band[:, :, -1, 1:] = -torch.inf
    return band
