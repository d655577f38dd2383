"""The pages for teaching: plans agree with their decks, names with what they name, numbers with what a run gives.

It reads Markdown and knows no Sphinx; that the clock on the pages comes from the decks is in
test_session_plans_extension.py. What is printed as a number on these pages is computed here anew.
"""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from enumeration import ctc_alignments, rnnt_alignments

from coursework.questions import ASSIGNMENTS
from reference_impl import ctc, log_softmax, rnnt
from reference_impl.bug_bank import BUGS, CHECKS

ROOT = Path(__file__).parent.parent
TEACHING = ROOT / "book" / "teaching"
sys.path.append(str(ROOT / "book" / "_ext"))
from chapter_graph import read_opening  # noqa: E402
from reading_time import rounded  # noqa: E402

SESSIONS = range(1, 9)
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(TEACHING.glob("*.md"))}
PLANS = {n: PAGES[f"session_{n}"] for n in SESSIONS}
SECTIONS = ["Outcomes", "The evening before", "Timetable", "Minute by minute",
            "When time runs out, and when it does not", "Discussion questions", "Misconceptions of the day",
            "Homework and reading"]
VERBS = {"state", "convert", "predict", "choose", "read", "tell", "design", "name", "list", "count", "draw", "prove",
         "derive", "write", "expose", "compute", "verify", "justify", "locate", "correct", "explain", "diagnose", "run",
         "identify", "place", "estimate", "repair", "rewrite", "measure", "transfer"}


def plain(title):
    return re.sub(r"[$*`\\]", "", title)


def slides_of(n):
    """Return {title: minutes} of a deck, in order."""
    text = (TEACHING / "slides" / f"session_{n}.md").read_text(encoding="utf-8")
    parts = re.split(r"^##? ", text.partition("---\n# ")[2], flags=re.MULTILINE)
    found = {plain(part.partition("\n")[0]): int(re.search(r"\{notes\} (\d+)", part)[1]) for part in parts}
    assert len(found) == len(parts), "two slides with one title"
    return found


