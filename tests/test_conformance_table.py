"""What is stored about other people's losses is consistent, and the tables print it: no test here asks a library.

`faults` reads data/conformance from another side than the book's extension: it counts the cases that findings name, and
compares digests, groups and names with what peers/ and the kit say today.
"""

import inspect
import json
import operator
import re
import sys
import textwrap
from dataclasses import replace
from io import StringIO
from pathlib import Path

import jsonschema
import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from reference_impl.conformance import Conventions
from reference_impl.conformance.cases import AFTERWARDS, GROUPS, cases
from reference_impl.conformance.subjects import PRECISIONS

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "book" / "_ext"), str(ROOT / "peers")]
import conformance_table  # noqa: E402
import environments  # noqa: E402
import run  # noqa: E402

FOLDER = ROOT / "data" / "conformance"
SCHEMA = json.loads((ROOT / "data" / "conformance.schema.json").read_text(encoding="utf-8"))


def stored(folder=FOLDER):
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


# --- what is stored ---


def faults(files, peers):
    """What is wrong with the reports ``{slug: report}`` of these peers."""
    known = {peer.slug: peer for peer in peers}
    found = [f"{slug}: no such peer" for slug in files.keys() - known.keys()]
    found += [f"{slug}: no report" for slug, peer in known.items() if slug not in files and peer.needs != "cuda"]
    for slug in files.keys() & known.keys():
        found += [f"{slug}: {fault}" for fault in faults_of(files[slug], known[slug])]
    return found


def faults_of(report, peer):
    """What is wrong with one."""
    errors = list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(report))
    if errors:
        yield from (f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors)
        return
    if (report["peer"], report["library"], report["kind"]) != (peer.name, peer.library, peer.kind):
        yield "another peer's report"
    if report["adapter"] != environments.digest(peer):
        yield "made by another adapter or other packages than today's: run `make conformance` for its library"
    if found := re.search(r"\.venv|site-packages|/(tmp|home|root|Users)/|0x[0-9a-f]{6}", json.dumps(report)):
        yield f"a place on the machine that made it: {found[0]}"
    packages = report["packages"], environments.pinned(peer.library)
    if peer.needs == "cuda":  # which may have run with other versions
        packages = ([each.partition("==")[0] for each in of] for of in packages)
    if operator.ne(*packages):
        yield "not the packages of its requirement files"
    groups, findings = report["groups"], report["findings"]
    if [group for group in GROUPS if group in groups] != [*groups]:
        yield "groups in another order"
    if [group for group in GROUPS if group not in groups] != report["left_out"]:
        yield "what was left out is not what was not asked"
    today = [case.id for case in cases(report["kind"], PRECISIONS)]
    today += [f"{AFTERWARDS}/{case}" for case in today]
    named = {case for finding in findings if finding["fields"] != ["again"] for case in finding["cases"]}
    if named - set(today):
        yield f"findings about cases that there are not: {', '.join(sorted(named - set(today)))}"
    for group, count in groups.items():
        there, wrong = (sum(case.startswith(f"{group}/") for case in of) for of in (today, named))
        if count["asked"] > there:
            yield f"{group}: {count['asked']} asked of {there} cases"
        if count["wrong"] != wrong:
            yield f"{group}: {count['wrong']} wrong, and findings about {wrong}"
    if report["right"] != (not findings):
        yield "right, with findings" if report["right"] else "not right, without findings"
    if set(report["departures"].values()) - {finding["sentence"] for finding in findings}:
        yield "a departure without a finding"


def test_the_reports_are_of_today_s_peers_and_add_up():
    found = faults(stored(), environments.peers())
    assert not found, "see peers/README.md, and run `make conformance`\n" + "\n".join(sorted(found))


def test_the_schema_knows_the_kit_s_names():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$defs"]["group"]["enum"] == [*GROUPS]
    assert SCHEMA["properties"]["conventions"]["required"] == [*Conventions("ctc").named()]


# --- planted faults, on made-up reports ---

PEER = next(peer for peer in environments.peers() if peer.name == "torch ctc, none")
TOLD = "The scores are taken as log-probs, and what is returned is the gradient with respect to logits."


def finding(sentence, *names, fields=("loss",), example=""):
    return {"sentence": sentence, "cases": [*names], "fields": [*fields], "example": example}


MASKS = [case.id for case in cases("ctc") if case.group == "masks"][:2]
NONE = next(case.id for case in cases("ctc") if case.group == "no alignment")


