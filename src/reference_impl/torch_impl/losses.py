"""The two losses of the book for torch: what they are called with, and which backend runs. No recursion lives here."""

from __future__ import annotations

import importlib.util

import torch

from .. import _validation
from . import arguments, numpy_ops, tensor_ops
from .derivatives import transformable
from .tracing import traced

__all__ = ["CTCLoss", "RNNTLoss", "ctc_loss", "rnnt_loss"]

_TRITON = importlib.util.find_spec("triton") is not None


@transformable(1)
def ctc_loss(logits, targets, logit_lengths, target_lengths, *, blank=0, reduction="mean", zero_infinity=False,
             inputs="logits", backend="auto", validate="auto", overwrite_logits=False):
    """CTC loss -log Z in nats, with autograd.

    The positional order is that of ``torch.nn.functional.ctc_loss`` :claim:`torch-ctc-signature`, but this one is batch
    first, takes logits, and its "mean" is the mean over the batch, never divided by target lengths.

    Parameters
    ----------
    logits : (B, T, V) tensor of float16, bfloat16, float32 or float64
        Unnormalised scores, or log-probs with ``inputs="log_probs"``; ``-inf`` masks an entry.
    targets : (B, U) tensor of int32 or int64
        Labels in [0, V), none equal to ``blank``; on the device of the logits or on the CPU. Padding may hold anything.
    logit_lengths, target_lengths : (B,) tensors of int32 or int64
        Frames (0 <= length <= T) and labels (0 <= length <= U); on the device of the logits or on the CPU.
    blank : int
    reduction : "none" | "sum" | "mean"
    zero_infinity : bool
        Loss 0 instead of ``inf`` where no alignment exists; the gradient is 0 there in any case.
    inputs : "logits" | "log_probs"
        "log_probs" takes any scores as they are, normalised or not: the gradient is -occupancy.
    backend : "auto" | "torch" | "triton"
        "torch" is made of tensor operations and runs wherever torch does. "triton" has kernels of its own, for CUDA
        (and for the CPU in Triton's interpreter, ``TRITON_INTERPRET=1``, which is for tests and study). "auto" takes
        "triton" for logits on CUDA if Triton 3.3 or later is installed, else "torch". The numbers are the same up to
        rounding. On a device without float64, Apple's MPS, logits are copied to the CPU; loss and gradient come back to
        the device.
    validate : "auto" | True | False
        Whether values of targets and lengths are checked. True raises wherever the logits are, and a GPU's host waits
        for the values. False checks none of them: a bad label or length makes the loss of its own utterance NaN, and
        so the gradient of whatever frames it has; other utterances are not touched. "auto" is True where the lattice
        runs on the CPU, and False on CUDA and under a tracer (see Notes). Shapes and dtypes are always checked. With
        targets and lengths on the CPU the host waits in any case, until a GPU has its copy.
    overwrite_logits : bool
        True writes the gradient over the logits when ``backward`` runs, instead of into memory of its own. The logits
        must be the output of some operation, not a leaf, and their elements must not share memory. Whatever needs
        them afterwards, a second backward included, raises autograd's error about an inplace operation. Where logits
        are copied to the CPU, the copy is overwritten. Under a tracer the option has no effect.

    Returns
    -------
    (B,) or scalar tensor
        float32 for half and float32 logits, float64 for float64. The gradient has the dtype of the logits. With
        ``inputs="logits"`` no loss is below 0: where rounding would take the value there, it is 0, and all derivatives
        are those of -log Z. Scores need not be normalised, so with "log_probs" a loss may be negative.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule. A NaN or ``+inf`` among the logits is no error: its utterance's
        loss is NaN.

    Notes
    -----
    ``torch.compile`` (``fullgraph=True``, too), ``torch.export`` and fake tensors see operators of torch, those in
    ``torch.ops.reference_impl``, which compute what eager mode computes, for any numbers of utterances, frames and
    labels. A tracer has shapes and no values. So ``validate="auto"`` lets a bad label make a NaN, and True checks the
    values that the graph is run with. A traced loss has no second derivative; in eager mode a loss has. A saved program
    needs ``import reference_impl.torch_impl`` where it is loaded.

    The transforms of ``torch.func`` (``grad``, ``vjp``, ``jvp``, ``vmap``, ``jacrev``, ``jacfwd``, ``hessian``),
    forward-mode differentiation and the functions of ``torch.autograd.functional`` work in eager mode; inside
    ``torch.compile`` they break the graph. In the first two ``overwrite_logits`` has no effect. ``vmap`` over the
    scores makes one batch of many. Forward mode inside forward mode raises, so take reverse mode for one of the two,
    and so does a third derivative; for one, differentiate :func:`.naive.ctc_loss`.

    Examples
    --------
    >>> logits = torch.zeros(1, 2, 2, dtype=torch.float64, requires_grad=True)
    >>> loss = ctc_loss(logits, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    >>> loss.backward()
    >>> round(torch.exp(-loss).item(), 12), (6 * logits.grad).round(decimals=12).tolist()
    (0.75, [[[1.0, -1.0], [1.0, -1.0]]])
    """
    return _loss("ctc", logits, targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs,
                 backend, validate, overwrite_logits, False)


