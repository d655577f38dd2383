"""Every error about an argument, word by word, raised through public functions; and that none was left out.

A message names the argument, its value and the rule. The wrong kind of thing is a TypeError, a wrong value or shape
a ValueError.
"""

import ast
import traceback
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from reference_impl import _validation, alignment, batched, ctc, hat, lattice_loss, log_softmax, rnnt, second_order
from reference_impl.as_published.ctc_conventions import rescaled_alpha
from reference_impl.decoding import RNNTPrefixScorer
from reference_impl.lattice import Arc, Lattice, arc_posteriors, forward
from reference_impl.semiring import MAX
from reference_impl.topology import (
    ctc_lattice,
    monotonic_rnnt_lattice,
    multi_blank_rnnt_lattice,
    pruned_rnnt_lattice,
    rnnt_lattice,
    tdt_lattice,
)
from reference_impl.torch_impl import (
    arc_rnnt_loss,
    arguments,
    ctc_loss,
    hat_log_probs,
    losses,
    monotonic_rnnt_loss,
    multi_blank_rnnt_loss,
    pruned_rnnt_loss,
    rnnt_loss,
    tdt_loss,
)
from reference_impl.torch_impl.drop_in import torch_ctc
from reference_impl.torch_impl.pruning import first_rows, simple_scores, smoothed_scores

LABELS = np.array([1, 2])
UNIFORM = {"ctc": np.zeros((4, 5)), "rnnt": np.zeros((4, 3, 5))}
TARGETS = np.array([[1, 2], [3, 4], [1, 1]])
FRAMES, COUNTS = np.array([4, 4, 3]), np.array([2, 2, 2])


