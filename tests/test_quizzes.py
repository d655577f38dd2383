"""The quizzes of the chapters: their form, and what can be computed of their answers. It knows no Sphinx.

A test of a value computes it anew, and asks which of the printed answers it is; the quiz must mark just that one.
"""

import json
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from enumeration import alignments, ctc_alignments, rnnt_alignments

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.bug_bank import BUGS, CHECKS
from reference_impl.bug_bank.exhibits import EXHIBITS
from reference_impl.conformance.museum import reproduce
from reference_impl.examples import TINY_CTC
from reference_impl.lattice import Arc, Lattice, backward, forward
from reference_impl.semiring import REAL
from reference_impl.torch_impl import rnnt_loss

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
PREREQUISITES = NOTEBOOKS.parent / "book" / "teaching" / "prerequisites.md"
QUIZ = re.compile(r"^:::\{quiz\} ([\w-]+)\n(.*?)^:::$", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^- \[([ x])\] (.*)\n((?:  >.*\n)+)", re.MULTILINE)
WITH_QUIZZES = 10, 20, 30, 35, 40, 42, 45, 50, 60, 62, 65, 70, 75, 76


class Answer(NamedTuple):
    right: bool
    text: str
    why: str


def quizzes_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return quizzes_in("\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"))


def quizzes_in(text):
    return {name: [Answer(mark == "x", answer, why) for mark, answer, why in ANSWER.findall(body)]
            for name, body in QUIZ.findall(text)}


CHAPTERS = {int(path.stem[:2]): quizzes_of(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
ALL = {name: answers for quizzes in CHAPTERS.values() for name, answers in quizzes.items()}


# --- form ---


def test_each_of_these_chapters_has_two_to_four_quizzes():
    assert {chapter for chapter, quizzes in CHAPTERS.items() if quizzes} >= set(WITH_QUIZZES)
    for chapter in WITH_QUIZZES:
        assert 2 <= len(CHAPTERS[chapter]) <= 4, chapter
    assert len(ALL) == sum(map(len, CHAPTERS.values())), "a name stands in two chapters"


@pytest.mark.parametrize("name", ALL)
def test_each_answer_has_a_reason_that_names_an_equation(name):
    assert 3 <= len(ALL[name]) <= 5
    for answer in ALL[name]:
        assert re.search(r"\{(eq|prf:ref)\}`", answer.why), answer.text
        sentences = re.findall(r"[.?!](?=\s|$)", re.sub(r"\$[^$]*\$|\beqs?\.", "", answer.why))
        assert 1 <= len(sentences) <= 3, answer.why
        assert "{" not in re.sub(r"\$[^$]*\$|\{named\}`[^`]*`", "", answer.text), "a link inside a label"
        assert not re.search(r"(all|none|both) of (the|these)", answer.text, re.IGNORECASE)


def test_no_habit_gives_the_right_answer_away():
    longest = [max(answers, key=lambda each: len(each.text)).right for answers in ALL.values()]
    assert sum(longest) < 0.5 * len(ALL)


def lopsided(quizzes):
    """The places that hold too many right answers, or too few: what they would give away to a student who knew that.

    It looks at quizzes with one right answer, by their number of answers. A place should hold between half and one and
    a half times its even share, as soon as there are enough quizzes for that to mean anything.
    """
    single = [[each.right for each in answers] for answers in quizzes if sum(each.right for each in answers) == 1]
    found = []
    for size in sorted({len(each) for each in single}):
        places = Counter(each.index(True) for each in single if len(each) == size)
        even = sum(places.values()) / size
        if even >= 4:
            found += [f"{places[i]} of {sum(places.values())} at {'ABCDE'[i]}, of {size}" for i in range(size)
                      if not 0.5 * even <= places[i] <= 1.5 * even]
    return found


def test_right_answers_stand_at_every_place_about_equally_often():
    assert lopsided([*ALL.values(), *quizzes_in(PREREQUISITES.read_text(encoding="utf-8")).values()]) == []


def test_lopsided_places_are_noticed():
    def quizzes(*places):
        return [[Answer(i == place, "", "") for i in range(3)] for place in places]

    assert lopsided(quizzes(*8 * [0, 1, 2])) == []
    assert lopsided(quizzes(*2 * [0], *18 * [1], *8 * [2])) == ["2 of 28 at A, of 3", "18 of 28 at B, of 3"]
    assert lopsided(quizzes(*2 * [1])) == []  # too few to say anything


# --- values ---


def number(text):
    """The first number of an answer: a fraction, an infinity, or a decimal."""
    if match := re.search(r"\\tfrac\{(\d+)\}\{(\d+)\}|\\tfrac(\d)(\d)", text):
        above, below = filter(None, match.groups())
        return int(above) / int(below)
    if "infty" in text:
        return math.inf
    match = re.search(r"(-?)\$?(-?\d+(?:\.\d+)?)", text)
    return None if match is None else float(match[2]) * (-1 if match[1] else 1)


def answers_of_value(name, value, places=3):
    """Which answers of the quiz say this value."""
    said = [number(answer.text) for answer in ALL[name]]
    return [x is not None and (x == value or abs(x - value) < 0.5 * 10.0**-places) for x in said]


def rights(name):
    return [answer.right for answer in ALL[name]]


def marked(name):
    """The letters of the right answers."""
    return "".join(letter for letter, right in zip("ABCDE", rights(name), strict=False) if right)


Y, E = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.5, 0.3])


