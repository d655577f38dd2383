"""warprnnt_numba's CUDA kernels, in Numba's simulator; see common/numba_kernels.py."""

import warprnnt_numba
from batches import batch
from numba_kernels import ask
from warprnnt_numba.rnnt_loss.utils import rnnt_helper
from warprnnt_numba.rnnt_loss.utils.cuda_utils import gpu_rnnt_kernel

from reference_impl.conformance import answer


def loss(inputs, precision):
    return ask(batch(inputs, precision), gpu_rnnt_kernel, rnnt_helper)


answer(loss, name="warprnnt_numba's CUDA kernels, simulated", version=warprnnt_numba.__version__, kind="rnnt",
       scores="logits", precisions=["float64"], can=["batch", "fastemit"])
