"""All implementations of a loss behind one call, and the padded batches that they are tried on. It has no formula.

``evaluate(implementation, batch, variable)`` returns float64 losses (B,) and the gradient of their sum with
respect to ``variable``, whichever implementation does the work.
"""

import importlib.util
import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from variants import VARIANTS

from reference_impl import batched, ctc, log_softmax, rnnt, torch_impl
from reference_impl.lattice import arc_posteriors, forward
from reference_impl.topology import ctc_lattice, rnnt_lattice

KINDS = ("ctc", "rnnt")
EXPLICIT = {"ctc": ctc, "rnnt": rnnt}
BATCHED = {"ctc": batched.ctc_loss, "rnnt": batched.rnnt_loss}
TORCH_VARIANTS = {name: variant.torch for name, variant in VARIANTS.items() if variant.torch}
TORCH = {"ctc": torch_impl.ctc_loss, "rnnt": torch_impl.rnnt_loss, **TORCH_VARIANTS}
LATTICE = {"ctc": ctc_lattice, "rnnt": rnnt_lattice}

needs_cuda = pytest.mark.cuda  # without a device, conftest.py leaves these out, and says so once for each file
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
# where the kernels run: on CUDA if there is any, else in Triton's interpreter
TRITON_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Whether kernels run in Triton's interpreter: compiled ones, on a GPU or on ptx_machine, round otherwise.
INTERPRETED = TRITON_DEVICE == "cpu" and "GPU_STAGES_ON" not in os.environ
BY_TENSOR_OPS = ["torch", pytest.param("torch on cuda", marks=needs_cuda)]
BY_TRITON = pytest.param("triton", marks=needs_triton)
# for tests of many batches, and of hundreds: the interpreter takes a quarter of a second for each
SLOWLY_BY_TRITON, EXHAUSTIVELY_BY_TRITON = (
    BY_TRITON if TRITON_DEVICE == "cuda" else pytest.param("triton", marks=[needs_triton, tier])
    for tier in (pytest.mark.slow, pytest.mark.exhaustive))
# the kernels compiled, and executed by the machine of ptx_machine
COMPILED = pytest.param("compiled triton", marks=needs_triton)
IMPLEMENTATIONS = ["explicit", "lattice", "batched", *BY_TENSOR_OPS, BY_TRITON, COMPILED]
# batched takes logits only
_WITHOUT_KERNELS = [
    *((name, variable) for name in ("explicit", "lattice", "torch") for variable in ("logits", "log_probs")),
    ("batched", "logits"),
    *(pytest.param("torch on cuda", variable, marks=needs_cuda) for variable in ("logits", "log_probs")),
]
IMPLEMENTATIONS_AND_VARIABLES, IMPLEMENTATIONS_AND_VARIABLES_OF_MANY_TARGETS = (
    [*_WITHOUT_KERNELS, *(pytest.param(*by.values, variable, marks=by.marks)
                          for by in kernels for variable in ("logits", "log_probs"))]
    for kernels in ((BY_TRITON, COMPILED), (SLOWLY_BY_TRITON,)))

every_kind = pytest.mark.parametrize("kind", KINDS)
# CTC, RNN-T and its relatives, of torch; of several devices those that a loss runs on, see conftest.py
every_torch_loss = pytest.mark.parametrize("kind", TORCH)
# the tensor operations on the CPU and on CUDA, and the kernels; see the fixture `device` in conftest.py
every_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=needs_cuda), pytest.param("triton", marks=needs_triton)],
    indirect=True)
every_input = pytest.mark.parametrize("inputs", ["logits", "log_probs"])

# arithmetic in float64 at sizes that can be enumerated: some hundred roundings of 1e-16
EXACT = 1e-12


@dataclass(frozen=True)
class Batch:
    """Scores (B, T, V) or (B, T, U+1, V), targets (B, U), lengths (B,), and the blank."""

    scores: np.ndarray
    targets: np.ndarray
    logit_lengths: np.ndarray
    target_lengths: np.ndarray
    blank: int = 0

    def __len__(self):
        return len(self.scores)

    @property
    def kind(self):
        return "ctc" if self.scores.ndim == 3 else "rnnt"

    def used(self, b):
        """Index of the entries of utterance b that are no padding."""
        rows = () if self.kind == "ctc" else (slice(self.target_lengths[b] + 1),)
        return (b, slice(self.logit_lengths[b]), *rows)

    def utterance(self, b):
        """Scores and targets of utterance b without padding."""
        return self.scores[self.used(b)], self.targets[b, :self.target_lengths[b]]

    def first(self, count):
        """The batch of the first utterances only."""
        return Batch(self.scores[:count], self.targets[:count], self.logit_lengths[:count],
                     self.target_lengths[:count], self.blank)

    def padding(self):
        """True where the scores are padding."""
        mask = np.ones(self.scores.shape, bool)
        for b in range(len(self)):
            mask[self.used(b)] = False
        return mask

    def normalised(self):
        """The same batch with log-probs for scores."""
        scores = self.scores.copy()
        for b in range(len(self)):
            scores[self.used(b)] = log_softmax(self.scores[self.used(b)])
        return replace(self, scores=scores)


