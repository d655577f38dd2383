"""The lines of other people's code on the page "Line by line", each against enumeration, or against what was recorded.

``check_row`` runs them as it runs the conversions of the Rosetta stone, and damages them in the same way.
"""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from enumeration import (
    ctc_alignments,
    ctc_alpha,
    ctc_beta,
    loss_and_grad_logits,
    loss_and_occupancy,
    probability,
    rnnt_alignments,
    rnnt_alpha,
    softmax,
)
from test_rosetta import (
    FAST_RNNT,
    LATTICES,
    beta_with,
    check_row,
    ctc_collected,
    grid,
    logs,
    rnnt_masses,
    rnnt_problems,
    scores,
    states,
)
from variants import BIG_BLANK_FRAMES, DURATIONS, monotonic_alignments, multi_blank_alignments, tdt_alignments

from reference_impl import ctc, log_softmax
from reference_impl.as_published.rosetta import ROWS, TABLES
from reference_impl.torch_impl.pruning import smoothed_scores

# --- RNN-T: gradients ---

@pytest.mark.rosetta("line-warp-transducer-gpu")
def test_gradient_on_the_gpu():
    cases = []
    for logits, targets in rnnt_problems():
        log_probs, alpha, beta, after = rnnt_masses(logits, targets)
        _, gradient = loss_and_grad_logits("rnnt", logits, targets, 0)
        cases.append(((log_probs, alpha, beta, after, beta[0, 0, 0]), (gradient,), ()))
    check_row("line-warp-transducer-gpu", cases)


@pytest.mark.rosetta("line-apex")
def test_apex():
    """The logarithm of the upstream gradient is a factor of the result; log-probs are its x."""
    cases = []
    for G, (logits, targets) in zip((1.5, 0.25, 3.0, 0.5), rnnt_problems(), strict=True):
        log_probs, alpha, beta, after = rnnt_masses(logits, targets)
        _, gradient = loss_and_grad_logits("rnnt", logits, targets, 0)
        cases.append(((log_probs, G, alpha, beta, after, beta[0, 0, 0]), (G * gradient,), ()))
    check_row("line-apex", cases)


@pytest.mark.rosetta("line-janvijay")
def test_log_softmax_by_hand():
    cases = []
    for logits, targets in rnnt_problems():
        y = softmax(logits)
        _, occupancy = loss_and_occupancy("rnnt", np.log(y), targets, 0)
        _, gradient = loss_and_grad_logits("rnnt", logits, targets, 0)
        cases.append(((-occupancy, y), (gradient,), ()))
    check_row("line-janvijay", cases, planted=[("through_log_softmax", lambda grads, probs: grads - probs)])


@pytest.mark.rosetta("line-clamp")
def test_clamp():
    """Entry by entry."""
    def cut(value, bound):
        return bound if value > bound else -bound if value < -bound else value
    cases = []
    for bound in (0.1, 0.5):
        grad = np.random.default_rng(0).normal(size=(3, 4)) / 2
        cases.append(((grad, bound), (np.array([[cut(value, bound) for value in row] for row in grad]),), ()))
    check_row("line-clamp", cases)


# --- RNN-T: durations ---

def masses(paths, T, rows):
    """Logarithms of alpha and beta of each node: the weights of all its prefixes and suffixes, each counted once.

    A path is a list of arcs: node, what else it uses, weight.
    """
    before, after = {}, {}
    for path in paths:
        for i, (node, _, _) in enumerate(path):
            for parts, side in ((before, path[:i]), (after, path[i:])):
                parts.setdefault(node, {})[tuple(side)] = math.prod(weight for *_, weight in side)
    alpha, beta = np.zeros((T, rows)), np.zeros((T, rows))
    for node in before:
        alpha[node], beta[node] = math.fsum(before[node].values()), math.fsum(after[node].values())
    return logs(alpha), logs(beta)


def beta_after(beta, t, u, frames, is_label):
    """The beta that an arc of so many frames leads to: -inf where there is no arc, 0 at the end."""
    (T, rows), there = beta.shape, u + is_label
    if t + frames == T and there == rows - 1 and not is_label:
        return 0.0
    return beta[t + frames, there] if t + frames < T and there < rows else -np.inf


