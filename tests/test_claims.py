"""What the book says about other people's code: each statement has an address, and each mention a mark.

A paragraph that mentions a library, by one of its spellings in data/claims.json, needs a claim about that library, or
{named} with one of its spellings where it claims nothing. A thread, such as pytorch#52241, needs the claim that has its
address. Headings, titles of boxes, code, and texts of links within the book need none; what counts as another sense of
a spelling, such as "in torch", is in the data too.
"""

import json
import re
import sys
from functools import cache

import jsonschema
import pytest
from mentions import (
    ROOT,
    Paragraph,
    all_paragraphs,
    claims,
    data,
    libraries_in,
    marked,
    paragraphs,
    sources_of_bugs,
    threads_in,
)

from reference_impl.conformance.cases import cases
from reference_impl.conformance.subjects import PRECISIONS

sys.path.append(str(ROOT / "tools"))
from sort_claims import as_text  # noqa: E402

FILE = ROOT / "data" / "claims.json"


# --- the data ---


def unsaid(report, words):
    """What a report of data/conformance does not say, of the words `NAME: VALUE; ...` of a claim."""
    known = all(report["identified"][each] for each in report["identified"]["given"])
    for part in words.split("; "):
        name, _, value = part.partition(": ")
        sentences = [finding["sentence"] for finding in report["findings"] if name in finding["cases"]]
        if name in report["conventions"]:
            says = known and report["conventions"][name] == value
        elif value == "right":
            says = name.partition("/")[0] in report["groups"] and name in case_names(report["kind"]) and not sentences
        else:
            says = any(value in sentence or value == "wrong" for sentence in sentences)
        if not (value and says):
            yield part


@cache
def case_names(kind):
    return {case.id for case in cases(kind, PRECISIONS)}


def faults_of_run(claim):
    """What is wrong with the place where a claim's answer can be seen."""
    name, (file, _, place) = claim["id"], claim["run"].partition("#")
    if not (ROOT / file).is_file():
        yield f"{name}: there is no {file}"
        return
    text = (ROOT / file).read_text(encoding="utf-8")
    is_report = file.startswith("data/conformance/")
    if is_report:
        yield from (f"{name}: {file} does not say: {part}" for part in unsaid(json.loads(text), place))
    elif place and place not in text:
        yield f"{name}: {file} has no {place}"
    if is_report or file.startswith("data/calls/"):
        packages = {plain(each.replace("==", " ")) for each in json.loads(text)["packages"]}
        yield from (f"{name}: {file} is not of {each or 'any release'}"
                    for each in claim.get("release", "").split(", ") if plain(each) not in packages)


def plain(package):
    """Name and version as they are compared: torch_x 1.0+cpu is Torch-X 1.0."""
    return package.partition("+")[0].replace("_", "-").lower()


def faults(content):
    """What is wrong with the data, beyond their schema: ids, libraries, commits, lines, and what was run."""
    found = []
    names = [claim["id"] for claim in content["claims"]]
    found += [f"{name} stands twice" for name in {name for name in names if names.count(name) > 1}]
    for claim in content["claims"]:
        name, library = claim["id"], content["libraries"].get(claim["library"])
        if library is None:
            found.append(f"{name}: no library {claim['library']}")
            continue
        if not name.startswith(f"{claim['library']}-"):
            found.append(f"{name} does not begin with {claim['library']}-")
        if "path" in claim:
            if not (claim.get("repository") or library["repository"]):
                found.append(f"{name} has no repository")
            version = library if "repository" not in claim else {}
            if not ({"commit", "tag"} & {*claim, *version}):
                found.append(f"{name} has no commit of its repository")
            if claim["lines"][0] > claim["lines"][1]:
                found.append(f"{name}: lines {claim['lines']}")
        found += [f"{name}: {word} is not in backticks, and no line of the PDF breaks in it"
                  for word in re.sub("`.*?`", "", claim["statement"]).split() if len(word) > 24]
        if "run" in claim:
            found += faults_of_run(claim)
    return found


