"""Checks of the equations of the chapter on the floor: bytes counted in Triton's interpreter, and fractions."""

from fractions import Fraction

import pytest
import torch
from implementations import TRITON_DEVICE, needs_triton
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed
from reference_impl.measuring.kernel_bytes import moved_bytes
from reference_impl.measuring.torch_passes import Passes
from reference_impl.torch_impl import ctc_loss, rnnt_loss

NOTATION = Notation({r"\tau": "tau", r"\Phi": "P"})
QUANTITIES = Quantities(
    {"B": "B", "T": "T", "U": "U", "V": "V"},
    {
        "T = 1": lambda T: T == 1,
        "U = 0": lambda U: U == 0,
        "B = 1": lambda B: B == 1,
        "all labels equal": lambda U, V: U > 1 and V == 2,
        "no two labels equal": lambda U, V: 1 < U < V,
        "bfloat16": lambda b: b == 2,
        "float32": lambda b: b == 4,
        "float64": lambda b: b == 8,
        "the logits stay": lambda o: o == 0,
        "the logits are overwritten": lambda o: o == 1,
        "memory is the limit": lambda P, W, I: I * W < P,
        "arithmetic is the limit": lambda P, W, I: I * W > P,
        "the roof bends": lambda P, W, I: I * W == P,
    })

interpreted = pytest.mark.skipif(TRITON_DEVICE == "cuda", reason="bytes are counted where kernels are interpreted")

DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
# arrays of one number an utterance, or of the targets; and the logits and the gradient, which are counted apart
FEW = {"targets", "labels_in_order", "order", "T_of", "U_of", "log_z", "loss", "upstreams", "end_shares"}
# B, T, U, V, b; V = 2 has one label, which is repeated
SHAPES = [(2, 4, 3, 6, 8), (1, 5, 3, 2, 4), (2, 4, 1, 20, 2), (3, 3, 2, 4, 4), (3, 1, 0, 2, 8)]
LONG_TARGETS = [(1, 1, 2, 4, 4), (2, 2, 3, 2, 2)]


def problem(kind, B, T, U, V, b):
    torch.manual_seed(B + T)
    leaf = torch.randn((B, T, V) if kind == "ctc" else (B, T, U + 1, V), dtype=DTYPES[b], requires_grad=True)
    targets = (torch.arange(U) % (V - 1) + 1).repeat(B, 1)
    return leaf, (targets, torch.full((B,), T), torch.full((B,), U))


@computed(kind="bytes counted in the interpreter")
def lattice_bytes(kind, B, T, U, V, b, upstream=1, masked=False):
    """An utterance's share of what the kernels move in one step, but for logits and gradient. No blank if masked."""
    leaf, integers = problem(kind, B, T, U, V, b)
    if masked:
        leaf.data[..., 0] = -torch.inf
    with moved_bytes() as moved:
        (upstream * {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind](leaf, *integers, backend="triton")).backward()
    return Fraction(sum(count for (_, array, _), count in moved.items() if array not in FEW | {"logits", "grad"}), B)


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-rnnt-lattice")
def test_rnnt_lattice():
    """Every access of the four kernels, counted, against the sum of their four lines."""
    def rhs(A, c, T, U):
        return ((3 * c + 4) * T * (U + 1) + (c + 4) * T * U
                + (c + 4) * ((T - 1) * (U + 1) + 1 + T * U) + 2 * c * (T + U - 1) * (U + 1)
                + 2 * c * (T + U - 1) * (U + 1) + c * (T + U) * (U + 1) + c * (T + U - 1) * U
                + 3 * c * T * (U + 1) + c * T * U)

    check_equation("eq-floor-rnnt-lattice", first, rhs, (
        (lattice_bytes("rnnt", B, T, U, V, b), max(b, 4), T, U) for B, T, U, V, b in SHAPES + LONG_TARGETS))


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-ctc-lattice")
def test_ctc_lattice():
    """Every access of the four kernels, counted, against a frame's share of their four lines."""
    def rhs(A, c, T, U):
        return T * ((3 * c + 4) + (c + 4) * U
                    + (c + 4) * (U + 1) + c + 5 * c * (U + 1)
                    + 5 * c * (U + 1) + c * (2 * U + 1)
                    + c * (2 * U + 1) + 2 * c)

    no_alignment = "no alignment is shorter than its target"
    check_equation("eq-floor-ctc-lattice", first, rhs, (
        (lattice_bytes("ctc", B, T, U, V, b), max(b, 4), T, U) for B, T, U, V, b in SHAPES),
        left_out={"T < U": no_alignment})