DURATION_PROBLEMS = [((4, 3, [1, 2]), 0.05), ((4, 3, [2]), 0.0), ((5, 2, [1, 1]), 0.3)]  # T, V, targets; sigma


@pytest.mark.rosetta("line-multi-blank")
def test_big_blanks():
    """The gradient path by path, with sigma on every arc."""
    cases = []
    for (T, V, targets), sigma in DURATION_PROBLEMS:
        rows = len(targets) + 1
        y = softmax(np.random.default_rng(T + V).normal(size=(T, rows, V + len(BIG_BLANK_FRAMES))))
        paths = [[((t, u), k, y[t, u, k] * math.exp(-sigma)) for t, u, k in path]
                 for path in multi_blank_alignments(targets, T, V, 0)]
        weights = [math.prod(weight for *_, weight in path) for path in paths]
        z, gradient, after = math.fsum(weights), np.zeros(y.shape), np.full(y.shape, -np.inf)
        for path, weight in zip(paths, weights, strict=True):
            for node, k, _ in path:
                gradient[node] += weight / z * y[node]
                gradient[(*node, k)] -= weight / z
        alpha, beta = masses(paths, T, rows)
        for t, u in np.ndindex(T, rows):
            for k, frames in enumerate((1, *BIG_BLANK_FRAMES)):
                after[t, u, V + k - 1 if k else 0] = beta_after(beta, t, u, frames, False)
            if u < len(targets):
                after[t, u, targets[u]] = beta[t, u + 1]
        cases.append(((np.log(y), alpha[..., None], beta[..., None], after, math.log(z), sigma), (gradient,), ()))
    check_row("line-multi-blank", cases)


@pytest.mark.rosetta("line-tdt-symbols", "line-tdt-durations")
def test_durations():
    """Gradients with respect to the symbols' logits and to the durations' log-probs, path by path."""
    cases = {"line-tdt-symbols": [], "line-tdt-durations": []}
    for (T, V, targets), sigma in DURATION_PROBLEMS:
        rows, D, rng = len(targets) + 1, len(DURATIONS), np.random.default_rng(T + V)
        y, q = softmax(rng.normal(size=(T, rows, V))), softmax(rng.normal(size=(T, rows, D)))
        paths = [[((t, u), (k, d - V), y[t, u, k] * q[t, u, d - V] * math.exp(-sigma))
                  for (t, u, k), (_, _, d) in zip(path[::2], path[1::2], strict=True)]
                 for path in tdt_alignments(targets, T, V, 0)]
        weights = [math.prod(weight for *_, weight in path) for path in paths]
        z, symbols, durations = math.fsum(weights), np.zeros(y.shape), np.zeros(q.shape)
        for path, weight in zip(paths, weights, strict=True):
            for node, (k, d), _ in path:
                symbols[node] += weight / z * y[node]
                symbols[(*node, k)] -= weight / z
                durations[(*node, d)] -= weight / z
        alpha, beta = masses(paths, T, rows)
        after = np.full((T, rows, V, D), -np.inf)
        for (t, u), (d, frames) in itertools.product(np.ndindex(T, rows), enumerate(DURATIONS)):
            after[t, u, 0, d] = beta_after(beta, t, u, frames, False) if frames else -np.inf
            if u < len(targets):
                after[t, u, targets[u], d] = beta_after(beta, t, u, frames, True)
        label = np.array([[targets[u] if u < len(targets) else 1 for u in range(rows)]] * T)
        at = *np.indices((T, rows)), label
        cases["line-tdt-symbols"].append(((np.log(y), alpha[..., None], beta[..., None], after,
                                           np.log(q)[:, :, None], math.log(z), sigma), (symbols,), ()))
        logpk = np.log(y) - sigma
        cases["line-tdt-durations"].append(((logpk[at][..., None], logpk[..., :1], alpha[..., None],
                                             np.where(np.arange(rows)[:, None] < len(targets), after[at], -np.inf),
                                             after[:, :, 0], np.log(q), math.log(z)), (durations,), ()))
    for key, each in cases.items():
        check_row(key, each)


# --- k2, and others without beta ---

