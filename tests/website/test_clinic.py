"""The kernel clinic in a browser, as a reader uses it: examples, pastes, mistakes in them, keyboard, themes, a phone.

What the report says is compared with Python in tests/test_gradient_clinic.py, what is read in test_pasted_numbers.py.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from built_site import SITE
from test_accessibility import AXE

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.diagnosis import diagnose_values

STATIC = Path(__file__).parent.parent.parent / "book" / "_static"
EXAMPLES = {
    "a right gradient": ("Right, as the gradient with respect to the logits.", "a log-softmax is inside"),
    "what torch's ctc_loss returns": ("Right, as the gradient with respect to the logits.", "The scores are log-probs"),
    "FastEmit, divided by 3": ("Every term is there.", "FastEmit, lambda = 0.3: the posteriors"),
    "last blank missing": ("Wrong, and the mistake has a name:", "last blank: missing."),
}
each_example = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture
def tab(browser):
    """The page, without MathJax; whatever is not of the folder fails the test."""
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    tab.route("**/tex-svg-full.js*", lambda route: route.abort())
    problems = []
    tab.on("request", lambda r: r.url.startswith(SITE.as_uri()) or problems.append(f"requests {r.url}"))
    tab.on("pageerror", lambda e: problems.append(f"script: {e}"))
    tab.goto((SITE / "book" / "clinic.html").as_uri())
    tab.wait_for_selector(".clinic-ready")
    yield tab
    tab.close()
    assert not problems


def fill(tab, scores, gradient, *, loss="CTC", targets="1 2", **more):
    tab.get_by_label("loss", exact=True).select_option(label=loss)
    tab.get_by_label("targets").fill(targets)
    tab.get_by_label("scores", exact=True).fill(scores)
    tab.get_by_label("gradient", exact=True).fill(gradient)
    for label, value in more.items():
        tab.get_by_label(label.replace("_", " ")).fill(value)
    tab.get_by_role("button", name="Examine").click()
    return tab.locator(".clinic-verdict").inner_text(), tab.locator(".clinic-report").inner_text()


def pasted(tab, label):
    """The numbers in a text area, as Python reads them."""
    text = tab.get_by_label(label, exact=True).input_value()
    return np.array(json.loads(text[text.index("["):text.rindex("]") + 1]))


@each_example
def test_examples(tab, name):
    """Each says what it is named for, of numbers that Python finds to be so."""
    verdict, words = EXAMPLES[name]
    tab.get_by_role("button", name=name).click()
    assert tab.locator(".clinic-verdict").inner_text().startswith(verdict)
    assert words in tab.locator(".clinic-report").inner_text()
    scores, gradient = pasted(tab, "scores"), pasted(tab, "gradient")
    targets = [int(label) for label in tab.get_by_label("targets").input_value().split()]
    blank = int(tab.get_by_label("blank").input_value())
    if name == "last blank missing":
        found = diagnose_values(gradient, scores, targets, loss="rnnt", variable="log_probs", blank=blank)
        expected = rnnt.grad_log_probs(scores, targets, blank=blank)
        expected[-1, -1, blank] = 0.0
        assert not found.right
    elif name == "FastEmit, divided by 3":
        expected = rnnt.grad_logits(scores, targets, blank=blank, fastemit_lambda=0.3) / 3
    else:
        expected = ctc.grad_logits(scores, targets, blank=blank)
        normalised = np.abs(np.exp(scores).sum(-1) - 1).max() < 1e-3
        assert normalised == ("torch" in name)
        value = float(tab.get_by_label("loss value (optional)").input_value())
        assert value == pytest.approx(ctc.loss(log_softmax(scores), targets, blank=blank), abs=2e-4)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-4)


def test_what_torch_returns_is_recognised(tab):
    """Its own gradient, as it prints it."""
    torch.manual_seed(0)
    log_probs = torch.randn(6, 1, 5).log_softmax(-1).requires_grad_()
    lengths = torch.tensor([6]), torch.tensor([3])
    loss = torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1, 2, 2]]), *lengths, reduction="sum")
    loss.backward()
    verdict, report = fill(tab, str(log_probs), str(log_probs.grad), targets="1 2 2",
                           **{"loss_value_(optional)": str(loss)})
    assert verdict == "Right, as the gradient with respect to the logits."
    assert "The scores are log-probs: their rows add up to 1." in report
    assert "The loss is -log Z of the log-probs, in nats." in report
    assert "An axis of size 1 was left out of the shape (6, 1, 5)." in report
    assert "the gradient is given with" in report or "arithmetic" in report


def test_the_variable_can_be_forced(tab):
    """Then the sentences are those of diagnose_values."""
    scores = np.random.default_rng(0).normal(size=(5, 4))
    gradient = ctc.grad_logits(scores, [1, 2])
    gradient[:, 0] *= 2
    fill(tab, json.dumps(scores.tolist()), json.dumps(gradient.tolist()))
    for variable in ("logits", "log_probs"):
        tab.get_by_label("gradient with respect to").select_option(variable)
        found = diagnose_values(gradient, scores, [1, 2], variable=variable)
        shown = tab.locator(".clinic-findings li").evaluate_all("""items => items.map(item =>
            item.firstChild.textContent.replace(/[.]$/, ""))""")
        said = [finding for finding in found.findings if not finding.startswith("all in all")]
        assert [each.split(" it is")[0] for each in shown] == [each.split(" it is")[0] for each in said]


@pytest.mark.parametrize(("scores", "gradient", "more", "said"), [
    ("", "", {}, "scores: Nothing is pasted."),
    ("[[1, 2], [3, ...]]", "1", {}, "scores: The print is abbreviated (...)."),
    ("[[1, 2, 3], [3, 4, 5]]", "[[1, 2], [3]]", {}, "gradient: The rows differ: row 1 has 1 number"),
    ("[[1, 2, 3], [3, 4, 5]]", "0 0 0\n0 0 0", {"targets": "1 3"}, "targets[1] = 3; expected 0 <= label < V = 3."),
    ("[[1, 2, 3], [3, 4, 5]]", "0 0 0\n0 0 0", {"targets": "one"}, "targets: Line 1: “one” is not a number."),
    ("[[1, 2, 3], [3, 4, 5]]", "0 0 0\n0 0 0", {"blank": "1"},
     "targets[0] = 1; expected a label other than blank = 1."),
    ("[[1, 2, 3], [3, nan, 5]]", "0 0 0\n0 0 0", {}, "scores[1, 1] = nan; expected no NaN and no +inf"),
    ("[[1, 2, 3], [3, 4, 5]]", "0 0 0\n0 0 0", {"loss": "RNN-T"},
     "scores: The shape is (2, 3); expected (T, U + 1, V)."),
    ("[[[1, 2, 3], [3, 4, 5]]]", "[0]", {"loss": "RNN-T"}, "scores has 2 rows on its U+1 axis; expected U + 1 = 3"),
])
def test_what_cannot_be_examined_is_said(tab, scores, gradient, more, said):
    verdict, report = fill(tab, scores, gradient, **more)
    assert verdict.startswith(said) and report == ""


def test_a_text_area_says_what_it_read(tab):
    area = tab.get_by_label("scores", exact=True)
    note = tab.locator(".clinic-read").first
    area.fill("tensor([[0.1234, 0.5678, 1.0000]])")
    assert note.inner_text() == "Read: 1 × 3, with 4 decimals." and area.get_attribute("aria-invalid") is None
    area.fill("tensor([[0.1234, 0.5678, ")
    assert "is missing at the end" in note.inner_text() and area.get_attribute("aria-invalid") == "true"
    assert area.get_attribute("aria-describedby") == note.get_attribute("id")
    area.fill("")
    assert note.inner_text().startswith("Logits or log-probs")


def test_a_gradient_of_another_shape_is_a_finding(tab):
    scores = json.dumps(np.zeros((3, 4)).tolist())
    verdict, report = fill(tab, scores, json.dumps(np.zeros((4, 3)).tolist()))
    assert verdict.startswith("Wrong") and "Transpose it" in report
    assert "it has shape (4, 3); expected (3, 4)." in report
    verdict, report = fill(tab, scores, "\n".join(["0.25"] * 12))
    assert "The 12 numbers of the gradient were put into the shape of the scores." in report


def test_the_numbers_of_the_report(tab):
    """The table of the largest differences, the picture and the table of all numbers show the same."""
    scores = np.random.default_rng(1).normal(size=(4, 5))
    right = ctc.grad_logits(scores, [1, 2])
    wrong = right.copy()
    wrong[2, 3] += 0.5
    fill(tab, json.dumps(scores.tolist()), json.dumps(wrong.tolist()))
    first = tab.locator(".clinic-report table").first.locator("tbody tr").first.inner_text().split("\t")
    assert first[:2] == ["(2, 3)", "other symbol"] and first[-1] == "0.5"
    shown = [float(text.replace("−", "-")) for text in first[3:5]]
    np.testing.assert_allclose(shown, [wrong[2, 3], right[2, 3]], rtol=1e-3, atol=0)
    heat = tab.locator(".clinic-report svg")
    assert "The largest is 0.5 at entry (2, 3)." in heat.get_attribute("aria-label")
    assert heat.locator("rect").count() == 20
    for what, array in (("given", wrong), ("expected", right)):
        tab.get_by_label("picture of").select_option(what)
        titles = tab.locator(".clinic-report svg title").evaluate_all("all => all.map(each => each.textContent)")
        cells = dict(text.split(": ") for text in titles)
        for (t, k), value in np.ndenumerate(array):
            assert float(cells[f"({t}, {k})"].replace("−", "-")) == pytest.approx(value, rel=1e-3)
    tab.get_by_text("All numbers as a table").click()
    assert tab.get_by_role("region", name="All numbers").locator("tbody tr").count() == 20


def test_what_is_explained_can_be_compared_with(tab):
    """FastEmit divided by three: against the gradient the differences are large, against the explanation none."""
    tab.get_by_role("button", name="FastEmit, divided by 3").click()
    largest = tab.locator(".clinic-report table").first.locator("tbody tr td:last-child").first
    assert abs(float(largest.inner_text().replace("−", "-"))) > 0.1
    tab.get_by_label("compare with").select_option("whole")
    assert abs(float(largest.inner_text().replace("−", "-"))) < 1e-3
    tab.get_by_label("symbol").select_option("3")
    assert tab.locator(".clinic-report svg").get_attribute("aria-label").startswith("Heat map, difference: 4 frames")


def test_a_report_on_many_numbers(tab):
    """It takes a moment, and the picture leaves symbols out."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(60, 90)).round(6)
    targets = rng.integers(1, 90, 12)
    tab.get_by_label("loss", exact=True).select_option("ctc")
    tab.get_by_label("targets").fill(" ".join(map(str, targets)))
    tab.get_by_label("scores", exact=True).fill(json.dumps(scores.tolist()))
    tab.get_by_label("gradient", exact=True).fill(json.dumps(ctc.grad_logits(scores, targets).tolist()))
    tab.get_by_role("button", name="Examine").click()
    tab.wait_for_selector(".clinic-verdict[data-verdict=right]")
    assert "30 of 90 symbols" in tab.locator(".clinic-report").inner_text()
    assert tab.locator(".clinic-report rect").count() == 60 * 30


