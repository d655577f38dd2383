"""The drop-in losses against the libraries: torch's own CTC called here, torchaudio's and numba's RNN-T as recorded.

``benchmarks/drop_in_peers.py`` made the record. Where a library is right the numbers are the same; every difference
that a docstring lists is looked for here, in the library as well.
"""

import inspect
import itertools
import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from enumeration import loss_and_occupancy

from reference_impl.torch_impl.drop_in import numba_rnnt, torch_ctc, torchaudio_rnnt

RECORD = json.loads((Path(__file__).parent.parent / "data" / "drop_in_peers.json").read_text(encoding="utf-8"))
MODULES = {"torchaudio": torchaudio_rnnt, "warprnnt_numba": numba_rnnt}
LIBRARY = torch.nn.functional.ctc_loss
LENGTHS = {"tuple": tuple, "list": list, "int32": lambda each: torch.tensor(each, dtype=torch.int32),
           "int64": torch.tensor, "uint8": lambda each: torch.tensor(each, dtype=torch.uint8)}
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
#: Of a float32 lattice of five nodes in a row, and of rounding at the end alone.
TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-12}


def parameters(function):
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()
            if each.name != "self"]


class TestSignatures:
    def test_torch(self):
        assert parameters(torch_ctc.ctc_loss) == parameters(LIBRARY)
        assert parameters(torch_ctc.CTCLoss) == parameters(torch.nn.CTCLoss)
        assert parameters(torch_ctc.CTCLoss.forward) == parameters(torch.nn.CTCLoss.forward)

    @pytest.mark.parametrize("library", MODULES)
    def test_recorded(self, library):
        module, recorded = MODULES[library], RECORD["signatures"][library]
        name = {"torchaudio": "RNNTLoss", "warprnnt_numba": "RNNTLossNumba"}[library]
        for what, function in (("function", module.rnnt_loss), ("class", getattr(module, name)),
                               ("forward", getattr(module, name).forward)):
            assert [[name, None if default is inspect.Parameter.empty else [default]]
                    for name, kind, default in parameters(function)] == recorded[what]
            assert {kind for _, kind, _ in parameters(function)} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


# --- CTC, against torch ---

T, C = 5, 4
WORDS = [[1, 2], [3, 3], [], [2]]
FRAMES = [5, 4, 3, 1]


def ctc_calls():
    """(log-probs' shape, targets, lengths) of every layout that torch takes."""
    padded = [[*word, *[9] * (3 - len(word))] for word in WORDS]
    yield "padded", (T, len(WORDS), C), torch.tensor(padded), FRAMES, list(map(len, WORDS))
    joined = list(itertools.chain(*WORDS))
    yield "concatenated", (T, len(WORDS), C), torch.tensor(joined), FRAMES, list(map(len, WORDS))
    yield "one", (T, C), torch.tensor([3, 3]), [4], [2]
    yield "one, in a row", (T, C), torch.tensor([[3, 3, 9]]), [4], [2]
    yield "one, empty", (T, C), torch.tensor([], dtype=torch.int64), [4], [0]


def assert_as_torch(loss, shape, targets, frames, lengths, dtype, **options):
    """Loss and gradient of logits; the gradient of log-probs differs by exp(log-probs) in the frames in use."""
    torch.manual_seed(len(shape))
    logits = torch.randn(shape, dtype=dtype, requires_grad=True)
    log_probs = logits.log_softmax(-1)
    found = []
    for function in (LIBRARY, loss):
        value = function(log_probs, targets, frames, lengths, **options)
        upstream = torch.arange(1.0, value.numel() + 1, dtype=dtype).reshape(value.shape)
        found.append((value, *torch.autograd.grad(value, (logits, log_probs), upstream, retain_graph=True)))
    (theirs, *gradients), (ours, *own) = found
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype == dtype
    torch.testing.assert_close(ours, theirs, rtol=TOLERANCE[dtype], atol=0)
    torch.testing.assert_close(own[0], gradients[0], rtol=0, atol=TOLERANCE[dtype])
    return gradients[1] - own[1], log_probs, value


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("layout", list(ctc_calls()), ids=lambda each: each[0])
def test_torch_ctc(layout, reduction, zero_infinity):
    _, shape, targets, frames, lengths = layout
    for dtype, kind in itertools.product(TOLERANCE, LENGTHS):
        for blank, symbols in ((0, targets), (2, (targets + 2) % C)):
            assert_as_torch(torch_ctc.ctc_loss, shape, symbols, LENGTHS[kind](frames), LENGTHS[kind](lengths), dtype,
                            blank=blank, reduction=reduction, zero_infinity=zero_infinity)
    for dtype in INTEGERS:
        assert_as_torch(torch_ctc.ctc_loss, shape, targets.to(dtype), torch.tensor(frames, dtype=dtype),
                        torch.tensor(lengths, dtype=dtype), torch.float64, reduction=reduction)
    if len(shape) == 2:
        numbers = torch.tensor(frames[0]), torch.tensor(lengths[0])
        assert_as_torch(torch_ctc.ctc_loss, shape, targets, *numbers, torch.float64, reduction=reduction)


