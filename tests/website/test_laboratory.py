"""The lattice laboratory: its JavaScript against NumPy, in node and in a browser; its controls as a reader uses them.

Node is the one that playwright brings along.
"""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from built_site import SITE
from implementations import random_scores

from reference_impl import ctc, log_softmax, rnnt
from reference_impl.examples import TINY_CTC, TINY_RNNT
from reference_impl.lattice import arc_posteriors, backward, forward
from reference_impl.topology import ctc_lattice, rnnt_lattice
from reference_impl.torch_impl import rnnt_loss

STATIC = Path(__file__).parent.parent.parent / "book" / "_static"
V = 4
# a repeat at the limit, one frame too few, no label, one frame, more labels than frames
PROBLEMS = [("ctc", 5, [1, 2]), ("ctc", 5, [1, 2, 2]), ("ctc", 4, [1, 2, 2]), ("ctc", 3, [1, 2, 2]), ("ctc", 3, []),
            ("ctc", 1, [2]), ("ctc", 8, [3, 1, 1, 3]), ("rnnt", 4, [1, 2]), ("rnnt", 3, [2, 2, 1]),
            ("rnnt", 1, [1, 3, 3]), ("rnnt", 5, []), ("rnnt", 1, []), ("rnnt", 8, [1, 2, 3, 1])]

SOLVE = """
const finite = (key, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
const answer = (problems) => JSON.stringify(problems.map((problem) => {
  const solved = LatticeMath.solve(problem);
  const difference = LatticeMath.centralDifference(problem, 0, 1, 1e-5);
  const best = LatticeMath.bestPath(solved);
  const random = LatticeMath.randomNumbers(3);
  const drawn = Array.from({ length: 2000 }, () => LatticeMath.samplePath(solved, random));
  const used = solved.arcs.map((_, i) => drawn.filter((path) => path && path.includes(i)).length / drawn.length);
  return { ...solved, difference, used, best, bestLog: best && LatticeMath.logProbOfPath(solved, best),
    needed: LatticeMath.framesNeeded(problem) };
}), finite);
"""


def problems():
    rng = np.random.default_rng(5)
    for loss, T, target in PROBLEMS:
        for scale in (1.0, 6.0):
            logits = scale * random_scores(rng, loss, T, len(target), V)
            yield {"loss": loss, "T": T, "V": V, "target": target, "logits": logits.reshape(-1, V).tolist(),
                   "lambda": 0.3}