def logit_slope(y, A, B, k, h=1e-6):
    """Of -log(A + sum of B softmax), by a central difference."""
    def loss(u):
        return -math.log(A + B @ np.exp(log_softmax(u)))

    step = h * np.eye(len(y))[k]
    return (loss(np.log(y) + step) - loss(np.log(y) - step)) / (2 * h)


def bridge(w=1.0):
    """The lattice of chapter 30: nodes 0, 1, 2, 3, weights of 01, 02, 12, 13, 23."""
    ends = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))
    arcs = tuple(Arc(m, n, (a,)) for a, (m, n) in enumerate(ends))
    return Lattice((0, 1, 2, 3), arcs, (5,)), np.array([2.0, 3.0, w, 5.0, 2.0])


def bridge_slope(h=1e-6):
    lattice, _ = bridge()
    total = [math.log(forward(lattice, bridge(w)[1], REAL)[-1]) for w in (math.exp(-h), math.exp(h))]
    return 0.01 * (total[1] - total[0]) / (2 * h)


def bridge_node():
    lattice, weights = bridge()
    alpha, beta = forward(lattice, weights, REAL), backward(lattice, weights, REAL)
    assert (alpha[1], beta[1], alpha[-1]) == (2, 7, 20)
    return alpha[1] * beta[1] / alpha[-1]


def frame_sum(labels=0.5):
    """Of RNN-T: Z and the expected labels of frame 0 on an example, put to the numbers of the quiz."""
    rng = np.random.default_rng(2)
    log_probs = log_softmax(rng.normal(size=(4, 3, 3)))
    occupied = rnnt.occupancy(log_probs, [1, 2])
    emitted = occupied[0, :, 1:].sum()
    assert abs(occupied[0].sum() - (1 + emitted)) < 1e-12
    return 0.2 * (1 + labels)


def constant_predictor_belief(labels=3):
    """The y at which (1 + n) y - 1 vanishes, found on one frame, where all labels are emitted."""
    def slope(y):
        u = np.log([y, 1 - y])
        occupied = rnnt.occupancy(np.tile(log_softmax(u), (1, labels + 1, 1)), [1] * labels)
        assert abs(occupied[..., 1].sum() - labels) < 1e-12
        logits = np.tile(u, (1, labels + 1, 1))
        return rnnt.grad_logits(logits, [1] * labels)[..., 0].sum()

    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low


def torch_mean():
    """Torch's mean of losses 30 and 8 with 10 and 2 labels: its weights are measured, then applied."""
    log_probs = torch.randn(30, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    targets = torch.randint(1, 5, (2, 10), generator=torch.Generator().manual_seed(1))
    given = log_probs, targets, torch.tensor([30, 30]), torch.tensor([10, 2])
    each = torch.nn.functional.ctc_loss(*given, reduction="none")
    mean = torch.nn.functional.ctc_loss(*given, reduction="mean")
    assert abs(mean - (each[0] / 10 + each[1] / 2) / 2) < 1e-12
    return (30 / 10 + 8 / 2) / 2


def torch_on_an_absent_symbol():
    probs = torch.tensor([[[0.5, 0.3, 0.2]]] * 3, dtype=torch.float64)
    log_probs = probs.log().requires_grad_()
    torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1]]), [3], [1], reduction="sum").backward()
    assert ctc.grad_log_probs(log_probs.detach().numpy()[:, 0], [1])[0, 2] == 0
    return float(log_probs.grad[0, 0, 2])


