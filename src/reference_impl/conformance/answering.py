"""The side of a loss that is graded through JSON lines: what is asked, what is answered. It grades nothing.

A checker starts a program and writes one JSON object a line to its standard input; the program answers each with one
line on its standard output, in the same order, and ends when its input does. What it writes to standard error is shown
if it fails. Any language will do. Arrays are those of `data/vectors`: ``{"shape": [3, 4], "dtype": "float", "values":
[...]}``, row by row, with the strings "inf", "-inf" and "nan" for what JSON does not have; in answers ``dtype`` may be
left out.

**The first line asks what the loss is**::

    {"id": "about", "ask": "about", "protocol": 1}
    {"id": "about", "name": "my loss", "version": "0.1", "kind": "ctc", "scores": "logits",
     "precisions": ["float32", "float64"], "can": ["batch", "upstream"]}

``kind`` is "ctc" or "rnnt"; ``scores`` is "logits" if the loss takes any scores, and "log_probs" if it wants the output
of a log-softmax. ``precisions`` (float64 if left out) are what it can compute in. ``can`` (nothing if left out) lists
what else it takes and gives:

- "batch": several utterances of several lengths, padded;
- "upstream": the derivative of a total with respect to each utterance's loss, by which its gradient is multiplied;
- "second backward": it gives the gradient of a second backward pass, ``second_gradient``;
- "inputs after": it gives the scores as they are after the call, ``scores_after``, so that what is modified shows;
- "alpha", "beta": it gives ``log_alpha`` and ``log_beta`` of one utterance;
- "fastemit": it takes ``fastemit_lambda``.

**Every other line asks for a loss**::

    {"id": "labels/one-label", "ask": "loss", "precision": "float64",
     "inputs": {"logits": {...}, "targets": {...}, "blank": 0}}
    {"id": "labels/one-label", "outputs": {"loss": 4.177135, "gradient": {...}}}

``inputs`` are those of a case of `data/vectors`: one utterance, or with ``logit_lengths`` and ``target_lengths`` a
batch of B. In place of ``logits`` stand ``log_probs`` if that is what the loss wants; ``upstream`` (B,) and
``fastemit_lambda`` come only where ``can`` says so. ``loss`` is a number, or a list of B, in nats; ``gradient``, of the
shape of the scores, is what the loss hands back for them, whatever the library calls it. Either may be left out if the
loss does not have it. What a loss refuses is answered with what it says::

    {"id": "bad input/label-is-V", "error": {"type": "ValueError", "message": "labels must be in [0, V)"}}
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

from .encoding import decoded, encoded

__all__ = ["CAN", "PROTOCOL", "answer"]

PROTOCOL = 1
#: What a loss may say under ``can``.
CAN = ("batch", "upstream", "second backward", "inputs after", "alpha", "beta", "fastemit")


def answer(loss, *, lines=None, out=None, **about):
    """Answer a checker's lines with a loss written in Python, until they end.

    Parameters
    ----------
    loss : callable
        ``loss(inputs, precision)`` returns a dict of outputs, numbers and arrays, for a dict of inputs: arrays int64
        and float64, a plain number for ``blank`` and ``fastemit_lambda``. What it raises is answered as an error.
    lines, out : text streams
        Standard input and output, unless others are given. What else is printed then goes to standard error.
    **about
        ``name``, ``version``, ``kind``, ``scores``, ``precisions``, ``can``: see above.

    Examples
    --------
    >>> import io
    >>> from reference_impl import rnnt
    >>> def loss(inputs, precision):
    ...     return {"loss": rnnt.loss(inputs["log_probs"], inputs["targets"], blank=inputs["blank"])}
    >>> half = {"shape": [1, 1, 2], "dtype": "float", "values": [-1.0, -1.0]}
    >>> none = {"shape": [0], "dtype": "int", "values": []}
    >>> asked = {"id": "a/b", "ask": "loss", "inputs": {"log_probs": half, "targets": none, "blank": 0}}
    >>> answer(loss, lines=io.StringIO(json.dumps(asked)), out=sys.stdout, kind="rnnt", scores="log_probs")
    {"id": "a/b", "outputs": {"loss": 1.0}}
    """
    lines, out = lines or sys.stdin, out or _standard_output()
    for line in lines:
        if line.strip():
            out.write(json.dumps(_answered(loss, json.loads(line), about), allow_nan=False) + "\n")
            out.flush()


def _standard_output():
    """Standard output for the answers alone: what a library prints there, in C too, goes to standard error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answered(loss, asked, about):
    if asked["ask"] == "about":
        return {"id": asked["id"], **about}
    inputs = {name: decoded(value) if isinstance(value, dict) else value for name, value in asked["inputs"].items()}
    try:
        outputs = loss(inputs, asked.get("precision", "float64"))
        return {"id": asked["id"], "outputs": {name: _as_json(name, value) for name, value in outputs.items()}}
    except Exception as error:  # whatever a library raises is its answer
        return {"id": asked["id"], "error": {"type": type(error).__name__, "message": str(error)[:2000]}}


def _as_json(name, value):
    data = encoded(np.asarray(value, dtype=np.float64))
    if name != "loss":
        return data
    return data["values"] if data["shape"] else data["values"][0]
