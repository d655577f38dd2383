"""The n-gram model, in fractions: against a count of each n-gram in the text, and as a distribution over strings."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from strings_by_enumeration import all_labels

from reference_impl.decoding import NGramModel

CORPUS = [[1, 2, 1], [2], [1, 2, 3, 3], [], [3, 1, 2, 1, 2]]
START, END = "start", "end"


def witten_bell(label, history, order, labels, corpus):
    """The probability by its definition, counted in the text each time; ``history`` begins with the start."""
    texts = [[START, *string, END] for string in corpus]

    def prob(context):
        lower = prob(context[1:]) if context else Fraction(1, len(labels) + 1)
        followers = [text[i] for text in texts for i in range(1, len(text))
                     if i >= len(context) and text[i - len(context):i] == context]
        if not followers:
            return lower
        kinds = len(set(followers))
        return (followers.count(label) + kinds * lower) / (len(followers) + kinds)

    return prob(history[max(len(history) - (order - 1), 0):])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("blank", [0, 2])
def test_interpolated_witten_bell(order, blank):
    """After every prefix of up to three labels, seen or not, of a vocabulary with one label that never occurs."""
    labels = [k for k in range(5) if k != blank]
    corpus = [[labels[k - 1] for k in string] for string in CORPUS]
    model = NGramModel(corpus, num_symbols=5, order=order, blank=blank)
    for prefix in all_labels(5, blank, 3):
        probs = model.probs(prefix)
        history = [START, *prefix]
        wanted = [witten_bell(k, history, order, labels, corpus) for k in (*labels, END)]
        assert [*probs[labels], probs[5]] == wanted
        assert probs[blank] == 0 and sum(probs) == 1
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(model.log_prob(prefix), np.log(probs.astype(float)), rtol=1e-14, atol=0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_strings_have_all_the_mass(order):
    """Strings of up to three labels, and what begins with four: together 1."""
    model = NGramModel(CORPUS, num_symbols=4, order=order)

    def mass(labels):
        factors = [model.probs(labels[:u])[k] for u, k in enumerate(labels)]
        return np.prod([Fraction(1), *factors])

    ended = sum(mass(labels) * model.probs(labels)[-1] for labels in all_labels(4, 0, 3))
    open_ended = sum(mass(labels) for labels in all_labels(4, 0, 4) if len(labels) == 4)
    assert ended + open_ended == 1
    for labels in all_labels(4, 0, 3):
        exact = float(mass(labels) * model.probs(labels)[-1])
        assert np.exp(model.string_log_prob(labels)) == pytest.approx(exact, rel=1e-12)


def test_it_knows_how_strings_begin_and_end():
    """Of strings that begin with 1 and end with 2, a bigram model expects such."""
    model = NGramModel([[1, 2, 1, 2]] * 50, num_symbols=3, order=2)
    assert model.probs([])[1] > Fraction(19, 20)
    assert model.probs([1])[-1] < Fraction(1, 20) < model.probs([2])[-1]
    strings = sorted(all_labels(3, 0, 4), key=model.string_log_prob, reverse=True)
    assert set(strings[:2]) == {(1, 2), (1, 2, 1, 2)}


def test_a_longer_context_explains_its_own_text_better():
    strings = [list(each) for each in itertools.permutations([1, 2, 3])] + [[1, 2]] * 10
    perplexities = [NGramModel(strings, num_symbols=4, order=order).perplexity(strings) for order in (1, 2, 3)]
    assert perplexities[0] > perplexities[1] > perplexities[2]
    model = NGramModel(strings, num_symbols=4, order=2)
    symbols = sum(len(each) + 1 for each in strings)
    assert model.perplexity(strings) == pytest.approx(
        np.exp(-sum(map(model.string_log_prob, strings)) / symbols), rel=1e-12)


def test_what_it_is_fitted_on():
    """No text at all, arrays, generators; what is returned is the caller's own."""
    uniform = NGramModel([], num_symbols=4, order=3)
    assert uniform.probs([1, 2]).tolist() == [0] + [Fraction(1, 4)] * 4
    model = NGramModel((np.array(string, dtype=np.int64) for string in CORPUS), num_symbols=4)
    assert model.probs([1]).tolist() == NGramModel(CORPUS, num_symbols=4).probs((1,)).tolist()
    before = model.log_prob([1]).copy()
    model.log_prob([1])[:] = 0
    np.testing.assert_array_equal(model.log_prob([1]), before)


@pytest.mark.parametrize("make, says", [
    (lambda: NGramModel([[1]], num_symbols=2, order=0), "order = 0; expected order >= 1"),
    (lambda: NGramModel([[1, 2]], num_symbols=2), r"strings\[0\]\[1\] = 2; expected 0 <= label < V = 2"),
    (lambda: NGramModel([[0]], num_symbols=2), r"strings\[0\]\[0\] = 0; expected a label other than blank = 0"),
    (lambda: NGramModel([], num_symbols=2, blank=2), "blank = 2; expected 0 <= blank < V = 2"),
    (lambda: NGramModel([], num_symbols=2).log_prob([0]), r"prefix\[0\] = 0; expected a label other than blank"),
    (lambda: NGramModel([], num_symbols=2).perplexity([]), "the number of strings = 0; expected "),
])
def test_bad_arguments(make, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        make()
