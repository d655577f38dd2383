"""Checks of the equations of the chapter on the floor: bytes counted in Triton's interpreter, and fractions."""

from fractions import Fraction

import pytest
import torch
from implementations import TRITON_DEVICE, needs_triton

from reference_impl.equations import check_equation
from reference_impl.measuring.kernel_bytes import moved_bytes
from reference_impl.measuring.torch_passes import Passes
from reference_impl.torch_impl import ctc_loss, rnnt_loss

interpreted = pytest.mark.skipif(TRITON_DEVICE == "cuda", reason="bytes are counted where kernels are interpreted")

DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
# arrays of one number an utterance, or of the targets; and the logits and the gradient, which are counted apart
FEW = {"targets", "labels_in_order", "order", "T_of", "U_of", "log_z", "loss", "upstreams", "end_shares"}
SHAPES = [(2, 7, 4, 6, 8), (1, 5, 3, 10, 4), (2, 4, 1, 20, 2), (3, 3, 2, 4, 4)]


def problem(kind, B, T, U, V, s):
    torch.manual_seed(B + T)
    leaf = torch.randn((B, T, V) if kind == "ctc" else (B, T, U + 1, V), dtype=DTYPES[s], requires_grad=True)
    targets = torch.arange(1, U + 1).repeat(B, 1)  # no repeats: an alignment exists
    return leaf, (targets, torch.full((B,), T), torch.full((B,), U))


def lattice_bytes(kind, *shape):
    """What the kernels move in one step, but for logits and gradient: an utterance's share of it."""
    leaf, integers = problem(kind, *shape)
    with moved_bytes() as moved:
        {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind](leaf, *integers, backend="triton").backward()
    total = sum(count for (_, array, _), count in moved.items() if array not in FEW | {"logits", "grad"})
    return Fraction(total, shape[0])


def moved(total, *_):
    return total


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-rnnt-lattice")
def test_rnnt_lattice():
    """Every access of the four kernels, counted, against the sum of their four lines."""
    def rhs(total, c, T, U):
        return ((3 * c + 4) * T * (U + 1) + (c + 4) * T * U
                + (c + 4) * ((T - 1) * (U + 1) + 1 + T * U) + 2 * c * (T + U - 1) * (U + 1)
                + 2 * c * (T + U - 1) * (U + 1) + c * (T + U) * (U + 1) + c * (T + U - 1) * U
                + 3 * c * T * (U + 1) + c * T * U)

    check_equation("eq-floor-rnnt-lattice", moved, rhs, [
        (lattice_bytes("rnnt", B, T, U, V, s), max(s, 4), T, U) for B, T, U, V, s in SHAPES])


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-ctc-lattice")
def test_ctc_lattice():
    """Every access of the four kernels, counted, against a frame's share of their four lines."""
    def rhs(total, c, T, U):
        return T * ((3 * c + 4) + (c + 4) * U
                    + (c + 4) * (U + 1) + c + 5 * c * (U + 1)
                    + 5 * c * (U + 1) + c * (2 * U + 1)
                    + c * (2 * U + 1) + 2 * c)

    check_equation("eq-floor-ctc-lattice", moved, rhs, [
        (lattice_bytes("ctc", B, T, U, V, s), max(s, 4), T, U) for B, T, U, V, s in SHAPES])


def memory_of(overwrite, *shape):
    """Bytes that an RNN-T loss makes in forward, keeps for backward, and has in backward, beside its arguments."""
    leaf, integers = problem("rnnt", *shape)
    logits = leaf * 1.0
    given, saved = {each.data_ptr() for each in (logits, *integers)}, []

    def keep(tensor):
        saved.append(tensor.nbytes if tensor.data_ptr() not in given else 0)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), Passes(1) as forward:
        loss = rnnt_loss(logits, *integers, backend="triton", reduction="sum", overwrite_logits=overwrite)
    with Passes(1) as backward:
        torch.autograd.grad(loss, logits)
    return forward.allocated, sum(saved), sum(saved) + backward.allocated


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-forward")
def test_forward():
    """What the forward pass allocates, against the shapes."""
    def rhs(total, B, T, U, c):
        return (6 * c + 8) * B * (T + U) * (U + 1) + (8 + c) * B

    check_equation("eq-floor-forward", moved, rhs, [
        (memory_of(False, B, T, U, V, s)[0], B, T, U, max(s, 4)) for B, T, U, V, s in SHAPES])


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-saved")
def test_saved():
    """The sizes of the tensors that autograd is given to keep, against their shapes."""
    def rhs(total, B, T, U, c):
        return 4 * c * B * (T + U) * (U + 1) + 8 * B

    check_equation("eq-floor-saved", moved, rhs, [
        (memory_of(False, B, T, U, V, s)[1], B, T, U, max(s, 4)) for B, T, U, V, s in SHAPES])


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-memory")
def test_memory():
    """What is kept and what backward allocates, against shapes; o is 1 if the logits are overwritten."""
    def rhs(total, N, o, B, T, U, c):
        return (1 - o) * N + 6 * c * B * (T + U) * (U + 1) + 8 * B

    check_equation("eq-floor-memory", moved, rhs, [
        (memory_of(bool(o), B, T, U, V, s)[2], s * B * T * (U + 1) * V, o, B, T, U, max(s, 4))
        for B, T, U, V, s in SHAPES[:3] for o in (0, 1)])


@pytest.mark.equation("eq-floor-rate")
def test_rate():
    """Operations divided by the least time, against the lower of two limits, in fractions."""
    def rhs(F, M, P, W, I):
        return min(P, I * W)

    def lhs(F, M, P, W, I):
        return F / max(F / P, M / W)

    cases = [tuple(map(Fraction, case)) for case in ((6, 24, 50, 3), (600, 24, 50, 3), (100, 6, 50, 3), (7, 3, 5, 11))]
    check_equation("eq-floor-rate", lhs, rhs, [(F, M, P, W, F / M) for F, M, P, W in cases])