def test_the_gradient_of_the_log_probs():
    """Ours is -occupancy, by enumeration; torch's is that of the logits, and fails gradcheck."""
    _, shape, targets, frames, lengths = next(ctc_calls())
    apart, log_probs, _ = assert_as_torch(torch_ctc.ctc_loss, shape, targets, frames, lengths, torch.float64,
                                          reduction="sum")
    used = torch.arange(T)[:, None] < torch.tensor(frames)
    torch.testing.assert_close(apart, log_probs.detach().exp() * used[..., None], rtol=0, atol=1e-12)
    scores = log_probs.detach().requires_grad_()
    gradient, = torch.autograd.grad(torch_ctc.ctc_loss(scores, targets, frames, lengths, reduction="sum"), scores)
    for n, word in enumerate(WORDS):
        _, occupancy = loss_and_occupancy("ctc", scores.detach()[:frames[n], n].numpy(), word, 0)
        np.testing.assert_allclose(gradient[:frames[n], n], -occupancy, rtol=0, atol=1e-12)
        assert not gradient[frames[n]:, n].any()
    for function, passes in ((torch_ctc.ctc_loss, True), (LIBRARY, False)):
        assert passes == torch.autograd.gradcheck(lambda x, loss=function: loss(x, targets, frames, lengths), scores,
                                                  raise_exception=False)


def test_no_alignment():
    """inf and gradient 0 here; inf and NaN there. With ``zero_infinity`` the two agree."""
    logits = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([[1, 1], [1, 2]]), (2, 2), (2, 2)  # a blank is missing between 1 and 1
    for zero_infinity, gradient_there in ((False, torch.nan), (True, 0.0)):
        for function, there in ((torch_ctc.ctc_loss, 0.0), (LIBRARY, gradient_there)):
            loss = function(logits.log_softmax(-1), *batch, reduction="none", zero_infinity=zero_infinity)
            gradient, = torch.autograd.grad(loss.sum(), logits)
            assert loss[0] == (0.0 if zero_infinity else torch.inf)
            torch.testing.assert_close(gradient[:, 0], torch.full((2, 3), there).double(), equal_nan=True)
            assert gradient[:, 1].isfinite().all() and gradient[:, 1].any()


def test_labels_that_torch_reads():
    log_probs = torch.randn(3, 1, 3).log_softmax(-1)
    for label, rule in ((0, "a label other than blank = 0"), (-1, "0 <= label < C = 3")):
        batch = log_probs, torch.tensor([[1, label]]), (3,), (2,)
        assert not LIBRARY(*batch).isnan(), "torch looks at nothing"
        with pytest.raises(ValueError, match=re.escape(f"targets[0, 1] = {label}; expected {rule}")):
            torch_ctc.ctc_loss(*batch)
    for target in (torch.tensor([[1.7]]), torch.tensor([[True]])):
        batch = log_probs, target, (3,), (1,)
        assert LIBRARY(*batch) == LIBRARY(log_probs, torch.tensor([[1]]), (3,), (1,))
        with pytest.raises(TypeError, match=f"targets has dtype {target.dtype}; expected an integer type"):
            torch_ctc.ctc_loss(*batch)


def test_what_torch_refuses():
    """Half precision, mixed kinds of lengths, no utterance, no frame."""
    _, shape, targets, frames, lengths = next(ctc_calls())
    log_probs = torch.randn(shape).log_softmax(-1)
    for dtype in (torch.float16, torch.bfloat16):
        loss = torch_ctc.ctc_loss(log_probs.to(dtype), targets, frames, lengths, reduction="none")
        assert loss.dtype == torch.float32
        assert torch.equal(loss, torch_ctc.ctc_loss(log_probs.to(dtype).float(), targets, frames, lengths,
                                                    reduction="none"))
    assert torch_ctc.ctc_loss(log_probs, targets, torch.tensor(frames), lengths) == torch_ctc.ctc_loss(
        log_probs, targets, tuple(frames), torch.tensor(lengths))
    for symbols in (targets[:0], targets[:0, 0]):
        assert torch_ctc.ctc_loss(log_probs[:, :0], symbols, (), (), reduction="none").shape == (0,)
    assert torch_ctc.ctc_loss(log_probs[:0], targets, [0] * 4, [0, 1, 0, 0], reduction="none").tolist() == [
        0.0, torch.inf, 0.0, 0.0]


