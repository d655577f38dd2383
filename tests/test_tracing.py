"""The torch losses under tracers: torch.compile, torch.export, make_fx and fake tensors, which have shapes, no values.

What a tracer wrote down computes the losses and gradients of eager mode, bit by bit where no compiler changes the
arithmetic around them, and for other sizes than those it was traced with.
"""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from implementations import KINDS, TORCH, every_kind, needs_cuda, needs_triton, pad, random_scores
from test_never_below_zero import as_computed, near_certain
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from reference_impl.torch_impl import (
    CTCLoss,
    RNNTLoss,
    arc_rnnt_loss,
    losses,
    monotonic_rnnt_loss,
    multi_blank_rnnt_loss,
    numpy_ops,
    pruned_rnnt_loss,
    tdt_loss,
    tensor_ops,
)

SOURCES = Path(__file__).parent.parent / "src"
V, H = 7, 2  # no two sizes are the same, or a tracer would take them for one
INF, NAN = float("inf"), float("nan")
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=[
    pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler")])]


@pytest.fixture(autouse=True)
def compiled_anew():
    yield
    torch._dynamo.reset()


def integers(B=3, T=6, U=4, device="cpu"):
    """Targets with repeats, and lengths that fall from utterance to utterance."""
    generator = torch.Generator().manual_seed(0)
    frames, labels = (length - torch.arange(B).clamp(max=length - least) for length, least in ((T, 1), (U, 0)))
    return [a.to(device) for a in (torch.randint(1, 3, (B, U), generator=generator), frames, labels)]


def vectors(kind, B=3, T=6, U=4, V=V, device="cpu"):
    """Of a frame, of a prefix and of a symbol: what a small joiner makes logits of. CTC has no prefixes."""
    generator = torch.Generator().manual_seed(1)
    shapes = (B, T, H), *[(B, U + 1, H)] * (kind != "ctc"), (H, V)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(device).requires_grad_()
            for shape in shapes]


def joined(frames, *others):
    *prefixes, symbols = others
    hidden = frames[:, :, None] + prefixes[0][:, None] if prefixes else frames
    return torch.tanh(hidden) @ symbols * 4


def by_arcs(logits, targets, *lengths, **options):
    return arc_rnnt_loss(logits[..., 0], logits[:, :, :-1, 1], *lengths, **options)


def by_band(logits, targets, *lengths, **options):
    """Of the lower rows of the grid in the first frames, and then of the upper ones."""
    Q = targets.shape[1]
    first = (torch.arange(logits.shape[1]) >= 2).long().expand(logits.shape[0], -1)
    rows = (first[..., None] + torch.arange(Q))[..., None].expand(-1, -1, -1, logits.shape[-1])
    return pruned_rnnt_loss(logits.gather(2, rows), first, targets, *lengths, **options)


def by_durations(logits, *rest, **options):
    return tdt_loss(logits, logits[..., 1:4], *rest, durations=[0, 1, 3], sigma=0.1, **options)


LOSSES = {**{kind: TORCH[kind] for kind in KINDS}, "arcs": by_arcs, "pruned": by_band, "durations": by_durations,
          "monotonic": monotonic_rnnt_loss,
          "multi-blank": partial(multi_blank_rnnt_loss, big_blanks={3: 2, 4: 3}, sigma=0.05)}
every_loss = pytest.mark.parametrize("kind", LOSSES)
ctc_and_rnnt_first = pytest.mark.parametrize(  # the others are slow
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in KINDS)) for kind in LOSSES])


def step_of(kind, **options):
    """A training step up to the loss; vectors and integers are its arguments."""
    def step(inputs, *rest):
        return LOSSES[kind](joined(*inputs), *rest, **options) * 2.0
    return step


def with_gradients(step, inputs, *rest):
    result = step(inputs, *rest)
    return result.detach(), *torch.autograd.grad(result, inputs)


def assert_same(actual, expected, tolerance=0.0):
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert_close(ours, theirs, rtol=0, atol=tolerance, equal_nan=True)


def compiled_like(step, inputs, *rest, backend="aot_eager", tolerance=0.0, **options):
    """The compiled step, after its loss and gradients were found to be those of eager mode."""
    expected = with_gradients(step, inputs, *rest)
    assert all((gradient != 0).any() for gradient in expected[1:])
    compiled = torch.compile(step, backend=backend, fullgraph=True, **options)
    assert_same(with_gradients(compiled, inputs, *rest), expected, tolerance)
    return compiled


