"""What libraries answered in direct calls, as stored in data/calls, against enumeration. No test here asks a library.

`peers/calls.py` makes the files. Each answer has a check here, says what a claim of data/claims.json says, and is
named by that claim. A check looks at every number that a library returned: changed ones are noticed.
"""

import copy
import json
import operator
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from enumeration import (
    collapse,
    ctc_alignments,
    loss_and_grad_logits,
    loss_and_occupancy,
    rnnt_alpha,
    rnnt_beta,
    softmax,
)
from strings_by_enumeration import ctc_strings

from reference_impl.alignment import ctc_best_path
from reference_impl.as_published.rnnt_formulas import fused_kernel
from reference_impl.ctc import extended_targets
from reference_impl.lattice import enumerate_paths
from reference_impl.topology import tdt_lattice

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "peers"))
import calls  # noqa: E402
import environments  # noqa: E402

FILES = {path.stem: json.loads(path.read_text(encoding="utf-8"))
         for path in sorted((ROOT / "data" / "calls").glob("*.json"))}
CLAIMS = json.loads((ROOT / "data" / "claims.json").read_text(encoding="utf-8"))["claims"]
PORTS, K2 = ("nemo", "warprnnt_numba"), ("k2", "fast_rnnt")
CHECKS = {}


def judges(question, *libraries):
    """A check of an answer: ``check(returned)``, or ``check(returned, library)`` where libraries differ."""
    def keep(check):
        for library in libraries:
            takes_library = check.__code__.co_argcount == 2
            CHECKS[library, question] = partial(check, library=library) if takes_library else check
        return check
    return keep


def array(value):
    return np.array(value, dtype=float)