def check_totals():
    log_probs = log_softmax(np.random.default_rng(3).normal(size=(5, 3, 4)))
    total = rnnt.grad_log_probs(log_probs, [1, 2]).sum()
    assert abs(total + 7) < 1e-12 and abs(rnnt.grad_logits(log_probs, [1, 2]).sum()) < 1e-12


VALUES = {
    # (value, decimal places that are printed)
    "check-variable": lambda: (logit_slope(Y, 0, E / Y, 1), 3),
    "softmax-twice": lambda: (-math.log(math.e / (math.e + 49)), 1),
    "theorem-slope": lambda: (bridge_slope(), 5),
    "theorem-node": lambda: (bridge_node(), 5),
    "theorem-shared": lambda: (0.7 + 0.6, 5),
    "ctc-paths": lambda: (len(ctc_alignments([1, 1], 4, 2, 0)), 3),
    "ctc-gradient-absent": lambda: (logit_slope(np.array([0.5, 0.4, 0.1]), 0, np.array([1, 2, 0]), 2), 4),
    "practice-mean": lambda: (torch_mean(), 1),
    "practice-absent": lambda: (torch_on_an_absent_symbol(), 4),
    "rnnt-frame": lambda: (frame_sum(), 4),
    "rnnt-gradient-other": lambda: (logit_slope(np.array([0.4, 0.3, 0.3]), 0.9 / 0.1 * 0.35, [0.5, 0.5, 0], 2), 4),
    "compare-belief": lambda: (constant_predictor_belief(), 4),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_right_number_is_the_computed_one(name):
    value, places = VALUES[name]()
    found = answers_of_value(name, value, places)
    if name == "practice-absent":  # two numbers an answer: what torch hands back, and the gradient
        found = [each and answer.text.endswith(", and 0") for each, answer in zip(found, ALL[name], strict=True)]
    assert found == rights(name), (value, [number(answer.text) for answer in ALL[name]])


MOVES = rnnt_alignments([1, 2, 3], 4, 4, 0)


@pytest.mark.parametrize("name, value", [
    ("check-step", f"{round(2 ** (29 / 3), -2):.0f} times as large"),
    ("rnnt-moves", f"{len(MOVES[0])} symbols, {len(MOVES)} paths"),
    ("compare-count", f"{len(ctc_alignments([1, 2], 4, 3, 0))}, {math.comb(4, 2)} and "
                      f"{len(rnnt_alignments([1, 2], 4, 3, 0))}"),
    ("fastemit-bonus", "falls by 2, and no posterior changes"),
    ("rnnt-gradient-devices", "$-0.4$ and $-0.1$"),
])
def test_the_right_words_hold_the_computed_numbers(name, value):
    assert [value in answer.text for answer in ALL[name]] == rights(name)


# --- statements, tried ---


def test_check_kernel_and_practice_prior():
    """With respect to the logits y - E and -E are the same; over a frame they add up to 0 and -1, and c - 1."""
    y, e = Y, E
    wrong, right = y - e, -e
    back = [g - y * g.sum() for g in (wrong, right)]
    assert np.allclose(*back, rtol=0, atol=1e-15)
    assert abs(wrong.sum()) < 1e-15 and abs(right.sum() + 1) < 1e-15
    assert marked("check-kernel") == "BD"
    scores = torch.tensor(np.log(y)[None, None].repeat(3, 0) - 0.5 * np.log([0.7, 0.2, 0.1]), requires_grad=True)
    torch.nn.functional.ctc_loss(scores, torch.tensor([[1]]), [3], [1], reduction="sum").backward()
    sums = scores.grad.sum(-1)
    assert torch.allclose(sums, scores.exp().sum(-1) - 1, rtol=0, atol=1e-12) and (sums - -1).abs().min() > 0.1
    assert marked("practice-prior") == "D"


def test_ctc_state_and_feasible():
    strings = [tuple(k for _, k in path) for path in ctc_alignments([1, 1], 4, 2, 0)]
    assert {string[:3].count(0) > 0 for string in strings if string[3] == 1} == {True}
    assert (1, 0, 1, 1) in strings  # the path of the first explanation
    assert marked("ctc-state") == "C"
    assert not ctc_alignments([1, 2, 3, 3, 4], 5, 5, 0) and ctc_alignments([1, 2, 3, 3, 4], 6, 5, 0)
    assert ctc.loss(log_softmax(np.zeros((5, 5))), [1, 2, 3, 3, 4]) == np.inf
    assert number(next(a.text for a in ALL["ctc-feasible"] if a.right)) == math.inf
    assert marked("ctc-feasible") == "B"


def test_ctc_beta_and_gradient_twice():
    """The emission in both: the frame sums differ, no constant repairs them, and without - log_p yE is left."""
    y = np.exp(log_softmax(np.random.default_rng(0).normal(size=(4, 3))))
    alpha, beta = (f(y, [1, 2], semiring=REAL) for f in (ctc.alpha, ctc.beta))
    extended = [0, 1, 0, 2, 0]
    both = beta * y[:, extended]
    sums = (alpha * both).sum(1)
    assert np.ptp(sums) > 0.01 * sums.mean()
    z = (alpha * beta).sum(1)
    assert np.ptp(z) < 1e-15
    occupied = ctc.occupancy(np.log(y), [1, 2])
    kept = np.array([[(alpha * both)[t, [s for s in range(5) if extended[s] == k]].sum() / z[t] for k in range(3)]
                     for t in range(4)])
    assert np.allclose(kept, y * occupied, rtol=1e-12, atol=0)
    assert abs((y - kept).sum(1)).min() > 0.01
    assert marked("ctc-beta") == "B" and marked("ctc-gradient-twice") == "C"


def test_story_double():
    y, target = TINY_CTC.probs, TINY_CTC.targets
    z = ctc.Z(y, target, semiring=REAL)
    y[0, 1] *= 2
    assert ctc.Z(y, target, semiring=REAL) / z == Fraction(4, 3)
    assert marked("story-double") == "B"


def test_softmax_three():
    """The blank of the middle frame: what it gains, and what the other symbols lose by its logit."""
    by_log_prob = ctc.grad_log_probs(log_softmax(TINY_CTC.logits), TINY_CTC.targets)[1]
    y = TINY_CTC.probs[1].astype(float)
    assert abs(by_log_prob[0] + 1 / 5) < 1e-15 and abs(by_log_prob.sum() + 1) < 1e-15
    assert abs(ctc.grad_logits(TINY_CTC.logits, TINY_CTC.targets)[1, 0] - (by_log_prob[0] + y[0])) < 1e-15
    assert marked("softmax-three") == "A"


def test_ctc_gradient_affine():
    y = np.exp(log_softmax(np.random.default_rng(1).normal(size=(4, 3))))
    z, mass = math.exp(-ctc.loss(np.log(y), [1, 2])), ctc.occupancy(np.log(y), [1, 2])[2, 1]
    y[2, 1] *= 2
    assert abs(math.exp(-ctc.loss(np.log(y), [1, 2])) - (z + z * mass)) < 1e-15
    assert marked("ctc-gradient-affine") == "B"


def test_route_loss_and_pruned():
    """The sum of all alphas is more than Z, and pruning changes it."""
    y = np.exp(log_softmax(np.random.default_rng(4).normal(size=(4, 3))))
    alpha = ctc.alpha(y, [1, 2], semiring=REAL)
    z = math.exp(-ctc.loss(np.log(y), [1, 2]))
    assert -math.log(alpha[-1].sum()) < -math.log(z) - 0.1
    pruned = [alpha[t, max(0, 5 - 2 * (4 - t)):].sum() for t in range(4)]
    assert any(a.sum() > p for a, p in zip(alpha, pruned, strict=True)) and abs(pruned[-1] - z) < 1e-15
    assert marked("route-loss") == "A" and marked("route-pruned") == "D"


def test_practice_nan():
    log_probs = torch.zeros(2, 2, 3, dtype=torch.float64, requires_grad=True)
    losses = torch.nn.functional.ctc_loss(log_probs.log_softmax(-1), torch.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2],
                                          reduction="none")
    (losses.masked_fill(losses.isinf(), 1.0) * 0 + losses * torch.tensor([0.0, 1.0])).sum().backward()
    assert log_probs.grad[:, 0].isnan().all() and log_probs.grad[:, 1].isfinite().all()
    assert log_probs.grad.sum((0, 1)).isnan().all()  # what a shared parameter receives
    assert marked("practice-nan") == "C"


