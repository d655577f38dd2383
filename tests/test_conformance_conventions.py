"""identify finds the conventions of losses that follow one on purpose: each from what it returns, nothing else."""

from functools import partial

import numpy as np
import pytest
import torch

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.as_published.ctc_conventions import CONVENTIONS, convert, rescaled_alpha
from reference_impl.bug_bank import BUGS, RIGHT
from reference_impl.conformance import candidate_subject, function_subject, identify, torch_subject
from reference_impl.conformance.conventions import DIVISORS
from reference_impl.torch_impl import ctc_loss, rnnt_loss

MODULES = {"ctc": ctc, "rnnt": rnnt}
LENGTHS = {"1": lambda T, U: 1, "U": lambda T, U: U, "T": lambda T, U: T, "U + 1": lambda T, U: U + 1,
           "T + U": lambda T, U: T + U, "T (U + 1)": lambda T, U: T * (U + 1)}


def one(kind, inputs, *, loss=1.0, gradient=1.0, divisor="1", variable="", **more):
    """A loss of one utterance with a factor for the loss, another for the gradient, and a divisor of both."""
    module = MODULES[kind]

    def function(scores, targets, *, blank):
        log_probs = log_softmax(scores) if inputs == "logits" else scores
        by = LENGTHS[divisor](len(scores), max(len(targets), 1))
        which = variable or inputs
        given = scores if which == inputs == "logits" else log_probs
        found = getattr(module, f"grad_{which}")(given, targets, blank=blank, **more)
        return module.loss(log_probs, targets, blank=blank) * loss / by, found * gradient / by

    return function_subject(function, kind)


def planted(name):
    return next(bug for bug in BUGS if bug.name == name)


@pytest.mark.parametrize("candidate", RIGHT, ids=lambda c: f"{c.loss} {c.variable}")
def test_right_code_follows_no_other(candidate):
    found = identify(candidate_subject(candidate))
    assert found.whole and not found.conventions.departures()
    assert found.conventions.named() | {"inputs": candidate.variable, "variable": candidate.variable} == (
        found.conventions.named())


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize("inputs", ["logits", "log_probs"])
@pytest.mark.parametrize("divisor", list(LENGTHS))
def test_divisors_of_one_utterance(kind, inputs, divisor):
    found = identify(one(kind, inputs, divisor=divisor))
    assert found.whole and found.conventions.inputs == found.conventions.variable == inputs
    assert found.conventions.loss.divisor == found.conventions.gradient.divisor == divisor


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
@pytest.mark.parametrize(("constant", "said"), [
    (-1.0, "multiplied by -1"), (1 / np.log(2), "in bits"), (0.37, "multiplied by 0.37")])
def test_factors(kind, constant, said):
    found = identify(one(kind, "logits", loss=constant, gradient=constant))
    assert found.whole and str(found.conventions.loss) == str(found.conventions.gradient) == said
    assert not found.conventions.departures()
    apart = identify(one(kind, "logits", gradient=constant))
    assert apart.whole and list(apart.conventions.departures()) == ["gradient_factor"]


@pytest.mark.parametrize("lam", [0.001, 0.3, 2.0])
@pytest.mark.parametrize("inputs", ["logits", "log_probs"])
def test_fastemit(inputs, lam):
    found = identify(one("rnnt", inputs, fastemit_lambda=lam))
    assert found.whole and found.conventions.fastemit_lambda == lam
    assert found.conventions.departures()["fastemit"].startswith(f"FastEmit, lambda = {lam:g}: ")


def test_what_torch_returns_for_log_probs():
    """The gradient of logits, for log-probs."""
    loss = partial(torch.nn.functional.ctc_loss, reduction="none")
    found = identify(torch_subject(loss, "ctc", layout="(T, B, V)"))
    assert found.whole and (found.conventions.inputs, found.conventions.variable) == ("log_probs", "logits")
    assert list(found.conventions.departures()) == ["variable"]


@pytest.mark.parametrize(("reduction", "named", "divisor"), [
    ("none", "none", "1"), ("sum", "sum", "1"), ("mean", "mean over labels", "U B")])
def test_reductions_of_torch(reduction, named, divisor):
    loss = partial(torch.nn.functional.ctc_loss, reduction=reduction)
    conventions = identify(torch_subject(loss, "ctc", layout="(T, B, V)")).conventions
    assert (conventions.named()["reduction"], conventions.gradient.divisor) == (named, divisor)


@pytest.mark.parametrize("layout", ["(B, T, V)", "(B, V, T)"])
def test_another_layout_does_not_fit(layout):
    assert not identify(torch_subject(torch.nn.functional.ctc_loss, "ctc", layout=layout)).whole