class TestCompiled:
    """``fullgraph=True`` raises where a graph breaks."""

    @pytest.mark.parametrize("backend", BACKENDS)
    @every_kind
    def test_training_step(self, kind, backend):
        """A compiler that fuses operations may round otherwise."""
        compiled_like(step_of(kind), vectors(kind), *integers(), backend=backend,
                      tolerance=1e-12 * (backend == "inductor"))

    @pytest.mark.parametrize("kind", [kind for kind in LOSSES if kind not in KINDS])
    def test_relatives(self, kind):
        compiled_like(step_of(kind), vectors(kind), *integers())

    @every_kind
    def test_tensor_operations(self, kind, monkeypatch):
        """What runs on a device that is no CPU, without kernels."""
        monkeypatch.setattr(losses, "_backend", lambda *_: tensor_ops)
        compiled_like(step_of(kind), vectors(kind), *integers())

    @needs_triton
    @every_kind
    def test_kernels(self, kind):
        small = {"B": 2, "T": 3, "U": 1}
        compiled_like(step_of(kind, backend="triton"), vectors(kind, **small), *integers(**small))

    @needs_cuda
    @every_kind
    def test_on_cuda(self, kind):
        compiled_like(step_of(kind), vectors(kind, device="cuda"), *integers(device="cuda"), backend="inductor",
                      tolerance=1e-12)

    @pytest.mark.parametrize("options", [{"fastemit_lambda": 0.5}, {"clamp": 0.1},
                                         {"fastemit_lambda": 0.5, "clamp": 0.1}], ids=str)
    @pytest.mark.parametrize("module", [numpy_ops, tensor_ops], ids=["NumPy views", "tensor operations"])
    def test_fields(self, options, module, monkeypatch):
        """Eager mode has other functions for each of the two."""
        monkeypatch.setattr(losses, "_backend", lambda *_: module)
        compiled_like(step_of("rnnt", **options), vectors("rnnt"), *integers())

    @every_kind
    def test_modules(self, kind):
        module = {"ctc": CTCLoss, "rnnt": RNNTLoss}[kind](reduction="sum", zero_infinity=True)
        compiled_like(lambda inputs, *rest: module(joined(*inputs), *rest), vectors(kind), *integers())

    @ctc_and_rnnt_first
    def test_other_sizes(self, kind):
        """One graph for any number of utterances, frames, labels and symbols; a second one is an error here."""
        step = step_of(kind)
        compiled = compiled_like(step, vectors(kind), *integers(), dynamic=True)
        others = vectors(kind, 4, 9, 2, 11), *integers(4, 9, 2)
        with torch._dynamo.config.patch(error_on_recompile=True):
            assert_same(with_gradients(compiled, *others), with_gradients(step, *others))

    @every_kind
    def test_autocast(self, kind):
        """A network in bfloat16; its logits are taken as they are."""
        def step(inputs, *rest):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = joined(*inputs)
                assert logits.dtype == torch.bfloat16
                return TORCH[kind](logits, *rest)

        inputs = [each.detach().float().requires_grad_() for each in vectors(kind)]
        compiled_like(step, inputs, *integers())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    @every_kind
    def test_edges(self, kind, dtype):
        """No alignment, NaN, a label that nobody could check, padding of NaN, and anything from upstream."""
        rng = np.random.default_rng(0)
        utterances = [(random_scores(rng, kind, T, len(targets), V), targets)
                      for T, targets in [(5, [1, 1, 2]), (3, [3]), (4, [2, 1]), (4, []), (5, [4, 1])] * 2]
        for b in (1, 6):
            utterances[b][0][:] = -INF
        for b in (2, 7):
            utterances[b][0][1] = NAN
        batch = pad(utterances)
        batch.targets[4, 0] = V
        rest = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
        upstream = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, INF, INF, 0.0, NAN, 1e9])

        def gradient(function):
            scores = torch.tensor(batch.scores).to(dtype).requires_grad_()
            found = function(scores)
            return found.detach(), torch.autograd.grad(found, scores, upstream.to(found))[0]

        def function(scores, validate="auto"):
            return TORCH[kind](scores, *rest, reduction="none", validate=validate)

        found = gradient(torch.compile(function, backend="aot_eager", fullgraph=True))
        assert_same(found, gradient(partial(function, validate=False)))
        assert found[0].isnan().nonzero().flatten().tolist() == [2, 4, 7]
        assert found[0].isposinf().nonzero().flatten().tolist() == [1, 6]

    @every_kind
    def test_never_below_zero(self, kind):
        """The value alone is cut off at 0: the gradient is that of the loss, rounding and all."""
        batch = near_certain(kind, 64)
        rest = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
        inputs = [torch.tensor(np.nan_to_num(batch.scores)).requires_grad_()]

        def step(inputs):
            return TORCH[kind](inputs[0], *rest, reduction="none").cumsum(0)[-1]

        with as_computed():
            computed = TORCH[kind](inputs[0], *rest, reduction="none")
        assert (computed < 0).any()
        compiled_like(step, inputs)
        found = torch.compile(lambda x: TORCH[kind](x, *rest, reduction="none"), backend="aot_eager")(inputs[0])
        assert_same([found], [computed.clamp(min=0.0)])

    @every_kind
    @pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # by Dynamo
    @pytest.mark.parametrize("transform", ["grad", "vmap", "jvp"])
    def test_transforms_of_torch_func(self, kind, transform):
        """They break the graph, and eager mode computes them; an operator's tangent, say, would be 0 without a word."""
        logits, rest = joined(*vectors(kind)).detach(), integers()

        def loss(logits):
            return TORCH[kind](logits, *rest)

        def transformed(logits):
            return {"grad": lambda: torch.func.grad(loss)(logits), "vmap": lambda: torch.func.vmap(loss)(logits[None]),
                    "jvp": lambda: torch.func.jvp(loss, (logits,), (logits,))[1]}[transform]()

        with pytest.raises(RuntimeError, match="torch.func and forward mode differentiate a loss in eager mode only"):
            torch.compile(transformed, backend="aot_eager", fullgraph=True)(logits)
        torch._dynamo.reset()
        found, expected = torch.compile(transformed, backend="aot_eager")(logits), transformed(logits)
        assert (expected != 0).any()
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


