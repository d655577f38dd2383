"""What every torch loss asks of its arguments before it runs, and does with its losses afterwards. No loss is here."""

from __future__ import annotations

import torch

from .. import _validation
from .edges import REDUCTIONS
from .tracing import traced

__all__ = ["check_arcs", "check_band", "check_batch", "check_beside", "check_call", "check_first_axis",
           "check_integers", "check_overwritable", "check_scores", "from_lattice", "reduced", "to_lattice"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.int32, torch.int64)
_VALIDATE = ("auto", True, False)
_WITHOUT_FLOAT64 = ("mps",)  # types of devices; Apple's, and none of CUDA's
_AXES = {"ctc": (3, "(B, T, V)"), "rnnt": (4, "(B, T, U+1, V)"), "band": (4, "(B, T, Q, V)")}


def check_call(reduction, inputs, validate, **flags):
    """Three options of every loss, and others that are True or False."""
    _validation.check_choice("reduction", reduction, tuple(REDUCTIONS))
    _validation.check_choice("inputs", inputs, ("logits", "log_probs"))
    _validation.check_choice("validate", validate, _VALIDATE)
    for name, value in flags.items():
        _validation.check_bool(name, value)


def check_batch(kind, logits, targets, logit_lengths, target_lengths, blank, validate, big_blanks=(), extra_rows=False):
    """The integers where the lattice runs, int64; shapes and dtypes always checked, values if ``validate``.

    With ``extra_rows`` the targets get columns for rows that no label leads to; their entries are no labels.
    """
    extra_rows = _validation.check_bool("extra_rows", extra_rows)
    check_scores("logits", logits, *_AXES[kind])
    blank = _validation.check_blank(blank, logits.shape[-1])
    integers = {"targets": targets, "logit_lengths": logit_lengths, "target_lengths": target_lengths}
    for name, tensor in integers.items():
        check_integers(name, tensor, logits, *((2, "(B, U)") if name == "targets" else (1, "(B,)")))
    _validation.check_batch_axis(logits.shape, *(tensor.shape for tensor in integers.values()))
    if kind != "ctc":
        _validation.check_size("T", logits.shape[1], 1)
    if kind == "rnnt":
        _validation.check_rows("logits", logits.shape[2], targets.shape[1], extra_rows)
    checked = list(integers.values())
    for each in (blank, *big_blanks):
        limits = [logits.shape[1], logits.shape[-1], each, int(kind != "ctc")]
        checked = _checked("check_batch_values", checked, limits, logits, validate)
    targets, *lengths = _at_lattice(checked, logits)
    if extra_rows:
        targets = torch.nn.functional.pad(targets, (0, logits.shape[2] - 1 - targets.shape[1]), value=-1)
    return targets, *lengths, blank


def check_arcs(blank_scores, label_scores, logit_lengths, target_lengths, validate="auto"):
    """The lengths where the lattice runs, int64."""
    check_scores("blank_scores", blank_scores, 3, "(B, T, U+1)")
    B, T, rows = blank_scores.shape
    _validation.check_size("T", T, 1)
    _validation.check_size("U + 1", rows, 1)
    check_beside("label_scores", label_scores, blank_scores, (B, T, rows - 1), "one column less")
    lengths = {"logit_lengths": logit_lengths, "target_lengths": target_lengths}
    for name, tensor in lengths.items():
        check_integers(name, tensor, blank_scores, 1, "(B,)")
        check_first_axis(name, tensor, blank_scores, "blank_scores")
    return _at_lattice(_checked("check_lengths", list(lengths.values()), [T, rows - 1, 1], blank_scores, validate),
                       blank_scores)


def check_band(first_rows, logits, logit_lengths, num_labels, validate):
    """Where the rows of a band lie, (B, T), on the device where the lattice runs, int64."""
    B, T, Q, _ = logits.shape
    check_integers("first_rows", first_rows, logits, 2, "(B, T)")
    if tuple(first_rows.shape) != (B, T):
        raise ValueError(f"first_rows has shape {tuple(first_rows.shape)}; expected (B, T) = {(B, T)}, as in logits "
                         f"with shape {tuple(logits.shape)}")
    _validation.check_band_height(Q, num_labels)
    first_rows, _ = _checked("check_first_rows", [first_rows, logit_lengths], [num_labels + 1 - Q], logits, validate)
    return _at_lattice([first_rows], logits)[0]


