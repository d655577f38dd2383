"""The conversions of the Rosetta stone, row by row, against what was computed in another way; errors planted in each.

``check_row`` runs both functions of a row on the cases of its test. Then every term and factor of the functions is
dropped, every sign flipped, every index shifted, and what the test plants besides is tried: each must show.
"""

import ast
import inspect
import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from enumeration import (
    collapse,
    ctc_alignments,
    ctc_alpha,
    ctc_beta,
    loss_and_grad_logits,
    loss_and_occupancy,
    probability,
    rnnt_alignments,
    rnnt_alpha,
    rnnt_beta,
    softmax,
)
from variants import monotonic_alignments

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.as_published.ctc_conventions import convert
from reference_impl.as_published.rnnt_formulas import pack_pairs
from reference_impl.as_published.rosetta import ROWS, TABLES
from reference_impl.equations import mutants
from reference_impl.torch_impl.pruning import arc_scores, losses_and_posteriors, smoothed_scores

DATA = Path(__file__).parent.parent / "data"
FAST_RNNT = json.loads((DATA / "fast_rnnt.json").read_text(encoding="utf-8"))["cases"]
PEERS = json.loads((DATA / "drop_in_peers.json").read_text(encoding="utf-8"))["cases"]
LATTICES = [(4, 3, [1, 2]), (3, 3, [2]), (5, 3, [1, 1]), (2, 4, [3, 1])]  # T, V, targets; the blank is 0


class RowError(AssertionError):
    """A conversion is wrong, or a wrong one was not noticed."""


def check_row(key, cases, *, planted=(), equivalent=(), tolerance=1e-12):
    """For each case (theirs, ours, more): ``to_ours(*theirs, *more)`` is ours, and ``from_ours(*ours, *more)`` theirs.

    A function takes of ``more`` what it has parameters for. ``planted`` are wrong conversions by the name of the right
    one; ``equivalent`` mutants mean the same, each with the reason.
    """
    row, cases, equivalent, tried = ROWS[key], list(cases), dict(equivalent), 0
    for side, function in (("to_ours", row.to_ours), ("from_ours", row.from_ours)):
        if function is None:
            continue
        pairs = [(theirs, ours, more) if side == "to_ours" else (ours, theirs, more) for theirs, ours, more in cases]
        if _wrong(function, pairs, tolerance):
            raise RowError(f"{key}: {function.__name__} is wrong")
        wrong = [*mutants(function), *((f"planted {i}", each) for i, (name, each) in enumerate(planted)
                                        if name == function.__name__)]
        unnoticed = [name for name, mutant in wrong if not _wrong(mutant, pairs, tolerance)]
        if [name for name in unnoticed if equivalent.pop(f"{function.__name__}: {name}", None) is None]:
            raise RowError(f"{key}: no case notices in {function.__name__}: {unnoticed}")
        if not wrong:
            raise RowError(f"{key}: nothing was planted in {function.__name__}")
        tried += len(wrong)
    if equivalent:
        raise RowError(f"{key}: listed as equivalent, but noticed: {equivalent}")
    return tried


def _wrong(function, pairs, tolerance):
    """Whether a function gives itself away on any pair of arguments and results."""
    for given, expected, more in pairs:
        count = len(inspect.signature(function).parameters) - len(given)
        try:
            with np.errstate(all="ignore"):
                found = function(*given, *more[:count])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return True
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(expected) or not all(map(lambda a, b: _same(a, b, tolerance), found, expected)):
            return True
    return False


def _same(found, expected, tolerance):
    if isinstance(expected, dict | str):
        return found == expected
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    return found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=tolerance, equal_nan=True)


def logs(masses):
    with np.errstate(divide="ignore"):
        return np.log(masses)


def scores(kind, T, V, targets, seed=0):
    shape = (T, V) if kind == "ctc" else (T, len(targets) + 1, V)
    return log_softmax(np.random.default_rng(seed + T + V).normal(size=shape))


# --- forward and backward variables ---

def states(log_probs, targets, mass):
    """A mass for each frame and state of the extended target, as logarithms."""
    return logs([[mass(log_probs, targets, 0, t, s) for s in range(2 * len(targets) + 1)]
                 for t in range(len(log_probs))])


