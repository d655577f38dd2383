"""Stage 3: the error of the float32 gradient on a device, for utterances up to T = 10,000, against float64.

The truth is the lattice with float64 mantissas and exponents, on the same float32 numbers: log-probs, so that the error
is the lattice's alone, or logits, so that it is that of the whole loss.
"""

from __future__ import annotations

import numpy as np
import torch
from accuracy_cases import FAMILIES, SIZES, ctc_logits, ctc_occupancy, rnnt_arcs, rnnt_logits

from reference_impl import log_softmax
from reference_impl.torch_impl import ctc_loss, rnnt_loss

from .record import Record, about, target

__all__ = ["run"]

WHAT = "largest absolute error of a float32 gradient on a device, and the error of log Z, against float64"
LIMIT = 5e-4
KERNELS, TORCH = "kernels", "torch ctc_loss"


def run(where, folder, options):
    """Run the stage on a `Device`; its status."""
    record = Record(folder / "cuda_accuracy.json", about("accuracy", WHAT, where), options.seconds, options.fresh)
    sizes = SIZES[:1] if where.rehearsal else SIZES[::-1]  # the longest first: they show the most
    cases = [(kind, family, *size) for size in sizes for family in FAMILIES for kind in ("rnnt", "ctc")]
    record.run({f"{kind}, {family}, T = {T}": lambda case=(kind, family, T, U): rows(*case, where.tensors)
                for kind, family, T, U in cases}, options.only)
    T = max(SIZES)[0]
    errors = [row["gradient_error"] for row in record.result["rows"] if row["method"] == KERNELS and row["T"] == T]
    record.result["targets"] = [target(f"error of a float32 gradient, T = {T}", LIMIT, max(errors, default=None))]
    return record.finish()


def rows(kind, family, T, U, device):
    """What the kernels return for one utterance, as log-probs and as logits, and torch's own CTC on the device."""
    rng = np.random.default_rng(0)
    about_row = {"loss": kind, "logits": family, "T": T, "U": U}

    def compared(method, inputs, result, exact):
        loss, gradient = result
        error = float(np.nan_to_num(np.abs(gradient - exact[1]), nan=1.0).max())  # no posterior is further off than 1
        off = float(abs(-loss - exact[0]))
        row = {**about_row, "method": method, "inputs": inputs, "gradient_error": error,
               "log_z_error": off if np.isfinite(off) else None}
        print(f"  {method:15} {inputs:10} gradient {error:8.1e}   log Z {off:8.1e}", flush=True)
        return row

    if kind == "rnnt":
        # the third symbol stands for all that are neither the blank nor the next label
        logits, rest = rnnt_logits(family, T, U, rng)
        rest = np.broadcast_to(np.asarray(rest)[..., None], (T, U + 1, 1))
        logits = np.concatenate([logits, rest], axis=-1).astype(np.float32)
        targets = np.ones(U, np.int64)

        def truth(log_probs):
            log_z, arcs = rnnt_arcs((log_probs[..., 0], log_probs[..., 1]), dtype=np.float64)
            return log_z, np.stack([*arcs, np.zeros_like(arcs[0])], -1)
    else:
        logits, targets = ctc_logits(family, T, U, rng)
        logits = logits.astype(np.float32)

        def truth(log_probs):
            return ctc_occupancy(log_probs, targets, dtype=np.float64)

    exact_log_probs = log_softmax(logits.astype(np.float64))
    log_probs = exact_log_probs.astype(np.float32)
    log_z, posteriors = truth(log_probs.astype(np.float64))
    exact = log_z, -posteriors
    yield compared(KERNELS, "log_probs", by_kernels(kind, log_probs, targets, "log_probs", device), exact)
    if kind == "ctc":
        yield compared(TORCH, "log_probs", by_torch(log_probs, targets, device), exact)
    log_z, posteriors = truth(exact_log_probs)
    gradient = np.exp(exact_log_probs) * posteriors.sum(-1, keepdims=True) - posteriors
    yield compared(KERNELS, "logits", by_kernels(kind, logits, targets, "logits", device), (log_z, gradient))


def by_kernels(kind, scores, targets, inputs, device):
    """Loss and gradient of one utterance."""
    leaf = torch.tensor(scores[None], device=device, requires_grad=True)
    lengths = torch.tensor([len(scores)]), torch.tensor([len(targets)])
    loss = {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind](leaf, torch.tensor(targets[None]), *lengths, inputs=inputs,
                                                     backend="triton")
    loss.backward()
    return loss.item(), leaf.grad[0].double().cpu().numpy()


def by_torch(log_probs, targets, device):
    """The same of torch's own CTC, whose gradient adds the softmax."""
    leaf = torch.tensor(log_probs[:, None], device=device, requires_grad=True)
    loss = torch.nn.functional.ctc_loss(leaf, torch.tensor(targets[None], device=device), [len(log_probs)],
                                        [len(targets)], reduction="sum")
    gradient, = torch.autograd.grad(loss, leaf)
    return loss.item(), (gradient - torch.exp(leaf.detach()))[:, 0].double().cpu().numpy()