@pytest.mark.rosetta("line-k2-p")
def test_k2_recursion():
    """p as alpha, by enumeration; its last entry is the total."""
    cases = []
    for T, V, targets in LATTICES:
        log_probs = scores("rnnt", T, V, targets)
        px = np.concatenate([log_probs[:, np.arange(len(targets)), targets].T,
                             np.full((len(targets), 1), -np.inf)], axis=1)
        alpha = grid(log_probs, targets, rnnt_alpha)
        last = alpha[-1] + log_probs[-1, :, 0]
        cases.append(((px, log_probs[..., 0].T), (np.concatenate([alpha, last[None]]).T,), ()))
        loss, _ = loss_and_occupancy("rnnt", log_probs, targets, 0)
        assert last[-1] == pytest.approx(-loss, rel=1e-12)
    check_row("line-k2-p", cases)


def shares_of_grid(log_probs, targets):
    """For each node with two incoming arcs: its alpha, theirs before the addition, and what it has received."""
    _, alpha, beta, _ = rnnt_masses(log_probs, targets)
    alpha, beta = alpha[..., 0], beta[..., 0]
    occupied = np.exp(alpha + beta - beta[0, 0])
    _, occupancy = loss_and_occupancy("rnnt", log_probs, targets, 0)
    for t, u in itertools.product(range(1, alpha.shape[0]), range(1, alpha.shape[1])):
        label = occupancy[t, u - 1, targets[u - 1]]
        blank = occupancy[t - 1, u, 0]
        yield {"total": alpha[t, u], "term1": alpha[t, u - 1] + log_probs[t, u - 1, targets[u - 1]],
               "alpha": alpha[t, u - 1], "score": log_probs[t, u - 1, targets[u - 1]], "label": label, "blank": blank,
               "received": occupied[t, u], "beta": beta[t, u], "log_z": beta[0, 0]}


def nodes():
    for logits, targets in rnnt_problems():
        yield from shares_of_grid(log_softmax(logits), targets)


@pytest.mark.rosetta("line-k2-terms", "line-k2-grads")
def test_shares_of_k2():
    """The posteriors of the two arcs, by enumeration, divided by that of the node that they enter; and back."""
    shares = [(each["label"] / each["received"], each["blank"] / each["received"]) for each in nodes()]
    check_row("line-k2-terms", [((each["term1"], each["total"]), share, ())
                                for each, share in zip(nodes(), shares, strict=True)])
    check_row("line-k2-grads", [((*share, each["received"]), (each["label"], each["blank"]), ())
                                for each, share in zip(nodes(), shares, strict=True)])


@pytest.mark.rosetta("line-gtn", "line-k2-ctc")
def test_arcs_of_lattices():
    """The posterior of an arc by its share, and by both sweeps: by enumeration."""
    check_row("line-gtn", [((each["received"], each["alpha"], each["score"], each["total"]), (each["label"],), ())
                           for each in nodes()])
    check_row("line-k2-ctc", [((each["alpha"], each["score"], each["beta"], each["log_z"]), (each["label"],), ())
                              for each in nodes()])


@pytest.mark.rosetta("line-awni")
def test_shares_of_awni():
    """The score of an arc comes in three parts: of the frame, of the row, and minus the log-norm of the node."""
    cases = []
    for T, V, targets in LATTICES:
        rng = np.random.default_rng(T + V)
        f, g = rng.normal(size=(T, V)), rng.normal(size=(len(targets) + 1, V))
        joint = f[:, None] + g[None]
        norms = np.log(np.exp(joint).sum(-1))
        places = itertools.product(range(1, T), range(1, len(targets) + 1))
        for (t, u), each in zip(places, shares_of_grid(log_softmax(joint), targets), strict=True):
            label = targets[u - 1]
            cases.append(((each["received"], each["alpha"], f[t, label], g[u - 1, label], norms[t, u - 1],
                           each["total"]), (each["label"],), ()))
    check_row("line-awni", cases)