def with_entry(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


def explicit(kind, scores=None, targets=LABELS, function="loss", **options):
    module = {"ctc": ctc, "rnnt": rnnt}[kind]
    return getattr(module, function)(UNIFORM[kind] if scores is None else scores, targets, **options)


def whole_batch(kind, logits=None, targets=TARGETS, frames=FRAMES, counts=COUNTS, **options):
    function = {"ctc": batched.ctc_loss, "rnnt": batched.rnnt_loss}[kind]
    return function(np.stack([UNIFORM[kind]] * 3) if logits is None else logits, targets, frames, counts, **options)


def by_torch(kind, logits=None, targets=TARGETS, frames=FRAMES, counts=COUNTS, **options):
    function = {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind]
    arguments = [np.stack([UNIFORM[kind]] * 3) if logits is None else logits, targets, frames, counts]
    return function(*(torch.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments), **options)


NO_NAN = "expected no NaN and no +inf (-inf masks an entry)"

CASES = [  # call, type, message
    # scores of one utterance
    (lambda: explicit("ctc", np.zeros((4, 5), int)), TypeError,
     "log_probs has dtype int64; expected float16 or float32 or float64"),
    (lambda: explicit("rnnt", np.zeros((4, 3, 5), complex)), TypeError,
     "log_probs has dtype complex128; expected float16 or float32 or float64"),
    (lambda: explicit("ctc", np.zeros((4, 3, 5))), ValueError, "log_probs has shape (4, 3, 5); expected 2 axes (T, V)"),
    (lambda: explicit("rnnt", np.zeros((4, 5))), ValueError, "log_probs has shape (4, 5); expected 3 axes (T, U+1, V)"),
    (lambda: explicit("ctc", with_entry(UNIFORM["ctc"], (1, 2), np.nan)), ValueError,
     f"log_probs[1, 2] = nan; {NO_NAN}"),
    (lambda: explicit("rnnt", with_entry(UNIFORM["rnnt"], (3, 0, 4), np.inf)), ValueError,
     f"log_probs[3, 0, 4] = inf; {NO_NAN}"),
    (lambda: explicit("ctc", np.zeros((4, 0))), ValueError, "V = 0; expected V >= 1"),
    (lambda: explicit("rnnt", np.zeros((0, 3, 5))), ValueError, "T = 0; expected T >= 1"),
    (lambda: explicit("rnnt", np.zeros((4, 2, 5))), ValueError,
     "log_probs has 2 rows on its U+1 axis; expected U + 1 = 3, one more than the 2 columns of targets"),
    (lambda: log_softmax(np.array([0, 1])), TypeError,
     "logits has dtype int64; expected float16 or float32 or float64"),
    (lambda: log_softmax(np.float64(0.0)), ValueError, "logits has shape (); expected 1 axis (..., V)"),
    (lambda: log_softmax(np.zeros((2, 0))), ValueError, "V = 0; expected V >= 1"),
    (lambda: log_softmax([[0.0, np.nan]]), ValueError, f"logits[0, 1] = nan; {NO_NAN}"),
    # a semiring for posteriors
    (lambda: arc_posteriors(Lattice((0, 1), (Arc(0, 1),), ()), np.zeros(1), MAX), ValueError,
     "semiring = 'max', which has no division; expected one with a ratio, such as LOG or REAL"),
    # targets and blank of one utterance
    (lambda: explicit("ctc", targets=np.array([1.0])), TypeError, "targets has dtype float64; expected int32 or int64"),
    (lambda: explicit("rnnt", targets=np.array([1, 2], np.uint8)), TypeError,
     "targets has dtype uint8; expected int32 or int64"),
    (lambda: explicit("ctc", targets=TARGETS), ValueError, "targets has shape (3, 2); expected 1 axis (U,)"),
    (lambda: explicit("ctc", targets=[1, 5]), ValueError, "targets[1] = 5; expected 0 <= label < V = 5"),
    (lambda: explicit("rnnt", targets=[-1, 2]), ValueError, "targets[0] = -1; expected 0 <= label < V = 5"),
    (lambda: explicit("ctc", targets=[1, 0]), ValueError, "targets[1] = 0; expected a label other than blank = 0"),
    (lambda: explicit("rnnt", blank=2), ValueError, "targets[1] = 2; expected a label other than blank = 2"),
    (lambda: explicit("ctc", blank=5), ValueError, "blank = 5; expected 0 <= blank < V = 5"),
    (lambda: explicit("rnnt", blank=-1), ValueError, "blank = -1; expected 0 <= blank < V = 5"),
    (lambda: explicit("ctc", blank=True), TypeError, "blank = True; expected an integer"),
    (lambda: explicit("ctc", blank=1.0), TypeError, "blank = 1.0; expected an integer"),
    (lambda: explicit("rnnt", blank=None), TypeError, "blank = None; expected an integer"),
    # a batch in NumPy
    (lambda: whole_batch("ctc", np.zeros((3, 4, 5), np.int32)), TypeError,
     "logits has dtype int32; expected float16 or float32 or float64"),
    (lambda: whole_batch("ctc", with_entry(np.zeros((3, 4, 5)), (2, 1, 4), np.nan)), ValueError,
     f"logits[2, 1, 4] = nan; {NO_NAN}"),
    (lambda: whole_batch("rnnt", with_entry(np.zeros((3, 4, 3, 5)), (2, 2, 1, 0), np.inf)), ValueError,
     f"logits[2, 2, 1, 0] = inf; {NO_NAN}"),
    # a (B, T, V) tensor for (T, B, V) and other mistakes of shape
    (lambda: by_torch("ctc", np.zeros((4, 3, 5))), ValueError,
     "targets has shape (3, 2); expected B = 4 first, as in logits with shape (4, 3, 5) (batch first)"),
    # torch alone
    (lambda: by_torch("ctc", [[0.0]]), TypeError, "logits is a list; expected a torch.Tensor"),
    (lambda: by_torch("rnnt", counts=(2, 2, 2)), TypeError, "target_lengths is a tuple; expected a torch.Tensor"),
    (lambda: by_torch("ctc", np.zeros((3, 4, 5), int)), TypeError,
     "logits has dtype torch.int64; expected torch.float16 or torch.bfloat16 or torch.float32 or torch.float64"),
    (lambda: by_torch("ctc", targets=TARGETS.astype(float)), TypeError,
     "targets has dtype torch.float64; expected torch.int32 or torch.int64"),
    (lambda: by_torch("rnnt", frames=FRAMES.astype(np.int16)), TypeError,
     "logit_lengths has dtype torch.int16; expected torch.int32 or torch.int64"),
    (lambda: by_torch("ctc", targets=torch.zeros(3, 2, dtype=torch.int64, device="meta")), ValueError,
     "targets is on meta; expected cpu, the device of logits, or cpu"),
    (lambda: by_torch("ctc", reduction="average"), ValueError,
     "reduction = 'average'; expected one of 'none', 'sum', 'mean'"),
    (lambda: by_torch("rnnt", inputs="probs"), ValueError, "inputs = 'probs'; expected one of 'logits', 'log_probs'"),
    (lambda: by_torch("rnnt", fastemit_lambda=-0.5), ValueError,
     "fastemit_lambda = -0.5; expected a finite number >= 0"),
    (lambda: by_torch("rnnt", fastemit_lambda=np.nan), ValueError,
     "fastemit_lambda = nan; expected a finite number >= 0"),
    (lambda: by_torch("rnnt", fastemit_lambda="0.1"), TypeError, "fastemit_lambda = '0.1'; expected a number"),
    (lambda: explicit("rnnt", function="grad_logits", fastemit_lambda=np.inf), ValueError,
     "fastemit_lambda = inf; expected a finite number >= 0"),
    (lambda: explicit("rnnt", function="grad_log_probs", fastemit_lambda=True), TypeError,
     "fastemit_lambda = True; expected a number"),
    (lambda: by_torch("rnnt", clamp=0), ValueError, "clamp = 0; expected a finite number > 0, or None"),
    (lambda: by_torch("rnnt", clamp=-1.0), ValueError, "clamp = -1.0; expected a finite number > 0, or None"),
    (lambda: rescaled_alpha(np.array([[0.5, -0.5]]), [1]), ValueError,
     "probs[0, 1] = -0.5; expected a finite number >= 0"),
    # lattices
    (lambda: monotonic_rnnt_lattice([1], 0, 3), ValueError, "num_frames = 0; expected num_frames >= 1"),
    (lambda: monotonic_rnnt_lattice([0], 1, 3), ValueError, "targets[0] = 0; expected a label other than blank = 0"),
    (lambda: rnnt_lattice([1], 0, 3), ValueError, "num_frames = 0; expected num_frames >= 1"),
    (lambda: rnnt_lattice([1], 2.0, 3), TypeError, "num_frames = 2.0; expected an integer"),
    (lambda: ctc_lattice([3], 2, 3), ValueError, "targets[0] = 3; expected 0 <= label < V = 3"),
    (lambda: ctc_lattice([1], 2, 0), ValueError, "V = 0; expected V >= 1"),
    (lambda: Lattice(("alone",), (), ()), ValueError, "nodes has length 1; expected a start and an end node at least"),
    (lambda: Lattice((0, 1, 2), (Arc(0, 1), Arc(2, 1)), ()), ValueError,
     "arcs[1] = (2, 1); expected 0 <= source < target < 3"),
    (lambda: Lattice((0, 1), (Arc(0, 2),), ()), ValueError, "arcs[0] = (0, 2); expected 0 <= source < target < 2"),
    (lambda: Lattice((0, 1), (Arc(-1, 1),), ()), ValueError, "arcs[0] = (-1, 1); expected 0 <= source < target < 2"),
    (lambda: Lattice((0, 1), (Arc(0, 1, (2, 0)),), (2, 3)), ValueError,
     "arcs[0] = (2, 0); expected an entry inside shape (2, 3)"),
    (lambda: Lattice((0, 1), (Arc(0, 1, (1,)),), (2, 3)), ValueError,
     "arcs[0] = (1,); expected an entry inside shape (2, 3)"),
    (lambda: forward(Lattice((0, 1), (Arc(0, 1),), ()), np.zeros(2)), ValueError,
     "weights has shape (2,); expected (1,)"),
    (lambda: ctc_lattice([1], 2, 3).arc_weights(np.zeros((2, 4))), ValueError,
     "log_probs has shape (2, 4); expected (2, 3)"),
]
CASES += [  # the same in NumPy and torch, for both losses
    (lambda call=call, kind=kind, options=options: call(kind, **options), error, message.format(**names))
    for call in (whole_batch, by_torch)
    for kind, names in [("ctc", {"axes": "3 axes (B, T, V)", "shape": "(3, 4, 5)", "least": 0}),
                        ("rnnt", {"axes": "4 axes (B, T, U+1, V)", "shape": "(3, 4, 3, 5)", "least": 1})]
    for options, error, message in [
        ({"logits": np.zeros((4, 5))}, ValueError, "logits has shape (4, 5); expected {axes}"),
        ({"targets": LABELS}, ValueError, "targets has shape (2,); expected 2 axes (B, U)"),
        ({"frames": np.array([[4, 4, 3]])}, ValueError, "logit_lengths has shape (1, 3); expected 1 axis (B,)"),
        ({"counts": np.array(2)}, ValueError, "target_lengths has shape (); expected 1 axis (B,)"),
        ({"targets": TARGETS[:2]}, ValueError,
         "targets has shape (2, 2); expected B = 3 first, as in logits with shape {shape} (batch first)"),
        ({"frames": FRAMES[:1]}, ValueError,
         "logit_lengths has shape (1,); expected B = 3 first, as in logits with shape {shape} (batch first)"),
        ({"counts": np.append(COUNTS, 1)}, ValueError,
         "target_lengths has shape (4,); expected B = 3 first, as in logits with shape {shape} (batch first)"),
        ({"targets": with_entry(TARGETS, (1, 1), 7)}, ValueError, "targets[1, 1] = 7; expected 0 <= label < V = 5"),
        ({"targets": with_entry(TARGETS, (2, 0), 0)}, ValueError,
         "targets[2, 0] = 0; expected a label other than blank = 0"),
        ({"frames": np.array([4, 5, 3])}, ValueError, "logit_lengths[1] = 5; expected {least} <= length <= T = 4"),
        ({"frames": np.array([4, 4, -1])}, ValueError, "logit_lengths[2] = -1; expected {least} <= length <= T = 4"),
        ({"counts": np.array([3, 2, 2])}, ValueError, "target_lengths[0] = 3; expected 0 <= length <= U = 2"),
        ({"counts": np.array([2, -1, 2])}, ValueError, "target_lengths[1] = -1; expected 0 <= length <= U = 2"),
        ({"blank": 5}, ValueError, "blank = 5; expected 0 <= blank < V = 5"),
        ({"blank": "0"}, TypeError, "blank = '0'; expected an integer"),
    ]
]
CASES += [
    (lambda call=call, options=options: call("rnnt", **options), ValueError, message)
    for call in (whole_batch, by_torch)
    for options, message in [
        ({"frames": np.array([4, 0, 3])}, "logit_lengths[1] = 0; expected 1 <= length <= T = 4"),
        ({"logits": np.zeros((3, 0, 3, 5))}, "T = 0; expected T >= 1"),
        ({"logits": np.zeros((3, 4, 2, 5))},
         "logits has 2 rows on its U+1 axis; expected U + 1 = 3, one more than the 2 columns of targets"),
    ]
]


def where_triton(installed, call):
    """As if triton were installed, or not, and its interpreter not asked for."""
    with (patch.object(losses, "_has_triton", lambda: installed),
          patch.object(losses, "_interprets_triton", lambda: False)):
        return call()


def variant(function, logits=None, *before, targets=TARGETS, frames=FRAMES, counts=COUNTS, **options):
    """A relative of RNN-T: ``before`` comes between logits and targets."""
    logits = np.stack([UNIFORM["rnnt"]] * 3) if logits is None else logits
    tensors = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in (logits, *before, targets, frames, counts)]
    return function(*tensors, **options)