def alpha_before(log_probs, targets, blank, t, s):
    """Mass of the strings that end in state s at t, the emission at t left out."""
    labels, last = list(targets[:(s + 1) // 2]), (blank if s % 2 == 0 else targets[s // 2])
    return math.fsum(probability(log_probs, list(enumerate(string))[:-1])
                     for string in product(range(log_probs.shape[1]), repeat=t + 1)
                     if string[-1] == last and collapse(string, blank) == labels)


def beta_with(log_probs, targets, blank, t, s):
    """Mass of the strings of frames t, t + 1, ... that begin in state s and complete the target."""
    first = blank if s % 2 == 0 else targets[s // 2]
    return math.fsum(probability(log_probs, list(enumerate(string, start=t)))
                     for string in product(range(log_probs.shape[1]), repeat=len(log_probs) - t)
                     if string[0] == first and collapse(string, blank) == list(targets[s // 2:]))


def ctc_variables(alpha, beta):
    """By enumeration theirs, from the definition ours, and the log-probs of the states. The impossible is left out."""
    for T, V, targets in LATTICES:
        log_probs = scores("ctc", T, V, targets)
        yield ((states(log_probs, targets, alpha), states(log_probs, targets, beta)),
               (ctc.log_alpha(log_probs, targets), ctc.log_beta(log_probs, targets)),
               (log_probs[:, ctc.extended_targets(targets)],))


def nothing_done(*values):
    return values[:2]


@pytest.mark.rosetta("alpha-beta-2006")
def test_both_contain_the_emission():
    cases = list(ctc_variables(ctc_alpha, beta_with))
    check_row("alpha-beta-2006", cases)
    for (T, V, targets), (theirs, ours, _) in zip(LATTICES, cases, strict=True):
        converted = convert(*ours, scores("ctc", T, V, targets), targets, source="thesis", target="2006")
        np.testing.assert_allclose(converted, theirs, rtol=0, atol=1e-12)


@pytest.mark.rosetta("alpha-beta-thesis")
def test_alpha_contains_the_emission():
    check_row("alpha-beta-thesis", ctc_variables(ctc_alpha, ctc_beta),
              planted=[("same", lambda a, b, y: (a, b - y)), ("same", lambda a, b, y: (a - y, b))])


@pytest.mark.rosetta("alpha-beta-arcs")
def test_beta_contains_the_emission():
    check_row("alpha-beta-arcs", ctc_variables(alpha_before, beta_with))


def as_torchaudio(log_probs, targets):
    """alpha and beta of the grid by the loops of a library, its edges first."""
    (T, rows, _), U = log_probs.shape, len(targets)
    skip, emit = log_probs[..., 0], log_probs[:, np.arange(U), targets]
    alpha, beta = np.zeros((T, rows)), np.zeros((T, rows))
    beta[-1, -1] = skip[-1, -1]
    for t in range(1, T):
        alpha[t, 0] = alpha[t - 1, 0] + skip[t - 1, 0]
        beta[T - 1 - t, U] = beta[T - t, U] + skip[T - 1 - t, U]
    for u in range(1, rows):
        alpha[0, u] = alpha[0, u - 1] + emit[0, u - 1]
        beta[-1, U - u] = beta[-1, U - u + 1] + emit[-1, U - u]
    for t, u in product(range(1, T), range(1, rows)):
        alpha[t, u] = np.logaddexp(alpha[t - 1, u] + skip[t - 1, u], alpha[t, u - 1] + emit[t, u - 1])
        i, j = T - 1 - t, U - u
        beta[i, j] = np.logaddexp(beta[i + 1, j] + skip[i, j], beta[i, j + 1] + emit[i, j])
    return alpha, beta


def grid(log_probs, targets, mass):
    return logs([[mass(log_probs, targets, 0, t, u) for u in range(log_probs.shape[1])]
                 for t in range(len(log_probs))])


@pytest.mark.rosetta("alpha-beta-rnnt")
def test_variables_of_the_grid():
    problems = [(scores("rnnt", *each), each[2]) for each in LATTICES]
    check_row("alpha-beta-rnnt", [(as_torchaudio(*each), (grid(*each, rnnt_alpha), grid(*each, rnnt_beta)),
                                   (each[0][..., 0],)) for each in problems],
              planted=[("same", lambda a, b, y: (a + y, b)), ("same", lambda a, b, y: (a, b - y))])


@pytest.mark.rosetta("alpha-from-1")
def test_frames_from_1():
    """The recursion as the paper has it, on an array whose row 0 nobody uses."""
    def published(log_probs, targets):
        T, rows, _ = log_probs.shape
        y, alpha = np.exp(log_probs), np.full((T + 1, rows), np.nan)
        for t, u in product(range(1, T + 1), range(rows)):
            alpha[t, u] = float((t, u) == (1, 0))
            alpha[t, u] += alpha[t - 1, u] * y[t - 2, u, 0] if t > 1 else 0
            alpha[t, u] += alpha[t, u - 1] * y[t - 1, u - 1, targets[u - 1]] if u > 0 else 0
        return np.log(alpha)
    problems = [(scores("rnnt", *each), each[2]) for each in LATTICES]
    check_row("alpha-from-1", [((published(*each),), (rnnt.log_alpha(*each),), ()) for each in problems])


def k2_recursion(log_probs, targets):
    """p[s][t], px[s][t] and py[s][t] as k2's documentation writes them."""
    (T, rows, _), S = log_probs.shape, len(targets)
    px, py, p = np.full((S, T + 1), -np.inf), np.zeros((rows, T)), np.full((rows, T + 1), -np.inf)
    for s, t in np.ndindex(rows, T):
        py[s, t] = log_probs[t, s, 0]
        if s < S:
            px[s, t] = log_probs[t, s, targets[s]]
    for s, t in np.ndindex(rows, T + 1):
        p[s, t] = 0.0 if s == t == 0 else np.logaddexp(p[s - 1, t] + px[s - 1, t] if s else -np.inf,
                                                       p[s, t - 1] + py[s, t - 1] if t else -np.inf)
    return p, px, py


@pytest.mark.rosetta("alpha-k2")
def test_k2_variables():
    problems = [(scores("rnnt", *each), each[2]) for each in LATTICES]
    check_row("alpha-k2", [((k2_recursion(*each)[0],), (grid(*each, rnnt_alpha),), (each[0][..., 0],))
                           for each in problems])
    for each in problems:
        loss, _ = loss_and_occupancy("rnnt", *each, 0)
        assert k2_recursion(*each)[0][-1, -1] == pytest.approx(-loss, rel=1e-12)


# --- numbers with another layout, sign, origin or unit ---

@pytest.mark.rosetta("time-first")
def test_time_first():
    cases = []
    for B, T, V in ((2, 3, 4), (3, 2, 5)):
        theirs, ours = np.random.default_rng(B).normal(size=(T, B, V)), np.zeros((B, T, V))
        for b, t, k in np.ndindex(ours.shape):
            ours[b, t, k] = theirs[t, b, k]
        cases.append(((theirs,), (ours,), ()))
    check_row("time-first", cases, planted=[("batch_first", lambda x: x), ("batch_first", lambda x: x.swapaxes(1, 2)),
                                            ("batch_first", lambda x: x.reshape(x.shape[1], x.shape[0], -1))])


@pytest.mark.rosetta("flat-labels")
def test_flat_labels():
    cases = [(([1, 2, 3, 4, 5],), ([[1, 2, 0], [0, 0, 0], [3, 4, 5]],), ([2, 0, 3],)), (([7],), ([[7]],), ([1],))]
    cases = [(tuple(map(np.array, theirs)), tuple(map(np.array, ours)), more) for theirs, ours, more in cases]
    check_row("flat-labels", cases, planted=[("concatenated", lambda targets, lengths: targets.ravel())])


@pytest.mark.rosetta("tgtlen")
def test_rows_and_labels():
    """A grid has a row for each prefix of the target."""
    targets = [[1, 2], [3], []]
    rows = [len({tuple(each[:u]) for u in range(5)}) for each in targets]
    check_row("tgtlen", [((np.array(rows),), (np.array(list(map(len, targets))),), ())])


@pytest.mark.rosetta("blank-negative")
def test_negative_blank():
    check_row("blank-negative", [((-back,), (list(range(V))[-back],), (V,)) for V in (3, 5) for back in (1, 2, 0)],
              planted=[("from_the_end", lambda blank, V: V - 1), ("from_the_end", lambda blank, V: V - blank)])


@pytest.mark.rosetta("blank-last")
def test_blank_last():
    """Each symbol keeps its logit; the loss, by enumeration, is that of the other blank."""
    cases = []
    for T, V, targets in LATTICES:
        for kind in ("ctc", "rnnt"):
            ours, labels = scores(kind, T, V, targets), np.array(targets)
            theirs = np.stack([*(ours[..., k] for k in range(1, V)), ours[..., 0]], axis=-1)
            there, _ = loss_and_occupancy(kind, theirs, [k - 1 for k in targets], V - 1)
            assert there == pytest.approx(loss_and_occupancy(kind, ours, targets, 0)[0], rel=1e-12)
            cases.append(((theirs, labels - 1), (ours, labels), ()))
    check_row("blank-last", cases, planted=[
        ("blank_to_the_front", lambda x, labels: (np.roll(x, -1, axis=-1), labels + 1)),
        ("blank_to_the_front", lambda x, labels: (x, labels + 1)),
        ("blank_to_the_back", lambda x, labels: (np.roll(x, 1, axis=-1), labels - 1))])


@pytest.mark.rosetta("loss")
def test_likelihoods():
    def log_likelihood(log_probs, targets):
        paths = rnnt_alignments(targets, len(log_probs), log_probs.shape[-1], 0)
        return math.log(math.fsum(probability(log_probs, path) for path in paths))
    problems = [(scores("rnnt", *each), each[2]) for each in LATTICES]
    check_row("loss", [((log_likelihood(*each),), (rnnt.loss(*each),), ()) for each in problems])


@pytest.mark.rosetta("loss-bits")
def test_bits():
    problems = [(scores("ctc", *each), each[2]) for each in LATTICES]
    check_row("loss-bits", [((-math.log2(math.fsum(probability(log_probs, path) for path in ctc_alignments(
        targets, *log_probs.shape, 0))),), (ctc.loss(log_probs, targets),), ()) for log_probs, targets in problems])


def recorded(case):
    """Logits and labels of ``benchmarks/drop_in_peers.py``, one utterance after the other, without padding."""
    B, T, U, V = case["shape"]
    rng = np.random.default_rng(case["seed"])
    logits = rng.normal(size=(B, T, U + 1, V)).astype(np.float32).astype(np.float64)
    labels = (case["blank"] + rng.integers(1, V, (B, U))) % V
    return [(logits[b, :t, :u + 1], labels[b, :u].tolist())
            for b, (t, u) in enumerate(zip(case["logit_lengths"], case["target_lengths"], strict=True))]


@pytest.mark.rosetta("loss-fastemit")
def test_value_with_fastemit():
    """Against what warprnnt_numba returned."""
    record, = (each for each in PEERS if each["options"] == {"fastemit_lambda": 0.5, "reduction": "none"})
    losses = [loss_and_grad_logits("rnnt", *each, 0)[0] for each in recorded(record["case"])]
    check_row("loss-fastemit", [((cost,), (loss,), (0.5,)) for cost, loss in zip(record["loss"], losses, strict=True)])


@pytest.mark.rosetta("denom", "denom-negative")
def test_denominators():
    """As the kernels compute them: a maximum first, then a sum of exponentials."""
    cases = {"denom": [], "denom-negative": []}
    for seed in range(3):
        row = np.random.default_rng(seed).normal(size=5)
        top, ours = max(row), math.log(math.fsum(map(math.exp, row)))
        total = sum(math.exp(each - top) for each in row)
        cases["denom"].append(((top + math.log(total),), (ours,), ()))
        cases["denom-negative"].append(((-top - math.log(total),), (ours,), ()))
    for key, each in cases.items():
        check_row(key, each)


@pytest.mark.rosetta("pairs")
def test_pairs():
    cases = []
    for T, V, targets in LATTICES:
        log_probs, U = scores("rnnt", T, V, targets), len(targets)
        labels = np.array([[log_probs[t, u, targets[u]] for u in range(U)] for t in range(T)])
        cases.append(((pack_pairs(log_probs, targets),), (log_probs[:, :, 0], labels), (U,)))
    check_row("pairs", cases, planted=[("arcs_from_pairs", lambda pairs, U: (
        pairs.reshape(2, -1, U + 1)[0], pairs.reshape(2, -1, U + 1)[1, :, :-1]))])


@pytest.mark.rosetta("k2-arcs")
def test_k2_arcs():
    cases = []
    for T, V, targets in LATTICES:
        log_probs = scores("rnnt", T, V, targets)
        ours = arc_scores(torch.tensor(log_probs)[None], torch.tensor([targets]))
        cases.append((k2_recursion(log_probs, targets)[1:], tuple(each[0].numpy() for each in ours), ()))
    check_row("k2-arcs", cases, planted=[("arcs_from_k2", lambda px, py: (px.T[:-1], py.T)),
                                         ("arcs_to_k2", lambda blanks, labels: (labels.T, blanks.T))])


def k2_records():
    """px_grad and py_grad of the simple joiner as recorded, and occupancies by enumeration."""
    for case in FAST_RNNT:
        returned = case["types"]["regular"]["simple"]
        log_probs = log_softmax(np.array(case["am"])[:, None] + np.array(case["lm"])[None])
        _, occupancy = loss_and_occupancy("rnnt", log_probs, case["symbols"], 0)
        yield (np.array(returned["px_grad"]), np.array(returned["py_grad"])), occupancy, case["symbols"]


@pytest.mark.rosetta("k2-grads")
def test_k2_gradients():
    check_row("k2-grads", [(theirs, (occupancy[..., 0], occupancy[:, np.arange(len(labels)), labels]), ())
                           for theirs, occupancy, labels in k2_records()], tolerance=1e-11,
              planted=[("arcs_from_k2", lambda px, py: (-py.T, -px.T[:-1]))])


@pytest.mark.rosetta("node-gradient")
def test_node_gradients():
    check_row("node-gradient", [(theirs, (occupancy.sum(-1),), ()) for theirs, occupancy, _ in k2_records()],
              tolerance=1e-11, planted=[("node_occupancy", lambda px, py: py.T)])


@pytest.mark.rosetta("am-lm")
def test_the_simple_joiner():
    """Its log-probs give the recorded posteriors: see k2_records. Here each logit."""
    cases = []
    for case in FAST_RNNT:
        am, lm = np.array(case["am"]), np.array(case["lm"])
        logits = [[[am[t][k] + lm[u][k] for k in range(case["C"])] for u in range(case["S"] + 1)]
                  for t in range(case["T"])]
        cases.append(((am, lm), (np.array(logits),), ()))
        loss, _ = loss_and_grad_logits("rnnt", np.array(logits), case["symbols"], 0)
        assert loss == pytest.approx(case["types"]["regular"]["simple"]["loss"], rel=1e-12)
    check_row("am-lm", cases)


@pytest.mark.rosetta("rnnt-type")
def test_types_of_lattices():
    """Which number of frames a label takes, by enumeration, is read off the recorded losses."""
    def frames(case, recorded_loss):
        log_probs, found = log_softmax(np.array(case["joint"])), []
        for label_frames, alignments in enumerate((rnnt_alignments, monotonic_alignments)):
            paths = alignments(case["symbols"], case["T"], case["C"], 0)
            loss = -math.log(math.fsum(probability(log_probs, path) for path in paths))
            found += [label_frames] * (abs(loss - recorded_loss) < 1e-11)
        return found
    check_row("rnnt-type", [((kind,), tuple(frames(case, case["types"][kind]["joint"]["loss"])), ())
                            for case in FAST_RNNT for kind in ("regular", "modified")],
              planted=[("label_frames", lambda kind: ("modified", "regular").index(kind)),
                       ("rnnt_type", lambda number: ("modified", "regular")[number])])


@pytest.mark.rosetta("scales")
def test_scales():
    """Which scale is which is read off the recorded losses."""
    cases = []
    for case in FAST_RNNT:
        am, lm = (torch.tensor([case[name]], dtype=torch.float64, requires_grad=True) for name in ("am", "lm"))
        lengths = torch.tensor([case["T"]]), torch.tensor([case["S"]])
        returned = case["types"]["regular"]["smoothed, lm_only_scale 0.25, am_only_scale 0.1"]["loss"]
        for one, other in ((0.25, 0.1), (0.1, 0.25)):
            ours = {"prediction_scale": one, "encoding_scale": other}
            arcs = smoothed_scores(am, lm, torch.tensor([case["symbols"]]), **ours)
            if abs(losses_and_posteriors(*arcs, *lengths)[0].item() - returned) < 1e-11:
                cases.append(((0.25, 0.1), (ours,), ()))
    assert len(cases) == len(FAST_RNNT)
    check_row("scales", cases, planted=[("scales", lambda lm, am: {"prediction_scale": am, "encoding_scale": lm})])


@pytest.mark.rosetta("ranges")
def test_ranges():
    """Recorded bands: their first rows, and each row counted up."""
    cases = []
    for case in FAST_RNNT:
        for returned in case["types"]["regular"]["pruned"].values():
            ranges = returned["ranges"]
            cases.append(((np.array(ranges),), (np.array([min(rows) for rows in ranges]),), (len(ranges[0]),)))
    check_row("ranges", cases)


# --- reductions ---

def reduced(losses, target_lengths, logit_lengths, value):
    return ((value,), (list(losses), list(target_lengths), list(logit_lengths)), ())


BATCHES = [([3.0, 5.5, 2.25], [2, 4, 1], [9, 7, 4]), ([1.5, 0.25], [3, 5], [8, 6])]


@pytest.mark.rosetta("mean-torch")
def test_mean_of_torch():
    """By torch itself, an empty target included."""
    torch.manual_seed(0)
    log_probs = torch.randn(5, 3, 4, dtype=torch.float64).log_softmax(-1)
    batch = torch.tensor([[1, 2], [3, 0], [0, 0]]), (5, 4, 3), (2, 1, 0)
    losses, mean = (torch.nn.functional.ctc_loss(log_probs, *batch, reduction=each) for each in ("none", "mean"))
    check_row("mean-torch", [reduced(losses.tolist(), batch[2], batch[1], mean.item())])


@pytest.mark.rosetta("mean-by-length")
def test_mean_by_length():
    """The statements of the three sources, on tensors."""
    cases = []
    for losses, labels, frames in BATCHES:
        loss = torch.tensor(losses, dtype=torch.float64)
        loss /= torch.tensor(labels)
        cases.append(reduced(losses, labels, frames, loss.mean().item()))
    check_row("mean-by-length", cases)
    with pytest.raises(ZeroDivisionError):
        ROWS["mean-by-length"].from_ours([1.0], [0], [2])


@pytest.mark.rosetta("mean-batch")
def test_mean_over_the_batch():
    """As recorded of torchaudio and of warprnnt_numba, whose utterances have different lengths."""
    cases = []
    for library in ("torchaudio", "warprnnt_numba"):
        records = {each["options"]["reduction"]: each for each in reversed(PEERS)
                   if each["library"] == library and list(each["options"]) == ["reduction"]}
        record = records["none"]
        assert record["case"] == records["mean"]["case"]
        cases.append(reduced(record["loss"], record["case"]["target_lengths"], record["case"]["logit_lengths"],
                             records["mean"]["loss"][0]))
    check_row("mean-batch", cases, tolerance=1e-6)


@pytest.mark.rosetta("mean-volume", "mean-frames", "mean-not")
def test_other_divisors():
    cases = {"mean-volume": [], "mean-frames": [], "mean-not": []}
    for losses, labels, frames in BATCHES:
        costs = torch.tensor(losses, dtype=torch.float64)
        for key, value in (("mean-volume", costs.sum() / torch.tensor(labels).sum()),
                           ("mean-frames", costs.sum() / torch.sum(torch.tensor(frames)).item()),
                           ("mean-not", costs.sum())):
            cases[key].append(reduced(losses, labels, frames, value.item()))
    for key, each in cases.items():
        check_row(key, each, planted=[("total", lambda losses, *_: sum(losses) / len(losses))])


# --- gradients ---

def ctc_collected(beta):
    """Softmax, log of alpha beta added up by symbols, log Z, and the gradient of the logits: all by enumeration."""
    for T, V, targets in LATTICES:
        logits = np.random.default_rng(T + V).normal(size=(T, V))
        y, extended = softmax(logits), ctc.extended_targets(targets)
        collected = np.zeros((T, V))
        for t, s in np.ndindex(T, len(extended)):
            collected[t, extended[s]] += ctc_alpha(np.log(y), targets, 0, t, s) * beta(np.log(y), targets, 0, t, s)
        loss, gradient = loss_and_grad_logits("ctc", logits, targets, 0)
        yield y, logs(collected), -loss, gradient


@pytest.mark.rosetta("gradient-warp-ctc")
def test_gradient_of_warp_ctc():
    check_row("gradient-warp-ctc", [((y, collected, log_z), (gradient,), ())
                                    for y, collected, log_z, gradient in ctc_collected(beta_with)])


@pytest.mark.rosetta("gradient-tensorflow")
def test_gradient_of_tensorflow():
    check_row("gradient-tensorflow", [((y, collected, log_z), (gradient,), ())
                                      for y, collected, log_z, gradient in ctc_collected(ctc_beta)])


@pytest.mark.rosetta("gradient-torch")
def test_gradient_of_torch():
    """The formula on enumerated masses, against enumeration and against torch itself."""
    cases = []
    for (T, _, targets), (y, collected, log_z, gradient) in zip(LATTICES, ctc_collected(beta_with), strict=True):
        lp = torch.tensor(np.log(y)[:, None], requires_grad=True)
        loss = torch.nn.functional.ctc_loss(lp, torch.tensor([targets]), (T,), (len(targets),), reduction="sum")
        (1.5 * loss).backward()
        np.testing.assert_allclose(lp.grad[:, 0], 1.5 * gradient, rtol=0, atol=1e-12)
        cases.append(((np.log(y), collected, -log_z, 1.5), (1.5 * gradient,), ()))
    check_row("gradient-torch", cases)


def rnnt_masses(logits, targets):
    """Masses by enumeration: alpha, beta, and for every entry the beta after its arc, -inf where there is none."""
    T, rows, V = logits.shape
    log_probs = np.log(softmax(logits))
    alpha, beta = grid(log_probs, targets, rnnt_alpha), grid(log_probs, targets, rnnt_beta)
    after = np.full((T, rows, V), -np.inf)
    after[:-1, :, 0] = beta[1:]
    after[-1, -1, 0] = 0.0
    for u, label in enumerate(targets):
        after[:, u, label] = beta[:, u + 1]
    return log_probs, alpha[..., None], beta[..., None], after


def rnnt_problems():
    for T, V, targets in LATTICES:
        yield np.random.default_rng(T + V).normal(size=(T, len(targets) + 1, V)), targets


@pytest.mark.rosetta("gradient-cpu")
def test_gradient_by_arc():
    cases = []
    for logits, targets in rnnt_problems():
        log_probs, alpha, beta, after = rnnt_masses(logits, targets)
        _, occupancy = loss_and_occupancy("rnnt", log_probs, targets, 0)
        cases.append(((log_probs, alpha, after, beta[0, 0, 0]), (-occupancy,), ()))
    check_row("gradient-cpu", cases)


@pytest.mark.rosetta("gradient-fused")
def test_fused_gradient():
    cases = []
    for logits, targets in rnnt_problems():
        _, alpha, beta, after = rnnt_masses(logits, targets)
        loss, gradient = loss_and_grad_logits("rnnt", logits, targets, 0)
        denom = np.log(np.exp(logits).sum(-1, keepdims=True))
        cases.append(((logits + alpha + loss - denom, beta, after), (gradient,), ()))
    check_row("gradient-fused", cases)


@pytest.mark.rosetta("gradient-fastemit-cpu")
def test_fastemit_by_label_arc():
    cases = []
    for logits, targets in rnnt_problems():
        log_probs, alpha, beta, after = rnnt_masses(logits, targets)
        _, occupancy = loss_and_occupancy("rnnt", log_probs, targets, 0)
        arcs = np.arange(len(targets)), targets
        given = log_probs[:, *arcs], alpha[:, :-1, 0], after[:, *arcs], beta[0, 0, 0], 0.25
        cases.append((given, (-1.25 * occupancy[:, *arcs],), ()))
    check_row("gradient-fastemit-cpu", cases)


@pytest.mark.rosetta("gradient-fastemit-gpu")
def test_fastemit_fused():
    """The GPU's formula against the gradient that warprnnt_numba's CPU code returned, log-softmax included."""
    record, = (each for each in PEERS if each["options"] == {"fastemit_lambda": 0.5, "reduction": "none"})
    returned = np.array(record["gradient"]).reshape(2, 3, 3, 4)
    cases = []
    for b, (logits, targets) in enumerate(recorded(record["case"])):
        (T, rows, V), U = logits.shape, len(targets)
        log_probs, alpha, beta, after = rnnt_masses(logits, targets)
        is_label, label_next = np.zeros((T, rows, V), bool), np.full((T, rows, 1), -np.inf)
        is_label[:, np.arange(U), targets] = True
        label_next[:, :U, 0] = (log_probs + after)[:, np.arange(U), targets]
        cases.append(((log_probs, alpha, beta, after, label_next, is_label, beta[0, 0, 0], 0.5),
                      (returned[b, :T, :rows] / record["upstream"][b],), ()))
    check_row("gradient-fastemit-gpu", cases, tolerance=1e-11)


@pytest.mark.rosetta("gradient-k2")
def test_sign_of_k2():
    """Recorded gradients of scores against the derivative of the loss, by enumeration."""
    cases = []
    for (px_grad, _), occupancy, labels in k2_records():
        cases.append(((px_grad,), (-np.pad(occupancy[:, np.arange(len(labels)), labels], ((0, 1), (0, 0))).T,), ()))
    check_row("gradient-k2", cases, tolerance=1e-11)


@pytest.mark.rosetta("gradient-monotonic")
def test_monotonic_gradient():
    """alpha before a frame and beta from it on, by strings; the gradient path by path."""
    cases = []
    for logits, targets in rnnt_problems():
        (T, rows, V), y = logits.shape, softmax(logits)
        weights = [(path, probability(np.log(y), path)) for path in monotonic_alignments(targets, T, V, 0)]
        z = math.fsum(weight for _, weight in weights)
        gradient = np.zeros(logits.shape)
        for path, weight in weights:
            for entry in path:
                gradient[entry] -= weight / z
                gradient[entry[:-1]] += weight / z * y[entry[:-1]]
        alpha, beta = np.zeros((T, rows)), np.zeros((T + 1, rows + 1))
        for t, u in np.ndindex(T, rows):
            strings = monotonic_alignments(targets[:u], t, V, 0)
            alpha[t, u] = math.fsum(probability(np.log(y), path) for path in strings)
        for t, u in np.ndindex(T + 1, rows):
            strings = monotonic_alignments(targets[u:], T - t, V, 0)
            beta[t, u] = math.fsum(probability(np.log(y[t:, u:]) if t < T else y, path) for path in strings)
        after = np.full((T, rows, V), -np.inf)
        after[..., 0] = logs(beta[1:, :-1])
        for u, label in enumerate(targets):
            after[:, u, label] = logs(beta[1:, u + 1])
        cases.append(((np.log(y), logs(alpha)[..., None], logs(beta[:-1, :-1])[..., None], after, math.log(z)),
                      (gradient,), ()))
    check_row("gradient-monotonic", cases)


@pytest.mark.rosetta("gradient-hat")
def test_hat():
    """The blank decides first, by a coin; the labels share what is left by a softmax."""
    cases = []
    for seed in range(3):
        blank, *labels = np.random.default_rng(seed).normal(size=4)
        heads, shares = 1 / (1 + math.exp(-blank)), softmax(np.array(labels))
        cases.append(((np.array(blank), np.array(labels)), (math.log(heads), np.log((1 - heads) * shares)), ()))
    check_row("gradient-hat", cases)


# --- the tables themselves ---

def marked():
    """The keys that tests are bound to, here and in ``test_line_by_line.py``, read as the pages read them."""
    trees = [ast.parse((Path(__file__).parent / name).read_text(encoding="utf-8"))
             for name in ("test_rosetta.py", "test_line_by_line.py")]
    return [mark.value for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)
            for decorator in node.decorator_list if ast.unparse(decorator).startswith("pytest.mark.rosetta")
            for mark in decorator.args]


def test_every_conversion_has_one_test():
    assert sorted(marked()) == sorted(key for key, row in ROWS.items() if row.converts)
    assert len(ROWS) == sum(len(rows) for _, rows in TABLES.values()), "no key twice"


def test_rows_fit_their_tables():
    for name, (heads, rows) in TABLES.items():
        for row in rows:
            assert len(row.cells) == len(heads), row.key
            assert row.converts or row.checked_as or row.claims or name in ("names", "variables"), row.key
            assert not row.checked_as or ROWS[row.checked_as].converts and not row.converts, row.key


def test_claims_of_rows_are_there():
    known = json.loads((DATA / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {name for row in ROWS.values() for name in row.claims} <= {claim["id"] for claim in known}


@pytest.mark.parametrize(("key", "cases", "options", "says"), [
    ("loss", [((1.0,), (1.0,), ())], {}, "negated is wrong"),
    ("loss", [((0.0,), (0.0,), ())], {}, "no case notices in negated"),
    ("tgtlen", [((2,), (1,), ())], {"planted": [("one_less", lambda n: n - 1)]}, "no case notices in one_less"),
    ("tgtlen", [((2,), (1,), ())], {"equivalent": {"one_less: that": "none"}}, "listed as equivalent, but noticed"),
])
def test_what_check_row_refuses(key, cases, options, says):
    with pytest.raises(RowError, match=says):
        check_row(key, cases, **options)
