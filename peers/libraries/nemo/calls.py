"""NeMo's RNN-T loss in direct calls, for what no report shows. tests/test_calls.py judges what it returns."""

import os

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numba_ports  # noqa: E402
import torch  # noqa: E402
from bare_packages import module  # noqa: E402
from recording import question, record  # noqa: E402

ROOM = "nemo.collections.asr.parts.numba"
binding, kernels, helper = (module(f"{ROOM}.rnnt_loss.{name}", ROOM) for name in (
    "rnnt_pytorch", "utils.cuda_utils.gpu_rnnt_kernel", "utils.rnnt_helper"))


@question
def on_the_cpu():
    """RNNTLossNumba on the CPU: plain, with FastEmit, with a clamp; and what it hands log-probs to."""
    return numba_ports.on_the_cpu(binding, torch.int64)


@question
def in_the_simulator():
    """The CUDA kernels in Numba's simulator: plain, with FastEmit, with a clamp."""
    return numba_ports.in_the_simulator(kernels, helper)


@question
def second_backward():
    """RNNTLossNumba on the CPU, and two backward passes."""
    return numba_ports.second_backward(binding, torch.int64)


record()