def same(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(array(found), array(expected), rtol=tolerance, atol=tolerance)


def log_softmax(logits):
    return np.log(softmax(array(logits)))


# --- k2 and fast_rnnt: arrays px (S, T + 1) or (S, T), and py (S + 1, T) ---


def walks(px, py, end=None):
    """Every path from (0, 0) to a node (s, t), as lists of (which array, s, t) with the node of its end."""
    stay = px.shape[1] > py.shape[1]
    end = end or (len(py) - 1, py.shape[1])

    def onwards(s, t, path):
        if (s, t) == end:
            yield path
            return
        if s < end[0] and t < px.shape[1] and t + (not stay) <= end[1]:
            yield from onwards(s + 1, t + (not stay), [*path, (0, s, t)])
        if t < end[1]:
            yield from onwards(s, t + 1, [*path, (1, s, t)])

    return list(onwards(0, 0, []))


def weight(px, py, path):
    return np.exp(sum((px, py)[which][s, t] for which, s, t in path))


def score(px, py, end=None):
    with np.errstate(divide="ignore"):
        return np.log(sum(weight(px, py, path) for path in walks(px, py, end)))


def posteriors(px, py):
    total, found = np.exp(score(px, py)), [np.zeros_like(px), np.zeros_like(py)]
    for path in walks(px, py):
        for which, s, t in path:
            found[which][s, t] += weight(px, py, path) / total
    return found


def px_py(log_probs, targets, kind="regular"):
    """The two arrays of log-probs (T, S + 1, V), by the type."""
    px = np.array([log_probs[:, s, label] for s, label in enumerate(targets)])
    py = log_probs[:, :, 0].T
    if kind == "regular":
        px = np.concatenate([px, np.full((len(targets), 1), -np.inf)], axis=1)
    return px + py[1:] if kind == "constrained" else px, py


@judges("p", "k2")
def _(returned):
    for answer, columns in ((returned["one_column_more"], 4), (returned["as_many_columns"], 3)):
        px, py = array(answer["px"])[0], array(answer["py"])[0]
        assert px.shape == (2, columns) and py.shape == (3, 3)
        same(answer["p"], [[[score(px, py, (s, t)) for t in range(4)] for s in range(3)]])
        same(answer["score"], [score(px, py)])


@judges("returned-gradients", *K2)
def _(returned, library):
    for kind in ("regular", "modified"):
        answer = returned[kind]
        px, py = array(answer["px"])[0], array(answer["py"])[0]
        same(answer["score"], [score(px, py)])
        for number, expected in enumerate(posteriors(px, py)):
            same(answer["returned"][number], [expected])
            same(answer["backward"][number], [2 * expected])
            same(answer["after_backward"][number], [(2 if library == "fast_rnnt" else 1) * expected])


@judges("nan-in-the-blank", *K2)
def _(returned):
    px, py = array(returned["px"])[0], array(returned["py"])[0]
    same(returned["score"], [score(px, py)])
    py[1, 1] = -np.inf  # as if that arc were not there
    same(returned["score_with_a_nan"], [score(px, py)])


def guarded(px, py):
    """The gradient if a total that is not finite is replaced by 0, and both shares are 0 if the first is not finite."""
    delta = int(px.shape[1] == py.shape[1])
    S, T = len(px), py.shape[1]
    p = np.array([[score(px, py, (s, t)) for t in range(T + 1)] for s in range(S + 1)])
    received, found = np.zeros_like(p), [np.zeros_like(px), np.zeros_like(py)]
    received[S, T] = 1
    for s in range(S, -1, -1):
        for t in range(T, -1, -1):
            by_label, by_blank = s > 0 and t >= delta, t > 0
            total = p[s, t] if np.isfinite(p[s, t]) else 0.0
            first = np.exp(p[s - 1, t - delta] + px[s - 1, t - delta] - total) if by_label else 0.0
            second = 1 - first if by_blank else 0.0
            first = 1.0 if by_label and not by_blank else first
            if not np.isfinite(first):
                first = second = 0.0
            if by_label:
                found[0][s - 1, t - delta] += received[s, t] * first
                received[s - 1, t - delta] += received[s, t] * first
            if by_blank:
                found[1][s, t - 1] += received[s, t] * second
                received[s, t - 1] += received[s, t] * second
    return found, received[0, 0]


@judges("no-path", *K2)
def _(returned):
    for kind, columns in (("regular", 4), ("modified", 3)):
        answer = returned[kind]
        px, py = np.full((2, columns), -np.inf), np.zeros((3, 3))  # p is the same for any other finite scores
        px[1, :3] = 0
        expected, at_the_first = guarded(px, py)
        assert answer["score"] == ["-inf"] and answer["printed_with_paths"] == ""
        for number in (0, 1):
            same(answer["returned"][number], [expected[number]])
        assert np.isfinite(expected[1]).all() and expected[1].any()
        said = answer["printed"]
        if at_the_first == 1:
            assert kind == "regular" and said == ""
        else:
            words, _, numbers = said.rpartition(":")
            assert kind == "modified" and words == (
                "Warning: mutual_information backprop: expected these numbers to be the same")
            assert [float(each) for each in numbers.split("vs")] == [at_the_first, 1] == [0, 1]


@judges("arrays-of-a-type", "k2")
def _(returned):
    log_probs, targets = log_softmax(returned["logits"]), returned["targets"]
    for kind in ("regular", "modified", "constrained"):
        px, py = px_py(log_probs, targets, kind)
        answer = returned[kind]
        same(answer["returned_px"], [px])
        same(answer["returned_py"], [py])
        assert len(px[0]) == (4 if kind == "regular" else 3)
        assert (array(answer["returned_px"])[0, :, 3:] == -np.inf).all()
        same(answer["score"], [score(px, py)])
        same(answer["loss"], [-score(px, py)])
    assert returned["another"] == "AssertionError: other"


@judges("simple", "k2")
def _(returned):
    same(returned["simple"], returned["of_the_sums"])


@judges("smoothed", "k2")
def _(returned):
    am, lm = array(returned["am"]), array(returned["lm"])
    joint, alone = log_softmax(am[:, :, None] + lm[:, None]), log_softmax(lm)
    unigram = np.log(np.exp(alone).mean(axis=(0, 1)))  # over the batch and all rows
    mixed = 0.625 * joint + 0.25 * alone[:, None] + 0.125 * log_softmax(am + unigram)[:, :, None]
    for b, targets in enumerate(returned["targets"]):
        px, py = px_py(mixed[b], targets)
        same(returned["returned_px"][b], px)
        same(returned["returned_py"][b], py)


@judges("delay-penalty", "k2")
def _(returned):
    assert len(returned) == 4
    for answer in returned.values():
        px, py = array(answer["px"])[0], array(answer["py"])[0]
        T = py.shape[1]
        same(answer["loss"], [-score(px + 0.5 * ((T - 1) / 2 - np.arange(px.shape[1])), py)], 1e-6)
        same(answer["loss_below_0"], [-score(px, py)])


@judges("lengths", *K2)
def _(returned, library):
    assert len(returned["calls"]) == 12
    for call in returned["calls"]:
        kind, T, U, frames = (call[name] for name in ("type", "T", "U", "frames"))
        refused = U == 0 or (frames < U if library == "k2" else kind != "regular" and T < U)
        if refused:
            assert call["error"].startswith("AssertionError: ") and call["loss"] is None
            continue
        px, py = px_py(log_softmax(call["logits"])[:T], call["targets"], kind)
        expected = -score(px, py)
        same(call["loss"], expected)
        assert call["error"] == "" and np.isinf(expected) == (kind != "regular" and T < U)
        if kind == "regular":
            same(expected, loss_and_occupancy("rnnt", log_softmax(call["logits"])[:T], call["targets"], 0)[0])


def band(call, Q):
    """The windows of Q rows, from the sums in the arrays: first rows of a band that k2 accepts."""
    px_grad, py_grad = array(call["px_grad"]), array(call["py_grad"])
    S, T, frames = call["S"], call["T"], call["frames"]
    starts = range(S + 2 - Q)
    sums = np.array([py_grad[b:b + Q].sum(0) - (px_grad[b - 1, :frames] if b else 0) for b in starts])
    first = np.where(np.arange(frames) < T - 1, sums.argmax(0), S + 1 - Q)
    rise = (Q - 1 if call["regular"] else 1) * np.arange(frames)
    first = np.minimum.accumulate(first[::-1])[::-1]
    changed = np.minimum.accumulate((rise - first)[::-1])[::-1]
    first = rise - np.maximum(changed, 0)
    steps = np.diff(first)
    assert (first[0], first[T - 1]) == (0, S + 1 - Q) and (steps >= 0).all()
    assert (steps <= (Q - 1 if call["regular"] else 1)).all()
    return first[:, None] + np.arange(Q)


@judges("windows", *K2)
def _(returned):
    assert [(call["asked"], call["regular"]) for call in returned["calls"]] == [
        (asked, regular) for regular in (True, False) for asked in (2, 3, 4, 7, 9)]
    for call in returned["calls"]:
        assert call["ranges"] == band(call, call["asked"] if call["asked"] <= call["S"] else call["S"] + 1).tolist()
        assert call["printed"] == call["error"] == ""


@judges("too-few-frames-for-the-range", *K2)
def _(returned, library):
    """5 labels in 2 frames need windows of 4 rows, of which neighbours share one."""
    exact, padded = returned["calls"]
    assert (exact["frames"], padded["frames"]) == (2, 7) and exact["asked"] == padded["asked"] == 2
    if library == "fast_rnnt":
        for call in (exact, padded):
            assert call["ranges"] == band(call, 4).tolist() and call["error"] == ""
            assert call["printed"] == ("Warning: get_rnnt_prune_ranges - got s_range=2 for boundaries S=tensor([5]), "
                                       "T=tensor([2]). Adjusting to 4")
    else:
        assert exact["ranges"] is None and exact["error"] == "AssertionError: (2, 5)"
        # a band of two rows cannot be in the last row after two frames: it goes on rising in the padding
        assert padded["ranges"] == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [4, 5], [4, 5]]
        assert exact["printed"] == padded["printed"] == padded["error"] == ""