def sound(peer=PEER, /, **changes):
    """A report of a peer without faults: three cases are wrong, and there is a departure. Changes are its fields."""
    asked = {"labels": (5, 0), "masks": (2, 2), "no alignment": (6, 1)}
    conventions = Conventions(peer.kind, inputs="log_probs")
    return {
        "$schema": "../conformance.schema.json", "peer": peer.name, "library": peer.library, "date": "2026-11-24",
        "checker": "reference_impl 0.1.0", "python": "3.11.7", "machine": "Linux x86_64",
        "packages": environments.pinned(peer.library), "adapter": environments.digest(peer), "kit": "0" * 64,
        "name": "a.library.loss", "version": "1.2", "kind": peer.kind, "right": False,
        "conventions": conventions.named(), "departures": conventions.departures(),
        "identified": {"loss": True, "gradient": True, "given": ["gradient", "loss"]}, "label_is_blank": "refused",
        "prefixes": {}, "expected": {},
        "groups": {group: {"asked": asked, "wrong": wrong} for group, (asked, wrong) in asked.items()},
        "left_out": [group for group in GROUPS if group not in asked],
        "accuracy": [{"precision": "float32", "frames": 10, "loss": 1.23e-7, "gradient": "nan"}],
        "findings": [finding(TOLD, fields=["conventions"]),
                     finding("It is NaN.", *MASKS, NONE, fields=["gradient"], example="T = 1\n  gradient: nan"),
                     finding("A masked label's mass -- 'all' of it -- counts.", MASKS[1], example="T = 2")]} | changes


def test_a_sound_report_has_no_faults():
    assert faults({PEER.slug: sound()}, [PEER]) == []
    assert faults({}, [replace(PEER, needs="cuda")]) == []
    of_cuda = replace(PEER, needs="cuda")
    there = sound(adapter=environments.digest(of_cuda), packages=["torch==2.11.0+cu128", "numpy==2.5.0"])
    assert faults({PEER.slug: there}, [of_cuda]) == []
    assert faults({PEER.slug: there | {"packages": ["torch==2.11.0"]}}, [of_cuda]) == [
        f"{PEER.slug}: not the packages of its requirement files"]


@pytest.mark.parametrize("files, says", [
    ({}, "torch-ctc-none: no report"),
    ({"torch-ctc-none": sound(), "k3-ctc": sound()}, "k3-ctc: no such peer"),
    ({"torch-ctc-none": sound(adapter="1" * 64)}, "another adapter"),
    ({"torch-ctc-none": sound(label_is_blank="refused: in /tmp/x.cc")}, "a place on the machine that made it: /tmp/"),
    ({"torch-ctc-none": sound(packages=["torch==0.1"])}, "not the packages"),
    ({"torch-ctc-none": sound(peer="torch ctc, sum")}, "another peer's"),
    ({"torch-ctc-none": sound(kind="rnnt")}, "another peer's"),
    ({"torch-ctc-none": sound(more=1)}, "'more' was unexpected"),
    ({"torch-ctc-none": sound(date="yesterday")}, "date: 'yesterday' does not match"),
    ({"torch-ctc-none": sound(left_out=[])}, "what was left out"),
    ({"torch-ctc-none": sound(right=True)}, "right, with findings"),
    ({"torch-ctc-none": sound(findings=[], right=False)}, "without findings"),
    ({"torch-ctc-none": sound(findings=sound()["findings"][1:])}, "a departure without a finding"),
    ({"torch-ctc-none": sound(findings=sound()["findings"][:1])}, "masks: 2 wrong, and findings about 0"),
    ({"torch-ctc-none": sound(groups=sound()["groups"] | {"masks": {"asked": 99, "wrong": 2}})}, "99 asked of"),
    ({"torch-ctc-none": sound(groups=dict(reversed(sound()["groups"].items())))}, "another order"),
    ({"torch-ctc-none": sound(findings=[*sound()["findings"], finding("It.", "labels/none")])}, "that there are not"),
])
def test_faults_are_found(files, says):
    assert says in "\n".join(faults(files, [PEER]))


def test_what_decides_the_answers_changes_the_digest(monkeypatch, tmp_path):
    before = environments.digest(PEER)
    assert before == environments.digest(PEER) != environments.digest(replace(PEER, arguments=("sum",)))
    monkeypatch.setattr(environments, "pinned", lambda folder: ["torch==0.1"])
    assert environments.digest(PEER) != before
    monkeypatch.undo()
    for name in (f"libraries/{PEER.library}/{PEER.adapter.name}", "common/batches.py", "common/torch_autograd.py"):
        copy = tmp_path / name.replace("/", "-")
        for file in environments.HERE.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                target = copy / file.relative_to(environments.HERE)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        monkeypatch.setattr(environments, "HERE", copy)
        moved = replace(PEER, adapter=copy / "libraries" / PEER.library / PEER.adapter.name)
        assert environments.digest(moved) == before
        (copy / name).write_text((copy / name).read_text() + "\n# changed\n")
        assert environments.digest(moved) != before, name
        monkeypatch.undo()