def test_rnnt_negative():
    """Of what the quiz offers only unnormalised scores make a loss negative."""
    log_probs = log_softmax(np.random.default_rng(5).normal(size=(4, 3, 3)))
    loss = rnnt.loss(log_probs, [1, 2])
    last_blank = log_probs[-1, -1, 0]
    assert loss > 0 and loss + last_blank > 0
    assert abs(rnnt.loss(log_softmax(log_probs), [1, 2]) - loss) < 1e-12
    assert abs(rnnt.loss(log_probs + 8, [1, 2]) - (loss - 8 * 6)) < 1e-12 and loss - 8 * 6 < 0
    assert marked("rnnt-negative") == "A"


def test_rnnt_gradient_without_and_devices():
    """Without log_probs: the derivative with respect to the probability. And -0.1 is -0.4 through log-softmax."""
    log_probs = log_softmax(np.random.default_rng(6).normal(size=(3, 2, 3)))
    y, h = np.exp(log_probs), 1e-6
    step = np.zeros_like(y)
    step[1, 0, 0] = h
    slope = (rnnt.loss(np.log(y + step), [1]) - rnnt.loss(np.log(y - step), [1])) / (2 * h)
    assert abs(slope - rnnt.grad_log_probs(log_probs, [1])[1, 0, 0] / y[1, 0, 0]) < 1e-8
    g, softmax = np.array([-0.4, -0.2, 0]), np.array([0.5, 0.3, 0.2])
    assert abs((g - softmax * g.sum())[0] + 0.1) < 1e-15
    assert marked("rnnt-gradient-without") == "C"