def sections(text, level=2):
    marks = "#" * level
    parts = re.split(rf"^{marks} (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text, head):
    """Return the rows of the table whose first cell is this."""
    table = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


DECKS = {n: slides_of(n) for n in SESSIONS}
NOTEBOOKS = {path.stem: "\n\n".join(
    "".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "markdown") for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
EVERY_CHAPTER = "\n".join(NOTEBOOKS.values())


# --- plans and decks ---


@pytest.mark.parametrize("n", SESSIONS)
def test_a_plan_has_every_section_in_order(n):
    assert PLANS[n].startswith(f"---\ndeck: session_{n}\n---\n# Session {n}: ")
    assert list(sections(PLANS[n])) == SECTIONS
    assert "```{timetable}" in sections(PLANS[n])["Timetable"]


@pytest.mark.parametrize("n", SESSIONS)
def test_blocks_cover_the_deck_in_order_and_make_90_minutes(n):
    titles = list(DECKS[n])
    ends = [titles.index(plain(name)) for name in re.findall(r"^```\{block\} (.*)$", PLANS[n], re.MULTILINE)]
    assert ends == sorted(set(ends)) and ends[-1] == len(titles) - 1
    assert 7 <= len(ends) <= 12 and sum(DECKS[n].values()) == 90


@pytest.mark.parametrize("n", SESSIONS)
def test_every_block_says_what_to_do_to_listen_for_and_what_if_nobody_answers(n):
    blocks = sections(sections(PLANS[n])["Minute by minute"], 3)
    for title, text in blocks.items():
        assert text.startswith("\n```{block} ") and text.count("{block}") == 1, title
        for part in ("**Do.** ", "**Listen for.** ", "**If nobody answers"):
            assert f"\n- {part}" in text, (title, part)
    assert sum("- **Board.** " in text for text in blocks.values()) >= 4
    assert sum("- **Late?** " in text for text in blocks.values()) >= len(blocks) - 3
    labs = (TEACHING / "slides" / f"session_{n}.md").read_text(encoding="utf-8").count("```{lattice-lab}")
    assert labs and "aboratory" in sections(PLANS[n])["Minute by minute"]


@pytest.mark.parametrize("page", PAGES)
def test_slides_that_a_page_names_are_there(page):
    for deck, name in re.findall(r"\{slide\}`session_(\d): ([^`]*(?:\$[^`]*)?)`", PAGES[page]):
        assert plain(name) in DECKS[int(deck)], (deck, name)
    assert PAGES[page].count("{slide}") == len(re.findall(r"\{slide\}`session_\d: [^`]+`", PAGES[page]))


@pytest.mark.parametrize("n", SESSIONS)
def test_cuts_take_no_more_than_the_slides_have_and_add_up(n):
    text = re.search(r"Cut in this order: (.*?\.) That is (\d+) minutes", PLANS[n])
    cuts = re.findall(rf"\{{slide\}}`session_{n}: ([^`]+)`[^()]*\((\d+)(?: of (\d+))?\)", text[1])
    for name, minutes, of in cuts:
        assert int(minutes) <= DECKS[n][plain(name)] and (not of or int(of) == DECKS[n][plain(name)]), name
    recall = re.search(r"the recall \((\d)\)", text[1])
    assert sum(int(minutes) for _, minutes, _ in cuts) + (int(recall[1]) if recall else 0) == int(text[2]) >= 10
    assert re.search(r"Never cut \{slide\}", PLANS[n]) and re.search(r"(Time left\?|too many\?)", PLANS[n])


@pytest.mark.parametrize("n", SESSIONS)
def test_the_settings_of_the_laboratory_are_those_of_the_slide(n):
    """Each laboratory of the deck is on the list of the evening before or in its block: target, frames, preset."""
    deck = (TEACHING / "slides" / f"session_{n}.md").read_text(encoding="utf-8")
    words = dict(zip("345678", ("three", "four", "five", "six", "seven", "eight"), strict=False))
    for loss, frames, target, preset in re.findall(
            r":loss: (\w+)\n:frames: (\d)\n:target: (\w+)\n:preset: (\w+)", deck):
        named = {"ctc": "CTC", "rnnt": "RNN-T"}[loss]
        assert f"{named}, {words[frames]} frames, target *{target}*" in PLANS[n] \
            or f"{named}, {words[frames]} frames, *{target}*" in PLANS[n], (loss, frames, target)
        assert f"preset *{preset}*" in PLANS[n] or n in (2, 3), preset


@pytest.mark.parametrize("n", SESSIONS)
def test_homework_is_that_of_the_last_slide(n):
    deck = (TEACHING / "slides" / f"session_{n}.md").read_text(encoding="utf-8").partition("## Homework and reading")[2]
    plan = sections(PLANS[n])["Homework and reading"]
    chapters = set(re.findall(r"notebooks/(\w+)\.ipynb", deck))
    assert chapters and chapters <= set(re.findall(r"notebooks/(\w+)\.ipynb", plan))
    given = set(re.findall(r"\*\*Assignment (\d)\*\*", deck))
    assert given == set(re.findall(r"\*\*Assignment (\d)\*\* \(out today", plan))
    exercises = set(re.findall(r"<(ex-[\w-]+)>", deck))
    assert exercises <= set(re.findall(r"ex-[\w-]+", PLANS[n]))


@pytest.mark.parametrize("n", SESSIONS)
def test_three_to_five_questions_to_discuss_each_with_what_a_good_answer_has(n):
    text = sections(PLANS[n])["Discussion questions"]
    found = re.findall(r":::\{admonition\} (\d)\. (.*)\n:class: dropdown\n(.*)\n:::", text)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1)) and 3 <= len(found) <= 5
    for _, question, answer in found:
        assert question.rstrip().endswith(("?", ".")) and len(answer.split()) >= 35, question


# --- names ---