@judges("nan-in-the-padding", "fast_rnnt", "warprnnt_numba")
def _(returned):
    logits, upstream = array(returned["logits"]), returned.get("upstream", (1, 1))
    for b, (T, target) in enumerate(((3, [1, 2]), (2, [3]))):
        used = np.zeros((3, 3), dtype=bool)
        used[:T, :len(target) + 1] = True
        loss, gradient = loss_and_grad_logits("rnnt", logits[b, :T, :len(target) + 1], target, 0)
        same(returned["loss"][b], loss)
        same(array(returned["gradient"][b])[used].ravel(), upstream[b] * gradient.ravel())
        assert np.isnan(array(returned["gradient"][b])[~used]).all()


@judges("order-of-arguments", "fast_rnnt")
def _(returned):
    lm_am, scales = ["lm", "am"], ["lm_only_scale", "am_only_scale"]
    symbols, after = ["symbols", "termination_symbol"], ["boundary", "rnnt_type"]
    assert returned == {
        "get_rnnt_logprobs": [*lm_am, *symbols, "rnnt_type", "boundary"],
        "get_rnnt_logprobs_joint": ["logits", *symbols, *after],
        "get_rnnt_logprobs_pruned": ["logits", "symbols", "ranges", "termination_symbol", *after],
        "get_rnnt_logprobs_smoothed": [*lm_am, *symbols, *scales, *after]}


