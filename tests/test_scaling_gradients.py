"""Gradients of several processes and micro-batches are that of one process; the mean of means is off as predicted.

The other side is computed without batches, padding or a process group: one utterance at a time (``one_by_one``), or
by hand in fractions.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from reference_impl.scaling import (
    DIVISORS,
    FrameNetwork,
    Process,
    TransducerNetwork,
    UtteranceLosses,
    agreed,
    bias_of_the_mean_of_means,
    collate,
    count_of,
    data_parallel,
    dealt_out,
    digest_of,
    equality_table,
    influence_of_the_batch,
    make_utterances,
    one_by_one,
    run_processes,
    step_backward,
    totals,
)

#: Sums of fewer than 2,000 float64 numbers, in any order, over their largest: 2,000 roundings of 2^-53.
ROUNDING = 2000 * 2.0**-53
NETWORKS = {"ctc": FrameNetwork, "rnnt": TransducerNetwork}
UTTERANCES = make_utterances(11, seed=5)
#: Three labels in two frames, one of the logits: it has no alignment by CTC.
IMPOSSIBLE = (UTTERANCES[0][0][:2], np.array([1, 1, 1]))
#: How the ranks share the utterances: name -> (dealt out, divisor and so on are crossed with these).
SHARES = {"unequal": {}, "micro-batches": {"micro_batches": 3}, "an idle rank": {"micro_batches": 2, "idle": 1}}


def network(loss, seed=3):
    torch.manual_seed(seed)
    return NETWORKS[loss](4, 6).double()


def flat(model):
    return torch.cat([each.grad.flatten() for each in model.parameters()])


def double(utterances):
    return collate(utterances).to(torch.float64)


# --- what the processes do; they are started once for all tests of two ---


def gradients_of(process, loss, utterances, *, divisor="utterances", reduction="mean", seed=3, **dealing):
    model = network(loss, seed)
    losses_of = data_parallel(UtteranceLosses(model, loss), process)
    batches = [double(each) for each in dealt_out(utterances, process.world_size, **dealing)[process.rank]]
    step = step_backward(losses_of, batches, process, divisor=divisor, reduction=reduction)
    return step, flat(model)


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
        def forward(self, batch):
            return self.model.weight.sum()[None] if len(batch) else super().forward(batch)

    losses_of = data_parallel(Sum(torch.nn.Linear(2, 1, bias=False)), process)
    (losses_of([0]).sum() * (process.rank + 1)).backward()
    return losses_of.module.model.weight.grad.tolist()


def without_batches(process):
    """Rank 0 has no batches, not even an empty one."""
    model = network("ctc")
    batches = [double(UTTERANCES)] if process.rank else []
    step_backward(data_parallel(UtteranceLosses(model), process), batches, process)
    return flat(model)


def forward_outside(process):
    """Gradients after a forward pass before, and a backward pass in ``no_sync``; and after both in it."""
    found = []
    for both in (False, True):
        model = network("ctc")
        losses_of = data_parallel(UtteranceLosses(model), process)
        batch = double(UTTERANCES[process.rank:process.rank + 1])
        losses = losses_of(batch) if not both else None
        with losses_of.no_sync():
            (losses_of(batch) if both else losses).sum().backward()
        found.append(flat(model))
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
    one_by_one(model, utterances, loss=loss, divisor=divisor).backward()
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
        assert step.count == sum(count_of(collate([each]), divisor) for each in UTTERANCES)
        assert step.value == step.finite == pytest.approx(
            one_by_one(network(loss), UTTERANCES, loss=loss, divisor=divisor).item(), rel=ROUNDING)


def test_the_shares_are_unequal():
    """Else the mean of means would be right, too."""
    sizes = [[sum(map(len, rank)) for rank in dealt_out(UTTERANCES, 2, **SHARES[name])] for name in SHARES]
    assert sizes == [[3, 8], [3, 8], [11, 0]]
    assert [len(each) for each in dealt_out(UTTERANCES, 2, 3)[1]] == [1, 3, 4]
    frames = [sum(len(frames) for frames, _ in rank[0]) for rank in dealt_out(UTTERANCES, 2)]
    assert abs(frames[0] / 3 - frames[1] / 8) > 1, "and so are the lengths"


def test_the_mean_of_means_is_off_by_its_bias(two):
    """By the formula, from the ranks' own sums, which one process computes utterance by utterance."""
    sums, counts = [], []
    for (mine,) in dealt_out(UTTERANCES, 2):
        counts.append(sum(len(labels) for _, labels in mine))
        model = network("ctc")
        (one_by_one(model, mine, divisor="labels") * counts[-1]).backward()
        sums.append(flat(model).numpy())
    right = expected("ctc", "labels")
    bias = torch.from_numpy(bias_of_the_mean_of_means(np.stack(sums), counts))
    assert float(bias.abs().max()) > 0.01 * float(right.abs().max())
    for found in two:
        step, gradient = found["bias"]
        assert float((gradient - right - bias).abs().max()) <= ROUNDING * float(right.abs().max())
        value = one_by_one(network("ctc"), UTTERANCES, divisor="labels").item()
        losses = [one_by_one(network("ctc"), mine, divisor="labels").item() * count
                  for (mine,), count in zip(dealt_out(UTTERANCES, 2), counts, strict=True)]
        assert step.value - value == pytest.approx(float(bias_of_the_mean_of_means(losses, counts)), rel=1e-9)