def check_scores(name, scores, rank, axes):
    _check_tensor(name, scores, _DTYPES)
    _validation.check_rank(name, scores.shape, rank, axes)


def check_beside(name, scores, others, shape, meaning):
    """Scores of a given shape, of the dtype and on the device of others."""
    _check_tensor(name, scores, _DTYPES)
    if scores.dtype != others.dtype or scores.device != others.device:
        raise ValueError(f"{name} has dtype {scores.dtype} on {scores.device}; expected {others.dtype} on "
                         f"{others.device}, like the other scores")
    if tuple(scores.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(scores.shape)}; expected {tuple(shape)}: {meaning}")


def check_first_axis(name, tensor, scores, other):
    if tensor.shape[0] != scores.shape[0]:  # of a traced tensor, len() is a constant
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected B = {scores.shape[0]} first, as in {other}")


def check_integers(name, tensor, logits, rank, axes):
    _check_tensor(name, tensor, _INTEGERS)
    _validation.check_rank(name, tensor.shape, rank, axes)
    if tensor.device != logits.device and tensor.device.type != "cpu":
        raise ValueError(f"{name} is on {tensor.device}; expected {logits.device}, the device of logits, or cpu")


def _check_tensor(name, value, dtypes):
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")
    if value.dtype not in dtypes:
        raise TypeError(f"{name} has dtype {value.dtype}; expected {' or '.join(map(str, dtypes))}")


def _checked(check, integers, limits, scores, validate):
    """The integers, after a check of their values by a function of ``_validation``, if there is to be one.

    "auto": there is, if the lattice of the scores is on the CPU and no tracer looks on. Elsewhere the host would have
    to wait for a device, and a tracer has no values; a bad one makes the loss of its utterance NaN. True makes a tracer
    write the check down, for the values that come later.
    """
    if validate == "auto":
        validate = _lattice_device(scores.device).type == "cpu" and not traced(scores)
    if not validate:
        return integers
    if traced(scores):
        return torch.ops.reference_impl.checked(check, integers, limits)
    return _look(check, integers, limits)


def _look(check, integers, limits):
    getattr(_validation, check)(*(tensor.detach().cpu().numpy() for tensor in integers), *limits)
    return integers


@torch.library.custom_op("reference_impl::checked", mutates_args=(),
                         schema="(str check, Tensor[] integers, SymInt[] limits) -> Tensor[]")
def _look_when_run(check, integers, limits):
    return [each.clone() for each in _look(check, integers, limits)]


@_look_when_run.register_fake
def _(check, integers, limits):
    return [each.clone() for each in integers]


def _at_lattice(integers, scores):
    """Integers on the device where the lattice of the scores runs, int64."""
    return tuple(each.to(_lattice_device(scores.device), torch.int64) for each in integers)


def check_overwritable(logits):
    """Raises unless the gradient may take the memory of the logits."""
    if logits.is_leaf and logits.requires_grad:
        raise ValueError("overwrite_logits = True and logits is a leaf; expected the output of an operation, "
                         "whose memory nobody else looks at")
    strides = sorted(zip(logits.stride(), logits.shape, strict=True))
    span = 1
    for stride, size in strides:
        if size > 1:
            if stride < span:
                raise ValueError(f"overwrite_logits = True and logits, of shape {tuple(logits.shape)}, has strides "
                                 f"{logits.stride()}; expected elements that share no memory")
            span += stride * (size - 1)


def _lattice_device(device):
    """Lattices are float64. They run on the device of the logits or, if that has no float64, on the CPU."""
    return torch.device("cpu") if device.type in _WITHOUT_FLOAT64 else device


def to_lattice(scores):
    """Scores on the device where their lattice runs; autograd takes the gradient, and its derivative, back again."""
    return scores.to(_lattice_device(scores.device))


def from_lattice(results, device):
    """Results on the device that the scores came from; float32 if it has no float64."""
    if device.type in _WITHOUT_FLOAT64:
        results = results.to(torch.float32)  # before the move: float64 cannot arrive there
    return results.to(device)


def reduced(losses, device, zero_infinity, reduction):
    """One loss of the losses (B,), or all of them, on a device."""
    if zero_infinity:
        losses = torch.where(losses == torch.inf, 0.0, losses)
    return from_lattice(REDUCTIONS[reduction](losses), device)
