"""CTC and RNN-T losses for torch: the same functions on CPU and CUDA, with gradients computed by hand.

CTC and RNN-T are in :mod:`.losses`, relatives of RNN-T in :mod:`.variants`; what is done before a pruned loss is in
:mod:`.pruning`. What a loss computes is in :mod:`.tensor_ops`, which runs wherever torch has float64; logits from
elsewhere are copied to the CPU (:mod:`.arguments`). For CTC and RNN-T there are faster backends: :mod:`.numpy_ops` for
the CPU, and :mod:`.triton_backend` with kernels of our own for CUDA. What torch.compile and torch.export see of all
this is made in :mod:`.tracing`.
"""

from .losses import CTCLoss, RNNTLoss, ctc_loss, rnnt_loss
from .variants import (
    arc_rnnt_loss,
    hat_log_probs,
    monotonic_rnnt_loss,
    multi_blank_rnnt_loss,
    pruned_rnnt_loss,
    tdt_loss,
)

__all__ = ["CTCLoss", "RNNTLoss", "arc_rnnt_loss", "ctc_loss", "hat_log_probs", "monotonic_rnnt_loss",
           "multi_blank_rnnt_loss", "pruned_rnnt_loss", "rnnt_loss", "tdt_loss"]
