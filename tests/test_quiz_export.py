"""The quizzes as Moodle XML, made of a small site and read back. The book's: tests/website/test_exported_quizzes.py."""

from xml.etree import ElementTree

import pytest
from test_quiz_extension import CHAPTER, book, build  # noqa: F401  (book is a fixture)

from coursework.quiz_export import Answer, Quiz, moodle_xml, quizzes_of

SEVERAL = """
:::{quiz} a-product
Which are at least $a < b$ & `x < y`?

```python
x = a * b
```

- [x] $\\tfrac12 \\bar x_{1}$, *surely*
  > By {eq}`def-two`: $\\sum_k y_k \\ge 1$.
- [ ] **none** & $a_{b*c*}$
  > No.
- [x] `f(x)`
  > Yes.
:::
"""


def read_back(content):
    """By name: the category, the question, whether one answer is right, and the answers with parts and reasons."""
    found, category = {}, None
    for question in ElementTree.fromstring(content):
        if question.get("type") == "category":
            category = question.findtext("category/text")
            continue
        assert question.get("type") == "multichoice" and question.find("questiontext").get("format") == "html"
        answers = [(float(answer.get("fraction")), answer.findtext("text"), answer.findtext("feedback/text"))
                   for answer in question.findall("answer")]
        found[question.findtext("name/text")] = (
            category, question.findtext("questiontext/text"), question.findtext("single") == "true", answers)
    return found


def test_a_small_site(book):  # noqa: F811
    (book / "one.md").write_text(CHAPTER.replace("# One", "# One & half/half") + SEVERAL)
    assert build(book) == []
    found = read_back(moodle_xml(quizzes_of(book / "_build")))
    assert list(found) == ["a-sum", "a-product"]
    category, text, single, answers = found["a-sum"]
    assert category.endswith("One & half//half") and single and text == "<p>What is <em>1 + 1</em>?</p>"
    assert answers == [(0, "1", "<p>One is missing.</p>"), (100, "2, by (1.1)", "<p>Count.</p>\n<p>Count again.</p>"),
                       (0, "3", "<p>That is one too many.</p>")]
    _, text, single, answers = found["a-product"]
    assert not single and r"\(a &lt; b\) &amp; <code>x &lt; y</code>?" in text and "x</span>" in text
    assert answers == [
        (50, r"\(\tfrac12 \bar x_{1}\), <em>surely</em>", r"<p>By (1.1): \(\sum_k y_k \ge 1\).</p>"),
        (-100, r"<strong>none</strong> &amp; \(a_{b*c*}\)", "<p>No.</p>"), (50, "<code>f(x)</code>", "<p>Yes.</p>")]


def test_the_parts_of_several_answers():
    """All that are right are a whole, all that are wrong cost one: ticking everything earns nothing."""
    for right, wrong in ((1, 4), (2, 2), (2, 3), (3, 1)):
        quiz = Quiz("a", "One", "?", tuple(Answer(str(i), i < right, "") for i in range(right + wrong)))
        parts = [part for part, *_ in read_back(moodle_xml([quiz]))["a"][3]]
        assert sum(parts[:right]) == pytest.approx(100, abs=1e-4)
        assert sum(parts[right:]) == (0 if right == 1 else pytest.approx(-100, abs=1e-4))


@pytest.mark.parametrize("right, wrong", [(0, 3), (2, 0), (5, 1), (1, 5)])
def test_no_other_parts(right, wrong):
    quiz = Quiz("a", "One", "?", tuple(Answer("", i < right, "") for i in range(right + wrong)))
    with pytest.raises(ValueError, match=f"quiz 'a' has {right} right and {wrong} wrong answers; expected 1 to 4"):
        moodle_xml([quiz])


def test_no_site_and_no_quiz(tmp_path):
    with pytest.raises(ValueError, match="expected a built site"):
        quizzes_of(tmp_path)
    (tmp_path / "index.html").write_text("<h1>One</h1>")
    with pytest.raises(ValueError, match="expected quizzes in it"):
        quizzes_of(tmp_path)