@transformable(1)
def rnnt_loss(logits, targets, logit_lengths, target_lengths, *, blank=0, reduction="mean", zero_infinity=False,
              inputs="logits", backend="auto", validate="auto", overwrite_logits=False, extra_rows=False,
              fastemit_lambda=0.0, clamp=None):
    """RNN-T loss -log Z in nats, with autograd.

    Parameters
    ----------
    logits : (B, T, U+1, V) tensor of float16, bfloat16, float32 or float64
        Unnormalised scores, or log-probs with ``inputs="log_probs"``; ``-inf`` masks an entry.
    logit_lengths : (B,) tensor
        1 <= length <= T.
    targets, target_lengths, blank, reduction, zero_infinity, inputs, backend, validate, overwrite_logits
        As for :func:`ctc_loss`; so are what is returned, what is raised, and what a tracer sees.
    extra_rows : bool
        True takes logits with more rows than targets have columns and one, as they come where targets were cut after
        the network had run. The rows beyond are padding: they have no influence, and gradient 0.
    fastemit_lambda : float >= 0
        Multiplies the posteriors of the label arcs by 1 + lambda in the backward pass, before the log-softmax (Yu et
        al. 2021). The loss stays -log Z. With lambda > 0 and at least one label, the backward pass returns FastEmit's
        field. It is not the gradient of the loss, nor of any other function unless there is only one path, so
        ``gradcheck`` must fail.
    clamp : float > 0, optional
        Cuts the entries of each utterance's gradient off at -clamp and clamp, before the upstream gradient (so before
        the reduction) is applied. A clamped gradient is not a gradient either, and its sum over V is not 0.

    Examples
    --------
    >>> logits = torch.zeros(1, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    >>> loss = rnnt_loss(logits, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    >>> loss.backward()
    >>> round(torch.exp(-loss).item(), 12), (4 * logits.grad[0, 1]).round(decimals=12).tolist()
    (0.25, [[1.0, -1.0], [-2.0, 2.0]])
    """
    fastemit_lambda = _validation.check_fastemit_lambda(fastemit_lambda)
    if clamp is not None:
        clamp = _validation.check_real("clamp", clamp, "a finite number > 0, or None", lambda value: value > 0)
    return _loss("rnnt", logits, targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs,
                 backend, validate, overwrite_logits, extra_rows, fastemit_lambda, clamp)