@pytest.mark.rosetta("line-k2-smoothed")
def test_smoothed():
    """By tensor operations, whose losses ``test_scales`` of the Rosetta stone compares with recorded ones."""
    cases = []
    for case in FAST_RNNT:
        am, lm, labels = np.array(case["am"]), np.array(case["lm"]), case["symbols"]
        unigram = np.log(softmax(lm).mean(0))
        at = slice(None), np.arange(len(labels)), labels
        px = log_softmax(am[:, None] + lm[None])[at]
        px_lmonly = np.broadcast_to(log_softmax(lm)[None], (case["T"], *lm.shape))[at]
        px_amonly = log_softmax(am + unigram)[:, labels]
        arcs = smoothed_scores(*(torch.tensor(each)[None] for each in (am, lm)), torch.tensor([labels]),
                               prediction_scale=0.25, encoding_scale=0.1)
        ours = next(each[0].numpy() for each in arcs if each.shape[-1] == len(labels))
        cases.append(((px, px_lmonly, px_amonly, 0.25, 0.1), (ours,), ()))
    check_row("line-k2-smoothed", cases)


@pytest.mark.rosetta("line-k2-delay")
def test_delay_penalty():
    """Path by path: a path's weight is multiplied by exp of the penalties of its labels, frame by frame."""
    cases = []
    for T, V, targets in LATTICES:
        log_probs, d = scores("rnnt", T, V, targets), 0.25
        middle = math.fsum(range(T)) / T
        px = log_probs[:, np.arange(len(targets)), targets].T
        late = np.array([[px[u, t] - d * (t - middle) for t in range(T)] for u in range(len(targets))])
        cases.append(((px, d, T), (late,), ()))
        paths = rnnt_alignments(targets, T, V, 0)
        weights = [probability(log_probs, path) * math.exp(-d * math.fsum(t - middle for t, _, k in path if k))
                   for path in paths]
        delayed = log_probs.copy()
        for u, label in enumerate(targets):
            delayed[:, u, label] = late[u]
        assert math.fsum(probability(delayed, path) for path in paths) == pytest.approx(math.fsum(weights), rel=1e-12)
    check_row("line-k2-delay", cases)


# --- RNN-T: values ---

@pytest.mark.rosetta("line-speechbrain-cost")
def test_cost_by_frames():
    cases = []
    for T, V, targets in LATTICES:
        log_probs = scores("rnnt", T, V, targets)
        total = math.fsum(probability(log_probs, path) for path in rnnt_alignments(targets, T, V, 0))
        loss, _ = loss_and_occupancy("rnnt", log_probs, targets, 0)
        cases.append(((math.log(total) / -T, T), (loss,), ()))
    check_row("line-speechbrain-cost", cases)


@pytest.mark.rosetta("line-monotonic-grid")
def test_a_symbol_a_frame():
    """Strings of t symbols, by their last one; those of all frames have the total."""
    cases = []
    for T, V, targets in LATTICES:
        log_probs = scores("rnnt", T, V, targets)
        alpha = logs([[math.fsum(probability(log_probs, path) for path in monotonic_alignments(targets[:u], t, V, 0))
                       for u in range(len(targets) + 1)] for t in range(T + 1)])
        for t, u in itertools.product(range(T), range(1, len(targets) + 1)):
            if np.isfinite(alpha[t + 1, u]):
                cases.append(((alpha[t, u], log_probs[t, u, 0], alpha[t, u - 1],
                               log_probs[t, u - 1, targets[u - 1]]), (alpha[t + 1, u],), ()))
    check_row("line-monotonic-grid", cases)


@pytest.mark.rosetta("line-warp-rnnt-cost")
def test_mismatch():
    """By hand: the totals are negative, and the one nearer to 0 is the larger."""
    check_row("line-warp-rnnt-cost", [((-4.0, -5.0), (0.25,), ()), ((-5.0, -4.0), (0.25,), ()),
                                      ((-10.0, -2.0), (4.0,), ()), ((-3.0, -3.0), (0.0,), ())])


# --- CTC ---

