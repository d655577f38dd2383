"""warprnnt_numba's loss in direct calls, for what no report shows. tests/test_calls.py judges what it returns."""

import os

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numba_ports  # noqa: E402
import torch  # noqa: E402
from recording import question, record  # noqa: E402
from warprnnt_numba.rnnt_loss import rnnt_pytorch as binding  # noqa: E402
from warprnnt_numba.rnnt_loss.utils import rnnt_helper  # noqa: E402
from warprnnt_numba.rnnt_loss.utils.cuda_utils import gpu_rnnt_kernel  # noqa: E402


@question
def on_the_cpu():
    """RNNTLossNumba on the CPU: plain, with FastEmit, with a clamp; and what it hands log-probs to."""
    return numba_ports.on_the_cpu(binding, torch.int32)


@question
def in_the_simulator():
    """The CUDA kernels in Numba's simulator: plain, with FastEmit, with a clamp."""
    return numba_ports.in_the_simulator(gpu_rnnt_kernel, rnnt_helper)


@question
def wide_targets():
    """RNNTLossNumba on the CPU, of targets with two columns that no utterance needs."""
    return numba_ports.wide_targets(binding, torch.int32)


@question
def nan_in_the_padding():
    """RNNTLossNumba on the CPU, of logits with NaN in the padding."""
    return numba_ports.nan_in_the_padding(binding, torch.int32)


record()
