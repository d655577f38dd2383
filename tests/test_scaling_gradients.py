"""Gradients of several processes and micro-batches are that of one process; the mean of means is off as predicted.

The other side is computed without batches, padding or a process group: one utterance at a time (``one_by_one``), or
by hand in fractions.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from dealt_out import dealt_out, one_by_one

from reference_impl.networks.training import descend
from reference_impl.scaling import (
    DIVISORS,
    Process,
    UtteranceLosses,
    agreed,
    bias_of_the_mean_of_means,
    count_of,
    ctc_losses,
    data_parallel,
    digest_of,
    made_up,
    rnnt_losses,
    run_processes,
    step_backward,
    totals,
)
from reference_impl.speech import training
from reference_impl.speech.batches import Example, batch_of
from reference_impl.speech.networks import CTCNetwork, Transducer
from reference_impl.torch_impl import ctc_loss

#: Sums of fewer than 5,000 float64 numbers, in any order, over their largest: 5,000 roundings of 2^-53.
ROUNDING = 5000 * 2.0**-53
NETWORKS = {"ctc": CTCNetwork, "rnnt": Transducer}
LOSSES = {"ctc": ctc_losses, "rnnt": rnnt_losses}
UTTERANCES = made_up(11, seed=5)
#: Three labels in two frames, one of the logits: it has no alignment by CTC.
IMPOSSIBLE = Example(UTTERANCES[0].frames[:2], np.array([1, 1, 1]), None)
#: How the ranks share the utterances: name -> (dealt out, divisor and so on are crossed with these).
SHARES = {"unequal": {}, "micro-batches": {"micro_batches": 3}, "an idle rank": {"micro_batches": 2, "idle": 1}}


def network(loss, seed=3):
    torch.manual_seed(seed)
    return NETWORKS[loss](8, spacings=(1,), dropout=0.0).double()


def of(loss, seed=3):
    return UtteranceLosses(network(loss, seed), LOSSES[loss])


def flat(model):
    return torch.cat([each.grad.flatten().clone() for each in model.parameters()])


# --- what the processes do; they are started once for all tests of two ---


def gradients_of(process, loss, utterances, *, divisor="utterances", reduction="mean", seed=3, **dealing):
    losses_of = of(loss, seed)
    parts = dealt_out(utterances, process.world_size, **dealing)[process.rank]
    step = step_backward(data_parallel(losses_of, process), parts, process, divisor=divisor, reduction=reduction)
    return step, flat(losses_of.network)


def all_checks(process):
    found = {(loss, divisor, name): gradients_of(process, loss, UTTERANCES, divisor=divisor, **SHARES[name])
             for loss in NETWORKS for divisor in DIVISORS for name in SHARES}
    found["bias"] = gradients_of(process, "ctc", UTTERANCES, divisor="labels", reduction="mean of means")
    found["impossible"] = gradients_of(process, "ctc", [IMPOSSIBLE, *UTTERANCES])
    found["other seeds"] = gradients_of(process, "ctc", UTTERANCES, seed=3 + process.rank)
    found["averages"] = averaged(process)
    found["no batch at all"] = without_batches(process)
    found["nothing to divide by"] = message(lambda: gradients_of(process, "ctc", [], micro_batches=1))
    found["disagreement"] = message(lambda: agreed("plan", f"plan {process.rank}"))
    found["totals"] = totals(torch.tensor([1, 10 ** process.rank]))
    found["forward outside"] = forward_outside(process)
    return found


def averaged(process):
    """Rank r passes r + 1 times the sum of a parameter back."""
    class Sum(UtteranceLosses):
        def forward(self, *tensors):
            return self.network.weight.sum()[None] if tensors else super().forward()

    losses_of = data_parallel(Sum(torch.nn.Linear(2, 1, bias=False), None), process)
    (losses_of(0).sum() * (process.rank + 1)).backward()
    return losses_of.module.network.weight.grad.tolist()


def without_batches(process):
    """Rank 0 has no batches, not even an empty one."""
    losses_of = of("ctc")
    step_backward(data_parallel(losses_of, process), [UTTERANCES] if process.rank else [], process)
    return flat(losses_of.network)


def forward_outside(process):
    """Gradients after a forward pass before, and a backward pass in ``no_sync``; and after both in it."""
    found = []
    for both in (False, True):
        inner = of("ctc")
        losses_of = data_parallel(inner, process)
        tensors = training.as_tensors(batch_of(UTTERANCES[process.rank:process.rank + 1]))
        losses = losses_of(*tensors) if not both else None
        with losses_of.no_sync():
            (losses_of(*tensors) if both else losses).sum().backward()
        found.append(flat(inner.network))
    return found


def message(function):
    try:
        function()
    except ValueError as error:
        return str(error)


@pytest.fixture(scope="module")
def two(once):
    """What both of two processes found; for all workers of a parallel run."""
    folder = once("scaling two", lambda folder: torch.save(run_processes(all_checks, 2), folder / "found"))
    return torch.load(folder / "found", weights_only=False)


# --- two processes ---


def expected(loss, divisor="utterances", utterances=UTTERANCES):
    model = network(loss)
    one_by_one(model, utterances, loss, divisor).backward()
    return flat(model)


def assert_equal(mine, right):
    assert float((mine - right).abs().max()) <= ROUNDING * float(right.abs().max())


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("loss", NETWORKS)
def test_two_processes_have_the_gradient_of_one(two, loss, divisor, shares):
    right = expected(loss, divisor)
    for found in two:
        step, gradient = found[loss, divisor, shares]
        assert_equal(gradient, right)
        assert step.count == count_of(UTTERANCES, divisor)
        assert step.value == step.finite == pytest.approx(
            one_by_one(network(loss), UTTERANCES, loss, divisor).item(), rel=ROUNDING, abs=0)


def test_the_shares_are_unequal():
    """Else the mean of means would be right, too."""
    sizes = [[sum(map(len, rank)) for rank in dealt_out(UTTERANCES, 2, **SHARES[name])] for name in SHARES]
    assert sizes == [[3, 8], [3, 8], [11, 0]]
    assert [len(each) for each in dealt_out(UTTERANCES, 2, 3)[1]] == [1, 3, 4]
    frames = [sum(len(each.frames) for each in rank[0]) for rank in dealt_out(UTTERANCES, 2)]
    assert abs(frames[0] / 3 - frames[1] / 8) > 1, "and so are the lengths"


def test_the_mean_of_means_is_off_by_its_bias(two):
    """By the formula, from the ranks' own sums, which one process computes utterance by utterance."""
    sums, counts = [], []
    for (mine,) in dealt_out(UTTERANCES, 2):
        counts.append(sum(len(each.labels) for each in mine))
        model = network("ctc")
        (one_by_one(model, mine, "ctc", "labels") * counts[-1]).backward()
        sums.append(flat(model).numpy())
    right = expected("ctc", "labels")
    bias = torch.from_numpy(bias_of_the_mean_of_means(np.stack(sums), counts))
    assert float(bias.abs().max()) > 0.01 * float(right.abs().max())
    for found in two:
        step, gradient = found["bias"]
        assert float((gradient - right - bias).abs().max()) <= ROUNDING * float(right.abs().max())
        value = one_by_one(network("ctc"), UTTERANCES, "ctc", "labels").item()
        losses = [one_by_one(network("ctc"), mine, "ctc", "labels").item() * count
                  for (mine,), count in zip(dealt_out(UTTERANCES, 2), counts, strict=True)]
        assert step.value - value == pytest.approx(float(bias_of_the_mean_of_means(losses, counts)), rel=1e-9, abs=0)


