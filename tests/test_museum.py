"""The museum of errors: every exhibit is wrong where its card says so, where the right code is right, and told once."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mentions import claims

from reference_impl.bug_bank import BUGS, CHECKS, RIGHT
from reference_impl.bug_bank.exhibits import CONFUSIONS, EXHIBITS, Exhibit
from reference_impl.conformance.cases import cases
from reference_impl.conformance.conventions import Conventions
from reference_impl.conformance.judging import Judge
from reference_impl.conformance.museum import exhibit, reproduce
from reference_impl.conformance.subjects import candidate_subject

ROOT = Path(__file__).parent.parent
CHAPTER = json.loads((ROOT / "notebooks" / "76_museum.ipynb").read_text(encoding="utf-8"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in [
    ROOT / "README.md", *sorted((ROOT / "book").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]}
EVERYTHING = "\n".join(TEXTS.values())
CHECK = {check.name: check for check in CHECKS}

every_exhibit = pytest.mark.parametrize("shown", EXHIBITS.values(), ids=EXHIBITS)


def right_for(bug):
    return next(right for right in RIGHT if (right.loss, right.variable) == (bug.loss, bug.variable))


def judge_of(candidate):
    subject = replace(candidate_subject(candidate), scores=candidate.variable)
    return Judge(subject, Conventions(candidate.loss, inputs=candidate.variable, variable=candidate.variable))


@every_exhibit
def test_it_is_wrong_there_and_the_right_code_is_right(shown):
    found = reproduce(shown)
    assert found.wrong and str(found) in exhibit(shown.key).replace("\n  ", "\n")
    case = next(case for case in cases(shown.bug.loss) if case.id == shown.case)
    assert judge_of(right_for(shown.bug)).answer(replace(case, problem=found.problem)).wrong == ()
    assert judge_of(shown.bug).answer(replace(case, problem=found.problem)).wrong
    if found.refusal:
        assert case.refusal and all(np.isfinite(each.given).all() for each in found.wrong)
    else:
        assert not any(np.array_equal(each.given, each.right, equal_nan=True) for each in found.wrong)


@every_exhibit
def test_it_is_small(shown):
    """A card holds it; what has a limit needs an input beyond the limit."""
    limit = {"many-labels": 48, "wrapped-index": 260, "mismatch": 12, "nan-padding": 12}
    assert reproduce(shown).problem.logits.size <= limit.get(shown.key, 8)


@every_exhibit
def test_the_check_that_it_names_exposes_it_and_passes_the_right_code(shown):
    check = CHECK[shown.bug.killed_by]
    assert check.kills(shown.bug) and not check.kills(right_for(shown.bug))


@every_exhibit
def test_where_it_was_met_can_be_looked_up(shown):
    assert shown.bug.claims and all(name in claims() for name in shown.bug.claims)
    assert any({"thread", "path", "run"} & {*claims()[name]} for name in shown.bug.claims)
    threads = {claims()[name].get("thread", "#").rpartition("#")[2] for name in shown.bug.claims}
    assert {*re.findall(r"#(\d+)", shown.bug.source)} <= threads


@every_exhibit
def test_it_says_what_was_believed_and_the_truth(shown):
    for said in (shown.bug.believed, shown.bug.truth):
        assert said[:1] in "`$" or said[:1].isupper()
        assert said.endswith((".", "?")) and "  " not in said
    for label in re.findall(r"\{eq\}`([\w-]+)`", shown.bug.truth):
        assert f"$$ ({label})" in EVERYTHING, label
    for label in re.findall(r"\{ref\}`([\w-]+)`", shown.bug.truth):
        assert f"({label})=" in EVERYTHING, label


def test_there_are_enough_and_each_bug_hangs_once():
    assert len(EXHIBITS) >= 25 and len({shown.bug.name for shown in EXHIBITS.values()}) == len(EXHIBITS)
    assert {bug.name for bug in (*BUGS, *CONFUSIONS) if bug.believed} == {e.bug.name for e in EXHIBITS.values()}
    assert not {bug.name for bug in BUGS} & {bug.name for bug in CONFUSIONS}


def test_each_hangs_in_its_room_and_nowhere_else():
    """The chapter has room, label and card of each in order; other pages have links to labels that exist."""
    found, room = [], None
    for cell in CHAPTER["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            room = (re.findall(r"^## (.*)$", text, re.M) or [room])[-1]
            label = re.findall(r"^\(museum-([\w-]+)\)=$", text, re.M)
        elif re.match(r'exhibit\("', text):
            found.append((room, *label, *re.findall(r'^exhibit\("([\w-]+)"\)$', text)))
    assert found == [(shown.room, key, key) for key, shown in EXHIBITS.items()]
    linked = re.findall(r"\{ref\}`(?:[^`<]*<)?museum-([\w-]+)>?`", EVERYTHING)
    assert linked and {*linked} <= {*EXHIBITS}
    assert sum(EVERYTHING.count(f"(museum-{key})=") for key in EXHIBITS) == len(EXHIBITS)
    for shown in EXHIBITS.values():
        for said in (shown.bug.believed, shown.bug.truth, shown.bug.mechanism):
            assert said not in EVERYTHING, f"{shown.key} is told a second time"


def test_a_case_that_does_not_show_it_is_refused():
    shown = EXHIBITS["frames-enough"]
    with pytest.raises(ValueError, match="^frames-enough answers short/two-symbols as it should$"):
        reproduce(replace(shown, case="short/two-symbols"))
    with pytest.raises(ValueError, match="^mine answers labels/one-label as it should$"):
        reproduce(Exhibit("mine", "", right_for(shown.bug), "labels/one-label"))