@pytest.mark.parametrize("page", PAGES)
def test_quizzes_exercises_equations_and_papers_that_a_page_names_are_there(page):
    text = PAGES[page]
    named = {role: set(re.findall(rf"\{{{role}\}}`(?:[^`<]*<)?([\w:-]+)>?`", text))
             for role in ("quiz", "ref", "eq", "cite:t", "prf:ref")}
    quizzes = set(re.findall(r"^:::\{quiz\} ([\w-]+)$", EVERY_CHAPTER, re.MULTILINE))
    assert named["quiz"] <= quizzes
    labels = set(re.findall(r":label: ((?:ex|thm)-[\w-]+)", EVERY_CHAPTER))
    pages = "\n".join([*PAGES.values(), (ROOT / "book" / "preface.md").read_text(encoding="utf-8"), EVERY_CHAPTER])
    assert named["ref"] | named["prf:ref"] <= labels | set(re.findall(r"^\(([\w-]+)\)=$", pages, re.MULTILINE))
    assert named["eq"] <= set(re.findall(r"\(((?:eq|def)-[\w-]+)\)", EVERY_CHAPTER))
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert named["cite:t"] <= set(keys)


@pytest.mark.parametrize("n", SESSIONS)
def test_outcomes_are_measurable_and_assessed(n):
    part = re.search(r"<!-- outcomes -->\n(.*?)<!-- end of outcomes -->", PLANS[n], re.DOTALL)[1]
    outcomes = rows(part, f"after session {n} students can")
    assert 3 <= len(outcomes) <= 5
    for what, shown in outcomes:
        verbs = re.findall(r"\*\*(\w+)\*\*", what)
        assert what.startswith("**") and verbs and set(verbs) <= VERBS, what
        assert re.search(r"\{quiz\}|\{ref\}`ex-|assignment \d", shown), what
        for assignment, names in re.findall(r"assignment (\d) \(([^)]+)\)", shown):
            (questions,) = [known for name, known in ASSIGNMENTS.items() if name.startswith(assignment)]
            assert set(re.findall(r"`(\w+)`", names)) <= set(questions), shown
    assert f"{{include}} session_{n}.md" in PAGES["syllabus"]


def test_every_assignment_shows_an_outcome():
    assert {int(number) for text in PLANS.values() for number in re.findall(
        r"assignment (\d)", sections(text)["Outcomes"])} == set(range(1, 9))


# --- the syllabus ---


def test_assignments_are_those_of_the_course():
    table = rows(PAGES["syllabus"], "assignment")
    named = {int(title[0]): (title.partition(". ")[2], int(minutes)) for title, minutes, *_ in table}
    there = {}
    for path in sorted((ROOT / "course" / "assignments").glob("*/*.ipynb")):
        text = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        title = re.match(r"# Assignment (\d): (.*)", text)
        minutes = int(re.search(r"\*\*Time\*\* (\d+) minutes", text)[1])
        there[int(title[1])] = title[2][0].upper() + title[2][1:], minutes
    assert list(named) == list(range(1, 9)) and named == there
    assert sum(int(weight.removesuffix(" %")) for _, _, weight, _, _ in table) == 100


def test_dates_of_assignments_agree():
    """In the table of assignments, in that of the sessions, and in the plans."""
    out, due = {n: set() for n in SESSIONS}, {n: set() for n in SESSIONS}
    for title, _, _, when, until in rows(PAGES["syllabus"], "assignment"):
        number, first = int(title[0]), int(when.removeprefix("session "))
        out[first].add(number)
        assert f"**Assignment {number}** (out today, due" in PLANS[first]
        if until.startswith("session "):
            due[int(until[-1])].add(number)
            assert f"**Assignment {number}** (out today, due before {until})" in PLANS[first]
        else:
            weeks = {"1": "a week", "2": "two weeks", "3": "three weeks"}[until[0]]
            assert f"**Assignment {number}** (out today, due {weeks} after" in PLANS[first]
    for n, (*_, text) in enumerate(rows(PAGES["syllabus"], "session"), 1):
        said = {word: {int(d) for d in re.findall(r"\d", part)} for part in text.split("; ") if part
                for word in [part.rpartition(" ")[2]]}
        assert said.get("out", set()) == out[n] and said.get("due", set()) == due[n], n