def test_kernels():
    check_totals()
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(3, 3, 4))
    gradient, occupied = rnnt.grad_logits(logits, [1, 2]), rnnt.occupancy(log_softmax(logits), [1, 2])
    y = np.exp(log_softmax(logits))
    assert abs(gradient[2, 1, 0] - y[2, 1, 0] * occupied[2, 1].sum()) < 1e-15 and gradient[2, 1, 0] > 0.01
    without_denom = gradient[1, 1] * np.exp(logits[1, 1]).sum()  # e^d at every entry of the node
    assert abs(without_denom.sum()) < 1e-14 and abs(without_denom).max() > 0.1
    assert (marked("kernels-sum"), marked("kernels-last-frame"), marked("kernels-denom")) == ("D", "A", "A")


def test_k2_picture_and_failures_clamp():
    """A picture of node gradients adds up to T + U; a bound of 0.1 after the mean cuts at B = 4, and not at 16."""
    logits = 3 * np.random.default_rng(8).normal(size=(5, 3, 4))
    assert abs(rnnt.occupancy(log_softmax(logits), [1, 2]).sum() - 7) < 1e-12
    gradient = rnnt.grad_logits(logits, [1, 2])
    cut = [int((np.abs(gradient / B) > 0.1).sum()) for B in (4, 16)]
    assert cut[0] > 0 == cut[1]
    assert marked("k2-picture") == "D" and marked("failures-clamp") == "B"


def test_fastemit():
    """A bonus of 0.5 on 4 labels; the field of the printed number; and its gradient check at 0 and at 0.1."""
    rng = np.random.default_rng(8)
    log_probs = log_softmax(rng.normal(size=(5, 5, 6)))
    targets = [1, 2, 3, 4]
    raised = log_probs.copy()
    for u, k in enumerate(targets):
        raised[:, u, k] += 0.5
    assert abs(rnnt.loss(raised, targets) - (rnnt.loss(log_probs, targets) - 2)) < 1e-12
    assert np.allclose(rnnt.occupancy(raised, targets), rnnt.occupancy(log_probs, targets), rtol=0, atol=1e-12)
    a = torch.tensor(rng.normal(size=(1, 5, 3, 4)), requires_grad=True)
    given = torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])

    def checked(strength):
        return torch.autograd.gradcheck(lambda a: rnnt_loss(a, *given, fastemit_lambda=strength).sum(), (a,),
                                        raise_exception=False)

    assert checked(0.0) and not checked(0.1)

    def field(strength):
        return torch.autograd.grad(rnnt_loss(a, *given, fastemit_lambda=strength).sum(), a)[0]

    assert (field(0.1) - 1.1 * field(0.0)).abs().max() > 0.01
    assert field(0.1).sum(-1).abs().max() < 1e-12 and (2 * field(0.0)).sum(-1).abs().max() < 1e-12  # bugs-sum
    occupied = rnnt.occupancy(log_softmax(a.detach().numpy()[0]), [1, 2]).sum(-1)
    assert (1 - occupied).max() > 0.1  # y - E adds up to 1 - gamma
    assert marked("bugs-sum") == "BD"
    assert marked("fastemit-where") == "AB" and marked("fastemit-scaled") == "B" and marked("fastemit-gradcheck") == "A"