@pytest.mark.parametrize("changed", [
    {"log_probs": torch.zeros(2)}, {"log_probs": torch.zeros(5, 4, 4, dtype=torch.int64)},
    {"log_probs": torch.zeros(5, 4, 4, dtype=torch.float16)}, {"targets": torch.zeros(1, 1, 1, dtype=torch.int64)},
    {"targets": torch.ones(3, 3).long()}, {"targets": torch.ones(6).long()}, {"input_lengths": (5, 4, 3)},
    {"input_lengths": (6, 4, 3, 1)}, {"input_lengths": (5, 4, 3, -1)}, {"target_lengths": (2, 2, 4, 1)},
    {"target_lengths": (2, 2, 0, -1)}, {"blank": -1}, {"blank": 4},
])
def test_what_torch_checks(changed):
    """Shapes, dtypes, lengths and the blank, by a RuntimeError or one of its kinds; labels pass, as tested above."""
    _, shape, targets, frames, lengths = next(ctc_calls())
    arguments = {"log_probs": torch.zeros(shape), "targets": targets, "input_lengths": frames,
                 "target_lengths": lengths}
    assert LIBRARY(**arguments).isfinite()
    with pytest.raises(RuntimeError):
        LIBRARY(**arguments | changed)


@pytest.mark.parametrize(("changed", "error", "message"), [
    ({"log_probs": torch.zeros(2)}, ValueError, "log_probs has shape (2,); expected 3 axes (T, N, C), or 2 axes"),
    ({"log_probs": [[0.0]]}, TypeError, "log_probs is a list; expected a torch.Tensor"),
    ({"log_probs": torch.zeros(5, 4, 4, dtype=torch.int64)}, TypeError, "log_probs has dtype torch.int64"),
    ({"targets": [[1]]}, TypeError, "targets is a list; expected a torch.Tensor"),
    ({"targets": torch.zeros(1, 1, 1, dtype=torch.int64)}, ValueError, "targets has shape (1, 1, 1); expected 2 axes"),
    ({"targets": torch.ones(3, 3).long()}, ValueError, "targets has shape (3, 3); expected N = 4 first"),
    ({"targets": torch.ones(6).long()}, ValueError, "targets has 6 entries; expected sum(target_lengths) = 5"),
    ({"targets": torch.ones(5).long(), "target_lengths": (2, 2, 2, -1)}, ValueError, "target_lengths[3] = -1"),
    ({"input_lengths": (5, 4, 3)}, ValueError, "input_lengths has shape (3,); expected (N,) = (4,)"),
    ({"input_lengths": (6, 4, 3, 1)}, ValueError, "input_lengths[0] = 6; expected 0 <= length <= T = 5"),
    ({"input_lengths": (5.0, 4, 3, 1)}, TypeError, "input_lengths[0] = 5.0; expected an integer"),
    ({"input_lengths": 6}, TypeError, "input_lengths = 6; expected a tensor of integers, or a sequence of ints"),
    ({"target_lengths": None}, TypeError, "target_lengths = None; expected a tensor of integers, or a sequence"),
    ({"target_lengths": torch.ones(4).bool()}, TypeError, "target_lengths has dtype torch.bool; expected an integer"),
    ({"target_lengths": (2, 2, 4, 1)}, ValueError, "target_lengths[2] = 4; expected 0 <= length <= S = 3"),
    ({"targets": torch.tensor([1, 2, 3, 0, 2])}, ValueError, "targets[3] = 0; expected a label other than blank = 0"),
    ({"targets": torch.tensor([1, 2, 3, 3, 4])}, ValueError, "targets[4] = 4; expected 0 <= label < C = 4"),
    ({"blank": -1}, ValueError, "blank = -1; expected 0 <= blank < C = 4"),
    ({"blank": 4, "targets": torch.ones(5).long()}, ValueError, "blank = 4; expected 0 <= blank < C = 4"),
    ({"blank": 1.0}, TypeError, "blank = 1.0; expected an integer"),
    ({"zero_infinity": 1}, TypeError, "zero_infinity = 1; expected True or False"),
    ({"reduction": None}, ValueError, "reduction = None; expected one of 'none', 'mean', 'sum'"),
    ({"reduction": "avg"}, ValueError, "reduction = 'avg'; expected one of 'none', 'mean', 'sum'"),
])
def test_messages_of_torch_ctc(changed, error, message):
    _, shape, targets, frames, lengths = next(ctc_calls())
    arguments = {"log_probs": torch.zeros(shape), "targets": targets, "input_lengths": frames,
                 "target_lengths": lengths} | changed
    with pytest.raises(error, match=re.escape(message)):
        torch_ctc.ctc_loss(**arguments)