def by_arcs(blanks=None, labels=None, frames=FRAMES, counts=COUNTS, rows=None, label_frames=0):
    """A loss of arcs, or with ``rows`` the band that they choose."""
    blanks = torch.zeros(3, 4, 3) if blanks is None else blanks
    labels = torch.zeros(3, 4, 2) if labels is None else labels
    lengths = torch.tensor(frames), torch.tensor(counts)
    if rows is None:
        return arc_rnnt_loss(blanks, labels, *lengths, label_frames=label_frames)
    return first_rows(blanks, labels, *lengths, rows, label_frames=label_frames)


BOTH = torch.zeros(3, 4, 5)
BAND, FIRST = np.zeros((3, 4, 2, 5)), np.array([[0, 0, 1, 1]] * 3)
DURATION_LOGITS = np.zeros((3, 4, 3, 2))
CASES += [
    (lambda call=call, options=options: call(**options), ValueError, message)
    for call in (lambda **options: variant(monotonic_rnnt_loss, **options),
                 lambda **options: variant(multi_blank_rnnt_loss, big_blanks={4: 2}, **options),
                 lambda **options: variant(tdt_loss, None, DURATION_LOGITS, durations=[0, 1], **options),
                 lambda **options: variant(pruned_rnnt_loss, BAND, FIRST, **options))
    for options, message in [
        ({"frames": np.array([4, 0, 3])}, "logit_lengths[1] = 0; expected 1 <= length <= T = 4"),
        ({"targets": with_entry(TARGETS, (1, 1), 7)}, "targets[1, 1] = 7; expected 0 <= label < V = 5"),
        ({"targets": with_entry(TARGETS, (2, 0), 0)}, "targets[2, 0] = 0; expected a label other than blank = 0"),
        ({"blank": 5}, "blank = 5; expected 0 <= blank < V = 5"),
        ({"reduction": "average"}, "reduction = 'average'; expected one of 'none', 'sum', 'mean'"),
        ({"inputs": "probs"}, "inputs = 'probs'; expected one of 'logits', 'log_probs'"),
    ]
]
CASES += [
    (lambda: variant(monotonic_rnnt_loss, np.zeros((3, 4, 2, 5))), ValueError,
     "logits has 2 rows on its U+1 axis; expected U + 1 = 3, one more than the 2 columns of targets"),
    (lambda: variant(multi_blank_rnnt_loss, big_blanks=[4]), TypeError,
     "big_blanks = [4]; expected a mapping from symbols to frames"),
    (lambda: variant(multi_blank_rnnt_loss, big_blanks={5: 2}), ValueError,
     "big_blanks = 5; expected 0 <= symbol < V = 5, and not blank = 0"),
    (lambda: variant(multi_blank_rnnt_loss, big_blanks={0: 2}), ValueError,
     "big_blanks = 0; expected 0 <= symbol < V = 5, and not blank = 0"),
    (lambda: variant(multi_blank_rnnt_loss, big_blanks={4: 1}), ValueError,
     "big_blanks[4] = 1; expected big_blanks[4] >= 2"),
    (lambda: variant(multi_blank_rnnt_loss, big_blanks={1: 2}), ValueError,
     "targets[0, 0] = 1; expected a label other than blank = 1"),
    (lambda: multi_blank_rnnt_lattice([1], 2, 3, big_blanks={1: 2}), ValueError,
     "targets[0] = 1; expected a label other than blank = 1"),
    (lambda: variant(multi_blank_rnnt_loss, big_blanks={4: 2}, sigma=-1), ValueError,
     "sigma = -1; expected a finite number >= 0"),
    *((lambda durations=durations: variant(tdt_loss, None, DURATION_LOGITS, durations=durations), ValueError,
       f"durations = {durations}; expected frames in rising order, none below 0 and one above 0")
      for durations in [(), (0,), (-1, 1), (1, 0), (1, 1)]),
    (lambda: variant(tdt_loss, None, DURATION_LOGITS, durations=[0, 1.5]), TypeError,
     "durations[1] = 1.5; expected an integer"),
    (lambda: tdt_lattice([1], 2, 3, durations=[2, 1]), ValueError,
     "durations = (2, 1); expected frames in rising order, none below 0 and one above 0"),
    (lambda: variant(tdt_loss, None, DURATION_LOGITS, durations=[0, 1, 2]), ValueError,
     "duration_logits has shape (3, 4, 3, 2); expected (3, 4, 3, 3): as logits, and D, the number of durations"),
    (lambda: variant(tdt_loss, None, DURATION_LOGITS.astype(np.float32), durations=[0, 1]), ValueError,
     "duration_logits has dtype torch.float32 on cpu; expected torch.float64 on cpu, like the other scores"),
    (lambda: variant(tdt_loss, None, [0.0], durations=[0, 1]), TypeError,
     "duration_logits is a list; expected a torch.Tensor"),
    (lambda: variant(pruned_rnnt_loss, np.zeros((3, 4, 4, 5)), FIRST), ValueError,
     "Q = 4; expected 1 <= Q <= U + 1 = 3 rows"),
    (lambda: variant(pruned_rnnt_loss, BAND, FIRST[:, :3]), ValueError,
     "first_rows has shape (3, 3); expected (B, T) = (3, 4), as in logits with shape (3, 4, 2, 5)"),
    (lambda: variant(pruned_rnnt_loss, BAND, with_entry(FIRST, (1, 2), 2)), ValueError,
     "first_rows[1, 2] = 2; expected 0 <= row <= U + 1 - Q = 1"),
    (lambda: variant(pruned_rnnt_loss, BAND, with_entry(FIRST, (1, 2), -1)), ValueError,
     "first_rows[1, 2] = -1; expected 0 <= row <= U + 1 - Q = 1"),
    (lambda: variant(pruned_rnnt_loss, BAND, FIRST * 1.0), TypeError,
     "first_rows has dtype torch.float64; expected torch.int32 or torch.int64"),
    (lambda: variant(pruned_rnnt_loss, BAND, FIRST, label_frames=2), ValueError,
     "label_frames = 2; expected one of 0, 1"),
    *((lambda change=change: by_arcs(**change), ValueError, message) for change, message in [
        ({"labels": torch.zeros(3, 4, 3)},
         "label_scores has shape (3, 4, 3); expected (3, 4, 2): one column less"),
        ({"labels": torch.zeros(3, 4, 2).double()},
         "label_scores has dtype torch.float64 on cpu; expected torch.float32 on cpu, like the other scores"),
        ({"frames": FRAMES[:2]}, "logit_lengths has shape (2,); expected B = 3 first, as in blank_scores"),
        ({"frames": np.array([4, 0, 3])}, "logit_lengths[1] = 0; expected 1 <= length <= T = 4"),
        ({"counts": np.array([2, 3, 3])}, "target_lengths[1] = 3; expected 0 <= length <= U = 2"),
        ({"blanks": torch.zeros(3, 0, 3), "labels": torch.zeros(3, 0, 2)}, "T = 0; expected T >= 1"),
        ({"blanks": torch.zeros(3, 4, 0)}, "U + 1 = 0; expected U + 1 >= 1"),
        ({"label_frames": 2}, "label_frames = 2; expected one of 0, 1"),
        ({"rows": 1, "label_frames": 0}, "num_rows = 1; expected num_rows >= 2"),
        ({"rows": 0, "label_frames": 1}, "num_rows = 0; expected num_rows >= 1"),
        ({"rows": 4}, "Q = 4; expected 1 <= Q <= U + 1 = 3 rows"),
    ]),
    (lambda: simple_scores(BOTH, BOTH[:, :2], torch.tensor(TARGETS)), ValueError,
     "predictions has shape (3, 2, 5); expected (3, 3, 5): B and V as encodings, and U + 1 rows"),
    (lambda: simple_scores(BOTH, BOTH[:, :3], torch.tensor(TARGETS[:2])), ValueError,
     "targets has shape (2, 2); expected B = 3 first, as in encodings"),
    (lambda: smoothed_scores(BOTH, BOTH[:, :3], torch.tensor(TARGETS), encoding_scale=-1), ValueError,
     "encoding_scale = -1; expected a finite number >= 0"),
    (lambda: hat_log_probs(torch.zeros(3, 1)), ValueError, "V = 1; expected V >= 2"),
    (lambda: hat.log_probs(np.zeros((3, 1))), ValueError, "V = 1; expected V >= 2"),
    (lambda: hat.log_probs(np.zeros(3), blank=3), ValueError, "blank = 3; expected 0 <= blank < V = 3"),
    (lambda: pruned_rnnt_lattice([1], [0, -1], 2, 3), ValueError, "first_rows[1] = -1; expected first_rows[1] >= 0"),
    (lambda: pruned_rnnt_lattice([1], [0, 0], 0, 3), ValueError, "num_rows = 0; expected num_rows >= 1"),
    (lambda: second_order.hvp_logits(rnnt_lattice([1], 2, 3), np.zeros((2, 2, 3)), np.zeros((2, 3))), ValueError,
     "direction has shape (2, 3); expected (2, 2, 3)"),
    (lambda: second_order.hvp_log_probs(rnnt_lattice([1], 2, 3), np.zeros((2, 2, 3)), np.full((2, 2, 3), np.inf)),
     ValueError, "direction[0, 0, 0] = inf; expected a finite number"),
    (lambda: second_order.expectation(rnnt_lattice([1], 2, 3), np.zeros((2, 2, 3)), np.full((2, 2, 3), "1")),
     TypeError, "values has dtype <U1; expected real numbers"),
    (lambda: lattice_loss.grad_logits(rnnt_lattice([1], 2, 3), np.zeros((2, 2, 3)), groups=(2, 2)), ValueError,
     "groups = (2, 2); expected sizes that add up to the last axis, 3"),
    (lambda: lattice_loss.loss(rnnt_lattice([1], 2, 3), np.zeros((2, 3))), ValueError,
     "log_probs has shape (2, 3); expected 3 axes (2, 2, 3)"),
]