class TestOptions:
    @ctc_and_rnnt_first
    def test_validate(self, kind):
        """True looks at the values that a graph is run with, and names a bad one; "auto" leaves it a NaN."""
        inputs, (targets, frames, labels) = vectors(kind), integers()
        bad = frames + torch.tensor([0, 9, 0])  # 5 and 9
        compiled = compiled_like(step_of(kind, validate=True), inputs, targets, frames, labels)
        with pytest.raises(ValueError, match=r"^logit_lengths\[1\] = 14; expected [01] <= length <= T = 6$"):
            compiled(inputs, targets, bad, labels)
        unchecked = torch.compile(step_of(kind, reduction="none"), backend="aot_eager", fullgraph=True)
        assert unchecked(inputs, targets, bad, labels).isnan().tolist() == [False, True, False]

    def test_validate_the_band(self):
        logits, first = torch.randn(2, 4, 2, V), torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
        rest = torch.tensor([[1, 2], [3, 1]]), torch.tensor([4, 4]), torch.tensor([2, 2])
        compiled = torch.compile(partial(pruned_rnnt_loss, validate=True), backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(logits, first, *rest), pruned_rnnt_loss(logits, first, *rest))
        with pytest.raises(ValueError, match=r"^first_rows\[0, 0\] = 2; expected 0 <= row <= U \+ 1 - Q = 1$"):
            compiled(logits, first + 2, *rest)

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    @every_kind
    def test_overwrite_logits(self, kind, backend):
        """The gradient has memory of its own, and whoever else needs the logits finds them as they were."""
        inputs, rest = vectors(kind), integers()

        def step(inputs, *rest, **options):
            logits = joined(*inputs)
            return TORCH[kind](logits, *rest, **options) + torch.exp(logits).mean(), logits

        compiled = torch.compile(partial(step, overwrite_logits=True), backend=backend, fullgraph=True)
        loss, logits = compiled(inputs, *rest)
        gradients = torch.autograd.grad(loss, inputs)
        assert_same(gradients, torch.autograd.grad(step(inputs, *rest)[0], inputs))
        assert torch.equal(logits, joined(*inputs))

    @every_kind
    def test_overwrite_logits_of_a_leaf(self, kind):
        """Nothing is overwritten, so that a leaf is no mistake, and sizes stay free."""
        leaf, rest = joined(*vectors(kind)).detach().requires_grad_(), integers()
        compiled = torch.compile(partial(TORCH[kind], overwrite_logits=True), backend="eager", fullgraph=True)
        expected = TORCH[kind](leaf, *rest)
        loss = compiled(leaf, *rest)
        assert_same([loss, *torch.autograd.grad(loss, leaf)], [expected, *torch.autograd.grad(expected, leaf)])

    @every_loss
    def test_no_second_derivative(self, kind):
        """It says so, instead of being silently wrong; compilers refuse by themselves."""
        inputs = vectors(kind)
        loss = torch.compile(step_of(kind), backend="eager", fullgraph=True)(inputs, *integers())
        gradient = torch.autograd.grad(loss, inputs, create_graph=True)[0]
        with pytest.raises(RuntimeError, match="the second derivative of a traced loss was asked for; expected eager"):
            gradient.sum().backward()