def _loss(kind, logits, targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs, backend,
          validate, overwrite_logits, extra_rows, *options):
    arguments.check_call(reduction, inputs, validate, zero_infinity=zero_infinity, overwrite_logits=overwrite_logits)
    _validation.check_choice("backend", backend, ("auto", "torch", "triton"))
    targets, logit_lengths, target_lengths, blank = arguments.check_batch(
        kind, logits, targets, logit_lengths, target_lengths, blank, validate, extra_rows=extra_rows)
    if overwrite_logits and not traced(logits):
        arguments.check_overwritable(logits)
    there = arguments.to_lattice(logits)
    backend = _backend(backend, logits.device.type, there)
    given = there, targets, logit_lengths, target_lengths, blank, inputs == "logits"
    if backend is tensor_ops:
        function = {"ctc": backend.ctc_losses, "rnnt": backend.rnnt_losses}[kind]
        losses = function(*given, overwrite_logits, *options)
    elif traced(there):
        losses = {"ctc": backend.ctc_operator, "rnnt": backend.rnnt_operator}[kind](*given, *options)
    else:
        losses = {"ctc": backend.CTC, "rnnt": backend.RNNT}[kind].apply(*given, overwrite_logits, *options)
    return arguments.reduced(losses, logits.device, zero_infinity, reduction)


def _backend(backend, device, logits):
    """The module of a backend that can run for logits that came from a type of device."""
    if backend == "auto":
        backend = _auto(device)
    if backend == "torch":
        on_cpu = numpy_ops.takes(logits) or traced(logits) and logits.device.type == "cpu"
        return numpy_ops if on_cpu else tensor_ops
    if not _has_triton():
        raise ValueError("backend = 'triton'; expected 'auto' or 'torch', for triton >= 3.3 is not installed")
    if device != "cuda" and not _interprets_triton():
        raise ValueError(f"backend = 'triton'; expected 'auto' or 'torch' for logits on {device}, "
                         "unless TRITON_INTERPRET=1 is set before triton is imported")
    from . import triton_backend
    return triton_backend


def _auto(device):
    return "triton" if device == "cuda" and _has_triton() and not _interprets_triton() else "torch"


def _has_triton():
    if not _TRITON:
        return False
    from triton import language
    return hasattr(language, "gather")  # since 3.3: torch 2.4 to 2.6 bring older ones


def _interprets_triton():
    from . import triton_backend
    return triton_backend.INTERPRETED


class _Loss(torch.nn.Module):
    """Keeps the keyword options of a loss function; calls it with them."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


class CTCLoss(_Loss):
    """:func:`ctc_loss` as a module; the options are its keyword arguments.

    Examples
    --------
    >>> module = CTCLoss(reduction="none")
    >>> module(torch.zeros(1, 2, 2), torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1])).shape
    torch.Size([1])
    """

    def __init__(self, *, blank=0, reduction="mean", zero_infinity=False, inputs="logits", backend="auto",
                 validate="auto", overwrite_logits=False):
        super().__init__(blank=blank, reduction=reduction, zero_infinity=zero_infinity, inputs=inputs, backend=backend,
                         validate=validate, overwrite_logits=overwrite_logits)

    def forward(self, logits, targets, logit_lengths, target_lengths):
        return ctc_loss(logits, targets, logit_lengths, target_lengths, **self.options)


class RNNTLoss(_Loss):
    """:func:`rnnt_loss` as a module; the options are its keyword arguments.

    Examples
    --------
    >>> module = RNNTLoss(reduction="none")
    >>> module(torch.zeros(1, 2, 2, 2), torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1])).shape
    torch.Size([1])
    """

    def __init__(self, *, blank=0, reduction="mean", zero_infinity=False, inputs="logits", backend="auto",
                 validate="auto", overwrite_logits=False, extra_rows=False, fastemit_lambda=0.0, clamp=None):
        super().__init__(blank=blank, reduction=reduction, zero_infinity=zero_infinity, inputs=inputs, backend=backend,
                         validate=validate, overwrite_logits=overwrite_logits, extra_rows=extra_rows,
                         fastemit_lambda=fastemit_lambda, clamp=clamp)

    def forward(self, logits, targets, logit_lengths, target_lengths):
        return rnnt_loss(logits, targets, logit_lengths, target_lengths, **self.options)
