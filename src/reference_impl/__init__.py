"""The CTC and RNN-T losses and their gradients, compact references in NumPy and torch. This is the map of the files.

One idea carries the package: a loss is a lattice plus arc weights, and the gradient of log Z with respect to the
log-weight of an arc is the posterior of that arc. Importing the package needs no torch.

**Read first** ``ctc.py``, then ``rnnt.py``, which has the same names. They hold the two recursions, ``alpha`` and
``beta``, as the papers write them, for one utterance. They are the definition: faster code is tested against them.

**How data flow**, for T frames, U labels and V symbols. ``ctc.py`` and ``rnnt.py`` both have the functions in the last
column; ``log_softmax`` is in ``_softmax.py``. Log-probs and losses are in nats::

    array                        CTC        RNN-T        made by
    logits                       (T, V)     (T, U+1, V)  your network
    log_probs                    (T, V)     (T, U+1, V)  log_softmax
    log masses, prefix & suffix  (T, 2U+1)  (T, U+1)     alpha, beta
    loss = -log Z                a number   a number     loss, from alpha
    occupancy                    (T, V)     (T, U+1, V)  occupancy
    grad_log_probs               (T, V)     (T, U+1, V)  minus the occupancy
    grad_logits                  (T, V)     (T, U+1, V)  grad_logits

**A gradient becomes one with respect to logits** in the last line of ``grad_logits``, as softmax * occupancy.sum(-1)
- occupancy. The same step for batches is in ``sweeps/vocabulary.py`` (NumPy), ``torch_impl/log_probs.py`` (tensor
operations) and ``torch_impl/triton_vocabulary.py`` (kernels); for any lattice it is ``lattice_loss.grad_logits``.

**Batches to train with** have logits (B, T, V) or (B, T, U+1, V). ``batched`` returns losses and gradients in NumPy;
``torch_impl`` has CTC, RNN-T and the variants, with autograd, and ``torch_impl/losses.py`` chooses how they run.
On the CPU, CTC and RNN-T run ``sweeps`` (in torch through ``numpy_ops.py``). They need no beta: the forward sweep keeps
what part of a node's mass each incoming arc brought, and the occupancy of the node goes back in these parts.

**What runs on a GPU** is in ``torch_impl``, and nowhere else. On CUDA with Triton, ``triton_backend.py`` launches the
kernels of ``triton_vocabulary.py`` and ``triton_lattice.py`` for CTC and RNN-T. All else, the variants and every second
derivative among it, is made of the tensor operations in ``tensor_ops.py``, ``log_probs.py`` and ``grid.py``.

**A new loss goes** into ``topology/``, as a builder that says which arcs there are and which log-prob each of them
takes; ``lattice_loss`` and ``second_order`` differentiate it on the engine in ``lattice.py``. A version to train with
says the same in ``torch_impl/tensor_ops.py``, and has its signature in ``torch_impl/variants.py``.

**What the losses never run.** What one trains with, in ``ctc``, ``rnnt``, ``batched`` or ``torch_impl``, uses none of:

- other ways to the same numbers: ``lattice``, ``topology``, ``lattice_loss``, ``second_order``, ``duals``, and
  ``torch_impl/naive.py``, where autograd alone differentiates the two recursions;
- checks and proofs: ``differences``, ``terms``, ``diagnosis``, ``bug_bank``, ``conformance``, ``equations``,
  ``symbolic``; what reads with a trained network: ``decoding``, ``alignment``; several processes: ``scaling``;
- what the chapters show: ``examples``, ``showing``, ``plotting``, ``as_published``, ``pruning``, ``digits``,
  ``speech``, ``networks``, ``measuring``, ``_padding``.

``hat`` is RNN-T with a blank of its own, on ``rnnt.py``. ``semiring`` has the numbers that recursions run on: log
floats, fractions, polynomials, best paths, counts. ``decoding`` grows strings by the same forward sweeps, and says how
sure the model is of them. ``_validation`` checks arguments; ``_loss_value`` is for the minus of -log Z.

**Internal, free to change**: ``sweeps``, ``as_published``, ``pruning``, ``digits``, ``speech``, ``networks``,
``measuring``, files of ``torch_impl`` except ``naive.py``, ``pruning.py`` and those in ``drop_in``, and every name that
begins with an underscore. All other names in an ``__all__`` are public, those of ``torch_impl`` among them.
"""

from . import batched, ctc, rnnt
from ._softmax import log_softmax

__all__ = ["batched", "ctc", "log_softmax", "rnnt"]
__version__ = "0.1.0"
