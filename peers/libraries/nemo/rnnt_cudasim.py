"""NeMo's CUDA kernels of RNN-T, in Numba's simulator; see common/numba_kernels.py."""

from importlib.metadata import version

from bare_packages import module
from batches import batch
from numba_kernels import ask

from reference_impl.conformance import answer

ROOM = "nemo.collections.asr.parts.numba"
kernels, helper = (module(f"{ROOM}.rnnt_loss.utils.{name}", ROOM)
                   for name in ("cuda_utils.gpu_rnnt_kernel", "rnnt_helper"))


def loss(inputs, precision):
    return ask(batch(inputs, precision), kernels, helper)


answer(loss, name="NeMo's CUDA kernels of RNN-T, simulated", version=version("nemo_toolkit"), kind="rnnt",
       scores="logits", precisions=["float64"], can=["batch", "fastemit"])