@pytest.mark.parametrize("divisor", ["B", "T B", "sum of U", "sum of T", "longest T"])
@pytest.mark.parametrize(("kind", "loss"), [("ctc", ctc_loss), ("rnnt", rnnt_loss)])
def test_divisors_of_a_batch(kind, loss, divisor):
    def reduced(logits, targets, logit_lengths, target_lengths, *, blank):
        losses = loss(logits, targets, logit_lengths, target_lengths, blank=blank, reduction="none")
        T, U = logit_lengths.numpy(), target_lengths.numpy()
        return (losses / torch.as_tensor(DIVISORS[divisor](T, U) * np.ones(len(T)))).sum()

    found = identify(torch_subject(reduced, kind))
    assert found.whole and found.conventions.total
    assert found.conventions.loss.divisor == found.conventions.gradient.divisor == divisor


@pytest.mark.parametrize("last", [False, True])
def test_clamps(last):
    """Before or after the upstream gradient."""
    if last:
        found = identify(candidate_subject(planted("clamped after the upstream gradient")))
    else:
        found = identify(torch_subject(partial(rnnt_loss, clamp=0.1, reduction="none"), "rnnt"))
    assert found.whole and (found.conventions.clamp, found.conventions.clamp_last) == (0.9 if last else 0.1, last)


@pytest.mark.parametrize(("name", "symbol"), [("0", lambda V: 0), ("V - 1", lambda V: V - 1)])
@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_a_blank_that_is_no_argument(kind, name, symbol):
    def function(scores, targets, *, blank):
        own = symbol(scores.shape[-1])
        return (MODULES[kind].loss(log_softmax(scores), targets, blank=own),
                MODULES[kind].grad_logits(scores, targets, blank=own))

    found = identify(function_subject(function, kind))
    assert found.conventions.blank == name and "blank" in found.conventions.departures()


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_exchanged_axes(kind):
    def function(scores, targets, *, blank):
        return MODULES[kind].grad_logits(scores, targets, blank=blank).swapaxes(0, 1)

    found = identify(function_subject(function, kind))
    assert found.transposed and found.given == {"gradient"} and found.gradient


@pytest.mark.parametrize("convention", list(CONVENTIONS))
def test_alpha_and_beta_of_ctc(convention):
    def function(scores, targets, *, blank):
        log_probs = log_softmax(scores)
        ours = ctc.log_alpha(log_probs, targets, blank=blank), ctc.log_beta(log_probs, targets, blank=blank)
        alpha, beta = convert(*ours, log_probs, targets, source="thesis", target=convention, blank=blank)
        return {"loss": ctc.loss(log_probs, targets, blank=blank), "log_alpha": alpha, "log_beta": beta}

    says = {True: "contains the emission at t", False: "excludes the emission at t"}
    found = identify(function_subject(function, "ctc")).prefixes
    assert found == {name: says[contains] for name, contains in
                     zip(("log_alpha", "log_beta"), CONVENTIONS[convention], strict=True)}


def test_alpha_that_is_rescaled():
    def function(scores, targets, *, blank):
        with np.errstate(divide="ignore"):
            return {"loss": ctc.loss(log_softmax(scores), targets, blank=blank), "log_alpha": np.log(
                rescaled_alpha(np.exp(log_softmax(scores)), targets, blank=blank, prune=False)[0])}

    found = identify(function_subject(function, "ctc")).prefixes
    assert found == {"log_alpha": "contains the emission at t, rescaled in each frame"}


def test_alpha_and_beta_of_rnnt():
    def function(scores, targets, *, blank):
        log_probs = log_softmax(scores)
        return {"loss": rnnt.loss(log_probs, targets, blank=blank),
                "log_alpha": rnnt.log_beta(log_probs, targets, blank=blank),
                "log_beta": rnnt.log_beta(log_probs, targets, blank=blank)}

    assert identify(function_subject(function, "rnnt")).prefixes == {
        "log_alpha": "is beta", "log_beta": "is the mass from the node on"}


@pytest.mark.parametrize(("name", "said"), [
    ("label overwrites blank", "accepted: the gradient keeps the label's term and loses the blank's"),
    ("blank overwrites label", "accepted: the gradient keeps the blank's term and loses the label's"),
    ("label equal to blank accepted", "accepted: the gradient has both terms")])
def test_a_label_that_is_the_blank(name, said):
    assert identify(candidate_subject(planted(name))).label_is_blank == said


def test_what_follows_no_convention_is_not_said_to():
    """The softmax term of CTC in RNN-T; and its variable is found all the same."""
    found = identify(candidate_subject(planted("CTC's softmax term")))
    assert found.loss and not found.gradient and found.conventions.variable == "logits"


def test_a_loss_that_raises():
    def function(scores, targets, *, blank):
        raise OverflowError("too much")

    found = identify(function_subject(function, "ctc"))
    assert found.errors == ("OverflowError: too much",) and not found.given and not found.whole