# --- ports of warp-transducer to Numba ---


def emphasised(returned, b, factor):
    """Loss, occupancy with FastEmit, and the gradient with respect to logits of an utterance; 0 in the padding."""
    T, target = returned["T"][b], returned["targets"][b][:returned["U"][b]]
    logits = array(returned["logits"][b])[:T, :len(target) + 1]
    loss, used = loss_and_occupancy("rnnt", log_softmax(logits), target, 0)
    used = used * np.where(np.arange(logits.shape[-1]) == 0, 1.0, factor)
    shape = array(returned["logits"][b]).shape
    found = [np.zeros(shape), np.zeros(shape)]
    found[0][:T, :len(target) + 1] = used
    found[1][:T, :len(target) + 1] = softmax(logits) * used.sum(-1, keepdims=True) - used
    return loss, *found


@judges("on-the-cpu", *PORTS)
def _(returned):
    factor, clamp = 1 + returned["lambda"], returned["clamp"]
    assert factor > 1 and 0 < clamp < np.abs(array(returned["plain"]["gradient"])).max()
    for b, upstream in enumerate(returned["upstream"]):
        loss, used, gradient = emphasised(returned, b, 1.0)
        _, more_used, more_gradient = emphasised(returned, b, factor)
        for name, expected_loss, expected in (
                ("plain", loss, gradient), ("fastemit", factor * loss, more_gradient), ("clamped", loss, gradient),
                ("of_log_probs", loss, -used), ("of_log_probs_with_fastemit", factor * loss, -more_used)):
            expected = upstream * expected  # the clamp comes after the upstream gradient
            expected = np.clip(expected, -clamp, clamp) if name == "clamped" else expected
            same(returned[name]["loss"][b], expected_loss, 1e-6)
            same(returned[name]["gradient"][b], expected, 1e-6)


@judges("in-the-simulator", *PORTS)
def _(returned):
    factor, clamp = 1 + returned["lambda"], returned["clamp"]
    assert factor > 1 and 0 < clamp < np.abs(array(returned["plain"]["gradient"])).max()
    for b, (T, U) in enumerate(zip(returned["T"], returned["U"], strict=True)):
        loss, _, gradient = emphasised(returned, b, 1.0)
        log_probs = log_softmax(returned["logits"][b])[:T, :U + 1]
        target = returned["targets"][b][:U]
        prefixes = {"alpha": rnnt_alpha, "beta": rnnt_beta}
        for name, expected_loss, expected in (
                ("plain", loss, gradient), ("clamped", loss, gradient.clip(-clamp, clamp)),
                ("fastemit", factor * loss, emphasised(returned, b, factor)[2])):
            same(returned[name]["loss"][b], expected_loss)
            same(returned[name]["gradient"][b], expected)
            for prefix, mass in prefixes.items():
                within = np.zeros((3, 3))
                within[:T, :U + 1] = [[np.log(mass(log_probs, target, 0, t, u)) for u in range(U + 1)]
                                      for t in range(T)]
                same(returned[name][prefix][b], within)


@judges("second-backward", "nemo")
def _(returned):
    assert returned["first"] == ""
    assert returned["second"].startswith("RuntimeError: one of the variables needed for gradient computation has been "
                                         "modified by an inplace operation")


@judges("wide-targets", "warprnnt_numba")
def _(returned):
    """The second row of labels is read where the first has its third column: the width of the logits, less one."""
    flat = [label for row in returned["wide"] for label in row]
    for name, targets in (("loss", returned["targets"]), ("loss_of_wide", [flat[0:2], flat[2:4]])):
        for b, (T, U) in enumerate(zip(returned["T"], returned["U"], strict=True)):
            log_probs = log_softmax(returned["logits"][b])[:T, :U + 1]
            same(returned[name][b], loss_and_occupancy("rnnt", log_probs, targets[b][:U], 0)[0])


