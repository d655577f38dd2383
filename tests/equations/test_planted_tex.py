"""Errors planted in the TeX of displays, and in nothing else: each is noticed on the cases of the display's check."""

import functools
import importlib

import pytest
from displays import compare, displays
from findings import notation_of

from reference_impl.equations import EquationError
from reference_impl.equations.sources import Run, run_as

# file of the checks, test, label, what the display has, what is planted in its place
PLANTED = [
    ("ctc_gradient", "grad_probs", "eq-ctc-grad-probs", r"\beta_t(s)", r"\beta_{t+1}(s)"),
    ("ctc_gradient", "grad_probs", "eq-ctc-grad-probs", r"l'_s = k", r"l'_s \ne k"),
    ("ctc_gradient", "grad_probs_no_division", "eq-ctc-grad-probs-no-division", r"\kappa_s", r"\kappa_{s-1}"),
    ("ctc_gradient", "expectation", "eq-ctc-expectation", r"{Z}", r"{2}"),
    ("ctc_gradient", "occupancy_sum", "eq-ctc-occupancy-sum", r"k=0", r"k=1"),
    ("ctc_gradient", "log_softmax", "eq-ctc-log-softmax", r"j = k", r"j \ne k"),
    ("ctc_gradient", "grad_logits", "eq-ctc-grad-logits", r"- E_t(k)", r"+ E_t(k)"),
    ("ctc_gradient", "numerator", "eq-ctc-numerator", r"T-1", r"T"),
    ("ctc_gradient", "eight_lines", "eq-ctc-eight-lines", r"l'_s = j", r"l'_s = k"),
    ("ctc_gradient", "eight_lines", "eq-ctc-eight-lines", r"s=0}^{S-1}", r"s=0}^{S}"),
    ("ctc_gradient", "eight_lines", "eq-ctc-eight-lines", r"\log y_t(k) -", r"\log y_t(k) +"),
    ("rnnt_gradient", "blank_arc", "eq-rnnt-blank-arc", r"\beta(t+1, u)", r"\beta(t, u+1)"),
    ("rnnt_gradient", "each_label_once", "eq-rnnt-each-label-once", r"T-1", r"U"),
    ("rnnt_gradient", "occupancy_total", "eq-rnnt-occupancy-total", r"u=0}^{U}", r"u=0}^{U-1}"),
    ("rnnt_gradient", "own_diagonal", "eq-rnnt-own-diagonal", r"j \ne u", r"j \ne t"),
    ("rnnt_gradient", "normaliser", "eq-rnnt-normaliser", r"c_{t,u}^2", r"c_{t,u}"),
    ("rnnt_gradient", "grad_encoder", "eq-rnnt-grad-encoder", r"u=0}^{U}", r"u=0}^{T-1}"),
    ("rnnt_gradient", "grad_joiner_weight", "eq-rnnt-grad-joiner-weight", r"\psi_{t,u}(i)", r"\psi_{t,u}(k)"),
    ("rnnt_gradient", "share_sweep", "eq-rnnt-share-sweep", r"r_y(t, u+1)", r"r_y(t, u)"),
    ("checking_a_gradient", "cubic", "eq-check-cubic", r"\frac{h^2}{6}", r"\frac{h^2}{3}"),
    ("checking_a_gradient", "richardson", "eq-check-richardson", r"4 D_h", r"3 D_h"),
    ("checking_a_gradient", "dot_product", "eq-check-dot-product", r"\nu_j", r"G_j"),
    ("softmax", "row_sum", "eq-softmax-row-sum", r"1 -", r"1 +"),
    ("softmax", "lse_stable", "eq-lse-stable", r"z_j - z_{\max}", r"z_j + z_{\max}"),
    ("softmax", "softmax_vjp", "eq-softmax-vjp", r"y_j \bar y_j", r"y_j \bar y_k"),
    ("gradient_theorem", "backward", "eq-lattice-backward", r"\beta(n) ,", r"\beta(m) ,"),
    ("gradient_theorem", "arc_posterior", "eq-arc-posterior", r"\alpha(m)", r"\alpha(n)"),
    ("gradient_theorem", "share_sweep", "eq-share-sweep-general", r"\gamma(n)", r"\gamma(m)"),
    ("ctc_2006", "beta_recursion", "eq-ctc-2006-beta", r"\kappa_{s+2}", r"\kappa_s"),
    ("ctc_2006", "square", "eq-ctc-2006-square", r"^2", r""),
    ("ctc_2006", "loss_beta_pruned", "eq-ctc-2006-loss-beta-pruned", r"T-1", r"T-2"),
    ("rnnt_loss", "alpha_recursion", "eq-rnnt-alpha", r"y(t, u-1)", r"y(t, u)"),
    ("rnnt_loss", "path_count", "eq-rnnt-path-count", r"T + U - 1", r"T + U"),
    ("rnnt_loss", "diagonal_sum", "eq-rnnt-diagonal-sum", r"\beta(t, u)", r"\beta(t + 1, u)"),
    ("fastemit", "split", "eq-fastemit-split", r"k = l_u", r"k = \varnothing"),
    ("fastemit", "label_count", "eq-fastemit-label-count", r"U\, Z", r"T\, Z"),
    ("durations", "beta", "eq-tdt-beta", r"t + d < T", r"t + d \le T"),
    ("durations", "cover", "eq-tdt-cover", r"j=0}^{d-1}", r"j=0}^{d}"),
    ("multi_blank", "arc_count", "eq-blank-arc-count", r"(m - 1)", r"m"),
    ("wavefront", "width", "eq-wavefront-width", r"n - T + 1", r"n - T"),
    ("wavefront", "view", "eq-wavefront-view", r"U + 2", r"U + 1"),
    ("numerics", "one_arc", "eq-numerics-one-arc", r"\delta\, \Pr(e')", r"\delta\, \Pr(e)"),
    ("the_floor", "saved", "eq-floor-saved", r"4c", r"3c"),
]


@functools.cache
def compared(file, test, label):
    """What the check of a label compares, and how its display is read: the notation, and the sizes of the cases."""
    module = importlib.import_module(f"test_{file}")
    function = getattr(module, f"test_{test}")
    with run_as(Run()) as run:
        function()
    check = next(each for each in run.checks if each.check.label == label)
    marks = [mark for mark in function.pytestmark if mark.name == "equation"]
    return check, notation_of(module, marks), module.QUANTITIES


@pytest.mark.parametrize(("file", "test", "label", "right", "wrong"), PLANTED)
def test_is_noticed(file, test, label, right, wrong):
    """As displayed it agrees, with the error it does not."""
    tex = displays()[label]
    check, *reading = compared(file, test, label)
    compare(check, tex, *reading)
    assert right in tex
    with pytest.raises(EquationError, match=f"^{label}: its TeX, "):
        compare(check, tex.replace(right, wrong, 1), *reading)