def test_everything_is_reached_by_keyboard(tab):
    """Tab comes by every control, and Ctrl+Enter in a text area examines."""
    tab.get_by_role("button", name="last blank missing").click()
    clinic = tab.locator(".gradient-clinic")
    wanted = clinic.evaluate("""clinic => [...clinic.querySelectorAll(
        "select, input, button, textarea, summary, a, .clinic-wide")].filter(each => each.checkVisibility()).length""")
    clinic.locator("button").first.focus()
    seen = 0
    while clinic.evaluate("clinic => clinic.contains(document.activeElement)"):
        seen += 1
        tab.keyboard.press("Tab")
    assert seen == wanted > 15
    area = tab.get_by_label("gradient", exact=True)
    area.fill("[[1")
    area.press("Control+Enter")
    assert "is missing at the end" in tab.locator(".clinic-verdict").inner_text()


@each_example
def test_axe_finds_nothing_in_a_report(tab, name):
    tab.get_by_role("button", name=name).click()
    tab.get_by_text("All numbers as a table").click()
    tab.add_style_tag(content="* { transition: none !important }")
    tab.evaluate(AXE)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_function(f"() => document.documentElement.dataset.theme === '{scheme}'")
        found = tab.evaluate("() => axe.run('.gradient-clinic', {resultTypes: ['violations']})")["violations"]
        assert not found, (scheme, [(each["id"], each["nodes"][0]["html"][:120]) for each in found])