def test_modules_hand_everything_on():
    _, shape, targets, frames, lengths = next(ctc_calls())
    batch = torch.randn(shape).log_softmax(-1), targets, frames, lengths
    assert torch_ctc.CTCLoss(3, "sum", True)(batch[0], (targets + 3) % 4, frames, lengths) == torch_ctc.ctc_loss(
        batch[0], (targets + 3) % 4, frames, lengths, 3, "sum", True)
    for module, name, options, as_function in (
            (torchaudio_rnnt, "RNNTLoss", (1, 0.05, "none", False), (1, 0.05, "none", False)),
            (numba_rnnt, "RNNTLossNumba", (1, None, 0.5, 0.05), (1, None, 0.5, 0.05)),
            (numba_rnnt, "RNNTLossNumba", (1, "sum", 0.5, -7), (1, "sum", 0.5, 0.0))):
        logits = torch.randn(2, 3, 3, 4, requires_grad=True)
        rest = torch.tensor([[2, 2], [3, 0]]), torch.tensor([3, 2]), torch.tensor([2, 2])
        losses = getattr(module, name)(*options)(logits, *rest), module.rnnt_loss(logits, *rest, *as_function)
        one, other = (torch.autograd.grad(loss.sum(), logits)[0] for loss in losses)
        assert torch.equal(*losses) and torch.equal(one, other) and one.any()


@pytest.mark.parametrize("module", [torch_ctc, torchaudio_rnnt, numba_rnnt], ids=lambda each: each.__name__[-11:])
def test_one_graph(module):
    """The compiled losses return what the eager ones do."""
    targets, lengths = torch.tensor([[1, 2], [1, 1]]), (torch.tensor([4, 3]), torch.tensor([2, 1]))
    ctc = module is torch_ctc
    logits = torch.randn(*((4, 2, 4) if ctc else (2, 4, 3, 4)), dtype=torch.float64, requires_grad=True)

    def loss(logits):
        if ctc:
            return module.ctc_loss(logits.log_softmax(-1), targets, *lengths)
        return module.rnnt_loss(logits, targets, *lengths, blank=0)

    found = []
    for function in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
        value = function(logits)
        found.append((value, *torch.autograd.grad(value.sum(), logits)))
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths_are", [list, torch.tensor], ids=["ints", "tensors"])
def test_one_graph_of_concatenated_targets(lengths_are):
    """Compiled and exported once for any numbers of labels: more than frames, none, and repeated ones among them."""
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    def loss(logits, targets, frames, lengths):
        return torch_ctc.ctc_loss(logits.log_softmax(-1), targets, frames, lengths, reduction="none")

    class Module(torch.nn.Module):
        def forward(self, logits, targets, frames, lengths):
            return loss(logits, targets, frames, lengths)

    torch.manual_seed(0)
    compiled, exported = torch.compile(loss, backend=backend, fullgraph=True, dynamic=True), None
    counts = [[4, 1, 3], [9, 1, 2], [0, 3, 2], [0, 5, 1]]  # first no size that another axis has
    for numbers in counts[:1] if lengths_are is list else counts:
        logits = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
        batch = torch.randint(1, 4, (sum(numbers),)), lengths_are([5, 4, 5]), lengths_are(numbers)
        if exported is None and lengths_are is not list:
            exported = torch.export.export(Module(), (logits, *batch), dynamic_shapes=(
                None, {0: torch.export.Dim("S")}, None, None)).module()
        found = []
        for function in (loss, compiled, exported or loss):
            value = function(logits, *batch)
            found.append((value, *torch.autograd.grad(value[value.isfinite()].sum(), logits)))
        for other in found[1:]:
            for eager, traced in zip(found[0], other, strict=True):
                torch.testing.assert_close(traced, eager, rtol=0, atol=1e-12)
    assert len(graphs) == 1 and found[0][0].isfinite().any()


def test_one_graph_of_targets_that_no_lengths_cut_apart():
    """NaN for all utterances, since any of them may have the wrong labels; a wrong label touches its own alone."""
    log_probs = torch.randn(5, 3, 4, dtype=torch.float64).log_softmax(-1)
    compiled = torch.compile(torch_ctc.ctc_loss, backend="eager", fullgraph=True)
    targets, frames = torch.tensor([1, 2, 3, 3, 1]), torch.tensor([5, 4, 5])
    for lengths in ([2, 1, 1], [2, 2, 2], [3, -1, 3]):
        assert compiled(log_probs, targets, frames, torch.tensor(lengths), reduction="none").isnan().all()
    targets[2], lengths = 7, torch.tensor([2, 1, 2])
    found = compiled(log_probs, targets, frames, lengths, reduction="none")
    assert found.isnan().tolist() == [False, True, False]
    targets[2] = 1
    right = torch_ctc.ctc_loss(log_probs, targets, frames, lengths, reduction="none")
    torch.testing.assert_close(found[[0, 2]], right[[0, 2]], rtol=1e-12, atol=0)