# --- other RNN-T losses ---


@judges("label-that-is-the-blank", "torchaudio", "optimized_transducer")
def _(returned):
    logits, targets = array(returned["logits"]), returned["targets"]
    assert targets[0] == 0
    same(returned["loss"], loss_and_occupancy("rnnt", log_softmax(logits), targets, 0)[0], 1e-6)
    expected = fused_kernel(logits, targets, blank=0)
    same(returned["gradient"], expected, 1e-6)
    others = fused_kernel(logits, targets, blank=0, cases=("label", "last blank", "blank", "other"))
    assert np.abs(others - expected).max() > 0.1  # the order of the cases matters


@judges("refusals", "torchaudio")
def _(returned):
    input_length, output_length = "input length mismatch", "output length mismatch"
    kinds = "logits must be float32 or float16 (half) type"
    assert returned == {
        "as it is": "", "float16 logits": "", "float64 logits": f"RuntimeError: {kinds}",
        "bfloat16 logits": f"RuntimeError: {kinds}", "int64 targets": "RuntimeError: targets must be int32 type",
        "int64 logit_lengths": "RuntimeError: logit_lengths must be int32 type",
        "int64 target_lengths": "RuntimeError: target_lengths must be int32 type",
        "logits not contiguous": "RuntimeError: logits must be contiguous",
        "three axes of logits": "RuntimeError: logits must be 4-D (batch, time, target, class)",
        "one axis of targets": "RuntimeError: targets must be 2-D (batch, max target length)",
        "one utterance of targets": "RuntimeError: batch dimension mismatch between logits and targets",
        "logits beyond the longest utterance": f"RuntimeError: {input_length}",
        "rows beyond the longest target": f"RuntimeError: {output_length}",
        "an utterance beyond the logits": f"RuntimeError: {input_length}",
        "an utterance without frames": "", "an utterance of -1 frames": "", "a target of -1 labels": "",
        "a label of -1": "", "a label of 4": "",
        "blank 4": "RuntimeError: blank must be within [0, logits.shape[-1])",
        "dtypes of losses": {dtype: dtype for dtype in ("torch.float32", "torch.float16")}}


@judges("blanks", "torchaudio")
def _(returned):
    assert returned["-1"] == returned["3"] == returned["default"] and len(set(returned["3"])) == 2


@judges("forward", "torchaudio")
def _(returned):
    assert returned["losses"] == returned["loss"] and min(returned["loss"]) > 0
    for name in ("of_backward", "of_backward_again", "first_afterwards"):
        same(returned[name], 2 * array(returned["gradient"]))
    assert array(returned["gradient"]).any()


@judges("alignments", "torchaudio")
def _(returned):
    """Each path is one of the target with the largest mass; of several, the one that ``ctc_best_path`` promises."""
    def drawn(seed, *shape):
        return log_softmax(np.round(16 * np.random.default_rng(seed).normal(size=shape)) / 16)

    asked = {"a label twice": (drawn(23, 9, 4), [2, 1, 1, 3], 0), "no frame to spare": (drawn(24, 4, 4), [1, 1, 0], 2),
             "every path alike": (np.zeros((7, 3)), [1, 2, 2], 0), "masked": (drawn(25, 6, 3), [1, 2], 0),
             "a longer one": (drawn(26, 24, 6), [1, 2, 2, 3, 5, 4, 1], 0)}
    asked["masked"][0][1:4, 1] = -np.inf
    assert returned.keys() == asked.keys()
    for name, (log_probs, targets, blank) in asked.items():
        answer, path = returned[name], returned[name]["path"]
        same(answer["log_probs"], log_probs)
        assert (answer["targets"], answer["blank"], collapse(path, blank)) == (targets, blank, targets)
        same(answer["scores"], log_probs[range(len(path)), path])
        ours = ctc_best_path(log_probs, targets, blank=blank)
        assert extended_targets(targets, blank=blank)[ours.path].tolist() == path
        same(ours.log_mass, sum(answer["scores"]))
        if name != "a longer one":  # the others can be enumerated
            masses = [sum(log_probs[entry] for entry in entries)
                      for entries in ctc_alignments(targets, *log_probs.shape, blank)]
            same(max(masses), ours.log_mass)
            assert name != "every path alike" or min(masses) == max(masses)


