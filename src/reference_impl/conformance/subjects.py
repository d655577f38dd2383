"""What is graded, behind one interface: a function, a torch loss, a planted bug, a program in any language.

A subject is asked about a problem and gives a dict of outputs, named as in `answering.py`, or raises
:class:`Refused`. It knows no right answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .._softmax import log_softmax
from .._validation import check_choice

__all__ = ["LAYOUTS", "PRECISIONS", "NotAnswering", "Refused", "Subject", "candidate_subject", "function_subject",
           "torch_subject"]

#: Axes of the scores of a batch, by the loss and in the order in which they are tried: torch's own, then the others.
LAYOUTS = {"ctc": {"(B, T, V)": (0, 1, 2), "(T, B, V)": (1, 0, 2), "(B, V, T)": (0, 2, 1)},
           "rnnt": {"(B, T, U+1, V)": (0, 1, 2, 3), "(B, U+1, T, V)": (0, 2, 1, 3)}}


#: What a loss may compute in, the most exact first.
PRECISIONS = ("float64", "float32", "float16", "bfloat16")
#: What a function may return by name.
_OUTPUTS = ("loss", "gradient", "log_alpha", "log_beta")
_OF_BATCHES = frozenset({"batch", "upstream", "second backward", "inputs after"})


class Refused(Exception):
    """The loss raised an error; ``type`` is its name, and the text what it said."""

    def __init__(self, error_type, message):
        super().__init__(message)
        self.type = error_type

    def __str__(self):
        first, *_ = self.args[0].strip().splitlines() or [""]  # what follows are stacks, and addresses of one run
        return f"{self.type}: {first}" if first else self.type


class NotAnswering(Exception):
    """A program ended, took too long, or wrote something that is no answer."""


@dataclass(frozen=True)
class Subject:
    """A loss under test.

    ``call(problem, scores, precision)`` returns a dict of outputs: ``loss`` (a number, or (B,)), ``gradient`` (like the
    scores) and, if ``can`` has them, ``second_gradient``, ``scores_after``, ``log_alpha``, ``log_beta``; all float64
    arrays.
    """

    kind: str
    call: Callable
    name: str = "loss"
    version: str = ""
    #: What it is handed: "logits", any scores, or "log_probs", the output of a log-softmax.
    scores: str = "logits"
    #: The most exact first: in that one most cases are asked.
    precisions: tuple[str, ...] = ("float64",)
    can: frozenset[str] = field(default_factory=frozenset)
    #: Of the scores of a batch, where the subject has to be tried to find out.
    layout: str = ""

    def ask(self, problem, precision="") -> dict:
        """Its outputs for a problem; raises :class:`Refused`."""
        return self.call(problem, self.scores_of(problem), precision or self.precisions[0])

    def takes(self, problem) -> bool:
        """Whether a problem is of a sort that it can be asked about."""
        return ((not problem.is_batch or "batch" in self.can) and (problem.upstream is None or "upstream" in self.can)
                and (not problem.fastemit_lambda or "fastemit" in self.can))

    def scores_of(self, problem) -> np.ndarray:
        """The scores that it is handed: a copy, log-softmaxed if that is what it wants."""
        scores = np.array(problem.logits, dtype=np.float64)
        if self.scores == "log_probs":
            usual = ~(np.isnan(scores) | (scores == np.inf)).any(-1)  # padding, and bad input, stay what they are
            scores[usual] = log_softmax(scores[usual])
        return scores


def function_subject(function: Callable, kind: str, *, name="", scores="logits") -> Subject:
    """A function of one utterance, ``function(scores, targets, *, blank)``, that returns loss and gradient.

    It may return a dict instead, with ``loss``, ``gradient``, ``log_alpha`` and ``log_beta`` as far as it has them, or
    one of the first two alone: a number, or an array. Tensors are taken for arrays. If it returns float32, or less, it
    is compared as such.
    """
    _check(function, kind)
    check_choice("scores", scores, ("logits", "log_probs"))

    def call(problem, handed, precision):
        targets = np.array(problem.targets, dtype=np.int64)
        outputs = _by_name(_called(function, handed, targets, blank=problem.blank), handed.shape)
        found = _as_arrays(outputs)
        if "loss" in found and found["loss"].size == 1:
            found["loss"] = found["loss"].reshape(())
        return {**found, "precision": _least(outputs), "scores_after": handed, "targets_after": targets}

    return Subject(kind, call, name or getattr(function, "__name__", "loss"), scores=scores,
                   can=frozenset({"inputs after", "alpha", "beta"}))


def _check(function, kind):
    if not callable(function):
        raise TypeError(f"function = {function!r}; expected something that can be called")
    check_choice("kind", kind, ("ctc", "rnnt"))


def _by_name(outputs, shape):
    """What a function of one utterance returned, as a dict; scores have that shape."""
    if isinstance(outputs, dict):
        odd = [name for name in outputs if name not in _OUTPUTS]
        if odd:
            raise Refused("ValueError", f"it returns a dict with {odd[0]!r}; expected names of {', '.join(_OUTPUTS)}")
        return outputs
    if outputs is None:
        raise Refused("TypeError", "it returns nothing; expected the loss and its gradient")
    if isinstance(outputs, tuple | list) and len(outputs) == 2:
        first, second = (np.shape(_detached(each)) if each is not None else () for each in outputs)
        if first == shape and np.prod(shape) > 1 == np.prod(second):
            raise Refused("TypeError", "it returns (gradient, loss); expected (loss, gradient)")
        return dict(zip(("loss", "gradient"), outputs, strict=True))
    if isinstance(outputs, tuple):
        raise Refused("TypeError", f"it returns a tuple of {len(outputs)}; expected the loss and its gradient")
    return {"gradient" if np.ndim(_detached(outputs)) else "loss": outputs}


def candidate_subject(candidate, *, name="") -> Subject:
    """A :class:`reference_impl.bug_bank.Candidate`: a loss of batches with a backward pass, such as a planted bug."""
    def call(problem, handed, precision):
        handed, targets, lengths = _as_batch(problem, handed)
        losses, backward = _called(candidate.function, handed, targets, *lengths, blank=problem.blank)
        losses = np.array(losses, dtype=np.float64)
        upstream = np.ones(len(losses)) if problem.upstream is None else np.array(problem.upstream, dtype=np.float64)
        first = _called(backward, upstream.copy())
        kept = np.array(first)
        second = np.array(_called(backward, upstream.copy()))
        _called(backward, 2 * upstream)
        found = {"loss": losses, "gradient": kept, "second_gradient": second, "scores_after": handed,
                 "gradient_after": np.array(first), "targets_after": targets if problem.is_batch else targets[0][None]}
        return found if problem.is_batch else {key: value[0] for key, value in found.items()}

    return Subject(candidate.loss, call, name or getattr(candidate, "name", "candidate"), can=_OF_BATCHES)


def torch_subject(function: Callable, kind: str, *, name="", scores="logits", layout="", twice=True) -> Subject:
    """A torch loss with the usual arguments: ``function(scores, targets, logit_lengths, target_lengths, blank=0)``.

    It returns the losses (B,) or a reduced one, () or (1,); the gradient is autograd's, if they have one. ``layout`` is
    one of ``LAYOUTS``; without ``twice`` there is no second backward pass.
    Targets and lengths are int64, or int32 where that raises.
    """
    import torch

    _check(function, kind)
    layout = layout or next(iter(LAYOUTS[kind]))
    check_choice("layout", layout, tuple(LAYOUTS[kind]))
    axes = LAYOUTS[kind][layout]

    def call(problem, handed, precision):
        handed, targets, lengths = _as_batch(problem, handed)
        dtype = getattr(torch, precision)
        leaf = torch.tensor(handed.transpose(axes).copy(), dtype=dtype, requires_grad=True)
        before = leaf.detach().clone()
        for integers in (torch.int64, torch.int32):
            try:
                given = [torch.tensor(each, dtype=integers) for each in (targets, *lengths)]
                losses = _called(function, leaf, *given, blank=problem.blank)
                break
            except Refused:
                if integers == torch.int32:
                    raise
        losses = _of_utterances(losses, len(handed))
        found = {"loss": losses.detach().double().numpy().copy()}
        if losses.requires_grad:
            found |= gradients(losses, leaf, problem)
        found["scores_after"] = np.where(_back(leaf.detach() == before, axes) | np.isnan(handed), handed,
                                         _back(leaf.detach(), axes))
        found["targets_after"] = given[0].numpy().copy()
        if problem.is_batch:
            return found
        return {key: value[0] if value.ndim else value for key, value in found.items()}

    def gradients(losses, leaf, problem):
        upstream = np.ones(losses.numel()) if problem.upstream is None else np.array(problem.upstream, dtype=np.float64)
        upstream = torch.tensor(upstream if losses.ndim else upstream[0], dtype=losses.dtype)

        def back(factor=1):
            return _called(torch.autograd.grad, losses, leaf, factor * upstream, retain_graph=True)[0]

        first = back()
        kept = first.clone()
        found = {"gradient": _back(kept, axes)}
        if twice:
            found["second_gradient"] = _back(back(), axes)
            back(2)
            found["gradient_after"] = _back(first, axes)
        return found

    return Subject(kind, call, name or getattr(function, "__name__", "loss"), torch.__version__, scores,
                   ("float64", "float32"), _OF_BATCHES, layout)


def _of_utterances(losses, count):
    """What a torch loss returned for so many utterances: a tensor (B,), or () of one number for all of them."""
    import torch

    if isinstance(losses, float | int | np.ndarray | np.generic):
        losses = _called(torch.as_tensor, np.asarray(losses))
    expected = f"({count},), one for each utterance, or one number"
    if not isinstance(losses, torch.Tensor):
        raise Refused("TypeError", f"it returns {type(losses).__name__}; expected a tensor {expected}")
    if losses.numel() == 1:
        return losses.reshape((1,) if count == 1 and losses.ndim else ())
    if losses.shape != (count,):
        raise Refused("ValueError", f"it returns losses of shape {tuple(losses.shape)}; expected {expected}")
    return losses


def _back(tensor, axes):
    """A tensor as an array (B, T, ...)."""
    array = tensor.detach().numpy()
    return (array if array.dtype == bool else array.astype(np.float64)).transpose(np.argsort(axes)).copy()


def _as_batch(problem, scores):
    """Scores, targets and lengths with a batch axis: one utterance is a batch of one."""
    if problem.is_batch:
        return scores, np.array(problem.targets), (np.array(problem.logit_lengths), np.array(problem.target_lengths))
    return (scores[None], np.array(problem.targets, dtype=np.int64)[None],
            (np.array([len(scores)]), np.array([len(problem.targets)])))


def _called(function, *arguments, **named):
    """What a function returns; whatever it raises as a refusal."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **named)
    except (Exception, SystemExit) as error:  # a stranger's code may raise anything
        raise Refused(type(error).__name__, str(error)[:2000]) from error


def _as_arrays(outputs):
    try:
        return {name: np.array(_detached(value), dtype=np.float64) for name, value in outputs.items()
                if value is not None}
    except (TypeError, ValueError, RuntimeError) as error:
        raise Refused(type(error).__name__, f"what it returns is no array of numbers: {str(error)[:200]}") from error


def _detached(value):
    """A tensor as an array; whatever else it is stays."""
    return value.detach().cpu().double().numpy() if hasattr(value, "detach") else value


def _least(outputs):
    """The least exact precision in which something is returned."""
    found = [str(getattr(value, "dtype", "")).removeprefix("torch.") for value in outputs.values()]
    return max((each for each in found if each in PRECISIONS), key=PRECISIONS.index, default=PRECISIONS[0])