def test_sessions_and_their_chapters():
    table = rows(PAGES["syllabus"], "session")
    assert len(table) == 8
    for n, (title, chapters, *_) in enumerate(table, 1):
        assert f"](session_{n}.md)" in title
        assert set(re.findall(r"notebooks/(\w+)", chapters)) <= set(re.findall(r"notebooks/(\w+)", PLANS[n]))


def test_time_at_home_is_that_of_chapters_and_assignments():
    """The main line of a chapter and its exercises; hours are rounded up to a quarter."""
    fractions, spent, total = {"¼": 0.25, "½": 0.5, "¾": 0.75}, {}, 0

    def hours(text):
        whole, quarter = (text[:-1], fractions[text[-1]]) if text[-1] in fractions else (text, 0)
        return int(whole or 0) + quarter

    for when, reading, tasks, said_hours in rows(PAGES["syllabus"], "week after"):
        minutes = 0
        for name, said in re.findall(r"notebooks/(\w+)\.ipynb\) \((\d+)\)", reading):
            time = read_opening(ROOT / "notebooks" / f"{name}.ipynb").minutes
            assert rounded(time.core) + rounded(time.exercises) == int(said), name
            minutes += int(said)
        for number, said in re.findall(r"(\d)(?:, \w+ half)? \((\d+)\)", tasks):
            spent[int(number)] = spent.get(int(number), 0) + int(said)
            minutes += int(said)
        assert math.ceil(minutes / 15) / 4 == hours(said_hours) <= 4, when
        total += minutes
    assert spent == {int(title[0]): int(minutes) for title, minutes, *_ in rows(PAGES["syllabus"], "assignment")}
    said = re.search(r"Together 12 hours in class and (\S+) at home", PAGES["syllabus"])
    assert 8 * 90 == 12 * 60 and math.ceil(total / 15) / 4 == hours(said[1])


# --- the first hour, and the short course ---


def contiguous(table, until):
    ends = [tuple(map(int, row[0].split("-"))) for row in table]
    joined = all(a[1] == b[0] < b[1] for a, b in zip(ends, ends[1:], strict=False))
    return joined and ends[0][0] == 0 and ends[-1][1] == until


def test_the_first_hour_is_an_hour():
    assert contiguous(rows(PAGES["index"], "minutes"), 60)


def test_the_short_course_has_90_minutes_twice_and_names_slides():
    for session in ("Session 1: CTC", "Session 2: RNN-T"):
        table = rows(sections(PAGES["short_course"])[session], "minutes")
        assert contiguous(table, 90) and all("{slide}`" in slides for *_, slides in table)


# --- misconceptions ---


ENTRY = re.compile(r"^\((mis-[\w-]+)\)=\n(### .*\n(?:(?!^\(mis-|^## ).*\n?)*)", re.MULTILINE)
ENTRIES = dict(ENTRY.findall(PAGES["misconceptions"]))


def test_every_misconception_has_a_question_a_number_and_a_place():
    assert len(ENTRIES) == PAGES["misconceptions"].count("\n### ") >= 20
    for name, text in ENTRIES.items():
        for part in ("**Ask.** ", "**In numbers.** ", "**Where.** "):
            assert text.count(f"\n- {part}") == 1, (name, part)
        assert re.search(r"\{(quiz|eq)\}`", text), name


def test_sessions_and_misconceptions_name_each_other():
    reached = set()
    for n in SESSIONS:
        named = set(re.findall(r"<(mis-[\w-]+)>", sections(PLANS[n])["Misconceptions of the day"]))
        assert 2 <= len(named) <= 6 and named <= set(ENTRIES)
        reached |= named
        for name in named:
            where = re.search(r"\*\*Where\.\*\* (.*)", ENTRIES[name])[1]
            assert re.search(rf"[Ss]essions?[^;.]*\b{n}\b", where), (n, name)
    assert reached == set(ENTRIES)


def test_findings_are_what_the_assignments_print():
    found = re.findall(r"\*\*Assignment (\d) says\.\*\* \"(.*)\"", PAGES["misconceptions"])
    assert len(found) >= 4
    for number, sentence in found:
        (questions,) = [known for name, known in ASSIGNMENTS.items() if name.startswith(number)]
        assert sentence in {mistake for question in questions.values() for mistake in question.mistakes}, sentence