def test_transforms_of_functions():
    """Gradients by ``torch.func``, of concatenated targets made inside it too; of each utterance alone by vmap."""
    log_probs = torch.randn(5, 2, 4, dtype=torch.float64).log_softmax(-1)
    frames, targets = torch.tensor([5, 4]), torch.tensor([[1, 2], [3, 1]])

    def gradients(loss):
        scores = log_probs.clone().requires_grad_()
        return torch.autograd.grad(loss(scores), scores)[0]

    def concatenated(scores):
        return torch_ctc.ctc_loss(scores, torch.tensor([1, 2, 3]), frames, torch.tensor([2, 1]))

    torch.testing.assert_close(torch.func.grad(concatenated)(log_probs), gradients(concatenated), rtol=0, atol=1e-12)
    batch = targets, frames, torch.tensor([2, 2])
    each = torch.func.vmap(torch.func.grad(torch_ctc.ctc_loss), in_dims=(1, 0, 0, 0), out_dims=1)(log_probs, *batch)
    wanted = gradients(lambda scores: torch_ctc.ctc_loss(scores, *batch, reduction="none").sum() / 2)
    torch.testing.assert_close(each, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("transform", [lambda loss: loss, torch.func.grad], ids=["values", "gradients"])
@pytest.mark.parametrize("targets, lengths, message", [
    ([3, 1, 2], [2, 2], r"targets has 3 entries; expected sum\(target_lengths\) = 4, since targets with one axis are"),
    ([3, 1, 2], [4, -1], r"target_lengths\[1\] = -1; expected target_lengths\[1\] >= 0"),
    ([3, 1, 7], [2, 1], r"targets\[2\] = 7; expected 0 <= label < C = 4")])
def test_concatenated_targets_inside_vmap(transform, targets, lengths, message):
    """As outside: values for one case after another, and a message with the caller's own of the case that is wrong."""
    log_probs = torch.randn(3, 5, 2, 4, dtype=torch.float64).log_softmax(-1)
    several = [torch.tensor(each) for each in ([[1, 2, 3], [1, 2, 1], [2, 3, 3]], [[5, 4]] * 3,
                                               [[1, 2], [2, 1], [3, 0]])]
    function = transform(torch_ctc.ctc_loss)
    expected = [function(log_probs[i], *(each[i] for each in several)) for i in range(3)]
    found = torch.func.vmap(function)(log_probs, *several)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)
    assert torch.func.vmap(function)(*(each[:0] for each in (log_probs, *several))).shape == (0, *expected[0].shape)
    several[0][1], several[2][1] = torch.tensor(targets), torch.tensor(lengths)
    with pytest.raises(ValueError, match=message):
        function(log_probs[1], *(each[1] for each in several))
    with pytest.raises(ValueError, match=message):
        torch.func.vmap(function)(log_probs, *several)


@pytest.mark.parametrize("layout", list(ctc_calls()), ids=lambda each: each[0])
def test_under_a_default_device(layout):
    """Lengths that are ints are on the CPU, whatever device new tensors are made on."""
    _, shape, targets, frames, lengths = layout
    log_probs = torch.randn(shape, dtype=torch.float64).log_softmax(-1)
    wanted = LIBRARY(log_probs, targets, frames, lengths)
    with torch.device("meta"):
        torch.testing.assert_close(torch_ctc.ctc_loss(log_probs, targets, frames, lengths), wanted, rtol=1e-12, atol=0)
    on_meta = [torch.tensor(each) if isinstance(each, list) else each for each in (targets, frames, lengths)]
    loss = torch_ctc.ctc_loss(log_probs.to("meta"), *(each.to("meta") for each in on_meta), reduction="none")
    assert loss.shape == LIBRARY(log_probs, targets, frames, lengths, reduction="none").shape and loss.is_meta


ctc_loss = torch_ctc.ctc_loss
torch.fx.wrap("ctc_loss")