FOUR_FRAMES = np.zeros((4, 3))


def stars(words, **options):
    return alignment.star_best_path(FOUR_FRAMES, words, **{"star_score": -1.0, "skip_cost": 1.0} | options)


def in_a_band(first_labels):
    return alignment.long_ctc_best_path(FOUR_FRAMES, [1, 2], first_labels=first_labels, num_labels=1)


CASES += [  # alignments
    (lambda: alignment.ctc_best_path(FOUR_FRAMES, [1, 1, 2, 2]), alignment.NoAlignment,
     "log_probs has T = 4 frames; expected T >= U + R = 6, for U = 4 labels of which R = 2 equal the one before"),
    (lambda: alignment.word_spans([0, 2], [1, 3], [2, 0]), ValueError,
     "word_lengths[1] = 0; expected word_lengths >= 1"),
    (lambda: alignment.word_spans([0, 2], [1, 3], [1]), ValueError,
     "word_lengths = [1] with the sum 1; expected the sum U = 2"),
    (lambda: alignment.ctc_span_posteriors(FOUR_FRAMES, [1], [0], [4]), ValueError,
     "last[0] = 4; expected 0 <= frame < T = 4"),
    (lambda: alignment.ctc_span_posteriors(FOUR_FRAMES, [1], [2], [1]), ValueError,
     "last[0] = 1; expected last >= first = 2"),
    (lambda: alignment.long_ctc_posteriors(FOUR_FRAMES, [1, 2], [2, 0], [2, 3]), ValueError,
     "first[1] = 0; expected no less than the frame before it, 2"),
    (lambda: alignment.median_frame([[0.5, 0.5], [0.5, 0.4]]), ValueError,
     "distribution[1] = a row with the sum 0.9; expected a row with the sum 1"),
    (lambda: alignment.median_frame([1.5, -0.5]), ValueError, "distribution[1] = -0.5; expected probabilities >= 0"),
    (lambda: alignment.median_frame(np.zeros((2, 0))), ValueError,
     "distribution has shape (2, 0); expected (..., T) with T >= 1"),
    (lambda: in_a_band([0, 0, 1, 3]), ValueError, "first_labels[3] = 3; expected 0 <= first_labels <= U = 2"),
    (lambda: in_a_band([0, 1, 0, 1]), ValueError, "first_labels[2] = 0; expected no less than in the frame before, 1"),
    (lambda: stars([[1], []]), ValueError, "words[1] = []; expected at least one label in each word"),
    (lambda: stars([[1, 0]]), ValueError, "words[0, 1] = 0; expected 0 <= label < V = 3, and not blank = 0"),
    (lambda: stars([[3]]), ValueError, "words[0, 0] = 3; expected 0 <= label < V = 3, and not blank = 0"),
    (lambda: stars([[1]], stars=[1, 0]), TypeError, "stars has dtype int64; expected bool"),
    (lambda: stars([[1]], stars=[True]), ValueError, "stars has shape (1,); expected (2,)"),
    (lambda: stars([[1]], star_score=-np.inf), ValueError, "star_score = -inf; expected a finite number, or None"),
    (lambda: stars([[1]], skip_cost="1"), TypeError, "skip_cost = '1'; expected a number"),
]