@needs_triton
@interpreted
def test_a_gradient_that_is_0_needs_no_posteriors():
    """Where the loss is infinite, or nothing flows back, the last line of the formulas is not read."""
    B, T, U, V, b = LONG_TARGETS[0]
    assert lattice_bytes("ctc", B, T, U, V, b) == T * (72 * U + 84) - T * (8 * U + 12)
    B, T, U, V, b = shape = 1, 5, 3, 2, 4  # there is an alignment, and a mask takes its mass
    assert lattice_bytes("ctc", *shape, masked=True) == T * (72 * U + 84) - T * (8 * U + 12)
    B, T, U, V, b = shape = 1, 2, 1, 3, 4
    for kind, last_line in (("rnnt", 12 * T * (U + 1) + 4 * T * U), ("ctc", T * (8 * U + 12))):
        assert lattice_bytes(kind, *shape) - lattice_bytes(kind, *shape, upstream=0) == last_line
    assert lattice_bytes("rnnt", *shape, masked=True) == lattice_bytes("rnnt", *shape, upstream=0)


@computed(kind="bytes counted in the interpreter")
def memory_of(overwrite, B, T, U, V, b):
    """Bytes that an RNN-T loss makes in forward, keeps for backward, and has in backward, beside its arguments."""
    leaf, integers = problem("rnnt", B, T, U, V, b)
    logits = leaf * 1.0
    given, saved = {each.data_ptr() for each in (logits, *integers)}, []

    def keep(tensor):
        saved.append(tensor.nbytes if tensor.data_ptr() not in given else 0)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), Passes(1) as forward:
        loss = rnnt_loss(logits, *integers, backend="triton", reduction="sum", overwrite_logits=overwrite)
    with Passes(1) as backward:
        torch.autograd.grad(loss, logits)
    return [forward.allocated, sum(saved), sum(saved) + backward.allocated]


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-forward")
def test_forward():
    """What the forward pass allocates, against the shapes."""
    def rhs(total, B, T, U, c):
        return (6 * c + 8) * B * (T + U) * (U + 1) + (8 + c) * B

    check_equation("eq-floor-forward", first, rhs, (
        (memory_of(False, B, T, U, V, b)[0], B, T, U, max(b, 4)) for B, T, U, V, b in SHAPES + LONG_TARGETS))


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-saved")
def test_saved():
    """The sizes of the tensors that autograd is given to keep, against their shapes."""
    def rhs(total, B, T, U, c):
        return 4 * c * B * (T + U) * (U + 1) + 8 * B

    check_equation("eq-floor-saved", first, rhs, (
        (memory_of(False, B, T, U, V, b)[1], B, T, U, max(b, 4)) for B, T, U, V, b in SHAPES + LONG_TARGETS))


@needs_triton
@interpreted
@pytest.mark.equation("eq-floor-memory")
def test_memory():
    """What is kept and what backward allocates, against shapes; o is 1 if the logits are overwritten."""
    def rhs(total, N, o, B, T, U, c):
        return (1 - o) * N + 6 * c * B * (T + U) * (U + 1) + 8 * B

    check_equation("eq-floor-memory", first, rhs, (
        (memory_of(bool(o), B, T, U, V, b)[2], b * B * T * (U + 1) * V, o, B, T, U, max(b, 4))
        for B, T, U, V, b in SHAPES + LONG_TARGETS for o in (0, 1)))


@pytest.mark.equation("eq-floor-rate")
def test_rate():
    """Operations divided by the least time, against the lower of two limits, in fractions."""
    def lhs(F, tau, P, W, I):
        return F / tau

    def rhs(F, tau, P, W, I):
        return min(P, I * W)

    cases = ((6, 24, 50, 3), (600, 24, 50, 3), (100, 6, 50, 3), (7, 3, 5, 11), (12, 4, 6, 2))
    check_equation("eq-floor-rate", lhs, rhs, (
        (F, max(F / P, M / W), P, W, F / M) for F, M, P, W in (map(Fraction, case) for case in cases)),
        algebraic={"no source": "a quotient of two limits, rewritten"})