def test_what_reads_the_source():
    """Neither TorchScript nor symbolic_trace takes the losses, and both take torch's; a wrapped one fx calls."""
    chosen = {"blank": 0, "reduction": "mean"}
    assert torch.jit.script(LIBRARY) and torch.fx.symbolic_trace(LIBRARY, chosen | {"zero_infinity": False})
    for function, name, rest in ((torch_ctc.ctc_loss, "log_probs", {"zero_infinity": False}),
                                 (torchaudio_rnnt.rnnt_loss, "logits", {"clamp": -1, "fused_log_softmax": True})):
        with pytest.raises(torch.jit.frontend.NotSupportedError):
            torch.jit.script(function)
        with pytest.raises(TypeError, match=f"{name} is a Proxy; expected a torch.Tensor"):
            torch.fx.symbolic_trace(function, chosen | rest)
    batch = torch.randn(4, 2, 3).log_softmax(-1), torch.tensor([1, 2]), torch.tensor([4, 4]), torch.tensor([1, 1])
    calls = torch.fx.symbolic_trace(lambda scores, targets, frames, lengths: ctc_loss(scores, targets, frames, lengths))
    assert torch.equal(calls(*batch), torch_ctc.ctc_loss(*batch))


# --- RNN-T, against what was recorded ---

def inputs(case):
    """As ``benchmarks/drop_in_peers.py`` made them."""
    B, frames, U, V = case["shape"]
    rng = np.random.default_rng(case["seed"])
    logits = rng.normal(size=(B, frames, U + 1, V)).astype(np.float32)
    labels = (case["blank"] + rng.integers(1, V, (B, U))) % V
    for b, t, u, k in case["masked"]:
        logits[b, t, u, labels[b, u] if k == "label" else k] = -np.inf
    for b, (t, u) in enumerate(zip(case["logit_lengths"], case["target_lengths"], strict=True)):
        if case.get("nan_in_padding"):
            logits[b, t:], logits[b, :, u + 1:] = np.nan, np.nan
    return logits, labels


def numbers(values):
    return torch.tensor([float(each) for each in values], dtype=torch.float64)


def ours(module, record, **changed):
    logits, labels = inputs(record["case"])
    options = {"blank": record["case"]["blank"]} | record["options"] | changed
    scores = torch.tensor(logits, dtype=torch.float64)
    if not options.get("fused_log_softmax", True):
        scores = scores.log_softmax(-1)
    scores.requires_grad_()
    lengths = (torch.tensor(record["case"][name], dtype=torch.int32) for name in ("logit_lengths", "target_lengths"))
    loss = module.rnnt_loss(scores, torch.tensor(labels, dtype=torch.int32), *lengths, **options)
    weights = torch.tensor(record["upstream"], dtype=torch.float64)[:loss.numel()].reshape(loss.shape)
    return loss, torch.autograd.grad(loss, scores, weights)[0]


def assert_as_recorded(module, record):
    """The same shape and numbers; where theirs are NaN the loss is finite or inf, and the gradient as it has to be."""
    tolerance = TOLERANCE[torch.float32 if record["library"] == "torchaudio" else torch.float64]
    options, upstream = record["options"], record["upstream"]
    loss, gradient = ours(module, record)
    assert list(loss.shape) == record["shape"] and not loss.isnan().any() and gradient.isfinite().all()
    theirs, theirs_gradient = numbers(record["loss"]), numbers(record["gradient"]).reshape(gradient.shape)
    theirs = theirs / (1 + options.get("fastemit_lambda", 0))
    known = ~theirs.isnan()
    torch.testing.assert_close(loss.detach().flatten()[known], theirs[known], rtol=tolerance, atol=0)
    if record["library"] == "warprnnt_numba" and "clamp" in options:  # theirs comes last, here it comes first
        bound = options["clamp"]
        free = ours(module, record, clamp=0.0)[1]
        torch.testing.assert_close(theirs_gradient, free.clamp(-bound, bound), rtol=0, atol=tolerance)
        G = upstream[0] if options.get("reduction", "mean") == "none" else 1 / len(upstream)
        gradient, theirs_gradient = gradient / G, (free / G).clamp(-bound, bound)
    known = ~theirs_gradient.isnan()
    torch.testing.assert_close(gradient[known], theirs_gradient[known], rtol=0, atol=tolerance)
    return known


@pytest.mark.parametrize("record", RECORD["cases"], ids=lambda each: f"{each['library']} {each['options']}")
def test_recorded(record):
    known = assert_as_recorded(MODULES[record["library"]], record)
    masked = record["case"]["masked"]
    if "nan_in_padding" in record["case"]:
        _, gradient = ours(MODULES[record["library"]], record)
        (t, u), V = (record["case"][name][1] for name in ("logit_lengths", "target_lengths")), gradient.shape[-1]
        assert not gradient[1, t:].any() and not gradient[1, :, u + 1:].any()
        assert known[:, :t, :u + 1].all() and known[0].all()
        assert (~known).sum() == (0 if record["library"] == "torchaudio" else (3 * 3 - t * (u + 1)) * V)
        return
    if not masked:
        assert known.all() and known.numel() == 2 * 3 * 3 * 4
        return
    loss, gradient = ours(MODULES[record["library"]], record)
    b = masked[0][0]
    assert known[1 - b].all() and gradient[1 - b].any()
    if masked == [[1, 1, 1, 0]]:  # on every path
        assert loss[b] == torch.inf and not gradient[b].any() and not known[b].all()
        assert record["loss"][b] == ("nan" if record["library"] == "torchaudio" else "inf")
    else:
        assert loss[b].isfinite() and gradient[b].any()
        assert known[b].all() == (record["library"] == "warprnnt_numba" or len(masked) == 1)


