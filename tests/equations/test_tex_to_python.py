"""What the grammar of the displays reads, and what it refuses."""

from fractions import Fraction

import pytest
from displays import MEANINGS
from tex_to_python import Notation, translate
from tex_tokens import TexError, tokens

A = Notation({r"\alpha_{#t}(#s)": "alpha[#t, #s]", r"l'_{#s}": "labels[#s]"}, {"s": "range(3)", "k": "range(2)"})
NAMES = {"a": [3, 5, 7], "b": 2, "t": 1, "s": 2, "k": 1, "labels": [0, 1, 0, 1],
         "alpha": {(t, s): 10 * t + s for t in range(3) for s in range(4)}}


def value(tex, notation=A, **names):
    (member,) = translate(tex, notation).members
    return eval(member, {**MEANINGS, **NAMES, **names})


@pytest.mark.parametrize("tex, expected", [
    (r"2 + 3 \cdot 4 - b", 12),
    (r"-b\,(1 - b)\,(1 - 2b)", -6),
    (r"\frac{1}{2} + \tfrac12", 1),
    (r"\frac12 b / 3", Fraction(1, 3)),
    (r"12 / b / 3", 2),
    (r"b^{2 + 1} b^2", 32),
    (r"(b{+}1)(b{-}1)", 3),
    (r"(b + 1)^2", 9),
    (r"\alpha_{t+1}(s-1)", 21),
    (r"\alpha_t(s)\, \alpha_0(\, s\, )", 24),
    (r"a_{t+1}", 7),
    (r"[\, b = 2 \,]\; 5 + [\, 1 \ne 1 \,]", 5),
    (r"[\, 0 \le b < 2 \text{ or } k = 1 \,]", 1),
    (r"[\, b = 2 ,\; k = 0 \,]", 0),
    (r"\sum_{s=0}^{2} a_s", 15),
    (r"\sum_{s=1}^{t} a_s\, b + 1", 11),
    (r"\sum_{s} \alpha_0(s)", 3),
    (r"\sum_{s \,:\; l'_s = k} \alpha_t(s)", 11),
    (r"\sum_{s \ne 1} a_s", 10),
    (r"\sum_{s, k} \alpha_k(s)", 36),
    (r"\sum_{\substack{s \\ s > 0, \, s < 2}} a_s", 5),
    (r"\prod_{s=0}^{1} a_s\; b", 30),
    (r"\prod_{s=0}^{1} \sum_{k=0}^{1} \alpha_k(s)", 120),
    (r"\sum_{s=2}^{1} a_s", 0),
    (r"\binom{4}{b} + \binom{b}{3}", 6),
    (r"\lfloor 5/2 \rfloor + \lceil 5/2 \rceil", 5),
    (r"\max(b, 7) - \min_{s} a_s", 4),
    (r"\log e^{3}", 3),
    (r"\begin{aligned} b = {} & b \\ & \qquad + 1 \end{aligned}", None),
])
def test_values(tex, expected):
    if expected is None:
        assert translate(tex, A).members == ["b", "b + 1"]
    else:
        assert value(tex) == expected


def test_lines_below_a_sum_in_lines():
    tex = r"\begin{aligned} b = {} & \sum_{\substack{s \\ s > 0}} a_s \\ & + 1 \end{aligned}"
    assert translate(tex, A).members == ["b", "sum(a[s] for s in range(3) if s > 0) + 1"]


def test_brackets_enclose_equals_signs():
    assert translate(r"[\, b = 2 \,] = \sum_{s=0}^{1} 1", A).members == ["(b == 2)", "sum(1 for s in range(0, 1 + 1))"]


def test_the_longest_pattern_wins_and_then_the_one_that_says_more():
    notation = Notation({r"y_{#t}": "short", r"y_{#t}(#k)": "long", r"y_{t}(\varnothing)": "exact"})
    assert [translate(tex, notation).members[0] for tex in [r"y_{t}", r"y_{t}(2)", r"y_t(\varnothing)"]] == [
        "short", "long", "exact"]


def test_conditions_behind_a_wide_space():
    notation = Notation(conditions={r"n = 0, \dots, N": "0 <= n <= N"})
    assert translate(r"Z = n , \qquad n = 0, \dots, N .", notation).conditions == ["0 <= n <= N"]
    with pytest.raises(TexError, match="no such condition in the notation: n = 1"):
        translate(r"Z = n , \qquad n = 1, \dots, N .", notation)


@pytest.mark.parametrize("tex, reason", [
    (r"\frac{\partial L}{\partial u}", r"unknown: \\partial"),
    (r"\sum_j a_j", "over what"),
    (r"a )", r"not read: \)"),
    (r"a (b", "expected more before the end"),
    (r"[\, b \,]", "no comparison"),
    (r"\hat a", r"unknown: \\hat{a}"),
    (r"f'(x)", "unknown: f'"),
    (r"\begin{cases} 1 \end{cases}", "environment cases"),
])
def test_what_is_not_read(tex, reason):
    with pytest.raises(TexError, match=reason):
        translate(tex, A)


def test_tokens_have_no_spaces():
    assert tokens(r"\Bigl(\, x_t \;\Bigr)") == tokens("(x_{t})") == ["(", "x", "_", "{", "t", "}", ")"]
