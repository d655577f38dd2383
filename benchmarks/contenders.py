"""Every implementation that the benchmarks compare, behind one call. It times nothing and imports a peer when asked.

A contender takes (kind, scores, targets) of a full batch, no padding, and returns a ``step()``: one loss and one
gradient with respect to the logits, softmax included; plus a ``fetch()`` of the last gradient, an array or a tensor.
Scores are a NumPy array, which a torch contender copies, or for the device a tensor that lies there, which all share.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import version

import numpy as np
import torch

from reference_impl import batched, ctc, rnnt
from reference_impl.torch_impl import ctc_loss, rnnt_loss

LOSSES = {"ctc": ctc_loss, "rnnt": rnnt_loss}


def problem(kind, shape, seed=0):
    """Random logits (B, T, V) or (B, T, U+1, V) in float32, and targets (B, U) that have an alignment."""
    B, T, U, V = shape
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((B, T, V) if kind == "ctc" else (B, T, U + 1, V), dtype=np.float32)
    return scores, rng.integers(1, V, size=(B, U))


def lengths_of(kind, scores, targets):
    B, T = scores.shape[:2]
    return np.full(B, T), np.full(B, targets.shape[1])


def exact_gradient(kind, scores, targets):
    """Of the sum of the losses, in float64 by `batched`."""
    function = {"ctc": batched.ctc_loss, "rnnt": batched.rnnt_loss}[kind]
    return function(scores.astype(np.float64), targets, *lengths_of(kind, scores, targets))[1]


def numpy_batched(kind, scores, targets, device, dtype):
    function = {"ctc": batched.ctc_loss, "rnnt": batched.rnnt_loss}[kind]
    arguments = scores, targets, *lengths_of(kind, scores, targets)
    kept = {}

    def step():
        kept["gradient"] = function(*arguments)[1]

    return step, lambda: kept["gradient"]


def numpy_loops(kind, scores, targets, device, dtype):
    """The explicit recursions, a Python step for every state of every frame."""
    module = {"ctc": ctc, "rnnt": rnnt}[kind]
    kept = {}

    def step():
        kept["gradient"] = np.stack([module.grad_logits(s, t) for s, t in zip(scores, targets, strict=True)])

    return step, lambda: kept["gradient"]


def exp_and_multiply(kind, scores, targets, device, dtype):
    """One np.exp pass and one multiplication in place: what any loss with a softmax has to do at least."""
    buffer = np.empty_like(scores)

    def step():
        np.exp(scores, out=buffer)
        np.multiply(buffer, np.float32(0.5), out=buffer)

    return step, lambda: None


def _by_torch(kind, scores, targets, device, dtype, loss_of):
    """Any torch loss: ``loss_of(logits, targets, T_of, U_of)`` is summed and differentiated."""
    if isinstance(scores, torch.Tensor):
        logits = scores.detach().to(device, dtype).requires_grad_()
    else:
        logits = torch.tensor(scores, device=device, dtype=dtype).requires_grad_()
    integers = [torch.as_tensor(a, device=device) for a in (targets, *lengths_of(kind, scores, targets))]

    def step():
        logits.grad = None
        loss_of(logits, *integers).backward()

    return step, lambda: logits.grad


def _ours(backend, **options):
    def contender(kind, scores, targets, device, dtype):
        def loss_of(logits, *integers):
            return LOSSES[kind](logits, *integers, reduction="sum", backend=backend, **options)

        return _by_torch(kind, scores, targets, device, dtype, loss_of)

    return contender


def torch_ctc(kind, scores, targets, device, dtype, *, cudnn=False):
    """Torch's own CTC, behind its log-softmax; cuDNN needs int32 targets in one row, and lengths on the CPU."""
    def loss_of(logits, targets, T_of, U_of):
        log_probs = torch.log_softmax(logits, -1, dtype=torch.float32 if dtype != torch.float64 else None)
        if cudnn:
            targets, T_of, U_of = targets.flatten().int().cpu(), T_of.int().cpu(), U_of.int().cpu()
        with torch.backends.cudnn.flags(enabled=cudnn):
            return torch.nn.functional.ctc_loss(log_probs.transpose(0, 1), targets, T_of, U_of, reduction="sum")

    return _by_torch(kind, scores, targets, device, dtype, loss_of)


def torch_ctc_cudnn(kind, scores, targets, device, dtype):
    return torch_ctc(kind, scores, targets, device, dtype, cudnn=True)