# --- run.py ---

ANSWERS = """
    from reference_impl import ctc, log_softmax
    from reference_impl.conformance import answer
    def loss(inputs, precision):
        logits, targets, blank = (inputs[name] for name in ("logits", "targets", "blank"))
        return {"loss": ctc.loss(log_softmax(logits), targets, blank=blank),
                "gradient": ctc.grad_logits(logits, targets, blank=blank)}
    answer(loss, name="a stand-in", version="1", kind="ctc")
"""


def test_a_run_goes_on_after_a_peer_that_fails_and_repeats_what_changed(monkeypatch, tmp_path, capsys):
    few = replace(PEER, without=tuple(group for group in GROUPS if group != "masks"))
    entries = [replace(few, name="dies ctc"), replace(few, name="stumbles ctc"), few]
    code = {"dies ctc": "raise SystemExit"}
    monkeypatch.setattr(run, "peers", lambda only: entries)
    monkeypatch.setattr(run, "programs", lambda only, here: [
        (peer, [sys.executable, "-c", code.get(peer.name, textwrap.dedent(ANSWERS))], {"PYTHONPATH": str(ROOT / "src")})
        for peer in entries])
    graded = []

    def grade(subject, *, without, seconds):
        graded.append(without)
        if len(graded) == 1:
            raise ZeroDivisionError("the checker's")
        return real(subject, without=without, shrink=False)

    real = run.grade
    monkeypatch.setattr(run, "grade", grade)
    assert run.main(["--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "[1/3] dies ctc: NOT ANSWERING" in out and "[2/3] stumbles ctc: NO REPORT" in out and "ZeroDivision" in out
    assert "[3/3] torch ctc, none: 2 of 2 cases right, 0 findings" in out and "No report of: dies ctc; stumbles" in err
    written = stored(tmp_path)
    assert [*written] == [PEER.slug] and written[PEER.slug]["kit"] == run._kit()
    # of the entry with fewer groups; all else is as the schema and the other tests demand
    assert faults(written, [few]) == []

    del entries[:2]
    assert run.main(["--out", str(tmp_path), "--missing"]) == 0 and len(graded) == 2
    path = tmp_path / f"{PEER.slug}.json"
    for change in ({"kit": "0" * 64}, {"adapter": "0" * 64}):
        path.write_text(json.dumps(written[PEER.slug] | change))
        count = len(graded)
        assert run.main(["--out", str(tmp_path), "--missing"]) == 0 and len(graded) == count + 1
        assert stored(tmp_path) == written
    assert run.main(["--out", str(tmp_path)]) == 0 and len(graded) == 5


def test_a_machine_with_a_gpu_asks_what_needs_one_in_its_own_python(monkeypatch):
    monkeypatch.setattr(environments.shutil, "which", lambda name: "there")
    found = [*environments.programs(["torch", "optax"], here=True)]
    assert [peer.name for peer, *_ in found] == ["torch ctc, none, CUDA native", "torch ctc, none, cuDNN"]
    assert all(command[0] == sys.executable and command[2:] == [*peer.arguments] for peer, command, _ in found)
    stamp = run._stamp(replace(PEER, library="optax"), sys.executable, False)
    assert stamp["packages"] == environments.pinned("optax")
    assert run._stamp(PEER, sys.executable, True)["packages"] == [
        f"{name}=={run.metadata.version(name)}" for name in ("torch", "numpy")]
    monkeypatch.setattr(environments.shutil, "which", lambda name: None)
    assert [*environments.programs(["torch"], here=True)] == []


# --- the pages ---

PAGES = {
    "book/conformance": """# Tables

## CTC

```{conformance-table} ctc
```

## RNN-T

```{conformance-table} rnnt
```

## Groups

```{conformance-cases}
```

## Not here

```{conformance-left-out}
```

```{toctree}
conformance_reports
teaching/test_vectors
```
""",
    "book/conformance_reports": """# Reports

## CTC

```{conformance-reports} ctc
```

## RNN-T

```{conformance-reports} rnnt
```
""",
    "book/teaching/test_vectors": "# Vectors\n",
}


def build(folder, files, builder="html"):
    """Build the two pages of these reports; return the pages by name."""
    for name, text in PAGES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "data" / "conformance").mkdir(parents=True)
    for slug, content in files.items():
        (folder / "data" / "conformance" / f"{slug}.json").write_text(json.dumps(content), encoding="utf-8")
    warnings, out = StringIO(), folder / "_build" / builder
    settings = {"extensions": ["myst_parser", "html_repairs", "conformance_table"], "html_theme": "basic",
                "root_doc": "book/conformance", "myst_heading_anchors": 2}
    with docutils_namespace():
        Sphinx(folder, None, out, folder / "_build" / "doctrees", builder, settings, StringIO(), warnings,
               freshenv=True).build()
    assert not warnings.getvalue()
    if builder == "latex":
        return next(out.glob("*.tex")).read_text(encoding="utf-8")
    return {name: BeautifulSoup((out / f"{name}.html").read_text(encoding="utf-8"), "html.parser") for name in PAGES}


def anchors(pages):
    """What links on the page of tables may lead to, by address; links of this page have no file in front."""
    return {f"{'' if name == 'book/conformance' else name.removeprefix('book/') + '.html'}#{place['id']}": place
            for name, page in pages.items() for place in page.find_all(id=True)}


def compare(pages, files):
    """Read the built tables, and compare every row with its report."""
    places = anchors(pages)
    tables = pages["book/conformance"].select("table.conformance")
    rows = {row["id"]: row for table in tables for row in table.select("tbody tr")}
    in_order = [f"row-{peer.slug}" for kind in ("ctc", "rnnt") for peer in environments.peers()
                if peer.kind == kind and peer.slug in files]
    assert [*rows] == in_order
    for table in tables:
        heads = [head.get_text() for head in table.select("thead th")]
        assert all(head["scope"] == "col" for head in table.select("thead th")) and table.caption.get_text()
        for row in table.select("tbody tr"):
            check_row(places, row, heads, files[row["id"].removeprefix("row-")])
    assert not any(left.get_text() in {peer.name for peer in environments.peers() if peer.slug in files}
                   for left in pages["book/conformance"].select("table:not(.conformance) tbody th"))


def check_row(places, row, heads, content):
    def target(link):
        assert link["href"] in places, link["href"]
        return places[link["href"]]

    name, *cells = row(["th", "td"])
    assert name["scope"] == "row" and name.a.get_text() == content["peer"]
    assert name.get_text().endswith(f"{content['name']} {content['version']}")
    assert target(name.a).find_parent("details").find_parent("section").h3.get_text().startswith(content["peer"])
    seen = dict(zip(heads[1:], cells, strict=True))
    reached = {target(link).get_text() for cell in cells[:3] for link in cell("a")}
    for group, cell in [*seen.items()][3:]:
        count = content["groups"].get(group)
        mark = cell.p.span
        if count is None:
            assert group in content["left_out"] and cell.get_text() == "– not asked" and not cell("a")
            continue
        kind, sign = ("wrong", "✗") if count["wrong"] else ("right", "✓")
        assert mark["class"] == [f"conformance-{kind}"]
        assert mark.get_text() == f"{sign} {count['asked'] - count['wrong']}/{count['asked']}"
        place = target(cell.a)
        if count["wrong"]:
            sentence = place.get_text()
            assert any(each["sentence"] == sentence and any(case.startswith(f"{group}/") for case in each["cases"])
                       for each in content["findings"])
            section = place.find_parent("details").get_text()
            # every finding about the group stands in the report, with its cases and its drawing
            for each in content["findings"]:
                assert all(part in section for part in [each["sentence"], *each["cases"]])
                assert " ".join(each["example"].split()) in " ".join(section.split())
            reached |= {each["sentence"] for each in content["findings"]
                        if any(case.startswith(f"{group}/") for case in each["cases"])}
        else:
            assert place.name == "dt" and place.get_text() == group
    assert reached == {each["sentence"] for each in content["findings"]}, content["peer"]


def test_the_tables_say_what_is_stored(tmp_path):
    files = stored()
    compare(build(tmp_path, files), files)


@pytest.fixture
def made_up():
    """Reports of four peers: with a departure, right, without conventions, and of RNN-T."""
    named = {peer.name: peer for peer in environments.peers()}
    right, none, rnnt = (named[name] for name in ("optax ctc", "torch ctc, sum", "torchaudio rnnt, none"))
    plain = Conventions("ctc")
    unknown = {"loss": False, "gradient": False, "given": ["gradient", "loss"]}
    emphasised = Conventions("rnnt", fastemit_lambda=0.25, clamp=1.5, impossible=1e10)
    every = finding("The same input gives different answers when it is asked again.", "labels/one-label",
                    fields=["again"])
    return {
        PEER.slug: sound(),
        right.slug: sound(right, conventions=plain.named(), departures={}, right=True, findings=[],
                          groups={"labels": {"asked": 5, "wrong": 0}},
                          left_out=[group for group in GROUPS if group != "labels"]),
        none.slug: sound(none, conventions=plain.named(), departures={}, identified=unknown,
                         findings=[*sound()["findings"][1:], every]),
        rnnt.slug: sound(rnnt, conventions=emphasised.named(), departures=emphasised.departures(),
                         findings=[finding(sentence, fields=["conventions"])
                                   for sentence in emphasised.departures().values()],
                         groups={"labels": {"asked": 5, "wrong": 0}},
                         left_out=[group for group in GROUPS if group != "labels"]),
    }


def test_the_tables_of_made_up_reports(tmp_path, made_up):
    pages = build(tmp_path, made_up)
    compare(pages, made_up)
    said = {row["id"]: [cell.get_text() for cell in row("td")[:3]]
            for row in pages["book/conformance"].select("table.conformance tbody tr")}
    assert said == {
        "row-optax-ctc": ["logits", "none", "–"],
        "row-torch-ctc-none": ["logits; log-probs go in", "none", "–"],
        "row-torch-ctc-sum": ["no known convention", "no known convention",
                              "The same input gives different answers when it is asked again"],
        "row-torchaudio-rnnt-none": ["logits", "none",
                                     "FastEmit 0.25; clamped at 1.5; loss 1e+10 without alignment"]}
    part = pages["book/conformance_reports"].find(id="report-torch-ctc-none").find_parent("details")
    text = " ".join(part.get_text().split())
    for words in ("a.library.loss 1.2, of PyTorch. Graded on 2026-11-24 by reference_impl 0.1.0, Python 3.11.7, Linux",
                  "It takes log-probs.", "reduction: none.", "The gradient is that with respect to logits.",
                  "A label that equals the blank is refused.", "float32 10 1.2e-07 nan", "Not asked: repeats, short,",
                  *environments.pinned("torch")):
        assert words in text
    left = [row.get_text(" ", strip=True) for row in
            pages["book/conformance"].select("table:not(.conformance) tbody tr")]
    assert "torch ctc, none, cuDNN CTC It needs a CUDA device." in left
    assert "chainer ctc, mean (default) CTC It has an adapter, and no report yet." in left
    assert any(entry.startswith("gtn 0.0.1 CTC The source on PyPI is incomplete") for entry in left)
    terms = [term.get_text() for term in pages["book/conformance"].select("dt")]
    assert terms == [*GROUPS]


def test_an_anchor_stays_when_other_findings_go(made_up):
    before = conformance_table.Peer(PEER, "PyTorch", made_up[PEER.slug])
    after = conformance_table.Peer(PEER, "PyTorch", made_up[PEER.slug] | {"findings": before.report["findings"][2:]})
    anchors = [*conformance_table.findings(before)]
    assert len(set(anchors)) == 3 and anchors[0] == "report-torch-ctc-none-variable"
    assert [*conformance_table.findings(after)] == anchors[2:]


def test_paper_has_the_same_in_four_columns(tmp_path, made_up):
    text = re.sub(r"\s+", " ", build(tmp_path, made_up, "latex"))
    for words in ("torch ctc, none (1.2)", "gradient of logits; log\\sphinxhyphen{}probs go in; reduction: none",
                  "10/13", "masks 2/2, no alignment 1/6", "FastEmit 0.25; clamped at 1.5", "It needs a CUDA device."):
        assert words in text, words
    assert "✗" not in text.partition("Reports")[0]
    assert not re.search(r"& ?\\sphinxstyletheadfamily[^&]*10/13", text)  # which is no heading


@pytest.mark.parametrize("right, wrong", [
    ('count["asked"] - count["wrong"]', 'count["asked"]'), ("'✗' if count", "'✓' if count"),
    ('"wrong" if count', '"right" if count'), ("finding_of(peer, group) or report_id(peer)", "report_id(peer)"),
    ("cases_id(group)", 'cases_id("labels")')])
def test_wrong_tables_are_noticed(tmp_path, made_up, monkeypatch, right, wrong):
    """Cells, from a damaged copy of the extension's function."""
    source = inspect.getsource(conformance_table.cell)
    assert right in source
    scope = vars(conformance_table).copy()
    exec(source.replace(right, wrong), scope)
    monkeypatch.setattr(conformance_table, "cell", scope["cell"])
    made_up["optax-ctc"]["groups"] |= {"repeats": {"asked": 3, "wrong": 0}}
    made_up["optax-ctc"]["left_out"].remove("repeats")
    with pytest.raises(AssertionError):
        compare(build(tmp_path, made_up), made_up)