LOGITS = torch.zeros(3, 4, 5, requires_grad=True)
CASES += [
    (lambda: by_torch("ctc", validate="never"), ValueError, "validate = 'never'; expected one of 'auto', True, False"),
    (lambda: by_torch("rnnt", validate=None), ValueError, "validate = None; expected one of 'auto', True, False"),
    (lambda: variant(monotonic_rnnt_loss, validate=2), ValueError, "validate = 2; expected one of 'auto', True, False"),
    (lambda: by_torch("rnnt", zero_infinity="False"), TypeError, "zero_infinity = 'False'; expected True or False"),
    (lambda: by_torch("ctc", overwrite_logits=1), TypeError, "overwrite_logits = 1; expected True or False"),
    (lambda: by_torch("ctc", LOGITS, overwrite_logits=True), ValueError,
     "overwrite_logits = True and logits is a leaf; expected the output of an operation, whose memory nobody else "
     "looks at"),
    (lambda: by_torch("ctc", (LOGITS[:1] * 1.0).expand(3, 4, 5), overwrite_logits=True), ValueError,
     "overwrite_logits = True and logits, of shape (3, 4, 5), has strides (0, 5, 1); expected elements that share no "
     "memory"),
    (lambda: where_triton(False, lambda: by_torch("ctc", backend="triton")), ValueError,
     "backend = 'triton'; expected 'auto' or 'torch', for triton >= 3.3 is not installed"),
    (lambda: where_triton(True, lambda: by_torch("ctc", backend="triton")), ValueError,
     "backend = 'triton'; expected 'auto' or 'torch' for logits on cpu, unless TRITON_INTERPRET=1 is set before triton "
     "is imported"),
    (lambda: RNNTPrefixScorer(lambda labels: np.array([[0.0], [2.0]])).start(), ValueError,
     "log-sum-exp of row(())[1] = 2.0; expected at most 0, as of log-probs"),
    (lambda: torch_ctc.ctc_loss(LOGITS, *[torch.ones(4, 1).long()] * 3, zero_infinity=1), TypeError,
     "zero_infinity = 1; expected True or False"),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[message for *_, message in CASES])