def test_an_impossible_utterance_makes_the_loss_infinite_and_nothing_else(two):
    right = expected("ctc") * len(UTTERANCES) / (len(UTTERANCES) + 1)  # it counts, and has gradient 0
    finite = one_by_one(network("ctc"), UTTERANCES).item() * len(UTTERANCES) / (len(UTTERANCES) + 1)
    for found in two:
        step, gradient = found["impossible"]
        assert_equal(gradient, right)
        assert step.value == np.inf and step.impossible == 1 and step.count == 12
        assert step.finite == pytest.approx(finite, rel=ROUNDING)


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
    model = network(loss)
    parts = [UTTERANCES[i:j] for i, j in itertools.pairwise([0, *cuts, len(UTTERANCES)])]
    step = step_backward(UtteranceLosses(model, loss), [double(each) for each in parts], Process(), divisor=divisor)
    assert_equal(flat(model), expected(loss, divisor))
    assert step.value == pytest.approx(one_by_one(network(loss), UTTERANCES, loss=loss, divisor=divisor).item(),
                                       rel=ROUNDING)


def test_the_mean_of_micro_batches_has_the_same_bias():
    model = network("ctc")
    parts = [UTTERANCES[:2], UTTERANCES[2:]]
    step_backward(UtteranceLosses(model), [double(each) for each in parts], Process(), reduction="mean of means")
    sums = [expected("ctc", utterances=each).numpy() * len(each) for each in parts]
    bias = torch.from_numpy(bias_of_the_mean_of_means(sums, [2, 9]))
    assert_equal(flat(model) - bias, expected("ctc"))
    assert bias.abs().max() > 0.1


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
    assert found[1, 0] == pytest.approx(bias_of_the_mean_of_means(sums[:, 1, 0], [1, 2, 5]), rel=1e-14)


@pytest.mark.parametrize("loss", NETWORKS)
def test_an_empty_batch_leads_zeros_to_every_parameter(loss):
    """Even if the parameters hold NaN and infinity; so an idle rank answers for each of them."""
    model = network(loss)
    with torch.no_grad():
        model.output.bias[0], model.output.weight[0, 0] = torch.nan, torch.inf
    losses = UtteranceLosses(model, loss)(collate([]))
    losses.sum().backward()
    assert losses.shape == (0,) and losses.sum() == 0
    assert all(each.grad is not None and not each.grad.any() for each in model.parameters())


@pytest.mark.parametrize("loss", NETWORKS)
def test_the_networks_do_not_see_the_batch(loss):
    """Sums of 64 products in another order, of numbers around 1: 64 roundings."""
    assert influence_of_the_batch(network(loss).eval(), UTTERANCES, loss=loss) < 64 * 2.0**-52
    assert influence_of_the_batch(network(loss).float(), UTTERANCES, loss=loss) < 64 * 2.0**-23