def printed(name):
    return re.search(r"\*\*In numbers\.\*\* (.*)", ENTRIES[name])[1]


HALF = np.log(np.full((2, 2), 0.5))


def test_numbers_of_one_small_case():
    """Target a, two frames, all probabilities 1/2."""
    with_probs = ctc.grad_log_probs(HALF, [1])[0, 1] / 0.5
    assert [with_probs, ctc.grad_log_probs(HALF, [1])[0, 1], ctc.grad_logits(HALF, [1])[0, 1]] == pytest.approx(
        [-4 / 3, -2 / 3, -1 / 6])
    assert all(tex in printed("mis-variable") for tex in (r"-\frac43", r"-\frac23", r"-\frac16"))
    z = math.exp(-ctc.loss(HALF, [1]))
    mass = z * -ctc.grad_log_probs(HALF, [1])[0]
    doubled = HALF.copy()
    doubled[0, 1] += math.log(2)
    assert z == pytest.approx(3 / 4) and mass[1] == pytest.approx(1 / 2)
    assert math.exp(-ctc.loss(doubled, [1])) == pytest.approx(5 / 4) and r"\frac54" in printed("mis-recursion")
    assert mass.sum() == pytest.approx(3 / 4) and 0.5 - mass[1] == pytest.approx(0) and r"-\frac34" in printed("mis-z")


def test_numbers_of_states_and_symbols():
    four, target, extended = np.log(np.full((4, 2), 0.5)), [1, 1], [0, 1, 0, 1, 0]
    right = -ctc.grad_log_probs(four, target)[0]
    gamma = np.exp(ctc.log_alpha(four, target) + ctc.log_beta(four, target) + ctc.loss(four, target))[0]
    written, of_symbol = np.zeros(2), np.zeros(2)
    for state, symbol in enumerate(extended):
        written[symbol] = gamma[state]
        of_symbol[symbol] += right[symbol]
    for numbers in (right, of_symbol, written):
        assert f"$({numbers[0]:.2g}, {numbers[1]:.2g})$" in printed("mis-state")
        assert f"$({numbers[0]:.2g}, {numbers[1]:.2g})$" in PLANS[3]
    twice = np.exp(ctc.log_alpha(four, target) + ctc.log_beta(four, target) + np.log(0.5)).sum(1)
    assert twice == pytest.approx(np.full(4, 0.5 * math.exp(-ctc.loss(four, target))))
    assert r"\frac12 Z" in printed("mis-beta")
    unequal = log_softmax(np.random.default_rng(0).normal(size=(4, 2)))
    emission = unequal[:, extended]
    sums = np.exp(ctc.log_alpha(unequal, target) + ctc.log_beta(unequal, target) + emission).sum(1)
    assert np.ptp(sums) > 1e-3


def test_numbers_of_frames_and_paths():
    hello = [1, 2, 3, 3, 4]
    uniform = np.zeros((10, 5))
    assert round(math.exp(-ctc.loss(uniform, hello))) == 1001 and math.comb(10, 5) == 252 and math.comb(15, 10) == 3003
    assert all(f" {number}" in f" {printed('mis-count')}" for number in (252, 3003)) and "1001" in printed("mis-count")
    assert ctc.loss(uniform[:5], hello) == math.inf and ctc.loss(uniform[:6], hello) == pytest.approx(0)
    assert "5 + 1" in printed("mis-frames")
    paths = list(rnnt_alignments([1, 2, 3], 4, 4, 0))
    assert len(paths) == 20 and "7 symbols, 20 paths" in printed("mis-string") and math.comb(4, 3) == 4
    assert len(list(rnnt_alignments([1, 2], 3, 3, 0))) == 6
    assert len(list(ctc_alignments([1, 1], 4, 2, 0))) == 5