@each_example
def test_a_phone_shows_all_without_scrolling_sideways(tab, name):
    tab.set_viewport_size({"width": 360, "height": 720})
    tab.get_by_role("button", name=name).click()
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 360
    table = tab.locator(".clinic-report .clinic-wide").first
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth + 1")


def test_findings_lead_to_the_book(tab):
    """Each place that a finding may lead to is a link of the page, and examples show some."""
    missing = tab.evaluate("""() => GradientClinic.allLabels().filter(label =>
        !["#equation-", "#"].some(start => document.querySelector(`.clinic-places a[href$="${start}${label}"]`)))""")
    assert missing == []
    tab.get_by_role("button", name="FastEmit, divided by 3").click()
    links = tab.locator(".clinic-findings a")
    assert links.count() == 2 and "65_fastemit.html#equation-eq-fastemit-logits" in links.first.get_attribute("href")


def test_nothing_is_stored(tab):
    before = tab.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    tab.get_by_role("button", name="a right gradient").click()
    assert tab.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == before
    assert "#" not in tab.url


def test_without_javascript_a_sentence_stands_there(browser, site):
    page = site[SITE / "book" / "clinic.html"]
    assert "the clinic stands here" in page.select_one(".gradient-clinic").get_text()
    loaded = {script["src"].partition("?")[0].rpartition("/")[2] for script in page.select("script[src]")}
    assert {"lattice_math.js", "pasted_numbers.js", "gradient_clinic_math.js", "gradient_clinic.js"} <= loaded
    others = site[SITE / "book" / "laboratory.html"].select("script[src*=clinic]")
    assert not others


def test_size():
    """No framework: all of it, uncompressed, with the mathematics of the laboratory."""
    files = ("lattice_math.js", "pasted_numbers.js", "gradient_clinic_math.js", "gradient_clinic.js",
             "gradient_clinic.css")
    assert sum((STATIC / name).stat().st_size for name in files) < 100_000