def test_bugs_of_the_bank():
    """Which kinds of checks see a forgotten final state of CTC, and a gradient that is scaled in place."""
    def killers(word):
        bugs = [bug for bug in BUGS if word in bug.name]
        assert bugs, word
        return {check.name for bug in bugs for check in CHECKS if check.kills(bug)}

    final = killers("final blank forgotten")
    assert any("path" in name for name in final) and not any("difference" in name for name in final), final
    scaled = killers("scaled in place")
    assert any("twice" in name or "second" in name for name in scaled), scaled
    assert not any("difference" in name or "long" in name for name in scaled), scaled
    assert marked("bugs-final-blank") == "B" and marked("bugs-second") == "A"


def test_museum_by_its_exhibits():
    """The numbers of the two questions are those of two cards, and the answers those of the cards beside them."""
    shown = {key: reproduce(EXHIBITS[key]) for key in ("gradcheck", "upstream", "one-term", "second-backward")}
    given = {key: each.wrong[0].given.ravel().tolist() for key, each in shown.items()}
    assert given["gradcheck"] == [-0.5, 0.5] and shown["gradcheck"].wrong[0].right.tolist() == [[-1, 0]]
    assert ctc.grad_logits(np.zeros((1, 2)), []).tolist() == [[-0.5, 0.5]]
    assert marked("museum-variable") == "B"
    assert shown["one-term"].problem.upstream.tolist() == [3] and given["one-term"] == [-2.5, 0.5]
    assert given["upstream"] == [-0.5, 0.5] and given["second-backward"] == [-4.5, 4.5]
    assert shown["upstream"].wrong[0].right.ravel().tolist() == [-1.5, 1.5]
    assert marked("museum-weight") == "C"


def test_compare_dead():
    """A constant predictor cannot reach certainty, and its gradient is right in every digit."""
    y = np.full(2, 0.5)
    log_probs = np.tile(np.log(y), (1, 2, 1))
    assert len(alignments("rnnt", [1], 4, 2, 0)) == 4
    best = min(rnnt.loss(np.tile(np.log([p, 1 - p]), (4, 2, 1)), [1]) for p in np.linspace(0.01, 0.99, 99))
    assert best > -math.log(4 / 5)
    assert abs(rnnt.grad_logits(log_probs, [1])[..., 0].sum()) < 1e-15  # at rest, and not certain
    assert marked("compare-dead") == "D"


def test_route_scale():
    """Ten times the scale of frame 3, and the occupancies of the 2006 formula stay."""
    y = np.exp(log_softmax(np.random.default_rng(9).normal(size=(4, 3))))
    alpha, beta = (f(y, [1, 2], semiring=REAL) for f in (ctc.alpha, ctc.beta))
    emitted = y[:, [0, 1, 0, 2, 0]]
    for scale in (1, 10):
        hats = alpha[3] * (beta * emitted)[3] / scale
        total = (hats / emitted[3]).sum()
        kept = [hats[[0, 2, 4]].sum() / (total * y[3, 0]), hats[1] / (total * y[3, 1]), hats[3] / (total * y[3, 2])]
        assert np.allclose(kept, ctc.occupancy(np.log(y), [1, 2])[3], rtol=0, atol=1e-15)
    assert marked("route-scale") == "A"


def test_scale_factor():
    """Gradients of four processes with unequal numbers of utterances, averaged after a division by all of these."""
    shares = [[Fraction(3), Fraction(5)], [Fraction(2)], [Fraction(7), Fraction(1), Fraction(1)], [Fraction(4)]]
    every = [each for share in shares for each in share]
    mean = sum(every) / len(every)
    averaged = sum(sum(share) / len(every) for share in shares) / len(shares)
    mean_of_means = sum(sum(share) / len(share) for share in shares) / len(shares)
    assert averaged not in (mean, mean_of_means) and averaged == mean / 4
    assert marked("scale-factor") == "C"


def test_what_is_a_matter_of_words_stays_as_it_was_decided():
    """No number decides these; the explanations and the equations that they name do."""
    words = {"softmax-sum": "D", "softmax-back": "C", "theorem-affine": "C",
             "ctc-gradient-loglik": "A", "route-two": "C", "rnnt-rows": "D", "kernels-two": "A"}
    assert {name: marked(name) for name in words} == words


def test_every_quiz_is_decided_somewhere_here():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in ALL if f'"{name}"' not in text] == []