class Trained(torch.nn.Module):
    """A module to be exported."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.symbols = kind, torch.nn.Parameter(vectors(kind)[-1].detach())

    def forward(self, vectors, targets, frames, labels):
        return LOSSES[self.kind](joined(*vectors, self.symbols), targets, frames, labels, zero_infinity=True)


class TestExported:
    @pytest.mark.parametrize("strict", [True, pytest.param(False, marks=pytest.mark.slow)])
    @ctc_and_rnnt_first
    def test_other_sizes(self, kind, strict):
        """Batch, frames and labels are free."""
        B, T, U = Dim("B", min=1), Dim("T", min=1), Dim("U")
        module, (*inputs, _) = Trained(kind), vectors(kind)
        sizes = [{0: B, 1: T}, *[{0: B, 1: U + 1}] * (kind != "ctc")], {0: B, 1: U}, {0: B}, {0: B}
        program = torch.export.export(module, (inputs, *integers()), dynamic_shapes=sizes, strict=strict).module()
        for shape in ((3, 6, 4), (4, 9, 2), (1, 5, 2)):
            *others, _ = vectors(kind, *shape)
            results = [each(others, *integers(*shape)) for each in (program, module)]
            assert torch.equal(*results) and results[0] != 0
            assert_same(*(torch.autograd.grad(each, others) for each in results))

    @every_loss
    def test_a_graph_does_not_grow(self, kind):
        """No loop over frames is unrolled: the nodes are the same, whatever the sizes."""
        module, counts = Trained(kind), []
        for T in (6, 12):
            *inputs, _ = vectors(kind, T=T)
            program = torch.export.export(module, (inputs, *integers(T=T)), strict=False)
            counts.append(len(program.graph.nodes))
            assert any("reference_impl" in str(node.target) for node in program.graph.nodes)
        assert counts[0] == counts[1] < 250


class TestFakes:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
    @every_loss
    def test_shapes_and_types(self, kind, dtype):
        """Of losses and gradients, and no value is asked for."""
        rest = integers()
        logits = joined(*vectors(kind)).detach().to(dtype)
        with FakeTensorMode() as mode:
            scores, *fakes = (mode.from_tensor(each) for each in (logits, *rest))
            scores.requires_grad_()
            found = LOSSES[kind](scores, *fakes, reduction="none")
            gradient, = torch.autograd.grad(found.sum(), scores)
        assert found.shape == (3,) and found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert gradient.shape == scores.shape and gradient.dtype == dtype

    @needs_triton
    @every_kind
    def test_kernels(self, kind, monkeypatch):
        """On a device that is not there; autograd would ask for it."""
        monkeypatch.setattr(losses, "_auto", lambda _: "triton")
        with FakeTensorMode():
            scores = torch.empty(3, 6, *[5] * (kind != "ctc"), V, device="cuda:1")
            rest = [torch.empty(each.shape, dtype=each.dtype, device="cuda:1") for each in integers()]
            assert LOSSES[kind](scores, *rest).device == torch.device("cuda:1")


@every_loss
def test_make_fx(kind):
    """Traced with tensors that have values, no value gets into the graph."""
    rest = integers()
    logits, others = (joined(*vectors(kind)).detach() * sign for sign in (1, -1))
    graph = make_fx(lambda logits: LOSSES[kind](logits, *rest))(logits)
    assert torch.equal(graph(others), LOSSES[kind](others, *rest))
    assert not torch.equal(graph(others), graph(logits))


@every_loss
def test_eager_mode_has_no_operators(kind):
    """They take time, and keep no memory from the forward pass to the backward pass."""
    class Seen(TorchDispatchMode):
        names = set()

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            self.names.add(operation.namespace)
            return operation(*args, **kwargs or {})

    with Seen() as seen:
        with_gradients(step_of(kind), vectors(kind), *integers())
    assert seen.names == {"aten"}


@pytest.mark.slow
def test_the_package_needs_no_compiler():
    """Importing torch's takes seconds."""
    code = "import sys; import reference_impl.torch_impl; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(SOURCES)})
    assert done.stdout.strip() == "False"