@pytest.mark.rosetta("line-torch-alpha", "line-optax")
def test_steps_of_alpha():
    """A step from enumerated masses to enumerated masses; a label that repeats may not be skipped to."""
    steps, emits = [], []
    for T, V, targets in LATTICES:
        log_probs = scores("ctc", T, V, targets)
        alpha, extended = states(log_probs, targets, ctc_alpha), ctc.extended_targets(targets)
        for t, s in itertools.product(range(1, T), range(len(extended))):
            skips = s > 1 and extended[s] != 0 and extended[s] != extended[s - 2]
            la1, la2, la3 = alpha[t - 1, s], alpha[t - 1, s - 1] if s else -np.inf, alpha[t - 1, s - 2]
            if np.isfinite(alpha[t, s]):
                steps.append(((la1, la2, la3 if skips else -np.inf, log_probs[t, extended[s]]), (alpha[t, s],), ()))
            if s % 2:
                phi = np.logaddexp(la2, la3) if skips else la2
                emits.append(((phi, la1, log_probs[t, extended[s]]), (alpha[t, s],), ()))
    check_row("line-torch-alpha", steps)
    check_row("line-optax", emits)


@pytest.mark.rosetta("line-tensorflow-dense")
def test_normalised_in_each_frame():
    """Both sweeps by enumeration, each frame off by a factor of its own."""
    cases = []
    for T, V, targets in LATTICES:
        rng = np.random.default_rng(T + V)
        logits, extended = rng.normal(size=(T, V)), ctc.extended_targets(targets)
        log_probs = log_softmax(logits)
        fwd, bwd = (states(log_probs, targets, mass) + rng.normal(size=(T, 1)) for mass in (ctc_alpha, ctc_beta))
        _, gradient = loss_and_grad_logits("ctc", logits, targets, 0)
        cases.append(((log_probs, fwd, bwd, np.eye(V)[extended]), (gradient,), ()))
    check_row("line-tensorflow-dense", cases)


def scaled(T, seed):
    return np.exp(np.random.default_rng(seed).normal(size=(T, 1)))


@pytest.mark.rosetta("line-stanford", "line-step-16")
def test_equation_16():
    """alpha and beta with both emissions, by enumeration, times scales of each frame."""
    theirs, printed = [], []
    for (T, _, targets), (y, collected, _, gradient) in zip(LATTICES, ctc_collected(beta_with), strict=True):
        scale, log_probs = scaled(T, T), np.log(y)
        product = np.exp(states(log_probs, targets, ctc_alpha) + states(log_probs, targets, beta_with))
        by_y = scale * product / y[:, ctc.extended_targets(targets)]
        theirs.append(((y, scale * np.exp(collected), by_y.sum(-1, keepdims=True)), (gradient,), ()))
        printed.append(((y, scale * np.exp(collected), by_y), (gradient,), ()))
    check_row("line-stanford", theirs)
    check_row("line-step-16", printed)


@pytest.mark.rosetta("line-step-p", "line-step-1", "line-step-2", "line-step-last")
def test_steps_of_the_notebook():
    """The likelihood is affine in each probability, so a difference of two totals is its derivative."""
    cases = {key: [] for key in ("line-step-p", "line-step-1", "line-step-2", "line-step-last")}
    for (T, V, targets), (y, collected, log_z, gradient) in zip(LATTICES, ctc_collected(beta_with), strict=True):
        paths, p, slope = ctc_alignments(targets, T, V, 0), math.exp(log_z), np.zeros((T, V))
        for entry in np.ndindex(T, V):
            totals = []
            for value in (0.0, 1.0):
                changed = y.copy()
                changed[entry] = value
                totals.append(math.fsum(math.prod(changed[each] for each in path) for path in paths))
            slope[entry] = totals[1] - totals[0]
        product = np.exp(collected)
        cases["line-step-p"].append(((product, y), (np.full(T, p),), ()))
        cases["line-step-1"].append(((product, y), (slope,), ()))
        cases["line-step-2"].append(((product, y, p), (slope / p,), ()))
        cases["line-step-last"].append(((y, product, p), (gradient,), ()))
    for key, each in cases.items():
        check_row(key, each)


@pytest.mark.rosetta("line-step-3", "line-step-4")
def test_the_chain():
    """Row by row the Jacobian of a softmax, by tensors; through it, by enumeration, the gradient of the logits."""
    jacobians, chains = [], []
    for T, V, targets in LATTICES:
        logits = np.random.default_rng(T + V).normal(size=(T, V))
        _, gradient = loss_and_grad_logits("ctc", logits, targets, 0)
        y = softmax(logits)
        _, occupancy = loss_and_occupancy("ctc", np.log(y), targets, 0)
        for t in range(T):
            row = torch.tensor(logits[t])
            jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row).numpy()
            jacobians.append(((y[t],), (jacobian,), ()))
            chains.append(((occupancy[t] / y[t], jacobian), (gradient[t],), ()))
    check_row("line-step-3", jacobians)
    check_row("line-step-4", chains, planted=[("step_4", lambda d_ln_p, d_y: d_ln_p @ d_y)])