@pytest.fixture(scope="module")
def by_node():
    driver = pytest.importorskip("playwright._impl._driver", reason="playwright brings node along")
    node = driver.compute_driver_executable()[0]
    script = f"const LatticeMath = require({json.dumps(str(STATIC / 'lattice_math.js'))});{SOLVE}"
    script += 'console.log(answer(JSON.parse(require("fs").readFileSync(0, "utf8"))));'
    done = subprocess.run([str(node), "-e", script], input=json.dumps(list(problems())), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(problem, solved):
    """Every number of one problem with NumPy, to 1e-10."""
    kind, target = problem["loss"], problem["target"]
    logits = np.array(problem["logits"])
    if kind == "rnnt":
        logits = logits.reshape(problem["T"], len(target) + 1, V)
    log_probs = log_softmax(logits)
    module, builder = {"ctc": (ctc, ctc_lattice), "rnnt": (rnnt, rnnt_lattice)}[kind]
    lattice = builder(target, problem["T"], V)
    weights = lattice.arc_weights(log_probs)

    def close(ours, exact, what):
        ours = np.array(ours, dtype=float).reshape(np.shape(exact))
        np.testing.assert_array_equal(np.isinf(ours), np.isinf(exact), err_msg=what)
        finite = np.isfinite(exact)
        np.testing.assert_allclose(ours[finite], np.asarray(exact)[finite], rtol=1e-10, atol=1e-10, err_msg=what)

    close(solved["logZ"], -module.loss(log_probs, target), "log Z")
    close(solved["logAlpha"], forward(lattice, weights), "log alpha")
    close(solved["logBeta"], backward(lattice, weights), "log beta")
    close(solved["occupancy"], module.occupancy(log_probs, target), "occupancy")
    close(solved["gradLogProbs"], module.grad_log_probs(log_probs, target), "gradient with respect to the log-probs")
    close(solved["gradLogits"], module.grad_logits(logits, target), "gradient with respect to the logits")
    theirs = {(arc.source, arc.target, arc.entry and arc.entry[-1]): e
              for arc, e in zip(lattice.arcs, arc_posteriors(lattice, weights), strict=True)}
    ours = {(arc["from"], arc["to"], arc["symbol"]): e
            for arc, e in zip(solved["arcs"], solved["posterior"], strict=True)}
    assert ours.keys() == theirs.keys()
    close([ours[key] for key in theirs], list(theirs.values()), "posteriors")
    names = [node if isinstance(node, str) else f"({node[0]}, {node[1]})" for node in lattice.nodes]
    assert [node["name"] for node in solved["nodes"]] == names
    if kind == "rnnt":
        a = torch.tensor(logits[None], requires_grad=True)
        lengths = torch.tensor([problem["T"]]), torch.tensor([len(target)])
        rnnt_loss(a, torch.tensor([target], dtype=torch.int64).reshape(1, -1), *lengths,
                  fastemit_lambda=problem["lambda"]).backward()
        close(solved["fieldLogits"], a.grad[0].numpy(), "FastEmit")
    return lattice, weights


def test_numbers_in_node(by_node):
    for problem, solved in zip(problems(), by_node, strict=True):
        compare(problem, solved)


def test_difference_quotient_paths_and_frames(by_node):
    for problem, solved in zip(problems(), by_node, strict=True):
        kind, T, target = problem["loss"], problem["T"], problem["target"]
        repeats = sum(a == b for a, b in zip(target, target[1:], strict=False))
        assert solved["needed"] == (1 if kind == "rnnt" else len(target) + repeats)
        if solved["logZ"] == "-Infinity":
            assert T < solved["needed"] and solved["best"] is None
            continue
        assert abs(solved["difference"] - solved["gradLogits"][0][1]) < 1e-8
        # the heaviest path, by trying all that the lattice has
        out_of = {}
        for i, arc in enumerate(solved["arcs"]):
            out_of.setdefault(arc["from"], []).append(i)
        heaviest, stack = -np.inf, [(0, 0.0)]
        while stack:
            node, log = stack.pop()
            if node == len(solved["nodes"]) - 1:
                heaviest = max(heaviest, log)
            for i in out_of.get(node, []):
                stack.append((solved["arcs"][i]["to"], log + solved["weight"][i]))
        assert abs(solved["bestLog"] - heaviest) < 1e-10
        # frequencies of 2000 paths: five standard deviations
        assert np.abs(np.subtract(solved["used"], solved["posterior"])).max() < 5 * 0.5 / 2000**0.5


# --- in a browser ---


@pytest.fixture
def tab(browser):
    """The page of the laboratory."""
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    tab.goto((SITE / "book" / "laboratory.html").as_uri())
    tab.wait_for_selector("#lattice-lab-2.lab-ready")
    yield tab
    tab.close()


def value(text):
    """The number that the page shows."""
    return float(re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda m: m[0].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")),
                        text.replace("−", "-").replace("·10", "e").replace("∞", "inf")))


def test_numbers_in_the_browser(tab, by_node):
    answered = json.loads(tab.evaluate(f"(problems) => {{{SOLVE} return answer(problems);}}", list(problems())))
    for problem, solved in zip(problems(), answered, strict=True):
        compare(problem, solved)


@pytest.mark.parametrize("number", [1, 2])
def test_shown_numbers(tab, number):
    """The tables of the page hold the gradients of the scores that it shows."""
    lab = tab.locator(f"#lattice-lab-{number}")
    lab.get_by_text("All numbers as tables").click()
    rows = [row.split("\t") for row in lab.locator(".lab-tables table").nth(1).inner_text().splitlines()]
    rows = np.array([[value(cell) for cell in row[1:]] for row in rows if row[0][:2] in {f"({t}" for t in range(9)}])
    kind, T, target = [("rnnt", 4, [1, 2]), ("ctc", 5, [1, 2, 2])][number - 1]
    logits = rows[:, 0].reshape(T, -1, V).squeeze() if kind == "ctc" else rows[:, 0].reshape(T, len(target) + 1, V)
    module = {"ctc": ctc, "rnnt": rnnt}[kind]
    log_probs = log_softmax(logits)
    exact = [np.exp(log_probs), module.occupancy(log_probs, target), module.grad_log_probs(log_probs, target),
             module.grad_logits(logits, target)]
    for column, name in enumerate(("y", "E", "gradient, log-probs", "gradient, logits")):
        np.testing.assert_allclose(rows[:, column + 1], exact[column].ravel(), rtol=5e-3, atol=0, err_msg=name)
    assert f"{module.loss(log_probs, target):.4g}" in lab.locator(".lab-problem").inner_text()