def test_message(call, error, message):
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        call()
    assert (type(caught.value), str(caught.value)) == (error, message)


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize("function", ["log_alpha", "log_beta", "loss", "occupancy", "grad_log_probs", "grad_logits"])
def test_every_explicit_function_checks(kind, function):
    """The argument is called what the function calls it."""
    name = "logits" if function == "grad_logits" else "log_probs"
    with pytest.raises(TypeError, match=f"^{name} has dtype int64"):
        explicit(kind, UNIFORM[kind].astype(int), function=function)
    with pytest.raises(ValueError, match="^targets"):
        explicit(kind, targets=[1, 0], function=function)


def test_backends_are_named():
    """The list of backends grows; the message names them all."""
    with pytest.raises(ValueError, match="^backend = 'cuda'; expected one of 'auto', 'torch', 'triton'"):
        by_torch("ctc", backend="cuda")


def test_validate_false_still_checks_shapes():
    """Only what would make a GPU wait is skipped."""
    with pytest.raises(ValueError, match="batch first"):
        by_torch("ctc", np.zeros((4, 3, 5)), validate=False)
    with pytest.raises(TypeError, match="targets has dtype torch.float64"):
        by_torch("rnnt", targets=TARGETS.astype(float), validate=False)


@pytest.mark.parametrize("module", [_validation, losses, arguments])
def test_no_rule_is_left_out(module):
    """Each statement of the module that raises is reached by one of the cases above."""
    path = Path(module.__file__)
    reached = set()
    for call, error, _ in CASES:
        try:
            call()
        except error as raised:
            frames = traceback.extract_tb(raised.__traceback__)
            reached |= {frame.lineno for frame in frames if Path(frame.filename) == path}
    raising = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise)
               or isinstance(node, ast.Expr) and ast.unparse(node).startswith("_fail(")]
    assert raising
    missed = [ast.unparse(node) for node in raising if not reached & set(range(node.lineno, node.end_lineno + 1))]
    assert missed == []