def test_an_impossible_utterance_makes_the_loss_infinite_and_nothing_else(two):
    right = expected("ctc") * len(UTTERANCES) / (len(UTTERANCES) + 1)  # it counts, and has gradient 0
    finite = one_by_one(network("ctc"), UTTERANCES, "ctc").item() * len(UTTERANCES) / (len(UTTERANCES) + 1)
    for found in two:
        step, gradient = found["impossible"]
        assert_equal(gradient, right)
        assert step.value == np.inf and step.impossible == 1 and step.count == 12
        assert step.finite == pytest.approx(finite, rel=ROUNDING, abs=0)


def test_all_ranks_start_with_the_weights_of_the_first(two):
    for found in two:
        assert_equal(found["other seeds"][1], expected("ctc"))


def test_gradients_are_averaged_and_not_added(two):
    """Ranks pass 1 and 2 back: the claim of the docstring."""
    assert [found["averages"] for found in two] == [[[1.5, 1.5]]] * 2


def test_the_forward_pass_belongs_into_no_sync(two):
    """Left outside, the gradients are exchanged: those of both ranks are the same, the average. Inside, each has its
    own."""
    own = [expected("ctc", utterances=UTTERANCES[rank:rank + 1]) for rank in (0, 1)]
    for rank, found in enumerate(two):
        outside, inside = found["forward outside"]
        assert_equal(outside, (own[0] + own[1]) / 2)
        assert_equal(inside, own[rank])