def autograd(kind, scores, targets, device, dtype):
    """RNN-T as one writes it with tensor operations and leaves to autograd: log-softmax, then alpha by diagonals."""
    def loss_of(logits, targets, T_of, U_of):
        log_probs = torch.log_softmax(logits.float(), -1)
        B, T, rows, _ = log_probs.shape
        blank = log_probs[..., 0]
        label = log_probs[:, :, :-1].gather(3, targets[:, None, :, None].expand(B, T, rows - 1, 1))[..., 0]
        impossible = blank.new_full((B, 1), -torch.inf)
        alpha = torch.cat([blank.new_zeros(B, 1), blank.new_full((B, rows - 1), -torch.inf)], 1)
        t, u = torch.arange(T, device=logits.device), torch.arange(rows, device=logits.device)
        for n in range(1, T + rows - 1):
            at = n - 1 - u  # the frame of lane u on the diagonal before
            inside = (at >= 0) & (at < T)
            frame = at.clamp(0, T - 1)
            stays = (alpha + blank[:, frame, u]).masked_fill(~(inside & (at < T - 1)), -torch.inf)
            moves = (alpha[:, :-1] + label[:, frame[:-1], u[:-1]]).masked_fill(~inside[:-1], -torch.inf)
            alpha = torch.logaddexp(stays, torch.cat([impossible, moves], 1))
        del t
        return -(alpha[:, -1] + blank[:, -1, -1]).sum()

    return _by_torch(kind, scores, targets, device, dtype, loss_of)


def torchaudio_rnnt(kind, scores, targets, device, dtype):
    from torchaudio.functional import rnnt_loss as their_loss

    def loss_of(logits, targets, T_of, U_of):
        return their_loss(logits, targets.int(), T_of.int(), U_of.int(), blank=0, reduction="sum")

    # it has float16 and float32 only
    return _by_torch(kind, scores, targets, device, torch.float16 if dtype == torch.bfloat16 else dtype, loss_of)


def warprnnt_numba(kind, scores, targets, device, dtype):
    from warprnnt_numba.rnnt_loss import RNNTLossNumba

    loss = RNNTLossNumba(blank=0, reduction="sum")

    def loss_of(logits, targets, T_of, U_of):
        return loss(logits.float(), targets.int(), T_of.int(), U_of.int()).sum()

    return _by_torch(kind, scores, targets, device, dtype, loss_of)


def optax_jit(kind, scores, targets, device, dtype):
    import jax
    import jax.numpy as jnp
    import optax

    T_pad, U_pad = jnp.zeros(scores.shape[:2]), jnp.zeros(targets.shape)
    logits, labels = jnp.asarray(scores), jnp.asarray(targets)
    value_and_grad = jax.jit(jax.value_and_grad(lambda x: optax.ctc_loss(x, T_pad, labels, U_pad).sum()))
    kept = {}

    def step():
        kept["result"] = jax.block_until_ready(value_and_grad(logits))

    return step, lambda: np.asarray(kept["result"][1])


# name -> (losses, devices, packages that must be there, contender)
CONTENDERS = {
    "np.exp and multiply": (("ctc", "rnnt"), ("cpu",), (), exp_and_multiply),
    "batched": (("ctc", "rnnt"), ("cpu",), (), numpy_batched),
    "tensor ops": (("ctc", "rnnt"), ("cpu", "cuda"), (), _ours("torch")),
    "triton": (("ctc", "rnnt"), ("cuda",), ("triton",), _ours("triton")),
    "triton, validate=False": (("ctc", "rnnt"), ("cuda",), ("triton",), _ours("triton", validate=False)),
    "explicit loops": (("ctc", "rnnt"), ("cpu",), (), numpy_loops),
    "autograd": (("rnnt",), ("cpu", "cuda"), (), autograd),
    "torch ctc_loss": (("ctc",), ("cpu", "cuda"), (), torch_ctc),
    "torch ctc_loss, cuDNN": (("ctc",), ("cuda",), (), torch_ctc_cudnn),
    "optax, jit": (("ctc",), ("cpu",), ("jax", "optax"), optax_jit),
    "torchaudio": (("rnnt",), ("cpu", "cuda"), ("torchaudio",), torchaudio_rnnt),
    "warprnnt_numba": (("rnnt",), ("cpu", "cuda"), ("warprnnt_numba", "numba"), warprnnt_numba),
}


def present(kind, device):
    """Names of the contenders that can run here, and of those that cannot with the package they lack."""
    here, absent = [], {}
    for name, (kinds, devices, packages, _) in CONTENDERS.items():
        if kind in kinds and device in devices:
            missing = [package for package in packages if importlib.util.find_spec(package) is None]
            if missing:
                absent[name] = ", ".join(missing)
            else:
                here.append(name)
    return here, absent


def versions():
    """Of everything that takes part and is installed."""
    found = {}
    for package in ("numpy", "torch", "triton", "torchaudio", "jax", "optax", "numba", "warprnnt_numba"):
        if importlib.util.find_spec(package):
            found[package] = version(package)
    return found