@pytest.mark.rosetta("line-paddle-times", "line-keras")
def test_lengths():
    """A mean over frames has a gradient that is smaller by their number; zeros are no labels."""
    cases = []
    for T, V, targets in LATTICES:
        logits = torch.randn(T, 1, V, dtype=torch.float64, requires_grad=True,
                             generator=torch.Generator().manual_seed(T))
        loss = torch.nn.functional.ctc_loss(logits.log_softmax(-1), torch.tensor([targets]), (T,), (len(targets),),
                                            reduction="sum")
        divided, = torch.autograd.grad(loss / T, logits, retain_graph=True)
        whole, = torch.autograd.grad(loss, logits)
        cases.append(((divided.numpy(), T), (whole.numpy(),), ()))
    check_row("line-paddle-times", cases)
    padded = np.array([[3, 1, 0, 0], [2, 2, 5, 1], [0, 0, 0, 0]])
    check_row("line-keras", [((padded, 0), (np.array([2, 4, 0]),), ())],
              planted=[("label_length", lambda y_true, mask_index: np.full(len(y_true), y_true.shape[1])),
                       ("label_length", lambda y_true, mask_index: y_true.sum(-1))])


# --- the page ---

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "book" / "line_by_line.md").read_text(encoding="utf-8")
LINES = {name: rows for name, (_, rows) in TABLES.items() if name.startswith("line-")}


def test_every_table_stands_below_its_anchor():
    shown = re.findall(r"^```\{rosetta\} (.*)$", PAGE, flags=re.MULTILINE)
    assert sorted(shown) == sorted(LINES)
    for name in shown:
        assert f"({name})=\n" in PAGE and PAGE.index(f"({name})=\n") < PAGE.index(f"```{{rosetta}} {name}\n")


def test_equations_and_places_of_the_rows_exist():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.ipynb")]
    cells = "\n".join("".join(cell["source"]) for text in texts for cell in json.loads(text)["cells"])
    rows = "\n".join("".join(row.cells) for rows in LINES.values() for row in rows) + PAGE
    equations = set(re.findall(r"\{eq\}`([\w-]+)`", rows))
    places = set(re.findall(r"\{ref\}`[^`<]*<([\w-]+)>`", rows))
    assert len(equations) > 30 and {label for label in equations if f"$$ ({label})" not in cells} == set()
    assert len(places) > 7 and {label for label in places if f"({label})=" not in cells} == set()


def test_a_reader_of_warprnnt_numba_meets_the_factor_first():
    section = PAGE.partition("(line-warprnnt-numba)=\n")[2].partition("\n(")[0]
    assert "(1 + lambda)" in section.splitlines()[0]
    assert section.splitlines()[2].startswith("The factor $(1 + \\lambda)$")
    assert "log1p(fastemit_lambda)" in LINES["line-warprnnt-numba"][0].cells[0]


def test_the_page_is_short():
    """Words of the page and of its tables; formulas, lines of code and marks are none."""
    cells = [cell for rows in LINES.values() for row in rows for cell in row.cells]
    text = "\n".join([re.sub(r"^```.*|^\(.*\)=$", "", PAGE, flags=re.MULTILINE), *cells])
    text = re.sub(r"\{(?:ref|named)\}`([^`<]*)[^`]*`", r"\1", text)
    text = re.sub(r"\{\w+\}`[^`]*`|`[^`\n]*`|\$[^$\n]*\$|\]\([^)\n]*\)", " ", text)
    assert 900 < len(re.findall(r"[^\W\d_]+(?:['-]\w+)*", text)) <= 1600


def test_every_line_is_read_and_nearly_every_line_is_checked():
    rows = [row for rows in LINES.values() for row in rows]
    assert all(row.claims for row in rows)
    assert {row.key for row in rows if not ROWS[row.checked_as or row.key].converts} == {
        "line-step-prefix", "line-step-beta", "line-torch-cudnn"}