def one(scores, targets, blank=0):
    """A batch of a single utterance."""
    targets = np.asarray(targets, np.int64)
    return Batch(np.asarray(scores)[None], targets[None], np.array([len(scores)]), np.array([len(targets)]), blank)


def pad(utterances, *, blank=0, fill=np.nan, label_fill=-7, extra_frames=0, extra_labels=0):
    """One batch of (scores, targets) pairs; padding holds garbage unless told otherwise."""
    T = max(len(scores) for scores, _ in utterances) + extra_frames
    U = max(len(targets) for _, targets in utterances) + extra_labels
    first = utterances[0][0]
    middle = () if first.ndim == 2 else (U + 1,)
    batch = Batch(np.full((len(utterances), T, *middle, first.shape[-1]), fill),
                  np.full((len(utterances), U), label_fill, np.int64),
                  np.array([len(scores) for scores, _ in utterances]),
                  np.array([len(targets) for _, targets in utterances]), blank)
    for b, (scores, targets) in enumerate(utterances):
        batch.scores[batch.used(b)] = scores
        batch.targets[b, :len(targets)] = targets
    return batch


def random_scores(rng, kind, T, U, V):
    """Scores of V symbols; some variants have columns for more."""
    columns = VARIANTS[kind].columns(V) if kind in VARIANTS else V
    return rng.normal(size=(T, V) if kind == "ctc" else (T, U + 1, columns))


def evaluate(implementation, batch, variable="logits"):
    """Float64 losses (B,) and the gradient of their sum; padding belongs to the result."""
    if implementation == "triton":
        return _by_torch(batch, variable, TRITON_DEVICE, "triton")
    if implementation == "compiled triton":
        from compiled_kernels import on_the_machine

        with on_the_machine(order=0):
            return _by_torch(batch, variable, "cpu", "triton")
    if implementation.startswith("torch"):
        return _by_torch(batch, variable, "cuda" if implementation.endswith("cuda") else "cpu", "torch")
    if implementation == "batched":
        assert variable == "logits"
        return BATCHED[batch.kind](*_arguments(batch), blank=batch.blank)
    return _by_utterance({"explicit": _explicit, "lattice": _on_lattice}[implementation], batch, variable)


def _arguments(batch):
    return batch.scores, batch.targets, batch.logit_lengths, batch.target_lengths


def _by_torch(batch, variable, device, backend):
    scores, targets, logit_lengths, target_lengths = (torch.tensor(argument, device=device)
                                                      for argument in _arguments(batch))
    scores.requires_grad_()
    losses = TORCH[batch.kind](scores, targets, logit_lengths, target_lengths, blank=batch.blank, reduction="none",
                               inputs=variable, backend=backend)
    losses.sum().backward()
    return losses.detach().cpu().numpy(), scores.grad.cpu().numpy()


def _by_utterance(compute, batch, variable):
    losses, gradient = np.zeros(len(batch)), np.zeros(batch.scores.shape)
    for b in range(len(batch)):
        losses[b], gradient[batch.used(b)] = compute(batch.kind, *batch.utterance(b), batch.blank, variable)
    return losses, gradient


def _explicit(kind, scores, targets, blank, variable):
    module = EXPLICIT[kind]
    if variable == "log_probs":
        return module.loss(scores, targets, blank=blank), module.grad_log_probs(scores, targets, blank=blank)
    return module.loss(log_softmax(scores), targets, blank=blank), module.grad_logits(scores, targets, blank=blank)


def _on_lattice(kind, scores, targets, blank, variable):
    graph = LATTICE[kind](targets, len(scores), scores.shape[-1], blank=blank)
    log_probs = log_softmax(scores) if variable == "logits" else scores
    weights = graph.arc_weights(log_probs)
    occupancy = graph.occupancy(arc_posteriors(graph, weights))
    if variable == "log_probs":
        return -forward(graph, weights)[-1], -occupancy
    return -forward(graph, weights)[-1], np.exp(log_probs) * occupancy.sum(-1, keepdims=True) - occupancy


def assert_losses(actual, expected, tolerance=EXACT):
    """Relative for large losses; equal where infinite."""
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def assert_gradients(actual, expected, tolerance=EXACT):
    """Absolute: softmax minus occupancy cancels."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)