def test_the_data_are_as_the_schema_says():
    schema = json.loads((ROOT / "data" / "claims.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data(), schema, cls=jsonschema.Draft202012Validator)
    assert faults(data()) == []


def test_the_data_stand_in_order():
    assert FILE.read_text(encoding="utf-8") == as_text(data()), "run `make claims`"


SOUND = {"id": "x-a", "library": "x", "statement": "It is.", "path": "f.c", "lines": [1, 2], "date": "2026-11-24",
         "evidence": "read"}


@pytest.mark.parametrize("change", [
    {"path": None}, {"lines": None}, {"thread": "a/b#1"}, {"evidence": "run"}, {"run": "data/cpu.json"},
    {"evidence": "guessed"}, {"date": "yesterday"}, {"statement": "no sentence"}, {"more": 1}, {"lines": [0, 2]},
    {"commit": "abc"}, {"path": None, "lines": None, "evidence": "run", "run": "elsewhere.txt"},
])
def test_the_schema_refuses_what_is_no_claim(change):
    schema = json.loads((ROOT / "data" / "claims.schema.json").read_text(encoding="utf-8"))
    whole = {"$schema": "claims.schema.json", "claims": [SOUND],
             "libraries": {"x": {"name": "x", "spellings": ["x1"], "repository": None}}}
    jsonschema.validate(whole, schema)
    claim = {key: value for key, value in (SOUND | change).items() if value is not None}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(whole | {"claims": [claim]}, schema)


def test_faults_are_found():
    library = {"name": "x", "spellings": ["x1"], "repository": "a/x", "commit": "0" * 40}
    content = {"libraries": {"x": library}, "claims": [SOUND]}
    assert faults(content) == []
    for change, message in [
            ({"id": "y-a"}, "does not begin"), ({"library": "z"}, "no library z"), ({"lines": [3, 2]}, "lines [3, 2]"),
            ({"repository": "b/y"}, "no commit of its repository"),
            ({"statement": "It is (in csrc/distributed/c10d/reducer.hpp)."}, "reducer.hpp). is not in backticks"),
            ({"run": "data/none.json"}, "there is no data/none"),
            ({"run": "data/cpu.json#no-such-cell"}, "has no no-such-cell")]:
        assert message in "\n".join(faults(content | {"claims": [SOUND | change]}))
    assert faults(content | {"claims": [SOUND, SOUND]}) == ["x-a stands twice"]
    for where, message in [("data/calls/k2.json#lengths", "is not of any release"),
                           ("data/calls/k2.json#length", "is not of any release"),
                           ("data/calls/k2.json#longer", "has no longer"),
                           ("data/conformance/torch-ctc-sum.json", "does not say")]:
        assert message in "\n".join(faults(content | {"claims": [SOUND | {"run": where}]}))
    for release, other in [("k2 1.23.4", []), ("K2 1.23.4, torch 1.13.1", []), ("k2 1.23", ["k2 1.23"]),
                           ("k2 1.23.4, torch 2.0", ["torch 2.0"])]:
        here = [SOUND | {"run": "data/calls/k2.json#lengths", "release": release}]
        assert faults(content | {"claims": here}) == [f"x-a: data/calls/k2.json is not of {each}" for each in other]
    bare = content | {"libraries": {"x": library | {"repository": None}}}
    assert faults(bare) == ["x-a has no repository"]


REPORT = {"kind": "ctc", "conventions": {"reduction": "none, / T", "impossible": "0"},
          "identified": {"loss": True, "gradient": False, "given": ["loss"]},
          "groups": {"masks": {"asked": 2, "wrong": 1}, "batch": {"asked": 5, "wrong": 0}},
          "findings": [{"sentence": "The loss is NaN.", "cases": ["masks/on-the-way"]}]}


@pytest.mark.parametrize("words, lacks", [
    ("reduction: none, / T; impossible: 0", []), ("reduction: none", ["reduction: none"]), ("blank: 0", ["blank: 0"]),
    ("masks/on-the-way: NaN; reduction: mean", ["reduction: mean"]),
    ("masks/on-the-way: wrong; masks/label-elsewhere: right", []),
    ("masks/on-the-way: inf", ["masks/on-the-way: inf"]), ("masks/on-the-way: right", ["masks/on-the-way: right"]),
    ("masks/label-elsewhere: wrong", ["masks/label-elsewhere: wrong"]), ("masks/none: right", ["masks/none: right"]),
    ("short/empty-target: right", ["short/empty-target: right"]),  # which was not asked
    ("masks/on-the-way", ["masks/on-the-way"]), ("", [""]),
])
def test_what_a_report_does_not_say(words, lacks):
    assert list(unsaid(REPORT, words)) == lacks


def test_what_is_not_known_is_not_said():
    unknown = REPORT | {"identified": {"loss": True, "gradient": False, "given": ["gradient", "loss"]}}
    assert list(unsaid(unknown, "impossible: 0; masks/on-the-way: NaN")) == ["impossible: 0"]


# --- the text ---


def unmarked(paragraph, libraries, known):
    """What a paragraph lacks: a claim or {named} for a library, the claim of a thread, an id that exists."""
    found = [f"there is no claim {name}" for name in paragraph.claims if name not in known]
    here = [known[name] for name in paragraph.claims if name in known]
    covered = {claim["library"] for claim in here}
    for name in paragraph.named:
        named = libraries_in(name, libraries)
        covered |= named
        if not named:
            found.append(f"{{named}}`{name}` names no library")
    text = re.sub(r"\S+#\d+", " ", paragraph.text)
    found += [f"{key} is mentioned" for key in sorted(libraries_in(text, libraries) - covered)]
    numbers = {int(claim["thread"].rpartition("#")[2]) for claim in here if "thread" in claim}
    return found + [f"the thread #{number} is mentioned" for number in sorted(threads_in(paragraph.text) - numbers)]


def test_every_mention_has_a_claim_or_says_that_it_claims_nothing():
    found = [f"{paragraph.place}: {fault}" for paragraph in [*all_paragraphs(), *sources_of_bugs()]
             for fault in unmarked(paragraph, data()["libraries"], claims())]
    assert found == [], "see *Other people's code* in CONTRIBUTING.md\n" + "\n".join(found)


def test_every_claim_is_made_somewhere():
    made = {name for paragraph in [*all_paragraphs(), *sources_of_bugs()] for name in paragraph.claims}
    assert {*claims()} - made == set()


# --- planted violations ---

LIBRARIES = {
    "torch": {"spellings": ["PyTorch", "Torch", "torch", "torch.nn.functional.ctc_loss"],
              "other_senses": ["in torch", "torch losses"]},
    "k2": {"spellings": ["k2"]}, "fast": {"spellings": ["fast_rnnt"]}}
KNOWN = {"torch-nan": {"library": "torch"}, "k2-sums": {"library": "k2"},
         "torch-asked": {"library": "torch", "thread": "pytorch/pytorch#52241"}}


@pytest.mark.parametrize("text, lacks", [
    ("Torch's gradient is NaN.", ["torch is mentioned"]),
    ("Torch's gradient is NaN {claim}`torch-nan`.", []),
    ("Torch's gradient is NaN {claim}`torch-nun`.", ["there is no claim torch-nun", "torch is mentioned"]),
    ("Torch's gradient is NaN, k2's is not{claim}`torch-nan`.", ["k2 is mentioned"]),
    ("Torch's gradient is NaN, k2's is not{claim}`torch-nan, k2-sums`.", []),
    ("A little {named}`PyTorch`. No more PyTorch.", []),
    ("A little {named}`PyTorch`, and k2.", ["k2 is mentioned"]),
    ("A little {named}`Pytorch`.", ["{named}`Pytorch` names no library"]),
    ("The torch losses are written in torch, with `torch.where` and `torch_impl`.", []),
    ("In `torch.nn.functional.ctc_loss` it is NaN.", ["torch is mentioned"]),
    ("See [k2's kernel](63.ipynb), {ref}`torch's gradient <mis>` and {cite:t}`k2`.", []),
    ("See [k2](https://example.org).", ["k2 is mentioned"]),
    ("As `fast_rnnt` does.", ["fast is mentioned"]),
    ("Asked in pytorch#52241.", ["the thread #52241 is mentioned"]),
    ("Asked in pytorch#52241, #7{claim}`torch-asked`.", ["the thread #7 is mentioned"]),
    ("Asked in pytorch#52241{claim}`torch-asked`.", []),
    (":claim:`torch-nan` The gradient of :named:`k2` is torch's.", []),
])
def test_planted_violations(text, lacks):
    assert unmarked(marked("here", text), LIBRARIES, KNOWN) == lacks


PAGE = """---
of: torch
---
# A page about torch

Torch one.
Torch, again.

- torch two
  and more
- three {claim}`torch-nan`

| torch | four |
|---|---|
| k2 | five |

:::{admonition} Torch in a title
:class: torch
Inside: k2.

```python
torch
```
:::

```{exercise} Torch
:label: ex-torch
Six: k2.
```

$$
torch
$$

    torch = 1

A term of k2
: torch

> torch quoted
> twice

(torch-label)=
The end, $k2$.
"""


def test_paragraphs_of_a_page():
    found = list(paragraphs("page", PAGE))
    assert [paragraph.text for paragraph in found] == [
        "Torch one. Torch, again.", "- torch two and more", "- three", "| torch | four |", "|---|---|", "| k2 | five |",
        "Inside: k2.", "Six: k2.", "A term of k2", ": torch", "torch quoted twice", "The end, ."]
    assert found[0].place == "page:6" and found[2].claims == ("torch-nan",)
    lacking = [paragraph.text for paragraph in found if unmarked(paragraph, LIBRARIES, KNOWN)]
    assert lacking == ["Torch one. Torch, again.", "- torch two and more", "| torch | four |", "| k2 | five |",
                       "Inside: k2.", "Six: k2.", "A term of k2", ": torch", "torch quoted twice"]


def test_a_bug_after_a_library_needs_a_claim():
    assert unmarked(Paragraph("bug", "after k2's smoothing"), LIBRARIES, KNOWN) == ["k2 is mentioned"]
    assert unmarked(Paragraph("bug", "after k2's smoothing", ("k2-sums",)), LIBRARIES, KNOWN) == []


def test_all_kinds_of_pages_are_read():
    places = {re.split(r"[:#]", paragraph.place)[0] for paragraph in all_paragraphs()}
    assert {"README.md", "book/preface.md", "book/teaching/slides/session_1.md", "notebooks/45_ctc_in_practice.ipynb",
            "reference_impl.ctc", "reference_impl.bug_bank.matrix"} <= places