@judges("alignment-refusals", "torchaudio")
def _(returned):
    assert returned == {
        "as it is": "",
        "two utterances": "RuntimeError: The batch dimension for log_probs must be 1 at the current version.",
        "a target with the blank":
            "ValueError: targets Tensor shouldn't contain blank index. Found tensor([[1, 0]]).",
        "a label of 4": "ValueError: targets values must be less than the CTC dimension",
        "a frame too few": "RuntimeError: targets length is too long for CTC. Found log_probs length: 5, targets "
                           "length: 4, and number of repeats: 2"}


# --- TDT ---


def tdt_by_paths(logits, duration_logits, targets, durations, sigma):
    """Loss and both gradients of one utterance: each path uses, in turn, a symbol and a duration of a node."""
    probs = np.concatenate([softmax(logits) * np.exp(-sigma), softmax(duration_logits)], axis=-1)
    (T, _, V), z, used = logits.shape, 0.0, np.zeros(probs.shape)
    lattice = tdt_lattice(targets, T, V, durations=durations, blank=V - 1)
    for path in enumerate_paths(lattice):
        entries = [lattice.arcs[i].entry for i in path]
        mass = np.prod([probs[entry] for entry in entries])
        z += mass
        for entry in entries:
            used[entry] += mass
    visits = used[..., :V].sum(-1, keepdims=True)
    gradients = visits * np.concatenate([softmax(logits), softmax(duration_logits)], axis=-1) - used
    return -np.log(z), *np.split(gradients / z, [V], axis=-1)


def tdt_of_batch(asked, name, lengths=(2, 1)):
    """The losses, and both gradients, padded with 0."""
    logits, duration_logits = array(asked["logits"]), array(asked["duration_logits"])
    losses, grads, durations = [], (np.zeros(logits.shape), np.zeros(duration_logits.shape)), name.split()
    for b, (T, U) in enumerate(zip((5, 4), lengths, strict=True)):
        loss, *own = tdt_by_paths(logits[b, :T, :U + 1], duration_logits[b, :T, :U + 1], asked["targets"][b][:U],
                                  [int(each) for each in durations], asked["sigma"])
        losses.append(loss)
        for grad, each in zip(grads, own, strict=True):
            grad[b, :T, :U + 1] = each
    return losses, *grads


@judges("tdt", "transformers")
def _(returned):
    """Without 0 or 1 among the durations no path reaches some nodes, and the gradient at some of them is NaN."""
    assert {*returned} == {"0 1 2", "0 1 3", "1 2", "0 2 3"}
    for name, asked in returned.items():
        losses, *gradients = tdt_of_batch(asked, name)
        same(asked["loss"], losses, 1e-6)
        nan = 0 if {"0", "1"} <= {*name.split()} else 4  # nodes
        for found, gradient in zip(("gradient", "duration_gradient"), gradients, strict=True):
            found = array(asked[found])
            assert np.isnan(found).sum() == nan * found.shape[-1]
            same(found[np.isfinite(found)], gradient[np.isfinite(found)], 1e-6)
            same(gradient[np.isnan(found)], np.zeros(nan * found.shape[-1]))


@judges("tdt-reductions", "transformers")
def _(returned):
    asked = {**ANSWERS["transformers", "tdt"]["0 1 2"], "sigma": 0.0}
    for name, lengths in (("a label", [2, 1]), ("no label", [2, 0])):
        losses, gradient, _ = tdt_of_batch(asked, "0 1 2", lengths)
        sizes = np.abs(gradient).sum((1, 2, 3))
        for reduction, scales in (("mean_volume", np.ones(2) / sum(lengths)), ("sum", np.ones(2))):
            same(returned[name][reduction], [losses @ scales, sizes @ scales], 1e-6)
    losses, gradient, _ = tdt_of_batch(asked, "0 1 2")
    scales = np.array([1 / 4, 1 / 2])
    same(returned["a label"]["mean"], [losses @ scales, np.abs(gradient).sum((1, 2, 3)) @ scales], 1e-6)
    assert returned["no label"]["mean"] == ["inf", "nan"]  # over the length of the empty target