@pytest.mark.parametrize("page, example, module", [
    ("01_the_whole_story", TINY_CTC, ctc), ("60_rnnt_gradient", TINY_RNNT, rnnt)])
def test_the_tiny_pair_opens_with_the_numbers_of_the_package(browser, page, example, module):
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    tab.goto((SITE / "notebooks" / f"{page}.html").as_uri())
    lab = tab.locator('.lattice-lab[data-preset="tiny"]').first
    lab.get_by_text("All numbers as tables").click()
    rows = [row.split("\t") for row in lab.locator(".lab-tables table").nth(1).inner_text().splitlines()]
    shown = np.array([value(row[5]) for row in rows if row[0][:2] in {"(0", "(1", "(2"}])
    exact = module.grad_logits(example.logits, example.targets)
    np.testing.assert_allclose(shown, exact.ravel(), rtol=5e-3, atol=1e-15)
    tab.close()


def test_the_editor_shows_the_same_as_the_table(tab):
    """Also after a slider was moved, when only texts change."""
    lab = tab.locator("#lattice-lab-2")
    lab.get_by_text("All numbers as tables").click()
    for step in range(2):
        frame = lab.locator(".lab-editor caption").inner_text().split()[3].strip(";")
        rows = [row.split("\t") for row in lab.locator(".lab-tables table").nth(1).inner_text().splitlines()]
        entries = {row[0]: row[1:] for row in rows}
        for k, symbol in enumerate("∅abc"):
            cells = lab.locator(".lab-editor tbody tr").nth(k).locator("output, .lab-number").all_inner_texts()
            assert cells == entries[f"({frame}, {symbol})"], (step, symbol)
        lab.locator(".lab-slider input").nth(2).fill("3.5")
        assert lab.locator(".lab-slider output").nth(2).inner_text() == "3.50"


def test_difference_quotients_move_the_symbol_in_hand(tab):
    """A CTC node brings its own symbol along, and a slider the symbol that it moves, touched or dragged."""
    lab = tab.locator("#lattice-lab-2")
    caption = lab.locator(".lab-difference caption")
    for state, symbol in ((0, "∅"), (1, "a"), (2, "∅")):
        lab.locator(f"g[aria-label^='node (1, {state})']").click()
        assert caption.inner_text().startswith(f"Nudge the logit of {symbol} ")
    lab.locator(".lab-slider input").nth(2).evaluate("""slider => {
        slider.value = 2.5;
        slider.dispatchEvent(new Event("input"));
    }""")
    assert caption.inner_text().startswith("Nudge the logit of b ")


def test_numbers_fit_into_their_nodes(tab):
    """Small negative gradients have the longest numbers."""
    lab = tab.locator("#lattice-lab-2")
    lab.get_by_label("nodes show").select_option("gradLogits")
    for slider in range(4):
        lab.locator(".lab-slider input").nth(slider).fill("6" if slider == 1 else "-6")
    sizes = lab.evaluate("""lab => [...lab.querySelectorAll(".lab-node")].map(node =>
        ["text", "circle"].map(name => node.querySelector(name).getBBox().width))""")
    longest = [(text, circle) for text, circle in sizes if text > 0.6 * circle]
    assert longest and all(text <= circle for text, circle in sizes), sizes


def test_everything_is_reached_by_keyboard(tab):
    """Tab comes by every control and by one node; arrow keys go on from there, and move a slider."""
    lab = tab.locator("#lattice-lab-1")
    wanted = lab.evaluate("""lab => [...lab.querySelectorAll("select, input, button, summary, g[tabindex='0']")]
        .filter(each => each.checkVisibility()).length""")
    seen = 0
    lab.locator("select").first.focus()
    while lab.evaluate("lab => lab.contains(document.activeElement)"):
        seen += tab.evaluate("() => !document.activeElement.matches('.lab-wide')")
        tab.keyboard.press("Tab")
    assert seen == wanted > 12
    lab.locator("g[tabindex='0']").focus()
    before = tab.evaluate("() => document.activeElement.getAttribute('aria-label')")
    tab.keyboard.press("ArrowRight")
    after = tab.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert before.startswith("node (0, 1)") and after.startswith("node (1, 1)"), (before, after)
    assert lab.locator(".lab-head").first.inner_text() == "Node (1, 1)"
    loss = lab.locator(".lab-problem").inner_text()
    slider = lab.locator("input[type=range][aria-label='logit of c at node (1, 1)']")
    slider.focus()
    tab.keyboard.press("PageUp")
    assert tab.evaluate("() => document.activeElement.getAttribute('aria-label')") == "logit of c at node (1, 1)"
    assert lab.locator(".lab-problem").inner_text() != loss
    assert "logit of c" in lab.locator(".lab-difference caption").inner_text()


