"""Compact NumPy and torch references for the CTC and RNN-T losses and their gradients. Importing this needs no torch.

``ctc`` and ``rnnt`` are the explicit recursions of one utterance, ``batched`` the fast NumPy form, and
:mod:`reference_impl.torch_impl` the autograd form.
"""

from . import batched, ctc, rnnt
from ._softmax import log_softmax

__all__ = ["batched", "ctc", "log_softmax", "rnnt"]
__version__ = "0.1.0"