class Leaking(FrameNetwork):
    """Padding reaches the frames before it, or a batch is normalised as one."""

    def __init__(self, how):
        super().__init__(4, 6)
        self.how, self.norm = how, torch.nn.BatchNorm1d(4)

    def forward(self, frames, frame_lengths):
        if self.how == "normalised":
            frames = self.norm(frames.transpose(1, 2)).transpose(1, 2)
            return super().forward(frames, frame_lengths)
        logits, _ = super().forward(frames + 1, torch.full_like(frame_lengths, frames.shape[1]))
        return logits, (frame_lengths + 1) // 2


@pytest.mark.parametrize("how", ["normalised", "not masked"])
def test_a_network_that_sees_the_batch_is_found(how):
    torch.manual_seed(0)
    assert influence_of_the_batch(Leaking(how), UTTERANCES) > 1e-3


def test_digests_are_of_bits_names_and_shapes():
    model = network("ctc")
    before = digest_of(model)
    assert before == digest_of(network("ctc")) == digest_of(model.state_dict())
    with torch.no_grad():
        model.output.bias[0] = torch.nextafter(model.output.bias[0], torch.tensor(9.0, dtype=torch.float64))
    digests = {before, digest_of(model), digest_of({"a": torch.zeros(2, 3)}), digest_of({"b": torch.zeros(2, 3)}),
               digest_of({"a": torch.zeros(3, 2)}), digest_of({"a": torch.zeros(2, 3).int()}),
               digest_of({"a": torch.zeros(())}), digest_of({"a": torch.ones(())})}
    assert len(digests) == 8


@pytest.mark.parametrize("call, says", [
    (lambda: step_backward(UtteranceLosses(network("ctc")), [], Process()), "count = 0 utterances in this step"),
    (lambda: step_backward(UtteranceLosses(network("ctc")), [double(UTTERANCES)], Process(), divisor="batches"),
     "divisor = 'batches'; expected one of 'utterances', 'labels', 'frames'"),
    (lambda: step_backward(UtteranceLosses(network("ctc")), [double(UTTERANCES)], Process(), reduction="sum"),
     "reduction = 'sum'; expected one of 'mean', 'mean of means'"),
    (lambda: UtteranceLosses(network("ctc"), "mwer"), "loss = 'mwer'; expected one of 'ctc', 'rnnt'"),
    (lambda: bias_of_the_mean_of_means([1.0, 2.0], [1]), "counts has shape (1,); expected (2,)"),
    (lambda: bias_of_the_mean_of_means([1.0, 2.0], [0, 0]), "counts = [0, 0]; expected numbers >= 0, and not only 0"),
    (lambda: collate([(np.ones((2, 3)), [1]), (np.ones((2, 4)), [1])]), "utterances[1][0] has F = 4; expected F = 3"),
    (lambda: collate([(np.ones((2, 3)), np.ones(2, np.int16))]), "utterances[0][1] has dtype int16; expected int32"),
    (lambda: collate([(np.ones(3), [1])]), "utterances[0][0] has shape (3,); expected 2 axes (T, F)"),
])
def test_messages(call, says):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(says)


# --- four processes ---


@pytest.mark.slow
def test_the_table_of_one_two_and_four():
    """Gradients and, after three steps with an idle rank in two of them, parameters: equal to rounding."""
    rows = equality_table((1, 2, 4))
    assert [(row["processes"], row["loss"], row["divisor"]) for row in rows] == list(
        itertools.product((1, 2, 4), NETWORKS, DIVISORS))
    for row in rows:
        assert row["gradient relative"] <= ROUNDING and row["parameters relative"] <= ROUNDING, row
    wrong = equality_table((4,), losses=["ctc"], divisors=["labels"], reduction="mean of means")
    assert wrong[0]["gradient relative"] > 0.05


def first_gradients(process):
    """Bits of the gradient of one and the same step, made four times."""
    model, found = network("ctc").float(), []
    losses_of = data_parallel(UtteranceLosses(model), process)
    for _ in range(4):
        losses_of.zero_grad()
        batch = collate(UTTERANCES[2 * process.rank:2 * process.rank + 2])
        step_backward(losses_of, [batch], process)
        found.append(digest_of({"gradient": flat(model)}))
    return found


@pytest.mark.slow
def test_the_first_step_of_four_processes_has_the_bits_of_the_others():
    """Without the backward pass that settles the buckets it has not, for then they are laid out anew after it."""
    for digests in run_processes(first_gradients, 4):
        assert len(set(digests)) == 1