# --- decoders ---


@judges("strings", "flashlight_text", "pyctcdecode")
def _(returned, library):
    """Every string's mass by enumeration: added over its paths, or that of its best path."""
    assert len(returned) == 3
    for asked in returned.values():
        probs = softmax(array(asked["logits"]))
        for name, add in (("added", operator.add), ("largest", max)):
            if library == "pyctcdecode" and name == "largest":
                continue
            masses, scores = ctc_strings(probs, 0, add), [score for _, score in asked[name]]
            found = {tuple(labels) for labels, _ in asked[name]}
            assert len(found) == len(scores) and found <= {*masses}
            # float32 went in; of strings with equal masses any may come first
            same(scores, np.log(sorted(masses.values(), reverse=True)[:4]), 1e-6)
            same(scores, np.log([masses[tuple(labels)] for labels, _ in asked[name]]), 1e-6)


@judges("second-backward", "optimized_transducer")
def _(returned):
    assert array(returned["first"]).any()
    same(returned["second"], 2 * array(returned["first"]))


# --- CTC ---


@judges("floor", "optax")
def _(returned):
    assert returned["default"] == -1e5
    repeat = array(returned["a_repeat_in_two_frames"]) - 1e5
    assert abs(repeat) < 1 and abs(array(returned["with_log_epsilon_-50"]) - 50 - repeat) < 0.02
    assert abs(array(returned["three_labels_in_two_frames"]) - 1e5) < 1


@judges("certain", "optax")
def _(returned):
    assert abs(array(returned["loss"]) + 8.28e-8) < 1e-10


@judges("lengths", "keras")
def _(returned):
    for words in ("", "0_between_"):
        assert returned[f"{words}loss"] == returned[f"{words}all_frames"]
    logits = array(returned["logits"])
    for name, frames in (("all_frames", (5, 5)), ("three_of_the_second", (5, 3))):
        for b, target in enumerate(([1, 2], [3])):
            expected, _ = loss_and_occupancy("ctc", log_softmax(logits[b, :frames[b]]), target, 0)
            same(returned[name][b], expected, 1e-5)
    # a target with a 0 in it is cut after as many entries as it has others: 1 0 2 to 1 0, and 0 3 0 to 0
    assert [sum(map(bool, row)) for row in returned["targets_with_0_between"]] == [2, 1]


@judges("labels", "tensorflow")
def _(returned):
    log_probs = log_softmax(returned["logits"])
    assert [*returned["losses"]] == ["1 2", "1 2 7", "1 7", "1"]
    for name, loss in returned["losses"].items():
        target = [int(label) for label in name.split() if label != "7"]
        same(loss, loss_and_occupancy("ctc", log_probs, target, 3)[0], 1e-6)
    assert "Saw a non-null label (index >= num_classes - 1) following a null label" in returned["error of 1 7 2"]


@judges("no-path", "tensorflow")
def _(returned):
    assert returned["loss"] == "inf" and returned["printed"] == "No valid path found."
    assert "Not enough time for target transition sequence (required: 3, available: 2)" in returned["of_two_frames"]
    same(returned["gradient"], softmax(array(returned["logits"])), 1e-6)


@judges("certain", "torch_baidu_ctc")
def _(returned):
    _, true = loss_and_grad_logits("ctc", array([returned["logits"]]), returned["targets"], 0)
    assert returned["loss"] == 0 and np.abs(true).max() < 1e-12
    same(returned["gradient"], softmax(array(returned["logits"])))


@judges("no-frames", "torch_baidu_ctc")
def _(returned):
    assert returned["T"] == [0, 2]
    same(returned["of_an_empty_target"], [np.inf, np.log(3)], 1e-6)
    same(returned["of_a_label"], [0, np.log(3)], 1e-6)


@judges("reductions", "warpctc_pytorch")
def _(returned):
    """The sum by default; divided by all frames, and by the number of utterances, the gradient as well."""
    T, loss, gradient = array(returned["T"]), array(returned["losses"]), array(returned["gradients"])
    assert len(set(T)) == 2 and len(T) == 3
    for name, divisor in (("default", 1), ("length_average", T.sum()), ("size_average", 3)):
        same(returned[name]["loss"], [loss.sum() / divisor], 1e-5)
        same(returned[name]["gradient"], gradient / divisor, 1e-5)
    for b, (frames, target) in enumerate(zip(returned["T"], returned["targets"], strict=True)):
        log_probs = log_softmax(array(returned["logits"])[:frames, b])
        same(loss[b], loss_and_occupancy("ctc", log_probs, target, 0)[0], 1e-6)


