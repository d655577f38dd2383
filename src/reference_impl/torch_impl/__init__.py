"""CTC and RNN-T losses for torch: the same functions on CPU and CUDA, with gradients computed by hand.

CTC and RNN-T are in :mod:`.losses`, relatives of RNN-T in :mod:`.variants`; both say what they are called with. What a
loss computes is in :mod:`.tensor_ops`, which runs wherever torch does. For CTC and RNN-T there are faster backends:
:mod:`.numpy_ops` for the CPU, and :mod:`.triton_backend`, which launches kernels of our own on CUDA.
"""

from .losses import CTCLoss, RNNTLoss, ctc_loss, rnnt_loss
from .variants import hat_log_probs, monotonic_rnnt_loss, multi_blank_rnnt_loss, pruned_rnnt_loss, tdt_loss

__all__ = ["CTCLoss", "RNNTLoss", "ctc_loss", "hat_log_probs", "monotonic_rnnt_loss", "multi_blank_rnnt_loss",
           "pruned_rnnt_loss", "rnnt_loss", "tdt_loss"]