def test_numbers_of_checks():
    def passing(name):
        check = next(check for check in CHECKS if check.name == name)
        tried = [bug for bug in BUGS if check.applies(bug)]
        return len(tried), sum(check.passes(bug) for bug in tried)

    for entry, check, text in (("mis-sum", "sums to 0 over V", "Of the {} planted bugs"),
                               ("mis-differences", "finite differences, one random case", "of {} planted bugs")):
        tried, passed = passing(check)
        assert text.format(tried) in printed(entry) and f" {passed} " in printed(entry)
    for step, low, high in ((1e-5, 0, 1e-9), (1e-13, 1e-4, 1)):
        assert low < abs(((1 + step) ** 3 - (1 - step) ** 3) / (2 * step) - 3) < high
    assert all(tex in printed("mis-step") for tex in ("10^{-5}", "10^{-9}", "10^{-13}", "10^{-4}"))


def test_numbers_of_libraries():
    losses, lengths = np.array([30, 8]), np.array([10, 2])
    assert (losses / lengths).mean() == 3.5 and losses.mean() == 19
    assert "19 by the batch" in printed("mis-mean") and "= 3.5" in printed("mis-mean")
    lp = torch.log(torch.tensor([[0.5, 0.3, 0.2]] * 3, dtype=torch.float64)).unsqueeze(1).requires_grad_()
    torch.nn.functional.ctc_loss(lp, torch.tensor([[1]]), [3], [1], reduction="sum").backward()
    assert lp.grad[0, 0, 2].item() == pytest.approx(0.2) and "0.2" in printed("mis-contract")
    assert ctc.grad_log_probs(lp.detach().numpy()[:, 0], [1])[0, 2] == 0


def test_numbers_of_rnnt():
    scores = np.random.default_rng(0).normal(size=(5, 3, 4))
    assert rnnt.loss(scores, [1, 2]) - rnnt.loss(scores + 3, [1, 2]) == pytest.approx(21)
    assert "by 21 for" in printed("mis-negative")
    posteriors, belief = (0.4, 0.2), 0.5
    assert belief * sum(posteriors) - posteriors[0] == pytest.approx(-0.1) and "= -0.1$" in printed("mis-devices")
    assert 0.1 * 0.3 == pytest.approx(0.03) and "0.03" in printed("mis-node") and "$0.03$" in PLANS[6]
    assert 1 / 0.6 == pytest.approx(1.67, abs=0.005) and "1.67" in printed("mis-last-blank")
    assert 0.2 * (1 + 0.5) == pytest.approx(0.3) and "0.3" in printed("mis-frame")
    assert -(5 + 1.1 * 2) == pytest.approx(-7.2) and "$-7.2$" in printed("mis-gradcheck")
    assert -(4 + 1.3 * 2) == pytest.approx(-6.6) and "$-6.6$" in PLANS[7]
    four = [1, 2, 3, 1]
    wide = np.random.default_rng(1).normal(size=(3, 5, 4))
    raised = wide + np.array([0, 0.5, 0.5, 0.5])
    assert rnnt.loss(wide, four) - rnnt.loss(raised, four) == pytest.approx(2) and "falls by 2 " in printed("mis-bonus")
    np.testing.assert_allclose(rnnt.grad_log_probs(wide, four), rnnt.grad_log_probs(raised, four), rtol=0, atol=1e-12)
    half = np.log(np.full((2, 2, 2), 0.5))
    gamma = np.exp(rnnt.log_alpha(half, [1]) + rnnt.log_beta(half, [1]) + rnnt.loss(half, [1]))
    assert math.exp(-rnnt.loss(half, [1])) == pytest.approx(1 / 4) and r"$Z = \frac14$" in PLANS[5]
    assert gamma == pytest.approx(np.array([[1, 0.5], [0.5, 1]])) and "$\\gamma$ is 1, ½, ½, 1" in PLANS[5]


def test_numbers_of_machines():
    assert np.spacing(np.float32(7800)) == 2.0**-11 and "2^{-11}" in printed("mis-digits")
    assert np.spacing(np.float32(52430)) == 2.0**-8 and "2^{-8}" in PLANS[8]
    assert np.spacing(np.float16(5000)) == 4
    near = torch.tensor(5000.0).to(torch.bfloat16)
    assert (torch.nextafter(near, torch.tensor(1e4, dtype=torch.bfloat16)) - near).item() == 32
    assert "32 apart in bfloat16, and 4 in float16" in PLANS[8]
    assert 5 * (2 + 1) == 15 and 5 + 2 == 7 and "15 nodes in 7 fronts" in printed("mis-front")