def test_sweeps_show_what_is_known(tab):
    """Step by step, alpha of one front after the other, then beta from the last to the first."""
    lab = tab.locator("#lattice-lab-1")
    lab.get_by_role("button", name="start: before the first step").click()
    front = {f"({t}, {u})": t + u for t in range(4) for u in range(3)} | {"end": 6}
    for step in range(1, 15):
        lab.get_by_role("button", name="one step on").click()
        labels = lab.locator("g.lab-node").evaluate_all("nodes => nodes.map(node => node.getAttribute('aria-label'))")
        known = [re.match(r"node (.*): ([αβ]) =", label) for label in labels]
        known = {match[1]: match[2] for match in known if match}
        status = lab.locator(".lab-status").inner_text()
        if step <= 7:
            assert status.startswith(f"Forward, step {step} of 7: α of")
            assert known == {node: "α" for node in front if front[node] < step}
        else:
            assert status.startswith(f"Backward, step {step - 7} of 7: β of")
            assert known == {node: "β" for node in front if front[node] >= 14 - step}
    lab.get_by_role("button", name="show everything").click()
    assert lab.locator(".lab-status").inner_text() == ""


def test_a_link_brings_the_state_back(tab, browser):
    lab = tab.locator("#lattice-lab-2")
    lab.get_by_label("target").fill("ba")
    lab.get_by_label("frames").fill("3")
    slider = lab.locator(".lab-slider input").nth(2)
    slider.focus()
    for _ in range(7):
        tab.keyboard.press("ArrowRight")
    lab.get_by_label("nodes show").select_option("gradLogits")
    lab.get_by_role("button", name="link to this state").click()
    parts = ".lab-problem", ".lab-picture", ".lab-formulas", ".lab-editor"
    shown = [lab.locator(each).inner_text() for each in parts]
    other = browser.new_page()
    other.goto(lab.get_by_label("Link to this state").input_value())
    again = other.locator("#lattice-lab-2")
    assert [again.locator(each).inner_text() for each in parts] == shown
    assert again.get_by_label("target").input_value() == "ba"
    other.goto((SITE / "book" / "laboratory.html").as_uri() + "#lattice-lab-2=ctc~99~zz~nonsense")
    other.reload()
    assert "Loss" in other.locator("#lattice-lab-2 .lab-problem").inner_text()
    other.close()


@pytest.mark.parametrize("field, text, said", [
    ("frames", "9", "frames = 9; expected a whole number from 1 to 8."),
    ("frames", "", "frames = nothing; expected a whole number from 1 to 8."),
    ("target", "axb", "“x” is no label; expected letters from a to c."),
    ("target", "abcab", "5 labels; expected at most 4."),
    ("target", "aabb", "No path: this target needs 6 frames, and there are 5."),
])
def test_what_cannot_be_is_said(tab, field, text, said):
    lab = tab.locator("#lattice-lab-2")
    lab.get_by_label(field, exact=True).fill(text)
    assert lab.locator(".lab-problem").inner_text().startswith(said)


def test_fastemit_and_paths(tab):
    lab = tab.locator("#lattice-lab-1")
    lab.get_by_label("path", exact=True).select_option("best")
    text = lab.locator(".lab-path").inner_text()
    assert re.fullmatch(r"Path( [∅ab]){6}: probability [\d.]+, which is 0\.\d+ of Z\.", text), text
    assert lab.locator(".lab-on-path").count() == 6
    lab.get_by_label("FastEmit λ").fill("0.5")
    said = lab.locator(".lab-fastemit").inner_text()
    assert "adds up to −7.000, not to −(T + U) = −6: each label counts 1.50 times" in said
    lab.get_by_label("target").fill("")
    said = lab.locator(".lab-fastemit").inner_text()
    assert "off from symmetric by up to 0:" in said  # a single path, no label


def test_size():
    """No framework: all of it, uncompressed."""
    files = "lattice_math.js", "lattice_lab.js", "lattice_lab.css"
    assert sum((STATIC / name).stat().st_size for name in files) < 60_000
