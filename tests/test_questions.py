"""The page of questions: its answers that no chapter gives are computed here, and its links and sizes are counted.

A function named `computed_...` returns the numbers of an answer; the page *How these answers were computed* prints its
source. The test after it compares these numbers with an independent way to them, and with what the page says.
"""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from enumeration import collapse, ctc_alignments, loss_and_occupancy
from mentions import claims
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from reference_impl import ctc, decoding, lattice, log_softmax, rnnt, topology
from reference_impl.examples import TINY_CTC
from reference_impl.torch_impl import arc_rnnt_loss, ctc_loss, pruned_rnnt_loss, pruning, rnnt_loss, tdt_loss

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "book" / "questions.md").read_text(encoding="utf-8")
PREFACE = (ROOT / "book" / "preface.md").read_text(encoding="utf-8")
CHECKS = (ROOT / "book" / "questions_checks.md").read_text(encoding="utf-8")


def answer(question):
    """The row of the page that begins with this question."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {question}")]
    return row


# --- training ---


def computed_frames_needed(labels):
    """The least number of frames for which the loss is finite."""
    return next(frames for frames in itertools.count(1)
                if math.isfinite(ctc.loss(np.zeros((frames, max(labels) + 1)), labels)))


def test_frames_needed():
    """33 labels, of which two follow their equals, as in the thread; the rest differ from their neighbours."""
    m, s, other = 1, 2, itertools.cycle((3, 4))
    labels = [*itertools.islice(other, 14), m, m, 5, s, s, *itertools.islice(other, 14)]
    assert len(labels) == 33 and computed_frames_needed(labels) == 35
    assert computed_frames_needed([*labels[:15], *labels[16:]]) == 33  # one repeat less, one label less
    assert all(number in answer("There are more frames than labels") for number in ("33 labels", "35 frames", "had 34"))


def computed_share_of_the_blank(num_frames, num_labels, num_symbols):
    """The blank's mean occupancy where all symbols are equally probable, and what its share of the states says."""
    targets = [1 + u % (num_symbols - 1) for u in range(num_labels)]
    flat = np.full((num_frames, num_symbols), -math.log(num_symbols))
    return ctc.occupancy(flat, targets)[:, 0], (num_labels + 1) / (2 * num_labels + 1)


def test_share_of_the_blank():
    """Above the belief in every frame of a long input, and the nearer to the share of the states the longer it is."""
    short, share = computed_share_of_the_blank(200, 10, 30)
    long, _ = computed_share_of_the_blank(800, 10, 30)
    assert min(short.min(), long.min()) > 1 / 30 and share == pytest.approx(11 / 21)
    assert abs(long.mean() - share) < abs(short.mean() - share) / 3 < 0.01
    least = computed_share_of_the_blank(4, 2, 3)[0].min()  # a short input: 4 of the 15 paths say blank in frame 1
    assert least == pytest.approx(4 / 15, rel=1e-12, abs=0) and least < 1 / 3
    row = answer("Why does my network write only blanks?")
    assert r"if $T \gg U$" in row and r"$\frac{U + 1}{2U + 1}$" in row


def computed_hybrid_weights(weight, mean_labels):
    """A weight on CTC, averaged over utterances, beside RNN-T, divided by all labels: what it acts like; what to take.

    The gradient gets weight / B for each utterance's CTC loss, and (1 - weight) / (B * mean_labels) for its RNN-T loss.
    """
    acts_like = weight * mean_labels / (1 - weight + weight * mean_labels)
    to_take = weight / (weight + (1 - weight) * mean_labels)
    return acts_like, to_take


def test_hybrid_weights():
    """Autograd through both losses and their reductions returns the two gradients in this proportion."""
    rng = np.random.default_rng(0)
    frames, labels = torch.tensor([9, 7, 8]), torch.tensor([4, 2, 3])
    targets = torch.from_numpy(rng.integers(1, 5, (3, 4)))
    logits = torch.from_numpy(rng.normal(size=(3, 9, 5))).requires_grad_()
    grid = torch.from_numpy(rng.normal(size=(3, 9, 5, 5))).requires_grad_()
    weight, mean_labels = 0.3, labels.double().mean().item()
    acts_like, to_take = computed_hybrid_weights(weight, mean_labels)

    def gradients(weight):
        mean_batch = ctc_loss(logits, targets, frames, labels, reduction="none").mean()
        mean_volume = rnnt_loss(grid, targets, frames, labels, reduction="none").sum() / labels.sum()
        return torch.autograd.grad(weight * mean_batch + (1 - weight) * mean_volume, (logits, grid))

    alone = (torch.autograd.grad(ctc_loss(logits, targets, frames, labels, reduction="sum"), logits)[0],
             torch.autograd.grad(rnnt_loss(grid, targets, frames, labels, reduction="sum"), grid)[0])
    for taken, share in ((weight, acts_like), (to_take, weight)):
        of_ctc, of_rnnt = (each.norm() / one.norm() for each, one in zip(gradients(taken), alone, strict=True))
        assert (of_ctc / (of_ctc + of_rnnt)).item() == pytest.approx(share, abs=1e-9)
    acts_like, to_take = computed_hybrid_weights(0.3, 30)
    row = answer("Two losses are added")
    assert f"0.3 acts like {acts_like:.2f}" in row and f"here {to_take:.3f}" in row and "$\\bar U = 30$" in row