def test_ranks_with_nothing(two):
    for found in two:
        assert_equal(found["no batch at all"], expected("ctc"))
        assert found["nothing to divide by"] == (
            "count = 0 utterances in this step; expected at least one in some process")


def test_processes_that_disagree_all_hear_of_it(two):
    for found in two:
        assert found["disagreement"] == "plan = 'plan 1' on rank 1; expected 'plan 0', as on rank 0"
        assert found["totals"] == [2, 11]


# --- one process ---


@pytest.mark.parametrize("loss", NETWORKS)
@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("cuts", [(), (1,), (0, 4), (2, 5, 11)])
def test_micro_batches_are_one_batch(loss, divisor, cuts):
    losses_of = of(loss)
    parts = [UTTERANCES[i:j] for i, j in itertools.pairwise([0, *cuts, len(UTTERANCES)])]
    step = step_backward(losses_of, parts, Process(), divisor=divisor)
    assert_equal(flat(losses_of.network), expected(loss, divisor))
    assert step.value == pytest.approx(one_by_one(network(loss), UTTERANCES, loss, divisor).item(), rel=ROUNDING, abs=0)


def test_the_mean_of_micro_batches_has_the_same_bias():
    losses_of = of("ctc")
    parts = [UTTERANCES[:2], UTTERANCES[2:]]
    step_backward(losses_of, parts, Process(), reduction="mean of means")
    sums = [expected("ctc", utterances=each).numpy() * len(each) for each in parts]
    bias = torch.from_numpy(bias_of_the_mean_of_means(sums, [2, 9]))
    assert_equal(flat(losses_of.network) - bias, expected("ctc"))
    assert bias.abs().max() > 0.01 * expected("ctc").abs().max()