def test_what_fastemit_does_to_the_recorded_value():
    """It is scaled where a gradient is asked for, and not where none is; nor is it here."""
    scaled = [each for each in RECORD["cases"] if "fastemit_lambda" in each["options"]]
    assert len(scaled) == 2
    for record in scaled:
        loss, _ = ours(numba_rnnt, record)
        without = numbers(record["loss_if_no_gradient_is_asked_for"])
        torch.testing.assert_close(loss.detach(), without, rtol=1e-12, atol=0)
        torch.testing.assert_close(numbers(record["loss"]), 1.5 * without, rtol=1e-12, atol=0)


def test_bounds_mean_more_for_a_larger_batch_there():
    """The recorded clamp of a mean is not that of the losses alone, divided by B; ours is."""
    alone, mean = (each for each in RECORD["cases"]
                   if each["library"] == "warprnnt_numba" and "clamp" in each["options"])
    one, two = (numbers(each["gradient"]) for each in (alone, mean))
    assert one.abs().max() == two.abs().max() == 0.1
    assert ours(numba_rnnt, mean)[1].abs().max() == 0.05


@pytest.mark.parametrize(("module", "changed", "error", "message"), [
    (torchaudio_rnnt, {"blank": -5}, ValueError, "blank = -1; expected 0 <= blank < V = 4"),
    (torchaudio_rnnt, {"blank": None}, TypeError, "blank = None; expected an integer"),
    (torchaudio_rnnt, {"clamp": None}, TypeError, "clamp = None; expected a number"),
    (torchaudio_rnnt, {"clamp": "0.1"}, TypeError, "clamp = '0.1'; expected a number"),
    (torchaudio_rnnt, {"clamp": float("nan")}, ValueError, "clamp = nan; expected a number"),
    (torchaudio_rnnt, {"fused_log_softmax": None}, TypeError, "fused_log_softmax = None; expected True or False"),
    (torchaudio_rnnt, {"targets": torch.ones(2, 2, dtype=torch.uint16)}, TypeError,
     "targets has dtype torch.uint16; expected torch.int32 or torch.int64"),
    (torchaudio_rnnt, {"reduction": None}, ValueError, "reduction = None; expected one of 'none', 'mean', 'sum'"),
    (torchaudio_rnnt, {"logits": torch.zeros(2, 3, 4)}, ValueError, "logits has shape (2, 3, 4); expected 4 axes"),
    (torchaudio_rnnt, {"targets": torch.full((2, 2), 3)}, ValueError, "targets[0, 0] = 3; expected a label other than"),
    (numba_rnnt, {"labels": torch.full((2, 2), 4)}, ValueError, "labels[0, 0] = 4; expected 0 <= label < V = 4"),
    (numba_rnnt, {"labels": torch.ones(2, 3).long()}, ValueError, "acts has 3 rows on its U+1 axis; expected U + 1"),
    (numba_rnnt, {"act_lens": torch.tensor([4, 0])}, ValueError, "act_lens[0] = 4; expected 1 <= length <= T = 3"),
    (numba_rnnt, {"label_lens": torch.tensor([1., 1.])}, TypeError, "label_lens has dtype torch.float32"),
    (numba_rnnt, {"acts": None}, TypeError, "acts is a NoneType; expected a torch.Tensor"),
    (numba_rnnt, {"blank": -1}, ValueError, "blank = -1; expected 0 <= blank < V = 4"),
    (numba_rnnt, {"blank": None}, TypeError, "blank = None; expected an integer"),
    (numba_rnnt, {"clamp": None}, TypeError, "clamp = None; expected a number"),
    (numba_rnnt, {"fastemit_lambda": None}, TypeError, "fastemit_lambda = None; expected a number"),
    (numba_rnnt, {"fastemit_lambda": -0.5}, ValueError, "fastemit_lambda = -0.5; expected a finite number >= 0"),
    (numba_rnnt, {"act_lens": 3}, TypeError, "act_lens is a int; expected a torch.Tensor"),
    (numba_rnnt, {"clamp": -1.0}, ValueError, "clamp = -1.0; expected a finite number >= 0"),
    (numba_rnnt, {"reduction": "avg"}, ValueError, "reduction = 'avg'; expected one of 'none', 'mean', 'sum', None"),
])
def test_messages_of_rnnt(module, changed, error, message):
    names = [name for name, _, _ in parameters(module.rnnt_loss)]
    given = (torch.zeros(2, 3, 3, 4), torch.tensor([[1, 2], [1, 2]]), torch.tensor([3, 2]), torch.tensor([2, 1]))
    with pytest.raises(error, match=re.escape(message)):
        module.rnnt_loss(**dict(zip(names, given, strict=False)) | changed)


