"""The Triton kernels: what shapes, types and layouts do to them, their bits, and what the compiler makes of them.

That they compute the losses, and mean the same at every edge, is tested where all implementations are. Without CUDA the
kernels run in Triton's interpreter.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from implementations import (
    EXPLICIT,
    INTERPRETED,
    TORCH,
    TRITON_DEVICE,
    assert_gradients,
    assert_losses,
    every_kind,
    needs_cuda,
    pad,
    random_scores,
)

from reference_impl import log_softmax
from reference_impl.measuring.number_types import ctc_posteriors, rnnt_posteriors
from reference_impl.torch_impl import losses

triton = pytest.importorskip("triton", reason="triton is not installed")
tl = pytest.importorskip("triton.language")
add_within_segment = pytest.importorskip("reference_impl.torch_impl.triton_vocabulary").add_within_segment
ROOT = Path(__file__).parent.parent


def both(kind, scores, targets, T_of, U_of, **options):
    """Losses and gradient by tensor operations and by the kernels, for an upstream gradient of 1, 2, 3, ..."""
    results = []
    for backend, device in (("torch", "cpu"), ("triton", TRITON_DEVICE)):
        logits = scores.detach().to(device).requires_grad_()
        losses = TORCH[kind](logits, *(torch.as_tensor(a, device=device) for a in (targets, T_of, U_of)),
                             reduction="none", backend=backend, **options)
        losses.backward(torch.arange(1, len(scores) + 1).to(losses))
        results.append((losses.detach().cpu(), logits.grad.cpu()))
    return results


def assert_same(results, tolerance):
    (losses, gradient), (kernel_losses, kernel_gradient) = results
    torch.testing.assert_close(kernel_losses, losses, rtol=tolerance, atol=tolerance)
    assert kernel_gradient.dtype == gradient.dtype
    torch.testing.assert_close(kernel_gradient, gradient, rtol=tolerance, atol=tolerance)


def ragged(kind, V, dtype, T=4, U=3, seed=0):
    """Two utterances, the second shorter both ways."""
    generator = torch.Generator().manual_seed(seed)
    shape = (2, T, V) if kind == "ctc" else (2, T, U + 1, V)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return scores, torch.randint(1, max(V, 2), (2, U), generator=generator), [T, T - 1], [U, U - 1]


@pytest.mark.parametrize("V", [3, 129, 1025, *(pytest.param(V, marks=pytest.mark.slow)
                                               for V in (2, 16, 127, 128, 4096, 4099))], ids=lambda V: f"V={V}")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@every_kind
def test_vocabularies(kind, dtype, V):
    """Rows that are aligned or not, shorter or longer than a program takes at a time.

    Both sides compute with the same numbers; the results differ by roundings of the type they come in.
    """
    if V > 1025 and dtype != torch.float32:
        T, U = 2, 1
    else:
        T, U = 4, 3
    # an addition to the mass of a row of V float32 exponentials may round off up to V times 6e-8, log V times is usual
    tolerance = {torch.bfloat16: 2**-6, torch.float32: 2e-6, torch.float64: 1e-12}[dtype]
    assert_same(both(kind, *ragged(kind, V, dtype, T, U)), tolerance)


@every_kind
def test_vocabulary_of_several_tiles(kind):
    """A program takes 2048 symbols of float64 at a time."""
    assert_same(both(kind, *ragged(kind, 2051, torch.float64, 2, 1)), 1e-12)


@pytest.mark.parametrize("U", [0, 1, 32, *(pytest.param(U, marks=pytest.mark.slow) for U in (31, 65)),
                               pytest.param(100, marks=pytest.mark.exhaustive)])
@every_kind
def test_targets(kind, U):
    """One lane, a full block of lanes and one more, several warps; repeats, since there are two labels only."""
    T = 3 if kind == "rnnt" else 2 * U + 2
    generator = torch.Generator().manual_seed(U)
    scores, _, T_of, _ = ragged(kind, 3, torch.float64, T, U)
    targets = torch.randint(1, 3, (2, U), generator=generator)
    assert_same(both(kind, scores, targets, T_of, [U, U // 2]), 1e-11)


@every_kind
def test_many_equal_labels(kind):
    """All occurrences of a label add up in one entry, in CTC by a segmented scan."""
    scores, _, T_of, _ = ragged(kind, 4, torch.float64, 12, 5)
    targets = torch.tensor([[3, 1, 3, 3, 1], [2, 2, 2, 2, 2]])
    assert_same(both(kind, scores, targets, T_of, [5, 4]), 1e-12)


@every_kind
def test_sliced_logits(kind):
    """A view that begins at an odd element of a larger tensor, with strides of its own."""
    V = 131
    scores, *rest = ragged(kind, V + 2, torch.float32)
    view = scores[..., 1:-1]
    rest[0] = rest[0].clamp(max=V - 1)
    assert_same(both(kind, view, *rest), 2e-6)
    logits = scores.detach().to(TRITON_DEVICE).requires_grad_()
    arguments = [torch.as_tensor(a, device=TRITON_DEVICE) for a in rest]
    TORCH[kind](logits[..., 1:-1], *arguments, backend="triton", reduction="sum").backward()
    dense = view.contiguous().to(TRITON_DEVICE).requires_grad_()
    TORCH[kind](dense, *arguments, backend="triton", reduction="sum").backward()
    torch.testing.assert_close(logits.grad[..., 1:-1], dense.grad, rtol=0, atol=1e-6)
    assert (logits.grad[..., [0, -1]] == 0).all()


@pytest.mark.parametrize("value, tolerance", [(-1e4, 1e-10), (-1e9, 1e-6), (-3e38, 1.0)])
@every_kind
def test_hardly_possible(kind, value, tolerance):
    """An entry that every path needs, thousands or billions of nats down: a factor of each path, and no mask.

    Below e^-200 it makes no difference to the gradient how small it is, but for what float64 cannot hold: neighbours of
    1e9 are 1e-7 apart. A weight's exponent is an int32, so none counts as below e^-1488522236.
    """
    scores, targets, T_of, U_of = ragged(kind, 5, torch.float64)
    targets[0] = torch.tensor([1, 2, 3])
    scores[0, ..., 1] = -200
    (losses, gradient), _ = both(kind, scores, targets, T_of, U_of)
    scores[0, ..., 1] = value
    _, (kernel_losses, kernel_gradient) = both(kind, scores, targets, T_of, U_of)
    torch.testing.assert_close(kernel_gradient, gradient, rtol=0, atol=tolerance)
    assert kernel_losses[0].item() == pytest.approx(min(losses[0].item() - 200 - value, 1488522236), rel=1e-6)


def test_a_mask_has_no_exponent():
    """A masked arc from a node of mass 1 must not drown the arc beside it, 200 nats down: beyond float32's range."""
    scores = torch.full((1, 2, 2, 2), -torch.inf)
    scores[0, 0, 0] = torch.tensor([-200.0, 0.0])  # to (1, 0), and to (0, 1), where blanks are masked
    scores[0, 1, 0, 1] = scores[0, 1, 1, 0] = 0.0
    results = both("rnnt", scores, [[1]], [2], [1], inputs="log_probs")
    assert_same(results, 1e-6)
    assert results[1][0].item() == 200


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@every_kind
def test_the_same_bits_twice(kind, dtype):
    scores, *rest = ragged(kind, 37, dtype, 9, 4)
    rest[0][:] = 5  # one entry to which all labels of a frame add
    first, second = (both(kind, scores, *rest)[1] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@triton.jit
def groupings(values, firsts, out, out_first):
    """Three elements of a segmented sum, taken together from the left and from the right."""
    i = tl.arange(0, 64)
    a, b, c = tl.load(values + i), tl.load(values + 64 + i), tl.load(values + 128 + i)
    p, q, r = tl.load(firsts + i), tl.load(firsts + 64 + i), tl.load(firsts + 128 + i)
    ab, pq = add_within_segment(a, p, b, q)
    bc, qr = add_within_segment(b, q, c, r)
    left, left_first = add_within_segment(ab, pq, c, r)
    right, right_first = add_within_segment(a, p, bc, qr)
    tl.store(out + i, left)
    tl.store(out + 64 + i, right)
    tl.store(out_first + i, left_first)
    tl.store(out_first + 64 + i, right_first)


def test_segmented_sum_is_associative():
    """A GPU groups a scan as it likes; the interpreter goes from left to right, and would not notice."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(1, 100, (3, 64), generator=generator).double().to(TRITON_DEVICE)
    firsts = torch.randint(0, 2, (3, 64), generator=generator, dtype=torch.int32).to(TRITON_DEVICE)
    out, out_first = values.new_zeros(2, 64), firsts.new_zeros(2, 64)
    groupings[(1,)](values, firsts, out, out_first)
    assert torch.equal(out[0], out[1])
    assert torch.equal(out_first[0], out_first[1])
    assert 0 < out_first[0].sum() < 64


def test_entries_that_are_not_read():
    """A NaN among log-probs that no path uses is nobody's business: blanks of the last frame below the last row."""
    scores, *rest = ragged("rnnt", 4, torch.float64)
    scores[0, -1, :-1, 0] = float("nan")
    results = both("rnnt", scores, *rest, inputs="log_probs")
    assert results[1][0].isfinite().all()
    assert_same(results, 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rnnt_arithmetic_bit_by_bit(dtype):
    """The sweeps of the kernels are those of `number_types`, bit for bit in the interpreter.

    Compiled, a multiplication and an addition may be one operation, and exp2 is the hardware's.
    """
    rng = np.random.default_rng(0)
    T, U, V = 20, 9, 4
    log_probs = (4 * rng.standard_normal((T, U + 1, V))).astype(dtype)
    targets = rng.integers(1, V, U)
    label = np.full((T, U + 1), -np.inf, dtype)
    label[:, :U] = log_probs[:, np.arange(U), targets]
    log_z, e_blank, e_label = rnnt_posteriors(log_probs[:, :, 0], label, dtype=dtype)
    losses, gradient = gradient_by_kernels("rnnt", log_probs, targets)
    expected = np.zeros_like(log_probs)
    expected[:, :, 0] -= e_blank
    for u in range(U):
        expected[:, u, targets[u]] -= e_label[:, u]
    assert_as_computed(gradient, expected, dtype)
    assert losses == pytest.approx(-log_z, rel=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ctc_arithmetic_bit_by_bit(dtype):
    """As above; labels that differ, so that no occupancies add up."""
    rng = np.random.default_rng(0)
    T, V = 30, 8
    log_probs = (4 * rng.standard_normal((T, V))).astype(dtype)
    targets = np.array([3, 1, 7, 2, 6])
    log_z, blanks, labels = ctc_posteriors(log_probs, targets, dtype=dtype)
    losses, gradient = gradient_by_kernels("ctc", log_probs, targets)
    assert_as_computed(gradient[:, targets], -labels, dtype)
    assert_gradients(gradient[:, 0], -blanks.sum(1), 4 * np.finfo(dtype).eps)  # the order of that sum is free
    assert losses == pytest.approx(-log_z, rel=1e-6 if dtype == np.float32 else 1e-14)


def gradient_by_kernels(kind, log_probs, targets):
    scores = torch.tensor(log_probs[None], device=TRITON_DEVICE, requires_grad=True)
    lengths = torch.tensor([len(log_probs)]), torch.tensor([len(targets)])
    loss = TORCH[kind](scores, torch.tensor(targets[None]), *lengths, inputs="log_probs", backend="triton")
    loss.backward()
    return loss.item(), scores.grad[0].cpu().numpy()


def assert_as_computed(actual, expected, dtype):
    if INTERPRETED:
        np.testing.assert_array_equal(actual, expected)
    else:
        assert_gradients(actual, expected, 100 * np.finfo(dtype).eps)


@pytest.mark.slow
@pytest.mark.parametrize("kind, T, U", [("rnnt", 60, 20), ("ctc", 120, 20)])
def test_float32_is_as_good_as_its_softmax(kind, T, U):
    """The lattice in float32 adds no more than the float32 softmax: 1e-6 in all, and logarithms would be off by 1e-5.

    Against the explicit recursions in float64 on the same numbers, at a size the interpreter can bear.
    """
    rng = np.random.default_rng(0)
    scores = (0.1 * random_scores(rng, kind, T, U, 200)).astype(np.float32)
    targets = rng.integers(1, 200, U)
    batch = pad([(scores, targets)])
    logits = torch.tensor(batch.scores, dtype=torch.float32, device=TRITON_DEVICE, requires_grad=True)
    loss = TORCH[kind](logits, *(torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)),
                       backend="triton")
    loss.backward()
    assert_losses(loss.item(), EXPLICIT[kind].loss(log_softmax(scores), targets), 1e-6)
    assert_gradients(logits.grad[0].cpu().numpy(), EXPLICIT[kind].grad_logits(scores, targets), 1e-6)


def without_the_interpreter(code):
    """What a piece of Python prints in a process where kernels are compiled, with `compile_kernels` at hand."""
    script = f"import json, sys; sys.path.insert(0, 'benchmarks'); import compile_kernels\n{code}"
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_every_variant_compiles():
    """Log-probs, FastEmit and a clamp, one frame's worth of labels or none: what the interpreter runs, a GPU can."""
    printed = without_the_interpreter("""
import torch
names = []
for case in [("rnnt", "fp16", 5, 30, False), ("rnnt", "fp64", 5, 30, True, (0.01, 0.5), torch.int32),
             ("rnnt", "bf16", 0, 7), ("ctc", "fp64", 5, 30, False), ("ctc", "fp16", 0, 7, True, None, torch.int32)]:
    for launch in compile_kernels.launches(*case):
        compile_kernels.compiled(*launch)
        names.append(launch[0].__name__)
print(json.dumps(names))""")
    kernels = ["rnnt_rows", "rnnt_forward", "rnnt_backward", "rnnt_gradient"]
    assert json.loads(printed) == 3 * kernels + 2 * [name.replace("rnnt", "ctc") for name in kernels]


def test_compiled_for_a_gpu():
    """For sm_90 on any machine: no spilled registers at ordinary sizes, 16 bytes an access though V is odd."""
    rows = json.loads(without_the_interpreter("""
cases = [("rnnt", "bf16", 100, 1025), ("ctc", "fp32", 150, 1024)]
print(json.dumps(list(compile_kernels.rows(cases))))"""))
    assert len(rows) == 8
    for row in rows:
        assert row["stack_bytes"] == 0, row
        if row["kernel"].endswith(("rows", "gradient")):
            assert row["loads"]["16"] > 0, row
        else:
            assert row["prefetches"] and row["shared_bytes"] > 0, row
        if row["kernel"].endswith("gradient"):
            assert row["stores"]["16"] > 0, row


def test_an_older_triton(monkeypatch):
    """Triton has a gather since 3.3, which torch 2.7 brings; with an older one "auto" takes tensor operations."""
    monkeypatch.setattr(losses, "_interprets_triton", lambda: False)
    assert losses._auto("cuda") == "triton"
    monkeypatch.delattr(triton.language, "gather")
    assert losses._auto("cuda") == "torch"
    with pytest.raises(ValueError, match="backend = 'triton'; expected 'auto' or 'torch', for triton >= 3.3 is not"):
        losses.ctc_loss(torch.zeros(1, 2, 2), *(torch.tensor(each) for each in ([[1]], [2], [1])), backend="triton")


@every_kind
def test_launches_are_on_the_device_of_the_logits(kind, monkeypatch):
    """All of both passes. Kernels and torch's guard are stand-ins that say what was launched where; "meta" is there."""
    from reference_impl.torch_impl import triton_backend, triton_lattice, triton_vocabulary

    current, launched = [None], []

    @contextmanager
    def device_of(tensor):
        current.append(tensor.device)
        yield
        current.pop()

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            return lambda *args, **options: launched.append((self.name, current[-1]))

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    for module in (triton_vocabulary, triton_lattice):
        for name in module.__all__:
            monkeypatch.setattr(module, name, Kernel(name))
    scores, targets, *lengths = ragged(kind, 5, torch.float32)
    integers = (torch.as_tensor(a, device="meta") for a in (targets, *lengths))
    function, options = {"ctc": (triton_backend.CTC, ()), "rnnt": (triton_backend.RNNT, (0.0, None))}[kind]
    losses = function.apply(scores.to("meta").requires_grad_(), *integers, 0, True, False, *options)
    losses.sum().backward()
    names = [f"{kind}_{name}" for name in ("rows", "forward", "backward", "gradient")]
    assert launched == [(name, torch.device("meta")) for name in names]


@needs_cuda
@every_kind
def test_another_device_than_the_current_one(kind):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    scores, *rest = ragged(kind, 65, torch.float32)
    results = []
    for device in ("cuda:0", "cuda:1"):
        logits = scores.to(device).requires_grad_()
        with torch.cuda.device(0):
            losses = TORCH[kind](logits, *(torch.as_tensor(a, device=device) for a in rest), reduction="none")
            gradient, = torch.autograd.grad(losses.sum(), logits)
        assert losses.device == gradient.device == torch.device(device)
        results.append((losses.cpu(), gradient.cpu()))
    assert_same(results, 0.0)


@needs_cuda
@every_kind
def test_captured_in_a_graph(kind):
    """Nothing waits for the host; a replay computes on whatever the logits hold then."""
    scores, *rest = ragged(kind, 65, torch.float32)
    rest = [torch.as_tensor(a, device="cuda") for a in rest]
    logits = scores.cuda().requires_grad_()

    def step():
        loss = TORCH[kind](logits, *rest, backend="triton")
        return loss, *torch.autograd.grad(loss, logits)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        logits.copy_(scores.flip(0).cuda())
    graph.replay()
    for ours, theirs in zip(captured, step(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@needs_cuda
@pytest.mark.slow
def test_more_than_2_to_the_31_elements():
    """The last of 17 utterances lies beyond element 2^31: the same as by itself."""
    B, T, U, V = 17, 400, 200, 1600
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    logits = torch.randn(B, T, U + 1, V, device="cuda", dtype=torch.bfloat16)
    assert logits.numel() > 2**31
    targets = torch.randint(1, V, (B, U), device="cuda")
    lengths = torch.full((B,), T, device="cuda"), torch.full((B,), U, device="cuda")
    last = logits[-1:].clone().requires_grad_()
    logits.requires_grad_()
    losses = TORCH["rnnt"](logits, targets, *lengths, reduction="none", backend="triton")
    losses.sum().backward()
    alone = TORCH["rnnt"](last, targets[-1:], *(a[-1:] for a in lengths), reduction="none", backend="triton")
    alone.sum().backward()
    assert torch.equal(losses[-1:], alone)
    assert torch.equal(logits.grad[-1:], last.grad)