def computed_gradient_of_durations():
    """What the head of the durations gets from RNN-T's loss and from TDT's, if both heads read the same vectors."""
    vectors = torch.randn(1, 6, 4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    of_symbols = torch.zeros(8, 5, dtype=torch.float64, requires_grad=True)
    of_durations = torch.zeros(8, 5, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([[1, 2, 1]]), torch.tensor([6]), torch.tensor([3])
    plain = rnnt_loss(vectors @ of_symbols, *batch)
    tdt = tdt_loss(vectors @ of_symbols, vectors @ of_durations, *batch, durations=[0, 1, 2, 3, 4])
    return [torch.autograd.grad(loss, of_durations, allow_unused=True, materialize_grads=True)[0].abs().max().item()
            for loss in (plain, tdt)]


def test_gradient_of_durations():
    plain, tdt = computed_gradient_of_durations()
    assert plain == 0 and tdt > 0.1


def computed_delay(strength, num_frames=500, num_labels=100):
    """The mean frame of a label if all paths weigh the same, and the least loss: all labels in frame 0 for certain."""
    lengths = torch.tensor([num_frames]), torch.tensor([num_labels])
    penalty = strength * ((num_frames - 1) / 2 - torch.arange(num_frames, dtype=torch.float64))[:, None]
    labels = penalty.expand(1, num_frames, num_labels).clone().requires_grad_()
    blanks = torch.zeros(1, num_frames, num_labels + 1, dtype=torch.float64)
    posteriors = -torch.autograd.grad(arc_rnnt_loss(blanks, labels, *lengths), labels)[0][0].sum(1)
    mean_frame = (posteriors @ torch.arange(num_frames, dtype=torch.float64)).item() / num_labels
    certain = torch.full_like(labels, -math.inf)
    certain[:, 0] = 0
    blanks[:, :, :num_labels] = -math.inf
    return mean_frame, arc_rnnt_loss(blanks, certain + penalty, *lengths).item()


def test_delay():
    """The least loss is minus d U (T - 1) / 2; the mean frame falls, on a small grid as among listed paths."""
    row = answer("Why does training with a delay penalty diverge?")
    for strength in (0.0006, 0.006):
        mean_frame, least = computed_delay(strength)
        assert least == pytest.approx(-strength * 100 * 499 / 2, rel=1e-9)
        assert f"{mean_frame:.0f}" in row
    assert computed_delay(0)[0] == pytest.approx(249.5) and "249.5" in row
    assert f"{-least:.0f} nats" in row and "0.006" in row and "500 frames" in row and "100 labels" in row
    frames = [[sum(k == 0 for k in walk[:step]) for step, k in enumerate(walk) if k]
              for walk in ([*walk, 0] for walk in set(itertools.permutations([0, 0, 0, 1, 1])))]
    tilted = [math.exp(-0.5 * sum(each)) for each in frames]
    listed = sum(weight * sum(each) / 2 for weight, each in zip(tilted, frames, strict=True)) / sum(tilted)
    assert computed_delay(0.5, num_frames=4, num_labels=2)[0] == pytest.approx(listed, rel=1e-12)


def computed_finite(num_frames, num_labels, num_rows, label_frames):
    """Whether the simple loss is finite, and the pruned loss in the band that it chooses."""
    generator = torch.Generator().manual_seed(0)
    encodings = torch.randn(1, num_frames, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    predictions = torch.randn(1, num_labels + 1, 4, generator=generator, dtype=torch.float64)
    targets = torch.randint(1, 4, (1, num_labels), generator=generator)
    lengths = torch.tensor([num_frames]), torch.tensor([num_labels])
    scores = pruning.simple_scores(encodings, predictions, targets)
    simple, *posteriors = pruning.losses_and_posteriors(*scores, *lengths, label_frames=label_frames)
    first_rows = pruning.first_rows(*posteriors, *lengths, num_rows, label_frames=label_frames)
    logits = pruning.cut_band(encodings[:, :, None] + predictions[:, None], first_rows, num_rows)
    pruned = pruned_rnnt_loss(logits, first_rows, targets, *lengths, label_frames=label_frames)
    return simple.isfinite().item(), pruned.isfinite().item()


def test_finite():
    """For all small sizes: modified needs T >= U, and a regular band T (Q - 1) >= U."""
    for num_frames, num_labels in itertools.product(range(1, 5), range(1, 7)):
        for num_rows in range(2, num_labels + 2):
            for label_frames in (0, 1):
                simple = label_frames == 0 or num_frames >= num_labels
                pruned = simple and (label_frames == 1 or num_frames * (num_rows - 1) >= num_labels)
                assert computed_finite(num_frames, num_labels, num_rows, label_frames) == (simple, pruned)
    row = answer("Why is my simple or pruned loss infinite?")
    assert "$U > T$" in row and r"$T\,(Q - 1) < U$" in row


# --- gradients ---


def forward_recursion(log_probs, targets, rows):
    """CTC's loss as one writes it for autograd; `rows` makes of a tensor what its frames are read from."""
    extended = torch.zeros(2 * len(targets) + 1, dtype=torch.long)
    extended[1::2] = targets
    skip = torch.zeros(len(extended), dtype=torch.bool)
    skip[3::2] = targets[1:] != targets[:-1]
    nothing = log_probs.new_full((len(extended),), -1e30)
    emissions = rows(log_probs[:, extended])
    alpha = torch.cat([emissions[0][:2], nothing[2:]])
    for t in range(1, len(log_probs)):
        one = torch.cat([nothing[:1], alpha[:-1]])
        two = torch.where(skip, torch.cat([nothing[:2], alpha[:-2]]), nothing)
        alpha = torch.logsumexp(torch.stack([alpha, one, two]), 0) + emissions[t]
    return -torch.logsumexp(alpha[-2:], 0)


class Written(TorchDispatchMode):
    """Counts the numbers that operations write."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if not function.is_view:
            self.count += sum(each.numel() for each in out) if isinstance(out, (tuple, list)) else out.numel()
        return out


def computed_autograd(num_frames=200, num_labels=20):
    """For each state and frame: the numbers that autograd keeps; that its backward pass writes, for two ways to read.

    Last, how far its gradient is from the closed form.
    """
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_frames, 30, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(1, 30, (num_labels,), generator=generator)
    states = num_frames * (2 * num_labels + 1)
    kept, written = {}, []
    for rows in (lambda tensor: tensor.unbind(0), lambda tensor: tensor):
        log_probs = logits.log_softmax(-1)
        with torch.autograd.graph.saved_tensors_hooks(
                lambda tensor: kept.setdefault(tensor.untyped_storage().data_ptr(), tensor), lambda tensor: tensor):
            loss = forward_recursion(log_probs, targets, rows)
        with Written() as counted:
            (gradient,) = torch.autograd.grad(loss, logits)
        written.append(counted.count / states)
        numbers = sum(tensor.untyped_storage().nbytes() / 8 for tensor in kept.values()) / states
        kept.clear()
    closed = ctc.grad_logits(logits.detach().numpy(), targets.tolist())
    return numbers, *written, np.abs(gradient.numpy() - closed).max()


def test_autograd():
    """Reading a frame by its index makes autograd write an array of all frames for each: 2 T numbers more."""
    kept, unbound, indexed, difference = computed_autograd()
    row = answer("Should I write my own backward pass?")
    assert difference < 1e-12 and round(kept) == 4 and "four numbers" in row
    assert f"writes {unbound:.0f} numbers" in row and f"{indexed:.0f} if" in row and "200 frames" in row
    assert indexed - unbound == pytest.approx(2 * 200, abs=3)
    *_, longer, _ = computed_autograd(num_frames=400)
    assert longer - indexed == pytest.approx(2 * 200, abs=3)


def computed_oracle():
    """Torch's gradient less the derivative of its own loss, by differences: for log-probs, and for logits."""
    targets, lengths = torch.tensor([[1]]), ([3], [1])
    logits = torch.log(torch.from_numpy(TINY_CTC.weights / 4.0))[:, None]

    def error(of_logits):
        def loss(scores):
            log_probs = scores.log_softmax(-1) if of_logits else scores
            return torch.nn.functional.ctc_loss(log_probs, targets, *lengths, reduction="sum")

        at = logits.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(at), at)
        steps = 1e-5 * torch.eye(logits.numel(), dtype=torch.float64).reshape(-1, *logits.shape)
        quotients = torch.stack([(loss(logits + step) - loss(logits - step)) / 2e-5 for step in steps])
        return (gradient.flatten() - quotients).abs().max().item()

    return error(of_logits=False), error(of_logits=True)


def test_oracle():
    """Up to the softmax, the largest of whose entries is 1/2."""
    of_log_probs, of_logits = computed_oracle()
    assert of_log_probs == pytest.approx(0.5, abs=1e-8) and of_logits < 1e-8
    assert "0.5" in answer("Is PyTorch's gradient an oracle")


def computed_probabilities_for_logits(probs):
    """Probabilities (T, V) given to a loss that wants logits: the softmax inside makes other beliefs of them.

    Returns these beliefs, the gradient that comes back for the target 1, and the one that log-probs would have got.
    """
    return np.exp(log_softmax(probs)), ctc.grad_logits(probs, [1]), ctc.grad_logits(np.log(probs), [1])


def test_probabilities_for_logits():
    """The numbers of the thread, and belief minus evidence by listed strings; every sign is the opposite one."""
    probs = np.tile([0.9, 0.1], (6, 1))
    beliefs, wrong, right = computed_probabilities_for_logits(probs)
    thread = np.array([0.1190, 0.0359, 0.0049, 0.0049, 0.0359, 0.1190])
    assert np.allclose(wrong, np.outer(thread, [-1, 1]), rtol=0, atol=5e-5)
    for belief, gradient in ((beliefs, wrong), (probs, right)):
        assert np.allclose(gradient, belief - loss_and_occupancy("ctc", np.log(belief), [1], 0)[1], rtol=0, atol=1e-12)
    assert (np.sign(wrong) == -np.sign(right)).all()
    row = answer("Does my loss want probabilities")
    assert "0.9 and 0.1 become {:.2f} and {:.2f}".format(*beliefs[0]) in row
    assert np.allclose(ctc.loss(log_softmax(probs + 1), [1]), ctc.loss(log_softmax(probs), [1]), rtol=1e-12, atol=0)
    assert abs(ctc.loss(np.log(probs) + 1, [1]) - ctc.loss(np.log(probs), [1])) > 5


# --- shapes ---


def computed_padding():
    """Alignments of one label in three frames that are padded to six, and those of them that keep off the padding."""
    alignments = ctc_alignments([1], 6, 2, 0)
    return len(alignments), sum(all(symbol == 0 for frame, symbol in each if frame >= 3) for each in alignments)


def test_padding():
    """Labels after the length do not count, frames after it do unless they are certain blanks."""
    every, inside = computed_padding()
    assert f"{every - inside} of the {every} alignments" in answer("May I pad targets with the blank?")
    logits = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    losses = []
    for padding in (0, 3, 99):
        targets, lengths = torch.tensor([[2, 1, padding, padding]]), (torch.tensor([3]), torch.tensor([2]))
        losses.append(ctc_loss(logits, targets, *lengths).item())
        if padding < 4:
            losses.append(torch.nn.functional.ctc_loss(logits.log_softmax(-1).transpose(0, 1), targets, *lengths,
                                                       reduction="sum").item())
    assert losses == pytest.approx([losses[0]] * 5, rel=1e-12)
    mean = ctc_loss(logits, targets, torch.tensor([6]), lengths[1]).item()
    logits[:, 3:] = -math.inf
    logits[:, 3:, 0] = 0
    assert ctc_loss(logits, targets, torch.tensor([6]), lengths[1]).item() == pytest.approx(losses[0], rel=1e-12)
    assert abs(mean - losses[0]) > 0.1


def computed_fractions(largest):
    """How many pairs n <= N there are up to `largest`, and those in which float32's (n / N) * N, cut off, is not n."""
    pairs, lost = 0, []
    for width in range(1, largest + 1):
        lengths = torch.arange(1, width + 1)
        found = (lengths.float() / width * width).int()
        pairs += width
        lost += [(n, width) for n in lengths[found != lengths].tolist()]
    return pairs, lost


def test_fractions():
    """With NumPy's float32, one by one; each that is lost is smaller by 1, and rounding loses none."""
    pairs, lost = computed_fractions(1000)
    row = answer("The lengths are fractions.")
    assert f"{len(lost):,} of the {pairs:,} pairs up to 1000" in row and "13 of 22 becomes 12" in row
    few = computed_fractions(60)[1]
    assert few[0] == (13, 22)
    for width in range(1, 61):
        for n in range(1, width + 1):
            product = np.float32(n) / np.float32(width) * np.float32(width)
            assert int(product) == n - ((n, width) in few) and round(float(product)) == n


# --- numbers ---


def readings():
    """{what three frames of the first page may say: its probability}, listed string by string."""
    masses = {}
    for string in itertools.product(range(3), repeat=3):
        weight = np.prod([TINY_CTC.weights[t, k] / 4 for t, k in enumerate(string)])
        masses[tuple(collapse(string, 0))] = masses.get(tuple(collapse(string, 0)), 0) + weight
    return masses


def computed_confidence():
    """Of the first page's network: its best symbols' product, that reading's probability, and how sure an *a* is.

    The last is computed twice: for a list of the three best readings, and for all.
    """
    log_probs = np.log(TINY_CTC.weights / 4)
    best = log_probs.argmax(1).tolist()
    listed = {words: math.exp(-ctc.loss(log_probs, words)) for words in ((1, 2), (1,), (2,))}
    with_a = sum(mass for words, mass in listed.items() if 1 in words)
    return (math.exp(log_probs.max(1).sum()), math.exp(-ctc.loss(log_probs, collapse(best, 0))),
            with_a / sum(listed.values()), sum(mass for words, mass in readings().items() if 1 in words))


def test_confidence():
    product, reading, of_list, exact = computed_confidence()
    masses = readings()
    assert masses[1, 2] == max(masses.values()) and sum(masses.values()) == pytest.approx(1)
    row = answer("How sure is my recogniser")
    assert product == pytest.approx(8 / 64) and reading == pytest.approx(masses[1, 2]) == pytest.approx(17 / 64)
    assert r"$\frac{8}{64}$" in row and r"$\frac{17}{64}$" in row
    assert f"{of_list:.2f}" in row and f"{exact:.2f}" in row


def computed_prefix(log_probs, prefix, after_its_equal=False):
    """The probability that the labels begin so: the last is written in frame t, after what has written the others.

    A label may follow its equal only where a blank stands between: ``after_its_equal`` forgets that.
    """
    alpha = np.exp(ctc.log_alpha(log_probs, prefix[:-1]))
    in_blank, in_label = alpha[:, -1], alpha[:, -2] if len(prefix) > 1 else 0
    may_follow = len(prefix) > 1 and (prefix[-1] != prefix[-2] or after_its_equal)
    before = in_blank + in_label * may_follow
    return sum(np.append(float(len(prefix) == 1), before[:-1]) * np.exp(log_probs[:, prefix[-1]]))


def test_prefix():
    """Against all strings; the numbers on the page are those of *a a*."""
    log_probs, masses = np.log(TINY_CTC.weights / 4), readings()
    for prefix in ([1], [2], [1, 2], [2, 1], [1, 1], [1, 2, 1]):
        listed = sum(mass for words, mass in masses.items() if list(words[: len(prefix)]) == prefix)
        assert computed_prefix(log_probs, prefix) == pytest.approx(listed, rel=1e-12)
    row = answer("What is the probability of a prefix")
    right, wrong = (computed_prefix(log_probs, [1, 1], after_its_equal=each) * 64 for each in (False, True))
    assert f"$\\frac{{{right:.0f}}}{{64}}$" in row and f"$\\frac{{{wrong:.0f}}}{{64}}$" in row


def test_best_string():
    """The strings of two frames, listed."""
    masses = {}
    for path in itertools.product(range(2), repeat=2):
        weight = math.prod((2 / 3, 1 / 3)[symbol] for symbol in path)
        masses[tuple(collapse(path, 0))] = masses.get(tuple(collapse(path, 0)), 0) + weight
    row = answer("Why is the best path not the best string?")
    assert masses == pytest.approx({(): 4 / 9, (1,): 5 / 9}) and r"$\frac49$" in row and r"$\frac59$" in row


def computed_log_probs_wanted(num_frames=10, at=3):
    """The best string, by log-probs and by probabilities in their place. The network says label 1 in one frame.

    The beam keeps all prefixes. Dividing a frame's masses by their sum ranks no string differently.
    """
    probs = np.tile([0.9, 0.05, 0.05], (num_frames, 1))
    probs[at] = [0.05, 0.9, 0.05]
    return [decoding.ctc_beam_search(log_softmax(scores), beam=None)[0].labels for scores in (np.log(probs), probs)]


def test_log_probs_wanted():
    """Against all strings of seven frames; the search itself refuses probabilities."""
    right, wrong = computed_log_probs_wanted()
    assert right == (1,) and "".join(" ab"[k] + " " for k in wrong).strip() == "b a b"
    assert "*b a b*" in answer("Why does my decoder write nothing, or nonsense?")
    probs = np.tile([0.9, 0.05, 0.05], (7, 1))
    probs[3] = [0.05, 0.9, 0.05]
    for scores, best in zip((np.log(probs), probs), computed_log_probs_wanted(7), strict=True):
        masses = {}
        for path in itertools.product(range(3), repeat=7):
            weight = math.exp(sum(scores[t, k] for t, k in enumerate(path)))
            masses[tuple(collapse(path, 0))] = masses.get(tuple(collapse(path, 0)), 0) + weight
        assert masses[best] == pytest.approx(max(masses.values()), rel=1e-12)
    with pytest.raises(ValueError, match="log_probs"):
        decoding.ctc_beam_search(probs)


def test_half_precision():
    row = answer("May the lattice be float16, or the logits?")
    near = torch.tensor(5000.0, dtype=torch.bfloat16)
    assert np.spacing(np.float16(5000)) == 4 and "steps of 4 " in row
    next_up = torch.nextafter(near, torch.tensor(1e4, dtype=torch.bfloat16))
    assert (next_up - near).item() == 32 and "32 in bfloat16" in row


# --- memory ---


def computed_sampled_softmax(num_kept, num_draws=200):
    """The loss of RNN-T; its mean and largest over draws that keep the blank, the labels and some other symbols."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(4, 3, 50)), [3, 7]
    others = [symbol for symbol in range(1, 50) if symbol not in labels]
    kept = [[0, *labels, *rng.permutation(others)[:num_kept]] for _ in range(num_draws)]
    sampled = [rnnt.loss(log_softmax(logits[..., symbols]), [1, 2]) for symbols in kept]
    return rnnt.loss(log_softmax(logits), labels), np.mean(sampled), max(sampled)


def test_sampled_softmax():
    """Always too small, unless all symbols are kept."""
    full, mean, largest = computed_sampled_softmax(20)
    row = answer("Does a sampled softmax help?")
    assert largest < full and f"{full:.1f}" in row and f"{mean:.1f}" in row and "20 of 47" in row
    assert computed_sampled_softmax(47, num_draws=2)[1:] == pytest.approx((full, full), rel=1e-12)


def computed_checkpoint(num_utterances, checkpointed, frames=20, labels=9, symbols=50, size=16):
    """How many numbers of four bytes autograd keeps of a joiner and its loss, utterance by utterance; the gradients."""
    generator = torch.Generator().manual_seed(0)
    shapes = (num_utterances, frames, size), (num_utterances, labels + 1, size), (size, symbols)
    vectors = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    encoder, predictor, weights = vectors
    targets = torch.randint(1, symbols, (num_utterances, labels), generator=generator)
    lengths = torch.full((num_utterances,), frames), torch.full((num_utterances,), labels)
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    def joined_loss(encoder, predictor, *rest):
        return rnnt_loss((encoder[:, :, None] + predictor[:, None]).tanh() @ weights, *rest, reduction="sum")

    total = 0
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        for b in range(num_utterances):
            batch = [each[b:b + 1] for each in (encoder, predictor, targets, *lengths)]
            total += checkpoint(joined_loss, *batch, use_reentrant=False) if checkpointed else joined_loss(*batch)
    return sum(each.untyped_storage().nbytes() // 4 for each in kept.values()), torch.autograd.grad(total, vectors)


def test_checkpoint():
    """Kept with it: what the joiner reads, and integers; without: the joiner's tanh and two arrays of symbols."""
    (one, _), (four, expected), (few, gradients) = (computed_checkpoint(*case) for case in ((1, 0), (4, 0), (4, 1)))
    weights, nodes, integers = 16 * 50, 20 * 10, 2 * (9 + 2)
    assert few == 4 * ((20 + 10) * 16 + integers) and four == 4 * (one - weights) + weights
    assert one - weights == pytest.approx(nodes * (16 + 2 * 50), rel=0.15, abs=0)
    for actual, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)
    row = answer("What does checkpointing save?")
    assert all(f"{round(each, -3):,}" in row for each in (few, four, one))


# --- variants ---


def computed_focal(loss):
    """By what the loss (1 - p) L, p = exp(-L), multiplies the gradient of CTC where that is `loss`: two logits suffice.

    One frame says its one label with probability p.
    """
    logits = torch.tensor([[[-math.log(math.expm1(loss)), 0.0]]], dtype=torch.float64).flip(-1).requires_grad_()
    batch = torch.tensor([[1]]), torch.tensor([1]), torch.tensor([1])
    plain = ctc_loss(logits, *batch)
    focal = (1 - torch.exp(-plain)) * plain
    of_focal, of_plain = (torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (focal, plain))
    return plain.item(), (of_focal / of_plain)[0, 0, 1].item()


def test_focal():
    """By the formula, and by a difference quotient of the loss."""
    row = answer("Does a focal CTC loss help?")
    for loss in (-math.log(0.9), 10.0):
        value, factor = computed_focal(loss)
        p, step = math.exp(-loss), 1e-5
        focal = [(1 - math.exp(-each)) * each for each in (loss - step, loss + step)]
        assert value == pytest.approx(loss, rel=1e-10)
        assert factor == pytest.approx(1 - p + p * loss, rel=1e-9, abs=0)
        assert factor == pytest.approx((focal[1] - focal[0]) / (2 * step), rel=1e-8, abs=0)
        assert f"by {factor:.2f} " in row
    assert "$p = 0.9$" in row and "from 10 nats on" in row
    assert all(abs(computed_focal(loss)[1] - 1) < 0.005 for loss in (10.0, 12.0, 15.0, 20.0))


def computed_crf(scores, paths_of_target):
    """CTC-CRF's loss for scores that no softmax has seen, and its gradient: posteriors of all paths less the target's.

    ``scores[t, state, move]``; move 0 stays, move k leads to state k - 1. A path is a list of such triples.
    """
    frames, states, moves = scores.shape
    walks = [(start, steps) for start in range(states) for steps in itertools.product(range(moves), repeat=frames)]
    paths = []
    for state, steps in walks:
        path = []
        for t, move in enumerate(steps):
            path.append((t, state, move))
            state = move - 1 if move else state
        paths.append(path)

    def total_and_posteriors(paths):
        weights = [math.exp(sum(scores[entry] for entry in path)) for path in paths]
        posteriors = np.zeros_like(scores)
        for path, weight in zip(paths, weights, strict=True):
            for entry in path:
                posteriors[entry] += weight / sum(weights)
        return sum(weights), posteriors

    of_all, everywhere = total_and_posteriors(paths)
    of_target, there = total_and_posteriors([path for path in paths if paths_of_target(path)])
    return math.log(of_all) - math.log(of_target), everywhere - there, of_all


def test_crf():
    """The gradient by differences; what subtracting log Z / T of every score changes, and what it does not."""
    scores = np.random.default_rng(0).normal(size=(3, 2, 3))

    def reads_0_1(path):  # begins in state 0 and moves to state 1, once
        return path[0][1] == 0 and [move for _, _, move in path if move] == [2]

    loss, gradient, total = computed_crf(scores, reads_0_1)
    for entry in np.ndindex(scores.shape):
        step = np.zeros_like(scores)
        step[entry] = 1e-5
        quotient = (computed_crf(scores + step, reads_0_1)[0] - computed_crf(scores - step, reads_0_1)[0]) / 2e-5
        assert gradient[entry] == pytest.approx(quotient, abs=1e-8)
    again = computed_crf(scores - math.log(total) / 3, reads_0_1)
    assert again[0] == pytest.approx(loss) and again[1] == pytest.approx(gradient) and again[2] == pytest.approx(1)
    assert loss > 0 > loss - math.log(total) and total > 10  # without the first term the loss is negative here


def computed_alignment(star=None):
    """The frames in which the best path has the label: it is heard in frames 2 and 3, and a little better in frame 8.

    A star before and after it is one more symbol, with this probability in every frame.
    """
    probs = np.tile([0.95, 0.05, star or 1.0], (10, 1))
    probs[[2, 3], :2], probs[8, :2] = [0.4, 0.6], [0.35, 0.65]
    arcs = topology.ctc_lattice([2, 1, 2] if star else [1], 10, 3)
    weights = np.array([0.0 if arc.entry is None else np.log(probs)[arc.entry] for arc in arcs.arcs])
    path = [arcs.arcs[index].entry for index in lattice.best_path(arcs, weights)]
    return [entry[0] for entry in path if entry is not None and entry[1] == 1]


def test_alignment():
    """By the products of the probabilities that the frames would pay."""
    heard, elsewhere = 0.6 * 0.6 * 0.35, 0.4 * 0.4 * 0.65
    assert heard > elsewhere and computed_alignment() == [2, 3] and computed_alignment(star=1.0) == [8]
    assert computed_alignment(star=0.5) == [3] and 0.95**6 * 0.4 * 0.6 * 0.35 * 0.5**2 < 0.95**6 * 0.6 * 0.35 * 0.5**2
    row = answer("May a star stand where words are missing")
    assert all(text in row for text in ("0.6 in frames 2 and 3", "frame 8 (0.65)", "of 0.5 it", "frame 3:"))


# --- the pages ---


def words(text):
    """What a reader sees of Markdown, word by word: marks, addresses and labels are no words."""
    text = re.sub(r"\A---\n.*?\n---\n|^\([\w-]+\)=$|^\|[-|]+\|$", " ", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\{(?:claim|quiz)\}`[^`]*`", " ", text)
    text = re.sub(r"\{eq\}`[^`]*`", "equation", text)
    text = re.sub(r"\{asked\}`([^`]*)`", lambda match: "thread " * (match[1].count(",") + 1), text)
    text = re.sub(r"\{(?:ref|doc)\}`([^`<]*)<[^`]*`", r"\1", text)
    return [word for word in re.sub(r"[|#*`]|\]\([^)]*\)", " ", text).split() if re.search(r"\w", word)]


def rows_of(text):
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| question |")]


def test_size():
    assert len(rows_of(PAGE)) >= 45 and len(words(PAGE)) <= 3000
    for row in rows_of(PAGE):
        assert len(words(row.split(" | ")[1])) <= 40, row
    assert all(len(row.strip("|").split(" | ")) == 3 for row in rows_of(PAGE))


def test_the_front_page_asks_ten_of_them():
    asked = [row.split(" | ")[0] for row in rows_of(PAGE)]
    front = [row.split(" | ")[0] for row in rows_of(PREFACE)]
    assert len(front) == 10 and set(front) <= set(asked) and "](questions.md)" in PREFACE
    assert len(asked) == len(set(asked))


def test_every_answer_leads_somewhere():
    """To a section, an equation, a chapter or a test; what is computed here has its source printed."""
    for row in rows_of(PAGE) + rows_of(PREFACE):
        assert re.search(r"\{(ref|eq|doc)\}`|\]\(\.\./notebooks/", row), row
    linked = set(re.findall(r"<(computed-[\w-]+)>", PAGE))
    assert linked == set(re.findall(r"^\((computed-[\w-]+)\)=$", CHECKS, re.MULTILINE))
    printed = set(re.findall(r":pyobject: (\w+)", CHECKS))
    source = Path(__file__).read_text(encoding="utf-8")
    assert printed == set(re.findall(r"^def (computed_\w+)", source, re.MULTILINE))


def test_what_the_pages_name_is_there():
    notebooks = "\n".join(
        "".join(cell["source"]) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "markdown")
    everything = "\n".join([notebooks, PAGE, PREFACE, CHECKS])
    labels = set(re.findall(r"^\(([\w-]+)\)=$", everything, re.MULTILINE))
    labels |= set(re.findall(r":label: ((?:ex|thm)-[\w-]+)", everything))
    for text in (PAGE, PREFACE):
        assert set(re.findall(r"\{ref\}`(?:[^`<]*<)?([\w-]+)>?`", text)) <= labels
        assert set(re.findall(r"\{eq\}`([\w-]+)`", text)) <= set(re.findall(r"\(((?:eq|def)-[\w-]+)\)", notebooks))
        assert set(re.findall(r"\{quiz\}`([\w-]+)`", text)) <= set(re.findall(r":::\{quiz\} ([\w-]+)", notebooks))
        assert set(re.findall(r"\]\(\.\./(notebooks/\w+\.ipynb)\)", text)) <= {
            f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    for label in ("questions", "questions-on-ctc", "questions-on-rnnt", "questions-on-both"):
        assert everything.count(f"({label})=") == 1


def test_threads_are_claims_with_addresses():
    """And most rows have one: somebody asked."""
    known = claims()
    named = [name.strip() for names in re.findall(r"\{asked\}`([^`]*)`", PAGE) for name in names.split(",")]
    assert all("thread" in known[name] for name in named) and len(set(named)) >= 60
    assert sum("{asked}" in row for row in rows_of(PAGE)) >= 45


def words_to(text, wanted, start=""):
    """How many words stand from `start` of a page to the end of the line that has what is wanted."""
    text = text[text.index(start):]
    return len(words(text[: text.index("\n", text.index(wanted))]))


def test_the_way_to_one_plus_lambda_is_short():
    """From the top of the front page to the questions, on to those about gradients: two clicks, below 300 words."""
    assert "](#questions-on-both)" in PAGE and ":link: questions\n:link-type: ref\n" in PREFACE
    to_questions = words_to(PREFACE, "](questions.md)")
    to_group = words_to(PAGE, "](#questions-on-both)")
    to_row = words_to(PAGE, "Where does `(1 + lambda)` go", start="(questions-on-both)=")
    assert to_questions + to_group + to_row < 300