# --- the self-test ---


QUIZ = re.compile(r"^:::\{quiz\} (pre-[\w-]+)\n(.*?)^:::$", re.MULTILINE | re.DOTALL)
SELF_TEST = {name: [(mark == "x", text) for mark, text in re.findall(r"^- \[([ x])\] (.*)\n  > ", body, re.MULTILINE)]
             for name, body in QUIZ.findall(PAGES["prerequisites"])}


def right(name):
    return [text for is_right, text in SELF_TEST[name] if is_right]


def test_the_self_test_has_four_parts_each_with_its_repair():
    parts = {title: text for title, text in sections(PAGES["prerequisites"]).items()}
    assert list(parts) == ["Calculus", "Probability", "Sums of exponentials", "NumPy"]
    assert all(len(QUIZ.findall(text)) >= 3 and "**To repair**" in text for text in parts.values())
    assert f"10 of {len(SELF_TEST)} or more" in PAGES["prerequisites"]
    assert not {name for name in SELF_TEST if f"{{quiz}} {name}\n" in EVERY_CHAPTER}


def test_answers_of_the_self_test_are_what_a_computer_says():
    def slope(f, x, h=1e-6):
        return (f(x + h) - f(x - h)) / (2 * h)

    assert slope(lambda x: math.log(5 + 3 * x), 1) == pytest.approx(3 / 8) and right("pre-log") == [r"$\tfrac38$"]
    assert slope(lambda s: math.log(4 + 2 * math.exp(s)), math.log(2)) == pytest.approx(1 / 2)
    assert right("pre-log-variable") == [r"$\tfrac12$"]
    assert slope(lambda u: u * (1 - u), 0.3) == pytest.approx(0.4) and right("pre-tied") == ["0.4"]
    tosses = [f"{n:03b}".count("1") for n in range(8)]
    assert tosses.count(1) / 8 == 3 / 8 and right("pre-disjoint") == [r"$\tfrac38$"]
    assert 0.1 / (0.1 + 0.3) == 0.25 and right("pre-conditional") == ["0.25"]
    assert 0.7 + 0.6 == pytest.approx(1.3) and right("pre-expectation") == ["1.3"]
    assert np.logaddexp(5.0, 5.0) == pytest.approx(5 + math.log(2)) and right("pre-lse") == [r"$c + \log 2$"]
    with np.errstate(divide="ignore"):
        assert np.log(np.exp(-1000.0) + np.exp(-1001.0)) == -np.inf and right("pre-underflow") == [r"$-\infty$"]
    assert round(float(np.logaddexp(-1000.0, -1001.0)), 2) == -999.69
    row = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(np.exp(log_softmax(row + 3)), np.exp(log_softmax(row)), rtol=1e-12, atol=0)
    assert np.logaddexp.reduce(row + 3) == pytest.approx(np.logaddexp.reduce(row) + 3)
    assert right("pre-shift") == ["The softmax is as before, and the logarithm grows by 3."]
    with pytest.raises(ValueError, match="broadcast"):
        np.ones((5, 3)) / np.ones((5, 3)).sum(axis=1)
    assert right("pre-axis") == ["It raises an error."]
    g = np.zeros(3, int)
    g[[0, 1, 0]] += 1
    assert right("pre-scatter") == [f"`{g.tolist()}`"] == ["`[1, 1, 0]`"]
    z, places = -np.inf, {"np": np}
    with np.errstate(invalid="ignore"):
        found = [text for _, text in SELF_TEST["pre-nan"] if np.isnan(eval(text.strip("`"), places, {"z": z}))]
    assert right("pre-nan") == found and len(found) == 2
    assert np.zeros((7, 3))[:, [2, 2, 1]].shape == (7, 3)
    assert right("pre-view")[0].startswith("An array of shape (T, 3)")
