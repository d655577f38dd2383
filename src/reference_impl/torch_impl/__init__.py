"""CTC and RNN-T losses for torch: the same functions on CPU and CUDA, with gradients computed by hand.

The losses are in :mod:`.losses` (arguments, reduction, backends); a backend is a module with one autograd.Function for
each loss. :mod:`.tensor_ops` runs wherever torch does, on the CPU through NumPy (:mod:`.numpy_ops`), and
:mod:`.triton_backend` launches kernels of our own on CUDA.
"""

from .losses import CTCLoss, RNNTLoss, ctc_loss, rnnt_loss

__all__ = ["CTCLoss", "RNNTLoss", "ctc_loss", "rnnt_loss"]