@judges("mean", "paddle")
def _(returned):
    """Each loss is divided by the length of its target, and an empty one by 0."""
    logits = array(returned["logits"])
    for name, targets in (("losses", ([1, 2], [3])), ("losses_with_an_empty_target", ([1, 2], []))):
        for b, (frames, target) in enumerate(zip((4, 3), targets, strict=True)):
            expected, _ = loss_and_occupancy("ctc", log_softmax(logits[:frames, b]), target, 0)
            same(returned[name][b], expected, 1e-5)
    same(returned["mean"], (returned["losses"][0] / 2 + returned["losses"][1]) / 2, 1e-6)
    assert returned["mean_with_an_empty_target"] == "inf"


@judges("layout", "torch_baidu_ctc")
def _(returned):
    ends = np.cumsum(returned["U"])
    assert array(returned["logits"]).shape == (4, 3, 4) and ends[-1] == len(returned["labels"])
    for b, (T, U, end) in enumerate(zip(returned["T"], returned["U"], ends, strict=True)):
        log_probs = log_softmax(array(returned["logits"])[:T, b])
        same(returned["loss"][b], loss_and_occupancy("ctc", log_probs, returned["labels"][end - U:end], 0)[0], 1e-6)


# --- all of them ---

ANSWERS = {(library, question): answer["returned"] for library, file in FILES.items()
           for question, answer in file["answers"].items()}
NAMES = [f"{library} {question}" for library, question in ANSWERS]
#: What was handed to a library, or names what was.
GIVEN = {"px", "py", "px_grad", "py_grad", "logits", "targets", "targets_with_0_between", "am", "lm", "labels", "wide",
         "T", "U", "S", "frames", "type", "asked", "regular", "upstream", "lambda", "clamp", "duration_logits", "sigma"}


@pytest.mark.parametrize("answer", ANSWERS, ids=NAMES)
def test_an_answer(answer):
    CHECKS[answer](ANSWERS[answer])


def test_every_answer_has_a_check_and_a_claim():
    assert {*ANSWERS} == {*CHECKS}
    named = {tuple(claim["run"].removeprefix("data/calls/").split(".json#")) for claim in CLAIMS
             if claim.get("run", "").startswith("data/calls/")}
    assert named == {*ANSWERS}


def test_the_files_are_of_today_s_scripts():
    scripts = calls.scripts()
    assert {*FILES} == {*scripts}
    old = [library for library, file in FILES.items() if file["script"] != calls.digest(scripts[library])
           or file["packages"] != environments.pinned(library)]
    assert old == [], "run peers/calls.py for these"
    assert not [library for library, file in FILES.items() if "/home/" in json.dumps(file) or ".venv" in str(file)]


def leaves(value, path=()):
    """The places of everything that a library returned."""
    if isinstance(value, (dict, list)):
        for key, each in (value.items() if isinstance(value, dict) else enumerate(value)):
            if key not in GIVEN:
                yield from leaves(each, (*path, key))
    else:
        yield path


def changed(answer, path):
    """The answer with one entry changed."""
    answer = copy.deepcopy(answer)
    *way, last = path
    place = answer
    for key in way:
        place = place[key]
    value = place[last]
    if isinstance(value, (int, float)):
        place[last] = value + 0.75 * (1 + abs(value))
    else:
        place[last] = 0.25 if value in ("inf", "-inf", "nan") else "changed"
    return answer


@pytest.mark.parametrize("answer", ANSWERS, ids=NAMES)
def test_a_changed_answer_is_noticed(answer):
    """A check that does not look at a number would pass whatever a library returned. Up to 40 places are tried."""
    places = list(leaves(ANSWERS[answer]))
    assert places
    for place in places[::-(-len(places) // 40)]:
        try:
            CHECKS[answer](changed(ANSWERS[answer], place))
        except (AssertionError, TypeError, ValueError, IndexError, AttributeError):
            continue
        pytest.fail(f"nobody looks at {place}")