@pytest.mark.parametrize(("clamp", "error", "message"), [
    (None, TypeError, "clamp = None; expected a number"),
    ("1", TypeError, "clamp = '1'; expected a number"),
    (True, TypeError, "clamp = True; expected a number"),
    (np.inf, ValueError, "clamp = inf; expected a finite number"),
])
def test_messages_of_the_numba_module(clamp, error, message):
    with pytest.raises(error, match=re.escape(message)):
        numba_rnnt.RNNTLossNumba(clamp=clamp)


# --- and a check of the checks ---

PLANTED = [
    (torch_ctc, "log_probs.transpose(0, 1)", "log_probs.reshape(log_probs.shape[1], log_probs.shape[0], -1)"),
    (torch_ctc, ".clamp(min=1)", ""),
    (torch_ctc, ".clamp(min=1)).mean()", ".clamp(min=1)).sum()"),
    (torch_ctc, " / target_lengths.to(each.device).clamp(min=1)", ""),
    (torch_ctc, "(ends - lengths)[:, None]", "(ends - lengths).flip(0)[:, None]"),
    (torch_ctc, "return max(lengths, default=0)", "return min(lengths, default=0)"),
    (torch_ctc, "log_probs[None] if alone", "log_probs[None].flip(1) if alone"),
    (torch_ctc, "or alone", ""),
    (torch_ctc, "blank=blank", "blank=0"),
    (torch_ctc, "zero_infinity=zero_infinity", "zero_infinity=False"),
    (torch_ctc, 'inputs="log_probs"', 'inputs="logits"'),
    (torchaudio_rnnt, "blank += logits.shape[-1]", "blank = 0"),
    (torchaudio_rnnt, '"log_probs",', '"logits",'),
    (torchaudio_rnnt, "clamp=clamp if", "clamp=2 * clamp if"),
    (torchaudio_rnnt, "reduction=reduction", "reduction='sum'"),
    (numba_rnnt, "(each)[None]", "(each)"),
    (numba_rnnt, "clamp=clamp or None", "clamp=None"),
    (numba_rnnt, "fastemit_lambda=fastemit_lambda, clamp", "fastemit_lambda=0.0, clamp"),
    (numba_rnnt, "blank=blank", "blank=0"),
    (numba_rnnt, '{"mean": torch.mean, "sum": torch.sum}', '{"mean": torch.sum, "sum": torch.mean}'),
]


def with_a_bug(module, right, wrong):
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(right) == 1
    name = f"{module.__name__}_with_a_bug"
    bugged = ModuleType(name)
    bugged.__package__, bugged.__file__ = module.__package__, module.__file__
    exec(compile(source.replace(right, wrong), name, "exec"), vars(bugged))
    return bugged


def assert_all(module):
    """What the tests above assert of values, for one module."""
    if hasattr(module, "ctc_loss"):
        for (_, *layout), reduction in itertools.product(ctc_calls(), ["none", "mean", "sum"]):
            assert_as_torch(module.ctc_loss, *layout, torch.float64, reduction=reduction)
            layout[1] = (layout[1] + 2) % C
            apart, log_probs, _ = assert_as_torch(module.ctc_loss, *layout, torch.float64, blank=2, reduction="sum")
            torch.testing.assert_close(apart[0], log_probs[0].exp(), rtol=0, atol=1e-12)
        impossible = torch.zeros(2, 1, 3), torch.tensor([[1, 1]]), (2,), (2,)
        assert module.ctc_loss(*impossible, zero_infinity=True) == 0.0
        return
    library = "warprnnt_numba" if hasattr(module, "RNNTLossNumba") else "torchaudio"
    for record in RECORD["cases"]:
        if record["library"] == library:
            assert_as_recorded(module, record)


@pytest.mark.parametrize("module", [torch_ctc, torchaudio_rnnt, numba_rnnt], ids=lambda each: each.__name__[-11:])
def test_all_of_it_holds(module):
    assert_all(module)


@pytest.mark.parametrize(("module", "right", "wrong"), PLANTED, ids=[f"{wrong}" for _, _, wrong in PLANTED])
def test_a_planted_bug_is_seen(module, right, wrong):
    with pytest.raises((AssertionError, ValueError)):
        assert_all(with_a_bug(module, right, wrong))
