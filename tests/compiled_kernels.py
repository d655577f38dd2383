"""The compiled kernels, launched on the machine of ``ptx_machine`` instead of a GPU, for tests of any file."""

from contextlib import contextmanager

import pytest
import torch
from implementations import TORCH

from ptx_machine.compiling import has_triton
from ptx_machine.triton_launches import TritonLaunches
from reference_impl.measuring.kernels_on_machine import kernels_on_machine

needs_compiler = pytest.mark.skipif(not has_triton(), reason="triton is not installed, so nothing compiles the kernels")


@contextmanager
def on_the_machine(*, faults=False, **options):
    """Losses with ``backend="triton"`` of CPU tensors run compiled; what a kernel may not do fails the test.

    ``options`` are those of :class:`ptx_machine.triton_launches.TritonLaunches`, which is what the context gives.
    """
    with kernels_on_machine(TritonLaunches(**options)) as machine:
        yield machine
    found = [report.describe() for report in machine.reports if report.findings]
    assert faults or not found, "\n".join(found)


def step(kind, scores, targets, logit_lengths, target_lengths, upstream=None, **options):
    """Losses and gradient of one step by the kernels, for an upstream gradient of 1, 2, 3, ..."""
    leaf = scores.detach().clone().requires_grad_()
    logits = leaf * 1 if options.get("overwrite_logits") else leaf
    losses = TORCH[kind](logits, *(torch.as_tensor(a) for a in (targets, logit_lengths, target_lengths)),
                         reduction="none", **{"backend": "triton", **options})
    losses.backward(torch.arange(1, len(scores) + 1).to(losses) if upstream is None else upstream)
    return losses.detach(), leaf.grad
