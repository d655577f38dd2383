"""CTC and RNN-T losses for torch: the same functions on CPU and CUDA, with gradients computed by hand.

The losses are in :mod:`.losses` (arguments, reduction, backends); a backend is a module with one autograd.Function for
each loss. There is one backend so far, :mod:`.tensor_ops`, which runs wherever torch does.
"""

from .losses import CTCLoss, RNNTLoss, ctc_loss, rnnt_loss

__all__ = ["CTCLoss", "RNNTLoss", "ctc_loss", "rnnt_loss"]
