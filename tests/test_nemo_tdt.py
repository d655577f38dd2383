"""The torch losses against what a library's own kernels returned, as recorded by ``benchmarks/nemo_tdt.py``.

Where 1 is among the durations the two are the same. Where it is not, the library's gradient is known to be wrong.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impl.as_published import nemo_tdt
from reference_impl.torch_impl import multi_blank_rnnt_loss, tdt_loss

CASES = json.loads((Path(__file__).parent.parent / "data" / "nemo_tdt.json").read_text(encoding="utf-8"))["cases"]
NAMES = [f"{case['kind']} {case['frames']} sigma {case['sigma']} T {case['T']}" for case in CASES]


def ours(case):
    """Loss, and its gradients with respect to the logits of the symbols and to the log-probs of the durations."""
    T, U, V, frames = case["T"], case["U"], case["V"], case["frames"]
    logits, durations, targets = (torch.tensor(each)[None] for each in nemo_tdt.inputs(case))
    lengths, options = (torch.tensor([T]), torch.tensor([U])), {"blank": V - 1, "sigma": case["sigma"]}
    logits.requires_grad_()
    if case["kind"] == "multiblank":
        big_blanks = {V - 2 - i: m for i, m in enumerate(frames)}
        loss = multi_blank_rnnt_loss(logits, targets, *lengths, big_blanks=big_blanks, **options)
        return loss.item(), torch.autograd.grad(loss, logits)[0], None
    log_probs = torch.log_softmax(durations, -1).requires_grad_()
    loss = tdt_loss(torch.log_softmax(logits, -1), log_probs, targets, *lengths, durations=frames, inputs="log_probs",
                    **options)
    return loss.item(), *torch.autograd.grad(loss, (logits, log_probs))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_recorded_kernels(case):
    loss, by_logits, by_durations = ours(case)
    recorded = [case["grad_logits"]]
    gradients = [by_logits]
    if case["kind"] == "tdt":
        recorded.append(case["grad_duration_log_probs"])
        gradients.append(by_durations)
    off = max(np.abs(gradient.numpy().ravel() - np.array(other)).max()
              for gradient, other in zip(gradients, recorded, strict=True))
    if case["kind"] == "multiblank" or 1 in case["frames"]:
        assert abs(loss - case["loss"]) < 1e-12 and off < 1e-12
        assert abs(case["loss"] - case["loss_back"]) < 1e-12
    else:
        assert (abs(loss - case["loss"]) < 1e-12 or loss == np.inf) and off > 0.1
        assert case["last_beta"] == 0.0  # the logarithm of the mass that should be 0


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_all_logits(case):
    """The true gradient against torch and, where 1 is not among the durations, the leaking one against the kernels."""
    lattice, logits, groups = nemo_tdt.problem(case)
    _, by_logits, by_durations = ours(case)
    parts = [by_logits[0].numpy()]
    if by_durations is not None:
        g, q = by_durations[0].numpy(), np.exp(nemo_tdt.log_weights(logits, groups))[..., groups[0]:]
        parts.append(g - q * g.sum(-1, keepdims=True))
    true, found = nemo_tdt.gradient(lattice, logits, groups, case["sigma"]), nemo_tdt.returned(case)
    assert np.allclose(true, np.concatenate(parts, -1), rtol=0, atol=1e-12)
    if case["kind"] == "multiblank" or 1 in case["frames"]:
        assert np.allclose(true, found, rtol=0, atol=1e-12)
    elif np.isfinite(ours(case)[0]):
        leaking = nemo_tdt.leaking_gradient(lattice, logits, groups, case["sigma"])
        assert np.allclose(leaking, found, rtol=0, atol=1e-11) and np.abs(leaking - true).max() > 1