def test_the_loop_of_one_process_makes_the_same_steps():
    """Three steps of ``speech.training.train`` with a mean over a batch, and of this room: the same parameters.

    AdamW divides by the root of a mean square, plus 1e-8. What rounding makes of a gradient is below 1e-12, so a
    parameter moves by at most 1e-4 of the rate otherwise, whatever its gradient.
    """
    def mean(model, frames, *others):
        logits, lengths = model(frames.double(), others[0])
        return ctc_loss(logits, others[1], lengths, others[2], reduction="sum") / len(frames)

    batches, mine = [UTTERANCES[:3], UTTERANCES[3:8], UTTERANCES[8:]], of("ctc")
    other, values = network("ctc"), []
    theirs = [value for _, value in training.train(other, map(batch_of, batches), mean, steps=3)]
    optimiser, schedule = training.optimiser_of(mine.network, steps=3)
    for batch in batches:
        step = descend(mine.network, lambda batch=batch: step_backward(mine, [batch[:1], batch[1:]], Process()),
                       optimiser, schedule, largest_norm=5.0)
        values.append(step.value)
    assert values == pytest.approx(theirs, rel=1e-9, abs=0)
    for each, right in zip(mine.network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(each, right, rtol=0, atol=3 * 6e-3 * 1e-4)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_bias_in_fractions(world_size):
    """Every choice of counts 0 to 3: the average of means minus the mean, written down."""
    sums = [Fraction(5, 3), Fraction(-7, 2), Fraction(4), Fraction(1, 6)][:world_size]
    for counts in itertools.product(range(4), repeat=world_size):
        if any(counts):
            given = [part if count else Fraction(0) for part, count in zip(sums, counts, strict=True)]
            means = [part / count if count else Fraction(0) for part, count in zip(given, counts, strict=True)]
            right = sum(means) / world_size - sum(given) / sum(counts)
            assert bias_of_the_mean_of_means(given, counts) == right
            if len(set(counts)) == 1:
                assert right == 0


def test_the_bias_of_arrays_is_that_of_their_entries():
    sums = np.arange(12.0).reshape(3, 2, 2)
    found = bias_of_the_mean_of_means(sums, [1, 2, 5])
    assert found.shape == (2, 2)
    assert found[1, 0] == pytest.approx(bias_of_the_mean_of_means(sums[:, 1, 0], [1, 2, 5]), rel=1e-14, abs=0)


@pytest.mark.parametrize("loss", NETWORKS)
def test_an_empty_batch_leads_zeros_to_every_parameter(loss):
    """Even if the parameters hold NaN and infinity; so an idle rank answers for each of them."""
    losses_of = of(loss)
    model = losses_of.network
    with torch.no_grad():
        model.output.bias[0], model.output.weight[0, 0] = torch.nan, torch.inf
    losses = losses_of()
    losses.sum().backward()
    assert losses.shape == (0,) and losses.sum() == 0
    assert all(each.grad is not None and not each.grad.any() for each in model.parameters())


def test_digests_are_of_bits_names_and_shapes():
    model = network("ctc")
    before = digest_of(model.state_dict())
    assert before == digest_of(network("ctc").state_dict())
    with torch.no_grad():
        model.output.bias[0] = torch.nextafter(model.output.bias[0], torch.tensor(9.0, dtype=torch.float64))
    digests = {before, digest_of(model.state_dict()), digest_of({"a": torch.zeros(2, 3)}),
               digest_of({"b": torch.zeros(2, 3)}), digest_of({"a": torch.zeros(3, 2)}),
               digest_of({"a": torch.zeros(2, 3).int()}), digest_of({"a": torch.zeros(())}),
               digest_of({"a": torch.ones(())})}
    assert len(digests) == 8


@pytest.mark.parametrize("call, says", [
    (lambda: step_backward(of("ctc"), [], Process()), "count = 0 utterances in this step"),
    (lambda: step_backward(of("ctc"), [UTTERANCES], Process(), divisor="batches"),
     "divisor = 'batches'; expected one of 'utterances', 'labels', 'frames'"),
    (lambda: step_backward(of("ctc"), [UTTERANCES], Process(), reduction="sum"),
     "reduction = 'sum'; expected one of 'mean', 'mean of means'"),
    (lambda: bias_of_the_mean_of_means([1.0, 2.0], [1]), "counts has shape (1,); expected (2,)"),
    (lambda: bias_of_the_mean_of_means([1.0, 2.0], [0, 0]), "counts = [0, 0]; expected numbers >= 0, and not only 0"),
    (lambda: made_up(-1, seed=0), "count = -1; expected count >= 0"),
])
def test_messages(call, says):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(says)


# --- four processes ---


def trained(process, loss, divisor, reduction="mean"):
    """Gradient of the first and parameters after the last of three steps of gradient descent; other ranks idle."""
    losses_of = of(loss)
    wrapped, steps = data_parallel(losses_of, process), []
    for i in range(3):
        parts = dealt_out(made_up(11, seed=i), process.world_size, 2, idle=i % process.world_size if i else None)
        wrapped.zero_grad()
        step_backward(wrapped, parts[process.rank], process, divisor=divisor, reduction=reduction)
        steps.append(flat(losses_of.network))
        go_down(losses_of.network)
    return steps[0], parameters(losses_of.network)


def go_down(model):
    with torch.no_grad():
        for each in model.parameters():
            each -= 0.01 * each.grad


def parameters(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def all_trained(process):
    kinds = [(loss, divisor) for loss in NETWORKS for divisor in DIVISORS]
    return {**{kind: trained(process, *kind) for kind in kinds},
            "wrong": trained(process, "ctc", "labels", "mean of means")}


@pytest.mark.slow
def test_one_two_and_four_processes_train_alike():
    """Gradients and, after three steps with an idle rank in two of them, parameters: equal to rounding."""
    right = {}
    for loss, divisor in itertools.product(NETWORKS, DIVISORS):
        model, gradients = network(loss), []
        for i in range(3):
            model.zero_grad()
            one_by_one(model, made_up(11, seed=i), loss, divisor).backward()
            gradients.append(flat(model))
            go_down(model)
        right[loss, divisor] = gradients[0], parameters(model)
    for world_size in (1, 2, 4):
        for found in run_processes(all_trained, world_size):
            for kind, expected_ones in right.items():
                for mine, other in zip(found[kind], expected_ones, strict=True):
                    assert_equal(mine, other)
            gradient, correct = found["wrong"][0], right["ctc", "labels"][0]
            assert float((gradient - correct).abs().max()) > 0.02 * float(correct.abs().max())


def first_gradients(process):
    """Bits of the gradient of one and the same step, made four times."""
    losses_of, found = UtteranceLosses(network("ctc").float(), ctc_losses), []
    wrapped = data_parallel(losses_of, process)
    for _ in range(4):
        wrapped.zero_grad()
        step_backward(wrapped, [UTTERANCES[2 * process.rank:2 * process.rank + 2]], process)
        found.append(digest_of({"gradient": flat(losses_of.network)}))
    return found


@pytest.mark.slow
def test_the_first_step_of_four_processes_has_the_bits_of_the_others():
    """Without the backward pass that settles the buckets it has not, for then they are laid out anew after it."""
    for digests in run_processes(first_gradients, 4):
        assert len(set(digests)) == 1
